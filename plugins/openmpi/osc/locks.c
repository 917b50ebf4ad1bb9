/* SPDX-License-Identifier: BSD-3-Clause */
/* openmpi/osc/locks.c: the lock of one rank's window (locks.h). */
#include "openmpi/osc/locks.h"

void hk_osc_lock_init(struct hk_osc_lock *l)
{
	*l = (struct hk_osc_lock){.head = HK_OSC_NOBODY};
}

static bool take(struct hk_osc_lock *l, struct hk_osc_waiter *by, bool exclusive)
{
	if (l->writer || (exclusive && l->readers))
		return false;
	l->writer = exclusive;
	l->readers += !exclusive;
	by->granted = ++l->grants;
	return true;
}

bool hk_osc_lock_try(struct hk_osc_lock *l, struct hk_osc_waiter *all, uint32_t rank,
		     bool exclusive)
{
	return l->head == HK_OSC_NOBODY && take(l, &all[rank], exclusive);
}

void hk_osc_lock_wait(struct hk_osc_lock *l, struct hk_osc_waiter *all, uint32_t rank,
		      bool exclusive)
{
	uint32_t *link = &l->head;

	/* mostly it is the last one, for it had the lock just now */
	if (l->head != HK_OSC_NOBODY && all[l->tail].granted <= all[rank].granted)
		link = &all[l->tail].next;
	while (*link != HK_OSC_NOBODY && all[*link].granted <= all[rank].granted)
		link = &all[*link].next;
	all[rank].waits = true;
	all[rank].exclusive = exclusive;
	all[rank].next = *link;
	if (*link == HK_OSC_NOBODY)
		l->tail = rank;
	*link = rank;
}

bool hk_osc_lock_release(struct hk_osc_lock *l)
{
	if (!l->writer && !l->readers)
		return false;
	l->readers -= !l->writer;
	l->writer = false;
	return true;
}

uint32_t hk_osc_lock_next(struct hk_osc_lock *l, struct hk_osc_waiter *all)
{
	uint32_t rank = l->head;

	if (rank == HK_OSC_NOBODY || !take(l, &all[rank], all[rank].exclusive))
		return HK_OSC_NOBODY;
	l->head = all[rank].next;
	all[rank].waits = false;
	return rank;
}

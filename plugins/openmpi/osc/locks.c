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

bool hk_osc_lock_try(struct hk_osc_lock *l, struct hk_osc_waiters all, uint32_t rank,
		     bool exclusive)
{
	bool is_next = l->head >= all.ranks || all.of[l->head].granted > all.of[rank].granted;

	return is_next && take(l, &all.of[rank], exclusive);
}

void hk_osc_lock_wait(struct hk_osc_lock *l, struct hk_osc_waiters all, uint32_t rank,
		      bool exclusive)
{
	uint32_t *link = &l->head;

	/* mostly it is the last one, for it had the lock just now */
	if (l->head < all.ranks && l->tail < all.ranks &&
	    all.of[l->tail].granted <= all.of[rank].granted)
		link = &all.of[l->tail].next;
	for (uint32_t n = 0; n < all.ranks && *link < all.ranks; n++) {
		if (all.of[*link].granted > all.of[rank].granted)
			break;
		link = &all.of[*link].next;
	}
	all.of[rank].waits = true;
	all.of[rank].exclusive = exclusive;
	all.of[rank].next = *link;
	if (*link >= all.ranks)
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

uint32_t hk_osc_lock_next(struct hk_osc_lock *l, struct hk_osc_waiters all)
{
	uint32_t rank = l->head;

	if (rank >= all.ranks || !take(l, &all.of[rank], all.of[rank].exclusive))
		return HK_OSC_NOBODY;
	l->head = all.of[rank].next;
	all.of[rank].waits = false;
	return rank;
}

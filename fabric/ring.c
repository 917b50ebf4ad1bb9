/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/ring.c: who waits rings. A peer's polling process may sleep (port/bell.h), so a sender that has
 * heard nothing for `ring_after` wakes it, over the bell of the wire. Whoever drives the fabric does so: the
 * application's thread while it polls, the polling process in its stead.
 *
 * A peer that polls answers sooner. One that does not, and whose process has taken in what came, has
 * acknowledged it: so in the ordinary course of things nobody rings twice.
 */
#include "fabric/internal.h"
#include "port/bell.h"

#define AT_ONCE 8

/* An application that sends much waits for room again and again, and mostly in MPI. */
#define OWN_PAUSE (4 * HK_MSEC)

/* Ringing in vain: the first pause after a ring, doubled each time up to the last. Wakes at the other end
 * cost its ranks CPU. */
#define PAUSE_MIN (500 * HK_USEC)
#define PAUSE_MAX (8 * HK_MSEC)

/* Of this process: what was rung on each wire, by DPDK's port. Peers of one wire have one listener. */
static struct {
	uint64_t at, pause;
} rung[RTE_MAX_ETHPORTS];

/* Due, if something was acknowledged since the last ring, or long enough after it. */
static bool due(uint16_t id, uint64_t since, uint64_t now)
{
	if (since > rung[id].at) {
		rung[id].pause = PAUSE_MIN;
	} else {
		if (now - rung[id].at < rung[id].pause)
			return false;
		rung[id].pause = HK_MIN(2 * rung[id].pause, PAUSE_MAX);
	}
	rung[id].at = now;
	return true;
}

void hk_rings_look(struct hk_fabric *f, uint64_t now)
{
	struct hk_unheard u[AT_ONCE];
	unsigned n = hk_engine_unheard(f->engine, now, f->cfg.ring_after, f->rings_passed, u,
				       AT_ONCE);

	/* the next look goes on from here: the ranks of one node that hangs may be many, and always the first */
	f->rings_passed = n < AT_ONCE ? 0 : f->rings_passed + n;
	f->ring_at = now + f->cfg.ring_after / 2;
	for (unsigned i = 0; i < n; i++) {
		/* a pipe has no bell (the switch, which the frame has woken, sees to it), a wire for bulk has */
		uint16_t id = f->lane[f->peer[u[i].peer].bulk]->port->id;

		if (id < RTE_MAX_ETHPORTS && due(id, u[i].since, now) &&
		    hk_bell_ring_wire(id, HK_BELL_POLLER))
			f->n.rings++;
	}
}

bool hk_fabric_silent(struct hk_fabric *f, uint64_t ns)
{
	struct hk_unheard one;

	hk_biased_enter(&f->lock);
	unsigned n = hk_engine_unheard(f->engine, hk_now(f), ns, 0, &one, 1);

	hk_biased_leave(&f->lock);
	return n > 0;
}

/* Messages wait for room, and the application may leave MPI now: its polling process sends them when there
 * is some. It still counts as present, so if that process is awake it is to look once more. */
void hk_ring_own(struct hk_fabric *f)
{
	uint64_t now = hk_now(f);

	if (!f->lock.processes || now - f->left_work_at < OWN_PAUSE)
		return;
	f->left_work_at = now;
	(void)hk_bell_ask(HK_BELL_POLLER);
}

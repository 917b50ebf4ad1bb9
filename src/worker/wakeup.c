/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/wakeup.c: waking the pollers of peers that do not answer.
 *
 * A peer's poller may sleep (port/wakeup.h). A sender that has received nothing from a peer for
 * cfg.wakeup_after wakes that poller, through the wakeup of the wire. The application's thread does
 * so while it polls; otherwise the poller of this node does.
 *
 * A peer that polls answers sooner. A peer that does not poll, and whose poller has taken in what
 * arrived, has acknowledged it. So normally no sender signals twice.
 */
#include "worker/wakeup.h"
#include "port/wakeup.h"

#define PEERS_AT_ONCE 8

/* An application that sends much waits for space again and again, mostly inside MPI. */
#define OWN_PAUSE (4 * HK_MSEC)

/* Signals without effect: the first pause after one, doubled each time up to the last. A wakeup
 * costs the ranks of the other node CPU time. */
#define PAUSE_MIN (500 * HK_USEC)
#define PAUSE_MAX (8 * HK_MSEC)

/* Signals of this process on each wire, by DPDK's port. Peers of one wire have one poller. */
static struct {
	uint64_t at, pause;
} signalled[RTE_MAX_ETHPORTS];

/* True if something was acknowledged since the last signal, or if that was long enough ago. */
static bool due(uint16_t id, uint64_t since, uint64_t now)
{
	if (since > signalled[id].at) {
		signalled[id].pause = PAUSE_MIN;
	} else {
		if (now - signalled[id].at < signalled[id].pause)
			return false;
		signalled[id].pause = HK_MIN(2 * signalled[id].pause, PAUSE_MAX);
	}
	signalled[id].at = now;
	return true;
}

void hk_wakeup_silent_peers(struct hk_worker *w, uint64_t now)
{
	struct hk_silent_peer u[PEERS_AT_ONCE];
	unsigned n = hk_engine_silent_peers(w->engine, now, w->cfg.wakeup_after, w->wakeup.skip, u,
					    PEERS_AT_ONCE);

	/* the next look starts here: a node that hangs may have many ranks, which would always
	 * come first */
	w->wakeup.skip = n < PEERS_AT_ONCE ? 0 : w->wakeup.skip + n;
	w->wakeup.at = now + w->cfg.wakeup_after / 2;
	for (unsigned i = 0; i < n; i++) {
		/* a pipe has no wakeup, because the switch, which the frame has woken, signals;
		 * a wire for bulk has one */
		uint16_t id = w->txq[w->peer[u[i].peer].tx.bulk_txq]->port->id;

		if (id < RTE_MAX_ETHPORTS && due(id, u[i].since, now) &&
		    hk_wakeup_signal_wire(id, HK_WAKEUP_POLLER))
			w->n.wakeups_sent++;
	}
}

bool hk_worker_peer_silent(struct hk_worker *w, uint64_t ns)
{
	struct hk_silent_peer one;

	hk_biased_enter(&w->lock);
	unsigned n = hk_engine_silent_peers(w->engine, hk_now(w), ns, 0, &one, 1);

	hk_biased_leave(&w->lock);
	return n > 0;
}

/* Messages wait for space, and the application may leave MPI now. Our own poller sends them when
 * there is space. The rank still counts as polling, so a poller that is awake is requested to poll
 * once more. */
void hk_wakeup_own_poller(struct hk_worker *w)
{
	uint64_t now = hk_now(w);

	if (!w->lock.processes || now - w->wakeup.own_poller_at < OWN_PAUSE)
		return;
	w->wakeup.own_poller_at = now;
	(void)hk_wakeup_request(HK_WAKEUP_POLLER);
}

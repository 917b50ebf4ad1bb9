/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/congestion.c: how many packets may be in flight.
 *
 * DESIGN NOTES
 *
 * Problem: more packets in flight than the path can carry fill queues, or are lost there.
 *
 * Approach, after Swift (SIGCOMM 2020): the round-trip time beyond its minimum is queueing delay.
 * The congestion window grows while that delay is below a target. Above the target it shrinks in
 * proportion to the excess, at most once per round trip. A loss while queues are short hints more
 * at the wire than at congestion, so it reduces the window by only an eighth. A loss while
 * queues are long reduces it by half.
 */
#include "engine/internal.h"

#define HK_CWND_START (32u << 8)
/* Behind a network switch: small packets of two thousand peers fit its buffer then. */
#define HK_CWND_START_SWITCHED (4u << 8)
#define HK_CWND_MIN            (4u << 8)
#define HK_CWND_GROW           2u /* packets per round trip after the first reduction */

void hk_cc_start(const struct hk_engine *e, struct hk_peer_rec *r)
{
	uint32_t start = e->cfg.link_mbps ? HK_CWND_START_SWITCHED : HK_CWND_START;

	r->cwnd = HK_MIN(start, (uint32_t)e->cfg.window << 8);
	r->ssthresh = UINT32_MAX;
}

static void cut(struct hk_peer_rec *r, uint32_t to, uint64_t now)
{
	r->cwnd = HK_MAX(to, HK_CWND_MIN);
	r->ssthresh = r->cwnd;
	r->cut_at = now;
}

static bool cut_recently(const struct hk_peer_rec *r, uint64_t now)
{
	return now - r->cut_at < r->srtt;
}

void hk_cc_acked(const struct hk_engine *e, struct hk_peer_rec *r, unsigned packets, uint64_t now)
{
	uint32_t max = (uint32_t)e->cfg.window << 8;
	uint64_t delay = r->last_rtt - HK_MIN(r->last_rtt, r->min_rtt);
	uint64_t target = e->cfg.target_delay;

	if (HK_LIKELY(delay <= target)) {
		r->cwnd_before = 0;
		if (HK_LIKELY(r->cwnd == max))
			return;
		uint32_t grow = packets << 8;

		if (r->cwnd >= r->ssthresh)
			grow = (grow * HK_CWND_GROW) / (r->cwnd >> 8);
		r->cwnd = HK_MIN(r->cwnd + grow, max);
		return;
	}
	if (cut_recently(r, now))
		return;
	/* reduce by 0.8 of the excess, at most by half */
	uint64_t excess = (uint64_t)r->cwnd * (delay - target) / delay * 4 / 5;

	cut(r, r->cwnd - (uint32_t)HK_MIN(excess, r->cwnd / 2), now);
}

void hk_cc_lost(const struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	if (cut_recently(r, now))
		return;
	bool queue = r->last_rtt - HK_MIN(r->last_rtt, r->min_rtt) > e->cfg.target_delay / 2;

	cut(r, r->cwnd - (queue ? r->cwnd / 2 : r->cwnd / 8), now);
}

void hk_cc_timeout(struct hk_peer_rec *r, uint64_t now)
{
	if (!r->cwnd_before)
		r->cwnd_before = r->cwnd;
	cut(r, r->cwnd / 2, now);
}

/* Undoes the reduction after a spurious timeout (after RFC 3522): the packet had arrived, and the
 * peer only answered late, for example because its application computed. */
void hk_cc_spurious(struct hk_peer_rec *r)
{
	r->cwnd = HK_MAX(r->cwnd, r->cwnd_before);
	r->cwnd_before = 0;
}

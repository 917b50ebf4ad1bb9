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
 *
 * Marks: a network that marks frames in a queue (ECN) tells of the queue before the delay does. The
 * receiver counts marked frames, and each of its frames has that count. Once a round trip the
 * sender takes the marked part of its packets into an average. It reduces the window by half of the
 * average then (DCTCP, RFC 8257).
 *
 * Many senders: with a thousand peers, one packet of each fills a switch port. So behind a network
 * switch the window may fall below one packet. One packet is in flight then, and after its
 * acknowledgement the next one waits, so that the rate is that of the window. For the same reason a
 * peer starts with one packet there, and a window that has shrunk grows by a sixteenth. Bulk that
 * its receiver has granted may have four packets in flight at any time, because all that a receiver
 * grants fits the port's buffer. On a wire with two ends nobody else fills the queue, and the
 * window has four packets at least.
 *
 * Slow links: a receiver grants a few frames of bulk at least, and one of 9000 bytes takes 720 us
 * at 100 Mb/s. So the target is at least the time of such a queue. Otherwise small messages beside
 * bulk would have windows far below one packet.
 *
 * A timeout leaves one packet: the timer backs off by itself, and the peer may only be slow.
 */
#include "engine/internal.h"

#define ONE            (1u << 8) /* a window of one packet */
#define START          (32 * ONE)
#define START_SWITCHED ONE
#define LEAST          (4 * ONE)
#define LEAST_SWITCHED (ONE / 64)
#define GROW           (2 * ONE)      /* in a round trip, after the first reduction */
#define GROW_SWITCHED  (ONE / 16)     /* the same at most for one packet */
#define TARGET_BYTES   250000u        /* of queue */
#define QUEUE_OF_BULK  (96u << 10)    /* what grants may queue on a slow link */
#define TARGET_LEAST   (50 * HK_USEC) /* the hosts alone delay by some of this */
#define PART_SHIFT     4              /* weight of a round trip in the average: 1/16 */

void hk_cc_init(struct hk_engine *e)
{
	const uint64_t bits_ms = 8 * 1000; /* a byte at 1 Mb/s takes so many ns */
	uint64_t target = e->cfg.target_delay, mbps = e->cfg.link_mbps;

	if (mbps) {
		target = HK_MIN(target, HK_MAX(TARGET_BYTES * bits_ms / mbps, TARGET_LEAST));
		target = HK_MAX(target, QUEUE_OF_BULK * bits_ms / mbps);
	}
	e->target_delay = target;
}

void hk_cc_start(const struct hk_engine *e, struct hk_peer_rec *r)
{
	uint32_t start = e->cfg.link_mbps ? START_SWITCHED : START;

	r->cwnd = HK_MIN(start, (uint32_t)e->cfg.window << 8);
	r->ssthresh = UINT32_MAX;
}

static uint32_t least(const struct hk_engine *e)
{
	return e->cfg.link_mbps ? LEAST_SWITCHED : LEAST;
}

static void cut(struct hk_peer_rec *r, uint32_t to, uint32_t floor, uint64_t now)
{
	r->cwnd = HK_MIN(HK_MAX(to, floor), r->cwnd);
	r->ssthresh = r->cwnd;
	r->cut_at = now;
}

static bool cut_recently(const struct hk_peer_rec *r, uint64_t now)
{
	return now - r->cut_at < r->srtt;
}

static uint32_t growth(const struct hk_engine *e, const struct hk_peer_rec *r, unsigned packets)
{
	if (r->cwnd < r->ssthresh)
		return packets * ONE;
	uint32_t grow = packets * GROW / HK_MAX(r->cwnd >> 8, 1u);

	return HK_UNLIKELY(e->cfg.link_mbps != 0) ? HK_MIN(grow, packets * GROW_SWITCHED) : grow;
}

void hk_cc_acked(const struct hk_engine *e, struct hk_peer_rec *r, unsigned packets, uint64_t now)
{
	uint32_t max = (uint32_t)e->cfg.window << 8;
	uint64_t delay = r->last_rtt - HK_MIN(r->last_rtt, r->min_rtt);
	uint64_t target = e->target_delay;

	if (HK_LIKELY(delay <= target)) {
		r->cwnd_before = 0;
		if (HK_LIKELY(r->cwnd == max))
			return;
		r->cwnd = HK_MIN(r->cwnd + growth(e, r, packets), max);
		return;
	}
	if (cut_recently(r, now))
		return;
	/* reduce by 0.8 of the excess, at most by half */
	uint64_t excess = (uint64_t)r->cwnd * (delay - target) / delay * 4 / 5;

	cut(r, r->cwnd - (uint32_t)HK_MIN(excess, r->cwnd / 2), least(e), now);
}

void hk_cc_marks(const struct hk_engine *e, struct hk_peer_rec *r, unsigned packets, uint8_t marks,
		 uint64_t now)
{
	uint8_t marked = (uint8_t)(marks - r->tx_marks);

	if (marked >= 128) /* a frame that others have overtaken */
		marked = 0;
	r->tx_marks = (uint8_t)(r->tx_marks + marked);
	if (r->marked_part == 0) { /* the first one for long */
		if (!marked)
			return;
		r->marked_part = UINT16_MAX;
		r->round_end = r->tx_una;
	}
	r->round_acked = (uint16_t)HK_MIN(r->round_acked + packets, UINT16_MAX);
	r->round_marked = (uint16_t)HK_MIN(r->round_marked + marked, r->round_acked);
	if (hk_psn_before(r->tx_una, r->round_end))
		return;
	uint32_t part = r->round_marked * (uint32_t)UINT16_MAX / r->round_acked;

	r->marked_part = (uint16_t)((r->marked_part * ((1u << PART_SHIFT) - 1) + part) >>
				    PART_SHIFT);
	if (r->round_marked && !cut_recently(r, now))
		cut(r, r->cwnd - (uint32_t)((uint64_t)r->cwnd * r->marked_part >> 17), least(e),
		    now);
	r->round_acked = r->round_marked = 0;
	r->round_end = r->tx_next;
}

void hk_cc_lost(const struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	if (cut_recently(r, now))
		return;
	bool queue = r->last_rtt - HK_MIN(r->last_rtt, r->min_rtt) > e->target_delay / 2;

	cut(r, r->cwnd - (queue ? r->cwnd / 2 : r->cwnd / 8), least(e), now);
}

void hk_cc_timeout(const struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	if (!r->cwnd_before)
		r->cwnd_before = r->cwnd;
	cut(r, r->cwnd / 2, HK_MAX(least(e), ONE), now);
}

/* Undoes the reduction after a spurious timeout (after RFC 3522): the packet had arrived, and the
 * peer only answered late, for example because its application computed. */
void hk_cc_spurious(struct hk_peer_rec *r)
{
	r->cwnd = HK_MAX(r->cwnd, r->cwnd_before);
	r->cwnd_before = 0;
}

void hk_cc_pause(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	hk_timer_arm(e, r, HK_TIMER_PACE, now, (uint64_t)r->srtt * (ONE - r->cwnd) / r->cwnd);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/pace.h: how many packets a sender with a rate of its own may send now. Pure: the caller
 * reads the clock.
 *
 * DESIGN NOTES
 *
 * Time earns credit: a nanosecond earns `rate` units, and a packet costs as many as a second has
 * nanoseconds. So fractions of a packet add up without an error, at any rate and however irregular
 * the calls are.
 *
 * A sender that lost its core for a while would then send all that it missed at once. A real
 * source at this rate never does. So credit ends at `depth` packets. The sender never sends the
 * packets above it. They count as skipped, and the offered rate shows it.
 *
 * Invariant: packets sent + packets skipped + credit = rate * time.
 */
#ifndef HK_BENCH_PACE_H
#define HK_BENCH_PACE_H

#include "base/common.h"

struct hk_pace {
	uint64_t rate;            /* packets a second */
	uint64_t depth;           /* most packets at once */
	uint64_t then;            /* time of the last call, ns */
	uint64_t skipped;         /* packets that came due while credit was full */
	unsigned __int128 credit; /* 1/HK_SEC packets */
};

static inline void hk_pace_start(struct hk_pace *p, uint64_t rate, unsigned depth, uint64_t now)
{
	*p = (struct hk_pace){.rate = rate, .depth = depth, .then = now};
}

/* The number of packets that are due at @now, in ns, which does not fall. */
static inline unsigned hk_pace_due(struct hk_pace *p, uint64_t now)
{
	const unsigned __int128 most = (unsigned __int128)p->depth * HK_SEC;

	p->credit += (unsigned __int128)(now - p->then) * p->rate;
	p->then = now;
	if (HK_UNLIKELY(p->credit >= most + HK_SEC)) {
		uint64_t above = (uint64_t)((p->credit - most) / HK_SEC);
		p->skipped += above;
		p->credit -= (unsigned __int128)above * HK_SEC;
	}
	/* below (depth + 1) packets, so 64 bits suffice for any sensible depth */
	return (unsigned)((uint64_t)p->credit / HK_SEC);
}

/* The sender sends @n packets, at most as many as are due. */
static inline void hk_pace_take(struct hk_pace *p, unsigned n)
{
	p->credit -= (unsigned __int128)n * HK_SEC;
}

#endif

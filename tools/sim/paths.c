/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/paths.c: see paths.h.
 */
#include "sim/paths.h"

/* Those of worker/paths.c. */
#define SILENT       (20 * HK_MSEC)
#define LOSSES       3
#define OTHERS_ACKED 8
#define PAUSE        HK_SEC

void paths_init(struct paths *p, unsigned count)
{
	*p = (struct paths){.count = count, .resume_at = UINT64_MAX};
}

uint8_t paths_mask(const struct paths *p)
{
	unsigned mask = 0;

	for (unsigned i = 0; i < p->count; i++)
		if (!p->path[i].paused_until)
			mask |= 1u << i;
	return (uint8_t)mask;
}

unsigned paths_pick(const struct paths *p, bool bulk, uint8_t stuck)
{
	unsigned usable = paths_mask(p), best = HK_PATHS;

	if (usable & ~stuck)
		usable &= ~(unsigned)stuck;
	if (!bulk)
		return (unsigned)__builtin_ctz(usable);
	for (unsigned k = 0; k < p->count; k++) {
		unsigned i = (p->next + k) % p->count;

		if (usable & 1u << i &&
		    (best == HK_PATHS || p->path[i].in_flight < p->path[best].in_flight))
			best = i;
	}
	return best;
}

unsigned paths_for_reply(const struct paths *p, unsigned received)
{
	unsigned usable = paths_mask(p);

	return usable & 1u << received ? received : (unsigned)__builtin_ctz(usable);
}

void paths_sent(struct paths *p, unsigned i)
{
	p->path[i].in_flight++;
	p->next = (i + 1) % p->count;
}

void paths_acked(struct paths *p, unsigned i, bool moved)
{
	p->path[i].in_flight -= p->path[i].in_flight > 0;
	p->acked++;
	if (moved)
		return;
	p->path[i].silent_since = 0;
	p->path[i].consecutive_losses = 0;
}

void paths_lost(struct paths *p, unsigned was, unsigned now_on, uint64_t now)
{
	unsigned others = paths_mask(p) & ~(1u << was);

	p->path[was].in_flight -= p->path[was].in_flight > 0;
	p->path[now_on].in_flight++;
	if (!p->path[was].silent_since) {
		p->path[was].silent_since = now;
		p->path[was].others_acked = p->acked;
	}
	if (++p->path[was].consecutive_losses < LOSSES || !others ||
	    now - p->path[was].silent_since < SILENT || p->path[was].paused_until ||
	    p->acked - p->path[was].others_acked < OTHERS_ACKED)
		return;
	p->path[was].paused_until = now + PAUSE;
	p->resume_at = HK_MIN(p->resume_at, now + PAUSE);
}

void paths_resume(struct paths *p, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < p->count; i++) {
		if (p->path[i].paused_until > now)
			next = HK_MIN(next, p->path[i].paused_until);
		if (!p->path[i].paused_until || p->path[i].paused_until > now)
			continue;
		p->path[i].paused_until = 0;
		p->path[i].in_flight = 0;
		p->path[i].consecutive_losses = LOSSES - 1; /* one more loss pauses it again */
		p->path[i].silent_since = now - SILENT;
		p->path[i].others_acked = p->acked;
	}
	p->resume_at = next;
}

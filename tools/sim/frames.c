/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/frames.c: see frames.h.
 */
#include "sim/frames.h"
#include "sim/events.h"

#include <stdlib.h>

void frames_init(struct frames *p)
{
	*p = (struct frames){.free = FRAME_NONE};
}

void frames_free(struct frames *p)
{
	free(p->frame);
}

uint32_t frame_new(struct frames *p)
{
	uint32_t f = p->free;

	p->in_use++;
	if (f != FRAME_NONE) {
		p->free = p->frame[f].next;
	} else {
		p->frame = sim_grow(p->frame, p->count, &p->cap, sizeof(*p->frame));
		f = p->count++;
	}
	p->frame[f].next = FRAME_NONE;
	p->frame[f].marked = false;
	return f;
}

void frame_free(struct frames *p, uint32_t f)
{
	p->in_use--;
	p->frame[f].next = p->free;
	p->free = f;
}

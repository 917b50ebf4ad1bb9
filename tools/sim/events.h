/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/events.h: what happens when, in virtual time.
 *
 * DESIGN NOTES
 *
 * Times are picoseconds, because a short frame at 100 Gb/s takes a few nanoseconds.
 *
 * Most events are arrivals of frames. All links delay by the same time, so frames arrive in the
 * order in which they left: a circular queue holds them, without any sorting. Everything else is
 * in a heap with four children a node. Events of equal time happen in the order of their
 * creation, so a run is a function of its options.
 */
#ifndef HK_SIM_EVENTS_H
#define HK_SIM_EVENTS_H

#include "base/common.h"

#define SIM_NS UINT64_C(1000) /* picoseconds in a nanosecond */

enum event_kind {
	EVENT_SENT,   /* port `a` has sent its frame */
	EVENT_ARRIVE, /* frame `a` arrives at the far end of port `b` */
	EVENT_WAKE,   /* host `a` has something due */
	EVENT_CALL,   /* the scenario's: it chose `a` and `b` */
	EVENT_TAKEN,  /* the application at host `a` has dealt with the message in frame `b` */
};

struct event {
	uint64_t at, order;
	uint32_t a, b;
	enum event_kind kind;
};

struct events {
	uint64_t now, order;
	uint64_t done; /* events that have happened */
	struct event *heap;
	uint32_t heap_len, heap_cap;
	struct event *line; /* the circular queue of arrivals; line_cap is a power of two */
	uint32_t line_head, line_len, line_cap;
	uint64_t link_delay; /* of every link */
};

void events_init(struct events *q, uint64_t start, uint64_t link_delay);
void events_free(struct events *q);

/* An event at time @at, which is not before now. */
void events_add(struct events *q, uint64_t at, enum event_kind kind, uint32_t a, uint32_t b);

/* A frame enters a link now: EVENT_ARRIVE after the link's delay. */
void events_add_arrival(struct events *q, uint32_t frame, uint32_t port);

/* Takes the next event, sets the clock to its time and returns true. False, and the clock at
 * @until: no event is left before @until. */
bool events_next(struct events *q, uint64_t until, struct event *ev);

/* Returns @array with space for item number @len; ends the program without memory. */
void *sim_grow(void *array, uint32_t len, uint32_t *cap, size_t item);
void *sim_alloc(size_t bytes); /* zeroed; the same */
_Noreturn void sim_no_memory(void);

#endif

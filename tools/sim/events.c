/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/events.c: see events.h.
 */
#include "sim/events.h"

#include <stdlib.h>

void events_init(struct events *q, uint64_t start, uint64_t link_delay)
{
	*q = (struct events){.now = start, .link_delay = link_delay, .line_cap = 4096};
	q->line = sim_alloc(q->line_cap * sizeof(*q->line));
}

void events_free(struct events *q)
{
	free(q->heap);
	free(q->line);
}

static bool earlier(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void events_add(struct events *q, uint64_t at, enum event_kind kind, uint32_t a, uint32_t b)
{
	struct event e = {.at = at, .order = q->order++, .a = a, .b = b, .kind = kind};

	q->heap = sim_grow(q->heap, q->heap_len, &q->heap_cap, sizeof(*q->heap));
	uint32_t i = q->heap_len++;

	for (; i && earlier(&e, &q->heap[(i - 1) / 4]); i = (i - 1) / 4)
		q->heap[i] = q->heap[(i - 1) / 4];
	q->heap[i] = e;
}

void events_add_arrival(struct events *q, uint32_t frame, uint32_t port)
{
	if (q->line_len == q->line_cap) {
		struct event *line = sim_alloc(2 * (size_t)q->line_cap * sizeof(*line));

		for (uint32_t i = 0; i < q->line_len; i++)
			line[i] = q->line[(q->line_head + i) & (q->line_cap - 1)];
		free(q->line);
		q->line = line;
		q->line_head = 0;
		q->line_cap *= 2;
	}
	q->line[(q->line_head + q->line_len++) & (q->line_cap - 1)] = (struct event){
		.at = q->now + q->link_delay,
		.order = q->order++,
		.a = frame,
		.b = port,
		.kind = EVENT_ARRIVE};
}

static void heap_pop(struct events *q)
{
	struct event last = q->heap[--q->heap_len];
	uint32_t i = 0;

	for (;;) {
		uint32_t child = 4 * i + 1, end = HK_MIN(child + 4, q->heap_len), best = child;

		if (child >= q->heap_len)
			break;
		while (++child < end)
			if (earlier(&q->heap[child], &q->heap[best]))
				best = child;
		if (!earlier(&q->heap[best], &last))
			break;
		q->heap[i] = q->heap[best];
		i = best;
	}
	q->heap[i] = last;
}

bool events_next(struct events *q, uint64_t until, struct event *ev)
{
	const struct event *line = q->line_len ? &q->line[q->line_head] : NULL;
	const struct event *next = q->heap_len ? q->heap : line;

	if (line && earlier(line, next))
		next = line;
	if (!next || next->at >= until) {
		q->now = HK_MAX(q->now, until);
		return false;
	}
	*ev = *next;
	if (next == line) {
		q->line_head = (q->line_head + 1) & (q->line_cap - 1);
		q->line_len--;
	} else {
		heap_pop(q);
	}
	q->now = ev->at;
	q->done++;
	return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-ns3/events_ns3.c: sim/events.h on the events of ns-3.
 *
 * ns-3's clock begins at 0. Ours reaches its first value when the warm-up is over.
 */
#include "sim-ns3/program.h"

static uint64_t offset; /* our clock minus ns-3's, ps */

void events_init(struct events *q, uint64_t start, uint64_t link_delay)
{
	offset = start - ns3_options.warm_up;
	*q = (struct events){.now = offset, .link_delay = link_delay};
}

void ns3_clock(struct events *q)
{
	q->now = fabric_now() + offset;
}

void events_free(struct events *q)
{
	(void)q;
	fabric_close();
}

void events_add(struct events *q, uint64_t at, enum event_kind kind, uint32_t a, uint32_t b)
{
	(void)q;
	fabric_timer(at - offset, (int)kind, a, b);
}

bool events_next(struct events *q, uint64_t until, struct event *ev)
{
	struct fabric_event f;
	bool any = fabric_next(until - offset, &f);

	ns3_clock(q);
	if (!any)
		return false;
	*ev = (struct event){.at = q->now, .a = f.a, .b = f.b, .kind = (enum event_kind)f.kind};
	q->done++;
	return true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-ns3/net_ns3.c: sim/net.h on the network of ns-3.
 *
 * `struct port` only counts here: the queues are ns-3's. NICs come first, as in tools/sim, then the
 * ports of the network switch.
 */
#include "sim-ns3/program.h"

#include <stdlib.h>

/* The marking threshold of DCTCP: its paper (SIGCOMM 2010) has 65 packets of 1500 bytes at 10 Gb/s.
 * Round trips here are short, so its rule (more than rate * round trip / 7) holds at 100 Gb/s too.
 */
#define DCTCP_MARK (65 * 1500)

static struct net *net;

static struct port *port_to(uint32_t host)
{
	return &net->port[net_nics(net) + host];
}

/* Does what happens now count? */
static bool measured(void)
{
	return fabric_now() >= ns3_options.warm_up;
}

static void queued(uint32_t host, int32_t bytes)
{
	struct port *p = port_to(host);

	p->bytes += (uint32_t)bytes;
	if (!measured())
		return;
	ns3_clock(&net->events);
	series_set(&p->queue, net->events.now, p->bytes);
	p->n.queue_max = HK_MAX(p->n.queue_max, p->bytes);
}

static void sent(uint32_t host, uint32_t bytes)
{
	struct port *p = port_to(host);

	if (!measured())
		return;
	p->n.frames++;
	p->n.bytes += bytes;
}

static void marked(uint32_t host)
{
	port_to(host)->n.marked++;
}

static void dropped(uint32_t host, uint32_t frame)
{
	struct port *p = port_to(host);

	p->n.dropped++;
	if (ns3_options.transport != FABRIC_ENGINE)
		return;
	p->n.dropped_bulk += net->frames.frame[frame].bulk;
	frame_free(&net->frames, frame);
}

void net_init(struct net *n, const struct net_config *c, uint64_t seed, uint64_t start)
{
	struct fabric_config f = {
		.transport = ns3_options.transport,
		.hosts = c->hosts,
		.ps_per_byte = c->ps_per_byte,
		.link_delay = c->link_delay,
		.buffer = c->buffer,
		.mtu = ns3_options.mtu,
		.mark = c->mark ? c->mark : DCTCP_MARK,
		.min_rto_ms = ns3_options.min_rto_ms,
		.frame_kind = EVENT_ARRIVE,
		.sent_kind = EVENT_SENT,
		.queued = queued,
		.sent = sent,
		.marked = marked,
		.dropped = dropped,
		.tcp = ns3_options.tcp,
	};

	*n = (struct net){.c = *c, .rng = {seed}};
	net = n;
	events_init(&n->events, start, c->link_delay);
	frames_init(&n->frames);
	n->switches = 1;
	n->ports = 2 * net_nics(n);
	n->port = sim_alloc(n->ports * sizeof(*n->port));
	fabric_open(&f);
}

void net_free(struct net *n)
{
	for (uint32_t i = 0; i < n->ports; i++)
		series_free(&n->port[i].queue);
	free(n->port);
	frames_free(&n->frames);
	events_free(&n->events);
}

void net_enqueue(struct net *n, uint32_t port, uint32_t frame)
{
	const struct frame *f = &n->frames.frame[frame];

	n->port[port].frames++;
	fabric_send(port, f->to, frame, f->len);
}

void net_event(struct net *n, const struct event *ev)
{
	if (ev->kind == EVENT_SENT) {
		n->port[ev->a].frames--;
		n->sent(n->arg, ev->a);
	} else {
		n->arrived(n->arg, ev->b, ev->a);
	}
}

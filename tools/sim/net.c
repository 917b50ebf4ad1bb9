/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/net.c: see net.h.
 */
#include "sim/net.h"

#include <stdlib.h>

/* ---- topology -------------------------------------------------------------------------------- */

/* The network switches of a leafspine are its leaves and then its spines. Ports come in this order:
 *
 *   NICs | ports of switches to hosts, one for each NIC | leaf to spine | spine to leaf
 */
static uint32_t leaves(const struct net *n)
{
	return (n->c.hosts + n->c.leaf_hosts - 1) / n->c.leaf_hosts;
}

static uint32_t uplink(const struct net *n, uint32_t leaf, uint32_t spine)
{
	return 2 * net_nics(n) + leaf * n->c.spines + spine;
}

static uint32_t downlink(const struct net *n, uint32_t spine, uint32_t leaf)
{
	return uplink(n, leaves(n), 0) + spine * leaves(n) + leaf;
}

static uint32_t mix(uint32_t x)
{
	x = (x ^ x >> 16) * 0x7feb352du;
	x = (x ^ x >> 15) * 0x846ca68bu;
	return x ^ x >> 16;
}

/* The port by which network switch @s forwards @f. */
static uint32_t route(const struct net *n, uint32_t s, const struct frame *f)
{
	if (n->c.topology == TOPOLOGY_LEAFSPINE) {
		uint32_t leaf = f->to / n->c.leaf_hosts;

		if (s >= leaves(n))
			return downlink(n, s - leaves(n), leaf);
		if (s != leaf)
			return uplink(n, s, mix(f->flow) % n->c.spines);
	}
	return net_nics(n) + net_nic(n, f->to, f->path);
}

static void port_init(struct port *p, uint32_t to, uint32_t limit)
{
	for (unsigned c = 0; c < NET_CLASSES; c++)
		p->head[c] = p->tail[c] = FRAME_NONE;
	p->sending = FRAME_NONE;
	p->to = to;
	p->limit = limit;
}

void net_init(struct net *n, const struct net_config *c, uint64_t seed, uint64_t start)
{
	bool two = c->topology == TOPOLOGY_LEAFSPINE;
	/* With `two ? host / c->leaf_hosts : 0` gcc 14 divides by 0 where there are no leaves. */
	uint32_t leaf_hosts = two ? c->leaf_hosts : UINT32_MAX;

	*n = (struct net){.c = *c, .rng = {seed}};
	events_init(&n->events, start, c->link_delay);
	frames_init(&n->frames);
	n->switches = two ? leaves(n) + c->spines : 1;
	n->ports = 2 * net_nics(n) + (two ? 2 * leaves(n) * c->spines : 0);
	n->port = sim_alloc(n->ports * sizeof(*n->port));
	for (uint32_t i = 0; i < net_nics(n); i++) {
		uint32_t host = i / c->host_ports;

		port_init(&n->port[i], NET_SWITCH | host / leaf_hosts, UINT32_MAX);
		port_init(&n->port[net_nics(n) + i], host, c->buffer);
	}
	for (uint32_t s = 0; two && s < c->spines; s++) {
		for (uint32_t l = 0; l < leaves(n); l++) {
			port_init(&n->port[uplink(n, l, s)], NET_SWITCH | (leaves(n) + s),
				  c->buffer);
			port_init(&n->port[downlink(n, s, l)], NET_SWITCH | l, c->buffer);
		}
	}
}

void net_free(struct net *n)
{
	for (uint32_t i = 0; i < n->ports; i++)
		series_free(&n->port[i].queue);
	free(n->port);
	frames_free(&n->frames);
	events_free(&n->events);
}

/* ---- ports ----------------------------------------------------------------------------------- */

static void send_next(struct net *n, uint32_t port)
{
	struct port *p = &n->port[port];

	if (p->sending != FRAME_NONE || !p->used)
		return;
	unsigned c = 31u - (unsigned)__builtin_clz(p->used);
	uint32_t frame = p->head[c];
	const struct frame *f = &n->frames.frame[frame];

	p->head[c] = f->next;
	if (p->head[c] == FRAME_NONE)
		p->used &= ~(1u << c);
	p->sending = frame;
	events_add(&n->events, n->events.now + (uint64_t)net_wire_bytes(f->len) * n->c.ps_per_byte,
		   EVENT_SENT, port, 0);
}

static void note_queue(struct net *n, struct port *p)
{
	if (p->limit != UINT32_MAX)
		series_set(&p->queue, n->events.now, p->bytes);
	p->n.queue_max = HK_MAX(p->n.queue_max, p->bytes);
}

void net_enqueue(struct net *n, uint32_t port, uint32_t frame)
{
	struct port *p = &n->port[port];
	struct frame *f = &n->frames.frame[frame];
	unsigned c = n->c.classes ? f->class : 0;

	if (f->len > p->limit - HK_MIN(p->bytes, p->limit)) {
		p->n.dropped++;
		p->n.dropped_bulk += f->bulk;
		frame_free(&n->frames, frame);
		return;
	}
	if (n->c.mark && p->limit != UINT32_MAX && p->bytes > n->c.mark) {
		f->marked = true;
		p->n.marked++;
	}
	f->next = FRAME_NONE;
	if (p->used & 1u << c)
		n->frames.frame[p->tail[c]].next = frame;
	else
		p->head[c] = frame;
	p->tail[c] = frame;
	p->used |= 1u << c;
	p->frames++;
	p->bytes += f->len;
	note_queue(n, p);
	send_next(n, port);
}

/* Does the link of @p lose this frame? */
static bool link_loses(struct net *n, uint32_t port)
{
	uint32_t dead = net_nic(n, n->c.dead_host, n->c.dead_port);

	if (n->c.dead_at && n->events.now >= n->c.dead_at &&
	    (port == dead || port == net_nics(n) + dead))
		return true;
	return hk_rng_chance(&n->rng, n->c.loss);
}

static void sent(struct net *n, uint32_t port)
{
	struct port *p = &n->port[port];
	uint32_t frame = p->sending;
	uint16_t len = n->frames.frame[frame].len;

	p->sending = FRAME_NONE;
	p->frames--;
	p->bytes -= len;
	p->n.frames++;
	p->n.bytes += net_wire_bytes(len);
	note_queue(n, p);
	if (HK_UNLIKELY(link_loses(n, port))) {
		n->lost_by_links++;
		frame_free(&n->frames, frame);
	} else {
		events_add_arrival(&n->events, frame, port);
	}
	send_next(n, port);
	if (port < net_nics(n))
		n->sent(n->arg, port / n->c.host_ports);
}

void net_event(struct net *n, const struct event *ev)
{
	if (ev->kind == EVENT_SENT) {
		sent(n, ev->a);
		return;
	}
	uint32_t to = n->port[ev->b].to;

	if (to & NET_SWITCH)
		net_enqueue(n, route(n, to & ~NET_SWITCH, &n->frames.frame[ev->a]), ev->a);
	else
		n->arrived(n->arg, to, ev->a);
}

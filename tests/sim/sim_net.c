/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/sim/sim_net.c: the simulator's events, cables and faults; see sim.h.
 */
#include "tests/sim/sim_internal.h"

#include <inttypes.h>

/* Bytes of preamble, start, frame check sequence and the gap between frames. */
#define WIRE_EXTRA 24

void sim_config_default(struct sim_config *c, unsigned nodes)
{
	*c = (struct sim_config){
		.nodes = nodes,
		.start = 1000 * HK_SEC,
		.latency = 2 * HK_USEC,
		.ps_per_byte = 800, /* 10 Gbit/s */
		.queue_bytes = 1 << 20,
		.rx_ring = 1024,
		.poll_max = 16,
		.reorder_delay = 50 * HK_USEC,
		.hold_time = 100 * HK_USEC,
		.compute_time = 500 * HK_USEC,
	};
	hk_engine_config_default(&c->engine);
	c->engine.key = 0x6b657921;
	c->engine.max_peers = nodes > 1 ? nodes - 1 : 1;
	c->engine.tx_blocks = c->engine.max_peers;
	c->engine.keepalive = 0; /* so that an idle network sends nothing */
}

void *sim_grow(void *array, size_t len, uint32_t *cap, size_t item)
{
	if (len < *cap)
		return array;
	*cap = *cap ? *cap * 2 : 64;
	array = realloc(array, *cap * item);
	CHECK(array != NULL);
	return array;
}

/* ---- the heap of events -------------------------------------------------------------------- */

static bool earlier(const struct sim_event *a, const struct sim_event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void sim_push(struct sim *s, const struct sim_event *ev)
{
	uint32_t cap = (uint32_t)s->heap_cap;
	s->heap = sim_grow(s->heap, s->heap_len, &cap, sizeof(*s->heap));
	s->heap_cap = cap;

	size_t i = s->heap_len++;
	struct sim_event e = *ev;
	e.order = s->order++;
	for (; i && earlier(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = e;
}

static struct sim_event pop(struct sim *s)
{
	struct sim_event top = s->heap[0], last = s->heap[--s->heap_len];
	size_t i = 0;

	for (;;) {
		size_t child = 2 * i + 1;
		if (child >= s->heap_len)
			break;
		if (child + 1 < s->heap_len && earlier(&s->heap[child + 1], &s->heap[child]))
			child++;
		if (!earlier(&s->heap[child], &last))
			break;
		s->heap[i] = s->heap[child];
		i = child;
	}
	if (s->heap_len)
		s->heap[i] = last;
	return top;
}

void sim_wake(struct sim *s, unsigned node, uint64_t at)
{
	struct sim_node *n = &s->nodes[node];

	at = HK_MAX(at, n->busy_until);
	at = HK_MAX(at, s->now);
	if (at >= n->wake_at)
		return;
	n->wake_at = at;
	sim_push(s, &(struct sim_event){.at = at, .kind = SIM_EV_WAKE, .node = node});
}

void sim_at(struct sim *s, uint64_t after, void (*fn)(struct sim *, void *), void *ctx)
{
	sim_push(s, &(struct sim_event){
			    .at = s->now + after, .kind = SIM_EV_CALL, .fn = fn, .ctx = ctx});
}

/* ---- frames -------------------------------------------------------------------------------- */

static struct sim_frame *frame_new(size_t len)
{
	struct sim_frame *f = malloc(sizeof(*f) + len);
	CHECK(f != NULL);
	f->len = (uint16_t)len;
	return f;
}

static uint64_t serialize_ns(const struct sim *s, size_t len)
{
	return (len + WIRE_EXTRA) * s->c.ps_per_byte / 1000;
}

static uint64_t up_to(struct sim *s, uint64_t max)
{
	return max ? hk_rng_range(&s->rng, 0, max) : 0;
}

static void towards_switch(struct sim *s, unsigned to, uint64_t sent, uint64_t late,
			   const struct sim_frame *frame)
{
	struct sim_frame *copy = frame_new(frame->len);
	memcpy(copy->bytes, frame->bytes, frame->len);
	if (hk_rng_chance(&s->rng, s->c.corrupt)) {
		unsigned flips = (unsigned)hk_rng_range(&s->rng, 1, 3);
		while (flips--) {
			uint64_t bit = hk_rng_below(&s->rng, copy->len * 8u);
			copy->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		s->stats.corrupted++;
	}
	sim_push(s, &(struct sim_event){.at = sent + s->c.latency + up_to(s, s->c.jitter),
					.kind = SIM_EV_SWITCH,
					.node = to,
					.late = late,
					.frame = copy});
}

uint64_t sim_transmit(struct sim *s, unsigned from, const uint8_t *base, size_t len)
{
	struct sim_node *n = &s->nodes[from];
	uint8_t mac[6] = {2, 0, 0, 0, 0, 0}, src[6] = {2, 0, 0, 0, 0, 0};
	struct sim_frame *frame = frame_new(HK_ETH_HLEN + len);
	struct hk_frame f;

	memcpy(frame->bytes + HK_ETH_HLEN, base, len);
	hk_wire_eth_encode(frame->bytes, mac, mac);
	enum hk_wire_status st = hk_wire_frame_parse(frame->bytes, frame->len,
						     s->c.engine.protection, &f);
	CHECK_MSG(st == HK_WIRE_OK, "node %u sends a frame that does not parse: %s", from,
		  hk_wire_status_name(st));
	int to = sim_node_by_endpoint(s, f.h.dst);
	CHECK_MSG(to >= 0, "node %u sends to endpoint %u, which nobody is", from, f.h.dst);
	mac[5] = (uint8_t)to;
	src[5] = (uint8_t)from;
	hk_wire_eth_encode(frame->bytes, mac, src);

	sim_monitor(s, from, (unsigned)to, &f);
	n->tx_free_at = HK_MAX(n->tx_free_at, s->now) + serialize_ns(s, frame->len);
	s->stats.frames++;

	if (s->cut[from * s->c.nodes + (unsigned)to]) {
		s->stats.cut++;
	} else if (hk_rng_chance(&s->rng, s->c.loss) ||
		   (s->filter && !s->filter(s, from, (unsigned)to, &f, s->filter_ctx))) {
		SIM_LOG(s, "     %u->%u lost", from, (unsigned)to);
		s->stats.lost++;
	} else {
		uint64_t late = 0;
		if (hk_rng_chance(&s->rng, s->c.reorder)) {
			late = up_to(s, s->c.reorder_delay);
			s->stats.reordered++;
		}
		if (f.h.type == HK_WIRE_DATA)
			late += s->c.path_delay;
		towards_switch(s, (unsigned)to, n->tx_free_at, late, frame);
		if (hk_rng_chance(&s->rng, s->c.dup)) {
			s->stats.doubled++;
			towards_switch(s, (unsigned)to, n->tx_free_at, up_to(s, s->c.reorder_delay),
				       frame);
		}
	}
	free(frame);
	return n->tx_free_at;
}

/* Handles a frame at the switch: queues it for its node's cable if there is space. */
static void at_switch(struct sim *s, struct sim_event *ev)
{
	struct sim_node *n = &s->nodes[ev->node];
	uint64_t backlog = n->rx_free_at > s->now ? n->rx_free_at - s->now : 0;

	if (s->c.ps_per_byte &&
	    backlog * 1000 / s->c.ps_per_byte + ev->frame->len > s->c.queue_bytes) {
		s->stats.overflow_switch++;
		free(ev->frame);
		return;
	}
	n->rx_free_at = HK_MAX(n->rx_free_at, s->now) + serialize_ns(s, ev->frame->len);
	ev->kind = SIM_EV_ARRIVE;
	ev->at = n->rx_free_at + ev->late;
	sim_push(s, ev);
}

static void arrive(struct sim *s, unsigned node, struct sim_frame *frame)
{
	struct sim_node *n = &s->nodes[node];

	if (n->ring_count == s->c.rx_ring ||
	    (s->c.pool && n->ring_count + n->held_now >= s->c.pool)) {
		s->stats.overflow_ring++;
		free(frame);
		return;
	}
	n->ring[(n->ring_head + n->ring_count++) % s->c.rx_ring] = frame;
	sim_wake(s, node, s->now + s->c.poll_gap);
}

void sim_inject(struct sim *s, unsigned node, const void *bytes, size_t len)
{
	struct sim_frame *frame = frame_new(len);
	memcpy(frame->bytes, bytes, len);
	arrive(s, node, frame);
}

/* ---- running ------------------------------------------------------------------------------- */

static void step(struct sim *s)
{
	struct sim_event ev = pop(s);

	s->now = ev.at;
	switch (ev.kind) {
	case SIM_EV_SWITCH:
		at_switch(s, &ev);
		break;
	case SIM_EV_ARRIVE:
		arrive(s, ev.node, ev.frame);
		break;
	case SIM_EV_WAKE:
		if (s->nodes[ev.node].wake_at ==
		    ev.at) { /* otherwise an earlier event has replaced it */
			s->nodes[ev.node].wake_at = UINT64_MAX;
			sim_node_run(s, ev.node);
		}
		break;
	case SIM_EV_RELEASE:
		sim_node_release(s, ev.node, ev.from, ev.count, ev.epoch);
		break;
	case SIM_EV_CALL:
		ev.fn(s, ev.ctx);
		break;
	}
}

bool sim_done(const struct sim *s)
{
	if (s->undelivered)
		return false;
	for (unsigned i = 0; i < s->c.nodes; i++) {
		if (s->nodes[i].live || hk_engine_unacked(s->nodes[i].engine, HK_PEER_NONE))
			return false;
		for (unsigned k = 0; k < s->c.nodes; k++) {
			if (s->nodes[i].queue[k].count)
				return false;
		}
	}
	return true;
}

bool sim_quiet(const struct sim *s)
{
	for (unsigned i = 0; i < s->c.nodes; i++) {
		if (hk_engine_deadline(s->nodes[i].engine) != UINT64_MAX || s->nodes[i].ring_count)
			return false;
	}
	for (size_t i = 0; i < s->heap_len; i++) {
		if (s->heap[i].kind != SIM_EV_WAKE)
			return false;
	}
	return true;
}

void sim_run_done(struct sim *s, uint64_t limit)
{
	uint64_t end = s->now + limit;
	char who[1024];

	while (!sim_done(s)) {
		if (s->heap_len && s->heap[0].at <= end) {
			step(s);
			continue;
		}
		sim_who_waits(s, who, sizeof(who));
		FAIL("%s; %s", s->heap_len ? "the time limit passed" : "nothing is left to happen",
		     who);
	}
}

void sim_run_for(struct sim *s, uint64_t ns)
{
	uint64_t end = s->now + ns;

	while (s->heap_len && s->heap[0].at <= end)
		step(s);
	s->now = end;
}

/* ---- life ---------------------------------------------------------------------------------- */

/* Returns the next epoch: later in serial number arithmetic, and not 0. It is so near that also
 * after a dozen restarts, frames of the first incarnation are earlier ones. */
static uint32_t next_epoch(struct sim *s, uint32_t before)
{
	uint32_t epoch;

	if (before == 0)
		epoch = s->c.random_ids ? (uint32_t)hk_rng_next(&s->rng) : 1;
	else
		epoch = before + (uint32_t)hk_rng_range(&s->rng, 1, s->c.random_ids ? 1 << 27 : 2);
	return epoch + (epoch == 0);
}

/* Returns the first packet number from one node to another. */
static uint32_t first_psn(struct sim *s)
{
	uint32_t r = (uint32_t)hk_rng_next(&s->rng);
	return r & 1 ? r : UINT32_MAX - (r >> 1) % 300;
}

struct sim *sim_new(const struct sim_config *c, uint64_t seed)
{
	struct sim *s = calloc(1, sizeof(*s));
	unsigned n = c->nodes;

	CHECK(s != NULL);
	s->c = *c;
	s->rng.state = seed;
	s->now = c->start;
	s->nodes = calloc(n, sizeof(*s->nodes));
	s->cut = calloc((size_t)n * n, sizeof(*s->cut));
	CHECK(s->nodes && s->cut);
	for (unsigned i = 0; i < n; i++) {
		s->nodes[i].epoch = next_epoch(s, 0);
		s->nodes[i].endpoint = c->random_ids ? (uint32_t)hk_rng_next(&s->rng) * n + i : i;
	}
	for (unsigned i = 0; i < n; i++)
		sim_node_start(s, i);
	for (unsigned i = 0; i < n && !c->lazy; i++) {
		for (unsigned k = 0; k < i && c->random_psn; k++) {
			uint32_t a = first_psn(s), b = first_psn(s);
			hk_engine_test_set_psn(s->nodes[i].engine, sim_peer(s, i, k), a, b);
			hk_engine_test_set_psn(s->nodes[k].engine, sim_peer(s, k, i), b, a);
		}
	}
	return s;
}

void sim_free(struct sim *s)
{
	for (unsigned i = 0; i < s->c.nodes; i++)
		sim_node_free(s, i);
	for (size_t i = 0; i < s->heap_len; i++)
		free(s->heap[i].frame);
	for (uint32_t i = 0; i < s->bufs_len; i++)
		free(s->bufs[i].frame);
	free(s->heap);
	free(s->nodes);
	free(s->msgs);
	free(s->bufs);
	free(s->bufs_free);
	free(s->rxbufs);
	free(s->rxbufs_free);
	free(s->cut);
	free(s);
}

void sim_restart(struct sim *s, unsigned node)
{
	struct sim_node *n = &s->nodes[node];
	uint32_t epoch = n->epoch;

	SIM_LOG(s, "node %u dies and comes back", node);
	sim_node_stop(s, node);
	for (unsigned i = 0; i < s->c.nodes; i++) {
		sim_give_up(s, node, i, epoch, 0);
		sim_drop_queue(s, node, i, false); /* the messages that it had begun to send */
		sim_give_up(s, i, node, 0, epoch);
	}
	n->epoch = next_epoch(s, epoch);
	sim_node_start(s, node);
	for (unsigned i = 0; i < s->c.nodes; i++) {
		if (i != node)
			sim_node_poke(s, i, node);
		sim_wake(s, i, s->now);
	}
}

void sim_cut(struct sim *s, unsigned a, unsigned b, bool cut)
{
	s->cut[a * s->c.nodes + b] = s->cut[b * s->c.nodes + a] = cut;
}

void sim_compute(struct sim *s, unsigned node, uint64_t ns)
{
	struct sim_node *n = &s->nodes[node];

	n->busy_until = HK_MAX(n->busy_until, s->now + ns);
	n->was_busy = true;
	n->wake_at = UINT64_MAX;
	sim_wake(s, node, n->busy_until);
}

void sim_set_filter(struct sim *s, sim_filter f, void *ctx)
{
	s->filter = f;
	s->filter_ctx = ctx;
}

struct hk_rng *sim_rng(struct sim *s)
{
	return &s->rng;
}

uint64_t sim_now(const struct sim *s)
{
	return s->now;
}

const struct sim_stats *sim_stats(const struct sim *s)
{
	return &s->stats;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/sim/sim_node.c: one node of the simulator: an engine and its caller.
 *
 * This file and sim_send.c do with an engine what src/worker does, in a second, simple
 * implementation. Where the two differ, one of them has misread engine/engine.h.
 */
#include "tests/sim/sim_internal.h"

#include <inttypes.h>

#define BURST 32

static void note_held(struct sim *s, unsigned node, int delta)
{
	struct sim_node *n = &s->nodes[node];

	n->held_now = (uint64_t)((int64_t)n->held_now + delta);
	s->stats.held_max = HK_MAX(s->stats.held_max, n->held_now);
}

/* ---- life ---------------------------------------------------------------------------------- */

struct sim_dir *sim_dir(struct sim *s, unsigned from, unsigned to)
{
	struct sim_dir **dir = &s->nodes[from].dir[to];

	if (!*dir)
		*dir = calloc(1, sizeof(**dir));
	CHECK(*dir != NULL);
	return *dir;
}

static void dir_forget(struct sim *s, unsigned from, unsigned to)
{
	struct sim_node *n = &s->nodes[from];

	if (!n->dir)
		return;
	free(n->dir[to]);
	n->dir[to] = NULL;
}

/* Hands messages of @from that wait for packets before @next to the application. */
static void hand_deferred(struct sim *s, unsigned node, unsigned from, uint32_t next)
{
	struct sim_deferred **link = &s->nodes[node].deferred[from];

	while (*link) {
		struct sim_deferred *p = *link;

		if (!hk_psn_before(p->last, next)) {
			link = &p->next;
			continue;
		}
		note_held(s, node, -(int)p->count);
		*link = p->next;
		free(p);
	}
}

static void defer(struct sim *s, unsigned node, unsigned from, const struct hk_rx *rx)
{
	struct sim_deferred *p = malloc(sizeof(*p));

	CHECK(p != NULL);
	*p = (struct sim_deferred){s->nodes[node].deferred[from], rx->last, rx->count,
				   rx->f.h.src_epoch};
	s->nodes[node].deferred[from] = p;
	note_held(s, node, rx->count);
}

/* @from has ended or restarted: messages behind its lost packets are never handed over. Drops those
 * of all its incarnations except @epoch. */
static void deferred_drop(struct sim *s, unsigned node, unsigned from, uint32_t epoch)
{
	struct sim_deferred **link = &s->nodes[node].deferred[from];

	while (*link) {
		struct sim_deferred *p = *link;

		if (p->epoch == epoch) {
			link = &p->next;
			continue;
		}
		note_held(s, node, -(int)p->count);
		*link = p->next;
		free(p);
	}
}

bool sim_peer_add(struct sim *s, unsigned node, unsigned peer)
{
	struct sim_node *n = &s->nodes[node];
	const struct sim_node *o = &s->nodes[peer];
	hk_peer p = hk_engine_peer_add(n->engine, o->endpoint, o->epoch, s->now);

	if (p == HK_PEER_NONE)
		return false;
	deferred_drop(s, node, peer, o->epoch);
	n->added[peer] = p;
	n->added_epoch[peer] = o->epoch;
	return true;
}

void sim_node_start(struct sim *s, unsigned node)
{
	struct sim_node *n = &s->nodes[node];
	struct hk_engine_config cfg = s->c.engine;
	unsigned count = s->c.nodes;

	cfg.endpoint = n->endpoint;
	cfg.epoch = n->epoch;
	size_t bytes = hk_engine_size(&cfg);
	CHECK_MSG(bytes != 0, "the engine refuses the simulator's configuration");
	n->arena = aligned_alloc(64, (bytes + 63) / 64 * 64);
	CHECK(n->arena != NULL);
	memset(n->arena, 0xa5, bytes); /* the caller need not zero an arena */
	n->engine = hk_engine_init(n->arena, bytes, &cfg);
	CHECK(n->engine != NULL);

	if (!n->queue) { /* these outlive incarnations */
		n->queue = calloc(count, sizeof(*n->queue));
		n->dir = calloc(count, sizeof(*n->dir));
		n->deferred = calloc(count, sizeof(*n->deferred));
		n->reason = calloc(count, sizeof(*n->reason));
		n->reason_at = calloc(count, sizeof(*n->reason_at));
		CHECK(n->queue && n->dir && n->deferred && n->reason && n->reason_at);
	}
	n->ring = calloc(s->c.rx_ring, sizeof(struct sim_frame *));
	n->added = malloc(count * sizeof(*n->added));
	n->added_epoch = calloc(count, sizeof(*n->added_epoch));
	n->held = calloc(count, sizeof(*n->held));
	CHECK(n->ring && n->added && n->added_epoch && n->held);
	n->wake_at = UINT64_MAX;
	n->busy_until = 0;
	n->hold_all = n->left = false;
	for (unsigned i = 0; i < count; i++) {
		n->added[i] = HK_PEER_NONE;
		if (i == node)
			continue;
		dir_forget(s, node, i);
		dir_forget(s, i, node);
		if (!s->c.lazy) {
			CHECK(sim_peer_add(s, node, i));
		}
	}
}

/* Ends the process: its buffers and its ring are lost, but frames on the network are not. */
void sim_node_stop(struct sim *s, unsigned node)
{
	struct sim_node *n = &s->nodes[node];

	for (uint32_t i = 0; i < s->bufs_len; i++) {
		if (s->bufs[i].live && s->bufs[i].node == node) {
			s->bufs[i].live = false;
			s->bufs_free[s->bufs_free_len++] = i;
		}
	}
	for (uint32_t i = 0; i < s->rxbufs_len; i++) {
		if (s->rxbufs[i].live && s->rxbufs[i].node == node) {
			s->rxbufs[i].live = false;
			s->rxbufs_free[s->rxbufs_free_len++] = i;
		}
	}
	for (; n->ring_count; n->ring_count--, n->ring_head++)
		free(n->ring[n->ring_head % s->c.rx_ring]);
	for (unsigned i = 0; i < s->c.nodes; i++)
		deferred_drop(s, node, i, 0);
	n->ring_head = 0;
	n->live = 0;
	n->held_now = 0;
	free(n->ring);
	free(n->added);
	free(n->added_epoch);
	free(n->held);
	free(n->arena);
	n->ring = NULL;
	n->added = NULL;
	n->added_epoch = n->held = NULL;
	n->arena = n->engine = NULL;
}

void sim_node_free(struct sim *s, unsigned node)
{
	struct sim_node *n = &s->nodes[node];

	sim_node_stop(s, node);
	for (unsigned i = 0; i < s->c.nodes; i++) {
		free(n->queue[i].items);
		free(n->dir[i]);
	}
	free(n->queue);
	free(n->dir);
	free(n->deferred);
	free(n->reason);
	free(n->reason_at);
}

int sim_node_by_endpoint(const struct sim *s, uint32_t endpoint)
{
	for (unsigned i = 0; i < s->c.nodes; i++) {
		if (s->nodes[i].endpoint == endpoint)
			return (int)i;
	}
	return -1;
}

hk_peer sim_peer(struct sim *s, unsigned node, unsigned peer)
{
	return hk_engine_peer_find(s->nodes[node].engine, s->nodes[peer].endpoint);
}

/* ---- in ------------------------------------------------------------------------------------ */

static uint64_t rxbuf_new(struct sim *s, unsigned node)
{
	uint32_t i;

	if (s->rxbufs_free_len) {
		i = s->rxbufs_free[--s->rxbufs_free_len];
	} else {
		uint32_t cap = s->rxbufs_cap;
		s->rxbufs = sim_grow(s->rxbufs, s->rxbufs_len, &s->rxbufs_cap, sizeof(*s->rxbufs));
		s->rxbufs_free = sim_grow(s->rxbufs_free, s->rxbufs_len, &cap, sizeof(uint32_t));
		i = s->rxbufs_len++;
		s->rxbufs[i] = (struct sim_rxbuf){.gen = 0};
	}
	s->rxbufs[i].gen++;
	s->rxbufs[i].node = node;
	s->rxbufs[i].live = true;
	return (uint64_t)s->rxbufs[i].gen << 32 | i;
}

static struct sim_rxbuf *rxbuf_take(struct sim *s, unsigned node, uint64_t token)
{
	uint32_t i = (uint32_t)token;
	CHECK_MSG(i < s->rxbufs_len && s->rxbufs[i].gen == token >> 32 && s->rxbufs[i].live &&
			  s->rxbufs[i].node == node,
		  "node %u: held token %" PRIx64 " comes out, but is not held", node, token);
	s->rxbufs[i].live = false;
	s->rxbufs_free[s->rxbufs_free_len++] = i;
	return &s->rxbufs[i];
}

/* The application gets the buffers of a message, reads each, and may hold them a while. */
static void deliver(struct sim *s, unsigned node, const struct hk_rx *rx, uint32_t msg,
		    uint8_t part, uint64_t token)
{
	struct sim_node *n = &s->nodes[node];
	struct sim_msg *m = &s->msgs[msg];
	bool saw_this = false;

	CHECK_EQ(m->type, HK_WIRE_DATA);
	CHECK_MSG(rx->count == m->frags, "message %u has %u fragments, %u delivered", msg, m->frags,
		  rx->count);
	CHECK_EQ(rx->am, (uint8_t)msg);
	for (unsigned i = 0; i < rx->count; i++) {
		if (rx->count == 1 || rx->tokens[i] == token) {
			CHECK_MSG(part == i && !saw_this, "message %u: fragment %u at place %u",
				  msg, part, i);
			saw_this = true;
		} else {
			struct sim_rxbuf *b = rxbuf_take(s, node, rx->tokens[i]);
			CHECK_MSG(b->msg == msg && b->frag == i,
				  "message %u at place %u: fragment %u of message %u", msg, i,
				  b->frag, b->msg);
			note_held(s, node, -1);
		}
		sim_part_done(s, node, msg, (uint8_t)i);
	}
	CHECK(saw_this);

	if (s->c.ordered && !hk_psn_before(rx->last, rx->next)) {
		defer(s, node, m->from, rx);
		return;
	}
	if (n->hold_all) {
		n->held[m->from] += rx->count;
	} else if (hk_rng_chance(&s->rng, s->c.hold)) {
		uint64_t ns = hk_rng_range(&s->rng, 1, s->c.hold_time);
		sim_push(s, &(struct sim_event){.at = s->now + ns,
						.kind = SIM_EV_RELEASE,
						.node = node,
						.from = m->from,
						.count = rx->count,
						.epoch = n->epoch});
	} else {
		return;
	}
	hk_engine_rx_held(n->engine, rx->peer, rx->count);
	note_held(s, node, rx->count);
}

static void take_frame(struct sim *s, unsigned node, const struct sim_frame *frame)
{
	struct sim_node *n = &s->nodes[node];
	uint64_t token = rxbuf_new(s, node);
	struct hk_rx rx;
	uint8_t part = 0;

	memset(&rx, 0xa5, sizeof(rx)); /* fields that the engine does not set must not be read */
	hk_engine_input(n->engine, frame->bytes, frame->len, token, s->now, &rx);
	if (rx.result == HK_RX_HOLD || rx.result == HK_RX_DELIVER || rx.result == HK_RX_PUT) {
		CHECK_EQ(hk_engine_peer_endpoint(n->engine, rx.peer), rx.f.h.src);
		CHECK(rx.new_peer == (bool)0 || rx.new_peer == (bool)1);
		if (rx.new_peer)
			deferred_drop(s, node, (unsigned)sim_node_by_endpoint(s, rx.f.h.src),
				      rx.f.h.src_epoch);
		uint32_t msg = sim_arrived(s, node, &rx, &part);
		sim_check_next(s, node, &rx);
		hand_deferred(s, node, s->msgs[msg].from, rx.next);
		SIM_LOG(s, "       %u takes message %u part %u of %u: %s", node, msg, part,
			s->msgs[msg].frags,
			rx.result == HK_RX_HOLD      ? "held"
			: rx.result == HK_RX_DELIVER ? "delivered"
						     : "put");
		if (rx.result == HK_RX_HOLD) {
			s->rxbufs[(uint32_t)token].msg = msg;
			s->rxbufs[(uint32_t)token].frag = part;
			note_held(s, node, 1);
			return; /* the node holds the buffer */
		}
		if (rx.result == HK_RX_DELIVER)
			deliver(s, node, &rx, msg, part, token);
		else
			sim_part_done(s, node, msg, part);
	} else {
		CHECK(rx.result == HK_RX_DROP || rx.result == HK_RX_CONTROL);
	}
	rxbuf_take(s, node, token);
}

void sim_node_release(struct sim *s, unsigned node, unsigned from, unsigned count, uint32_t epoch)
{
	struct sim_node *n = &s->nodes[node];

	if (n->epoch != epoch || count == 0)
		return; /* its buffers were lost with it */
	hk_engine_rx_held(n->engine, sim_peer(s, node, from), -(int)count);
	note_held(s, node, -(int)count);
	sim_wake(s, node, s->now);
}

void sim_hold_all(struct sim *s, unsigned node, bool hold)
{
	struct sim_node *n = &s->nodes[node];

	n->hold_all = hold;
	for (unsigned i = 0; i < s->c.nodes && !hold; i++) {
		sim_node_release(s, node, i, n->held[i], n->epoch);
		n->held[i] = 0;
	}
}

/* ---- disconnect reasons
 * ------------------------------------------------------------------------------ */

static void read_reasons(struct sim *s, unsigned node)
{
	struct sim_node *n = &s->nodes[node];
	enum hk_disconnect_reason why;
	hk_peer p;

	while ((p = hk_engine_next_disconnect(n->engine, &why)) != HK_PEER_NONE) {
		struct hk_peer_info info;
		int to = sim_node_by_endpoint(s, hk_engine_peer_endpoint(n->engine, p));

		hk_engine_peer_info(n->engine, p, &info);
		CHECK(to >= 0);
		SIM_LOG(s, "node %u: disconnect reason %d of node %d", node, why, to);
		s->stats.reasons++;
		deferred_drop(s, node, (unsigned)to, 0);
		n->reason[to] = why;
		n->reason_at[to] = s->now;
		CHECK_EQ(hk_engine_available(n->engine, p), 0);
		CHECK_EQ(hk_engine_unacked(n->engine, p), 0);
		sim_give_up(s, node, (unsigned)to, n->epoch, info.epoch);
		sim_drop_queue(s, node, (unsigned)to, why != HK_DISCONNECT_RESTARTED);
		if (why == HK_DISCONNECT_RESTARTED) {
			CHECK_EQ(info.state, HK_PEER_DEAD);
			CHECK_MSG(info.epoch != s->nodes[to].epoch,
				  "node %u says that node %d restarted; it did not", node, to);
			CHECK_MSG(sim_peer_add(s, node, (unsigned)to),
				  "node %u: a restarted peer is refused", node);
			for (unsigned i = 0; i < s->c.nodes; i++)
				sim_wake(s, i, s->now); /* they may have waited for this */
		} else if (why == HK_DISCONNECT_SILENT || why == HK_DISCONNECT_STUCK) {
			CHECK_EQ(info.state, HK_PEER_DEAD);
			CHECK_MSG(s->c.silent_allowed, "node %u gave node %d up", node, to);
		} else {
			CHECK_EQ(why, HK_DISCONNECT_LEFT);
			CHECK_EQ(info.state, HK_PEER_LEFT);
			CHECK_MSG(s->nodes[to].left, "node %u says that node %d left", node, to);
		}
	}
}

/* ---- one turn ------------------------------------------------------------------------------ */

static void reap(struct sim *s, unsigned node)
{
	struct sim_node *n = &s->nodes[node];
	uint64_t tokens[BURST];
	unsigned got, max = (unsigned)hk_rng_range(&s->rng, 1, BURST);

	while ((got = hk_engine_reap(n->engine, tokens, max)) != 0) {
		CHECK_CMP(got, <=, max);
		for (unsigned i = 0; i < got; i++)
			sim_buf_free(s, node, tokens[i] & ~HK_TOKEN_LOST);
	}
	while ((got = hk_engine_reap_rx(n->engine, tokens, max)) != 0) {
		CHECK_CMP(got, <=, max);
		for (unsigned i = 0; i < got; i++)
			rxbuf_take(s, node, tokens[i]);
		note_held(s, node, -(int)got);
	}
}

void sim_node_run(struct sim *s, unsigned node)
{
	struct sim_node *n = &s->nodes[node];

	if (n->busy_until > s->now) {
		sim_wake(s, node, n->busy_until);
		return;
	}
	if (hk_rng_chance(&s->rng, s->c.compute)) {
		sim_compute(s, node, hk_rng_range(&s->rng, 1, s->c.compute_time));
		return;
	}

	/* Frames that came meanwhile waited for us, and not in the network. */
	hk_engine_set_not_polling(n->engine, n->was_busy);
	n->was_busy = false;
	unsigned out = 0;
	bool due = hk_engine_deadline(n->engine) <= s->now;
	do {
		for (unsigned i = 0; i < BURST && n->ring_count; i++) {
			struct sim_frame *f = n->ring[n->ring_head];
			n->ring_head = (n->ring_head + 1) % s->c.rx_ring;
			n->ring_count--;
			take_frame(s, node, f);
			free(f);
		}
		out += sim_poll(s, node);
	} while (n->ring_count);
	hk_engine_set_not_polling(n->engine, false);
	read_reasons(s, node);
	reap(s, node);
	unsigned first = (unsigned)hk_rng_below(&s->rng, s->c.nodes);
	for (unsigned i = 0; i < s->c.nodes; i++)
		sim_pump(s, node, (first + i) % s->c.nodes);

	uint64_t next = hk_engine_deadline(n->engine);
	if (next > s->now) {
		n->idle_polls = 0;
	} else {
		/* more may be due at once, such as resends beyond the cap */
		n->idle_polls = due && out == 0 ? n->idle_polls + 1 : 0;
		CHECK_MSG(n->idle_polls < 100,
			  "node %u: the deadline has passed, but polling does nothing", node);
		next = s->now + HK_USEC;
	}
	if (next != UINT64_MAX)
		sim_wake(s, node, next);
}

void sim_bye(struct sim *s, unsigned node)
{
	s->nodes[node].left = true;
	hk_engine_bye(s->nodes[node].engine);
	sim_wake(s, node, s->now);
}

/* ---- looking ------------------------------------------------------------------------------- */

struct hk_engine *sim_engine(struct sim *s, unsigned node)
{
	return s->nodes[node].engine;
}

uint32_t sim_endpoint(const struct sim *s, unsigned node)
{
	return s->nodes[node].endpoint;
}

uint32_t sim_epoch(const struct sim *s, unsigned node)
{
	return s->nodes[node].epoch;
}

enum hk_disconnect_reason sim_reason(const struct sim *s, unsigned node, unsigned peer)
{
	return s->nodes[node].reason[peer];
}

uint64_t sim_reason_at(const struct sim *s, unsigned node, unsigned peer)
{
	return s->nodes[node].reason_at[peer];
}

uint64_t sim_held(const struct sim *s, unsigned node)
{
	return s->nodes[node].held_now;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/sim_node.c: one node of the simulator: an engine, and the host's part around it.
 *
 * What happens here is what fabric/ has to do with an engine, written a second time and naively:
 * where the two differ, one of them has misread engine/engine.h.
 */
#include "tests/unit/sim_internal.h"

#include <inttypes.h>

#define BURST 32

/* ---- life ---------------------------------------------------------------------------------- */

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
	memset(n->arena, 0xa5, bytes); /* an arena need not be zeroed */
	n->engine = hk_engine_init(n->arena, bytes, &cfg);
	CHECK(n->engine != NULL);

	if (!n->queue) { /* what outlives incarnations */
		n->queue = calloc(count, sizeof(*n->queue));
		n->dir = calloc(count, sizeof(*n->dir));
		n->verdict = calloc(count, sizeof(*n->verdict));
		n->verdict_at = calloc(count, sizeof(*n->verdict_at));
		CHECK(n->queue && n->dir && n->verdict && n->verdict_at);
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
		memset(&n->dir[i], 0, sizeof(n->dir[i]));
		if (s->nodes[i].dir)
			memset(&s->nodes[i].dir[node], 0, sizeof(n->dir[i]));
		if (!s->c.lazy) {
			n->added[i] = hk_engine_peer_add(n->engine, s->nodes[i].endpoint,
							 s->nodes[i].epoch, s->now);
			CHECK(n->added[i] != HK_PEER_NONE);
			n->added_epoch[i] = s->nodes[i].epoch;
		}
	}
}

/* The process ends: its buffers and what waits in its ring are gone, what is on the way is not. */
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
	for (unsigned i = 0; i < s->c.nodes; i++)
		free(n->queue[i].items);
	free(n->queue);
	free(n->dir);
	free(n->verdict);
	free(n->verdict_at);
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

/* ---- queues of messages -------------------------------------------------------------------- */

static void fifo_push(struct sim_fifo *q, uint32_t item, bool front)
{
	if (q->count == q->cap) {
		uint32_t *items = malloc((q->cap ? 2 * q->cap : 16) * sizeof(*items));
		CHECK(items != NULL);
		for (uint32_t i = 0; i < q->count; i++)
			items[i] = q->items[(q->head + i) % q->cap];
		free(q->items);
		q->items = items;
		q->head = 0;
		q->cap = q->cap ? 2 * q->cap : 16;
	}
	if (front)
		q->head = (q->head + q->cap - 1) % q->cap;
	q->items[front ? q->head : (q->head + q->count) % q->cap] = item;
	q->count++;
}

static void fifo_pop(struct sim_fifo *q)
{
	q->head = (q->head + 1) % q->cap;
	q->count--;
}

static void begin_send(struct sim *s, void *ctx)
{
	uint32_t id = (uint32_t)(uintptr_t)ctx;
	struct sim_msg *m = &s->msgs[id];

	fifo_push(&s->nodes[m->from].queue[m->to], id, false);
	sim_wake(s, m->from, s->now);
}

static uint32_t msg_new(struct sim *s, unsigned from, unsigned to, uint8_t type, unsigned frags,
			unsigned len)
{
	s->msgs = sim_grow(s->msgs, s->msgs_len, &s->msgs_cap, sizeof(*s->msgs));
	s->msgs[s->msgs_len] = (struct sim_msg){.from = from,
						.to = to,
						.type = type,
						.frags = (uint8_t)frags,
						.len = (uint16_t)len};
	return s->msgs_len++;
}

unsigned sim_send(struct sim *s, unsigned from, unsigned to, uint8_t type, unsigned frags,
		  unsigned len, uint64_t after)
{
	CHECK(from != to && len >= SIM_MIN_LEN && frags >= 1);
	CHECK(frags <= (type == HK_WIRE_DATA ? HK_WIRE_MAX_FRAGS : 64u));
	CHECK(len + HK_WIRE_PUT_OVERHEAD + HK_WIRE_CRC_LEN <= SIM_FRAME_MAX);
	uint32_t id = msg_new(s, from, to, type, frags, len);
	s->msgs[id].must = true;
	s->owed++;
	sim_at(s, after, begin_send, (void *)(uintptr_t)id);
	return id;
}

void sim_node_poke(struct sim *s, unsigned node, unsigned to)
{
	struct sim_node *n = &s->nodes[node];
	struct sim_fifo *q = &n->queue[to];
	hk_peer p = sim_peer(s, node, to);
	struct hk_peer_info info;

	if (p == HK_PEER_NONE)
		return;
	hk_engine_peer_info(n->engine, p, &info);
	if (info.state != HK_PEER_ACTIVE || (q->count && s->msgs[q->items[q->head]].next))
		return; /* it may start anew at once; or is being written to anyway */
	uint32_t id = msg_new(s, node, to, HK_WIRE_DATA, 1, SIM_MIN_LEN);
	s->msgs[id].src_epoch = n->epoch;
	s->msgs[id].dst_epoch = info.epoch;
	fifo_push(q, id, true);
}

/* ---- out ----------------------------------------------------------------------------------- */

/* Sends base header … payload as they lie at @base, with the checksum if that is configured. */
static uint64_t transmit(struct sim *s, unsigned node, uint8_t *base, size_t len)
{
	if (s->c.engine.crc)
		len += hk_wire_seal(base);
	return sim_transmit(s, node, base, len);
}

static struct sim_buf *buf_by_token(struct sim *s, unsigned node, uint64_t token)
{
	uint32_t i = (uint32_t)token;
	CHECK_MSG(i < s->bufs_len && s->bufs[i].gen == token >> 32 && s->bufs[i].live &&
			  s->bufs[i].node == node,
		  "node %u: token %" PRIx64 " comes out, but no such buffer is in use", node,
		  token);
	return &s->bufs[i];
}

static uint64_t buf_new(struct sim *s, unsigned node)
{
	uint32_t i;

	if (s->bufs_free_len) {
		i = s->bufs_free[--s->bufs_free_len];
	} else {
		uint32_t cap = s->bufs_cap;
		s->bufs = sim_grow(s->bufs, s->bufs_len, &s->bufs_cap, sizeof(*s->bufs));
		s->bufs_free = sim_grow(s->bufs_free, s->bufs_len, &cap, sizeof(uint32_t));
		i = s->bufs_len++;
		s->bufs[i] = (struct sim_buf){.frame = malloc(SIM_FRAME_MAX)};
		CHECK(s->bufs[i].frame != NULL);
	}
	s->bufs[i].gen++;
	s->bufs[i].node = node;
	s->bufs[i].live = true;
	s->nodes[node].live++;
	return (uint64_t)s->bufs[i].gen << 32 | i;
}

static void buf_free(struct sim *s, unsigned node, uint64_t token)
{
	struct sim_buf *b = buf_by_token(s, node, token);
	memset(b->frame, 0xdd, HK_WIRE_HLEN); /* a late resend of it would be seen */
	b->live = false;
	s->bufs_free[s->bufs_free_len++] = (uint32_t)token;
	s->nodes[node].live--;
}

/* Can @node write to @to in its present incarnation? In a job the launcher tells which that is.
 * Not while the engine takes @to for an earlier one and has not yet given its verdict. Whether
 * @to knows of @node's incarnation is for the engines to find out. */
static bool ready(struct sim *s, unsigned node, unsigned to)
{
	struct sim_node *n = &s->nodes[node], *o = &s->nodes[to];

	if (n->added[to] != HK_PEER_NONE && n->added_epoch[to] == o->epoch)
		return true;
	hk_peer p = hk_engine_peer_add(n->engine, o->endpoint, o->epoch, s->now);
	if (p == HK_PEER_NONE)
		return false;
	n->added[to] = p;
	n->added_epoch[to] = o->epoch;
	return true;
}

static void send_part(struct sim *s, unsigned node, hk_peer p, uint32_t id)
{
	struct sim_node *n = &s->nodes[node];
	struct sim_msg *m = &s->msgs[id];
	bool put = m->type == HK_WIRE_PUT;
	size_t ext = put ? HK_WIRE_PUT_LEN : 0;
	struct hk_packet pkt = {
		.token = buf_new(s, node),
		.len = (uint16_t)(ext + m->len),
		.type = m->type,
		.am = put ? 0 : (uint8_t)id,
		.frag = put ? 0 : m->next,
		.frags = put ? 0 : m->frags,
		.path = put && s->c.detour,
	};

	if (s->c.rails) { /* now and then one rests, or is back */
		if (hk_rng_chance(&s->rng, 50000))
			hk_engine_peer_paths(
				n->engine, p,
				(uint8_t)hk_rng_range(&s->rng, 1, (1u << s->c.rails) - 1));
		pkt.path = (uint8_t)(id % s->c.rails);
	}
	struct sim_buf *b = buf_by_token(s, node, pkt.token);

	CHECK_MSG(hk_engine_send(n->engine, p, &pkt, s->now, b->frame),
		  "node %u: room was not 0, but send refused", node);
	if (put)
		hk_wire_put_ext(b->frame + HK_WIRE_HLEN,
				&(struct hk_wire_put){.region = ~id,
						      .xfer = id,
						      .offset = (uint64_t)m->next * m->len});
	sim_fill(b->frame + HK_WIRE_HLEN + ext, id, m->next, m->len);
	b->len = (uint16_t)(HK_WIRE_HLEN + ext + m->len);
	m->next++;
	b->wire_until = transmit(s, node, b->frame, b->len);
}

/* Sends what waits for @to while there is room. */
static void pump(struct sim *s, unsigned node, unsigned to)
{
	struct sim_node *n = &s->nodes[node];
	struct sim_fifo *q = &n->queue[to];

	while (q->count) {
		uint32_t id = q->items[q->head];
		struct sim_msg *m = &s->msgs[id];

		if (m->dst_epoch == 0) {
			if (!ready(s, node, to))
				return;
			m->src_epoch = n->epoch;
			m->dst_epoch = s->nodes[to].epoch;
		}
		hk_peer p = sim_peer(s, node, to);
		unsigned room = hk_engine_room(n->engine, p);
		CHECK(room <= s->c.engine.window);
		if (room == 0) {
			if (hk_rng_chance(&s->rng, 100000)) {
				uint8_t hdr[HK_WIRE_HLEN];
				struct hk_packet pkt = {.type = HK_WIRE_DATA, .frags = 1};
				CHECK(!hk_engine_send(n->engine, p, &pkt, s->now, hdr));
			}
			if (m->next == 0 && m->must)
				m->src_epoch = m->dst_epoch = 0; /* not begun: not bound */
			return;
		}
		/* asked again for each: a window in bytes may close before one in packets */
		while (m->next < m->frags && hk_engine_room(n->engine, p))
			send_part(s, node, p, id);
		if (m->next == m->frags)
			fifo_pop(q);
	}
}

/* Runs hk_engine_poll() dry; returns how much came out. */
static unsigned poll_engine(struct sim *s, unsigned node)
{
	struct sim_node *n = &s->nodes[node];
	struct hk_out out[64];
	unsigned max = HK_MIN(s->c.poll_max, 64u), got, total = 0;

	do {
		unsigned resends = 0;
		got = hk_engine_poll(n->engine, s->now, out, max);
		CHECK_CMP(got, <=, max);
		for (unsigned i = 0; i < got; i++) {
			struct hk_out *o = &out[i];
			if (o->kind != HK_OUT_RESEND) {
				uint8_t base[sizeof(o->bytes) + HK_WIRE_CRC_LEN];
				CHECK_CMP(o->len, <=, sizeof(o->bytes));
				memcpy(base, o->bytes, o->len);
				transmit(s, node, base, o->len);
				s->stats.controls++;
				continue;
			}
			CHECK_EQ(o->len, HK_WIRE_HLEN);
			CHECK_CMP(o->path, <, HK_MAX(s->c.rails, 2u));
			resends++;
			struct sim_buf *b = buf_by_token(s, node, o->token);
			if (b->wire_until > s->now) { /* the device still reads it: a copy */
				uint8_t copy[SIM_FRAME_MAX];
				memcpy(copy, b->frame, b->len);
				memcpy(copy, o->bytes, HK_WIRE_HLEN);
				transmit(s, node, copy, b->len);
				s->stats.resends++;
				continue;
			}
			memcpy(b->frame, o->bytes, HK_WIRE_HLEN);
			b->wire_until = transmit(s, node, b->frame, b->len);
			s->stats.resends++;
		}
		CHECK_CMP(resends, <=, s->c.engine.resend_cap);
		total += got;
	} while (got == max);
	return total;
}

/* ---- in ------------------------------------------------------------------------------------ */

static void note_held(struct sim *s, unsigned node, int delta)
{
	struct sim_node *n = &s->nodes[node];
	n->held_now = (uint64_t)((int64_t)n->held_now + delta);
	s->stats.held_max = HK_MAX(s->stats.held_max, n->held_now);
}

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

/* The application gets the buffers of a message: looks at each, and may keep them a while. */
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

	memset(&rx, 0xa5, sizeof(rx)); /* what the engine does not set must not be read */
	hk_engine_input(n->engine, frame->bytes, frame->len, token, s->now, &rx);
	if (rx.verdict == HK_RX_HOLD || rx.verdict == HK_RX_DELIVER || rx.verdict == HK_RX_PUT) {
		CHECK_EQ(hk_engine_peer_endpoint(n->engine, rx.peer), rx.f.h.src);
		CHECK(rx.new_peer == (bool)0 || rx.new_peer == (bool)1);
		uint32_t msg = sim_arrived(s, node, &rx, &part);
		sim_check_next(s, node, &rx);
		SIM_LOG(s, "       %u takes message %u part %u of %u: %s", node, msg, part,
			s->msgs[msg].frags,
			rx.verdict == HK_RX_HOLD      ? "held"
			: rx.verdict == HK_RX_DELIVER ? "delivered"
						      : "put");
		if (rx.verdict == HK_RX_HOLD) {
			s->rxbufs[(uint32_t)token].msg = msg;
			s->rxbufs[(uint32_t)token].frag = part;
			note_held(s, node, 1);
			return; /* the buffer stays */
		}
		if (rx.verdict == HK_RX_DELIVER)
			deliver(s, node, &rx, msg, part, token);
		else
			sim_part_done(s, node, msg, part);
	} else {
		CHECK(rx.verdict == HK_RX_DROP || rx.verdict == HK_RX_CONTROL);
	}
	rxbuf_take(s, node, token);
}

void sim_node_release(struct sim *s, unsigned node, unsigned from, unsigned count, uint32_t epoch)
{
	struct sim_node *n = &s->nodes[node];

	if (n->epoch != epoch || count == 0)
		return; /* it died with them */
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

/* ---- verdicts ------------------------------------------------------------------------------ */

void sim_drop_queue(struct sim *s, unsigned node, unsigned to, bool all)
{
	struct sim_fifo *q = &s->nodes[node].queue[to];

	while (q->count && (all || s->msgs[q->items[q->head]].dst_epoch)) {
		struct sim_msg *m = &s->msgs[q->items[q->head]];
		if (m->must) {
			m->must = false;
			s->owed--;
		}
		fifo_pop(q);
	}
}

static void read_verdicts(struct sim *s, unsigned node)
{
	struct sim_node *n = &s->nodes[node];
	enum hk_verdict why;
	hk_peer p;

	while ((p = hk_engine_verdict(n->engine, &why)) != HK_PEER_NONE) {
		struct hk_peer_info info;
		int to = sim_node_by_endpoint(s, hk_engine_peer_endpoint(n->engine, p));

		hk_engine_peer_info(n->engine, p, &info);
		CHECK(to >= 0);
		SIM_LOG(s, "node %u: verdict %d about node %d", node, why, to);
		s->stats.verdicts++;
		n->verdict[to] = why;
		n->verdict_at[to] = s->now;
		CHECK_EQ(hk_engine_room(n->engine, p), 0);
		CHECK_EQ(hk_engine_unacked(n->engine, p), 0);
		sim_give_up(s, node, (unsigned)to, n->epoch, info.epoch);
		sim_drop_queue(s, node, (unsigned)to, why != HK_VERDICT_RESTARTED);
		if (why == HK_VERDICT_RESTARTED) {
			CHECK_EQ(info.state, HK_PEER_DEAD);
			CHECK_MSG(info.epoch != s->nodes[to].epoch,
				  "node %u says that node %d restarted; it did not", node, to);
			n->added[to] = hk_engine_peer_add(n->engine, s->nodes[to].endpoint,
							  s->nodes[to].epoch, s->now);
			CHECK_MSG(n->added[to] != HK_PEER_NONE,
				  "node %u: a restarted peer is refused", node);
			n->added_epoch[to] = s->nodes[to].epoch;
			for (unsigned i = 0; i < s->c.nodes; i++)
				sim_wake(s, i, s->now); /* they may have waited for this */
		} else if (why == HK_VERDICT_SILENT || why == HK_VERDICT_STUCK) {
			CHECK_EQ(info.state, HK_PEER_DEAD);
			CHECK_MSG(s->c.silent_allowed, "node %u gave node %d up", node, to);
		} else {
			CHECK_EQ(why, HK_VERDICT_LEFT);
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
			buf_free(s, node, tokens[i] & ~HK_TOKEN_LOST);
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
	hk_engine_away(n->engine, n->was_busy);
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
		out += poll_engine(s, node);
	} while (n->ring_count);
	hk_engine_away(n->engine, false);
	read_verdicts(s, node);
	reap(s, node);
	unsigned first = (unsigned)hk_rng_below(&s->rng, s->c.nodes);
	for (unsigned i = 0; i < s->c.nodes; i++)
		pump(s, node, (first + i) % s->c.nodes);

	uint64_t next = hk_engine_deadline(n->engine);
	if (next > s->now) {
		n->idle_polls = 0;
	} else {
		/* more to do at once, such as resends beyond the cap: at the next poll */
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

enum hk_verdict sim_verdict(const struct sim *s, unsigned node, unsigned peer)
{
	return s->nodes[node].verdict[peer];
}

uint64_t sim_verdict_at(const struct sim *s, unsigned node, unsigned peer)
{
	return s->nodes[node].verdict_at[peer];
}

uint64_t sim_held(const struct sim *s, unsigned node)
{
	return s->nodes[node].held_now;
}

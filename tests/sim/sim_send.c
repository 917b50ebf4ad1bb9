/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/sim/sim_send.c: the frames that a node sends. It queues messages until there is credit,
 * stores packets until their tokens are reaped, and sends the output of hk_engine_poll().
 */
#include "tests/sim/sim_internal.h"

#include <inttypes.h>

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
	s->undelivered++;
	sim_at(s, after, begin_send, (void *)(uintptr_t)id);
	return id;
}

void sim_drop_queue(struct sim *s, unsigned node, unsigned to, bool all)
{
	struct sim_fifo *q = &s->nodes[node].queue[to];

	while (q->count && (all || s->msgs[q->items[q->head]].dst_epoch)) {
		struct sim_msg *m = &s->msgs[q->items[q->head]];
		if (m->must) {
			m->must = false;
			s->undelivered--;
		}
		fifo_pop(q);
	}
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
		return; /* it may restart at once, or another message is being sent to it */
	uint32_t id = msg_new(s, node, to, HK_WIRE_DATA, 1, SIM_MIN_LEN);
	s->msgs[id].src_epoch = n->epoch;
	s->msgs[id].dst_epoch = info.epoch;
	fifo_push(q, id, true);
}

/* ---- out ----------------------------------------------------------------------------------- */

/* Sends the frame whose base header is at @base, with a checksum if that is configured. */
static uint64_t transmit(struct sim *s, unsigned node, uint8_t *base, size_t len)
{
	if (s->c.engine.protection)
		len += hk_wire_frame_checksum(base);
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

void sim_buf_free(struct sim *s, unsigned node, uint64_t token)
{
	struct sim_buf *b = buf_by_token(s, node, token);
	memset(b->frame, 0xdd, HK_WIRE_HLEN); /* would show a late resend from it */
	b->live = false;
	s->bufs_free[s->bufs_free_len++] = (uint32_t)token;
	s->nodes[node].live--;
}

/* Returns whether @node can send to @to in its present incarnation. In a job the launcher tells
 * which that is. False while the engine knows an earlier one and has not reported its end yet.
 * The engines find out themselves whether @to knows @node's incarnation. */
static bool ready(struct sim *s, unsigned node, unsigned to)
{
	struct sim_node *n = &s->nodes[node], *o = &s->nodes[to];

	if (n->added[to] != HK_PEER_NONE && n->added_epoch[to] == o->epoch)
		return true;
	return sim_peer_add(s, node, to);
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
		.path = put && s->c.path_delay,
	};

	if (s->c.equal_paths) { /* at times one path pauses or returns */
		if (hk_rng_chance(&s->rng, 50000))
			hk_engine_peer_paths(
				n->engine, p,
				(uint8_t)hk_rng_range(&s->rng, 1, (1u << s->c.equal_paths) - 1));
		pkt.path = (uint8_t)(id % s->c.equal_paths);
	}
	struct sim_buf *b = buf_by_token(s, node, pkt.token);

	CHECK_MSG(hk_engine_send(n->engine, p, &pkt, s->now, b->frame),
		  "node %u: room was not 0, but send refused", node);
	if (put)
		hk_wire_put_encode(b->frame + HK_WIRE_HLEN,
				   &(struct hk_wire_put){.region = ~id,
							 .xfer = id,
							 .offset = (uint64_t)m->next * m->len});
	sim_fill(b->frame + HK_WIRE_HLEN + ext, id, m->next, m->len);
	b->len = (uint16_t)(HK_WIRE_HLEN + ext + m->len);
	m->next++;
	b->wire_until = transmit(s, node, b->frame, b->len);
}

/* The engine's `len` of each part of message @m. */
static uint16_t packet_len(const struct sim_msg *m)
{
	return (uint16_t)(m->len + (m->type == HK_WIRE_PUT ? HK_WIRE_PUT_LEN : 0));
}

/* Bytes of queued bulk to @to. */
static uint32_t bulk_waiting(const struct sim *s, const struct sim_node *n, unsigned to)
{
	const struct sim_fifo *q = &n->queue[to];
	uint32_t bytes = 0;

	for (uint32_t i = 0; i < q->count; i++) {
		const struct sim_msg *m = &s->msgs[q->items[(q->head + i) % q->cap]];

		if (packet_len(m) >= HK_LONG_FRAME)
			bytes += (uint32_t)(m->frags - m->next) * packet_len(m);
	}
	return bytes;
}

void sim_pump(struct sim *s, unsigned node, unsigned to)
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
		unsigned room = hk_engine_available(n->engine, p);
		CHECK(room <= s->c.engine.window);
		if (room == 0) {
			if (hk_rng_chance(&s->rng, 100000)) {
				uint8_t hdr[HK_WIRE_HLEN];
				struct hk_packet pkt = {.type = HK_WIRE_DATA, .frags = 1};
				CHECK(!hk_engine_send(n->engine, p, &pkt, s->now, hdr));
			}
			if (m->next == 0 && m->must)
				m->src_epoch = m->dst_epoch =
					0; /* not begun, so not bound to incarnations */
			return;
		}
		/* asked for each packet, because the window in bytes may close before the one in
		 * packets */
		bool granted = true;

		while (m->next < m->frags && hk_engine_available(n->engine, p) &&
		       (granted = hk_engine_granted(n->engine, p, packet_len(m), s->now)))
			send_part(s, node, p, id);
		if (m->next == m->frags)
			fifo_pop(q);
		if (!granted) {
			hk_engine_want(n->engine, p, bulk_waiting(s, n, to), s->now);
			if (m->next == 0 && m->must)
				m->src_epoch = m->dst_epoch = 0;
			return;
		}
	}
}

unsigned sim_poll(struct sim *s, unsigned node)
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
			CHECK_CMP(o->path, <, HK_MAX(s->c.equal_paths, 2u));
			resends++;
			struct sim_buf *b = buf_by_token(s, node, o->token);
			if (b->wire_until >
			    s->now) { /* the device still reads the frame: send a copy */
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

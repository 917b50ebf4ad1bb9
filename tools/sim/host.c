/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/host.c: a host's engine: what it sends and receives. See host.h.
 */
#include "sim/host.h"

#include <stdlib.h>
#include <string.h>

#define BURST         16 /* outputs and tokens taken from the engine at once */
#define EPOCH         1
#define TX_LOW        8 /* puts leave this share of the frame buffers to messages … */
#define PUTS_WHEN_LOW 8 /* … except so many frames of each peer */

static uint64_t now_ns(const struct hosts *h)
{
	return h->net->events.now / SIM_NS;
}

const struct hk_engine_counters *host_counters(const struct hosts *h, uint32_t id)
{
	return hk_engine_counters(h->host[id].engine);
}

/* Where a frame came from whose sender may be unknown to the engine. */
struct asker {
	uint32_t from;
	uint8_t path;
};

/* ---- out ------------------------------------------------------------------------------------- */

/* Tells the engine which paths of a peer are in use, after @before were. */
static void update_paths(struct host *x, hk_peer p, uint8_t before)
{
	uint8_t mask = paths_mask(x->peer[p].paths);

	if (mask != before)
		hk_engine_peer_paths(x->engine, p, mask);
}

/* The record of peer @p; makes it when the engine has just learned of the peer. */
static struct host_peer *learn(struct hosts *h, struct host *x, hk_peer p, uint32_t host)
{
	if (HK_UNLIKELY(p >= x->peers)) {
		host_peer_new(h, x, p, host);
		if (x->peer[p].paths)
			update_paths(x, p, 0);
	}
	return &x->peer[p];
}

/* The path of the next frame to @p; HK_PATHS: its NIC is stuck. */
static unsigned pick_path(struct hosts *h, struct host *x, hk_peer p, bool bulk)
{
	struct paths *paths = x->peer[p].paths;
	uint8_t stuck = host_nics_stuck(h, x);
	unsigned path = 0;

	if (HK_UNLIKELY(paths != NULL)) {
		uint8_t before = paths_mask(paths);

		if (now_ns(h) >= paths->resume_at)
			paths_resume(paths, now_ns(h));
		update_paths(x, p, before);
		path = paths_pick(paths, bulk, stuck);
	}
	return stuck & 1u << path ? HK_PATHS : path;
}

/* Sends the next frame of message @m. False if the window, the NIC or the buffers have no space. */
static bool send_frame(struct hosts *h, struct host *x, hk_peer p, uint32_t m)
{
	struct msg *msg = &h->msg[m];
	uint32_t one = host_payload(h), left = msg->bytes - msg->sent * one;
	struct hk_packet pkt = {.type = msg->put ? HK_WIRE_PUT : HK_WIRE_DATA};
	uint16_t payload = (uint16_t)HK_MIN(one, left);
	bool low = h->c.tx_buffers - HK_MIN(x->tx_in_use, h->c.tx_buffers) <=
		   HK_MAX(h->c.tx_buffers / TX_LOW, HK_WIRE_MAX_FRAGS);

	unsigned path = pick_path(h, x, p, msg->put);

	if (path == HK_PATHS || !hk_engine_available(x->engine, p) ||
	    (msg->put && low && hk_engine_unacked(x->engine, p) >= PUTS_WHEN_LOW))
		return false;
	pkt.len = (uint16_t)(payload + (msg->put ? HK_WIRE_PUT_LEN : 0));
	if (!hk_engine_granted(x->engine, p, pkt.len, now_ns(h)))
		return false;
	if (!msg->put) {
		pkt.frag = (uint8_t)msg->sent;
		pkt.frags = (uint8_t)msg->frames;
	}
	uint32_t b = buf_new(h);
	uint32_t i = host_frame(h, x, msg->to, HK_WIRE_DATA_OVERHEAD + pkt.len, path);
	struct frame *f = &h->net->frames.frame[i];

	h->buf[b] = (struct tx_buf){
		.msg = m, .peer = p, .len = f->len, .payload = payload, .path = (uint8_t)path};
	pkt.token = b;
	pkt.path = (uint8_t)path;
	if (!hk_engine_send(x->engine, p, &pkt, now_ns(h), f->bytes + HK_ETH_HLEN)) {
		frame_free(&h->net->frames, i);
		buf_free(h, b);
		return false;
	}
	host_frame_fill(h, f, b);
	msg->sent++;
	x->tx_in_use += msg->put; /* a message has its buffers since it was sent */
	x->n.data++;
	if (x->peer[p].paths)
		paths_sent(x->peer[p].paths, path);
	host_transmit(h, x, i);
	return true;
}

static bool send_msg(struct hosts *h, struct host *x, hk_peer p, uint32_t m)
{
	while (h->msg[m].sent < h->msg[m].frames)
		if (!send_frame(h, x, p, m))
			return false;
	return true;
}

/* Sends what it can of the queue to @p. Returns whether it sent anything. */
static bool send_queue(struct hosts *h, struct host *x, hk_peer p)
{
	struct host_peer *q = &x->peer[p];
	uint64_t at_first = q->unsent;

	while (q->queue != MSG_NONE) {
		uint64_t before = host_unsent(h, q->queue);
		bool all = send_msg(h, x, p, q->queue);

		q->unsent -= before - (all ? 0 : host_unsent(h, q->queue));
		if (!all)
			break;
		q->queue = h->msg[q->queue].next;
	}
	if (q->queue != MSG_NONE)
		hk_engine_want(x->engine, p, (uint32_t)HK_MIN(q->unsent, 1u << 30), now_ns(h));
	return q->unsent != at_first;
}

/* Peers that sent something go behind the others: all of them get their share of the NIC. */
static void send_queues_run(struct hosts *h, struct host *x)
{
	hk_peer served = HK_PEER_NONE, *served_end = &served;
	hk_peer *link = &x->listed;

	while (*link != HK_PEER_NONE) {
		hk_peer p = *link;
		struct host_peer *q = &x->peer[p];
		bool sent = send_queue(h, x, p);

		if (q->queue != MSG_NONE && !sent) {
			link = &q->next_listed;
			continue;
		}
		*link = q->next_listed;
		q->listed = q->queue != MSG_NONE;
		q->next_listed = HK_PEER_NONE;
		if (q->listed) {
			*served_end = p;
			served_end = &q->next_listed;
		}
	}
	*link = served;
}

/* The path of what the engine wants sent. */
static unsigned out_path(struct hosts *h, struct host *x, const struct hk_out *o,
			 const struct asker *asker)
{
	if (o->peer == HK_PEER_NONE)
		return asker->path;
	struct host_peer *q = &x->peer[o->peer];

	if (HK_LIKELY(!q->paths))
		return 0;
	if (o->kind != HK_OUT_RESEND)
		return paths_for_reply(q->paths, q->reply);
	struct tx_buf *b = &h->buf[o->token];
	uint8_t before = paths_mask(q->paths);

	b->moved |= b->path != o->path;
	paths_lost(q->paths, b->path, o->path, now_ns(h));
	b->path = o->path;
	update_paths(x, o->peer, before);
	return o->path;
}

/* Sends what the engine wants sent. @asker: of the frame that just arrived. */
static void poll_engine(struct hosts *h, struct host *x, const struct asker *asker)
{
	struct hk_out out[BURST];
	unsigned n;

	do {
		n = hk_engine_poll(x->engine, now_ns(h), out, BURST);
		for (unsigned i = 0; i < n; i++) {
			const struct hk_out *o = &out[i];
			bool resend = o->kind == HK_OUT_RESEND;
			struct host_peer *q = o->peer == HK_PEER_NONE ? NULL : &x->peer[o->peer];
			size_t len = resend ? h->buf[o->token].len : HK_ETH_HLEN + o->len;
			uint32_t frame = host_frame(h, x, q ? q->host : asker->from, len,
						    out_path(h, x, o, asker));
			struct frame *f = &h->net->frames.frame[frame];

			memcpy(f->bytes + HK_ETH_HLEN, o->bytes, o->len);
			if (resend)
				host_frame_fill(h, f, (uint32_t)o->token);
			x->n.resends += resend;
			x->n.controls += !resend;
			host_transmit(h, x, frame);
		}
	} while (n == BURST);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void send_or_queue(struct hosts *h, struct host *x, uint32_t m)
{
	struct msg *msg = &h->msg[m];
	hk_peer p = hk_engine_peer_find(x->engine, msg->to);

	if (p == HK_PEER_NONE)
		p = hk_engine_peer_add(x->engine, msg->to, EPOCH, now_ns(h));
	struct host_peer *q = learn(h, x, p, msg->to);

	if (!msg->put)
		x->tx_in_use += msg->frames;
	if (q->queue != MSG_NONE || !send_msg(h, x, p, m))
		host_queue_add(h, x, p, m);
}

/* Messages that wait for frame buffers. */
static void waiting_run(struct hosts *h, struct host *x)
{
	while (x->waiting != MSG_NONE) {
		uint32_t m = x->waiting;

		if (!h->msg[m].put && x->tx_in_use + h->msg[m].frames > h->c.tx_buffers)
			return;
		x->waiting = h->msg[m].next;
		send_or_queue(h, x, m);
	}
}

static void reap(struct hosts *h, struct host *x)
{
	uint64_t tokens[BURST];
	unsigned n;

	while ((n = hk_engine_reap(x->engine, tokens, BURST)) != 0) {
		for (unsigned i = 0; i < n; i++) {
			uint32_t b = (uint32_t)tokens[i], m = h->buf[b].msg;
			struct paths *paths = x->peer[h->buf[b].peer].paths;

			if (paths && !(tokens[i] & HK_TOKEN_LOST))
				paths_acked(paths, h->buf[b].path, h->buf[b].moved);
			buf_free(h, b);
			x->tx_in_use--;
			if (++h->msg[m].acked < h->msg[m].frames)
				continue;
			msg_complete(h, m);
		}
	}
	while ((n = hk_engine_reap_rx(x->engine, tokens, BURST)) != 0) {
		for (unsigned i = 0; i < n; i++)
			frame_free(&h->net->frames, (uint32_t)tokens[i]);
		x->rx_held -= n;
	}
}

/* ---- in -------------------------------------------------------------------------------------- */

/* The application has dealt with a message: frees its buffers, and returns how many. */
static unsigned deliver_bufs(struct hosts *h, struct host *x, uint32_t first)
{
	uint32_t m = h->net->frames.frame[first].msg;
	unsigned count = 0;

	for (uint32_t f = first, next; f != FRAME_NONE; f = next, count++) {
		next = h->net->frames.frame[f].frag;
		frame_free(&h->net->frames, f);
	}
	x->rx_held -= count;
	msg_deliver(h, m);
	return count;
}

/* Hands a message in buffers to the application. */
static void hand_over(struct hosts *h, struct host *x, hk_peer p, uint32_t first)
{
	unsigned count = 0;

	if (HK_LIKELY(!h->c.hold)) {
		(void)deliver_bufs(h, x, first);
		return;
	}
	for (uint32_t f = first; f != FRAME_NONE; f = h->net->frames.frame[f].frag)
		count++;
	x->app_held += count;
	hk_engine_rx_held(x->engine, p, (int)count);
	events_add(&h->net->events, h->net->events.now + h->c.hold, EVENT_TAKEN, x->id, first);
}

static void reorder_out(struct hosts *h, struct host *x, hk_peer p, uint32_t next)
{
	uint32_t first;

	/* the application may send, so that peers move */
	while ((first = host_reorder_due(h, &x->peer[p], next)) != FRAME_NONE)
		hand_over(h, x, p, first);
}

static void put_in(struct hosts *h, uint32_t frame)
{
	const struct frame *f = &h->net->frames.frame[frame];
	struct msg *m = &h->msg[f->msg];
	uint32_t number = f->msg;

	m->arrived += f->payload;
	if (m->arrived == m->bytes)
		msg_deliver(h, number);
}

/* Takes a frame in; returns whether the host keeps its buffer. */
static bool take(struct hosts *h, struct host *x, uint32_t frame)
{
	/* payloads are zeros, so only the headers are copied in front of them */
	static uint8_t bytes[UINT16_MAX];
	const struct frame *f = &h->net->frames.frame[frame];
	uint32_t from = f->from;
	uint8_t path = f->path;
	struct hk_rx rx;

	memcpy(bytes, f->bytes, HK_MIN(f->len, sizeof(f->bytes)));
	/* as a worker whose rx backlog is full */
	if (h->c.hold)
		hk_engine_set_refusing(x->engine, x->app_held + BURST > h->c.engine.rx_budget);
	hk_engine_input(x->engine, bytes, f->len, frame, now_ns(h), &rx);
	if (rx.peer != HK_PEER_NONE) {
		learn(h, x, rx.peer, from)->reply = path;
		if (f->marked)
			hk_engine_marked(x->engine, rx.peer);
	}
	switch (rx.result) {
	case HK_RX_DELIVER:
		x->n.reordered += !hk_psn_before(rx.last, rx.next);
		host_reorder_add(h, &x->peer[rx.peer], rx.tokens, rx.count, rx.last);
		reorder_out(h, x, rx.peer, rx.next);
		return true;
	case HK_RX_HOLD:
		reorder_out(h, x, rx.peer, rx.next);
		return true;
	case HK_RX_PUT:
		put_in(h, frame);
		reorder_out(h, x, rx.peer, rx.next);
		return false;
	case HK_RX_CONTROL:
	case HK_RX_DROP:
	case HK_RX_MCAST:
		break;
	}
	return false;
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* Drops what waits for peers that were given up. Returns whether there were any. */
static bool disconnects(struct hosts *h, struct host *x)
{
	enum hk_disconnect_reason why;
	bool any = false;

	for (hk_peer p; (p = hk_engine_next_disconnect(x->engine, &why)) != HK_PEER_NONE;) {
		struct host_peer *q = &x->peer[p];

		for (; q->queue != MSG_NONE; q->queue = h->msg[q->queue].next)
			if (!h->msg[q->queue].put)
				x->tx_in_use -= h->msg[q->queue].frames - h->msg[q->queue].sent;
		x->n.disconnects++;
		any = true;
	}
	return any;
}

/* Does what is due, and notes when something is due again. */
static void turn(struct hosts *h, struct host *x)
{
	x->busy = true;
	do {
		reap(h, x);
		waiting_run(h, x);
		send_queues_run(h, x);
		poll_engine(h, x, NULL);
	} while (disconnects(h, x)); /* whose buffers and blocks are free now */
	x->busy = false;

	host_note_deadline(h, x);
}

void host_wake(struct hosts *h, uint32_t id)
{
	if (host_woken(h, &h->host[id]))
		turn(h, &h->host[id]);
}

void host_taken(struct hosts *h, uint32_t id, uint32_t first)
{
	struct host *x = &h->host[id];
	hk_peer p = hk_engine_peer_find(x->engine, h->net->frames.frame[first].from);

	x->busy = true;
	unsigned count = deliver_bufs(h, x, first);

	x->app_held -= count;
	hk_engine_rx_held(x->engine, p, -(int)count);
	turn(h, x);
}

static void arrived(void *arg, uint32_t host, uint32_t frame)
{
	struct hosts *h = arg;
	struct host *x = &h->host[host];
	struct asker asker = {h->net->frames.frame[frame].from, h->net->frames.frame[frame].path};

	if (HK_UNLIKELY(x->silent)) {
		frame_free(&h->net->frames, frame);
		return;
	}
	if (x->rx_held >= h->c.pool) {
		x->n.rx_no_buffer++;
		frame_free(&h->net->frames, frame);
		return;
	}
	x->rx_held++;
	x->n.rx_held_max = HK_MAX(x->n.rx_held_max, x->rx_held);
	x->busy = true;
	if (!take(h, x, frame)) {
		frame_free(&h->net->frames, frame);
		x->rx_held--;
	}
	if (hk_engine_deadline(x->engine) == 0)
		poll_engine(h, x, &asker);
	turn(h, x);
}

static void nic_sent(void *arg, uint32_t host)
{
	struct hosts *h = arg;
	struct host *x = &h->host[host];

	if (HK_LIKELY(!x->nic_full))
		return;
	x->nic_full = false;
	turn(h, x);
}

void host_send(struct hosts *h, uint32_t from, uint32_t to, uint32_t bytes, bool put, uint32_t tag)
{
	struct host *x = &h->host[from];
	uint32_t frames = (bytes + host_payload(h) - 1) / host_payload(h);
	uint32_t m = msg_new(h);

	h->msg[m] = (struct msg){.next = MSG_NONE,
				 .from = from,
				 .to = to,
				 .bytes = bytes,
				 .tag = tag,
				 .frames = frames,
				 .began = h->net->events.now,
				 .put = put || frames > HK_WIRE_MAX_FRAGS};
	msg_wait(h, x, m);
	waiting_run(h, x);
	if (!x->busy) /* otherwise a turn follows */
		turn(h, x);
}

/* ---- life ------------------------------------------------------------------------------------ */

void hosts_init(struct hosts *h, const struct host_config *c, struct net *net, uint32_t count)
{
	hosts_new(h, c, net, count);
	net->arrived = arrived;
	net->sent = nic_sent;
	net->arg = h;
}

void host_start(struct hosts *h, uint32_t id, uint32_t peers, bool receives)
{
	struct host *x = &h->host[id];
	struct hk_engine_config c = h->c.engine;

	c.endpoint = id;
	c.epoch = EPOCH;
	/* unused entries would only cost memory, a thousand times */
	c.max_peers = peers;
	c.tx_blocks = peers;
	if (!receives)
		c.rx_budget = HK_WIRE_MAX_FRAGS;
	size_t bytes = hk_engine_size(&c);

	host_new(x, id);
	x->arena = aligned_alloc(64, bytes);
	x->engine = x->arena ? hk_engine_init(x->arena, bytes, &c) : NULL;
	if (!x->engine)
		sim_no_memory();
}

void hosts_free(struct hosts *h)
{
	for (uint32_t i = 0; i < h->count; i++) {
		for (uint32_t k = 0; k < h->host[i].peers; k++)
			free(h->host[i].peer[k].paths);
		free(h->host[i].arena);
		free(h->host[i].peer);
	}
	free(h->host);
	free(h->msg);
	free(h->buf);
}

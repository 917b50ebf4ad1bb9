/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/host_queue.c: a host's messages, frame buffers, send queues and reorder queues.
 */
#include "sim/host.h"

void hosts_new(struct hosts *h, const struct host_config *c, struct net *net, uint32_t count)
{
	*h = (struct hosts){
		.c = *c, .net = net, .count = count, .msg_free = MSG_NONE, .buf_free = MSG_NONE};
	h->host = sim_alloc(count * sizeof(*h->host));
}

void host_new(struct host *x, uint32_t id)
{
	*x = (struct host){
		.id = id, .listed = HK_PEER_NONE, .waiting = MSG_NONE, .wake_at = UINT64_MAX};
}

uint32_t msg_new(struct hosts *h)
{
	uint32_t m = h->msg_free;

	if (m != MSG_NONE) {
		h->msg_free = h->msg[m].next;
		return m;
	}
	h->msg = sim_grow(h->msg, h->msgs, &h->msgs_cap, sizeof(*h->msg));
	return h->msgs++;
}

void msg_end_if_done(struct hosts *h, uint32_t m)
{
	struct msg *x = &h->msg[m];

	if (!x->delivered || x->acked < x->frames)
		return;
	x->next = h->msg_free;
	h->msg_free = m;
}

void msg_deliver(struct hosts *h, uint32_t m)
{
	h->msg[m].delivered = true;
	struct msg done = h->msg[m];

	msg_end_if_done(h, m);
	h->delivered(h->arg, &done);
}

void msg_complete(struct hosts *h, uint32_t m)
{
	struct msg done = h->msg[m];

	msg_end_if_done(h, m);
	h->completed(h->arg, &done);
}

void msg_wait(struct hosts *h, struct host *x, uint32_t m)
{
	if (x->waiting != MSG_NONE)
		h->msg[x->waiting_tail].next = m;
	else
		x->waiting = m;
	x->waiting_tail = m;
}

uint32_t buf_new(struct hosts *h)
{
	uint32_t b = h->buf_free;

	if (b != MSG_NONE) {
		h->buf_free = h->buf[b].msg;
		return b;
	}
	h->buf = sim_grow(h->buf, h->bufs, &h->bufs_cap, sizeof(*h->buf));
	return h->bufs++;
}

void buf_free(struct hosts *h, uint32_t b)
{
	h->buf[b].msg = h->buf_free;
	h->buf_free = b;
}

/* ---- when a host acts ------------------------------------------------------------------------ */

void host_note_deadline(struct hosts *h, struct host *x)
{
	uint64_t next = hk_engine_deadline(x->engine), now = h->net->events.now / SIM_NS;

	if (next == UINT64_MAX)
		return;
	/* more may be due at once, such as resends beyond the cap */
	uint64_t at = HK_MAX(next, now + (next <= now ? HK_USEC : 1)) * SIM_NS;

	if (at < x->wake_at) {
		x->wake_at = at;
		events_add(&h->net->events, at, EVENT_WAKE, x->id, 0);
	}
}

bool host_woken(const struct hosts *h, struct host *x)
{
	if (x->wake_at != h->net->events.now)
		return false;
	x->wake_at = UINT64_MAX;
	return true;
}

/* ---- peers and their send queues ------------------------------------------------------------- */

void host_peer_new(const struct hosts *h, struct host *x, hk_peer p, uint32_t host)
{
	while (x->peers <= p) {
		x->peer = sim_grow(x->peer, x->peers, &x->peers_cap, sizeof(*x->peer));
		x->peer[x->peers++] = (struct host_peer){.host = host,
							 .queue = MSG_NONE,
							 .reorder = FRAME_NONE,
							 .next_listed = HK_PEER_NONE};
	}
	if (h->net->c.host_ports > 1) {
		x->peer[p].paths = sim_alloc(sizeof(struct paths));
		paths_init(x->peer[p].paths, h->net->c.host_ports);
	}
}

void host_list_add(struct host *x, hk_peer p)
{
	struct host_peer *q = &x->peer[p];

	if (q->listed)
		return;
	q->listed = true;
	q->next_listed = x->listed;
	x->listed = p;
}

uint64_t host_unsent(const struct hosts *h, uint32_t m)
{
	const struct msg *x = &h->msg[m];
	uint32_t one = host_payload(h), ext = x->put ? HK_WIRE_PUT_LEN : 0;
	uint64_t left = x->bytes - (uint64_t)x->sent * one;
	uint32_t last = x->bytes % one;

	/* a short frame at the end needs no grant */
	if (left && last && last + ext < HK_LONG_FRAME)
		return (left - last) / one * (one + ext);
	return left + (uint64_t)(x->frames - x->sent) * ext;
}

void host_queue_add(struct hosts *h, struct host *x, hk_peer p, uint32_t m)
{
	struct host_peer *q = &x->peer[p];

	h->msg[m].next = MSG_NONE;
	if (q->queue == MSG_NONE)
		q->queue = m;
	else
		h->msg[q->queue_tail].next = m;
	q->queue_tail = m;
	q->unsent += host_unsent(h, m);
	host_list_add(x, p);
}

/* ---- messages that wait for an earlier one --------------------------------------------------- */

void host_reorder_add(struct hosts *h, struct host_peer *q, const uint64_t *tokens, unsigned count,
		      uint32_t last)
{
	struct frame *frame = h->net->frames.frame;
	uint32_t first = (uint32_t)tokens[0];
	uint32_t *link = &q->reorder;

	for (unsigned i = 0; i < count; i++)
		frame[tokens[i]].frag = i + 1 < count ? (uint32_t)tokens[i + 1] : FRAME_NONE;
	frame[first].last = last;
	/* mostly at the tail: when one frame of many is lost, the rest arrives in order */
	if (*link != FRAME_NONE && hk_psn_before(frame[q->reorder_tail].last, last))
		link = &frame[q->reorder_tail].next;
	while (*link != FRAME_NONE && hk_psn_before(frame[*link].last, last))
		link = &frame[*link].next;
	frame[first].next = *link;
	*link = first;
	if (frame[first].next == FRAME_NONE)
		q->reorder_tail = first;
}

uint32_t host_reorder_due(struct hosts *h, struct host_peer *q, uint32_t next)
{
	struct frame *frame = h->net->frames.frame;
	uint32_t first = q->reorder;

	if (first == FRAME_NONE || !hk_psn_before(frame[first].last, next))
		return FRAME_NONE;
	q->reorder = frame[first].next;
	return first;
}

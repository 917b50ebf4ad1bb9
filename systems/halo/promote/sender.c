/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/sender.c: the messages of a channel, at its sender.
 *
 * DESIGN NOTES
 *
 * While a channel is promoted, its messages go in order. A message goes by a put if its stream has
 * a place at the receiver. Otherwise it waits in the channel's queue until the receiver has taken a
 * put. Queued messages go by MPI in two cases:
 *
 * - The promotion ends.
 * - The program sends another message to the same rank by MPI. A receiver that receives any tag
 *   must see the messages in the order of sending.
 */
#include "halo/promote/tx_stream.h"

#include "opal/runtime/opal_progress.h"

/* Bytes of the longest blocking send that is copied to the queue. A longer one waits for its place,
 * as in MPI it waits for the receiver. */
#define COPY_MAX (64U << 10)
/* Bytes of the copies of one channel; beyond that any blocking send waits. */
#define COPIED_MAX ((size_t)16 << 20)

/* A put in flight. */
struct outgoing {
	struct hk_op op;
	struct hk_layout from;
	struct hk_block block;
	struct hk_tx_stream *tx;
	struct hk_pending *pending; /* to complete when the source is free; NULL: complete */
	struct outgoing *next;      /* in `borrowed` or `unused` */
	bool acknowledged;
};

static struct outgoing *unused;
static struct outgoing *borrowed;    /* puts whose source is the program's memory, still in use */
static struct hk_sender *with_queue; /* senders with queued messages */

static void outgoing_free(struct outgoing *x)
{
	x->next = unused;
	unused = x;
}

static void acknowledged(void *arg, int status)
{
	struct outgoing *x = arg;

	if (status)
		hk_promote_abort("a rank with promoted channels is disconnected");
	x->tx->in_flight--;
	x->acknowledged = true;
	if (!x->pending)
		outgoing_free(x);
}

/* Puts @p, whose stream has a place. True: its buffer is already free. */
static bool put(struct hk_sender *o, struct hk_tx_stream *tx, struct hk_pending *p)
{
	struct outgoing *x = unused;

	if (HK_LIKELY(x != NULL))
		unused = x->next;
	else
		x = hk_promote_alloc(sizeof(*x));
	if (!p->contiguous && !p->copy)
		hk_pending_pack(p);
	x->block = (struct hk_block){p->copy ? p->copy : p->buf, 0, p->bytes};
	x->from = (struct hk_layout){&x->block, 1, p->bytes};
	x->tx = tx;
	x->pending = p;
	x->acknowledged = false;
	tx->number++;
	tx->in_flight++;
	o->puts++;
	o->put_bytes += p->bytes;
	if (hk_service->put(o->to, &x->op, &x->from, tx->remote, tx->number, acknowledged, x) != 0)
		hk_promote_abort("a rank with promoted channels is disconnected");
	if (x->acknowledged || hk_op_source_free(&x->op)) {
		x->pending = NULL;
		if (x->acknowledged)
			outgoing_free(x);
		return true;
	}
	x->next = borrowed;
	borrowed = x;
	hk_promote_busy++;
	return false;
}

static void enqueue(struct hk_sender *o, struct hk_pending *p)
{
	if (!o->queue.head) {
		o->next_queued = with_queue;
		with_queue = o;
		o->pair->queued++;
		hk_promote_busy++;
	}
	hk_pending_list_add(&o->queue, p);
}

void hk_sender_unqueue(struct hk_sender *o)
{
	struct hk_sender **at = &with_queue;

	while (*at != o)
		at = &(*at)->next_queued;
	*at = o->next_queued;
	o->pair->queued--;
	hk_promote_busy--;
}

static void put_queued(struct hk_sender *o)
{
	while (o->queue.head) {
		struct hk_pending *p = o->queue.head;
		struct hk_tx_stream *tx = &o->tx[hk_schedule_at(&o->schedule, p->index)];

		hk_tx_stream_read_reports(tx);
		if (!hk_tx_stream_has_place(tx))
			return;
		hk_pending_list_pop(&o->queue);
		if (p->copy)
			o->copied_bytes -= p->bytes;
		*hk_tx_stream_position(tx, tx->number + 1) = (struct hk_put_position){p->index,
										      p->position};
		if (put(o, tx, p))
			hk_pending_complete(p);
	}
	hk_sender_unqueue(o);
}

/* Before a message of another tag goes to the same rank by MPI: sends the queued ones first, for a
 * receiver that receives any tag. */
static void flush_pair(const struct hk_send_pair *p)
{
	for (int k = 0; p->queued && k < p->tags; k++)
		if (p->sender[k]->queue.head)
			hk_sender_end(p->sender[k], HK_SENDER_OVERTOOK);
}

/* The log forgets old messages. Ends channels whose puts it would forget before the receiver
 * reports them as taken. Earlier, asks the receiver which puts it has taken, since its reports come
 * in batches. */
static void check_log(struct hk_send_pair *p)
{
	uint64_t soon, forgotten = hk_send_log_check(&p->log, &soon);

	for (int k = 0; k < p->tags; k++) {
		struct hk_sender *o = p->sender[k];
		uint64_t at = o->state == HK_SENDER_PROMOTED ? hk_sender_oldest(o) : UINT64_MAX;

		if (at < forgotten)
			hk_sender_end(o, "many messages of other tags came after its last");
		else if (at < soon)
			hk_control_ask_taken(o);
	}
}

static bool by_put(struct hk_sender *o, const void *buf, int count, ompi_datatype_t *type,
		   struct hk_persistent *persistent, MPI_Request *request)
{
	struct hk_pending *p = hk_pending_new(o->comm->comm, buf, count, type, o->peer, o->tag);
	struct hk_tx_stream *tx = &o->tx[hk_schedule_at(&o->schedule, o->sent)];
	bool free_now = false;

	p->is_send = true;
	p->index = o->sent++;
	p->position = o->pair->log.sent;
	o->bytes += p->bytes;
	hk_send_log_append(&o->pair->log, o->pair_index);
	if (persistent)
		hk_pending_activate(p, persistent);
	if (!o->queue.head)
		hk_tx_stream_read_reports(tx);
	if (HK_LIKELY(!o->queue.head && hk_tx_stream_has_place(tx))) {
		*hk_tx_stream_position(tx, tx->number + 1) = (struct hk_put_position){p->index,
										      p->position};
		free_now = put(o, tx, p);
	} else {
		if (!request && p->bytes <= COPY_MAX && o->copied_bytes + p->bytes <= COPIED_MAX) {
			hk_pending_pack(p);
			o->copied_bytes += p->bytes;
		}
		enqueue(o, p);
	}
	if (request) {
		if (!persistent)
			*request = free_now ? &ompi_request_empty : &p->request;
		if (free_now && !persistent)
			p->user_request = NULL;
		if (free_now)
			hk_pending_complete(p);
	} else if (free_now || p->copy) {
		p->user_request = NULL;
		if (free_now)
			hk_pending_complete(p);
	} else {
		MPI_Request own = &p->request;

		PMPI_Wait(&own, MPI_STATUS_IGNORE);
	}
	return true;
}

bool hk_sender_send(struct hk_sender *o, const void *buf, int count, ompi_datatype_t *type,
		    enum hk_send_mode mode, struct hk_persistent *persistent, MPI_Request *request)
{
	size_t size = type->super.size * (size_t)count;
	uint32_t bytes = size > HK_SIZE_MAX || mode != HK_SEND_STANDARD ? HK_SIZE_NONE
									: (uint32_t)size;

	if (HK_UNLIKELY(!request && o->queue.head))
		opal_progress(); /* reads reports even if the program only sends */
	if (HK_UNLIKELY(o->pair->log.sent >= o->pair->log.check_at))
		check_log(o->pair);
	if (o->state == HK_SENDER_PROMOTED && o->sent >= o->start) {
		if (HK_LIKELY(bytes == o->schedule.bytes[hk_schedule_at(&o->schedule, o->sent)]))
			return by_put(o, buf, count, type, persistent, request);
		hk_sender_end(o, mode != HK_SEND_STANDARD ? "a synchronous or buffered send"
							  : "a size that was not foreseen");
	}
	if (HK_UNLIKELY(o->pair->queued))
		flush_pair(o->pair);
	o->bytes += size;
	uint64_t index = o->sent++;

	hk_send_log_append(&o->pair->log, o->pair_index);
	if (o->unpromotable ||
	    (o->state == HK_SENDER_PLAIN && o->watch && o->watch->from > o->sent)) {
		o->count_until = o->unpromotable ? UINT64_MAX : o->watch->from;
		return false;
	}
	if (HK_UNLIKELY(!o->watch)) {
		if (index == 0) { /* a tag may be used once */
			o->first_bytes = bytes;
			return false;
		}
		o->watch = hk_promote_alloc(sizeof(*o->watch));
		hk_watch_init(o->watch, 0);
		hk_watch_add(o->watch, 0, o->first_bytes);
	}
	int period = hk_watch_add(o->watch, index, bytes);

	if (HK_UNLIKELY(period && o->state != HK_SENDER_PROMOTED && index >= o->retry &&
			!o->pair->too_many_tags && !o->comm->closing && hk_sender_idle(o) &&
			hk_watch_schedule(o->watch, index, period, &o->schedule)))
		hk_control_propose(o);
	return false;
}

void hk_sender_poll(void)
{
	for (struct outgoing **at = &borrowed, *x; (x = *at);) {
		if (!x->acknowledged && !hk_op_source_free(&x->op)) {
			at = &x->next;
			continue;
		}
		*at = x->next;
		hk_pending_complete(x->pending);
		x->pending = NULL;
		hk_promote_busy--;
		if (x->acknowledged)
			outgoing_free(x);
	}
	for (struct hk_sender *o = with_queue, *next; o; o = next) {
		next = o->next_queued;
		put_queued(o);
	}
}

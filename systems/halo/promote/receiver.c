/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/receiver.c: the receiver's end of a channel.
 *
 * DESIGN NOTES
 *
 * The first waiting receive of a stream opens the stream's notify target on its buffer. So bytes
 * that arrive from then on go straight to the program's buffer. The receiver reports the puts that
 * it has taken to the sender in batches.
 *
 * From acceptance until the sender commits, receives from the agreed message on are undecided. They
 * are neither posted to MPI nor given to a notify target.
 */
#include "halo/promote/promote.h"

#include <stdlib.h>
#include <string.h>

static struct hk_receiver *live;    /* all that are not plain */
static struct hk_rx_stream *listed; /* all with waiting receives, and some others */

/* A put without bytes in flight: the report that puts were taken. */
struct report {
	struct hk_op op;
	struct report *next;
};

static struct report *unused;
static int reporting; /* reports in flight */

static void report_done(void *arg, int status)
{
	struct report *t = arg;

	(void)status; /* a sender that has disconnected needs no report */
	reporting--;
	t->next = unused;
	unused = t;
}

/* Reports that HK_TAKEN_BATCH more puts were taken, or the last ones. */
static void report_taken(const struct hk_receiver *n, struct hk_rx_stream *rx)
{
	static const struct hk_layout nothing;
	struct report *t = unused;

	if (HK_LIKELY(t != NULL))
		unused = t->next;
	else
		t = hk_promote_alloc(sizeof(*t));
	reporting++;
	rx->unreported = 0;
	if (hk_service->put(n->from, &t->op, &nothing, rx->taken, ++rx->reports, report_done, t) !=
	    0)
		report_done(t, 0);
}

bool hk_receiver_reporting(void)
{
	return reporting > 0;
}

/* Opens the notify target on the buffer of @p, the first receive. */
static void open_for(struct hk_rx_stream *rx, const struct hk_pending *p)
{
	if (HK_LIKELY(p->contiguous && p->bytes >= rx->target.to.len)) {
		rx->block.base = p->buf;
	} else {
		if (!rx->bounce)
			rx->bounce = hk_promote_alloc(rx->target.to.len);
		rx->block.base = rx->bounce;
	}
	hk_service->notify_open(&rx->target);
	rx->open = true;
}

static void arrived(struct hk_rx_stream *rx, struct hk_pending *p)
{
	uint32_t bytes = (uint32_t)rx->target.to.len;

	if (HK_UNLIKELY(bytes > p->bytes)) { /* as MPI does: the part that fits, and an error */
		p->request.req_status.MPI_ERROR = MPI_ERR_TRUNCATE;
		bytes = p->bytes;
	}
	p->request.req_status._ucount = bytes;
	if (rx->block.base == rx->bounce)
		hk_pending_unpack(p, rx->bounce, bytes);
	hk_pending_complete(p);
}

static void advance(const struct hk_receiver *n, struct hk_rx_stream *rx)
{
	while (rx->waiting.head) {
		struct hk_pending *p = rx->waiting.head;

		if (!rx->open)
			open_for(rx, p);
		if (!hk_notify_complete(&rx->target))
			return;
		hk_service->notify_take(&rx->target);
		rx->open = false;
		if (++rx->unreported == HK_TAKEN_BATCH)
			report_taken(n, rx);
		hk_pending_list_pop(&rx->waiting);
		hk_promote_busy--;
		arrived(rx, p);
	}
}

static void assign(struct hk_receiver *n, struct hk_pending *p)
{
	struct hk_rx_stream *rx = &n->rx[hk_schedule_at(&n->schedule, p->index)];

	hk_promote_busy++;
	hk_pending_list_add(&rx->waiting, p);
	if (!rx->open)
		advance(n, rx);
	if (rx->waiting.head && !rx->listed) {
		rx->listed = true;
		rx->next = listed;
		listed = rx;
	}
}

static void unlist(const struct hk_rx_stream *rx)
{
	struct hk_rx_stream **at = &listed;

	while (*at != rx)
		at = &(*at)->next;
	*at = rx->next;
}

bool hk_receiver_receive(struct hk_receiver *n, void *buf, int count, ompi_datatype_t *type,
			 struct hk_persistent *persistent, MPI_Request *request)
{
	uint64_t index = n->posted++;

	if (HK_LIKELY(n->state == HK_RECEIVER_PLAIN) || index < n->start ||
	    (n->state == HK_RECEIVER_ENDING && index >= n->end)) {
		hk_receiver_check(n); /* the promotion may have ended before its first put */
		return false;
	}
	struct hk_pending *p = hk_pending_new(n->comm->comm, buf, count, type, n->peer, n->tag);

	p->is_send = false;
	p->index = index;
	if (persistent)
		hk_pending_activate(p, persistent);
	else
		*request = &p->request;
	if (n->state == HK_RECEIVER_ACCEPTED)
		hk_pending_list_add(&n->undecided, p);
	else
		assign(n, p);
	/* If this was the last put, no receive waits, so progress does not look at @n. */
	if (HK_UNLIKELY(n->state == HK_RECEIVER_ENDING))
		hk_receiver_check(n);
	return true;
}

/* ---- how a promotion begins and ends
 * ------------------------------------------------------------------ */

static void free_streams(struct hk_receiver *n)
{
	for (int k = 0; n->rx && k < n->schedule.sizes; k++) {
		struct hk_rx_stream *rx = &n->rx[k];

		if (rx->listed)
			unlist(rx);
		if (rx->target.region != HK_REGION_NONE)
			hk_service->notify_del(&rx->target);
		free(rx->staging);
		free(rx->bounce);
	}
	free(n->rx);
	hk_send_order_release(n->send_order);
	free(n->untaken);
	n->rx = NULL;
	n->send_order = NULL;
	n->untaken = NULL;
	n->untaken_count = 0;
}

static void plain(struct hk_receiver *n)
{
	struct hk_receiver **at = &live;

	while (*at != n)
		at = &(*at)->next_live;
	*at = n->next_live;
	n->comm->live_receivers--;
	n->comm->open_receivers -= n->state != HK_RECEIVER_ENDING;
	free_streams(n);
	n->state = HK_RECEIVER_PLAIN;
}

bool hk_receiver_accept(struct hk_receiver *n, const struct hk_schedule *s, hk_peer from,
			hk_region *regions)
{
	bool good = true;

	n->schedule = *s;
	n->from = from;
	n->rx = hk_promote_alloc(s->sizes * sizeof(*n->rx));
	for (int k = 0; k < s->sizes; k++) {
		struct hk_rx_stream *rx = &n->rx[k];
		struct hk_layout to = {&rx->block, 1, s->bytes[k]};

		rx->block.len = s->bytes[k];
		rx->receiver = n;
		hk_pending_list_init(&rx->waiting);
		rx->staging = malloc(HK_STREAM_DEPTH * (size_t)s->bytes[k] + 1);
		rx->target.region = HK_REGION_NONE;
		if (good && rx->staging)
			rx->target.region = hk_service->notify_add(&rx->target, from, &to,
								   rx->staging, HK_STREAM_DEPTH);
		regions[k] = rx->target.region;
		good &= regions[k] != HK_REGION_NONE;
	}
	if (!good) {
		free_streams(n);
		return false;
	}
	n->state = HK_RECEIVER_ACCEPTED;
	n->end_requested = false;
	n->flushed = false;
	n->next_live = live;
	live = n;
	n->comm->live_receivers++;
	n->comm->open_receivers++;
	return true;
}

void hk_receiver_committed(struct hk_receiver *n, const hk_region *taken)
{
	struct hk_pending *p;

	for (int k = 0; k < n->schedule.sizes; k++)
		n->rx[k].taken = taken[k];
	n->state = HK_RECEIVER_PROMOTED;
	while ((p = hk_pending_list_pop(&n->undecided)))
		assign(n, p);
	if (n->comm->too_many_receivers)
		hk_control_ask_end(n);
}

void hk_receiver_withdrawn(struct hk_receiver *n)
{
	struct hk_pending *p;

	while ((p = hk_pending_list_pop(&n->undecided)))
		hk_pending_use_mpi(p);
	plain(n);
}

void hk_receiver_check(struct hk_receiver *n)
{
	if (n->state != HK_RECEIVER_ENDING || n->posted < n->end)
		return;
	for (int k = 0; k < n->schedule.sizes; k++)
		if (n->rx[k].waiting.head)
			return;
	for (int k = 0; k < n->schedule.sizes; k++)
		if (n->rx[k].unreported)
			report_taken(n, &n->rx[k]);
	plain(n);
}

/* Cuts @l before the first receive of message @end or later. Returns the list of those. */
static struct hk_pending *cut(struct hk_pending_list *l, uint64_t end)
{
	struct hk_pending **at = &l->head, *rest;

	while (*at && (*at)->index < end)
		at = &(*at)->next;
	rest = *at;
	*at = NULL;
	l->tail = at;
	return rest;
}

/* Receives that wait for messages from @end on are posted to MPI, in their order. */
void hk_receiver_ended(struct hk_receiver *n, uint64_t end, const struct hk_put_position *untaken,
		       uint32_t untaken_count, struct hk_send_order *send_order)
{
	struct hk_pending *rest[HK_STREAMS_MAX];

	n->state = HK_RECEIVER_ENDING;
	n->end = end;
	n->send_order = send_order;
	n->untaken = hk_promote_alloc(untaken_count * sizeof(*untaken));
	n->untaken_count = untaken_count;
	if (untaken_count)
		memcpy(n->untaken, untaken, untaken_count * sizeof(*untaken));
	if (n->comm->too_many_receivers)
		hk_send_order_count(n);
	n->comm->open_receivers--;
	for (int k = 0; k < n->schedule.sizes; k++)
		rest[k] = cut(&n->rx[k].waiting, end);
	for (;;) {
		struct hk_pending **first = NULL, *p;

		for (int k = 0; k < n->schedule.sizes; k++)
			if (rest[k] && (!first || rest[k]->index < (*first)->index))
				first = &rest[k];
		if (!first)
			break;
		p = *first;
		*first = p->next;
		hk_promote_busy--;
		hk_pending_use_mpi(p);
	}
	hk_receiver_check(n);
}

void hk_receiver_poll(void)
{
	bool ending = false;

	for (struct hk_rx_stream **at = &listed, *rx; (rx = *at);) {
		advance(rx->receiver, rx);
		ending |= rx->receiver->state == HK_RECEIVER_ENDING;
		if (rx->waiting.head) {
			at = &rx->next;
		} else {
			*at = rx->next;
			rx->listed = false;
		}
	}
	for (struct hk_receiver *n = ending ? live : NULL, *next; n; n = next) {
		next = n->next_live;
		hk_receiver_check(n);
	}
}

bool hk_receiver_any_waiting(const struct hk_comm *c)
{
	for (const struct hk_receiver *n = live; n; n = n->next_live) {
		if (n->comm != c)
			continue;
		if (n->state != HK_RECEIVER_ENDING)
			return true;
		for (int k = 0; k < n->schedule.sizes; k++)
			if (n->rx[k].waiting.head)
				return true;
	}
	return false;
}

struct hk_receiver *hk_receiver_live(void)
{
	return live;
}

void hk_receiver_free(struct hk_receiver *n)
{
	hk_control_forget_end(n->id);
	if (n->state != HK_RECEIVER_PLAIN)
		plain(n);
	free(n);
}

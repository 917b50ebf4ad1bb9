/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/in.c: the receiver's end of a channel.
 *
 * The receive that is next in its stream has the stream's inbox opened, so its bytes go straight to the program's
 * buffer, as far as they come after it was posted. Puts that were taken are told to the sender, a few at once.
 *
 * From accepting until the sender commits, receives from the agreed message on are neither posted to MPI nor given to an
 * inbox: they are held until it is known.
 */
#include "halo/interpose/interpose.h"

#include <stdlib.h>
#include <string.h>

static struct hk_receiver *live;    /* all that are not plain */
static struct hk_rx_stream *listed; /* all that receives wait for, and some whose last has come */

struct told { /* a put without bytes, under way: something was taken */
	struct hk_op op;
	struct told *next;
};

static struct told *unused;
static int telling;

static void told(void *arg, int status)
{
	struct told *t = arg;

	(void)status; /* of a sender that has left: nobody wants to know */
	telling--;
	t->next = unused;
	unused = t;
}

/* HK_TOLD_AT_ONCE more puts were taken, or the last. */
static void tell(const struct hk_receiver *n, struct hk_rx_stream *rx)
{
	static const struct hk_layout nothing;
	struct told *t = unused;

	if (HK_LIKELY(t != NULL))
		unused = t->next;
	else
		t = hk_need(sizeof(*t));
	telling++;
	rx->untold = 0;
	if (hk_service->put(n->from, &t->op, &nothing, rx->taken, ++rx->tells, told, t) != 0)
		told(t, 0);
}

bool hk_in_telling(void)
{
	return telling > 0;
}

/* The inbox's place becomes that of the first receive. */
static void open_for(struct hk_rx_stream *rx, const struct hk_pending *p)
{
	if (HK_LIKELY(p->contiguous && p->bytes >= rx->in.to.len)) {
		rx->block.base = p->buf;
	} else {
		if (!rx->scratch)
			rx->scratch = hk_need(rx->in.to.len);
		rx->block.base = rx->scratch;
	}
	hk_service->inbox_open(&rx->in);
	rx->open = true;
}

static void arrived(struct hk_rx_stream *rx, struct hk_pending *p)
{
	uint32_t bytes = (uint32_t)rx->in.to.len;

	if (HK_UNLIKELY(bytes > p->bytes)) { /* as MPI: what fits, and an error */
		p->own.req_status.MPI_ERROR = MPI_ERR_TRUNCATE;
		bytes = p->bytes;
	}
	p->own.req_status._ucount = bytes;
	if (rx->block.base == rx->scratch)
		hk_unpack(p, rx->scratch, bytes);
	hk_pending_done(p);
}

static void advance(const struct hk_receiver *n, struct hk_rx_stream *rx)
{
	while (rx->waiting.head) {
		struct hk_pending *p = rx->waiting.head;

		if (!rx->open)
			open_for(rx, p);
		if (!hk_inbox_whole(&rx->in))
			return;
		hk_service->inbox_take(&rx->in);
		rx->open = false;
		if (++rx->untold == HK_TOLD_AT_ONCE)
			tell(n, rx);
		hk_list_pop(&rx->waiting);
		hk_busy--;
		arrived(rx, p);
	}
}

static void assign(struct hk_receiver *n, struct hk_pending *p)
{
	struct hk_rx_stream *rx = &n->rx[hk_schedule_at(&n->schedule, p->index)];

	hk_busy++;
	hk_list_add(&rx->waiting, p);
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

bool hk_in_receive(struct hk_receiver *n, void *buf, int count, ompi_datatype_t *type,
		   struct hk_persistent *of, MPI_Request *request)
{
	uint64_t index = n->posted++;

	if (HK_LIKELY(n->state == HK_IN_PLAIN) || index < n->start ||
	    (n->state == HK_IN_ENDING && index >= n->end)) {
		hk_in_look(n); /* it may have ended before its first put */
		return false;
	}
	struct hk_pending *p = hk_pending_new(n->comm->comm, buf, count, type, n->peer, n->tag);

	p->sends = false;
	p->index = index;
	if (of)
		hk_pending_activate(p, of);
	else
		*request = &p->own;
	if (n->state == HK_IN_ACCEPTED)
		hk_list_add(&n->held, p);
	else
		assign(n, p);
	if (HK_UNLIKELY(
		    n->state ==
		    HK_IN_ENDING)) /* the last may be here: nothing waits that progress looks at */
		hk_in_look(n);
	return true;
}

/* ---- how it begins and ends ------------------------------------------------------------------------------ */

static void free_streams(struct hk_receiver *n)
{
	for (int k = 0; n->rx && k < n->schedule.sizes; k++) {
		struct hk_rx_stream *rx = &n->rx[k];

		if (rx->listed)
			unlist(rx);
		if (rx->in.region != HK_REGION_NONE)
			hk_service->inbox_del(&rx->in);
		free(rx->early);
		free(rx->scratch);
	}
	free(n->rx);
	hk_past_drop(n->past);
	free(n->order);
	n->rx = NULL;
	n->past = NULL;
	n->order = NULL;
	n->orders = 0;
}

static void plain(struct hk_receiver *n)
{
	struct hk_receiver **at = &live;

	while (*at != n)
		at = &(*at)->live;
	*at = n->live;
	n->comm->live_ins--;
	n->comm->open_ins -= n->state != HK_IN_ENDING;
	free_streams(n);
	n->state = HK_IN_PLAIN;
}

bool hk_in_accept(struct hk_receiver *n, const struct hk_schedule *s, hk_peer from,
		  hk_region *regions)
{
	bool good = true;

	n->schedule = *s;
	n->from = from;
	n->rx = hk_need(s->sizes * sizeof(*n->rx));
	for (int k = 0; k < s->sizes; k++) {
		struct hk_rx_stream *rx = &n->rx[k];
		struct hk_layout to = {&rx->block, 1, s->bytes[k]};

		rx->block.len = s->bytes[k];
		rx->of = n;
		hk_list_init(&rx->waiting);
		rx->early = malloc(HK_PLACES * (size_t)s->bytes[k] + 1);
		rx->in.region = HK_REGION_NONE;
		if (good && rx->early)
			rx->in.region = hk_service->inbox_add(&rx->in, from, &to, rx->early,
							      HK_PLACES);
		regions[k] = rx->in.region;
		good &= regions[k] != HK_REGION_NONE;
	}
	if (!good) {
		free_streams(n);
		return false;
	}
	n->state = HK_IN_ACCEPTED;
	n->asked = false;
	n->settled = false;
	n->live = live;
	live = n;
	n->comm->live_ins++;
	n->comm->open_ins++;
	return true;
}

void hk_in_committed(struct hk_receiver *n, const hk_region *taken)
{
	struct hk_pending *p;

	for (int k = 0; k < n->schedule.sizes; k++)
		n->rx[k].taken = taken[k];
	n->state = HK_IN_PUT;
	while ((p = hk_list_pop(&n->held)))
		assign(n, p);
	if (n->comm->in_many)
		hk_control_ask_end(n);
}

void hk_in_withdrawn(struct hk_receiver *n)
{
	struct hk_pending *p;

	while ((p = hk_list_pop(&n->held)))
		hk_pending_by_mpi(p);
	plain(n);
}

void hk_in_look(struct hk_receiver *n)
{
	if (n->state != HK_IN_ENDING || n->posted < n->end)
		return;
	for (int k = 0; k < n->schedule.sizes; k++)
		if (n->rx[k].waiting.head)
			return;
	for (int k = 0; k < n->schedule.sizes; k++)
		if (n->rx[k].untold)
			tell(n, &n->rx[k]);
	plain(n);
}

/* Cuts @l before the first receive of @end and later, and returns that. */
static struct hk_pending *cut(struct hk_list *l, uint64_t end)
{
	struct hk_pending **at = &l->head, *rest;

	while (*at && (*at)->index < end)
		at = &(*at)->next;
	rest = *at;
	*at = NULL;
	l->tail = at;
	return rest;
}

/* Messages from @end on come by MPI. Receives that wait for them are posted there, in their order. */
void hk_in_ended(struct hk_receiver *n, uint64_t end, const struct hk_order *order, uint32_t orders,
		 struct hk_past *past)
{
	struct hk_pending *rest[HK_STREAMS];

	n->state = HK_IN_ENDING;
	n->end = end;
	n->past = past;
	n->order = hk_need(orders * sizeof(*order));
	n->orders = orders;
	if (orders)
		memcpy(n->order, order, orders * sizeof(*order));
	if (n->comm->in_many)
		hk_past_count(n);
	n->comm->open_ins--;
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
		hk_busy--;
		hk_pending_by_mpi(p);
	}
	hk_in_look(n);
}

void hk_in_poll(void)
{
	bool ending = false;

	for (struct hk_rx_stream **at = &listed, *rx; (rx = *at);) {
		advance(rx->of, rx);
		ending |= rx->of->state == HK_IN_ENDING;
		if (rx->waiting.head) {
			at = &rx->next;
		} else {
			*at = rx->next;
			rx->listed = false;
		}
	}
	for (struct hk_receiver *n = ending ? live : NULL, *next; n; n = next) {
		next = n->live;
		hk_in_look(n);
	}
}

/* Has every put that was received come? */
bool hk_in_waits(const struct hk_comm *c)
{
	for (const struct hk_receiver *n = live; n; n = n->live) {
		if (n->comm != c)
			continue;
		if (n->state != HK_IN_ENDING)
			return true;
		for (int k = 0; k < n->schedule.sizes; k++)
			if (n->rx[k].waiting.head)
				return true;
	}
	return false;
}

struct hk_receiver *hk_in_live(void)
{
	return live;
}

void hk_in_free(struct hk_receiver *n)
{
	hk_control_forget(n->id);
	if (n->state != HK_IN_PLAIN)
		plain(n);
	free(n);
}

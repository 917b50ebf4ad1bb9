/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/out.c: the sender's end of a channel.
 *
 * While a channel is promoted, its messages go in order: by a put where its stream has a place at the receiver, else
 * they are held until one was taken. Held messages are sent by MPI if the channel ends, and, so that a
 * receiver that takes from any tag sees the order of sending, before the program sends to the same rank by MPI.
 */
#include "halo/interpose/interpose.h"

#include "opal/runtime/opal_progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_FIRST 8U
#define PATIENCE_MOST  (1U << 20)
#define BUFFERED                                                                                   \
	(64U << 10) /* a blocking send of more waits for its place, as MPI's for the receiver */

#define COPIED_MOST                                                                                \
	((size_t)16 << 20) /* of a channel; then any blocking send waits for its place */

#define OVERTOOK "messages overtook those of another tag"

/* A put under way. */
struct flight {
	struct hk_op op;
	struct hk_layout from;
	struct hk_block block;
	struct hk_tx_stream *tx;
	struct hk_pending *pending; /* completed when the source is free; NULL: it is */
	struct flight *next;        /* of the lent, or the unused */
	bool landed;
};

static struct flight *unused, *lent;
static struct hk_sender *holding; /* channels with held messages */

static void flight_over(struct flight *x)
{
	x->next = unused;
	unused = x;
}

static void landed(void *arg, int status)
{
	struct flight *x = arg;

	if (status)
		hk_broken("a rank that it puts to is lost, or has left");
	x->tx->flying--;
	x->landed = true;
	if (!x->pending)
		flight_over(x);
}

/* Puts of which the receiver has not told that they were taken; after the last was told, perhaps less than none. */
static int32_t untold(const struct hk_tx_stream *tx)
{
	return (int32_t)(tx->number - HK_TOLD_AT_ONCE * tx->taken.taken);
}

/* … of which it has not said so either, when it was asked. (What it says then frees no place: it has two for what is told by
 * puts, so of these none may be waited for longer.) */
static int32_t not_taken(const struct hk_tx_stream *tx)
{
	return (int32_t)(tx->number - tx->known);
}

static bool has_place(const struct hk_tx_stream *tx)
{
	return untold(tx) < HK_PLACES;
}

static struct hk_order *order_of(struct hk_tx_stream *tx, uint32_t number)
{
	return &tx->order[number % HK_PLACES];
}

static void know(struct hk_tx_stream *tx, uint32_t number)
{
	if ((int32_t)(number - tx->known) > 0)
		tx->known = number;
}

static void take(struct hk_tx_stream *tx)
{
	while (hk_inbox_whole(&tx->taken)) {
		hk_service->inbox_take(&tx->taken);
		know(tx, HK_TOLD_AT_ONCE * tx->taken.taken);
	}
}

uint64_t hk_out_oldest(struct hk_sender *o)
{
	uint64_t at = o->held.head ? o->held.head->at : UINT64_MAX;

	for (int k = 0; k < o->schedule.sizes; k++) {
		struct hk_tx_stream *tx = &o->tx[k];

		take(tx);
		if (not_taken(tx) > 0)
			at = HK_MIN(at, order_of(tx, tx->number - (uint32_t)not_taken(tx) + 1)->at);
	}
	return at;
}

/* Puts @p, whose stream has a place. True if its buffer is free already. */
static bool put(struct hk_sender *o, struct hk_tx_stream *tx, struct hk_pending *p)
{
	struct flight *x = unused;

	if (HK_LIKELY(x != NULL))
		unused = x->next;
	else
		x = hk_need(sizeof(*x));
	if (!p->contiguous && !p->copy)
		hk_pack(p);
	x->block = (struct hk_block){p->copy ? p->copy : p->buf, 0, p->bytes};
	x->from = (struct hk_layout){&x->block, 1, p->bytes};
	x->tx = tx;
	x->pending = p;
	x->landed = false;
	tx->number++;
	tx->flying++;
	o->puts++;
	o->put_bytes += p->bytes;
	if (hk_service->put(o->to, &x->op, &x->from, tx->remote, tx->number, landed, x) != 0)
		hk_broken("a rank that it puts to is lost, or has left");
	if (x->landed || hk_op_source_free(&x->op)) {
		x->pending = NULL;
		if (x->landed)
			flight_over(x);
		return true;
	}
	x->next = lent;
	lent = x;
	hk_busy++;
	return false;
}

static void hold(struct hk_sender *o, struct hk_pending *p)
{
	if (!o->held.head) {
		o->next_holding = holding;
		holding = o;
		o->pair->held++;
		hk_busy++;
	}
	hk_list_add(&o->held, p);
}

static void unheld(struct hk_sender *o)
{
	struct hk_sender **at = &holding;

	while (*at != o)
		at = &(*at)->next_holding;
	*at = o->next_holding;
	o->pair->held--;
	hk_busy--;
}

static void put_held(struct hk_sender *o)
{
	while (o->held.head) {
		struct hk_pending *p = o->held.head;
		struct hk_tx_stream *tx = &o->tx[hk_schedule_at(&o->schedule, p->index)];

		take(tx);
		if (!has_place(tx))
			return;
		hk_list_pop(&o->held);
		if (p->copy)
			o->copied -= p->bytes;
		*order_of(tx, tx->number + 1) = (struct hk_order){p->index, p->at};
		if (put(o, tx, p))
			hk_pending_done(p);
	}
	unheld(o);
}

/* Where messages of other tags go to the same rank, a receive from any tag wants them after those that are held. */
static void flush_pair(const struct hk_pair *p)
{
	for (int k = 0; p->held && k < p->tags; k++)
		if (p->out[k]->held.head)
			hk_out_end(p->out[k], OVERTOOK);
}

/* Some messages must not be looked for in the log any more: channels end whose last are such. Before, the receiver is asked
 * for what it has taken, of which it tells by itself a few at once. */
static void turn(struct hk_pair *p)
{
	uint64_t soon, forgotten = hk_log_turn(&p->log, &soon);

	for (int k = 0; k < p->tags; k++) {
		struct hk_sender *o = p->out[k];
		uint64_t at = o->state == HK_OUT_PUT ? hk_out_oldest(o) : UINT64_MAX;

		if (at < forgotten)
			hk_out_end(o, "many messages of other tags came after its last");
		else if (at < soon)
			hk_control_ask_taken(o);
	}
}

static bool by_put(struct hk_sender *o, const void *buf, int count, ompi_datatype_t *type,
		   struct hk_persistent *of, MPI_Request *request)
{
	struct hk_pending *p = hk_pending_new(o->comm->comm, buf, count, type, o->peer, o->tag);
	struct hk_tx_stream *tx = &o->tx[hk_schedule_at(&o->schedule, o->sent)];
	bool free_now = false;

	p->sends = true;
	p->index = o->sent++;
	p->at = o->pair->log.sent;
	o->bytes += p->bytes;
	hk_log_note(&o->pair->log, o->slot);
	if (of)
		hk_pending_activate(p, of);
	if (!o->held.head)
		take(tx);
	if (HK_LIKELY(!o->held.head && has_place(tx))) {
		*order_of(tx, tx->number + 1) = (struct hk_order){p->index, p->at};
		free_now = put(o, tx, p);
	} else {
		if (!request && p->bytes <= BUFFERED && o->copied + p->bytes <= COPIED_MOST) {
			hk_pack(p);
			o->copied += p->bytes;
		}
		hold(o, p);
	}
	if (request) {
		if (!of)
			*request = free_now ? &ompi_request_empty : &p->own;
		if (free_now && !of)
			p->user = NULL;
		if (free_now)
			hk_pending_done(p);
	} else if (free_now || p->copy) {
		p->user = NULL;
		if (free_now)
			hk_pending_done(p);
	} else {
		MPI_Request own = &p->own;

		PMPI_Wait(&own, MPI_STATUS_IGNORE);
	}
	return true;
}

bool hk_out_send(struct hk_sender *o, const void *buf, int count, ompi_datatype_t *type,
		 enum hk_send how, struct hk_persistent *of, MPI_Request *request)
{
	size_t size = type->super.size * (size_t)count;
	uint32_t bytes = size > HK_SIZE_MOST || how != HK_SEND_STANDARD ? HK_SIZE_NONE
									: (uint32_t)size;

	if (HK_UNLIKELY(!request && o->held.head))
		opal_progress(); /* a program that does nothing but this gets its places here */
	if (HK_UNLIKELY(o->pair->log.sent >= o->pair->log.turn))
		turn(o->pair);
	if (o->state == HK_OUT_PUT && o->sent >= o->start) {
		if (HK_LIKELY(bytes == o->schedule.bytes[hk_schedule_at(&o->schedule, o->sent)]))
			return by_put(o, buf, count, type, of, request);
		hk_out_end(o, how != HK_SEND_STANDARD ? "a synchronous or buffered send"
						      : "a size that was not foreseen");
	}
	if (HK_UNLIKELY(o->pair->held))
		flush_pair(o->pair);
	o->bytes += size;
	uint64_t index = o->sent++;

	hk_log_note(&o->pair->log, o->slot);
	if (o->never || (o->state == HK_OUT_PLAIN && o->watch && o->watch->from > o->sent)) {
		o->dull = o->never ? UINT64_MAX : o->watch->from;
		return false;
	}
	if (HK_UNLIKELY(!o->watch)) {
		if (index == 0) { /* a tag may be used once */
			o->first = bytes;
			return false;
		}
		o->watch = hk_need(sizeof(*o->watch));
		hk_watch_init(o->watch, 0);
		hk_watch_note(o->watch, 0, o->first);
	}
	int period = hk_watch_note(o->watch, index, bytes);

	if (HK_UNLIKELY(period && o->state != HK_OUT_PUT && index >= o->retry && !o->pair->many &&
			!o->comm->closing && hk_out_idle(o) &&
			hk_watch_schedule(o->watch, index, period, &o->schedule)))
		hk_control_propose(o);
	return false;
}

/* ---- how it begins and ends ----------------------------------------------------------------------------- */

void hk_out_refused(struct hk_sender *o, const char *why, bool for_ever)
{
	o->state = HK_OUT_PLAIN;
	o->why = why;
	o->retry = o->sent + 4;
	if (for_ever)
		o->never = why;
}

void hk_out_taken(struct hk_sender *o, const uint32_t *number)
{
	for (int k = 0; o->state == HK_OUT_PUT && k < o->schedule.sizes; k++)
		if ((int32_t)(o->tx[k].number - number[k]) >= 0)
			know(&o->tx[k], number[k]);
}

void hk_out_wait(struct hk_sender *o)
{
	o->patience = HK_MIN(HK_MAX(2 * o->patience, PATIENCE_FIRST), PATIENCE_MOST);
	o->retry = o->sent + o->patience;
}

/* The receiver takes messages from @start on by puts, if none of them has gone by MPI. */
void hk_out_accepted(struct hk_sender *o, uint32_t theirs, uint64_t start, hk_peer to,
		     const hk_region *regions)
{
	hk_region taken[HK_STREAMS];
	struct hk_layout nothing = {0};

	o->theirs = theirs;
	o->tx = hk_need(o->schedule.sizes * sizeof(*o->tx));
	bool late = o->sent > start, holds = hk_watch_holds(o->watch, o->schedule.period);
	bool reached = to != HK_PEER_NONE;
	bool good = !late && holds && reached && !o->comm->closing && !o->pair->many && !o->never;
	int made = 0;

	while (good && made < o->schedule.sizes) {
		struct hk_tx_stream *tx = &o->tx[made];

		tx->remote = regions[made];
		taken[made] = hk_service->inbox_add(&tx->taken, to, &nothing, NULL, 2);
		good = taken[made] != HK_REGION_NONE;
		made += good;
	}
	hk_control_commit(o, good, taken);
	if (!good) {
		for (int k = 0; k < made; k++)
			hk_service->inbox_del(&o->tx[k].taken);
		free(o->tx);
		o->tx = NULL;
		if (late)
			o->margin = (uint8_t)HK_MIN(2 * o->margin + 2, 64);
		if (!holds)
			hk_watch_doubt(o->watch);
		hk_out_refused(o,
			       !reached ? "Hikyaku's BTL does not reach it"
			       : late   ? "its messages were too fast to agree"
					: "other sizes came before both ends had agreed",
			       !reached);
		return;
	}
	o->to = to;
	o->start = start;
	o->state = HK_OUT_PUT;
	o->promoted++;
	o->ports = hk_service->rails(to);
	if (!o->demoted)
		o->why = NULL;
}

/* Ends @o. Returns what it held, linked. */
static struct hk_pending *end_one(struct hk_sender *o, const char *why)
{
	struct hk_pending *p = o->held.head;
	uint64_t end = p ? p->index : HK_MAX(o->sent, o->start);

	o->state = HK_OUT_DRAIN;
	if (why) {
		o->why = why;
		o->demoted++;
	}
	if (o->sent > o->start + 4 * (uint64_t)o->patience)
		o->patience = 0; /* that was worth it */
	hk_watch_strange(o->watch, o->sent, &o->schedule, o->start);
	if (p)
		unheld(o);
	o->copied = 0;
	hk_list_init(&o->held);
	hk_control_end(o, end); /* which may make progress: nobody looks for what it held then */
	return p;
}

/* Two that are linked in the order of sending, as one. */
static struct hk_pending *merge(struct hk_pending *a, struct hk_pending *b)
{
	struct hk_pending *all = NULL, **at = &all;

	while (a && b) {
		struct hk_pending **first = a->at < b->at ? &a : &b;

		*at = *first;
		at = &(*at)->next;
		*first = (*first)->next;
	}
	*at = a ? a : b;
	return all;
}

/* The next message goes by MPI, and those that are held; also those that other channels hold for this rank, since
 * they may have been sent before. @why NULL: the program has ended. */
void hk_out_end(struct hk_sender *o, const char *why)
{
	struct hk_pair *pair = o->pair;

	if (o->state != HK_OUT_PUT)
		return;
	struct hk_pending *held = end_one(o, why), *next;

	for (int k = 0; held && pair->held && k < pair->tags; k++)
		if (pair->out[k]->held.head)
			held = merge(held, end_one(pair->out[k], why ? OVERTOOK : NULL));
	for (; held; held = next) {
		next = held->next;
		hk_pending_by_mpi(held);
	}
}

/* May it be promoted, or promoted again? What it put may not have been taken yet. */
bool hk_out_idle(struct hk_sender *o)
{
	if (o->state == HK_OUT_PLAIN)
		return true;
	if (o->state != HK_OUT_DRAIN)
		return false;
	for (int k = 0; k < o->schedule.sizes; k++) {
		take(&o->tx[k]);
		if (o->tx[k].flying || untold(&o->tx[k]) > 0) /* the last may be on its way */
			return false;
	}
	hk_out_free_streams(o);
	o->state = HK_OUT_PLAIN;
	return true;
}

uint32_t hk_out_orders(struct hk_sender *o, struct hk_order *orders)
{
	uint32_t n = 0;

	for (int k = 0; k < o->schedule.sizes; k++) {
		struct hk_tx_stream *tx = &o->tx[k];

		take(tx);
		for (int32_t left = not_taken(tx); left > 0; left--)
			orders[n++] = *order_of(tx, tx->number - (uint32_t)left + 1);
	}
	return n;
}

bool hk_out_flies(const struct hk_sender *o)
{
	bool flies = false;

	for (int k = 0; o->tx && k < o->schedule.sizes; k++)
		flies |= o->tx[k].flying > 0;
	return flies;
}

void hk_out_free_streams(struct hk_sender *o)
{
	for (int k = 0; o->tx && k < o->schedule.sizes; k++)
		hk_service->inbox_del(&o->tx[k].taken);
	free(o->tx);
	o->tx = NULL;
}

void hk_out_free(struct hk_sender *o)
{
	hk_control_forget(o->id);
	hk_out_free_streams(o);
	free(o->watch);
	free(o);
}

void hk_out_poll(void)
{
	for (struct flight **at = &lent, *x; (x = *at);) {
		if (!x->landed && !hk_op_source_free(&x->op)) {
			at = &x->next;
			continue;
		}
		*at = x->next;
		hk_pending_done(x->pending);
		x->pending = NULL;
		hk_busy--;
		if (x->landed)
			flight_over(x);
	}
	for (struct hk_sender *o = holding, *next; o; o = next) {
		next = o->next_holding;
		put_held(o);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/sender_state.c: how the promotion of a channel begins and ends, at its sender.
 */
#include "halo/promote/tx_stream.h"

#include <stdlib.h>

#define BACKOFF_FIRST 8U /* messages */
#define BACKOFF_MAX   (1U << 20)

uint64_t hk_sender_oldest(struct hk_sender *o)
{
	uint64_t at = o->queue.head ? o->queue.head->position : UINT64_MAX;

	for (int k = 0; k < o->schedule.sizes; k++) {
		struct hk_tx_stream *tx = &o->tx[k];

		hk_tx_stream_read_reports(tx);
		if (hk_tx_stream_untaken(tx) > 0)
			at = HK_MIN(at,
				    hk_tx_stream_position(
					    tx, tx->number - (uint32_t)hk_tx_stream_untaken(tx) + 1)
					    ->position);
	}
	return at;
}

void hk_sender_refused(struct hk_sender *o, const char *why, bool for_ever)
{
	o->state = HK_SENDER_PLAIN;
	o->why = why;
	o->retry = o->sent + 4;
	if (for_ever)
		o->unpromotable = why;
}

void hk_sender_taken(struct hk_sender *o, const uint32_t *number)
{
	for (int k = 0; o->state == HK_SENDER_PROMOTED && k < o->schedule.sizes; k++)
		if ((int32_t)(o->tx[k].number - number[k]) >= 0)
			hk_tx_stream_confirm(&o->tx[k], number[k]);
}

void hk_sender_back_off(struct hk_sender *o)
{
	o->backoff = HK_MIN(HK_MAX(2 * o->backoff, BACKOFF_FIRST), BACKOFF_MAX);
	o->retry = o->sent + o->backoff;
}

/* The receiver has accepted: it takes messages from @start on by puts, if none of them has gone by
 * MPI yet. */
void hk_sender_accepted(struct hk_sender *o, uint32_t remote_id, uint64_t start, hk_peer to,
			const hk_region *regions)
{
	hk_region taken[HK_STREAMS_MAX];
	struct hk_layout nothing = {0};

	o->remote_id = remote_id;
	o->tx = hk_promote_alloc(o->schedule.sizes * sizeof(*o->tx));
	bool late = o->sent > start, holds = hk_watch_holds(o->watch, o->schedule.period);
	bool reached = to != HK_PEER_NONE;
	bool good = !late && holds && reached && !o->comm->closing && !o->pair->too_many_tags &&
		    !o->unpromotable;
	int made = 0;

	while (good && made < o->schedule.sizes) {
		struct hk_tx_stream *tx = &o->tx[made];

		tx->remote = regions[made];
		taken[made] = hk_service->notify_add(&tx->taken, to, &nothing, NULL, 2);
		good = taken[made] != HK_REGION_NONE;
		made += good;
	}
	hk_control_commit(o, good, taken);
	if (!good) {
		for (int k = 0; k < made; k++)
			hk_service->notify_del(&o->tx[k].taken);
		free(o->tx);
		o->tx = NULL;
		if (late)
			o->margin = (uint8_t)HK_MIN(2 * o->margin + 2, 64);
		if (!holds)
			hk_watch_back_off(o->watch);
		hk_sender_refused(o,
				  !reached ? "Hikyaku's BTL does not reach it"
				  : late   ? "its messages were too fast to agree"
					   : "other sizes came before both ends had agreed",
				  !reached);
		return;
	}
	o->to = to;
	o->start = start;
	o->state = HK_SENDER_PROMOTED;
	o->promoted++;
	o->ports = hk_service->paths(to);
	if (!o->demoted)
		o->why = NULL;
}

/* Ends @o. Returns its queued messages, linked. */
static struct hk_pending *end_one(struct hk_sender *o, const char *why)
{
	struct hk_pending *p = o->queue.head;
	uint64_t end = p ? p->index : HK_MAX(o->sent, o->start);

	o->state = HK_SENDER_DRAINING;
	if (why) {
		o->why = why;
		o->demoted++;
	}
	if (o->sent > o->start + 4 * (uint64_t)o->backoff)
		o->backoff = 0; /* the promotion lasted long enough to be worth the proposal */
	hk_watch_ended(o->watch, o->sent, &o->schedule, o->start);
	if (p)
		hk_sender_unqueue(o);
	o->copied_bytes = 0;
	hk_pending_list_init(&o->queue);
	hk_control_end(o, end); /* may make progress, which must not see the queue any longer */
	return p;
}

/* Merges two lists that are in the order of sending. */
static struct hk_pending *merge(struct hk_pending *a, struct hk_pending *b)
{
	struct hk_pending *all = NULL, **at = &all;

	while (a && b) {
		struct hk_pending **first = a->position < b->position ? &a : &b;

		*at = *first;
		at = &(*at)->next;
		*first = (*first)->next;
	}
	*at = a ? a : b;
	return all;
}

/* The messages that other channels have queued for this rank go by MPI too, since they may have
 * been sent before those of @o. */
void hk_sender_end(struct hk_sender *o, const char *why)
{
	struct hk_send_pair *pair = o->pair;

	if (o->state != HK_SENDER_PROMOTED)
		return;
	struct hk_pending *queued = end_one(o, why), *next;

	for (int k = 0; queued && pair->queued && k < pair->tags; k++)
		if (pair->sender[k]->queue.head)
			queued = merge(queued,
				       end_one(pair->sender[k], why ? HK_SENDER_OVERTOOK : NULL));
	for (; queued; queued = next) {
		next = queued->next;
		hk_pending_use_mpi(queued);
	}
}

static void free_streams(struct hk_sender *o)
{
	for (int k = 0; o->tx && k < o->schedule.sizes; k++)
		hk_service->notify_del(&o->tx[k].taken);
	free(o->tx);
	o->tx = NULL;
}

bool hk_sender_idle(struct hk_sender *o)
{
	if (o->state == HK_SENDER_PLAIN)
		return true;
	if (o->state != HK_SENDER_DRAINING)
		return false;
	for (int k = 0; k < o->schedule.sizes; k++) {
		hk_tx_stream_read_reports(&o->tx[k]);
		if (o->tx[k].in_flight ||
		    hk_tx_stream_unreported(&o->tx[k]) > 0) /* the last report may be in flight */
			return false;
	}
	free_streams(o);
	o->state = HK_SENDER_PLAIN;
	return true;
}

uint32_t hk_sender_untaken(struct hk_sender *o, struct hk_put_position *untaken)
{
	uint32_t n = 0;

	for (int k = 0; k < o->schedule.sizes; k++) {
		struct hk_tx_stream *tx = &o->tx[k];

		hk_tx_stream_read_reports(tx);
		for (int32_t left = hk_tx_stream_untaken(tx); left > 0; left--)
			untaken[n++] = *hk_tx_stream_position(tx, tx->number - (uint32_t)left + 1);
	}
	return n;
}

bool hk_sender_in_flight(const struct hk_sender *o)
{
	bool in_flight = false;

	for (int k = 0; o->tx && k < o->schedule.sizes; k++)
		in_flight |= o->tx[k].in_flight > 0;
	return in_flight;
}

void hk_sender_free(struct hk_sender *o)
{
	hk_control_forget_end(o->id);
	free_streams(o);
	free(o->watch);
	free(o);
}

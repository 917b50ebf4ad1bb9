/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/control.c: what the two ends of a channel tell each other, as MPI messages on a communicator of our own.
 *
 *   sender                                           receiver
 *   PROPOSE schedule, who I am            ->
 *                                         <-         ACCEPT first message, who I am, inboxes; or REFUSE why
 *   COMMIT inboxes for what was taken;    ->         receives from the first message on were held until here
 *   or WITHDRAW: that message has gone by MPI
 *   …
 *   ASK_TAKEN: which of my puts?          ->
 *                                         <-         TAKEN so many of each size, perhaps more than it has told by puts
 *                                         <-         ASK: a receive without source or tag; end, please
 *   END at message k                      ->         messages from k on come by MPI
 *                                         <-         FLUSH: a receive is to be cancelled; what of yours is on its way?
 *   nothing, in the program's communicator ->        all that was sent there before has been matched
 *
 * Ends name each other by numbers that each looks up in its own table (ends.h). What names no end is not looked at further.
 */
#include "halo/interpose/ends.h"
#include "halo/interpose/interpose.h"

#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/pml/pml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG 1

#define FLUSHED_TAG (MCA_COLL_BASE_TAG_HCOLL_END + 4) /* of nobody else: mpi/coll/tags.h */

enum kind { PROPOSE = 1, ACCEPT, REFUSE, COMMIT, WITHDRAW, ASK, END, FLUSH, ASK_TAKEN, TAKEN };

enum reason {
	WHY_TRY_AGAIN,
	WHY_WILD,
	WHY_NOT_USED,
	WHY_NO_PATH,
	WHY_NO_ROOM,
	WHY_CLOSING,
	WHY_REASONS
};

static const char *const reasons[WHY_REASONS] = {
	[WHY_TRY_AGAIN] = "the receiver still ends an earlier schedule",
	[WHY_WILD] = "the receiver received or probed from any source or tag",
	[WHY_NOT_USED] = "the receiver has too many channels",
	[WHY_NO_PATH] = "Hikyaku's BTL does not reach it",
	[WHY_NO_ROOM] = "no memory or region at the receiver",
	[WHY_CLOSING] = "the communicator is being freed",
};

struct control {
	uint32_t kind, reason, cid, mine, yours;
	int32_t tag, from; /* from: rank in the communicator */
	uint32_t margin, orders,
		past; /* of END: how many follow, and the number of its past, 0: none */
	uint64_t index;
	struct hk_btl_identity me;
	struct hk_schedule schedule;
	hk_region region[HK_STREAMS];
	uint32_t taken[HK_STREAMS]; /* of TAKEN */
};

/* What an END adds: orders of the puts that were not taken when it was sent; and the past, unless another END had it. */
#define ORDERS_MOST (HK_ORDERS_MOST * sizeof(struct hk_order))
#define MOST        (sizeof(struct control) + ORDERS_MOST + HK_PAST_MOST)

_Static_assert(HK_ORDERS_MOST == HK_PLACES * HK_STREAMS, "as many as may not be taken");
_Static_assert(sizeof(struct control) % _Alignof(struct hk_order) == 0, "orders follow it");
_Static_assert(_Alignof(struct hk_order) == _Alignof(struct hk_past), "a past follows them");

struct sent { /* … and perhaps not gone */
	MPI_Request request;
	struct sent *next;
	char bytes[];
};

static MPI_Comm comm = MPI_COMM_NULL;
static MPI_Request request = MPI_REQUEST_NULL;
static _Alignas(uint64_t) char came[MOST];
static struct sent *sending;
static bool arrived; /* @came */

static struct hk_ends ends;

static uint32_t number_of(enum hk_end_kind kind, int world, void *end)
{
	uint32_t number = hk_ends_add(&ends, kind, world, end);

	if (!number)
		hk_broken("there is no memory");
	return number;
}

/* What @world names; NULL: it may not, or it is gone. */
static struct hk_sender *sender_of(int world, const struct control *c)
{
	return hk_ends_find(&ends, c->yours, HK_END_SENDER, world);
}

static struct hk_receiver *receiver_of(int world, const struct control *c)
{
	return hk_ends_find(&ends, c->yours, HK_END_RECEIVER, world);
}

void hk_control_forget(uint32_t number)
{
	if (number)
		hk_ends_drop(&ends, number);
}

static void sends(struct sent *s)
{
	s->next = sending;
	sending = s;
	hk_busy++;
}

/* @c and what follows it. */
static void tell_all(int world, const struct control *c, size_t bytes)
{
	struct sent *s = hk_need(sizeof(*s) + bytes);

	memcpy(s->bytes, c, bytes);
	if (hk_real.Isend(s->bytes, (int)bytes, MPI_BYTE, world, TAG, comm, &s->request) !=
	    MPI_SUCCESS)
		hk_broken("it cannot send");
	sends(s);
}

static void tell(int world, const struct control *c)
{
	tell_all(world, c, sizeof(*c));
}

static int world_of(const struct hk_comm *c, int peer)
{
	const char *why;

	return hk_world_rank(c->comm, peer, &why);
}

/* ---- the sender's ------------------------------------------------------------------------------------------ */

void hk_control_propose(struct hk_sender *o)
{
	struct control c = {.kind = PROPOSE,
			    .cid = o->comm->cid,
			    .tag = o->tag,
			    .from = o->comm->rank,
			    .index = o->sent,
			    .margin = HK_MAX(o->margin, (uint8_t)2),
			    .schedule = o->schedule};

	if (!hk_service->identity(&c.me))
		return;
	if (!o->id)
		o->id = number_of(HK_END_SENDER, world_of(o->comm, o->peer), o);
	c.mine = o->id;
	o->state = HK_OUT_PROPOSED;
	tell(world_of(o->comm, o->peer), &c);
}

void hk_control_commit(struct hk_sender *o, bool good, const hk_region *taken)
{
	struct control c = {.kind = good ? COMMIT : WITHDRAW, .yours = o->theirs};

	if (good)
		memcpy(c.region, taken, o->schedule.sizes * sizeof(*taken));
	tell(world_of(o->comm, o->peer), &c);
}

void hk_control_end(struct hk_sender *o, uint64_t end)
{
	static _Alignas(struct hk_past) char room[MOST];
	struct control *c = (struct control *)(void *)room;
	struct hk_order *order = (struct hk_order *)(void *)(room + sizeof(*c));
	size_t bytes = 0;

	*c = (struct control){.kind = END, .yours = o->theirs, .index = end};
	c->orders = hk_out_orders(o, order);
	if (c->orders && o->pair->tags > 1) {
		bytes = hk_past_tell(o, order, c->orders,
				     (struct hk_past *)(void *)(order + c->orders));
		c->past = o->pair->past;
	}
	tell_all(world_of(o->comm, o->peer), c, sizeof(*c) + c->orders * sizeof(*order) + bytes);
}

void hk_control_ask_taken(const struct hk_sender *o)
{
	struct control c = {.kind = ASK_TAKEN, .yours = o->theirs};

	tell(world_of(o->comm, o->peer), &c);
}

static void taken(int world, const struct control *c)
{
	struct hk_sender *o = sender_of(world, c);

	if (o)
		hk_out_taken(o, c->taken);
}

static void accepted(int world, const struct control *c)
{
	struct hk_sender *o = sender_of(world, c);

	if (o && o->state == HK_OUT_PROPOSED)
		hk_out_accepted(o, c->mine, c->index, hk_service->peer(&c->me), c->region);
}

static void refused(int world, const struct control *c)
{
	struct hk_sender *o = sender_of(world, c);

	if (!o || o->state != HK_OUT_PROPOSED)
		return;
	hk_out_refused(o, reasons[HK_MIN(c->reason, (uint32_t)WHY_REASONS - 1)],
		       c->reason != WHY_TRY_AGAIN && c->reason != WHY_WILD);
	if (c->reason == WHY_WILD)
		hk_out_wait(o);
}

static void asked(int world, const struct control *c)
{
	struct hk_sender *o = sender_of(world, c);

	if (!o)
		return;
	const char *why = reasons[c->reason == WHY_NOT_USED ? WHY_NOT_USED : WHY_WILD];

	hk_out_end(o, why);
	hk_out_wait(o);
	if (c->reason == WHY_NOT_USED)
		o->never = why;
}

/* MPI matches what a rank sends in a communicator in its order. */
static void flush(int world, const struct control *c)
{
	struct hk_sender *o = sender_of(world, c);
	struct sent *s;

	if (!o)
		return;
	s = hk_need(sizeof(*s));
	if (MCA_PML_CALL(isend(NULL, 0, MPI_BYTE, o->peer, FLUSHED_TAG, MCA_PML_BASE_SEND_STANDARD,
			       o->comm->comm, &s->request)) != OMPI_SUCCESS)
		hk_broken("it cannot send");
	sends(s);
}

/* ---- the receiver's ------------------------------------------------------------------------------------------ */

static enum reason judge(int world, const struct control *c, struct hk_receiver **n, hk_peer *from)
{
	struct hk_comm *k = hk_comm_of_id(c->cid);

	if (!k || k->closing)
		return k ? WHY_CLOSING : WHY_TRY_AGAIN;
	if (c->from < 0 || c->from >= k->size || world_of(k, c->from) != world || c->tag < 0 ||
	    !hk_schedule_valid(&c->schedule))
		return WHY_NOT_USED;
	if (k->in_many || !(*n = hk_in_find(k, c->from, c->tag)))
		return WHY_NOT_USED;
	if (hk_wild_lately(*n))
		return WHY_WILD;
	hk_in_look(*n);
	if ((*n)->state != HK_IN_PLAIN)
		return WHY_TRY_AGAIN;
	*from = hk_service->peer(&c->me);
	return *from == HK_PEER_NONE ? WHY_NO_PATH : WHY_REASONS;
}

static void proposed(int world, const struct control *c)
{
	struct control answer = {.kind = REFUSE, .yours = c->mine};
	struct hk_receiver *n = NULL;
	hk_peer from = HK_PEER_NONE;

	answer.reason = judge(world, c, &n, &from);
	if (answer.reason == WHY_REASONS && hk_service->identity(&answer.me)) {
		if (hk_in_accept(n, &c->schedule, from, answer.region)) {
			if (!n->id)
				n->id = number_of(HK_END_RECEIVER, world, n);
			n->theirs = c->mine;
			n->world = world;
			n->start = HK_MAX(n->posted, c->index) + HK_MIN(c->margin, 64U);
			answer.kind = ACCEPT;
			answer.mine = n->id;
			answer.index = n->start;
		} else {
			answer.reason = WHY_NO_ROOM;
		}
	}
	tell(world, &answer);
}

static void decided(int world, const struct control *c)
{
	struct hk_receiver *n = receiver_of(world, c);

	if (!n || n->state != HK_IN_ACCEPTED)
		return;
	if (c->kind == COMMIT)
		hk_in_committed(n, c->region);
	else
		hk_in_withdrawn(n);
}

static void ended(int world, const struct control *c, const char *rest, size_t bytes)
{
	struct hk_receiver *n = receiver_of(world, c);
	const struct hk_order *order = (const struct hk_order *)(const void *)rest;
	const struct hk_past *past;

	if (!n || n->state != HK_IN_PUT || c->orders > HK_ORDERS_MOST ||
	    c->orders * sizeof(*order) > bytes)
		return;
	bytes -= c->orders * sizeof(*order);
	past = (const struct hk_past *)(const void *)(order + c->orders);
	if (bytes && !hk_past_told(n->pair, c->past, past, bytes))
		return;
	hk_in_ended(n, c->index, order, c->orders, hk_past_take(n->pair, c->past));
}

static void asked_taken(int world, const struct control *c)
{
	struct hk_receiver *n = receiver_of(world, c);
	struct control answer = {.kind = TAKEN};

	if (!n || n->state != HK_IN_PUT)
		return;
	answer.yours = n->theirs;
	for (int k = 0; k < n->schedule.sizes; k++)
		answer.taken[k] = n->rx[k].in.taken;
	tell(world, &answer);
}

void hk_control_ask_end(struct hk_receiver *n)
{
	struct control c = {.kind = ASK,
			    .yours = n->theirs,
			    .reason = n->comm->in_many ? WHY_NOT_USED : WHY_WILD};

	if (n->asked)
		return;
	n->asked = true;
	n->wild = hk_comm_wild(n->comm, n->peer, n->tag); /* the call that asks is no later one */
	tell(n->world, &c);
}

void hk_control_flush(struct hk_receiver *n)
{
	struct control c = {.kind = FLUSH, .yours = n->theirs};

	tell(n->world, &c);
	if (MCA_PML_CALL(recv(NULL, 0, MPI_BYTE, n->peer, FLUSHED_TAG, n->comm->comm,
			      MPI_STATUS_IGNORE)) != OMPI_SUCCESS)
		hk_broken("it cannot receive");
	n->settled = true;
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

static int note_arrived(ompi_request_t *r)
{
	(void)r;
	arrived = true;
	hk_busy++;
	return OMPI_SUCCESS;
}

static void receive_next(void)
{
	if (hk_real.Irecv(came, sizeof(came), MPI_BYTE, MPI_ANY_SOURCE, TAG, comm, &request) !=
	    MPI_SUCCESS)
		hk_broken("it cannot receive");
	ompi_request_set_callback(request, note_arrived, NULL);
}

void hk_control_open(void)
{
	if (PMPI_Comm_dup(MPI_COMM_WORLD, &comm) != MPI_SUCCESS)
		hk_broken("it cannot make a communicator");
	receive_next();
}

static void sweep(void)
{
	for (struct sent **at = &sending, *s; (s = *at);) {
		if (!REQUEST_COMPLETE(s->request)) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		ompi_request_free(&s->request);
		free(s);
		hk_busy--;
	}
}

void hk_control_poll(void)
{
	while (HK_UNLIKELY(arrived && REQUEST_COMPLETE(request))) {
		/* Not moved while it is handled: handlers do not come here. */
		static _Alignas(uint64_t) char copy[MOST];
		const struct control *c = (const struct control *)(const void *)copy;
		int world = request->req_status.MPI_SOURCE;
		size_t bytes = request->req_status._ucount;

		memcpy(copy, came, HK_MIN(bytes, sizeof(copy)));
		arrived = false;
		hk_busy--;
		ompi_request_free(&request);
		receive_next();
		if (bytes < sizeof(*c))
			continue;
		switch (c->kind) {
		case PROPOSE:
			proposed(world, c);
			break;
		case ACCEPT:
			accepted(world, c);
			break;
		case REFUSE:
			refused(world, c);
			break;
		case COMMIT:
		case WITHDRAW:
			decided(world, c);
			break;
		case ASK:
			asked(world, c);
			break;
		case END:
			ended(world, c, copy + sizeof(*c), bytes - sizeof(*c));
			break;
		case FLUSH:
			flush(world, c);
			break;
		case ASK_TAKEN:
			asked_taken(world, c);
			break;
		case TAKEN:
			taken(world, c);
			break;
		default:
			break;
		}
	}
	if (HK_UNLIKELY(sending != NULL))
		sweep();
}

/* All ranks come here. */
void hk_control_barrier(void)
{
	PMPI_Barrier(comm);
}

void hk_control_close(void)
{
	PMPI_Barrier(comm);
	while (sending) {
		sweep();
		opal_progress();
	}
	PMPI_Cancel(&request);
	PMPI_Wait(&request, MPI_STATUS_IGNORE);
	PMPI_Comm_free(&comm);
	hk_ends_free(&ends);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/wild.c: receives and probes that name no single channel, or take a message before it is received.
 *
 * Such a receive has to find what Open MPI has, and what came by puts before it was received. So all channels
 * that it may name end first: their senders are asked, and it is waited until each has said from where on it sends by
 * MPI. Then there are at most two messages a stream that only we have. They were all sent before what comes by MPI
 * in their channels; of other tags, the sender has told how many it had sent before each.
 */
#include "halo/interpose/interpose.h"

#include "ompi/mca/pml/base/pml_base_request.h"
#include "ompi/message/message.h"
#include "opal/runtime/opal_progress.h"

#include <stdlib.h>

static bool names(const struct hk_receiver *n, int peer, int tag)
{
	return (peer == MPI_ANY_SOURCE || peer == n->peer) && (tag == MPI_ANY_TAG || tag == n->tag);
}

/* The next that is not plain, after @n, which may be NULL. */
static struct hk_receiver *next_of(const struct hk_comm *c, struct hk_receiver *n, int peer,
				   int tag)
{
	for (n = n ? n->live : hk_in_live(); n; n = n->live)
		if (n->comm == c && names(n, peer, tag))
			return n;
	return NULL;
}

static void remember(struct hk_comm *c, int peer, int tag)
{
	if (hk_wild_again(c, peer, tag))
		return;
	for (int k = 1; k < c->patterns; k++)
		if (c->pattern[k].peer == peer && c->pattern[k].tag == tag) {
			c->pattern[k].calls++;
			return;
		}
	if (c->patterns == HK_PATTERNS) /* all, then */
		c->pattern[0] = (struct hk_pattern){MPI_ANY_SOURCE, MPI_ANY_TAG,
						    c->pattern[0].calls + 1};
	else
		c->pattern[c->patterns++] = (struct hk_pattern){peer, tag, 1};
}

int hk_wild_inside;

bool hk_wild_lately(struct hk_receiver *n)
{
	uint32_t calls = hk_comm_wild(n->comm, n->peer, n->tag);
	bool more = calls != n->wild;

	n->wild = calls;
	return calls && (more || hk_wild_inside || hk_loose_waits(n));
}

void hk_wild(struct hk_comm *c, int peer, int tag)
{
	bool left = c->live_ins > 0;

	remember(c, peer, tag);
	if (c->pattern[0].peer == MPI_ANY_SOURCE && c->pattern[0].tag == MPI_ANY_TAG)
		peer = tag = -1;
	while (left) {
		left = false;
		for (struct hk_receiver *n = NULL; (n = next_of(c, n, peer, tag));) {
			if (n->state == HK_IN_PUT)
				hk_control_ask_end(n);
			left |= n->state != HK_IN_ENDING;
		}
		if (left)
			opal_progress();
	}
}

struct hk_receiver *hk_wild_pick(struct hk_comm *c, int peer, int tag, bool *first)
{
	struct hk_receiver *n = NULL;

	*first = false;
	hk_loose_settle();
	while ((n = next_of(c, n, peer, tag)))
		n->pair->first = NULL;
	while ((n = next_of(c, n, peer, tag))) {
		if (n->state == HK_IN_ENDING && n->posted < n->start && n->start < n->end)
			*first = true; /* its last before its puts */
		if (!hk_in_unexpected(n))
			continue;
		if (tag == MPI_ANY_TAG) {
			if (!n->pair->first || hk_past_at(n) < hk_past_at(n->pair->first))
				n->pair->first = n;
			continue;
		}
		*first = false;
		return n;
	}
	/* Of each rank's puts that which was sent first, unless something of MPI's was sent before that. */
	while (tag == MPI_ANY_TAG && (n = next_of(c, n, peer, tag))) {
		if (n->pair->first != n)
			continue;
		if (!hk_past_lacks(n)) {
			*first = false;
			return n;
		}
		*first = true;
	}
	return NULL;
}

/* ---- cancelling ------------------------------------------------------------------------------------------- */

/* MPI cancels @request of channel @n. What it would have taken goes to the next receive. */
static void cancel_at_mpi(struct hk_receiver *n, ompi_request_t *request)
{
	hk_real.Cancel(&request);
	if (n && REQUEST_COMPLETE(request) && request->req_status._cancelled)
		n->posted--;
}

/* A receive of ours: either its message comes, or its channel ends before it and MPI has the receive. */
static void cancel_ours(struct hk_pending *p, const struct hk_persistent *of)
{
	struct hk_comm *c = hk_comm_known(p->comm);

	if (p->sends)
		return; /* it will arrive */
	if (c && !p->inner)
		hk_wild(c, p->peer, p->tag);
	if ((!of || of->active == p) && p->inner)
		cancel_at_mpi(c ? hk_in_known(c, p->peer, p->tag) : NULL, p->inner);
}

bool hk_wild_cancel(ompi_request_t *request)
{
	const struct hk_persistent *of = hk_persistent_find(request);
	struct hk_pending *p = of ? of->active : NULL;

	if (hk_pending_is(request))
		p = (struct hk_pending *)request;
	if (p) {
		hk_wild_inside++;
		if (!REQUEST_COMPLETE(request))
			cancel_ours(p, of);
		hk_wild_inside--;
		return true;
	}
	if (request->req_type != OMPI_REQUEST_PML || REQUEST_COMPLETE(request))
		return false;
	const mca_pml_base_request_t *base = (const mca_pml_base_request_t *)request;

	if (base->req_type != MCA_PML_REQUEST_RECV)
		return false;
	struct hk_comm *c = hk_comm_known(base->req_comm);

	if (!c)
		return false;
	hk_wild_inside++;
	hk_wild(c, base->req_peer, base->req_tag);
	struct hk_receiver *n = hk_in_known(c, base->req_peer, base->req_tag);

	/* Puts may have overtaken its message, which is on its way then. */
	if (n && n->id && !n->settled)
		hk_control_flush(n);
	cancel_at_mpi(n, request);
	hk_wild_inside--;
	return true;
}

/* ---- messages that are probed and taken ------------------------------------------------------------------------ */

struct taken {
	ompi_message_t
		super; /* the handle; of it Open MPI sees the communicator alone, whose error handler it calls */
	struct taken *next;
	int peer, tag;
	uint32_t bytes;
	char data[];
};

static struct taken *taken;

MPI_Message hk_message_take(struct hk_receiver *n)
{
	uint32_t bytes = n->schedule.bytes[hk_schedule_at(&n->schedule, n->posted)];
	struct taken *t = hk_need(sizeof(*t) + bytes);
	MPI_Request request;

	OBJ_CONSTRUCT(&t->super, ompi_message_t);
	t->super.comm = n->comm->comm;
	t->peer = n->peer;
	t->tag = n->tag;
	t->bytes = bytes;
	t->next = taken;
	taken = t;
	hk_in_receive(n, t->data, (int)bytes, MPI_BYTE, NULL,
		      &request); /* it is unexpected: a put */
	PMPI_Wait(&request, MPI_STATUS_IGNORE);
	return &t->super;
}

void hk_message_comm_gone(MPI_Comm comm)
{
	for (struct taken *t = taken; t; t = t->next)
		if (t->super.comm == comm)
			t->super.comm = MPI_COMM_WORLD;
}

bool hk_message_give(MPI_Message *message, void *buf, int count, ompi_datatype_t *type,
		     MPI_Request *request)
{
	struct taken **at = &taken, *t;

	while ((t = *at) && message && *message != &t->super)
		at = &t->next;
	if (!t || !message)
		return false;
	struct hk_pending *p = hk_pending_new(t->super.comm, buf, count, type, t->peer, t->tag);
	uint32_t bytes = HK_MIN(t->bytes, p->bytes);

	p->sends = false;
	if (bytes < t->bytes)
		p->own.req_status.MPI_ERROR = MPI_ERR_TRUNCATE;
	p->own.req_status._ucount = bytes;
	hk_unpack(p, t->data, bytes);
	hk_pending_done(p);
	*request = &p->own;
	*message = MPI_MESSAGE_NULL;
	*at = t->next;
	OBJ_DESTRUCT(&t->super);
	free(t);
	return true;
}

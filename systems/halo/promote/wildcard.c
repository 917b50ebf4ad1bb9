/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/wildcard.c: receives and probes that do not name one channel, cancelled receives,
 * and probed messages.
 *
 * DESIGN NOTES
 *
 * A wildcard receive has to find both the messages that Open MPI has and those that came by puts
 * before their receive. So all channels that it may name end first. This rank asks their senders to
 * end, and waits until each has reported its first message by MPI. Then only the puts that had been
 * sent before that are with the promoter. They were sent before the messages that come by MPI in
 * their channels. For other tags, the sender has reported how many messages it had sent before each
 * put (send_order.c).
 */
#include "halo/promote/promote.h"

#include "ompi/mca/pml/base/pml_base_request.h"
#include "ompi/message/message.h"
#include "opal/runtime/opal_progress.h"

#include <stdlib.h>

static bool names(const struct hk_receiver *n, int peer, int tag)
{
	return (peer == MPI_ANY_SOURCE || peer == n->peer) && (tag == MPI_ANY_TAG || tag == n->tag);
}

/* The next receiver after @n (NULL: the first) that is not plain and that (peer, tag) names. */
static struct hk_receiver *next_of(const struct hk_comm *c, struct hk_receiver *n, int peer,
				   int tag)
{
	for (n = n ? n->next_live : hk_receiver_live(); n; n = n->next_live)
		if (n->comm == c && names(n, peer, tag))
			return n;
	return NULL;
}

static void remember(struct hk_comm *c, int peer, int tag)
{
	if (hk_wildcard_is_repeat(c, peer, tag))
		return;
	for (int k = 1; k < c->patterns; k++)
		if (c->pattern[k].peer == peer && c->pattern[k].tag == tag) {
			c->pattern[k].calls++;
			return;
		}
	if (c->patterns == HK_PATTERNS_MAX) /* from now on it stands for all calls */
		c->pattern[0] = (struct hk_pattern){MPI_ANY_SOURCE, MPI_ANY_TAG,
						    c->pattern[0].calls + 1};
	else
		c->pattern[c->patterns++] = (struct hk_pattern){peer, tag, 1};
}

int hk_wildcard_inside;

bool hk_wildcard_recent(struct hk_receiver *n)
{
	uint32_t calls = hk_comm_wildcard_calls(n->comm, n->peer, n->tag);
	bool more = calls != n->wildcard_calls;

	n->wildcard_calls = calls;
	return calls && (more || hk_wildcard_inside || hk_unmatched_may_take(n));
}

void hk_wildcard_end_channels(struct hk_comm *c, int peer, int tag)
{
	bool left = c->live_receivers > 0;

	remember(c, peer, tag);
	if (c->pattern[0].peer == MPI_ANY_SOURCE && c->pattern[0].tag == MPI_ANY_TAG)
		peer = tag = -1;
	while (left) {
		left = false;
		for (struct hk_receiver *n = NULL; (n = next_of(c, n, peer, tag));) {
			if (n->state == HK_RECEIVER_PROMOTED)
				hk_control_ask_end(n);
			left |= n->state != HK_RECEIVER_ENDING;
		}
		if (left)
			opal_progress();
	}
}

struct hk_receiver *hk_wildcard_pick(struct hk_comm *c, int peer, int tag, bool *first)
{
	struct hk_receiver *n = NULL;

	*first = false;
	hk_unmatched_update();
	while ((n = next_of(c, n, peer, tag)))
		n->pair->first = NULL;
	while ((n = next_of(c, n, peer, tag))) {
		if (n->state == HK_RECEIVER_ENDING && n->posted < n->start && n->start < n->end)
			*first = true; /* its last message before the puts */
		if (!hk_receiver_has_unexpected(n))
			continue;
		if (tag == MPI_ANY_TAG) {
			if (!n->pair->first ||
			    hk_send_order_position(n) < hk_send_order_position(n->pair->first))
				n->pair->first = n;
			continue;
		}
		*first = false;
		return n;
	}
	/* Of each rank's puts, take the one sent first, unless a message of MPI was sent before it.
	 */
	while (tag == MPI_ANY_TAG && (n = next_of(c, n, peer, tag))) {
		if (n->pair->first != n)
			continue;
		if (!hk_send_order_has_earlier(n)) {
			*first = false;
			return n;
		}
		*first = true;
	}
	return NULL;
}

/* ---- cancelling ------------------------------------------------------------------------------ */

/* MPI cancels @request of channel @n. Its message goes to the next receive. */
static void cancel_at_mpi(struct hk_receiver *n, ompi_request_t *request)
{
	hk_real.Cancel(&request);
	if (n && REQUEST_COMPLETE(request) && request->req_status._cancelled)
		n->posted--;
}

/* Cancels a pending receive: either its message arrives, or its channel ends before that, and MPI
 * has the receive. */
static void cancel_ours(struct hk_pending *p, const struct hk_persistent *persistent)
{
	struct hk_comm *c = hk_comm_lookup(p->comm);

	if (p->is_send)
		return; /* a put cannot be cancelled */
	if (c && !p->mpi_request)
		hk_wildcard_end_channels(c, p->peer, p->tag);
	if ((!persistent || persistent->active == p) && p->mpi_request)
		cancel_at_mpi(c ? hk_receiver_lookup(c, p->peer, p->tag) : NULL, p->mpi_request);
}

bool hk_wildcard_cancel(ompi_request_t *request)
{
	const struct hk_persistent *persistent = hk_persistent_find(request);
	struct hk_pending *p = persistent ? persistent->active : NULL;

	if (hk_pending_is(request))
		p = (struct hk_pending *)request;
	if (p) {
		hk_wildcard_inside++;
		if (!REQUEST_COMPLETE(request))
			cancel_ours(p, persistent);
		hk_wildcard_inside--;
		return true;
	}
	if (request->req_type != OMPI_REQUEST_PML || REQUEST_COMPLETE(request))
		return false;
	const mca_pml_base_request_t *base = (const mca_pml_base_request_t *)request;

	if (base->req_type != MCA_PML_REQUEST_RECV)
		return false;
	struct hk_comm *c = hk_comm_lookup(base->req_comm);

	if (!c)
		return false;
	hk_wildcard_inside++;
	hk_wildcard_end_channels(c, base->req_peer, base->req_tag);
	struct hk_receiver *n = hk_receiver_lookup(c, base->req_peer, base->req_tag);

	/* Puts may have overtaken its message, which is still in flight then. */
	if (n && n->id && !n->flushed)
		hk_control_flush(n);
	cancel_at_mpi(n, request);
	hk_wildcard_inside--;
	return true;
}

/* ---- probed messages ------------------------------------------------------ */

struct taken {
	/* The program's handle. Open MPI reads only its communicator, for the error handler. */
	ompi_message_t super;
	struct taken *next;
	int peer, tag;
	uint32_t bytes;
	char data[];
};

static struct taken *taken;

MPI_Message hk_probed_take(struct hk_receiver *n)
{
	uint32_t bytes = n->schedule.bytes[hk_schedule_at(&n->schedule, n->posted)];
	struct taken *t = hk_promote_alloc(sizeof(*t) + bytes);
	MPI_Request request;

	OBJ_CONSTRUCT(&t->super, ompi_message_t);
	t->super.comm = n->comm->comm;
	t->peer = n->peer;
	t->tag = n->tag;
	t->bytes = bytes;
	t->next = taken;
	taken = t;
	/* The message is unexpected, so it came by a put. */
	hk_receiver_receive(n, t->data, (int)bytes, MPI_BYTE, NULL, &request);
	PMPI_Wait(&request, MPI_STATUS_IGNORE);
	return &t->super;
}

void hk_probed_comm_freed(MPI_Comm comm)
{
	for (struct taken *t = taken; t; t = t->next)
		if (t->super.comm == comm)
			t->super.comm = MPI_COMM_WORLD;
}

bool hk_probed_receive(MPI_Message *message, void *buf, int count, ompi_datatype_t *type,
		       MPI_Request *request)
{
	struct taken **at = &taken, *t;

	while ((t = *at) && message && *message != &t->super)
		at = &t->next;
	if (!t || !message)
		return false;
	struct hk_pending *p = hk_pending_new(t->super.comm, buf, count, type, t->peer, t->tag);
	uint32_t bytes = HK_MIN(t->bytes, p->bytes);

	p->is_send = false;
	if (bytes < t->bytes)
		p->request.req_status.MPI_ERROR = MPI_ERR_TRUNCATE;
	p->request.req_status._ucount = bytes;
	hk_pending_unpack(p, t->data, bytes);
	hk_pending_complete(p);
	*request = &p->request;
	*message = MPI_MESSAGE_NULL;
	*at = t->next;
	OBJ_DESTRUCT(&t->super);
	free(t);
	return true;
}

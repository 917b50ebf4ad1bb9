/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/unmatched.c: MPI's wildcard receives, until it is known which message each takes.
 *
 * DESIGN NOTES
 *
 * If puts have arrived before their receives, a receive of any tag must know how many messages of
 * the other tags were received (wildcard.c). So each message that a wildcard receive takes is
 * counted on its channel. That happens when the count is needed, if the message was matched, and at
 * the latest when it has arrived.
 */
#include "halo/promote/promote.h"

#include "ompi/mca/pml/base/pml_base_request.h"

#include <stdlib.h>

struct unmatched {
	ompi_request_t *request; /* NULL: complete */
	struct hk_comm *comm;    /* NULL: counted */
	struct unmatched *next;
	bool freed; /* by the program */
};

static struct unmatched *receives, *unused;

void hk_unmatched_count(struct hk_comm *c, const MPI_Status *s)
{
	struct hk_receiver *n = hk_recent_find(hk_recent_receivers, c->comm, s->MPI_SOURCE,
					       s->MPI_TAG);

	if (s->MPI_SOURCE < 0 || s->_cancelled)
		return;
	if (HK_LIKELY(n || (n = hk_receiver_find(c, s->MPI_SOURCE, s->MPI_TAG)))) {
		n->posted++;
		hk_receiver_check(n);
	}
}

static int complete(ompi_request_t *request)
{
	struct unmatched *l = request->req_complete_cb_data;

	if (l->comm)
		hk_unmatched_count(l->comm, &request->req_status);
	l->comm = NULL;
	if (!l->freed)
		l->request = NULL;
	return OMPI_SUCCESS;
}

static void free_complete(void)
{
	for (struct unmatched **at = &receives, *l; (l = *at);) {
		if (l->freed && REQUEST_COMPLETE(l->request)) {
			ompi_request_free(&l->request);
			l->request = NULL;
		}
		if (l->request) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		l->next = unused;
		unused = l;
	}
}

void hk_unmatched_posted(struct hk_comm *c, ompi_request_t *request)
{
	struct unmatched *l;

	if (REQUEST_COMPLETE(request)) {
		hk_unmatched_count(c, &request->req_status);
		return;
	}
	free_complete();
	if ((l = unused))
		unused = l->next;
	else
		l = hk_promote_alloc(sizeof(*l));
	*l = (struct unmatched){request, c, receives, false};
	receives = l;
	request->req_complete_cb = complete;
	request->req_complete_cb_data = l;
}

void hk_unmatched_update(void)
{
	for (struct unmatched *l = receives; l; l = l->next)
		if (l->comm && l->request->req_status.MPI_SOURCE >= 0) {
			hk_unmatched_count(l->comm, &l->request->req_status);
			l->comm = NULL;
		}
}

bool hk_unmatched_may_take(const struct hk_receiver *n)
{
	hk_unmatched_update();
	for (const struct unmatched *l = receives; l; l = l->next) {
		const mca_pml_base_request_t *base = (const mca_pml_base_request_t *)l->request;

		if (l->comm == n->comm &&
		    (base->req_peer == MPI_ANY_SOURCE || base->req_peer == n->peer) &&
		    (base->req_tag == MPI_ANY_TAG || base->req_tag == n->tag))
			return true;
	}
	return false;
}

/* Open MPI does not call back when a freed request is complete, so the promoter keeps it. */
bool hk_unmatched_freed(ompi_request_t *request)
{
	struct unmatched *l = receives;

	while (l && l->request != request)
		l = l->next;
	if (!l || l->freed)
		return false;
	l->freed = true;
	return true;
}

void hk_unmatched_forget(const struct hk_comm *c)
{
	for (struct unmatched *l = receives; l; l = l->next)
		if (l->comm == c)
			l->comm = NULL;
}

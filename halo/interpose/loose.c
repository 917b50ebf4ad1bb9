/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/loose.c: MPI's receives from any source, or of any tag, until it is known whose message each takes.
 *
 * Where puts have come before their receives, and one of any tag is posted, it has to be known how many messages of the other tags
 * were received (wild.c). So what such receives take is counted in its channel: as soon as it is asked for, if a message
 * was matched, at the latest when it has come.
 */
#include "halo/interpose/interpose.h"

#include "ompi/mca/pml/base/pml_base_request.h"

#include <stdlib.h>

struct loose {
	ompi_request_t *request; /* NULL: complete */
	struct hk_comm *comm;    /* NULL: counted */
	struct loose *next;
	bool freed; /* by the program */
};

static struct loose *loose, *unused;

void hk_loose_count(struct hk_comm *c, const MPI_Status *s)
{
	struct hk_receiver *n = hk_lately_find(hk_ins_lately, c->comm, s->MPI_SOURCE, s->MPI_TAG);

	if (s->MPI_SOURCE < 0 || s->_cancelled)
		return;
	if (HK_LIKELY(n || (n = hk_in_find(c, s->MPI_SOURCE, s->MPI_TAG)))) {
		n->posted++;
		hk_in_look(n);
	}
}

static int complete(ompi_request_t *request)
{
	struct loose *l = request->req_complete_cb_data;

	if (l->comm)
		hk_loose_count(l->comm, &request->req_status);
	l->comm = NULL;
	if (!l->freed)
		l->request = NULL;
	return OMPI_SUCCESS;
}

static void sweep(void)
{
	for (struct loose **at = &loose, *l; (l = *at);) {
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

void hk_loose_posted(struct hk_comm *c, ompi_request_t *request)
{
	struct loose *l;

	if (REQUEST_COMPLETE(request)) {
		hk_loose_count(c, &request->req_status);
		return;
	}
	sweep();
	if ((l = unused))
		unused = l->next;
	else
		l = hk_need(sizeof(*l));
	*l = (struct loose){request, c, loose, false};
	loose = l;
	request->req_complete_cb = complete;
	request->req_complete_cb_data = l;
}

void hk_loose_settle(void)
{
	for (struct loose *l = loose; l; l = l->next)
		if (l->comm && l->request->req_status.MPI_SOURCE >= 0) {
			hk_loose_count(l->comm, &l->request->req_status);
			l->comm = NULL;
		}
}

bool hk_loose_waits(const struct hk_receiver *n)
{
	hk_loose_settle();
	for (const struct loose *l = loose; l; l = l->next) {
		const mca_pml_base_request_t *base = (const mca_pml_base_request_t *)l->request;

		if (l->comm == n->comm &&
		    (base->req_peer == MPI_ANY_SOURCE || base->req_peer == n->peer) &&
		    (base->req_tag == MPI_ANY_TAG || base->req_tag == n->tag))
			return true;
	}
	return false;
}

/* Open MPI tells nobody when a freed request is complete. */
bool hk_loose_freed(ompi_request_t *request)
{
	struct loose *l = loose;

	while (l && l->request != request)
		l = l->next;
	if (!l || l->freed)
		return false;
	l->freed = true;
	return true;
}

void hk_loose_forget(const struct hk_comm *c)
{
	for (struct loose *l = loose; l; l = l->next)
		if (l->comm == c)
			l->comm = NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/persistent.c: the MPI functions that make, start, cancel and free requests.
 */
#include "halo/promote/calls.h"

static int note(int rc, const void *buf, int count, MPI_Datatype type, int peer, int tag,
		MPI_Comm comm, bool sends, bool standard, MPI_Request *request)
{
	if (rc != MPI_SUCCESS || peer == MPI_PROC_NULL || !hk_comm_watched(comm))
		return rc;
	struct hk_persistent *p = hk_persistent_add(*request);

	p->buf = (void *)(uintptr_t)buf;
	p->count = count;
	p->type = type;
	p->peer = peer;
	p->tag = tag;
	p->comm = comm;
	p->is_send = sends;
	p->standard = standard;
	OBJ_RETAIN(type);
	return rc;
}

#define PERSISTENT(name, standard)                                                                 \
	int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag,           \
		       MPI_Comm comm, MPI_Request *request)                                        \
	{                                                                                          \
		return note(hk_real.name(buf, count, type, dest, tag, comm, request), buf, count,  \
			    type, dest, tag, comm, true, standard, request);                       \
	}                                                                                          \
	PMPI_ALIAS(name)

PERSISTENT(Send_init, true);
PERSISTENT(Rsend_init, true);
PERSISTENT(Ssend_init, false);
PERSISTENT(Bsend_init, false);

int MPI_Recv_init(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
		  MPI_Request *request)
{
	return note(hk_real.Recv_init(buf, count, type, source, tag, comm, request), buf, count,
		    type, source, tag, comm, false, true, request);
}
PMPI_ALIAS(Recv_init);

/* Starts @p by a put. False: the caller starts it by MPI; *@c is as of hk_call_receive_wildcard(),
 * and *@o is the sender that has counted it, or NULL. */
static bool started(struct hk_persistent *p, MPI_Request *request, struct hk_comm **c,
		    struct hk_sender **o)
{
	*c = NULL;
	*o = NULL;
	if (p->is_send) {
		*o = hk_sender_of_call(p->buf, p->count, p->type, p->peer, p->tag, p->comm);
		return *o &&
		       hk_sender_send(*o, p->buf, p->count, p->type,
				      p->standard ? HK_SEND_STANDARD : HK_SEND_OTHER, p, request);
	}
	if (hk_call_is_wildcard(p->peer, p->tag))
		return hk_call_receive_wildcard(p->buf, p->count, p->type, p->peer, p->tag, p->comm,
						p, request, c);
	return hk_call_receive(p->buf, p->count, p->type, p->peer, p->tag, p->comm, p, request);
}

int MPI_Start(MPI_Request *request)
{
	struct hk_persistent *p = hk_promote_watching && request && *request
					  ? hk_persistent_find(*request)
					  : NULL;
	struct hk_comm *c = NULL;
	struct hk_sender *o = NULL;

	if (p && (*request)->req_state == OMPI_REQUEST_ACTIVE)
		p = NULL; /* an error of the program, which MPI reports */
	if (p && started(p, request, &c, &o))
		return MPI_SUCCESS;
	int rc = hk_real.Start(request);

	if (o)
		hk_sender_returned(o, p->count, p->type, rc);
	else if (p && !p->is_send)
		hk_receiver_returned(p->buf, p->count, p->type, p->peer, p->tag, p->comm, rc);
	if (c && rc == MPI_SUCCESS)
		hk_unmatched_posted(c, *request);
	return rc;
}
PMPI_ALIAS(Start);

/* Does MPI refuse to start the request, and with it all requests of the same call? */
static bool unstartable(const ompi_request_t *r)
{
	return !r || (r->req_type != OMPI_REQUEST_PML && r->req_type != OMPI_REQUEST_COLL &&
		      r->req_type != OMPI_REQUEST_NOOP);
}

int MPI_Startall(int count, MPI_Request requests[])
{
	bool refused = !hk_promote_watching || count < 0 || !requests;

	for (int k = 0; !refused && k < count; k++)
		refused = unstartable(requests[k]);
	if (refused)
		return hk_real.Startall(count, requests);
	for (int k = 0; k < count; k++) {
		int rc = MPI_Start(&requests[k]);

		if (rc != MPI_SUCCESS)
			return rc;
	}
	return MPI_SUCCESS;
}
PMPI_ALIAS(Startall);

int MPI_Request_free(MPI_Request *request)
{
	struct hk_persistent *p = hk_promote_watching && request && *request
					  ? hk_persistent_find(*request)
					  : NULL;

	if (p)
		hk_persistent_forget(p);
	if (hk_promote_watching && request && *request && hk_unmatched_freed(*request)) {
		*request = MPI_REQUEST_NULL;
		return MPI_SUCCESS;
	}
	return hk_real.Request_free(request);
}
PMPI_ALIAS(Request_free);

int MPI_Cancel(MPI_Request *request)
{
	if (hk_promote_watching && request && *request && *request != MPI_REQUEST_NULL &&
	    hk_wildcard_cancel(*request))
		return MPI_SUCCESS;
	return hk_real.Cancel(request);
}
PMPI_ALIAS(Cancel);

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/persistent.c: MPI's functions that make, start, cancel and free requests, as the library stands in for
 * them.
 */
#include "halo/interpose/calls.h"

static int note(int rc, const void *buf, int count, MPI_Datatype type, int peer, int tag,
		MPI_Comm comm, bool sends, bool standard, MPI_Request *request)
{
	if (rc != MPI_SUCCESS || peer == MPI_PROC_NULL || !hk_watched(comm))
		return rc;
	struct hk_persistent *p = hk_persistent_add(*request);

	p->buf = (void *)(uintptr_t)buf;
	p->count = count;
	p->type = type;
	p->peer = peer;
	p->tag = tag;
	p->comm = comm;
	p->sends = sends;
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
	ALSO(name)

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
ALSO(Recv_init);

/* By puts? Else MPI starts @p, *@c is as hk_receive_loose() has it, and *@o is where it was counted as sent. */
static bool started(struct hk_persistent *p, MPI_Request *request, struct hk_comm **c,
		    struct hk_sender **o)
{
	*c = NULL;
	*o = NULL;
	if (p->sends) {
		*o = hk_out_of(p->buf, p->count, p->type, p->peer, p->tag, p->comm);
		return *o &&
		       hk_out_send(*o, p->buf, p->count, p->type,
				   p->standard ? HK_SEND_STANDARD : HK_SEND_OTHER, p, request);
	}
	if (hk_any(p->peer, p->tag))
		return hk_receive_loose(p->buf, p->count, p->type, p->peer, p->tag, p->comm, p,
					request, c);
	return hk_receive(p->buf, p->count, p->type, p->peer, p->tag, p->comm, p, request);
}

int MPI_Start(MPI_Request *request)
{
	struct hk_persistent *p = hk_watching && request && *request ? hk_persistent_find(*request)
								     : NULL;
	struct hk_comm *c = NULL;
	struct hk_sender *o = NULL;

	if (p && (*request)->req_state == OMPI_REQUEST_ACTIVE)
		p = NULL; /* the program's mistake: MPI says so */
	if (p && started(p, request, &c, &o))
		return MPI_SUCCESS;
	int rc = hk_real.Start(request);

	if (o)
		hk_refused(o, p->count, p->type, rc);
	else if (p && !p->sends)
		hk_received(p->buf, p->count, p->type, p->peer, p->tag, p->comm, rc);
	if (c && rc == MPI_SUCCESS)
		hk_loose_posted(c, *request);
	return rc;
}
ALSO(Start);

/* Does MPI refuse to start it, and all that are to be started with it? */
static bool unstartable(const ompi_request_t *r)
{
	return !r || (r->req_type != OMPI_REQUEST_PML && r->req_type != OMPI_REQUEST_COLL &&
		      r->req_type != OMPI_REQUEST_NOOP);
}

int MPI_Startall(int count, MPI_Request requests[])
{
	bool refused = !hk_watching || count < 0 || !requests;

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
ALSO(Startall);

int MPI_Request_free(MPI_Request *request)
{
	struct hk_persistent *p = hk_watching && request && *request ? hk_persistent_find(*request)
								     : NULL;

	if (p)
		hk_persistent_forget(p);
	if (hk_watching && request && *request && hk_loose_freed(*request)) {
		*request = MPI_REQUEST_NULL;
		return MPI_SUCCESS;
	}
	return hk_real.Request_free(request);
}
ALSO(Request_free);

int MPI_Cancel(MPI_Request *request)
{
	if (hk_watching && request && *request && *request != MPI_REQUEST_NULL &&
	    hk_wild_cancel(*request))
		return MPI_SUCCESS;
	return hk_real.Cancel(request);
}
ALSO(Cancel);

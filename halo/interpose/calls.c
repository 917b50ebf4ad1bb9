/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/calls.c: the MPI functions that the library stands in for: all that send, receive or probe, and those
 * that end what these need. Each has its PMPI_ name too, so that Fortran's functions, which call that, come here.
 *
 * Every send and receive that names a channel is counted, whatever way it takes; calls that Open MPI will
 * refuse are not, since they send nothing.
 */
#include "halo/interpose/interpose.h"

#include "ompi/mca/pml/pml.h"

#include <limits.h>
#include <stdlib.h>

#define ALSO(name)                                                                                 \
	__typeof__(MPI_##name) PMPI_##name                                                         \
		__attribute__((alias("MPI_" #name), visibility("default")))

/* ---- what a call names ------------------------------------------------------------------------------------ */

static inline struct hk_comm *watched(MPI_Comm comm)
{
	return HK_LIKELY(hk_watching) && comm && comm != MPI_COMM_NULL ? hk_comm_find(comm) : NULL;
}

static inline bool sound(const void *buf, int count, MPI_Datatype type)
{
	return count >= 0 && type && type != MPI_DATATYPE_NULL &&
	       opal_datatype_is_committed(&type->super) &&
	       (buf || count == 0 || !ompi_datatype_is_predefined(type));
}

static struct hk_sender *out_looked_up(const void *buf, int count, MPI_Datatype type, int dest,
				       int tag, MPI_Comm comm)
{
	struct hk_comm *c = watched(comm);

	return c && dest >= 0 && dest < c->size && tag >= 0 && tag <= mca_pml.pml_max_tag &&
			       sound(buf, count, type)
		       ? hk_out_find(c, dest, tag)
		       : NULL;
}

static inline struct hk_sender *out_of(const void *buf, int count, MPI_Datatype type, int dest,
				       int tag, MPI_Comm comm)
{
	struct hk_sender *o = hk_lately_find(hk_outs_lately, comm, dest, tag);

	return HK_LIKELY(o && sound(buf, count, type))
		       ? o
		       : out_looked_up(buf, count, type, dest, tag, comm);
}

/* By puts? False: by MPI, and counted. */
static inline bool sent(struct hk_sender *o, const void *buf, int count, MPI_Datatype type,
			enum hk_send how, MPI_Request *request)
{
	if (HK_LIKELY(o->sent < o->dull && !o->comm->held)) {
		o->sent++;
		o->bytes += type->super.size * (size_t)count;
		return false;
	}
	return hk_out_send(o, buf, count, type, how, NULL, request);
}

/* What a send by MPI has returned. One that it has refused was no message. */
static inline int refused(struct hk_sender *o, int count, MPI_Datatype type, int rc)
{
	if (HK_UNLIKELY(rc != MPI_SUCCESS) && o) {
		o->sent--;
		o->bytes -= type->super.size * (size_t)count;
	}
	return rc;
}

static inline bool names_rank(const struct hk_comm *c, int source, int tag)
{
	return (source == MPI_ANY_SOURCE || (source >= 0 && source < c->size)) &&
	       (tag == MPI_ANY_TAG || (tag >= 0 && tag <= mca_pml.pml_max_tag));
}

static inline bool any(int source, int tag)
{
	return source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG;
}

static void count_matched(MPI_Comm comm, const MPI_Status *status)
{
	struct hk_comm *c = watched(comm);

	if (c)
		hk_loose_count(c, status);
}

/* A receive without source or tag. True if it has become @*request; else it is MPI's. */
static bool take_any(struct hk_comm *c, void *buf, int count, MPI_Datatype type, int source,
		     int tag, struct hk_persistent *of, MPI_Request *request)
{
	MPI_Message message;
	MPI_Status status;
	bool first;
	int there = 0;

	hk_wild(c, source, tag);
	if (HK_LIKELY(c->live_ins == 0))
		return false;
	while (!there) {
		struct hk_receiver *n = hk_wild_pick(c, source, tag, &first);

		if (n)
			return hk_in_receive(n, buf, count, type, of, request);
		if (!first)
			return false;
		/* On its way, and taken at once: counts stay exact while others wait here. */
		hk_real.Improbe(source, tag, c->comm, &there, &message, &status);
	}
	hk_loose_count(c, &status);
	MPI_Request own;

	hk_real.Imrecv(buf, count, type, &message, of ? &own : request);
	if (of)
		hk_pending_behind(of, own);
	return true;
}

static struct hk_receiver *in_looked_up(int source, int tag, MPI_Comm comm)
{
	struct hk_comm *c = watched(comm);

	return c && names_rank(c, source, tag) ? hk_in_find(c, source, tag) : NULL;
}

/* A receive that names its channel. True if it has become @*request; else it is MPI's, and counted. */
static inline bool receive(void *buf, int count, MPI_Datatype type, int source, int tag,
			   MPI_Comm comm, struct hk_persistent *of, MPI_Request *request)
{
	struct hk_receiver *n = hk_lately_find(hk_ins_lately, comm, source, tag);

	if (HK_UNLIKELY(!n) && !(n = in_looked_up(source, tag, comm)))
		return false;
	if (HK_UNLIKELY(!sound(buf, count, type)))
		return false;
	if (HK_LIKELY(n->state == HK_IN_PLAIN)) {
		n->posted++;
		return false;
	}
	return hk_in_receive(n, buf, count, type, of, request);
}

/* What a receive by MPI has returned. If MPI has refused it, receive() has counted one too many. */
static int received(const void *buf, int count, MPI_Datatype type, int source, int tag,
		    MPI_Comm comm, int rc)
{
	if (HK_LIKELY(rc == MPI_SUCCESS) || rc == MPI_ERR_TRUNCATE || any(source, tag))
		return rc;
	struct hk_receiver *n = in_looked_up(source, tag, comm);

	if (n && sound(buf, count, type))
		n->posted--;
	return rc;
}

/* One that does not; as receive(). *@c: the communicator in which it has to be counted by the caller, NULL: none. */
static bool receive_loose(void *buf, int count, MPI_Datatype type, int source, int tag,
			  MPI_Comm comm, struct hk_persistent *of, MPI_Request *request,
			  struct hk_comm **c)
{
	*c = watched(comm);
	if (!*c || !names_rank(*c, source, tag) || !sound(buf, count, type)) {
		*c = NULL;
		return false;
	}
	hk_wild_inside++;
	bool taken = take_any(*c, buf, count, type, source, tag, of, request);

	hk_wild_inside--;
	return taken;
}

/* ---- sends -------------------------------------------------------------------------------------------------- */

#define BLOCKING(name, how)                                                                        \
	int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag,           \
		       MPI_Comm comm)                                                              \
	{                                                                                          \
		struct hk_sender *o = out_of(buf, count, type, dest, tag, comm);                   \
                                                                                                   \
		if (o && sent(o, buf, count, type, how, NULL))                                     \
			return MPI_SUCCESS;                                                        \
		return refused(o, count, type, hk_real.name(buf, count, type, dest, tag, comm));   \
	}                                                                                          \
	ALSO(name)

#define IMMEDIATE(name, how)                                                                       \
	int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag,           \
		       MPI_Comm comm, MPI_Request *request)                                        \
	{                                                                                          \
		struct hk_sender *o = out_of(buf, count, type, dest, tag, comm);                   \
                                                                                                   \
		if (o && sent(o, buf, count, type, how, request))                                  \
			return MPI_SUCCESS;                                                        \
		return refused(o, count, type,                                                     \
			       hk_real.name(buf, count, type, dest, tag, comm, request));          \
	}                                                                                          \
	ALSO(name)

BLOCKING(Send, HK_SEND_STANDARD);
BLOCKING(Rsend, HK_SEND_STANDARD);
BLOCKING(Ssend, HK_SEND_OTHER);
BLOCKING(Bsend, HK_SEND_OTHER);
IMMEDIATE(Isend, HK_SEND_STANDARD);
IMMEDIATE(Irsend, HK_SEND_STANDARD);
IMMEDIATE(Issend, HK_SEND_OTHER);
IMMEDIATE(Ibsend, HK_SEND_OTHER);

/* ---- receives ------------------------------------------------------------------------------------------------ */

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	struct hk_comm *c = NULL;

	if (any(source, tag) ? receive_loose(buf, count, type, source, tag, comm, NULL, request, &c)
			     : receive(buf, count, type, source, tag, comm, NULL, request))
		return MPI_SUCCESS;
	int rc = hk_real.Irecv(buf, count, type, source, tag, comm, request);

	if (HK_UNLIKELY(c != NULL) && rc == MPI_SUCCESS)
		hk_loose_posted(c, *request);
	return received(buf, count, type, source, tag, comm, rc);
}
ALSO(Irecv);

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	     MPI_Status *status)
{
	MPI_Request request;
	struct hk_comm *c;
	MPI_Status own;

	if (HK_LIKELY(!any(source, tag))) {
		if (receive(buf, count, type, source, tag, comm, NULL, &request))
			return PMPI_Wait(&request, status);
		return received(buf, count, type, source, tag, comm,
				hk_real.Recv(buf, count, type, source, tag, comm, status));
	}
	if (receive_loose(buf, count, type, source, tag, comm, NULL, &request, &c))
		return PMPI_Wait(&request, status);
	if (!c)
		return hk_real.Recv(buf, count, type, source, tag, comm, status);
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	hk_wild_inside++;
	int rc = hk_real.Recv(buf, count, type, source, tag, comm, status);

	hk_wild_inside--;
	if (rc == MPI_SUCCESS || rc == MPI_ERR_TRUNCATE)
		hk_loose_count(c, status);
	return rc;
}
ALSO(Recv);

int MPI_Sendrecv(const void *out, int outs, MPI_Datatype out_type, int dest, int out_tag, void *in,
		 int ins, MPI_Datatype in_type, int source, int in_tag, MPI_Comm comm,
		 MPI_Status *status)
{
	MPI_Request receives;

	if (!watched(comm))
		return hk_real.Sendrecv(out, outs, out_type, dest, out_tag, in, ins, in_type,
					source, in_tag, comm, status);
	int rc = MPI_Irecv(in, ins, in_type, source, in_tag, comm, &receives);

	if (rc != MPI_SUCCESS)
		return rc;
	rc = MPI_Send(out, outs, out_type, dest, out_tag, comm);
	int came = PMPI_Wait(&receives, status);

	return rc == MPI_SUCCESS ? came : rc;
}
ALSO(Sendrecv);

/* More than MPI sends as bytes: @buf is copied with its gaps. */
static int replace_large(void *buf, int count, MPI_Datatype type, int dest, int out_tag, int source,
			 int in_tag, MPI_Comm comm, MPI_Status *status)
{
	ptrdiff_t gap;
	char *copy = malloc((size_t)opal_datatype_span(&type->super, count, &gap));

	if (!copy)
		hk_broken("there is no memory");
	ompi_datatype_copy_content_same_ddt(type, count, copy - gap, buf);
	int rc = MPI_Sendrecv(copy - gap, count, type, dest, out_tag, buf, count, type, source,
			      in_tag, comm, status);

	free(copy);
	return rc;
}

int MPI_Sendrecv_replace(void *buf, int count, MPI_Datatype type, int dest, int out_tag, int source,
			 int in_tag, MPI_Comm comm, MPI_Status *status)
{
	if (!watched(comm) || !sound(buf, count, type))
		return hk_real.Sendrecv_replace(buf, count, type, dest, out_tag, source, in_tag,
						comm, status);
	if (type->super.size * (size_t)count > INT_MAX)
		return replace_large(buf, count, type, dest, out_tag, source, in_tag, comm, status);
	struct hk_pending *p = hk_pending_new(comm, buf, count, type, dest, out_tag);
	int bytes = (int)p->bytes;

	hk_pack(p);
	char *copy = p->copy;

	p->copy = NULL;
	p->user = NULL;
	hk_pending_done(p);
	int rc = MPI_Sendrecv(copy, bytes, MPI_BYTE, dest, out_tag, buf, count, type, source,
			      in_tag, comm, status);

	free(copy);
	return rc;
}
ALSO(Sendrecv_replace);

/* ---- probes --------------------------------------------------------------------------------------------------- */

/* What a probe finds of messages that came by puts. NULL: look whether MPI has one; then, if *@first, look here again. */
static struct hk_receiver *found(int source, int tag, MPI_Comm comm, MPI_Status *status,
				 bool *first)
{
	struct hk_comm *c = watched(comm);

	*first = false;
	if (!c || !names_rank(c, source, tag))
		return NULL;
	hk_wild(c, source, tag);
	struct hk_receiver *n = c->live_ins ? hk_wild_pick(c, source, tag, first) : NULL;

	if (n && status != MPI_STATUS_IGNORE) {
		status->MPI_SOURCE = n->peer;
		status->MPI_TAG = n->tag;
		status->_cancelled = 0;
		status->_ucount = n->schedule.bytes[hk_schedule_at(&n->schedule, n->posted)];
	}
	return n;
}

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
	int rc = MPI_SUCCESS, there = 0;
	bool first;

	if (!hk_watching)
		return hk_real.Probe(source, tag, comm, status);
	hk_wild_inside++;
	while (!there && rc == MPI_SUCCESS && !found(source, tag, comm, status, &first)) {
		if (first)
			rc = hk_real.Iprobe(source, tag, comm, &there, status);
		else
			rc = hk_real.Probe(source, tag, comm, status);
		there |= !first;
	}
	hk_wild_inside--;
	return rc;
}
ALSO(Probe);

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
	int rc = MPI_SUCCESS;
	bool first;

	if (!hk_watching)
		return hk_real.Iprobe(source, tag, comm, flag, status);
	hk_wild_inside++;
	if (found(source, tag, comm, status, &first))
		*flag = 1;
	else
		rc = hk_real.Iprobe(source, tag, comm, flag, status);
	hk_wild_inside--;
	return rc;
}
ALSO(Iprobe);

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
	MPI_Status own;
	struct hk_receiver *n;
	int rc = MPI_SUCCESS, there = 0;
	bool first;

	if (!hk_watching)
		return hk_real.Mprobe(source, tag, comm, message, status);
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	hk_wild_inside++;
	while (!there && rc == MPI_SUCCESS) {
		if ((n = found(source, tag, comm, status, &first))) {
			*message = hk_message_take(n);
			hk_wild_inside--;
			return MPI_SUCCESS;
		}
		if (first)
			rc = hk_real.Improbe(source, tag, comm, &there, message, status);
		else
			rc = hk_real.Mprobe(source, tag, comm, message, status);
		there |= !first;
	}
	if (rc == MPI_SUCCESS)
		count_matched(comm, status);
	hk_wild_inside--;
	return rc;
}
ALSO(Mprobe);

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
		MPI_Status *status)
{
	MPI_Status own;
	bool first;

	if (!hk_watching)
		return hk_real.Improbe(source, tag, comm, flag, message, status);
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	hk_wild_inside++;
	struct hk_receiver *n = found(source, tag, comm, status, &first);
	int rc = MPI_SUCCESS;

	if (n) {
		*flag = 1;
		*message = hk_message_take(n);
	} else {
		rc = hk_real.Improbe(source, tag, comm, flag, message, status);
		if (rc == MPI_SUCCESS && *flag)
			count_matched(comm, status);
	}
	hk_wild_inside--;
	return rc;
}
ALSO(Improbe);

int MPI_Imrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
	if (hk_message_give(message, buf, count, type, request))
		return MPI_SUCCESS;
	return hk_real.Imrecv(buf, count, type, message, request);
}
ALSO(Imrecv);

int MPI_Mrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
	MPI_Request request;

	if (hk_message_give(message, buf, count, type, &request))
		return PMPI_Wait(&request, status);
	return hk_real.Mrecv(buf, count, type, message, status);
}
ALSO(Mrecv);

/* ---- persistent requests ----------------------------------------------------------------------------------------- */

static int note(int rc, const void *buf, int count, MPI_Datatype type, int peer, int tag,
		MPI_Comm comm, bool sends, bool standard, MPI_Request *request)
{
	if (rc != MPI_SUCCESS || peer == MPI_PROC_NULL || !watched(comm))
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

/* By puts? Else MPI starts @p, *@c is as receive_loose() has it, and *@o is where it was counted as sent. */
static bool started(struct hk_persistent *p, MPI_Request *request, struct hk_comm **c,
		    struct hk_sender **o)
{
	*c = NULL;
	*o = NULL;
	if (p->sends) {
		*o = out_of(p->buf, p->count, p->type, p->peer, p->tag, p->comm);
		return *o &&
		       hk_out_send(*o, p->buf, p->count, p->type,
				   p->standard ? HK_SEND_STANDARD : HK_SEND_OTHER, p, request);
	}
	if (any(p->peer, p->tag))
		return receive_loose(p->buf, p->count, p->type, p->peer, p->tag, p->comm, p,
				     request, c);
	return receive(p->buf, p->count, p->type, p->peer, p->tag, p->comm, p, request);
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
		refused(o, p->count, p->type, rc);
	else if (p && !p->sends)
		received(p->buf, p->count, p->type, p->peer, p->tag, p->comm, rc);
	if (c && rc == MPI_SUCCESS)
		hk_loose_posted(c, *request);
	return rc;
}
ALSO(Start);

int MPI_Startall(int count, MPI_Request requests[])
{
	if (!hk_watching || count < 0 || !requests)
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

/* ---- the beginning and the end -------------------------------------------------------------------------------------- */

/* The program is about to give @comm back. */
static void leave(const MPI_Comm *comm)
{
	struct hk_comm *c = comm && *comm != MPI_COMM_WORLD && *comm != MPI_COMM_SELF
				    ? watched(*comm)
				    : NULL;

	if (c)
		hk_close(c);
	else if (comm && hk_watching)
		hk_comm_forget(*comm);
}

int MPI_Comm_free(MPI_Comm *comm)
{
	leave(comm);
	return hk_real.Comm_free(comm);
}
ALSO(Comm_free);

int MPI_Comm_disconnect(MPI_Comm *comm)
{
	leave(comm);
	return hk_real.Comm_disconnect(comm);
}
ALSO(Comm_disconnect);

int MPI_Init(int *argc, char ***argv)
{
	int rc = hk_real.Init(argc, argv);

	if (rc == MPI_SUCCESS)
		hk_start();
	return rc;
}
ALSO(Init);

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	int rc = hk_real.Init_thread(argc, argv, required, provided);

	if (rc == MPI_SUCCESS)
		hk_start();
	return rc;
}
ALSO(Init_thread);

int MPI_Finalize(void)
{
	hk_stop();
	return hk_real.Finalize();
}
ALSO(Finalize);

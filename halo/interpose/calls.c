/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/calls.c: the MPI functions that the library stands in for: those that send or receive; probes.c and
 * persistent.c have the others. Each has its PMPI_ name too, so that Fortran's functions, which call that, come here.
 *
 * Every send and receive that names a channel is counted, whatever way it takes. Calls that Open MPI refuses send nothing: what it
 * refuses by their arguments alone (hk_sound()) is not counted, what it refuses later is taken back. A call that is only
 * counted, as most are, is one that Open MPI can refuse by nothing else; if memory fails it there, its count stays.
 */
#include "halo/interpose/calls.h"

#include <limits.h>
#include <stdlib.h>

/* ---- what a call names ------------------------------------------------------------------------------------ */

struct hk_sender *hk_out_looked_up(const void *buf, int count, MPI_Datatype type, int dest, int tag,
				   MPI_Comm comm)
{
	struct hk_comm *c = hk_watched(comm);

	if (!c || !hk_names_channel(c, dest, tag) || !hk_sound(buf, count, type))
		return NULL;
	struct hk_sender *o = hk_out_find(c, dest, tag);

	if (!o)
		hk_out_unwatched(c, type->super.size * (size_t)count);
	return o;
}

/* Is the next message of @o counted and no more? Then it is. */
static inline bool only_counted(struct hk_sender *o, int count, MPI_Datatype type)
{
	struct hk_pair *p = o->pair;

	if (HK_UNLIKELY(o->sent >= o->dull || p->held || p->log.sent >= p->log.turn))
		return false;
	o->sent++;
	hk_log_note(&p->log, o->slot);
	o->bytes += type->super.size * (size_t)count;
	return true;
}

/* By puts? False: by MPI, and counted. */
static inline bool sent(struct hk_sender *o, const void *buf, int count, MPI_Datatype type,
			enum hk_send how, MPI_Request *request)
{
	return !only_counted(o, count, type) &&
	       hk_out_send(o, buf, count, type, how, NULL, request);
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

struct hk_receiver *hk_in_looked_up(int source, int tag, MPI_Comm comm)
{
	struct hk_comm *c = hk_watched(comm);

	return c && hk_names_rank(c, source, tag) ? hk_in_find(c, source, tag) : NULL;
}

int hk_received(const void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
		int rc)
{
	if (HK_LIKELY(rc == MPI_SUCCESS) || rc == MPI_ERR_TRUNCATE || hk_any(source, tag))
		return rc;
	struct hk_receiver *n = hk_in_looked_up(source, tag, comm);

	if (n && hk_sound(buf, count, type))
		n->posted--;
	return rc;
}

bool hk_receive_loose(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
		      struct hk_persistent *of, MPI_Request *request, struct hk_comm **c)
{
	*c = hk_watched(comm);
	if (!*c || !hk_names_rank(*c, source, tag) || !hk_sound(buf, count, type)) {
		*c = NULL;
		return false;
	}
	hk_wild_inside++;
	bool taken = take_any(*c, buf, count, type, source, tag, of, request);

	hk_wild_inside--;
	return taken;
}

/* ---- sends -------------------------------------------------------------------------------------------------- */

/* What mostly happens where nothing can be promoted; the compiler makes the call of MPI's function after it a jump. */
static inline bool passes(const void *buf, int count, MPI_Datatype type, int dest, int tag,
			  MPI_Comm comm)
{
	struct hk_sender *o = hk_lately_find(hk_outs_lately, comm, dest, tag);

	return HK_LIKELY(o && hk_taken(buf, count, type) && only_counted(o, count, type));
}

/* @sure: MPI takes it if its message is sound. (Of a buffered one it may refuse to keep a copy.) */
#define BLOCKING(name, how, sure)                                                                  \
	static HK_NOINLINE int look_##name(const void *buf, int count, MPI_Datatype type,          \
					   int dest, int tag, MPI_Comm comm)                       \
	{                                                                                          \
		struct hk_sender *o = hk_out_of(buf, count, type, dest, tag, comm);                \
                                                                                                   \
		if (o && sent(o, buf, count, type, how, NULL))                                     \
			return MPI_SUCCESS;                                                        \
		return hk_refused(o, count, type,                                                  \
				  hk_real.name(buf, count, type, dest, tag, comm));                \
	}                                                                                          \
                                                                                                   \
	int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag,           \
		       MPI_Comm comm)                                                              \
	{                                                                                          \
		if (sure && passes(buf, count, type, dest, tag, comm))                             \
			return hk_real.name(buf, count, type, dest, tag, comm);                    \
		return look_##name(buf, count, type, dest, tag, comm);                             \
	}                                                                                          \
	ALSO(name)

#define IMMEDIATE(name, how, sure)                                                                 \
	static HK_NOINLINE int look_##name(const void *buf, int count, MPI_Datatype type,          \
					   int dest, int tag, MPI_Comm comm, MPI_Request *request) \
	{                                                                                          \
		struct hk_sender *o = hk_out_of(buf, count, type, dest, tag, comm);                \
                                                                                                   \
		if (o && sent(o, buf, count, type, how, request))                                  \
			return MPI_SUCCESS;                                                        \
		return hk_refused(o, count, type,                                                  \
				  hk_real.name(buf, count, type, dest, tag, comm, request));       \
	}                                                                                          \
                                                                                                   \
	int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag,           \
		       MPI_Comm comm, MPI_Request *request)                                        \
	{                                                                                          \
		if (sure && request && passes(buf, count, type, dest, tag, comm))                  \
			return hk_real.name(buf, count, type, dest, tag, comm, request);           \
		return look_##name(buf, count, type, dest, tag, comm, request);                    \
	}                                                                                          \
	ALSO(name)

BLOCKING(Send, HK_SEND_STANDARD, true);
BLOCKING(Rsend, HK_SEND_STANDARD, true);
BLOCKING(Ssend, HK_SEND_OTHER, true);
BLOCKING(Bsend, HK_SEND_OTHER, false);
IMMEDIATE(Isend, HK_SEND_STANDARD, true);
IMMEDIATE(Irsend, HK_SEND_STANDARD, true);
IMMEDIATE(Issend, HK_SEND_OTHER, true);
IMMEDIATE(Ibsend, HK_SEND_OTHER, false);

/* ---- receives ------------------------------------------------------------------------------------------------ */

/* Is this receive counted and no more, since its channel is not promoted? Then it is. */
static inline bool only_posted(const void *buf, int count, MPI_Datatype type, int source, int tag,
			       MPI_Comm comm)
{
	struct hk_receiver *n = hk_lately_find(hk_ins_lately, comm, source, tag);

	if (HK_UNLIKELY(!n || n->state != HK_IN_PLAIN || !hk_taken(buf, count, type)))
		return false;
	n->posted++;
	return true;
}

/* The same of one that names no channel, as the program has received before, and no channel that it may name is promoted:
 * its communicator, in which what comes has to be counted. NULL: it has to be looked at. */
static inline struct hk_comm *only_wild(const void *buf, int count, MPI_Datatype type, int source,
					int tag, MPI_Comm comm)
{
	struct hk_comm *c = hk_comm_last;

	if (HK_UNLIKELY(!c || c->comm != comm || c->live_ins || !hk_taken(buf, count, type) ||
			!hk_wild_again(c, source, tag)))
		return NULL;
	return c;
}

static HK_NOINLINE int look_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag,
				  MPI_Comm comm, MPI_Request *request)
{
	struct hk_comm *c = NULL;

	if (hk_any(source, tag)
		    ? hk_receive_loose(buf, count, type, source, tag, comm, NULL, request, &c)
		    : hk_receive(buf, count, type, source, tag, comm, NULL, request))
		return MPI_SUCCESS;
	int rc = hk_real.Irecv(buf, count, type, source, tag, comm, request);

	if (HK_UNLIKELY(c != NULL) && rc == MPI_SUCCESS)
		hk_loose_posted(c, *request);
	return hk_received(buf, count, type, source, tag, comm, rc);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	if (HK_LIKELY(request && only_posted(buf, count, type, source, tag, comm)))
		return hk_real.Irecv(buf, count, type, source, tag, comm, request);
	return look_Irecv(buf, count, type, source, tag, comm, request);
}
ALSO(Irecv);

static HK_NOINLINE int look_Recv(void *buf, int count, MPI_Datatype type, int source, int tag,
				 MPI_Comm comm, MPI_Status *status)
{
	MPI_Request request;
	struct hk_comm *c;
	MPI_Status own;

	if (HK_LIKELY(!hk_any(source, tag))) {
		if (hk_receive(buf, count, type, source, tag, comm, NULL, &request))
			return PMPI_Wait(&request, status);
		return hk_received(buf, count, type, source, tag, comm,
				   hk_real.Recv(buf, count, type, source, tag, comm, status));
	}
	c = only_wild(buf, count, type, source, tag, comm);
	if (HK_UNLIKELY(!c)) {
		if (hk_receive_loose(buf, count, type, source, tag, comm, NULL, &request, &c))
			return PMPI_Wait(&request, status);
		if (!c)
			return hk_real.Recv(buf, count, type, source, tag, comm, status);
	}
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	hk_wild_inside++;
	int rc = hk_real.Recv(buf, count, type, source, tag, comm, status);

	hk_wild_inside--;
	if (rc == MPI_SUCCESS || rc == MPI_ERR_TRUNCATE)
		hk_loose_count(c, status);
	return rc;
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	     MPI_Status *status)
{
	if (HK_LIKELY(only_posted(buf, count, type, source, tag, comm)))
		return hk_real.Recv(buf, count, type, source, tag, comm, status);
	return look_Recv(buf, count, type, source, tag, comm, status);
}
ALSO(Recv);

int MPI_Sendrecv(const void *out, int outs, MPI_Datatype out_type, int dest, int out_tag, void *in,
		 int ins, MPI_Datatype in_type, int source, int in_tag, MPI_Comm comm,
		 MPI_Status *status)
{
	struct hk_comm *c = hk_watched(comm);
	MPI_Request receives;

	/* MPI looks at both halves before it posts either. What it refuses is not half done. */
	if (!c || !hk_sound(out, outs, out_type) ||
	    !hk_names_channel(c, dest == MPI_PROC_NULL ? 0 : dest, out_tag))
		return hk_real.Sendrecv(out, outs, out_type, dest, out_tag, in, ins, in_type,
					source, in_tag, comm, status);
	int rc = MPI_Irecv(in, ins, in_type, source, in_tag, comm, &receives);

	if (rc != MPI_SUCCESS)
		return rc;
	rc = MPI_Send(out, outs, out_type, dest, out_tag, comm);
	if (HK_UNLIKELY(rc != MPI_SUCCESS))
		MPI_Cancel(&receives);
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
	if (!hk_watched(comm) || !hk_sound(buf, count, type))
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * * halo/promote/calls.c: the MPI functions that send and receive. probes.c and persistent.c have
 * the others. Each function also has its PMPI_ name, since Open MPI's Fortran functions call that
 * one.
 *
 * DESIGN NOTES
 *
 * Every send and receive that names a channel is counted, whether it goes by MPI or by a put. A
 * call that Open MPI refuses sends nothing, so it must not count. If Open MPI refuses it because of
 * its arguments (hk_call_valid()), it is not counted. If Open MPI refuses it later, the count is
 * corrected. Most calls are only counted. Those are calls that Open MPI can refuse for no other
 * reason than memory; then their count stays.
 */
#include "halo/promote/calls.h"

#include <limits.h>
#include <stdlib.h>

/* ---- the channel of a call
 * ----------------------------------------------------------------------- */

struct hk_sender *hk_sender_of_call_slow(const void *buf, int count, MPI_Datatype type, int dest,
					 int tag, MPI_Comm comm)
{
	struct hk_comm *c = hk_comm_watched(comm);

	if (!c || !hk_call_names_channel(c, dest, tag) || !hk_call_valid(buf, count, type))
		return NULL;
	struct hk_sender *o = hk_sender_find(c, dest, tag);

	if (!o)
		hk_comm_count_unwatched(c, type->super.size * (size_t)count);
	return o;
}

/* Counts the next message of @o if there is nothing else to do for it. */
static inline bool only_counted(struct hk_sender *o, int count, MPI_Datatype type)
{
	struct hk_send_pair *p = o->pair;

	if (HK_UNLIKELY(o->sent >= o->count_until || p->queued || p->log.sent >= p->log.check_at))
		return false;
	o->sent++;
	hk_send_log_append(&p->log, o->pair_index);
	o->bytes += type->super.size * (size_t)count;
	return true;
}

/* Sends by a put. False: the message is counted, and the caller sends it by MPI. */
static inline bool sent(struct hk_sender *o, const void *buf, int count, MPI_Datatype type,
			enum hk_send_mode how, MPI_Request *request)
{
	return !only_counted(o, count, type) &&
	       hk_sender_send(o, buf, count, type, how, NULL, request);
}

/* A wildcard receive. True: *@request is its request; false: the caller receives by MPI. */
static bool take_any(struct hk_comm *c, void *buf, int count, MPI_Datatype type, int source,
		     int tag, struct hk_persistent *persistent, MPI_Request *request)
{
	MPI_Message message;
	MPI_Status status;
	bool first;
	int there = 0;

	hk_wildcard_end_channels(c, source, tag);
	if (HK_LIKELY(c->live_receivers == 0))
		return false;
	while (!there) {
		struct hk_receiver *n = hk_wildcard_pick(c, source, tag, &first);

		if (n)
			return hk_receiver_receive(n, buf, count, type, persistent, request);
		if (!first)
			return false;
		/* MPI's message is in flight. It is taken and counted in one step, so that the
		 * counts stay exact. */
		hk_real.Improbe(source, tag, c->comm, &there, &message, &status);
	}
	hk_unmatched_count(c, &status);
	MPI_Request own;

	hk_real.Imrecv(buf, count, type, &message, persistent ? &own : request);
	if (persistent)
		hk_pending_wrap(persistent, own);
	return true;
}

struct hk_receiver *hk_receiver_of_call(int source, int tag, MPI_Comm comm)
{
	struct hk_comm *c = hk_comm_watched(comm);

	return c && hk_call_names_rank(c, source, tag) ? hk_receiver_find(c, source, tag) : NULL;
}

int hk_receiver_returned(const void *buf, int count, MPI_Datatype type, int source, int tag,
			 MPI_Comm comm, int rc)
{
	if (HK_LIKELY(rc == MPI_SUCCESS) || rc == MPI_ERR_TRUNCATE ||
	    hk_call_is_wildcard(source, tag))
		return rc;
	struct hk_receiver *n = hk_receiver_of_call(source, tag, comm);

	if (n && hk_call_valid(buf, count, type))
		n->posted--;
	return rc;
}

bool hk_call_receive_wildcard(void *buf, int count, MPI_Datatype type, int source, int tag,
			      MPI_Comm comm, struct hk_persistent *persistent, MPI_Request *request,
			      struct hk_comm **c)
{
	*c = hk_comm_watched(comm);
	if (!*c || !hk_call_names_rank(*c, source, tag) || !hk_call_valid(buf, count, type)) {
		*c = NULL;
		return false;
	}
	hk_wildcard_inside++;
	bool taken = take_any(*c, buf, count, type, source, tag, persistent, request);

	hk_wildcard_inside--;
	return taken;
}

/* ---- sends ----------------------------------------------------------------------------------- */

/* The usual case where nothing can be promoted. The compiler turns the call of MPI's function
 * behind it into a jump. */
static inline bool passes(const void *buf, int count, MPI_Datatype type, int dest, int tag,
			  MPI_Comm comm)
{
	struct hk_sender *o = hk_recent_find(hk_recent_senders, comm, dest, tag);

	return HK_LIKELY(o && hk_call_surely_valid(buf, count, type) &&
			 only_counted(o, count, type));
}

/* @sure: MPI accepts the call if its arguments are valid. (It may refuse a buffered send because it
 * has no memory for the copy.) */
#define BLOCKING(name, how, sure)                                                                  \
	static HK_NOINLINE int look_##name(const void *buf, int count, MPI_Datatype type,          \
					   int dest, int tag, MPI_Comm comm)                       \
	{                                                                                          \
		struct hk_sender *o = hk_sender_of_call(buf, count, type, dest, tag, comm);        \
                                                                                                   \
		if (o && sent(o, buf, count, type, how, NULL))                                     \
			return MPI_SUCCESS;                                                        \
		return hk_sender_returned(o, count, type,                                          \
					  hk_real.name(buf, count, type, dest, tag, comm));        \
	}                                                                                          \
                                                                                                   \
	int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag,           \
		       MPI_Comm comm)                                                              \
	{                                                                                          \
		if (sure && passes(buf, count, type, dest, tag, comm))                             \
			return hk_real.name(buf, count, type, dest, tag, comm);                    \
		return look_##name(buf, count, type, dest, tag, comm);                             \
	}                                                                                          \
	PMPI_ALIAS(name)

#define IMMEDIATE(name, how, sure)                                                                 \
	static HK_NOINLINE int look_##name(const void *buf, int count, MPI_Datatype type,          \
					   int dest, int tag, MPI_Comm comm, MPI_Request *request) \
	{                                                                                          \
		struct hk_sender *o = hk_sender_of_call(buf, count, type, dest, tag, comm);        \
                                                                                                   \
		if (o && sent(o, buf, count, type, how, request))                                  \
			return MPI_SUCCESS;                                                        \
		return hk_sender_returned(                                                         \
			o, count, type, hk_real.name(buf, count, type, dest, tag, comm, request)); \
	}                                                                                          \
                                                                                                   \
	int MPI_##name(const void *buf, int count, MPI_Datatype type, int dest, int tag,           \
		       MPI_Comm comm, MPI_Request *request)                                        \
	{                                                                                          \
		if (sure && request && passes(buf, count, type, dest, tag, comm))                  \
			return hk_real.name(buf, count, type, dest, tag, comm, request);           \
		return look_##name(buf, count, type, dest, tag, comm, request);                    \
	}                                                                                          \
	PMPI_ALIAS(name)

BLOCKING(Send, HK_SEND_STANDARD, true);
BLOCKING(Rsend, HK_SEND_STANDARD, true);
BLOCKING(Ssend, HK_SEND_OTHER, true);
BLOCKING(Bsend, HK_SEND_OTHER, false);
IMMEDIATE(Isend, HK_SEND_STANDARD, true);
IMMEDIATE(Irsend, HK_SEND_STANDARD, true);
IMMEDIATE(Issend, HK_SEND_OTHER, true);
IMMEDIATE(Ibsend, HK_SEND_OTHER, false);

/* ---- receives -------------------------------------------------------------------------------- */

/* Counts a receive if its channel is not promoted, so that there is nothing else to do for it. */
static inline bool only_posted(const void *buf, int count, MPI_Datatype type, int source, int tag,
			       MPI_Comm comm)
{
	struct hk_receiver *n = hk_recent_find(hk_recent_receivers, comm, source, tag);

	if (HK_UNLIKELY(!n || n->state != HK_RECEIVER_PLAIN ||
			!hk_call_surely_valid(buf, count, type)))
		return false;
	n->posted++;
	return true;
}

/* The same for a wildcard receive of a kind that was seen before, if no channel that it may name is
 * promoted. Returns the communicator in which the caller counts the message; NULL: there is more to
 * do. */
static inline struct hk_comm *count_wildcard(const void *buf, int count, MPI_Datatype type,
					     int source, int tag, MPI_Comm comm)
{
	struct hk_comm *c = hk_comm_last;

	if (HK_UNLIKELY(!c || c->comm != comm || c->live_receivers ||
			!hk_call_surely_valid(buf, count, type) ||
			!hk_wildcard_is_repeat(c, source, tag)))
		return NULL;
	return c;
}

static HK_NOINLINE int look_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag,
				  MPI_Comm comm, MPI_Request *request)
{
	struct hk_comm *c = NULL;

	if (hk_call_is_wildcard(source, tag)
		    ? hk_call_receive_wildcard(buf, count, type, source, tag, comm, NULL, request,
					       &c)
		    : hk_call_receive(buf, count, type, source, tag, comm, NULL, request))
		return MPI_SUCCESS;
	int rc = hk_real.Irecv(buf, count, type, source, tag, comm, request);

	if (HK_UNLIKELY(c != NULL) && rc == MPI_SUCCESS)
		hk_unmatched_posted(c, *request);
	return hk_receiver_returned(buf, count, type, source, tag, comm, rc);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	if (HK_LIKELY(request && only_posted(buf, count, type, source, tag, comm)))
		return hk_real.Irecv(buf, count, type, source, tag, comm, request);
	return look_Irecv(buf, count, type, source, tag, comm, request);
}
PMPI_ALIAS(Irecv);

static HK_NOINLINE int look_Recv(void *buf, int count, MPI_Datatype type, int source, int tag,
				 MPI_Comm comm, MPI_Status *status)
{
	MPI_Request request;
	struct hk_comm *c;
	MPI_Status own;

	if (HK_LIKELY(!hk_call_is_wildcard(source, tag))) {
		if (hk_call_receive(buf, count, type, source, tag, comm, NULL, &request))
			return PMPI_Wait(&request, status);
		return hk_receiver_returned(
			buf, count, type, source, tag, comm,
			hk_real.Recv(buf, count, type, source, tag, comm, status));
	}
	c = count_wildcard(buf, count, type, source, tag, comm);
	if (HK_UNLIKELY(!c)) {
		if (hk_call_receive_wildcard(buf, count, type, source, tag, comm, NULL, &request,
					     &c))
			return PMPI_Wait(&request, status);
		if (!c)
			return hk_real.Recv(buf, count, type, source, tag, comm, status);
	}
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	hk_wildcard_inside++;
	int rc = hk_real.Recv(buf, count, type, source, tag, comm, status);

	hk_wildcard_inside--;
	if (rc == MPI_SUCCESS || rc == MPI_ERR_TRUNCATE)
		hk_unmatched_count(c, status);
	return rc;
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	     MPI_Status *status)
{
	if (HK_LIKELY(only_posted(buf, count, type, source, tag, comm)))
		return hk_real.Recv(buf, count, type, source, tag, comm, status);
	return look_Recv(buf, count, type, source, tag, comm, status);
}
PMPI_ALIAS(Recv);

int MPI_Sendrecv(const void *out, int outs, MPI_Datatype out_type, int dest, int out_tag, void *in,
		 int ins, MPI_Datatype in_type, int source, int in_tag, MPI_Comm comm,
		 MPI_Status *status)
{
	struct hk_comm *c = hk_comm_watched(comm);
	MPI_Request receives;

	/* MPI checks both halves before it starts either. So a refused call has no effect. */
	if (!c || !hk_call_valid(out, outs, out_type) ||
	    !hk_call_names_channel(c, dest == MPI_PROC_NULL ? 0 : dest, out_tag))
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
PMPI_ALIAS(Sendrecv);

/* The message is longer than MPI can send as bytes, so @buf is copied with its gaps. */
static int replace_large(void *buf, int count, MPI_Datatype type, int dest, int out_tag, int source,
			 int in_tag, MPI_Comm comm, MPI_Status *status)
{
	ptrdiff_t gap;
	char *copy = malloc((size_t)opal_datatype_span(&type->super, count, &gap));

	if (!copy)
		hk_promote_abort("out of memory");
	ompi_datatype_copy_content_same_ddt(type, count, copy - gap, buf);
	int rc = MPI_Sendrecv(copy - gap, count, type, dest, out_tag, buf, count, type, source,
			      in_tag, comm, status);

	free(copy);
	return rc;
}

int MPI_Sendrecv_replace(void *buf, int count, MPI_Datatype type, int dest, int out_tag, int source,
			 int in_tag, MPI_Comm comm, MPI_Status *status)
{
	if (!hk_comm_watched(comm) || !hk_call_valid(buf, count, type))
		return hk_real.Sendrecv_replace(buf, count, type, dest, out_tag, source, in_tag,
						comm, status);
	if (type->super.size * (size_t)count > INT_MAX)
		return replace_large(buf, count, type, dest, out_tag, source, in_tag, comm, status);
	struct hk_pending *p = hk_pending_new(comm, buf, count, type, dest, out_tag);
	int bytes = (int)p->bytes;

	hk_pending_pack(p);
	char *copy = p->copy;

	p->copy = NULL;
	p->user_request = NULL;
	hk_pending_complete(p);
	int rc = MPI_Sendrecv(copy, bytes, MPI_BYTE, dest, out_tag, buf, count, type, source,
			      in_tag, comm, status);

	free(copy);
	return rc;
}
PMPI_ALIAS(Sendrecv_replace);

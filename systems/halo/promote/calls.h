/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/calls.h: the common parts of calls.c, probes.c, persistent.c and start.c, which
 * replace MPI's functions. They are the two names of a function, the checks of its arguments, and
 * the channel of a call.
 */
#ifndef HK_HALO_CALLS_H
#define HK_HALO_CALLS_H

#include "halo/promote/promote.h"

#include "ompi/mca/pml/pml.h"

#define PMPI_ALIAS(name)                                                                           \
	__typeof__(MPI_##name) PMPI_##name                                                         \
		__attribute__((alias("MPI_" #name), visibility("default")))

/* ---- the channel of a call */

static inline struct hk_comm *hk_comm_watched(MPI_Comm comm)
{
	return HK_LIKELY(hk_promote_watching) && comm && comm != MPI_COMM_NULL ? hk_comm_find(comm)
									       : NULL;
}

/* Is the count valid, and the type committed? */
static inline bool hk_type_usable(int count, MPI_Datatype type)
{
	return count >= 0 && type && type != MPI_DATATYPE_NULL &&
	       (type->super.flags &
		(OPAL_DATATYPE_FLAG_COMMITTED | OPAL_DATATYPE_FLAG_UNAVAILABLE)) ==
		       OPAL_DATATYPE_FLAG_COMMITTED;
}

/* Does MPI accept the buffer? Like MPI, it accepts a null address for a type without bytes or with
 * absolute addresses. */
static inline bool hk_call_valid(const void *buf, int count, MPI_Datatype type)
{
	return hk_type_usable(count, type) &&
	       (buf || count == 0 ||
		(!ompi_datatype_is_predefined(type) &&
		 (type->super.true_lb != 0 || type->super.size == 0)));
}

/* Does MPI certainly accept a message with these arguments on a known channel? Then the caller need
 * not check the result of MPI's function. */
static inline bool hk_call_surely_valid(const void *buf, int count, MPI_Datatype type)
{
	return buf && hk_type_usable(count, type);
}

static inline bool hk_call_names_channel(const struct hk_comm *c, int dest, int tag)
{
	return dest >= 0 && dest < c->size && tag >= 0 && tag <= mca_pml.pml_max_tag;
}

static inline bool hk_call_names_rank(const struct hk_comm *c, int source, int tag)
{
	return (source == MPI_ANY_SOURCE || (source >= 0 && source < c->size)) &&
	       (tag == MPI_ANY_TAG || (tag >= 0 && tag <= mca_pml.pml_max_tag));
}

static inline bool hk_call_is_wildcard(int source, int tag)
{
	return source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG;
}

struct hk_sender *hk_sender_of_call_slow(const void *buf, int count, MPI_Datatype type, int dest,
					 int tag, MPI_Comm comm);

/* The sender that the call names. NULL: not watched, or MPI refuses the call. */
static inline struct hk_sender *hk_sender_of_call(const void *buf, int count, MPI_Datatype type,
						  int dest, int tag, MPI_Comm comm)
{
	struct hk_sender *o = hk_recent_find(hk_recent_senders, comm, dest, tag);

	return HK_LIKELY(o && hk_call_valid(buf, count, type))
		       ? o
		       : hk_sender_of_call_slow(buf, count, type, dest, tag, comm);
}

/* Takes the result of a send by MPI. If MPI has refused it, there was no message. */
static inline int hk_sender_returned(struct hk_sender *o, int count, MPI_Datatype type, int rc)
{
	if (HK_UNLIKELY(rc != MPI_SUCCESS) && o) {
		o->sent--;
		o->pair->log.sent--;
		o->bytes -= type->super.size * (size_t)count;
	}
	return rc;
}

struct hk_receiver *hk_receiver_of_call(int source, int tag, MPI_Comm comm);

/* A receive that names one channel. True: *@request is its request. False: it is counted, and the
 * caller receives by MPI. */
static inline bool hk_call_receive(void *buf, int count, MPI_Datatype type, int source, int tag,
				   MPI_Comm comm, struct hk_persistent *persistent,
				   MPI_Request *request)
{
	struct hk_receiver *n = hk_recent_find(hk_recent_receivers, comm, source, tag);

	if (HK_UNLIKELY(!n) && !(n = hk_receiver_of_call(source, tag, comm)))
		return false;
	if (HK_UNLIKELY(!hk_call_valid(buf, count, type)))
		return false;
	if (HK_LIKELY(n->state == HK_RECEIVER_PLAIN)) {
		n->posted++;
		return false;
	}
	return hk_receiver_receive(n, buf, count, type, persistent, request);
}

/* Takes the result of a receive by MPI. If MPI has refused it, the count of hk_call_receive() is
 * corrected. */
int hk_receiver_returned(const void *buf, int count, MPI_Datatype type, int source, int tag,
			 MPI_Comm comm, int rc);

/* The same for a wildcard receive. *@c becomes the communicator in which the caller has to count
 * the message; NULL: none. */
bool hk_call_receive_wildcard(void *buf, int count, MPI_Datatype type, int source, int tag,
			      MPI_Comm comm, struct hk_persistent *persistent, MPI_Request *request,
			      struct hk_comm **c);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/calls.h: what the files that stand in for MPI's functions share (calls.c, probes.c, persistent.c): how
 * a function gets its two names, and what a call names. Of these files alone.
 */
#ifndef HK_HALO_CALLS_H
#define HK_HALO_CALLS_H

#include "halo/interpose/interpose.h"

#include "ompi/mca/pml/pml.h"

#define ALSO(name)                                                                                 \
	__typeof__(MPI_##name) PMPI_##name                                                         \
		__attribute__((alias("MPI_" #name), visibility("default")))

/* ---- what a call names */

static inline struct hk_comm *hk_watched(MPI_Comm comm)
{
	return HK_LIKELY(hk_watching) && comm && comm != MPI_COMM_NULL ? hk_comm_find(comm) : NULL;
}

/* Is there such a type, here, and is it committed? */
static inline bool hk_usable(int count, MPI_Datatype type)
{
	return count >= 0 && type && type != MPI_DATATYPE_NULL &&
	       (type->super.flags &
		(OPAL_DATATYPE_FLAG_COMMITTED | OPAL_DATATYPE_FLAG_UNAVAILABLE)) ==
		       OPAL_DATATYPE_FLAG_COMMITTED;
}

/* As MPI judges: no address is one where a type without bytes lies, or one of absolute addresses. */
static inline bool hk_sound(const void *buf, int count, MPI_Datatype type)
{
	return hk_usable(count, type) && (buf || count == 0 ||
					  (!ompi_datatype_is_predefined(type) &&
					   (type->super.true_lb != 0 || type->super.size == 0)));
}

/* Will MPI take such a message, of a channel that is known, without looking further? Then calls go on to MPI's function,
 * and do not come back to see what it said. */
static inline bool hk_taken(const void *buf, int count, MPI_Datatype type)
{
	return buf && hk_usable(count, type);
}

static inline bool hk_names_channel(const struct hk_comm *c, int dest, int tag)
{
	return dest >= 0 && dest < c->size && tag >= 0 && tag <= mca_pml.pml_max_tag;
}

static inline bool hk_names_rank(const struct hk_comm *c, int source, int tag)
{
	return (source == MPI_ANY_SOURCE || (source >= 0 && source < c->size)) &&
	       (tag == MPI_ANY_TAG || (tag >= 0 && tag <= mca_pml.pml_max_tag));
}

static inline bool hk_any(int source, int tag)
{
	return source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG;
}

struct hk_sender *hk_out_looked_up(const void *buf, int count, MPI_Datatype type, int dest, int tag,
				   MPI_Comm comm);

/* NULL: not watched, or MPI refuses it. */
static inline struct hk_sender *hk_out_of(const void *buf, int count, MPI_Datatype type, int dest,
					  int tag, MPI_Comm comm)
{
	struct hk_sender *o = hk_lately_find(hk_outs_lately, comm, dest, tag);

	return HK_LIKELY(o && hk_sound(buf, count, type))
		       ? o
		       : hk_out_looked_up(buf, count, type, dest, tag, comm);
}

/* What a send by MPI has returned. One that it has refused was no message. */
static inline int hk_refused(struct hk_sender *o, int count, MPI_Datatype type, int rc)
{
	if (HK_UNLIKELY(rc != MPI_SUCCESS) && o) {
		o->sent--;
		o->pair->log.sent--;
		o->bytes -= type->super.size * (size_t)count;
	}
	return rc;
}

struct hk_receiver *hk_in_looked_up(int source, int tag, MPI_Comm comm);

/* A receive that names its channel. True if it has become @*request; else it is MPI's, and counted. */
static inline bool hk_receive(void *buf, int count, MPI_Datatype type, int source, int tag,
			      MPI_Comm comm, struct hk_persistent *of, MPI_Request *request)
{
	struct hk_receiver *n = hk_lately_find(hk_ins_lately, comm, source, tag);

	if (HK_UNLIKELY(!n) && !(n = hk_in_looked_up(source, tag, comm)))
		return false;
	if (HK_UNLIKELY(!hk_sound(buf, count, type)))
		return false;
	if (HK_LIKELY(n->state == HK_IN_PLAIN)) {
		n->posted++;
		return false;
	}
	return hk_in_receive(n, buf, count, type, of, request);
}

/* What a receive by MPI has returned. If MPI has refused it, hk_receive() has counted one too many. */
int hk_received(const void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
		int rc);

/* One that does not name its channel; as hk_receive(). *@c: the communicator in which it has to be counted by the
 * caller, NULL: none. */
bool hk_receive_loose(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
		      struct hk_persistent *of, MPI_Request *request, struct hk_comm **c);

#endif

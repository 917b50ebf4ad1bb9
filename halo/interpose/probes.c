/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/probes.c: MPI's probes, and the receives of what they have matched, as the library stands in for them.
 */
#include "halo/interpose/calls.h"

static void count_matched(MPI_Comm comm, const MPI_Status *status)
{
	struct hk_comm *c = hk_watched(comm);

	if (c)
		hk_loose_count(c, status);
}

/* What a probe finds of messages that came by puts. NULL: look whether MPI has one; then, if *@first, look here again. */
static struct hk_receiver *found(int source, int tag, MPI_Comm comm, MPI_Status *status,
				 bool *first)
{
	struct hk_comm *c = hk_watched(comm);

	*first = false;
	if (!c || !hk_names_rank(c, source, tag))
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
	if (request && hk_sound(buf, count, type) &&
	    hk_message_give(message, buf, count, type, request))
		return MPI_SUCCESS;
	return hk_real.Imrecv(buf, count, type, message, request);
}
ALSO(Imrecv);

int MPI_Mrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
	MPI_Request request;

	if (hk_sound(buf, count, type) && hk_message_give(message, buf, count, type, &request))
		return PMPI_Wait(&request, status);
	return hk_real.Mrecv(buf, count, type, message, status);
}
ALSO(Mrecv);

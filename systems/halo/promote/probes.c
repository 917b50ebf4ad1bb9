/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/probes.c: the MPI functions that probe, and those that receive probed messages.
 */
#include "halo/promote/calls.h"

static void count_matched(MPI_Comm comm, const MPI_Status *status)
{
	struct hk_comm *c = hk_comm_watched(comm);

	if (c)
		hk_unmatched_count(c, status);
}

/* The channel whose message, which came by a put, a probe finds. NULL: the caller probes by MPI; if
 * MPI finds nothing and *@first is true, it calls this again. */
static struct hk_receiver *found(int source, int tag, MPI_Comm comm, MPI_Status *status,
				 bool *first)
{
	struct hk_comm *c = hk_comm_watched(comm);

	*first = false;
	if (!c || !hk_call_names_rank(c, source, tag))
		return NULL;
	hk_wildcard_end_channels(c, source, tag);
	struct hk_receiver *n = c->live_receivers ? hk_wildcard_pick(c, source, tag, first) : NULL;

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

	if (!hk_promote_watching)
		return hk_real.Probe(source, tag, comm, status);
	hk_wildcard_inside++;
	while (!there && rc == MPI_SUCCESS && !found(source, tag, comm, status, &first)) {
		if (first)
			rc = hk_real.Iprobe(source, tag, comm, &there, status);
		else
			rc = hk_real.Probe(source, tag, comm, status);
		there |= !first;
	}
	hk_wildcard_inside--;
	return rc;
}
PMPI_ALIAS(Probe);

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
	int rc = MPI_SUCCESS;
	bool first;

	if (!hk_promote_watching)
		return hk_real.Iprobe(source, tag, comm, flag, status);
	hk_wildcard_inside++;
	if (found(source, tag, comm, status, &first))
		*flag = 1;
	else
		rc = hk_real.Iprobe(source, tag, comm, flag, status);
	hk_wildcard_inside--;
	return rc;
}
PMPI_ALIAS(Iprobe);

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
	MPI_Status own;
	struct hk_receiver *n;
	int rc = MPI_SUCCESS, there = 0;
	bool first;

	if (!hk_promote_watching)
		return hk_real.Mprobe(source, tag, comm, message, status);
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	hk_wildcard_inside++;
	while (!there && rc == MPI_SUCCESS) {
		if ((n = found(source, tag, comm, status, &first))) {
			*message = hk_probed_take(n);
			hk_wildcard_inside--;
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
	hk_wildcard_inside--;
	return rc;
}
PMPI_ALIAS(Mprobe);

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
		MPI_Status *status)
{
	MPI_Status own;
	bool first;

	if (!hk_promote_watching)
		return hk_real.Improbe(source, tag, comm, flag, message, status);
	if (status == MPI_STATUS_IGNORE)
		status = &own;
	hk_wildcard_inside++;
	struct hk_receiver *n = found(source, tag, comm, status, &first);
	int rc = MPI_SUCCESS;

	if (n) {
		*flag = 1;
		*message = hk_probed_take(n);
	} else {
		rc = hk_real.Improbe(source, tag, comm, flag, message, status);
		if (rc == MPI_SUCCESS && *flag)
			count_matched(comm, status);
	}
	hk_wildcard_inside--;
	return rc;
}
PMPI_ALIAS(Improbe);

int MPI_Imrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
	if (request && hk_call_valid(buf, count, type) &&
	    hk_probed_receive(message, buf, count, type, request))
		return MPI_SUCCESS;
	return hk_real.Imrecv(buf, count, type, message, request);
}
PMPI_ALIAS(Imrecv);

int MPI_Mrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
	MPI_Request request;

	if (hk_call_valid(buf, count, type) &&
	    hk_probed_receive(message, buf, count, type, &request))
		return PMPI_Wait(&request, status);
	return hk_real.Mrecv(buf, count, type, message, status);
}
PMPI_ALIAS(Mrecv);

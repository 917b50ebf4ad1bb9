/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/setup.c: set-up and the end of an exchange, and its errors on all ranks.
 *
 * Set-up is collective and has three steps:
 *
 * 1. Each rank tells every other rank how many halves it has with it, or that its own edges are
 *    wrong.
 * 2. If the edges of all ranks are right, neighbours do the handshake (handshake.c).
 * 3. All ranks learn whether every rank succeeded (hk_halo_agree()). If not, the first rank that
 *    failed sends its error text to all.
 */
#include "halo/api/internal.h"
#include "halo/api/variables.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define WRONG (-1) /* in place of a number of halves: this rank's edges are wrong */
#define TEXT  sizeof(hk_halo_last_error.text)

int hk_halo_agree(MPI_Comm comm, int rc)
{
	struct {
		int rc;
		char text[TEXT];
	} failure = {rc, ""};
	int first, me, rank, size;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	me = rc ? rank : size;
	MPI_Allreduce(&me, &first, 1, MPI_INT, MPI_MIN, comm);
	if (first == size)
		return 0;
	memcpy(failure.text, hk_halo_last_error.text, TEXT);
	MPI_Bcast(&failure, sizeof(failure), MPI_BYTE, first, comm);
	memcpy(hk_halo_last_error.text, failure.text, TEXT);
	return failure.rc;
}

static int connect_all(struct hk_halo *h, int rc, const char *wanted)
{
	int *mine = calloc(2 * (size_t)h->size, sizeof(*mine)),
	    *theirs = mine ? mine + h->size : NULL;
	bool wrong = false;

	if (!mine)
		hk_halo_no_memory(h);
	for (int k = 0; k < h->outs; k++)
		mine[h->out[k].peer]++;
	for (int k = 0; k < h->ins; k++)
		mine[h->in[k].peer]++;
	for (int r = 0; rc && r < h->size; r++)
		mine[r] = WRONG;
	MPI_Alltoall(mine, 1, MPI_INT, theirs, 1, MPI_INT, h->comm);
	for (int r = 0; r < h->size; r++)
		wrong |= theirs[r] == WRONG;
	if (!wrong) {
		rc = hk_halo_edges_group(h, theirs);
		if (rc)
			hk_halo_no_memory(h);
		rc = hk_halo_edges_check_overlap(h);
		/* After an error too, since the neighbours wait for this rank. */
		struct hk_error first = hk_halo_last_error;
		int bad = hk_halo_handshake(h, wanted, theirs);

		if (rc)
			hk_halo_last_error = first;
		rc = rc ? rc : bad;
	}
	free(mine);
	return hk_halo_agree(h->comm, rc);
}

static void release(struct hk_halo *h)
{
	for (int k = 0; k < h->neighbours; k++) {
		struct hk_halo_neighbour *nb = &h->neighbour[k];

		if (nb->transport)
			nb->transport->close(h, nb);
		free(nb->out.blocks.block);
		free(nb->in.blocks.block);
	}
	for (int k = 0; k < h->outs; k++)
		MPI_Type_free(&h->out[k].type);
	for (int k = 0; k < h->ins; k++)
		MPI_Type_free(&h->in[k].type);
	free(h->neighbour);
	free(h->out);
	free(h->in);
	free(h->neighbour_of);
	free(h->reported);
	/* After a failed exchange messages may still be in flight. If MPI gave the context id to
	 * another communicator, that one would receive them. */
	if (!h->under_way)
		hk_halo_comm_leave(h->joined);
	free(h);
}

static const char *transport_wanted(int *rc)
{
	static const char *const known[] = {"auto", "shared", "worker", "libfabric", "mpi"};
	const char *b = getenv("HK_HALO_TRANSPORT");

	if (!b || !*b)
		return "auto";
	for (size_t k = 0; k < HK_ARRAY_LEN(known); k++)
		if (strcmp(b, known[k]) == 0)
			return b;
	*rc = hk_halo_fail(
		-EINVAL,
		"HK_HALO_TRANSPORT is '%s'; fix: set it to auto, shared, worker, libfabric or mpi",
		b);
	return b;
}

static double seconds_of(const char *name, int *rc)
{
	const char *text = getenv(name);
	char *end;

	if (!text || !*text)
		return 0;
	double s = strtod(text, &end);

	if (*end || !(s >= 0))
		*rc = hk_halo_fail(-EINVAL, "%s is '%s'; fix: give a number of seconds", name,
				   text);
	return s;
}

/* @given: the error that a builder has already found, or 0. */
static int setup(MPI_Comm comm, int n, const struct hk_halo_edge *edges, int given, hk_halo *out)
{
	double start = hk_clock_s();
	int rc = hk_halo_comm_check(comm);

	*out = NULL;
	if (rc)
		return rc;
	rc = given;
	struct hk_halo *h = calloc(1, sizeof(*h));

	if (!h || !(h->joined = hk_halo_comm_join(comm, &h->comm, &h->tag))) {
		fprintf(stderr, "hk_halo_setup: out of memory; fix: use more nodes\n");
		MPI_Abort(comm, 1);
		free(h);
		return -ENOMEM;
	}
	MPI_Comm_rank(h->comm, &h->rank);
	MPI_Comm_size(h->comm, &h->size);
	const char *wanted = transport_wanted(&rc), *report = getenv("HK_HALO_REPORT");

	if (rc == 0)
		rc = hk_halo_check_variables(&hk_halo_last_error);
	h->timeout = seconds_of("HK_HALO_TIMEOUT", &rc);
	h->report = report && *report && strcmp(report, "0") != 0;
	if (rc == 0)
		rc = hk_halo_edges_copy(h, n, edges);
	rc = connect_all(h, rc, wanted);
	if (rc) {
		release(h);
		return rc;
	}
	for (int k = 0; k < h->neighbours; k++)
		h->polls_worker |= h->neighbour[k].id == HK_TRANSPORT_WORKER;
	h->setup_time = hk_clock_s() - start;
	*out = h;
	return 0;
}

int hk_halo_setup(MPI_Comm comm, int n, const struct hk_halo_edge *edges, hk_halo *h)
{
	const char *refusal = hk_halo_refusal_take();
	int rank;

	if (!refusal)
		return setup(comm, n, edges, 0, h);
	MPI_Comm_rank(comm, &rank);
	return hk_halo_refuse(comm, h, "rank %d: %s", rank, refusal);
}

int hk_halo_refuse(MPI_Comm comm, hk_halo *h, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(hk_halo_last_error.text, TEXT, fmt, ap);
	va_end(ap);
	return setup(comm, 0, NULL, -EINVAL, h);
}

int hk_halo_free(hk_halo *out)
{
	struct hk_halo *h = *out;
	int rc, finalized;

	if (!h)
		return 0;
	*out = NULL;
	MPI_Finalized(&finalized);
	if (finalized)
		return hk_halo_fail(-EINVAL,
				    "hk_halo_free() after MPI_Finalize(); fix: call it before");
	rc = hk_halo_wait(h);
	if (h->report)
		hk_halo_print(h);
	release(h);
	return rc;
}

const char *hk_halo_transport(hk_halo h, int peer, const char **why)
{
	for (int k = 0; k < h->neighbours; k++) {
		if (h->neighbour[k].rank != peer)
			continue;
		if (why)
			*why = h->neighbour[k].why;
		return h->neighbour[k].transport->name;
	}
	return NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/handshake.c: two neighbours compare the edges between them and choose a transport.
 *
 * All neighbours do so at the same time, in two rounds of messages:
 *
 * 1. The halves of the edges, and the transports that this end offers with their addresses. Each
 *    end compares the halves, chooses the first transport that both offer and opens it.
 * 2. The result, and the data that the other end needs to use the transport. If one end failed,
 *    both take MPI.
 *
 * An error does not end the handshake, since the neighbours wait for this rank's messages. It
 * becomes the return value, which hk_halo_agree() (setup.c) makes the error of all ranks.
 */
#include "halo/api/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WHY       96 /* bytes of a reason */
#define ADDRESSES 3  /* transports that have an address: the first ones in hk_transport_id */

static const struct hk_transport *const transports[HK_TRANSPORTS] = {
	[HK_TRANSPORT_SHARED] = &hk_transport_shared,
	[HK_TRANSPORT_WORKER] = &hk_transport_worker,
	[HK_TRANSPORT_LIBFABRIC] = &hk_transport_libfabric,
	[HK_TRANSPORT_MPI] = &hk_transport_mpi,
	[HK_TRANSPORT_SELF] = &hk_transport_self,
};

/* A half, as the other end receives it. */
struct record {
	int32_t tag, edge, sends;
	uint32_t zero;
	uint64_t bytes;
};

/* The message of the first round; the records follow it. */
struct offer {
	uint32_t transports; /* bit set of hk_transport_id */
	uint32_t zero;
	char why[WHY]; /* why this end does not offer a transport */
	char address[ADDRESSES][HK_HALO_ADDRESS];
};

/* The message of the second round. */
struct answer {
	int32_t rc; /* of hk_transport.open */
	uint32_t zero;
	char why[WHY];
	char address[HK_HALO_ADDRESS];
};

static void record_of(const struct hk_halo_half *half, bool sends, struct record *r)
{
	*r = (struct record){half->tag, half->edge, sends, 0, half->bytes};
}

/* Compares the halves of @m, which this rank sends (@i_send) or receives, with the records of the
 * other end. Both are sorted by tag. */
static int compare(const struct hk_halo *h, const struct hk_halo_neighbour *nb,
		   const struct hk_halo_message *m, bool i_send, const struct record *theirs, int n)
{
	const char *mine_does = i_send ? "sends" : "receives";
	const char *theirs_does = i_send ? "receives" : "sends";
	int k = 0;

	for (int i = 0; i < n; i++) {
		const struct record *r = &theirs[i];

		if ((r->sends != 0) == i_send)
			continue;
		const struct hk_halo_half *half = k < m->halves ? &m->half[k] : NULL;

		if (!half || half->tag > r->tag)
			return hk_halo_fail(-EINVAL,
					    "rank %d, edge %d %s %llu bytes with tag %d %s rank "
					    "%d, which has no such "
					    "edge; fix: give both ranks the edge",
					    nb->rank, r->edge, theirs_does,
					    (unsigned long long)r->bytes, r->tag,
					    i_send ? "from" : "to", h->rank);
		if (half->tag < r->tag)
			break;
		if (half->bytes != r->bytes)
			return hk_halo_fail(-EINVAL,
					    "rank %d, edge %d %s %llu bytes with tag %d, but rank "
					    "%d, edge %d %s %llu; fix: "
					    "give both ends the same size",
					    h->rank, half->edge, mine_does,
					    (unsigned long long)half->bytes, half->tag, nb->rank,
					    r->edge, theirs_does, (unsigned long long)r->bytes);
		k++;
	}
	if (k < m->halves)
		return hk_halo_fail(-EINVAL,
				    "rank %d, edge %d %s %llu bytes with tag %d %s rank %d, which "
				    "has no such edge; "
				    "fix: give both ranks the edge",
				    h->rank, m->half[k].edge, mine_does,
				    (unsigned long long)m->half[k].bytes, m->half[k].tag,
				    i_send ? "to" : "from", nb->rank);
	return 0;
}

static bool is_wanted(const char *wanted, enum hk_transport_id id)
{
	return strcmp(wanted, transports[id]->name) == 0 ||
	       (strcmp(wanted, "auto") == 0 && id != HK_TRANSPORT_LIBFABRIC);
}

/* Fills @o with the transports that this end can use to @nb. */
static void make_offer(struct hk_halo *h, struct hk_halo_neighbour *nb, const char *wanted,
		       struct offer *o)
{
	memset(o, 0, sizeof(*o));
	snprintf(nb->why, sizeof(nb->why), "HK_HALO_TRANSPORT=%s", wanted);
	for (int id = 0; id < ADDRESSES; id++)
		if (is_wanted(wanted, (enum hk_transport_id)id) &&
		    transports[id]->offer(h, nb, o->address[id]))
			o->transports |= 1u << id;
	snprintf(o->why, sizeof(o->why), "%.*s", WHY - 1, nb->why);
}

/* Between two steps a rank cannot just return an error: its neighbours would wait for it. */
void hk_halo_no_memory(const struct hk_halo *h)
{
	fprintf(stderr,
		"hk_halo_setup: rank %d: out of memory while neighbours connect; fix: use fewer "
		"edges or more memory\n",
		h->rank);
	MPI_Abort(h->comm, 1);
}

/* One round of messages with all neighbours except this rank itself. Neighbour k gets @out_len[k]
 * bytes from @out + k * @out_stride, and sends @in_len[k] bytes to @in + k * @in_stride. */
struct round {
	const char *out;
	char *in;
	const int *out_len, *in_len;
	size_t out_stride, in_stride;
};

static void exchange_with_all(const struct hk_halo *h, const struct round *x)
{
	MPI_Request *r = malloc(2 * (size_t)(h->neighbours + 1) * sizeof(*r));
	int n = 0;

	if (!r)
		hk_halo_no_memory(h);
	for (int k = 0; k < h->neighbours; k++)
		if (h->neighbour[k].rank != h->rank)
			MPI_Irecv(x->in + (size_t)k * x->in_stride, x->in_len[k], MPI_BYTE,
				  h->neighbour[k].rank, h->tag, h->comm, &r[n++]);
	for (int k = 0; k < h->neighbours; k++)
		if (h->neighbour[k].rank != h->rank)
			MPI_Isend(x->out + (size_t)k * x->out_stride, x->out_len[k], MPI_BYTE,
				  h->neighbour[k].rank, h->tag, h->comm, &r[n++]);
	MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
	free(r);
}

/* Chooses the first transport that both ends offer. */
static void choose(struct hk_halo *h, struct hk_halo_neighbour *nb, const struct offer *mine,
		   const struct offer *theirs)
{
	uint32_t both = mine->transports & theirs->transports;

	for (unsigned id = 0; id < ADDRESSES; id++)
		if (both & 1u << id && transports[id]->matches &&
		    !transports[id]->matches(mine->address[id], theirs->address[id]))
			both &= ~(1u << id);
	if (nb->rank == h->rank) {
		nb->id = nb->flat == 0 ? HK_TRANSPORT_SELF : HK_TRANSPORT_MPI;
		snprintf(nb->why, sizeof(nb->why), "%s",
			 nb->flat == 0 ? "the rank itself" : "only MPI knows the layout of a type");
	} else if (both) {
		nb->id = (enum hk_transport_id)__builtin_ctz(both);
	} else {
		nb->id = HK_TRANSPORT_MPI;
		if (mine->transports)
			snprintf(nb->why, sizeof(nb->why), "at the other end: %.*s", WHY - 1,
				 theirs->why);
	}
	for (unsigned id = 0; id < ADDRESSES; id++)
		if (id != nb->id && transports[id]->retract)
			transports[id]->retract(nb);
}

static void open_transport(struct hk_halo *h, struct hk_halo_neighbour *nb,
			   const struct offer *theirs, struct answer *a)
{
	memset(a, 0, sizeof(*a));
	nb->transport = transports[nb->id];
	a->rc = nb->transport->open(h, nb, nb->id < ADDRESSES ? theirs->address[nb->id] : NULL,
				    a->address);
	snprintf(a->why, sizeof(a->why), "%.*s", WHY - 1, nb->why);
}

/* Connects the transport if both ends have opened it. Otherwise both take MPI. */
static int connect_transport(struct hk_halo *h, struct hk_halo_neighbour *nb,
			     const struct answer *mine, const struct answer *theirs)
{
	char none[HK_HALO_ADDRESS];

	if (mine->rc == 0 && (nb->id >= ADDRESSES || theirs->rc == 0))
		return nb->transport->connect(h, nb, theirs->address);
	if (mine->rc == 0) {
		nb->transport->close(h, nb);
		snprintf(nb->why, sizeof(nb->why), "at the other end: %.*s", WHY - 1, theirs->why);
	}
	if (nb->id == HK_TRANSPORT_MPI)
		return hk_halo_fail(mine->rc, "rank %d: no memory for requests with rank %d",
				    h->rank, nb->rank);
	nb->id = HK_TRANSPORT_MPI;
	nb->transport = transports[nb->id];
	return nb->transport->open(h, nb, NULL, none)
		       ? hk_halo_fail(-ENOMEM, "rank %d: no memory for requests with rank %d",
				      h->rank, nb->rank)
		       : 0;
}

int hk_halo_handshake(struct hk_halo *h, const char *wanted, const int *theirs)
{
	size_t n = (size_t)h->neighbours, most = 0;
	int rc = 0;

	for (size_t k = 0; k < n; k++) {
		const struct hk_halo_neighbour *nb = &h->neighbour[k];

		most = HK_MAX(most,
			      (size_t)HK_MAX(nb->out.halves + nb->in.halves, theirs[nb->rank]));
	}
	size_t stride = sizeof(struct offer) + most * sizeof(struct record);
	char *out = malloc((n + 1) * stride), *in = malloc((n + 1) * stride);
	struct answer *mine = calloc(2 * (n + 1), sizeof(*mine)),
		      *answers = mine ? mine + n + 1 : NULL;
	int *out_len = malloc(2 * (n + 1) * sizeof(*out_len)),
	    *in_len = out_len ? out_len + n + 1 : NULL;

	if (!out || !in || !mine || !out_len)
		hk_halo_no_memory(h);
	for (size_t k = 0; k < n; k++) {
		struct hk_halo_neighbour *nb = &h->neighbour[k];
		struct offer *o = (struct offer *)(out + k * stride);
		struct record *r = (struct record *)(o + 1);

		make_offer(h, nb, wanted, o);
		for (int i = 0; i < nb->out.halves; i++)
			record_of(&nb->out.half[i], true, r++);
		for (int i = 0; i < nb->in.halves; i++)
			record_of(&nb->in.half[i], false, r++);
		out_len[k] = (int)((char *)r - (char *)o);
		in_len[k] = (int)(sizeof(*o) + (size_t)theirs[nb->rank] * sizeof(*r));
	}
	exchange_with_all(h, &(struct round){out, in, out_len, in_len, stride, stride});
	for (size_t k = 0; k < n; k++) {
		struct hk_halo_neighbour *nb = &h->neighbour[k];
		bool self = nb->rank == h->rank;
		const struct offer *o = (const struct offer *)((self ? out : in) + k * stride);
		const struct record *r = (const struct record *)(o + 1);

		for (int send = 0; rc == 0 && send < 2; send++)
			rc = compare(h, nb, send ? &nb->out : &nb->in, send, r, theirs[nb->rank]);
		choose(h, nb, (const struct offer *)(out + k * stride), o);
		open_transport(h, nb, o, &mine[k]);
		out_len[k] = in_len[k] = sizeof(struct answer);
	}
	exchange_with_all(h, &(struct round){(char *)mine, (char *)answers, out_len, in_len,
					     sizeof(*mine), sizeof(*mine)});
	for (size_t k = 0; k < n; k++) {
		bool self = h->neighbour[k].rank == h->rank;
		int bad = connect_transport(h, &h->neighbour[k], &mine[k],
					    self ? &mine[k] : &answers[k]);

		rc = rc ? rc : bad;
	}
	free(out);
	free(in);
	free(mine);
	free(out_len);
	return rc;
}

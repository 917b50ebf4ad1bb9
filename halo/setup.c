/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/setup.c: the two ends of each neighbour agree on what they exchange, and how.
 *
 * Collective, in four steps: all tell each other how many halves they have with whom (or that their edges are
 * wrong); neighbours exchange their halves and what paths they offer; then what the path that both offer
 * needs; and at last all learn whether all are content. A rank that is not goes on to the last step,
 * where the first of them tells its sentence to all.
 */
#include "halo/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define WRONG     (-1) /* instead of a number of halves: this rank's edges are wrong */
#define TEXT      sizeof(hk_halo_said.text)
#define WHY       96
#define ADDRESSES 2 /* paths with an address come first in hk_path_id */

static const struct hk_path *const paths[HK_PATHS] = {
	[HK_PATH_FABRIC] = &hk_path_fabric,
	[HK_PATH_LIBFABRIC] = &hk_path_libfabric,
	[HK_PATH_MPI] = &hk_path_mpi,
	[HK_PATH_SELF] = &hk_path_self,
};

struct record { /* a half, as it travels */
	int32_t tag, edge, sends;
	uint32_t zero;
	uint64_t bytes;
};

struct offer { /* before the records */
	uint32_t paths, zero;
	char why[WHY]; /* … this end would not take the fabric */
	char address[ADDRESSES][HK_HALO_ADDRESS];
};

struct answer {
	int32_t rc;
	uint32_t zero;
	char why[WHY];
	char address[HK_HALO_ADDRESS];
};

static void record_of(const struct hk_half *half, bool sends, struct record *r)
{
	*r = (struct record){half->tag, half->edge, sends, 0, half->bytes};
}

/* Are the halves that I send those that @theirs receives, or the other way round? */
static int compare(const struct hk_halo *h, const struct hk_neighbour *nb,
		   const struct hk_message *m, bool i_send, const struct record *theirs, int n)
{
	const char *mine_does = i_send ? "sends" : "receives";
	const char *theirs_does = i_send ? "receives" : "sends";
	int k = 0;

	for (int i = 0; i < n; i++) {
		const struct record *r = &theirs[i];

		if ((r->sends != 0) == i_send)
			continue;
		const struct hk_half *half = k < m->halves ? &m->half[k] : NULL;

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

static bool wanted(const char *backend, enum hk_path_id id)
{
	return strcmp(backend, paths[id]->name) == 0 ||
	       (strcmp(backend, "auto") == 0 && id != HK_PATH_LIBFABRIC);
}

/* Fills @o with what paths this end can take to @nb. */
static void make_offer(struct hk_halo *h, struct hk_neighbour *nb, const char *backend,
		       struct offer *o)
{
	memset(o, 0, sizeof(*o));
	snprintf(nb->why, sizeof(nb->why), "HK_HALO_BACKEND=%s", backend);
	for (int id = 0; id < ADDRESSES; id++)
		if (wanted(backend, (enum hk_path_id)id) && paths[id]->offer(h, nb, o->address[id]))
			o->paths |= 1u << id;
	snprintf(o->why, sizeof(o->why), "%.*s", WHY - 1, nb->why);
}

/* Between two steps there is no way back that others would not wait for. */
static void no_memory(const struct hk_halo *h)
{
	fprintf(stderr, "hk_halo_setup: rank %d: no memory for what neighbours tell\n", h->rank);
	MPI_Abort(h->comm, 1);
}

/* One round with all neighbours but oneself: to neighbour k @len bytes from @out + k * @stride, and
 * from it as many, or @in_len[k], to @in + k * @in_stride. */
struct round {
	const char *out;
	char *in;
	const int *out_len, *in_len;
	size_t out_stride, in_stride;
};

static void swap_with_all(const struct hk_halo *h, const struct round *x)
{
	MPI_Request *r = malloc(2 * (size_t)(h->neighbours + 1) * sizeof(*r));
	int n = 0;

	if (!r)
		no_memory(h);
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

/* The first path that both offer. */
static void choose(struct hk_halo *h, struct hk_neighbour *nb, const struct offer *mine,
		   const struct offer *theirs)
{
	uint32_t both = mine->paths & theirs->paths;

	if (nb->rank == h->rank) {
		nb->id = nb->flat == 0 ? HK_PATH_SELF : HK_PATH_MPI;
		snprintf(nb->why, sizeof(nb->why), "%s",
			 nb->flat == 0 ? "the rank itself" : "only MPI knows the layout of a type");
	} else if (both) {
		nb->id = (enum hk_path_id)__builtin_ctz(both);
	} else {
		nb->id = HK_PATH_MPI;
		if (mine->paths)
			snprintf(nb->why, sizeof(nb->why), "at the other end: %.*s", WHY - 1,
				 theirs->why);
	}
}

static void open_path(struct hk_halo *h, struct hk_neighbour *nb, const struct offer *theirs,
		      struct answer *a)
{
	memset(a, 0, sizeof(*a));
	nb->path = paths[nb->id];
	a->rc = nb->path->open(h, nb, nb->id < ADDRESSES ? theirs->address[nb->id] : NULL,
			       a->address);
	snprintf(a->why, sizeof(a->why), "%.*s", WHY - 1, nb->why);
}

/* Both ends have opened the path, or neither takes it. */
static int connect_path(struct hk_halo *h, struct hk_neighbour *nb, const struct answer *mine,
			const struct answer *theirs)
{
	char none[HK_HALO_ADDRESS];

	if (mine->rc == 0 && (nb->id >= ADDRESSES || theirs->rc == 0))
		return nb->path->connect(h, nb, theirs->address);
	if (mine->rc == 0) {
		nb->path->close(h, nb);
		snprintf(nb->why, sizeof(nb->why), "at the other end: %.*s", WHY - 1, theirs->why);
	}
	if (nb->id == HK_PATH_MPI)
		return hk_halo_fail(mine->rc, "rank %d: no memory for requests with rank %d",
				    h->rank, nb->rank);
	nb->id = HK_PATH_MPI;
	nb->path = paths[nb->id];
	return nb->path->open(h, nb, NULL, none)
		       ? hk_halo_fail(-ENOMEM, "rank %d: no memory for requests with rank %d",
				      h->rank, nb->rank)
		       : 0;
}

/* Steps two and three. @halves[k]: how many the other end of neighbour k tells of. */
static int agree(struct hk_halo *h, const char *backend, const int *theirs)
{
	size_t n = (size_t)h->neighbours, most = 0;
	int rc = 0;

	for (size_t k = 0; k < n; k++) {
		const struct hk_neighbour *nb = &h->neighbour[k];

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
		no_memory(h);
	for (size_t k = 0; k < n; k++) {
		struct hk_neighbour *nb = &h->neighbour[k];
		struct offer *o = (struct offer *)(out + k * stride);
		struct record *r = (struct record *)(o + 1);

		make_offer(h, nb, backend, o);
		for (int i = 0; i < nb->out.halves; i++)
			record_of(&nb->out.half[i], true, r++);
		for (int i = 0; i < nb->in.halves; i++)
			record_of(&nb->in.half[i], false, r++);
		out_len[k] = (int)((char *)r - (char *)o);
		in_len[k] = (int)(sizeof(*o) + (size_t)theirs[nb->rank] * sizeof(*r));
	}
	swap_with_all(h, &(struct round){out, in, out_len, in_len, stride, stride});
	for (size_t k = 0; k < n; k++) {
		struct hk_neighbour *nb = &h->neighbour[k];
		bool self = nb->rank == h->rank;
		const struct offer *o = (const struct offer *)((self ? out : in) + k * stride);
		const struct record *r = (const struct record *)(o + 1);

		for (int send = 0; rc == 0 && send < 2; send++)
			rc = compare(h, nb, send ? &nb->out : &nb->in, send, r, theirs[nb->rank]);
		choose(h, nb, (const struct offer *)(out + k * stride), o);
		open_path(h, nb, o, &mine[k]);
		out_len[k] = in_len[k] = sizeof(struct answer);
	}
	swap_with_all(h, &(struct round){(char *)mine, (char *)answers, out_len, in_len,
					 sizeof(*mine), sizeof(*mine)});
	for (size_t k = 0; k < n; k++) {
		bool self = h->neighbour[k].rank == h->rank;
		int bad = connect_path(h, &h->neighbour[k], &mine[k],
				       self ? &mine[k] : &answers[k]);

		rc = rc ? rc : bad;
	}
	free(out);
	free(in);
	free(mine);
	free(out_len);
	return rc;
}

/* ---- all of them --------------------------------------------------------------------------------------- */

/* Collective: the first rank with a @rc tells all; the return is its, or 0. */
int hk_halo_verdict(MPI_Comm comm, int rc)
{
	struct {
		int rc;
		char text[TEXT];
	} said = {rc, ""};
	int first, me, rank, size;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	me = rc ? rank : size;
	MPI_Allreduce(&me, &first, 1, MPI_INT, MPI_MIN, comm);
	if (first == size)
		return 0;
	memcpy(said.text, hk_halo_said.text, TEXT);
	MPI_Bcast(&said, sizeof(said), MPI_BYTE, first, comm);
	memcpy(hk_halo_said.text, said.text, TEXT);
	return said.rc;
}

static int connect_all(struct hk_halo *h, int rc, const char *backend)
{
	int *mine = calloc(2 * (size_t)h->size, sizeof(*mine)),
	    *theirs = mine ? mine + h->size : NULL;
	bool wrong = false;

	if (!mine)
		no_memory(h);
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
		rc = hk_edges_neighbours(h, theirs);
		if (rc)
			no_memory(h);
		rc = hk_edges_overlap(h);
		/* what the neighbours find is of no interest then, but they wait for us */
		struct hk_error first = hk_halo_said;
		int bad = agree(h, backend, theirs);

		if (rc)
			hk_halo_said = first;
		rc = rc ? rc : bad;
	}
	free(mine);
	return hk_halo_verdict(h->comm, rc);
}

static void release(struct hk_halo *h)
{
	for (int k = 0; k < h->neighbours; k++) {
		struct hk_neighbour *nb = &h->neighbour[k];

		if (nb->path)
			nb->path->close(h, nb);
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
	free(h->told);
	/* After a failure messages may be on their way, which another communicator of its number would take for its own. */
	if (!h->under_way)
		hk_halo_comm_leave(h->joined);
	free(h);
}

static const char *backend_wanted(int *rc)
{
	static const char *const known[] = {"auto", "fabric", "libfabric", "mpi"};
	const char *b = getenv("HK_HALO_BACKEND");

	if (!b || !*b)
		return "auto";
	for (size_t k = 0; k < HK_ARRAY_LEN(known); k++)
		if (strcmp(b, known[k]) == 0)
			return b;
	*rc = hk_halo_fail(-EINVAL,
			   "HK_HALO_BACKEND is '%s'; fix: set it to auto, fabric, libfabric or mpi",
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

/* @given: what a builder has to say already. */
static int setup(MPI_Comm comm, int n, const struct hk_halo_edge *edges, int given, hk_halo *out)
{
	double start = hk_halo_now();
	int rc = hk_halo_one_group(comm);

	*out = NULL;
	if (rc)
		return rc;
	rc = given;
	struct hk_halo *h = calloc(1, sizeof(*h));

	if (!h || !(h->joined = hk_halo_comm_join(comm, &h->comm, &h->tag))) {
		fprintf(stderr, "hk_halo_setup: no memory\n");
		MPI_Abort(comm, 1);
		free(h);
		return -ENOMEM;
	}
	MPI_Comm_rank(h->comm, &h->rank);
	MPI_Comm_size(h->comm, &h->size);
	const char *backend = backend_wanted(&rc), *report = getenv("HK_HALO_REPORT");

	h->timeout = seconds_of("HK_HALO_TIMEOUT", &rc);
	h->report = report && *report && strcmp(report, "0") != 0;
	if (rc == 0)
		rc = hk_edges_take(h, n, edges);
	rc = connect_all(h, rc, backend);
	if (rc) {
		release(h);
		return rc;
	}
	for (int k = 0; k < h->neighbours; k++)
		h->polls_fabric |= h->neighbour[k].id == HK_PATH_FABRIC;
	h->setup_time = hk_halo_now() - start;
	*out = h;
	return 0;
}

int hk_halo_setup(MPI_Comm comm, int n, const struct hk_halo_edge *edges, hk_halo *h)
{
	const char *told = hk_halo_wrong_take();
	int rank;

	if (!told)
		return setup(comm, n, edges, 0, h);
	MPI_Comm_rank(comm, &rank);
	return hk_halo_refuse(comm, h, "rank %d: %s", rank, told);
}

/* For a builder whose arguments are wrong on this rank: takes its part in the set-up, which fails on all. */
int hk_halo_refuse(MPI_Comm comm, hk_halo *h, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(hk_halo_said.text, TEXT, fmt, ap);
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

const char *hk_halo_path(hk_halo h, int peer, const char **why)
{
	for (int k = 0; k < h->neighbours; k++) {
		if (h->neighbour[k].rank != peer)
			continue;
		if (why)
			*why = h->neighbour[k].why;
		return h->neighbour[k].path->name;
	}
	return NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/halo_ways.c: see halo_ways.h.
 */
#include "bench/halo_ways.h"

#include "examples/spmv/exchange_mpi.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIVE_UP_AFTER 60.0 /* seconds */
#define CLOCK_ROUNDS  4096 /* polls between two reads of the clock; a power of two */

/* The window of HK_WAY_LOCK: numbers of exchanges, by source, and then two places for the data. */
struct hk_way {
	enum hk_way_kind kind;
	MPI_Comm comm; /* neighbor: the graph's */
	MPI_Win win;
	int size;
	int *to, *to_at, *from, *from_at; /* doubles by rank, or by neighbour of the graph */
	MPI_Aint *target;                 /* by rank: place of this rank's data in its data */
	MPI_Aint *total;                  /* by rank: bytes that it receives */
	const double *out;
	double *in;
	char *window;    /* lock */
	uint64_t number; /* of this exchange, from 1 */
};

static void *need(MPI_Comm comm, size_t bytes)
{
	void *p = calloc(1, bytes + 8);

	if (!p)
		MPI_Abort(comm, 1);
	return p;
}

/* ---- MPI_Neighbor_alltoallv ------------------------------------------------------------------ */

/* Moves the values of the ranks with any to the front. Returns their number. */
static int neighbours_of(int size, int *count, int *at, int *rank)
{
	int n = 0;

	for (int r = 0; r < size; r++) {
		if (!count[r])
			continue;
		rank[n] = r;
		at[n] = at[r];
		count[n++] = count[r];
	}
	return n;
}

static void open_graph(struct hk_way *w, MPI_Comm comm)
{
	int *sources = need(comm, 2 * sizeof(int) * (size_t)w->size), *targets = sources + w->size;
	int in = neighbours_of(w->size, w->from, w->from_at, sources);
	int out = neighbours_of(w->size, w->to, w->to_at, targets);

	/* weighted by what they exchange */
	MPI_Dist_graph_create_adjacent(comm, in, sources, w->from, out, targets, w->to,
				       MPI_INFO_NULL, 0, &w->comm);
	free(sources);
}

/* ---- MPI_Put --------------------------------------------------------------------------------- */

/* Each rank tells its sources where their data goes. */
static void open_window(struct hk_way *w, MPI_Comm comm)
{
	size_t size = (size_t)w->size;
	MPI_Aint *mine = need(comm, 2 * sizeof(*mine) * size);
	MPI_Aint *theirs = need(comm, 2 * sizeof(*theirs) * size);
	MPI_Aint bytes = 0;

	w->comm = comm;
	for (size_t r = 0; r < size; r++)
		bytes += (MPI_Aint)sizeof(double) * w->from[r];
	for (size_t r = 0; r < size; r++) {
		mine[2 * r] = (MPI_Aint)sizeof(double) * w->from_at[r];
		mine[2 * r + 1] = bytes;
	}
	MPI_Alltoall(mine, 2, MPI_AINT, theirs, 2, MPI_AINT, comm);
	w->target = need(comm, sizeof(*w->target) * size);
	w->total = need(comm, sizeof(*w->total) * size);
	for (size_t r = 0; r < size; r++) {
		w->target[r] = theirs[2 * r];
		w->total[r] = theirs[2 * r + 1];
	}
	free(mine);
	free(theirs);
	if (w->kind == HK_WAY_FENCE) {
		MPI_Win_create(w->in, bytes, 1, MPI_INFO_NULL, comm, &w->win);
		return;
	}
	bytes = (MPI_Aint)(sizeof(uint64_t) * size) + 2 * bytes;
	MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, comm, &w->window, &w->win);
	memset(w->window, 0, (size_t)bytes);
	MPI_Win_lock_all(MPI_MODE_NOCHECK, w->win);
	MPI_Win_sync(w->win);
	MPI_Barrier(comm); /* no put arrives before the window is empty */
}

static void put_all(struct hk_way *w, MPI_Aint (*place)(const struct hk_way *w, int rank))
{
	for (int r = 0; r < w->size; r++)
		if (w->to[r])
			MPI_Put(w->out + w->to_at[r], w->to[r], MPI_DOUBLE, r, place(w, r),
				w->to[r], MPI_DOUBLE, w->win);
}

static MPI_Aint its_vector(const struct hk_way *w, int rank)
{
	return w->target[rank];
}

static MPI_Aint its_place(const struct hk_way *w, int rank)
{
	return (MPI_Aint)sizeof(uint64_t) * w->size + (MPI_Aint)(w->number & 1) * w->total[rank] +
	       w->target[rank];
}

static void fences(struct hk_way *w)
{
	MPI_Win_fence(MPI_MODE_NOPRECEDE, w->win);
	put_all(w, its_vector);
	MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
}

/* Waits for the number of this exchange from @source. */
static bool await(struct hk_way *w, int source)
{
	const uint64_t *number = (const uint64_t *)(const void *)w->window + source;
	double since = MPI_Wtime();

	for (unsigned i = 1; __atomic_load_n(number, __ATOMIC_ACQUIRE) < w->number; i++) {
		int flag;

		/* it polls, which MPI_Win_sync() alone does not */
		MPI_Iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
		MPI_Win_sync(w->win);
		if (i % CLOCK_ROUNDS == 0 && MPI_Wtime() - since > GIVE_UP_AFTER)
			return false;
	}
	return true;
}

static bool passive(struct hk_way *w)
{
	int rank;

	MPI_Comm_rank(w->comm, &rank);
	w->number++;
	put_all(w, its_place);
	MPI_Win_flush_all(w->win); /* the data is there before the number is */
	/* to both kinds of neighbours: two places suffice if each waits for the other */
	for (int r = 0; r < w->size; r++)
		if (w->to[r] || w->from[r])
			MPI_Put(&w->number, 1, MPI_UINT64_T, r, (MPI_Aint)sizeof(uint64_t) * rank,
				1, MPI_UINT64_T, w->win);
	MPI_Win_flush_all(w->win);
	const char *place = w->window + its_place(w, rank) - w->target[rank];

	for (int r = 0; r < w->size; r++) {
		if (!w->from[r] && !w->to[r])
			continue;
		if (!await(w, r))
			return false;
		memcpy(w->in + w->from_at[r], place + sizeof(double) * (size_t)w->from_at[r],
		       sizeof(double) * (size_t)w->from[r]);
	}
	return true;
}

/* ---- all ways -------------------------------------------------------------------------------- */

static int *copy_of(MPI_Comm comm, const int *count, int size, int **at)
{
	int *copy = need(comm, sizeof(int) * (size_t)size);

	*at = need(comm, sizeof(int) * (size_t)size);
	for (int r = 0; r < size; r++) {
		copy[r] = count[r];
		(*at)[r] = r ? (*at)[r - 1] + count[r - 1] : 0;
	}
	return copy;
}

struct hk_way *hk_way_open(enum hk_way_kind kind, MPI_Comm comm, const int *to, const int *from,
			   const double *out, double *in)
{
	struct hk_way *w = need(comm, sizeof(*w));

	*w = (struct hk_way){.kind = kind, .win = MPI_WIN_NULL, .out = out, .in = in};
	MPI_Comm_size(comm, &w->size);
	w->to = copy_of(comm, to, w->size, &w->to_at);
	w->from = copy_of(comm, from, w->size, &w->from_at);
	if (kind == HK_WAY_NEIGHBOR)
		open_graph(w, comm);
	else
		open_window(w, comm);
	return w;
}

bool hk_way_exchange(struct hk_way *w)
{
	if (w->kind == HK_WAY_LOCK)
		return passive(w);
	if (w->kind == HK_WAY_FENCE)
		fences(w);
	else
		MPI_Neighbor_alltoallv(w->out, w->to, w->to_at, MPI_DOUBLE, w->in, w->from,
				       w->from_at, MPI_DOUBLE, w->comm);
	return true;
}

void hk_way_close(struct hk_way *w)
{
	if (w->kind == HK_WAY_LOCK)
		MPI_Win_unlock_all(w->win);
	if (w->kind == HK_WAY_NEIGHBOR)
		MPI_Comm_free(&w->comm);
	else
		MPI_Win_free(&w->win);
	free(w->to);
	free(w->to_at);
	free(w->from);
	free(w->from_at);
	free(w->target);
	free(w->total);
	free(w);
}

/* ---- experiments B and C --------------------------------------------------------------------- */

struct packed {
	struct exchange *mpi;
	struct hk_way *way;
};

static void *plan(MPI_Comm comm, int rows, int entries, const long long *column, int *local,
		  int *ghosts)
{
	struct packed *p = need(comm, sizeof(*p));

	p->mpi = exchange_mpi.plan(comm, rows, entries, column, local, ghosts);
	return p;
}

static void connect_way(struct packed *p, enum hk_way_kind kind, double *x)
{
	const struct exchange *e = p->mpi;

	exchange_mpi.connect(p->mpi, x);
	p->way = hk_way_open(kind, e->comm, e->to, e->from, e->packed, x + e->rows);
}

static void connect_neighbor(void *arg, double *x)
{
	connect_way(arg, HK_WAY_NEIGHBOR, x);
}

static void connect_fence(void *arg, double *x)
{
	connect_way(arg, HK_WAY_FENCE, x);
}

static void connect_lock(void *arg, double *x)
{
	connect_way(arg, HK_WAY_LOCK, x);
}

static void start(void *arg)
{
	exchange_mpi_pack(((struct packed *)arg)->mpi);
}

static void finish(void *arg)
{
	if (hk_way_exchange(((struct packed *)arg)->way))
		return;
	fprintf(stderr, "halo_bench: a neighbour has not put for a minute\n");
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void close_way(void *arg)
{
	struct packed *p = arg;

	hk_way_close(p->way);
	exchange_mpi.close(p->mpi);
	free(p);
}

const struct exchange_kind exchange_neighbor = {"neighbor", plan,   connect_neighbor,
						start,      finish, close_way};
const struct exchange_kind exchange_fence = {"fence", plan,   connect_fence,
					     start,   finish, close_way};
const struct exchange_kind exchange_lock = {"lock", plan, connect_lock, start, finish, close_way};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/coll_neighbor.c: neighborhood collectives on Cartesian and distributed graphs.
 *
 * There are two topologies. One is a periodic one- or two-dimensional grid. The other is a directed
 * graph in which rank r sends to r + 1, r + 2 and r + 3 (modulo the size). So small jobs have
 * multiple edges and edges to themselves. The content of a block depends on its source, its
 * destination and its place in the destination's list.
 */
#include "coll.h"
#include "common.h"

#define GAP      0x77
#define MAX_EDGE 8

static MPI_Comm comm;
static int me;
static int n_in, n_out, in_rank[MAX_EDGE], out_rank[MAX_EDGE];
static int twin[MAX_EDGE]; /* which of the sender's edges incoming edge i is */

static int *block(int ints)
{
	int *p = hkt_alloc((size_t)ints * sizeof(int));
	memset(p, GAP, (size_t)ints * sizeof(int));
	return p;
}

/* The block that @src sends over its outgoing edge @edge; allgather sends one block to all (-1). */
static uint64_t key(int src, int edge, int n)
{
	return hkt_key(20, (uint64_t)src, (uint64_t)(edge + 1), (uint64_t)n);
}

static void verify(const int *p, int n, uint64_t k, int i, const char *what)
{
	hkt_verify(p, (size_t)n * sizeof(int), k, in_rank[i], what);
}

/* Edges of different sources or places carry different counts, which both ends can compute. */
static int edge_count(int src, int edge, int n)
{
	return (src + edge) % 5 == 4 ? 0 : n + src + 3 * edge;
}

static void equal_blocks(int n)
{
	int *out = block(n * n_out), *in = block(n * n_in), *one = block(n);

	hkt_fill(one, (size_t)n * sizeof(int), key(me, -1, n));
	COLL(MPI_Neighbor_allgather, MPI_Ineighbor_allgather, one, n, MPI_INT, in, n, MPI_INT,
	     comm);
	for (int i = 0; i < n_in; i++)
		verify(in + i * n, n, key(in_rank[i], -1, n), i, "neighbor_allgather");
	for (int e = 0; e < n_out; e++)
		hkt_fill(out + e * n, (size_t)n * sizeof(int), key(me, e, n));
	memset(in, GAP, (size_t)(n * n_in) * sizeof(int));
	COLL(MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall, out, n, MPI_INT, in, n, MPI_INT, comm);
	for (int i = 0; i < n_in; i++)
		verify(in + i * n, n, key(in_rank[i], twin[i], n), i, "neighbor_alltoall");
	free(one);
	free(out);
	free(in);
}

static void different_blocks(int n)
{
	int sc[MAX_EDGE], sp[MAX_EDGE], rc[MAX_EDGE], rp[MAX_EDGE], s_room = 1, r_room = 1;
	MPI_Aint sb[MAX_EDGE], rb[MAX_EDGE];
	MPI_Datatype types[MAX_EDGE];

	for (int e = 0; e < MAX_EDGE; e++)
		types[e] = MPI_INT;
	for (int e = 0; e < n_out; e++) {
		sc[e] = edge_count(me, e, n);
		sp[e] = s_room;
		sb[e] = (MPI_Aint)s_room * (MPI_Aint)sizeof(int);
		s_room += sc[e] + 1;
	}
	for (int i = 0; i < n_in; i++) {
		rc[i] = edge_count(in_rank[i], twin[i], n);
		rp[i] = r_room;
		rb[i] = (MPI_Aint)r_room * (MPI_Aint)sizeof(int);
		r_room += rc[i] + 1;
	}
	int *out = block(s_room), *in = block(r_room);
	for (int e = 0; e < n_out; e++)
		hkt_fill(out + sp[e], (size_t)sc[e] * sizeof(int), key(me, e, n));
	for (int w = 0; w < 2; w++) {
		const char *what = w ? "neighbor_alltoallw" : "neighbor_alltoallv";
		memset(in, GAP, (size_t)r_room * sizeof(int));
		if (w)
			COLL(MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw, out, sc, sb, types,
			     in, rc, rb, types, comm);
		else
			COLL(MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv, out, sc, sp, MPI_INT,
			     in, rc, rp, MPI_INT, comm);
		for (int i = 0; i < n_in; i++) {
			verify(in + rp[i], rc[i], key(in_rank[i], twin[i], n), i, what);
			hkt_verify_value(in + rp[i] - 1, sizeof(int), GAP, in_rank[i], what);
		}
		hkt_verify_value(in + r_room - 1, sizeof(int), GAP, me, what);
	}
	free(out);
	free(in);

	/* allgatherv: a rank sends the same count on all its edges */
	r_room = 1;
	for (int i = 0; i < n_in; i++) {
		rc[i] = edge_count(in_rank[i], 0, n);
		rp[i] = r_room;
		r_room += rc[i] + 1;
	}
	int mine = edge_count(me, 0, n);
	out = block(mine);
	in = block(r_room);
	hkt_fill(out, (size_t)mine * sizeof(int), key(me, -1, n));
	COLL(MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv, out, mine, MPI_INT, in, rc, rp,
	     MPI_INT, comm);
	for (int i = 0; i < n_in; i++) {
		verify(in + rp[i], rc[i], key(in_rank[i], -1, n), i, "neighbor_allgatherv");
		hkt_verify_value(in + rp[i] - 1, sizeof(int), GAP, in_rank[i],
				 "neighbor_allgatherv gap");
	}
	free(out);
	free(in);
}

static void all_counts(void)
{
	static const int counts[] = {0, 1, 2, 3, 17, 257, 365, 1023, 2049, 16385, 65539};

	MPI_Comm_rank(comm, &me);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		for (int nb = 0; nb < 2; nb++) {
			nonblocking = nb;
			equal_blocks(counts[i]);
			different_blocks(counts[i]);
		}
	}
}

/* The graph r -> r + 1, r + 2, r + 3; edges from equal sources arrive in the order of the list. */
static void graph(void)
{
	int weights[MAX_EDGE];

	hkt_at("Dist_graph_create_adjacent");
	n_in = n_out = 3;
	for (int e = 0; e < 3; e++) {
		out_rank[e] = (hkt_rank + e + 1) % hkt_size;
		in_rank[e] = (hkt_rank - (e + 1) % hkt_size + hkt_size) % hkt_size;
		twin[e] = e;
		weights[e] = 1;
	}
	MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, n_in, in_rank, weights, n_out, out_rank,
				       weights, MPI_INFO_NULL, 0, &comm);
	int in_degree, out_degree, weighted;
	MPI_Dist_graph_neighbors_count(comm, &in_degree, &out_degree, &weighted);
	HKT_CHECK(in_degree == n_in && out_degree == n_out,
		  "dist graph: expected 3 in, 3 out, found %d, %d", in_degree, out_degree);
	all_counts();
	MPI_Comm_free(&comm);
}

/* A periodic grid: along each dimension, first the neighbour below, then the one above. A block
 * from below was sent upwards, so it is the sender's next edge. Along a dimension of one or two
 * ranks, both neighbours are the same rank. MPI does not define clearly which block is which then,
 * so each dimension has three ranks or more. */
static void grid(void)
{
	int dims[2] = {hkt_size, 1}, periods[2] = {1, 1}, nd = 1;

	if (hkt_size < 3)
		return;
	for (int d = 3; d * d <= hkt_size; d++) {
		if (hkt_size % d == 0) {
			dims[0] = d;
			dims[1] = hkt_size / d;
			nd = 2;
		}
	}
	hkt_at("Cart_create");
	MPI_Cart_create(MPI_COMM_WORLD, nd, dims, periods, 1, &comm);
	n_in = n_out = 2 * nd;
	for (int d = 0; d < nd; d++) {
		MPI_Cart_shift(comm, d, 1, &in_rank[2 * d], &in_rank[2 * d + 1]);
		twin[2 * d] = 2 * d + 1;
		twin[2 * d + 1] = 2 * d;
	}
	memcpy(out_rank, in_rank, sizeof(out_rank));
	all_counts();
	MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "coll_neighbor", MPI_THREAD_SINGLE);
	grid();
	graph();
	return hkt_finish();
}

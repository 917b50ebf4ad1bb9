/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/coll_move.c: collectives that move data, blocking and nonblocking.
 *
 * Broadcast, gather, scatter, all-gather, all-to-all with their v and w variants and in place,
 * every rank as root, at odd counts. Elements are ints. The v variants use a different count for
 * each rank (some zero) and leave a gap of one element between blocks, which must stay unchanged.
 * The content of a block depends on its collective, source and destination, so it says where it
 * belongs.
 */
#include "coll.h"
#include "common.h"

#define GAP 0x77

static MPI_Comm comm;
static int me, np;

static uint64_t key(int what, int src, int dst, int count)
{
	return hkt_key((uint64_t)what, (uint64_t)src, (uint64_t)(dst + 1), (uint64_t)count);
}

static int *block(size_t ints)
{
	int *p = hkt_alloc(ints * sizeof(int));
	memset(p, GAP, ints * sizeof(int));
	return p;
}

static void fill(int *p, int ints, uint64_t k)
{
	hkt_fill(p, (size_t)ints * sizeof(int), k);
}

static void verify(const int *p, int ints, uint64_t k, int peer, const char *what)
{
	hkt_verify(p, (size_t)ints * sizeof(int), k, peer, what);
}

/* Count and place of rank @r's block in a v variant with basic count @n. */
static int vcount(int r, int n)
{
	return r % 3 == 2 ? 0 : n + r * 3;
}

static int vplace(int r, int n)
{
	int at = 1;
	for (int i = 0; i < r; i++)
		at += vcount(i, n) + 1;
	return at;
}

static void vtables(int n, int *counts, int *places)
{
	for (int r = 0; r < np; r++) {
		counts[r] = vcount(r, n);
		places[r] = vplace(r, n);
	}
}

static void verify_gaps(const int *p, int n, const char *what)
{
	for (int r = 0; r <= np; r++)
		hkt_verify_value(p + vplace(r, n) - 1, sizeof(int), GAP, r, what);
}

/* ---- one root -------------------------------------------------------------------------------- */

static void bcast(int n, int root)
{
	int *p = block((size_t)n);
	if (me == root)
		fill(p, n, key(1, root, -1, n));
	COLL(MPI_Bcast, MPI_Ibcast, p, n, MPI_INT, root, comm);
	verify(p, n, key(1, root, -1, n), root, "bcast");
	free(p);
}

static void gather(int n, int root, bool in_place)
{
	int *out = block((size_t)n), *in = me == root ? block((size_t)(n * np)) : NULL;
	const void *from = out;

	fill(out, n, key(2, me, root, n));
	if (in_place && me == root) {
		fill(in + me * n, n, key(2, me, root, n));
		from = MPI_IN_PLACE;
	}
	COLL(MPI_Gather, MPI_Igather, from, n, MPI_INT, in, n, MPI_INT, root, comm);
	for (int r = 0; me == root && r < np; r++)
		verify(in + r * n, n, key(2, r, root, n), r,
		       in_place ? "gather in place" : "gather");
	free(in);
	free(out);
}

static void gatherv(int n, int root)
{
	int *counts = block((size_t)np), *places = block((size_t)np);
	int *out = block((size_t)vcount(me, n)), *in = block((size_t)vplace(np, n));

	vtables(n, counts, places);
	fill(out, vcount(me, n), key(3, me, root, n));
	COLL(MPI_Gatherv, MPI_Igatherv, out, vcount(me, n), MPI_INT, in, counts, places, MPI_INT,
	     root, comm);
	for (int r = 0; me == root && r < np; r++)
		verify(in + places[r], counts[r], key(3, r, root, n), r, "gatherv");
	verify_gaps(in, n, "gatherv gap");
	free(counts);
	free(places);
	free(out);
	free(in);
}

static void scatter(int n, int root, bool in_place)
{
	int *out = me == root ? block((size_t)(n * np)) : NULL, *in = block((size_t)n);
	bool mine_stays = in_place && me == root;

	for (int r = 0; me == root && r < np; r++)
		fill(out + r * n, n, key(4, root, r, n));
	COLL(MPI_Scatter, MPI_Iscatter, out, n, MPI_INT, mine_stays ? MPI_IN_PLACE : (void *)in, n,
	     MPI_INT, root, comm);
	verify(mine_stays ? out + me * n : in, n, key(4, root, me, n), root,
	       in_place ? "scatter in place" : "scatter");
	free(out);
	free(in);
}

static void scatterv(int n, int root)
{
	int *counts = block((size_t)np), *places = block((size_t)np);
	int *out = block((size_t)vplace(np, n)), *in = block((size_t)vcount(me, n) + 1);

	vtables(n, counts, places);
	for (int r = 0; r < np; r++)
		fill(out + places[r], counts[r], key(5, root, r, n));
	COLL(MPI_Scatterv, MPI_Iscatterv, out, counts, places, MPI_INT, in, vcount(me, n), MPI_INT,
	     root, comm);
	verify(in, vcount(me, n), key(5, root, me, n), root, "scatterv");
	hkt_verify_value(in + vcount(me, n), sizeof(int), GAP, root, "behind scatterv");
	free(counts);
	free(places);
	free(out);
	free(in);
}

/* ---- all to all ------------------------------------------------------------------------------ */

static void allgather(int n, bool in_place)
{
	int *out = block((size_t)n), *in = block((size_t)(n * np));
	const void *from = out;

	fill(out, n, key(6, me, -1, n));
	if (in_place) {
		fill(in + me * n, n, key(6, me, -1, n));
		from = MPI_IN_PLACE;
	}
	COLL(MPI_Allgather, MPI_Iallgather, from, n, MPI_INT, in, n, MPI_INT, comm);
	for (int r = 0; r < np; r++)
		verify(in + r * n, n, key(6, r, -1, n), r,
		       in_place ? "allgather in place" : "allgather");
	free(out);
	free(in);
}

static void allgatherv(int n)
{
	int *counts = block((size_t)np), *places = block((size_t)np);
	int *out = block((size_t)vcount(me, n)), *in = block((size_t)vplace(np, n));

	vtables(n, counts, places);
	fill(out, vcount(me, n), key(7, me, -1, n));
	COLL(MPI_Allgatherv, MPI_Iallgatherv, out, vcount(me, n), MPI_INT, in, counts, places,
	     MPI_INT, comm);
	for (int r = 0; r < np; r++)
		verify(in + places[r], counts[r], key(7, r, -1, n), r, "allgatherv");
	verify_gaps(in, n, "allgatherv gap");
	free(counts);
	free(places);
	free(out);
	free(in);
}

static void alltoall(int n, bool in_place)
{
	int *out = block((size_t)(n * np)), *in = block((size_t)(n * np));
	int *fill_here = in_place ? in : out;

	for (int r = 0; r < np; r++)
		fill(fill_here + r * n, n, key(8, me, r, n));
	COLL(MPI_Alltoall, MPI_Ialltoall, in_place ? MPI_IN_PLACE : (void *)out, n, MPI_INT, in, n,
	     MPI_INT, comm);
	for (int r = 0; r < np; r++)
		verify(in + r * n, n, key(8, r, me, n), r,
		       in_place ? "alltoall in place" : "alltoall");
	free(out);
	free(in);
}

/* The number of elements from @src to @dst. */
static int pair_count(int src, int dst, int n)
{
	return (src + 2 * dst) % 4 == 3 ? 0 : n + src + 5 * dst;
}

static void alltoallv(int n, bool w)
{
	int *tables = block((size_t)np * 4);
	int *sc = tables, *sp = tables + np, *rc = tables + 2 * np, *rp = tables + 3 * np;
	MPI_Datatype *types = hkt_alloc((size_t)np * sizeof(*types));
	int s_room = 1, r_room = 1, unit = w ? (int)sizeof(int) : 1; /* w counts in bytes */

	for (int r = 0; r < np; r++) {
		sc[r] = pair_count(me, r, n);
		rc[r] = pair_count(r, me, n);
		sp[r] = s_room * unit;
		rp[r] = r_room * unit;
		s_room += sc[r] + 1;
		r_room += rc[r] + 1;
		types[r] = MPI_INT;
	}
	int *out = block((size_t)s_room), *in = block((size_t)r_room);
	for (int r = 0; r < np; r++)
		fill(out + sp[r] / unit, sc[r], key(9 + w, me, r, n));
	if (w)
		COLL(MPI_Alltoallw, MPI_Ialltoallw, out, sc, sp, types, in, rc, rp, types, comm);
	else
		COLL(MPI_Alltoallv, MPI_Ialltoallv, out, sc, sp, MPI_INT, in, rc, rp, MPI_INT,
		     comm);
	for (int r = 0; r < np; r++) {
		const int *p = in + rp[r] / unit;
		verify(p, rc[r], key(9 + w, r, me, n), r, w ? "alltoallw" : "alltoallv");
		hkt_verify_value(p - 1, sizeof(int), GAP, r, "alltoallv gap before");
		hkt_verify_value(p + rc[r], sizeof(int), GAP, r, "alltoallv gap behind");
	}
	free(types);
	free(tables);
	free(out);
	free(in);
}

/* ---- many nonblocking ones in flight --------------------------------------------------------- */

static void overlapped(int n)
{
	enum { KINDS = 4 };
	MPI_Request r[KINDS];
	int *b = block((size_t)n), *out = block((size_t)(n * np)), *in = block((size_t)(n * np));
	int *gathered = block((size_t)(n * np)), root = np - 1;

	hkt_at("four collectives in flight, count %d", n);
	if (me == root)
		fill(b, n, key(11, root, -1, n));
	for (int i = 0; i < np; i++)
		fill(out + i * n, n, key(12, me, i, n));
	MPI_Ibcast(b, n, MPI_INT, root, comm, &r[0]);
	MPI_Ialltoall(out, n, MPI_INT, in, n, MPI_INT, comm, &r[1]);
	MPI_Ibarrier(comm, &r[2]);
	MPI_Iallgather(out, n, MPI_INT, gathered, n, MPI_INT, comm, &r[3]);
	for (int left = KINDS; left > 0; left--) {
		int i;
		MPI_Waitany(KINDS, r, &i, MPI_STATUS_IGNORE);
	}
	verify(b, n, key(11, root, -1, n), root, "overlapped bcast");
	for (int i = 0; i < np; i++) {
		verify(in + i * n, n, key(12, i, me, n), i, "overlapped alltoall");
		verify(gathered + i * n, n, key(12, i, 0, n), i, "overlapped allgather");
	}
	free(b);
	free(out);
	free(in);
	free(gathered);
}

static void all_with_count(int n)
{
	for (int root = 0; root < np; root++) {
		bcast(n, root);
		gather(n, root, false);
		gather(n, root, true);
		gatherv(n, root);
		scatter(n, root, false);
		scatter(n, root, true);
		scatterv(n, root);
	}
	allgather(n, false);
	allgather(n, true);
	allgatherv(n);
	alltoall(n, false);
	alltoall(n, true);
	alltoallv(n, false);
	if (np >
	    1) /* Open MPI 4.1 takes w's byte displacements for elements when one rank is alone */
		alltoallv(n, true);
	overlapped(n);
}

int main(int argc, char **argv)
{
	static const int counts[] = {0,   1,   2,    3,    7,    16,   63,   65,    257,
				     365, 371, 1023, 1025, 2047, 4099, 8191, 16385, 65537};

	hkt_init(&argc, &argv, "coll_move", MPI_THREAD_SINGLE);
	/* the second communicator has the ranks in reverse order */
	for (int reverse = 0; reverse < 2; reverse++) {
		MPI_Comm_split(MPI_COMM_WORLD, 0, reverse ? -hkt_rank : hkt_rank, &comm);
		MPI_Comm_rank(comm, &me);
		MPI_Comm_size(comm, &np);
		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
			nonblocking = false;
			all_with_count(counts[i]);
			nonblocking = true;
			all_with_count(counts[i]);
		}
		for (int i = 0; i < 100; i++)
			MPI_Barrier(comm);
		MPI_Comm_free(&comm);
	}
	return hkt_finish();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/coll_inter.c: inter-communicators: point to point, collectives, merge.
 *
 * The world is cut into two groups of unequal size (a third of the ranks, and the rest). In a
 * collective on an inter-communicator each group gets what the other one gives.
 */
#include "common.h"

static MPI_Comm inter;
static int group, me, mine, theirs; /* my group (0 or 1), my rank in it, sizes */

static uint64_t key(int what, int from_group, int src, int dst, int n)
{
	return hkt_key((uint64_t)(what * 2 + from_group), (uint64_t)src, (uint64_t)(dst + 1),
		       (uint64_t)n);
}

static void point_to_point(int n)
{
	uint8_t *out = hkt_alloc((size_t)n), *in = hkt_alloc((size_t)n);
	int lower = mine < theirs ? mine : theirs;

	hkt_at("inter point to point, %d bytes", n);
	if (me < lower) {
		hkt_fill(out, (size_t)n, key(1, group, me, me, n));
		MPI_Sendrecv(out, n, MPI_BYTE, me, 5, in, n, MPI_BYTE, me, 5, inter,
			     MPI_STATUS_IGNORE);
		hkt_verify(in, (size_t)n, key(1, !group, me, me, n), me, "inter sendrecv");
	}
	free(out);
	free(in);
}

/* Rank @root of group @g sends to all ranks of the other group. */
static void bcast(int n, int g, int root)
{
	uint8_t *p = hkt_alloc((size_t)n);
	int who = group != g ? root : me == root ? MPI_ROOT : MPI_PROC_NULL;

	hkt_at("inter bcast of %d bytes from group %d rank %d", n, g, root);
	if (who == MPI_ROOT)
		hkt_fill(p, (size_t)n, key(2, g, root, -1, n));
	MPI_Bcast(p, n, MPI_BYTE, who, inter);
	if (group != g)
		hkt_verify(p, (size_t)n, key(2, g, root, -1, n), root, "inter bcast");
	free(p);
}

static void allgather_alltoall(int n)
{
	size_t b = (size_t)n;
	uint8_t *out = hkt_alloc(b * (size_t)theirs), *in = hkt_alloc(b * (size_t)theirs);

	hkt_at("inter allgather, %d bytes", n);
	hkt_fill(out, b, key(3, group, me, -1, n));
	MPI_Allgather(out, n, MPI_BYTE, in, n, MPI_BYTE, inter);
	for (int r = 0; r < theirs; r++)
		hkt_verify(in + b * (size_t)r, b, key(3, !group, r, -1, n), r, "inter allgather");
	hkt_at("inter alltoall, %d bytes", n);
	for (int r = 0; r < theirs; r++)
		hkt_fill(out + b * (size_t)r, b, key(4, group, me, r, n));
	MPI_Alltoall(out, n, MPI_BYTE, in, n, MPI_BYTE, inter);
	for (int r = 0; r < theirs; r++)
		hkt_verify(in + b * (size_t)r, b, key(4, !group, r, me, n), r, "inter alltoall");
	free(out);
	free(in);
}

static void allreduce(int n)
{
	long long *in = hkt_alloc((size_t)n * sizeof(*in)),
		  *out = hkt_alloc((size_t)n * sizeof(*out));

	hkt_at("inter allreduce, count %d", n);
	for (int i = 0; i < n; i++)
		in[i] = (long long)(me + 1) * (i + 1) + group * 1000003;
	MPI_Allreduce(in, out, n, MPI_LONG_LONG, MPI_SUM, inter);
	for (int i = 0; i < n; i++) {
		long long want = (long long)theirs * (theirs + 1) / 2 * (i + 1) +
				 (long long)theirs * !group * 1000003;
		HKT_CHECK(out[i] == want,
			  "inter allreduce: count %d, index %d: expected %lld, found %lld", n, i,
			  want, out[i]);
	}
	free(in);
	free(out);
}

static void merge(void)
{
	MPI_Comm all;
	int rank, size, sum = 0;

	hkt_at("Intercomm_merge");
	MPI_Intercomm_merge(inter, group == 0, &all); /* group 1 comes first */
	MPI_Comm_rank(all, &rank);
	MPI_Comm_size(all, &size);
	int want = group == 1 ? me : theirs + me;
	HKT_CHECK(rank == want && size == mine + theirs, "merge: expected rank %d, found %d of %d",
		  want, rank, size);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
	HKT_CHECK(sum == size * (size - 1) / 2, "merged allreduce: found %d", sum);
	MPI_Comm_free(&all);
}

int main(int argc, char **argv)
{
	static const int sizes[] = {0, 1, 7, 257, 1453, 4097, 8193, 65537, 262147};
	MPI_Comm local;

	hkt_init(&argc, &argv, "coll_inter", MPI_THREAD_SINGLE);
	if (hkt_size < 2)
		return hkt_skip("inter-communicators need at least 2 ranks");
	int first = hkt_size / 3 > 0 ? hkt_size / 3 : 1;
	group = hkt_rank >= first;
	MPI_Comm_split(MPI_COMM_WORLD, group, hkt_rank, &local);
	hkt_at("Intercomm_create");
	MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, group ? 0 : first, 77, &inter);
	MPI_Comm_rank(inter, &me);
	MPI_Comm_size(inter, &mine);
	MPI_Comm_remote_size(inter, &theirs);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		point_to_point(sizes[i]);
		for (int g = 0; g < 2; g++) {
			for (int root = 0; root < (g == group ? mine : theirs); root++)
				bcast(sizes[i], g, root);
		}
		allgather_alltoall(sizes[i]);
		allreduce(sizes[i] / 8);
	}
	merge();
	MPI_Comm_free(&inter);
	MPI_Comm_free(&local);
	return hkt_finish();
}

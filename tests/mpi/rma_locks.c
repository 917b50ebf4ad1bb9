/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/rma_locks.c: an exclusive lock that others take again and again. A rank that waits for
 * it must get it too.
 *
 * One rank writes a value under the lock. All others read it in a loop, under the lock, until they
 * see it. The owner of the window reads, writes, or waits in MPI_Barrier. An owner that reads makes
 * progress only while it has the lock. Two peers of an owner that waits may run in step.
 *
 *     --mode fair   all ranks take one lock in a loop: each gets at least half of its share, also
 *                   if they have to wait for a core
 */
#include "common.h"

static int64_t *mem;
static MPI_Win win;

/* Reads the value of rank @target under the lock. */
static int64_t look(int target)
{
	int64_t seen;

	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
	MPI_Get(&seen, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, win);
	MPI_Win_unlock(target, win);
	return seen;
}

static void relay(int round)
{
	int target = round % hkt_size, writer = (target + round / hkt_size) % hkt_size;
	bool owner_waits = round % 2 && target != writer;
	int64_t value = round + 1, last = 0, seen;

	hkt_at("round %d: rank %d writes to rank %d", round, writer, target);
	MPI_Barrier(MPI_COMM_WORLD);
	if (hkt_rank == writer) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
		MPI_Put(&value, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, win);
		MPI_Win_unlock(target, win);
	} else if (hkt_rank != target || !owner_waits) {
		for (; last != value; last = seen) {
			seen = look(target);
			HKT_CHECK(seen >= last && seen <= value, "%lld after %lld in round %d",
				  (long long)seen, (long long)last, round);
		}
	}
}

/* All ranks count together under one lock, up to @each for each rank. */
static void fair(int each)
{
	int64_t total = 0, mine = 0, most = (int64_t)each * hkt_size, *all;

	hkt_at("%d locks of rank 0", each);
	MPI_Barrier(MPI_COMM_WORLD);
	while (total < most) {
		int64_t next;

		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
		MPI_Get(&total, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
		MPI_Win_flush(0, win);
		next = total + 1;
		if (total < most) {
			MPI_Put(&next, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
			mine++;
		}
		MPI_Win_unlock(0, win);
	}
	all = hkt_alloc(sizeof(*all) * (size_t)hkt_size);
	MPI_Allgather(&mine, 1, MPI_INT64_T, all, 1, MPI_INT64_T, MPI_COMM_WORLD);
	for (int i = 0; i < hkt_size; i++)
		HKT_CHECK(2 * all[i] >= each, "rank %d got it %lld times, and the mean is %d", i,
			  (long long)all[i], each);
	if (hkt_rank == 0) {
		printf("SHARES");
		for (int i = 0; i < hkt_size; i++)
			printf(" %lld", (long long)all[i]);
		printf("\n");
	}
	free(all);
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "rma_locks", MPI_THREAD_SINGLE);
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 100;

	MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &mem, &win);
	*mem = 0;
	if (hkt_opt.mode && strcmp(hkt_opt.mode, "fair") == 0)
		fair(rounds);
	else
		for (int round = 0; round < rounds; round++)
			relay(round);
	MPI_Win_free(&win);
	return hkt_finish();
}

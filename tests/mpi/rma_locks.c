/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/rma_locks.c: an exclusive lock that others take again and again. A rank that waits for
 * it must get it too.
 *
 * One rank writes a value under the lock. All others read it in a loop, under the lock, until they
 * see it. The owner of the window reads, writes, or waits in MPI_Barrier. An owner that reads makes
 * progress only while it has the lock. Two peers of an owner that waits may run in step.
 *
 *     --mode mutex  the lock protects a window of another rank, and no operation is on its own
 *     --mode fair   all ranks take one lock in a loop; prints how often each had it
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

/* All ranks take turns under one lock, @each for each rank. How often each had it depends on who
 * had a core. */
static void fair(int each)
{
	int64_t mine = 0, total = 0, sum = 0, most = (int64_t)each * hkt_size,
		*all = hkt_alloc(sizeof(*all) * (size_t)hkt_size);

	hkt_at("%d locks of rank 0", each);
	MPI_Barrier(MPI_COMM_WORLD);
	while (total < most) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
		MPI_Get(&total, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
		MPI_Win_flush(0, win);
		if (total < most) {
			int64_t next = total + 1;

			MPI_Put(&next, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
			mine++;
		}
		MPI_Win_unlock(0, win);
	}
	MPI_Allgather(&mine, 1, MPI_INT64_T, all, 1, MPI_INT64_T, MPI_COMM_WORLD);
	for (int i = 0; i < hkt_size; i++)
		sum += all[i];
	HKT_CHECK(sum == most, "%lld turns were taken, and %lld counted", (long long)sum,
		  (long long)most);
	if (hkt_rank == 0) {
		printf("SHARES");
		for (int i = 0; i < hkt_size; i++)
			printf(" %lld", (long long)all[i]);
		printf("\n");
	}
	free(all);
}

/* All ranks count in a window of the last rank, one after the other. */
static void mutex(int each)
{
	int64_t *counter, seen;
	MPI_Win other;

	MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &other);
	*counter = 0;
	hkt_at("a lock of rank 0 as a mutex");
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, other);
	for (int i = 0; i < each; i++) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
		MPI_Get(&seen, 1, MPI_INT64_T, hkt_size - 1, 0, 1, MPI_INT64_T, other);
		MPI_Win_flush(hkt_size - 1, other);
		seen++;
		MPI_Put(&seen, 1, MPI_INT64_T, hkt_size - 1, 0, 1, MPI_INT64_T, other);
		MPI_Win_flush(hkt_size - 1, other);
		MPI_Win_unlock(0, win);
	}
	MPI_Win_unlock_all(other);
	MPI_Barrier(MPI_COMM_WORLD);
	if (hkt_rank == hkt_size - 1)
		HKT_CHECK(*counter == (int64_t)each * hkt_size, "counted %lld of %d",
			  (long long)*counter, each * hkt_size);
	MPI_Win_free(&other);
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "rma_locks", MPI_THREAD_SINGLE);
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 100;

	MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &mem, &win);
	*mem = 0;
	if (hkt_opt.mode && strcmp(hkt_opt.mode, "fair") == 0)
		fair(rounds);
	else if (hkt_opt.mode && strcmp(hkt_opt.mode, "mutex") == 0)
		mutex(rounds);
	else
		for (int round = 0; round < rounds; round++)
			relay(round);
	MPI_Win_free(&win);
	return hkt_finish();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/rma_threads.c: one-sided communication under MPI_THREAD_MULTIPLE, four threads a rank.
 *
 * First each thread has an MPI window and a communicator of its own, and uses epochs of every kind
 * (fence, exclusive and shared locks). Then all threads work in one MPI window at once, in one
 * epoch of MPI_Win_lock_all that the main thread opens. Each uses its own part of the neighbour's
 * memory, by put, get and accumulate with flushes. All add to common counters, whose sums are
 * known. The odd threads also exchange messages at the same time, so that both kinds of progress
 * run together.
 */
#include "common.h"

#include <pthread.h>

#define THREADS  4
#define PART     ((size_t)1 << 18) /* bytes of each thread in a window */
#define COUNTERS 8                 /* behind the parts */

static MPI_Comm own_comm[THREADS];
static MPI_Win own_win[THREADS], common_win;
static uint8_t *own_mem[THREADS], *common_mem;
static int to, from, rounds;

static uint64_t key(int src, int t, int what, int i)
{
	return hkt_key((uint64_t)src, (uint64_t)t, (uint64_t)what, (uint64_t)i);
}

static size_t size_of(int i)
{
	size_t size = hkt_few_sizes[i % hkt_nfew];

	return size < PART ? size : PART;
}

/* ---- a window for each thread ---------------------------------------------------------------- */

static void put(MPI_Win win, size_t size, const uint8_t *buf)
{
	MPI_Put(buf, (int)size, MPI_BYTE, to, 0, (int)size, MPI_BYTE, win);
}

static void own_window(int t, uint8_t *out, uint8_t *in)
{
	for (int i = 0; i < rounds; i++) {
		size_t size = size_of(i * THREADS + t);

		hkt_at("thread %d, round %d: fence, %zu bytes", t, i, size);
		hkt_fill(out, size, key(hkt_rank, t, 1, i));
		MPI_Win_fence(0, own_win[t]);
		put(own_win[t], size, out);
		MPI_Win_fence(0, own_win[t]);
		hkt_verify(own_mem[t], size, key(from, t, 1, i), from, "put between fences");

		hkt_at("thread %d, round %d: lock, %zu bytes", t, i, size);
		hkt_fill(out, size, key(hkt_rank, t, 2, i));
		MPI_Barrier(own_comm[t]);
		MPI_Win_lock(i % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, to, 0, own_win[t]);
		put(own_win[t], size, out);
		MPI_Win_flush(to, own_win[t]);
		MPI_Get(in, (int)size, MPI_BYTE, to, 0, (int)size, MPI_BYTE, own_win[t]);
		MPI_Win_unlock(to, own_win[t]);
		hkt_verify(in, size, key(hkt_rank, t, 2, i), to, "got back under the lock");
		MPI_Barrier(own_comm[t]);
		MPI_Win_lock(MPI_LOCK_SHARED, hkt_rank, 0, own_win[t]);
		hkt_verify(own_mem[t], size, key(from, t, 2, i), from, "put under a lock");
		MPI_Win_unlock(hkt_rank, own_win[t]);
	}
}

/* ---- one window for all ---------------------------------------------------------------------- */

static void add_to_counter(int t, int i)
{
	const MPI_Aint at = (MPI_Aint)(THREADS * PART) + (t + i) % COUNTERS * 8;
	int64_t one = 1, before = -1;

	MPI_Fetch_and_op(&one, &before, MPI_INT64_T, (hkt_rank + i) % hkt_size, at, MPI_SUM,
			 common_win);
	MPI_Win_flush((hkt_rank + i) % hkt_size, common_win);
	HKT_CHECK(before >= 0 && before < (int64_t)hkt_size * THREADS * rounds,
		  "fetch and add: thread %d, round %d: found %lld", t, i, (long long)before);
}

static void messages(int t, int i, uint8_t *out, uint8_t *in)
{
	size_t size = size_of(i + t);

	hkt_fill(out, size, key(hkt_rank, t, 5, i));
	MPI_Sendrecv(out, (int)size, MPI_BYTE, to, t, in, (int)size, MPI_BYTE, from, t,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	hkt_verify(in, size, key(from, t, 5, i), from, "message beside a window");
}

static void common_window(int t, uint8_t *out, uint8_t *in)
{
	const MPI_Aint mine = (MPI_Aint)((size_t)t * PART);

	for (int i = 0; i < rounds; i++) {
		size_t size = size_of(i * THREADS + t);
		int64_t more[4] = {t, i, 3, 4}, sum[4];

		hkt_at("thread %d, round %d: put and get, %zu bytes", t, i, size);
		hkt_fill(out, size, key(hkt_rank, t, 3, i));
		MPI_Put(out, (int)size, MPI_BYTE, to, mine, (int)size, MPI_BYTE, common_win);
		MPI_Win_flush(to, common_win);
		MPI_Get(in, (int)size, MPI_BYTE, to, mine, (int)size, MPI_BYTE, common_win);
		MPI_Win_flush(to, common_win);
		hkt_verify(in, size, key(hkt_rank, t, 3, i), to, "got back from a common window");

		hkt_at("thread %d, round %d: accumulate", t, i);
		int64_t zero[4] = {0};

		MPI_Put(zero, 4, MPI_INT64_T, to, mine, 4, MPI_INT64_T, common_win);
		MPI_Win_flush(to, common_win);
		for (int k = 0; k < 3; k++)
			MPI_Accumulate(more, 4, MPI_INT64_T, to, mine, 4, MPI_INT64_T, MPI_SUM,
				       common_win);
		MPI_Win_flush(to, common_win);
		MPI_Get(sum, 4, MPI_INT64_T, to, mine, 4, MPI_INT64_T, common_win);
		MPI_Win_flush(to, common_win);
		for (int k = 0; k < 4; k++)
			HKT_CHECK(sum[k] == 3 * more[k],
				  "accumulate: thread %d, round %d, element %d: expected %lld, "
				  "found %lld",
				  t, i, k, 3 * (long long)more[k], (long long)sum[k]);
		hkt_at("thread %d, round %d: fetch and add", t, i);
		add_to_counter(t, i);
		if (t % 2)
			messages(t, i, out, in);
	}
}

/* Each rank's counters have been added to as often as there were threads of all ranks in all
 * rounds. */
static void check_counters(void)
{
	const int64_t *counter = (const int64_t *)(common_mem + THREADS * PART);
	int64_t sum = 0, all = 0;

	for (int i = 0; i < COUNTERS; i++)
		sum += counter[i];
	MPI_Allreduce(&sum, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	HKT_CHECK(all == (int64_t)hkt_size * THREADS * rounds,
		  "common counters: expected %lld in all, found %lld",
		  (long long)hkt_size * THREADS * rounds, (long long)all);
}

static void *thread(void *arg)
{
	int t = (int)(intptr_t)arg;
	uint8_t *out = hkt_alloc(PART), *in = hkt_alloc(PART);

	own_window(t, out, in);
	common_window(t, out, in);
	free(out);
	free(in);
	return NULL;
}

int main(int argc, char **argv)
{
	const size_t bytes = THREADS * PART + COUNTERS * sizeof(int64_t);
	pthread_t th[THREADS];

	if (hkt_init(&argc, &argv, "rma_threads", MPI_THREAD_MULTIPLE) < MPI_THREAD_MULTIPLE)
		return hkt_skip("the library provides less than MPI_THREAD_MULTIPLE");
	rounds = hkt_opt.rounds ? hkt_opt.rounds : 20;
	to = (hkt_rank + 1) % hkt_size;
	from = (hkt_rank - 1 + hkt_size) % hkt_size;
	for (int t = 0; t < THREADS; t++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &own_comm[t]);
		MPI_Win_allocate((MPI_Aint)PART, 1, MPI_INFO_NULL, own_comm[t], &own_mem[t],
				 &own_win[t]);
	}
	common_mem = hkt_alloc(bytes);
	memset(common_mem, 0, bytes);
	MPI_Win_create(common_mem, (MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &common_win);
	MPI_Win_lock_all(0, common_win);
	for (int t = 0; t < THREADS; t++)
		if (pthread_create(&th[t], NULL, thread, (void *)(intptr_t)t))
			hkt_fail("cannot start thread %d", t);
	for (int t = 0; t < THREADS; t++)
		pthread_join(th[t], NULL);
	MPI_Win_unlock_all(common_win);
	MPI_Barrier(MPI_COMM_WORLD);
	check_counters();
	MPI_Win_free(&common_win);
	for (int t = 0; t < THREADS; t++) {
		MPI_Win_free(&own_win[t]);
		MPI_Comm_free(&own_comm[t]);
	}
	free(common_mem);
	return hkt_finish();
}

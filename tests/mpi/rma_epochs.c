/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/rma_epochs.c: what an epoch promises to others. The next rank that has the lock, or a
 * rank that waited for the epoch's end, sees all of it without a barrier. Also request-based
 * operations, and locks of several kinds and targets together.
 *
 *     --rounds N   of each part (default 10)
 */
#include "common.h"

enum {
	WORDS = 3000, /* of a block: many frames */
	ROOM = 2 * WORDS,
};

static MPI_Win win;
static int64_t *mem, *mine, *block;

static void open_window(int round)
{
	hkt_at("round %d: a window", round);
	if (round % 2) {
		MPI_Win_allocate(ROOM * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &mem, &win);
	} else {
		MPI_Win_create(mine, ROOM * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
		mem = mine;
	}
	memset(mem, 0, ROOM * 8);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void close_window(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_free(&win);
}

static void fill(int64_t *words, int64_t with)
{
	for (int i = 0; i < WORDS; i++)
		words[i] = with;
}

static void check_all(const int64_t *words, int64_t is, const char *what)
{
	for (int i = 0; i < WORDS; i++)
		if (words[i] != is)
			hkt_fail("%s: word %d is %lld, not %lld", what, i, (long long)words[i],
				 (long long)is);
	hkt_count(WORDS);
}

/* Each rank has words of its own at each other one, and waits for each operation, or for two. */
static void requests(int round)
{
	int target = (hkt_rank + 1 + round % hkt_size) % hkt_size;
	int64_t put = 100 + hkt_rank, one = 1, got = 0, before = 0;
	MPI_Aint at = hkt_rank;
	MPI_Request r[2];
	MPI_Status s;

	open_window(round);
	hkt_at("round %d: requests to rank %d", round, target);
	MPI_Win_lock(round % 3 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, win);
	MPI_Rput(&put, 1, MPI_INT64_T, target, at, 1, MPI_INT64_T, win, &r[0]);
	MPI_Wait(&r[0], &s);
	MPI_Win_flush(target, win);
	MPI_Raccumulate(&one, 1, MPI_INT64_T, target, at, 1, MPI_INT64_T, MPI_SUM, win, &r[0]);
	MPI_Rget_accumulate(&one, 1, MPI_INT64_T, &before, 1, MPI_INT64_T, target, at, 1,
			    MPI_INT64_T, MPI_SUM, win, &r[1]);
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	HKT_CHECK(r[0] == MPI_REQUEST_NULL && r[1] == MPI_REQUEST_NULL, "a request is left");
	HKT_CHECK(before == put + 1, "%lld was there, not %lld", (long long)before,
		  (long long)put + 1);
	MPI_Rget(&got, 1, MPI_INT64_T, target, at, 1, MPI_INT64_T, win, &r[0]);
	MPI_Wait(&r[0], MPI_STATUS_IGNORE);
	HKT_CHECK(got == put + 2, "%lld was got, not %lld", (long long)got, (long long)put + 2);
	MPI_Win_unlock(target, win);
	close_window();
}

/* Accumulations of one origin on one place are in order. Here the first has several frames, and
 * asks for a lock that others have. */
static void ordered(int round)
{
	int64_t *sum = hkt_alloc(WORDS * 8), *seen = hkt_alloc(WORDS * 8);

	open_window(round);
	hkt_at("round %d: accumulations in order", round);
	fill(block, 1000 * (hkt_rank + 1));
	fill(sum, 1);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
	MPI_Accumulate(block, WORDS, MPI_INT64_T, 0, 0, WORDS, MPI_INT64_T, MPI_REPLACE, win);
	for (int i = 0; i < 3; i++)
		MPI_Accumulate(sum, WORDS, MPI_INT64_T, 0, 0, WORDS, MPI_INT64_T, MPI_SUM, win);
	MPI_Get_accumulate(NULL, 0, MPI_INT64_T, seen, WORDS, MPI_INT64_T, 0, 0, WORDS, MPI_INT64_T,
			   MPI_NO_OP, win);
	MPI_Win_unlock(0, win);
	check_all(seen, 1000 * (hkt_rank + 1) + 3, "accumulated");
	free(sum);
	free(seen);
	close_window();
}

/* A rank that has the lock finds everything that the one before has put. That is one short and one
 * long put, in either order, without a flush before the unlock. */
static void unlock_publishes(int round)
{
	int64_t number;

	open_window(round);
	for (int turn = 0; turn < 4; turn++) {
		hkt_at("round %d: turn %d of puts and unlock", round, turn);
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
		MPI_Get(&number, 1, MPI_INT64_T, 0, WORDS, 1, MPI_INT64_T, win);
		MPI_Get(block, WORDS, MPI_INT64_T, 0, 0, WORDS, MPI_INT64_T, win);
		MPI_Win_flush(0, win);
		check_all(block, number, "behind the lock");
		number++;
		fill(block, number);
		if (turn % 2)
			MPI_Put(&number, 1, MPI_INT64_T, 0, WORDS, 1, MPI_INT64_T, win);
		MPI_Put(block, WORDS, MPI_INT64_T, 0, 0, WORDS, MPI_INT64_T, win);
		if (turn % 2 == 0)
			MPI_Put(&number, 1, MPI_INT64_T, 0, WORDS, 1, MPI_INT64_T, win);
		MPI_Win_unlock(0, win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (hkt_rank == 0)
		HKT_CHECK(mem[WORDS] == 4 * hkt_size, "%lld turns, not %d", (long long)mem[WORDS],
			  4 * hkt_size);
	close_window();
}

/* When MPI_Win_wait returns, everything that the origin has put is there. Each rank exposes its
 * window to one other alone. */
static void complete_publishes(int round)
{
	int from = (hkt_rank + hkt_size - 1) % hkt_size, to = (hkt_rank + 1) % hkt_size, flag = 0;
	int64_t number = 100 * round + hkt_rank, expected = 100 * round + from;
	MPI_Group all, origin, target;

	open_window(round);
	MPI_Comm_group(MPI_COMM_WORLD, &all);
	MPI_Group_incl(all, 1, &from, &origin);
	MPI_Group_incl(all, 1, &to, &target);
	hkt_at("round %d: post for %d, start to %d", round, from, to);
	fill(block, number);
	MPI_Win_post(origin, 0, win);
	MPI_Win_start(target, 0, win);
	MPI_Put(block, WORDS, MPI_INT64_T, to, 0, WORDS, MPI_INT64_T, win);
	MPI_Put(&number, 1, MPI_INT64_T, to, WORDS, 1, MPI_INT64_T, win);
	MPI_Win_complete(win);
	if (round % 2)
		while (!flag)
			MPI_Win_test(win, &flag);
	else
		MPI_Win_wait(win);
	check_all(mem, expected, "after wait");
	HKT_CHECK(mem[WORDS] == expected, "the last word is %lld", (long long)mem[WORDS]);
	MPI_Group_free(&all);
	MPI_Group_free(&origin);
	MPI_Group_free(&target);
	close_window();
}

/* Some ranks have all locks, and others take one exclusively, or several. */
static void mixed(int round)
{
	int64_t one = 1, was, count = 0;

	open_window(round);
	hkt_at("round %d: locks of several kinds", round);
	for (int turn = 0; turn < 5; turn++) {
		switch ((hkt_rank + turn + round) % 3) {
		case 0:
			MPI_Win_lock_all(0, win);
			for (int t = 0; t < hkt_size; t++)
				MPI_Accumulate(&one, 1, MPI_INT64_T, t, 0, 1, MPI_INT64_T, MPI_SUM,
					       win);
			MPI_Win_flush_local_all(win);
			MPI_Win_unlock_all(win);
			count += hkt_size;
			break;
		case 1:
			MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
			MPI_Fetch_and_op(&one, &was, MPI_INT64_T, 0, 0, MPI_SUM, win);
			MPI_Win_unlock(0, win);
			HKT_CHECK(was >= 0 && was <= 5 * hkt_size, "%lld was there",
				  (long long)was);
			count++;
			break;
		default:
			for (int t = 0; t < hkt_size; t++)
				MPI_Win_lock(MPI_LOCK_SHARED, t, 0, win);
			for (int t = hkt_size - 1; t >= 0; t--) {
				MPI_Accumulate(&one, 1, MPI_INT64_T, t, 0, 1, MPI_INT64_T, MPI_SUM,
					       win);
				MPI_Win_flush_local(t, win);
				MPI_Win_unlock(t, win);
			}
			count += hkt_size;
		}
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, hkt_rank, MPI_MODE_NOCHECK, win);
	MPI_Get(&was, 1, MPI_INT64_T, hkt_rank, 0, 1, MPI_INT64_T, win);
	MPI_Win_unlock(hkt_rank, win);
	int64_t sums[2] = {was, count}, all[2];

	MPI_Allreduce(sums, all, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	HKT_CHECK(all[0] == all[1], "%lld were counted, of %lld", (long long)all[0],
		  (long long)all[1]);
	close_window();
}

/* Rank 0 gives back the lock for which others wait, and then computes until they have put. */
static void owner_leaves(int round)
{
	open_window(round);
	hkt_at("round %d: the owner leaves", round);
	if (hkt_rank == 0) {
		int flag;

		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
		MPI_Barrier(MPI_COMM_WORLD);
		for (int i = 0; i < 40 * (round % 8); i++) /* their requests come now, or later */
			MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		MPI_Win_unlock(0, win);
		for (int other = 1; other < hkt_size; other++)
			while (__atomic_load_n((volatile int64_t *)&mem[other], __ATOMIC_ACQUIRE) !=
			       other)
				; /* the watchdog ends this, if nothing comes */
	} else {
		int64_t number = hkt_rank;

		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
		MPI_Put(&number, 1, MPI_INT64_T, 0, hkt_rank, 1, MPI_INT64_T, win);
		MPI_Win_unlock(0, win);
	}
	hkt_count(1);
	close_window();
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "rma_epochs", MPI_THREAD_SINGLE);
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 10;

	mine = hkt_alloc(ROOM * 8);
	block = hkt_alloc(WORDS * 8);
	for (int round = 0; round < rounds; round++) {
		requests(round);
		ordered(round);
		unlock_publishes(round);
		complete_publishes(round);
		mixed(round);
		owner_leaves(round);
	}
	free(mine);
	free(block);
	return hkt_finish();
}

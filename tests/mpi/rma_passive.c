/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/rma_passive.c: passive targets. Tickets and a lock made of atomic operations, a target
 * that computes, dynamic MPI windows that change, and accesses that are refused.
 *
 * --mode compute does only the second part. The target calls no MPI until the others' data has
 * arrived, so the transport must make progress by itself. --mode stop stops a target for ever.
 */
#include "common.h"

#include <signal.h>

static MPI_Win win;
static int64_t *mem;

static void open_window(MPI_Aint words)
{
	MPI_Win_allocate(words * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &mem, &win);
	memset(mem, 0, (size_t)words * 8);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Each rank draws tickets from one counter: every number is drawn once. */
static void tickets(int each)
{
	int64_t *mine = hkt_alloc((size_t)each * 8),
		*all = hkt_alloc((size_t)(each * hkt_size) * 8);
	const int64_t one = 1;

	open_window(2);
	hkt_at("tickets");
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < each; i++) {
		MPI_Fetch_and_op(&one, &mine[i], MPI_INT64_T, hkt_size - 1, 1, MPI_SUM, win);
		MPI_Win_flush(hkt_size - 1, win);
		HKT_CHECK(i == 0 || mine[i] > mine[i - 1], "ticket %lld after %lld",
			  (long long)mine[i], (long long)mine[i - 1]);
	}
	MPI_Win_unlock_all(win);
	MPI_Gather(mine, each, MPI_INT64_T, all, each, MPI_INT64_T, 0, MPI_COMM_WORLD);
	if (hkt_rank == 0) {
		bool *seen = hkt_alloc((size_t)(each * hkt_size));

		memset(seen, 0, (size_t)(each * hkt_size));
		for (int i = 0; i < each * hkt_size; i++) {
			HKT_CHECK(all[i] >= 0 && all[i] < each * hkt_size && !seen[all[i]],
				  "ticket %lld came twice, or is none", (long long)all[i]);
			seen[all[i]] = true;
		}
		free(seen);
	}
	free(mine);
	free(all);
	MPI_Win_free(&win);
}

/* A lock of compare-and-swap guards a counter that is read and written by get and put: 64 and 32
 * bits. */
static void own_lock(int each, MPI_Datatype type)
{
	int64_t zero = 0, taken = hkt_rank + 1, was, count;

	open_window(2);
	hkt_at("a lock of compare-and-swap");
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < each; i++) {
		do {
			was = 0;
			MPI_Compare_and_swap(&taken, &zero, &was, type, 0, 0, win);
			MPI_Win_flush(0, win);
		} while (was != 0);
		MPI_Get(&count, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, win);
		MPI_Win_flush(0, win);
		count++;
		MPI_Put(&count, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, win);
		MPI_Win_flush(0, win);
		was = 0;
		MPI_Fetch_and_op(&zero, &was, type, 0, 0, MPI_REPLACE, win);
		MPI_Win_flush(0, win);
		HKT_CHECK(was == taken, "rank %d held the lock, and found %lld in it", hkt_rank,
			  (long long)was);
	}
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	if (hkt_rank == 0)
		HKT_CHECK(mem[1] == (int64_t)each * hkt_size, "counted %lld of %d",
			  (long long)mem[1], each * hkt_size);
	MPI_Win_free(&win);
}

/* Rank 0 computes, without MPI, until all others have put, got and added. */
static void target_computes(void)
{
	enum { BYTES = 100000 };
	const int64_t one = 1;
	volatile int64_t *finished;

	open_window(2 + hkt_size * (BYTES / 8));
	finished = mem;
	hkt_at("a target that computes");
	if (hkt_rank == 0) {
		for (int i = 0; i < BYTES / 8; i++)
			mem[2 + i] = i; /* to be got */
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
		MPI_Win_unlock(0, win);
		MPI_Barrier(MPI_COMM_WORLD);
		while (__atomic_load_n(finished, __ATOMIC_ACQUIRE) < hkt_size - 1)
			; /* the watchdog ends this, if nothing comes */
	} else {
		int64_t *buf = hkt_alloc(BYTES);
		MPI_Aint at = 2 + hkt_rank * (BYTES / 8);

		MPI_Barrier(MPI_COMM_WORLD);
		hkt_fill(buf, BYTES, hkt_key((uint64_t)hkt_rank, 0, 0, 0));
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
		MPI_Put(buf, BYTES, MPI_BYTE, 0, at, BYTES, MPI_BYTE, win);
		MPI_Win_flush(0, win);
		memset(buf, 0, BYTES);
		MPI_Get(buf, BYTES / 8, MPI_INT64_T, 0, 2, BYTES / 8, MPI_INT64_T, win);
		MPI_Win_flush(0, win);
		for (int i = 0; i < BYTES / 8; i++)
			if (buf[i] != i)
				hkt_fail("word %d that was got is %lld", i, (long long)buf[i]);
		MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, win);
		MPI_Win_unlock(0, win);
		free(buf);
	}
	hkt_count(1);
	MPI_Barrier(MPI_COMM_WORLD);
	if (hkt_rank == 0)
		for (int r = 1; r < hkt_size; r++)
			hkt_verify(mem + 2 + r * (BYTES / 8), BYTES, hkt_key((uint64_t)r, 0, 0, 0),
				   r, "put to a target that computes");
	MPI_Win_free(&win);
}

/* Memory is attached and detached; the others read and write the attached pieces. */
static void pieces_come_and_go(int rounds)
{
	enum { PIECES = 5, BYTES = 3000 };
	char *piece[PIECES];
	int next = (hkt_rank + 1) % hkt_size;
	MPI_Win w;

	MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w);
	for (int round = 0; round < rounds; round++) {
		MPI_Aint mine[PIECES], theirs[PIECES];
		char buf[BYTES];

		hkt_at("dynamic window, round %d", round);
		for (int i = 0; i < PIECES; i++) {
			piece[i] = hkt_alloc(BYTES);
			memset(piece[i], round, BYTES);
			MPI_Win_attach(w, piece[i], BYTES);
			MPI_Get_address(piece[i], &mine[i]);
		}
		MPI_Sendrecv(mine, PIECES, MPI_AINT, (hkt_rank - 1 + hkt_size) % hkt_size, 0,
			     theirs, PIECES, MPI_AINT, next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Win_lock(MPI_LOCK_SHARED, next, 0, w);
		for (int i = PIECES - 1; i >= 0; i--) {
			MPI_Get(buf, BYTES, MPI_BYTE, next, theirs[i], BYTES, MPI_BYTE, w);
			MPI_Win_flush(next, w);
			hkt_verify_value(buf, BYTES, (uint8_t)round, next, "attached memory");
			hkt_fill(buf, BYTES,
				 hkt_key((uint64_t)next, (uint64_t)i, (uint64_t)round, 0));
			MPI_Put(buf, BYTES, MPI_BYTE, next, theirs[i], BYTES, MPI_BYTE, w);
			MPI_Win_flush(next, w);
		}
		MPI_Win_unlock(next, w);
		MPI_Barrier(MPI_COMM_WORLD);
		for (int i = 0; i < PIECES; i++) {
			hkt_verify(piece[i], BYTES,
				   hkt_key((uint64_t)hkt_rank, (uint64_t)i, (uint64_t)round, 0),
				   (hkt_rank - 1 + hkt_size) % hkt_size, "attached memory");
			MPI_Win_detach(w, piece[i]);
			free(piece[i]);
		}
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Win_free(&w);
}

static int class_of(int error)
{
	int class = MPI_SUCCESS;

	if (error)
		MPI_Error_class(error, &class);
	return class;
}

/* An access beyond an MPI window, or outside of an epoch, is an error of the call. The window stays
 * usable. */
static void errors(void)
{
	int64_t v = 1;
	int to = (hkt_rank + 1) % hkt_size;

	open_window(4);
	hkt_at("errors");
	MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
	HKT_CHECK(class_of(MPI_Put(&v, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, win)) ==
			  MPI_ERR_RMA_SYNC,
		  "a put outside of an epoch is none");
	MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
	HKT_CHECK(class_of(MPI_Put(&v, 1, MPI_INT64_T, to, 4, 1, MPI_INT64_T, win)) ==
			  MPI_ERR_RMA_RANGE,
		  "a put behind the window is none");
	HKT_CHECK(class_of(MPI_Get(&v, 1, MPI_INT64_T, to, 1000000, 1, MPI_INT64_T, win)) ==
			  MPI_ERR_RMA_RANGE,
		  "a get behind the window is none");
	HKT_CHECK(class_of(MPI_Put(&v, 1, MPI_INT64_T, to, 3, 1, MPI_INT64_T, win)) == MPI_SUCCESS,
		  "the last word of the window is part of it");
	MPI_Win_unlock(to, win);
	MPI_Barrier(MPI_COMM_WORLD);
	HKT_CHECK(mem[3] == 1, "the last word was not written");
	MPI_Win_free(&win);
}

/* --mode stop: rank 1 stops while rank 0 puts. The job must end with an error that names rank 1. */
static void stop(void)
{
	int64_t v = 0;

	open_window(1);
	MPI_Win_lock_all(0, win);
	if (hkt_rank == 1) {
		MPI_Barrier(MPI_COMM_WORLD);
		raise(SIGSTOP);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (;;) {
		MPI_Put(&v, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, win);
		MPI_Win_flush(1, win);
	}
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "rma_passive", MPI_THREAD_SINGLE);
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 10;
	bool all = !hkt_opt.mode;

	if (hkt_size < 2)
		return hkt_skip("needs at least 2 ranks");
	if (!all && strcmp(hkt_opt.mode, "stop") == 0)
		stop();
	if (all) {
		tickets(rounds * 20);
		own_lock(rounds * 5, MPI_INT64_T);
		own_lock(rounds * 5, MPI_INT32_T);
		pieces_come_and_go(rounds);
		errors();
	}
	if (all || strcmp(hkt_opt.mode, "compute") == 0)
		target_computes();
	return hkt_finish();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/threads.c: MPI_THREAD_MULTIPLE, four threads a rank.
 *
 * First, thread t of every rank exchanges messages with thread t of the ring neighbours, on a tag
 * of its own and a shared communicator. Then all threads of a rank receive from the same stream by
 * matched probe; each message must be received exactly once. Then each thread runs collectives on
 * its own communicator while the others send and receive.
 */
#include "common.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS 4
#define STREAM  400 /* messages of the shared stream */

static MPI_Comm own_comm[THREADS];
static int to, from, rounds;
static atomic_int taken[STREAM], claims;

static size_t size_of(int i)
{
	return hkt_few_sizes[i % (hkt_nfew - 3)];
}

static uint64_t key(int src, int dst, int what, int i)
{
	return hkt_key((uint64_t)src, (uint64_t)dst, (uint64_t)what, (uint64_t)i);
}

static void own_tags(int t, uint8_t *out, uint8_t *in)
{
	for (int i = 0; i < rounds; i++) {
		size_t size = size_of(i * THREADS + t);
		MPI_Request r[2];
		hkt_at("thread %d, round %d: exchange of %zu", t, i, size);
		hkt_fill(out, size, key(hkt_rank, to, t, i));
		MPI_Irecv(in, (int)size, MPI_BYTE, from, t, MPI_COMM_WORLD, &r[0]);
		MPI_Isend(out, (int)size, MPI_BYTE, to, t, MPI_COMM_WORLD, &r[1]);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		hkt_verify(in, size, key(from, hkt_rank, t, i), from, "thread's own tag");
	}
}

/* The first four bytes of a message say which one it is; threads 0 and 1 send, all receive. */
static void shared_stream(int t, uint8_t *out, uint8_t *in)
{
	for (int i = t; t < 2 && i < STREAM; i += 2) {
		size_t size = (size_of(i) % 9000) + sizeof(int);
		hkt_at("thread %d: send %d of the stream", t, i);
		memcpy(out, &i, sizeof(int));
		hkt_fill(out + sizeof(int), size - sizeof(int), key(hkt_rank, to, 50, i));
		MPI_Send(out, (int)size, MPI_BYTE, to, 50, MPI_COMM_WORLD);
	}
	while (atomic_fetch_add(&claims, 1) < STREAM) {
		MPI_Message m;
		MPI_Status st;
		int count, i;
		hkt_at("thread %d: take from the stream", t);
		MPI_Mprobe(from, 50, MPI_COMM_WORLD, &m, &st);
		MPI_Get_count(&st, MPI_BYTE, &count);
		MPI_Mrecv(in, count, MPI_BYTE, &m, &st);
		memcpy(&i, in, sizeof(int));
		HKT_CHECK(i >= 0 && i < STREAM && atomic_fetch_add(&taken[i], 1) == 0,
			  "stream: peer %d: message %d is unknown or came twice", from, i);
		size_t size = (size_of(i) % 9000) + sizeof(int);
		HKT_CHECK(count == (int)size,
			  "stream: peer %d, message %d: expected size %zu, found %d", from, i, size,
			  count);
		hkt_verify(in + sizeof(int), size - sizeof(int), key(from, hkt_rank, 50, i), from,
			   "shared stream");
	}
}

static void collectives(int t, uint8_t *buf)
{
	for (int i = 0; i < rounds; i++) {
		int n = (int)size_of(i), root = (i + t) % hkt_size, sum = 0, one = t + i;
		hkt_at("thread %d, round %d: bcast of %d", t, i, n);
		if (hkt_rank == root)
			hkt_fill(buf, (size_t)n, key(root, t, 60, i));
		MPI_Bcast(buf, n, MPI_BYTE, root, own_comm[t]);
		hkt_verify(buf, (size_t)n, key(root, t, 60, i), root, "thread's bcast");
		hkt_at("thread %d, round %d: allreduce", t, i);
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, own_comm[t]);
		HKT_CHECK(sum == hkt_size * (t + i), "thread's allreduce: expected %d, found %d",
			  hkt_size * (t + i), sum);
	}
}

static void *thread(void *arg)
{
	int t = (int)(intptr_t)arg;
	uint8_t *out = hkt_alloc(HKT_MAX_SIZE), *in = hkt_alloc(HKT_MAX_SIZE);

	own_tags(t, out, in);
	shared_stream(t, out, in);
	collectives(t, in);
	own_tags(t, out, in);
	free(out);
	free(in);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t th[THREADS];

	if (hkt_init(&argc, &argv, "threads", MPI_THREAD_MULTIPLE) < MPI_THREAD_MULTIPLE)
		return hkt_skip("the library provides less than MPI_THREAD_MULTIPLE");
	rounds = hkt_opt.rounds ? hkt_opt.rounds : 60;
	to = (hkt_rank + 1) % hkt_size;
	from = (hkt_rank - 1 + hkt_size) % hkt_size;
	atomic_store(&claims, 0);
	for (int i = 0; i < STREAM; i++)
		atomic_store(&taken[i], 0);
	for (int t = 0; t < THREADS; t++)
		MPI_Comm_dup(MPI_COMM_WORLD, &own_comm[t]);
	for (int t = 0; t < THREADS; t++) {
		if (pthread_create(&th[t], NULL, thread, (void *)(intptr_t)t))
			hkt_fail("cannot start thread %d", t);
	}
	for (int t = 0; t < THREADS; t++)
		pthread_join(th[t], NULL);
	for (int i = 0; i < STREAM; i++)
		HKT_CHECK(taken[i] == 1, "stream: peer %d: message %d was taken %d times", from, i,
			  taken[i]);
	for (int t = 0; t < THREADS; t++)
		MPI_Comm_free(&own_comm[t]);
	return hkt_finish();
}

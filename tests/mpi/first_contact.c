/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/first_contact.c: threads of every rank send to peers for the first time, all at once.
 *
 * A transport that makes endpoints on first use makes them here under MPI_THREAD_MULTIPLE. One
 * thread makes them in MPI_Send. Another makes them inside progress, to answer a long message from
 * a peer that was unknown until then.
 *
 * So lower ranks send to higher ranks only. Those have posted all receives, and send nothing to the
 * lower ranks before. A rank in between does both, in one thread for each peer. The first messages
 * need a rendezvous, so the transport itself answers each.
 *
 * This must be the program's first traffic: only MPI_Init comes before it.
 */
#include "common.h"

#include <pthread.h>

#define LONG_SIZE  ((size_t)300001)
#define REPLY_SIZE ((size_t)1201)

struct contact {
	int peer;
	pthread_t thread;
	uint8_t *data, *reply;
	MPI_Request request;
};

static pthread_barrier_t start;

static uint64_t key(int src, int dst, int what)
{
	return hkt_key((uint64_t)src, (uint64_t)dst, (uint64_t)what, 0);
}

static void calls(struct contact *c)
{
	hkt_fill(c->data, LONG_SIZE, key(hkt_rank, c->peer, 1));
	hkt_at("start of the thread for rank %d", c->peer);
	pthread_barrier_wait(&start);
	hkt_at("first message to rank %d", c->peer);
	MPI_Send(c->data, (int)LONG_SIZE, MPI_BYTE, c->peer, 1, MPI_COMM_WORLD);
	hkt_at("reply of rank %d", c->peer);
	MPI_Recv(c->reply, (int)REPLY_SIZE, MPI_BYTE, c->peer, 2, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
	hkt_verify(c->reply, REPLY_SIZE, key(c->peer, hkt_rank, 2), c->peer, "reply");
}

static void is_called(struct contact *c)
{
	hkt_fill(c->reply, REPLY_SIZE, key(hkt_rank, c->peer, 2));
	hkt_at("start of the thread for rank %d", c->peer);
	pthread_barrier_wait(&start);
	hkt_at("first message of rank %d", c->peer);
	MPI_Wait(&c->request, MPI_STATUS_IGNORE);
	hkt_verify(c->data, LONG_SIZE, key(c->peer, hkt_rank, 1), c->peer, "first message");
	hkt_at("reply to rank %d", c->peer);
	MPI_Send(c->reply, (int)REPLY_SIZE, MPI_BYTE, c->peer, 2, MPI_COMM_WORLD);
}

static void *run(void *arg)
{
	struct contact *c = arg;

	if (c->peer > hkt_rank)
		calls(c);
	else
		is_called(c);
	return NULL;
}

int main(int argc, char **argv)
{
	int n = 0;

	if (hkt_init(&argc, &argv, "first_contact", MPI_THREAD_MULTIPLE) < MPI_THREAD_MULTIPLE)
		return hkt_skip("the library provides less than MPI_THREAD_MULTIPLE");
	if (hkt_size < 3)
		return hkt_skip("needs at least three ranks: one that sends and is sent to");
	struct contact *all = hkt_alloc((size_t)hkt_size * sizeof(*all));

	pthread_barrier_init(&start, NULL, (unsigned)hkt_size - 1);
	for (int p = 0; p < hkt_size; p++) {
		if (p == hkt_rank)
			continue;
		struct contact *c = &all[n++];

		*c = (struct contact){
			.peer = p, .data = hkt_alloc(LONG_SIZE), .reply = hkt_alloc(REPLY_SIZE)};
		if (p < hkt_rank)
			MPI_Irecv(c->data, (int)LONG_SIZE, MPI_BYTE, p, 1, MPI_COMM_WORLD,
				  &c->request);
	}
	for (int i = 0; i < n; i++)
		if (pthread_create(&all[i].thread, NULL, run, &all[i]))
			hkt_fail("cannot start thread %d", i);
	hkt_at("threads to end");
	for (int i = 0; i < n; i++) {
		pthread_join(all[i].thread, NULL);
		free(all[i].data);
		free(all[i].reply);
	}
	free(all);
	pthread_barrier_destroy(&start);
	return hkt_finish();
}

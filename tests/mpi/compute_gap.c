/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/compute_gap.c: a rank that computes does not answer, but must not be disconnected.
 *
 * In each round one rank leaves MPI for --mode MILLISECONDS (default 300), and all others send it
 * bursts and rendezvous messages. --rounds scales the number of rounds. No message may be lost, no
 * rank may be disconnected, and the others must be able to exchange messages among themselves.
 */
#include "common.h"

#define BURST 300

static size_t burst_size(int i)
{
	return i % 60 == 59 ? 300001 : hkt_few_sizes[i % (hkt_nfew - 10)];
}

static uint64_t key(int src, int dst, int round, int i)
{
	return hkt_key((uint64_t)src, (uint64_t)dst, (uint64_t)round, (uint64_t)i);
}

static void receive_bursts(int round)
{
	uint8_t *in = hkt_alloc(HKT_MAX_SIZE);

	for (int i = 0; i < BURST; i++) {
		for (int src = 0; src < hkt_size; src++) {
			if (src == hkt_rank)
				continue;
			size_t size = burst_size(i);
			hkt_at("round %d: receive %d from %d, size %zu", round, i, src, size);
			MPI_Recv(in, (int)size, MPI_BYTE, src, 1, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
			hkt_verify(in, size, key(src, hkt_rank, round, i), src, "burst");
		}
	}
	free(in);
}

static void send_bursts(int round, int to)
{
	static MPI_Request r[BURST];
	static uint8_t *out[BURST];

	for (int i = 0; i < BURST; i++) {
		size_t size = burst_size(i);
		out[i] = hkt_alloc(size);
		hkt_fill(out[i], size, key(hkt_rank, to, round, i));
		MPI_Isend(out[i], (int)size, MPI_BYTE, to, 1, MPI_COMM_WORLD, &r[i]);
	}
	hkt_at("round %d: wait until %d has everything", round, to);
	MPI_Waitall(BURST, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < BURST; i++)
		free(out[i]);
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "compute_gap", MPI_THREAD_SINGLE);
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 4;
	int ms = hkt_opt.mode ? atoi(hkt_opt.mode) : 300;

	if (hkt_size < 2)
		return hkt_skip("needs at least 2 ranks");
	for (int round = 0; round < rounds; round++) {
		int busy = round % hkt_size;
		hkt_at("round %d: barrier", round);
		MPI_Barrier(MPI_COMM_WORLD);
		if (hkt_rank == busy) {
			hkt_at("round %d: computing", round);
			hkt_compute((unsigned)ms);
			receive_bursts(round);
		} else {
			send_bursts(round, busy);
		}
	}
	/* all compute at once with messages in flight, so that no rank polls for a while */
	int to = (hkt_rank + 1) % hkt_size, from = (hkt_rank - 1 + hkt_size) % hkt_size;
	for (int round = 0; round < rounds; round++) {
		size_t size = burst_size(59);
		uint8_t *out = hkt_alloc(size), *in = hkt_alloc(size);
		MPI_Request r[2];
		hkt_fill(out, size, key(hkt_rank, to, round, -1));
		MPI_Irecv(in, (int)size, MPI_BYTE, from, 2, MPI_COMM_WORLD, &r[0]);
		MPI_Isend(out, (int)size, MPI_BYTE, to, 2, MPI_COMM_WORLD, &r[1]);
		hkt_at("all compute, round %d", round);
		hkt_compute((unsigned)ms);
		hkt_at("all computed, round %d: wait", round);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		hkt_verify(in, size, key(from, hkt_rank, round, -1), from, "all computing");
		free(in);
		free(out);
	}
	return hkt_finish();
}

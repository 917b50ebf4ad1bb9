/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/functions.c: MPI functions one after the other, for a network that recognises them.
 *
 * Each round is one Bcast (root 0), Allreduce, Alltoall, Gather (root 0) and a ring of Sendrecv,
 * with a barrier between them. Contents are checked. --mode MPI_FUNCTION does that one alone.
 */
#include "common.h"

#define SIZE 20000

static uint8_t *data, *other;

static void bcast(uint64_t key)
{
	if (hkt_rank == 0)
		hkt_fill(data, SIZE, key);
	MPI_Bcast(data, SIZE, MPI_BYTE, 0, MPI_COMM_WORLD);
	hkt_verify(data, SIZE, key, 0, "bcast");
}

static void allreduce(uint64_t key)
{
	long in[64], out[64];

	for (int i = 0; i < 64; i++)
		in[i] = (long)(key % 1000) + hkt_rank * i;
	MPI_Allreduce(in, out, 64, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < 64; i++)
		HKT_CHECK(out[i] == hkt_size * (long)(key % 1000) +
					    (long)i * hkt_size * (hkt_size - 1) / 2,
			  "allreduce: element %d is %ld", i, out[i]);
}

static void alltoall(uint64_t key)
{
	int each = SIZE / hkt_size;

	for (int to = 0; to < hkt_size; to++)
		hkt_fill(data + to * each, (size_t)each,
			 hkt_key(key, (uint64_t)hkt_rank, (uint64_t)to, 0));
	MPI_Alltoall(data, each, MPI_BYTE, other, each, MPI_BYTE, MPI_COMM_WORLD);
	for (int from = 0; from < hkt_size; from++)
		hkt_verify(other + from * each, (size_t)each,
			   hkt_key(key, (uint64_t)from, (uint64_t)hkt_rank, 0), from, "alltoall");
}

static void gather(uint64_t key)
{
	int each = SIZE / hkt_size;

	hkt_fill(data, (size_t)each, hkt_key(key, (uint64_t)hkt_rank, 0, 0));
	MPI_Gather(data, each, MPI_BYTE, other, each, MPI_BYTE, 0, MPI_COMM_WORLD);
	for (int from = 0; hkt_rank == 0 && from < hkt_size; from++)
		hkt_verify(other + from * each, (size_t)each, hkt_key(key, (uint64_t)from, 0, 0),
			   from, "gather");
}

static void ring(uint64_t key)
{
	int next = (hkt_rank + 1) % hkt_size, last = (hkt_rank + hkt_size - 1) % hkt_size;

	hkt_fill(data, SIZE, hkt_key(key, (uint64_t)hkt_rank, 0, 0));
	MPI_Sendrecv(data, SIZE, MPI_BYTE, next, 1, other, SIZE, MPI_BYTE, last, 1, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	hkt_verify(other, SIZE, hkt_key(key, (uint64_t)last, 0, 0), last, "ring");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(uint64_t key);
	} functions[] = {{"bcast", bcast},
			 {"allreduce", allreduce},
			 {"alltoall", alltoall},
			 {"gather", gather},
			 {"p2p", ring}};

	hkt_init(&argc, &argv, "functions", MPI_THREAD_SINGLE);
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 10;
	data = hkt_alloc(SIZE);
	other = hkt_alloc(SIZE);
	for (int round = 0; round < rounds; round++) {
		for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
			if (hkt_opt.mode && strcmp(hkt_opt.mode, functions[i].name) != 0)
				continue;
			hkt_at("round %d: %s", round, functions[i].name);
			functions[i].run(hkt_key(hkt_opt.seed, (uint64_t)round, i, 0));
			MPI_Barrier(MPI_COMM_WORLD);
		}
	}
	free(data);
	free(other);
	return hkt_finish();
}

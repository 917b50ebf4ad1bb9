/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/coll_bench.c: the time of a collective operation, in plain MPI.
 *
 * It contains nothing of Hikyaku: the same binary runs over any transport. All ranks enter each
 * round together, after a barrier. The time of a round is that of the slowest rank. Every rank
 * compares every byte of every round. Rank 0 prints one JSON object a line:
 *
 *     {"metric":"allreduce_ms","size":1048576,"value":84.1,"min":83.9,"max":91.2,"rounds":7}
 *
 * A value is the median of all rounds, in milliseconds. A first round warms up and is not counted.
 * Allreduce adds 32-bit integers; @size is in bytes, and a multiple of 4.
 *
 *     coll_bench --collective allreduce|bcast [--size 1048576] [--rounds 7]
 */
#include <getopt.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIZE   (1l << 28)
#define MAX_ROUNDS 1000

enum collective { ALLREDUCE, BCAST, COLLECTIVES };
static const char *const name[COLLECTIVES] = {"allreduce", "bcast"};

static int rank, ranks;

static void fail(const char *what)
{
	fprintf(stderr, "coll_bench: %s\n", what);
	MPI_Abort(MPI_COMM_WORLD, 2);
	exit(2);
}

/* The value at @i that @from contributes to @round. It has no long period, so that exchanged parts
 * would be seen. */
static uint32_t given(int i, int round, int from)
{
	return (uint32_t)i * 2654435761u + (uint32_t)round * 40503u + (uint32_t)from;
}

static double operate(enum collective which, uint32_t *in, uint32_t *out, int n, int round)
{
	double start, took, slowest;

	for (int i = 0; i < n; i++) {
		in[i] = given(i, round, rank);
		out[i] = which == BCAST && rank == 0 ? given(i, round, 0) : 0;
	}
	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	if (which == ALLREDUCE)
		MPI_Allreduce(in, out, n, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
	else
		MPI_Bcast(out, n, MPI_UINT32_T, 0, MPI_COMM_WORLD);
	took = MPI_Wtime() - start;
	for (int i = 0; i < n; i++) {
		uint32_t right = given(i, round, 0);

		if (which == ALLREDUCE) /* a sum over all ranks, modulo 2^32 */
			right = (uint32_t)ranks * right + (uint32_t)(ranks * (ranks - 1) / 2);
		if (out[i] != right)
			fail("a rank has a wrong result");
	}
	MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	return slowest * 1e3;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static long number(const char *text, long most, const char *otherwise)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (value < 1 || value > most || *end)
		fail(otherwise);
	return value;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"collective", required_argument, NULL, 'c'},
		{"size", required_argument, NULL, 's'},
		{"rounds", required_argument, NULL, 'r'},
		{NULL, 0, NULL, 0},
	};
	static double took[MAX_ROUNDS];
	long size = 1 << 20, rounds = 7;
	int which = COLLECTIVES, n;
	uint32_t *in, *out;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 'c')
			for (which = 0; which < COLLECTIVES && strcmp(name[which], optarg);)
				which++;
		else if (c == 's')
			size = number(optarg, MAX_SIZE, "--size is a number from 4 to 268435456");
		else if (c == 'r')
			rounds = number(optarg, MAX_ROUNDS, "--rounds is a number from 1 to 1000");
		else
			fail("unknown option; fix: --collective bcast --size 1048576 --rounds 7");
	}
	if (which == COLLECTIVES)
		fail("no such collective; fix: --collective allreduce, or bcast");
	if (size % (long)sizeof(*in))
		fail("--size is a multiple of 4");
	n = (int)(size / (long)sizeof(*in));
	in = malloc((size_t)size);
	out = malloc((size_t)size);
	if (!in || !out)
		fail("no memory for two buffers of --size bytes");
	for (int round = 0; round <= rounds; round++)
		took[round ? round - 1 : 0] = operate((enum collective)which, in, out, n, round);
	qsort(took, (size_t)rounds, sizeof(*took), by_value);
	if (rank == 0)
		printf("{\"metric\":\"%s_ms\",\"size\":%ld,\"value\":%.4g,\"min\":%.4g,\"max\":%."
		       "4g,"
		       "\"rounds\":%ld}\n",
		       name[which], size, took[rounds / 2], took[0], took[rounds - 1], rounds);
	free(in);
	free(out);
	MPI_Finalize();
	return 0;
}

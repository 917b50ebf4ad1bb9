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
 * Allreduce adds 32-bit integers; @size is in bytes, and a multiple of 4. In Alltoall, @size is
 * what a rank sends in all, and a multiple of 4 for each rank. With several collectives, a round
 * calls one after the other, each after a barrier, and its time is the sum.
 *
 *     coll_bench --collective NAME[,NAME...] [--size 1048576] [--rounds 7] [--meet DIRECTORY --of
 * N]
 *
 * NAME is allreduce, bcast or alltoall. With --meet, the first round begins when N jobs have a file
 * in the directory, so that they run at the same time.
 */
#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_SIZE   (1l << 28)
#define MAX_ROUNDS 1000
#define MAX_JOBS   64
#define MEET_S     60 /* for the other jobs to start */

enum collective { ALLREDUCE, BCAST, ALLTOALL, COLLECTIVES };
static const char *const name[COLLECTIVES] = {"allreduce", "bcast", "alltoall"};

static const char usage[] =
	"usage: coll_bench --collective allreduce|bcast|alltoall[,…] [--size 4…268435456] "
	"[--rounds 1…1000] [--meet DIRECTORY --of JOBS]";

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
	else if (which == BCAST)
		MPI_Bcast(out, n, MPI_UINT32_T, 0, MPI_COMM_WORLD);
	else
		MPI_Alltoall(in, n / ranks, MPI_UINT32_T, out, n / ranks, MPI_UINT32_T,
			     MPI_COMM_WORLD);
	took = MPI_Wtime() - start;
	for (int i = 0; i < n; i++) {
		uint32_t right = given(i, round, 0);

		if (which == ALLREDUCE) /* a sum over all ranks, modulo 2^32 */
			right = (uint32_t)ranks * right + (uint32_t)(ranks * (ranks - 1) / 2);
		if (which == ALLTOALL) /* the block that each rank has for this one */
			right = given(rank * (n / ranks) + i % (n / ranks), round, i / (n / ranks));
		if (out[i] != right)
			fail("a rank has a wrong result");
	}
	MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	return slowest * 1e3;
}

/* Rank 0 waits until @jobs jobs have a file in @directory; the others wait for rank 0. */
static void meet(const char *directory, long jobs)
{
	char path[4096];
	struct timespec pause = {.tv_nsec = 10000000};
	double end = MPI_Wtime() + MEET_S;

	if (rank == 0) {
		int file, here = 0;

		snprintf(path, sizeof(path), "%s/%d", directory, (int)getpid());
		file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (file < 0)
			fail("cannot write into the directory of --meet");
		close(file);
		while (here < jobs) {
			DIR *open_directory = opendir(directory);

			here = 0;
			for (struct dirent *e; open_directory && (e = readdir(open_directory));)
				here += e->d_name[0] != '.';
			if (open_directory)
				closedir(open_directory);
			if (here < jobs && MPI_Wtime() > end)
				fail("the other jobs of --meet did not start within 60 s");
			nanosleep(&pause, NULL);
		}
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

/* The collectives that @list names, in this order; returns how many. */
static int collectives(const char *list, enum collective *found)
{
	char copy[64] = "";
	int count = 0;

	snprintf(copy, sizeof(copy), "%s", list);
	for (char *at = NULL, *word = strtok_r(copy, ",", &at); word;
	     word = strtok_r(NULL, ",", &at)) {
		int which = 0;

		while (which < COLLECTIVES && strcmp(name[which], word) != 0)
			which++;
		if (which == COLLECTIVES || count == COLLECTIVES)
			fail("no such collective; fix: --collective allreduce,bcast,alltoall, or "
			     "some");
		found[count++] = (enum collective)which;
	}
	return count;
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
		{"meet", required_argument, NULL, 'm'},
		{"of", required_argument, NULL, 'o'},
		{NULL, 0, NULL, 0},
	};
	static double took[MAX_ROUNDS];
	long size = 1 << 20, rounds = 7, jobs = 1;
	enum collective each[COLLECTIVES];
	const char *names = "", *place = NULL;
	int count = 0, n;
	uint32_t *in, *out;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		puts(usage);
		return 0;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 'c') {
			names = optarg;
			count = collectives(optarg, each);
		} else if (c == 's')
			size = number(optarg, MAX_SIZE, "--size is a number from 4 to 268435456");
		else if (c == 'r')
			rounds = number(optarg, MAX_ROUNDS, "--rounds is a number from 1 to 1000");
		else if (c == 'm')
			place = optarg;
		else if (c == 'o')
			jobs = number(optarg, MAX_JOBS, "--of is a number from 1 to 64");
		else
			fail(usage);
	}
	if (!count)
		fail("no collective; fix: --collective allreduce, bcast, alltoall, or a list");
	if (size % (long)sizeof(*in))
		fail("--size is a multiple of 4");
	n = (int)(size / (long)sizeof(*in));
	in = malloc((size_t)size);
	out = malloc((size_t)size);
	if (!in || !out)
		fail("no memory for two buffers of --size bytes");
	for (int i = 0; i < count; i++)
		if (each[i] == ALLTOALL && n % ranks)
			fail("for alltoall, --size is a multiple of 4 bytes for each rank");
	if (place)
		meet(place, jobs);
	for (int round = 0; round <= rounds; round++) {
		double sum = 0;

		for (int i = 0; i < count; i++)
			sum += operate(each[i], in, out, n, round);
		took[round ? round - 1 : 0] = sum;
	}
	qsort(took, (size_t)rounds, sizeof(*took), by_value);
	if (rank == 0)
		printf("{\"metric\":\"%s_ms\",\"size\":%ld,\"value\":%.4g,\"min\":%.4g,\"max\":%."
		       "4g,"
		       "\"rounds\":%ld}\n",
		       names, size, took[rounds / 2], took[0], took[rounds - 1], rounds);
	free(in);
	free(out);
	MPI_Finalize();
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/rma_bench.c: MPI's one-sided operations between two ranks, in plain MPI.
 *
 * It contains nothing of Hikyaku: the same binary runs over any transport. Rank 0 works on an MPI
 * window of rank 1, which waits in MPI. It completes each operation by MPI_Win_flush before the
 * next, or --window of them, and prints one JSON object a line:
 *
 *     {"metric":"put_us","size":8,"value":1.6,"iterations":20000}
 *
 * Metrics: put_us, get_us and acc_us (a sum of doubles) of each size, fetch_add_us, cas_us and
 * lock_put_us (lock, put, unlock) of 8 bytes. A value is the time of one operation and its share of
 * a flush in microseconds, the mean over --sample-ms (default 200). Once for each size, outside of
 * the timing, a get reads the data of a put, and rank 0 compares them.
 *
 *     rma_bench [--sizes 8,65536] [--window 1] [--sample-ms 200]
 */
#include <getopt.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIZE  (1l << 26)
#define MAX_SIZES 64

enum metric { PUT, GET, ACC, FETCH_ADD, CAS, LOCK_PUT, METRICS };
static const char *const name[METRICS] = {"put_us",       "get_us", "acc_us",
					  "fetch_add_us", "cas_us", "lock_put_us"};

static MPI_Win win;
static char *buf;
static long window = 1; /* operations before each flush */

static void fail(const char *what)
{
	fprintf(stderr, "rma_bench: %s\n", what);
	MPI_Abort(MPI_COMM_WORLD, 2);
	exit(2);
}

static void operate(enum metric metric, int size)
{
	static long one = 1, zero, old;

	switch (metric) {
	case PUT:
		MPI_Put(buf, size, MPI_BYTE, 1, 8, size, MPI_BYTE, win);
		break;
	case GET:
		MPI_Get(buf, size, MPI_BYTE, 1, 8, size, MPI_BYTE, win);
		break;
	case ACC:
		MPI_Accumulate(buf, size / 8, MPI_DOUBLE, 1, 8, size / 8, MPI_DOUBLE, MPI_SUM, win);
		break;
	case LOCK_PUT:
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
		MPI_Put(buf, size, MPI_BYTE, 1, 8, size, MPI_BYTE, win);
		MPI_Win_unlock(1, win);
		break;
	case FETCH_ADD:
		MPI_Fetch_and_op(&one, &old, MPI_LONG, 1, 0, MPI_SUM, win);
		break;
	default:
		MPI_Compare_and_swap(&one, &zero, &old, MPI_LONG, 1, 0, win);
	}
}

/* Seconds of @rounds operations. */
static double timed(enum metric metric, int size, long rounds)
{
	double start = MPI_Wtime();

	for (long i = 1; i <= rounds; i++) {
		operate(metric, size);
		if (metric != LOCK_PUT && (i % window == 0 || i == rounds))
			MPI_Win_flush(1, win);
	}
	return MPI_Wtime() - start;
}

static void measure(enum metric metric, int size, double sample)
{
	long rounds = 16;
	double t = timed(metric, size, rounds); /* warms up */

	while ((t = timed(metric, size, rounds)) < sample / 8 && rounds < 1l << 30)
		rounds *= 2;
	rounds = (long)((double)rounds * sample / t) + 1;
	t = timed(metric, size, rounds);
	printf("{\"metric\":\"%s\",\"size\":%d,\"value\":%.4g,\"iterations\":%ld}\n", name[metric],
	       size, t / (double)rounds * 1e6, rounds);
}

static void check(size_t size)
{
	for (size_t i = 0; i < size; i++)
		buf[i] = (char)(i * 7 + size);
	operate(PUT, (int)size);
	MPI_Win_flush(1, win);
	memset(buf, 0, size);
	operate(GET, (int)size);
	MPI_Win_flush(1, win);
	for (size_t i = 0; i < size; i++)
		if (buf[i] != (char)(i * 7 + size))
			fail("a get returned other bytes than the put wrote");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"sizes", required_argument, NULL, 's'},
		{"window", required_argument, NULL, 'w'},
		{"sample-ms", required_argument, NULL, 'm'},
		{NULL, 0, NULL, 0},
	};
	const char *sizes = "8,65536";
	double sample = 0.2;
	int rank, ranks, size[MAX_SIZES], n = 0, most = 8;
	void *mem;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 's')
			sizes = optarg;
		else if (c == 'w')
			window = atol(optarg);
		else if (c == 'm')
			sample = atof(optarg) / 1000;
		else
			fail("unknown option; fix: --sizes 8,65536 --window 1 --sample-ms 200");
	}
	for (const char *s = sizes; *s && n < MAX_SIZES; n++) {
		char *end;
		long v = strtol(s, &end, 10);

		if (v < 1 || v > MAX_SIZE || (*end && *end != ','))
			fail("a size is not a number from 1 to 67108864; fix: --sizes 8,65536");
		size[n] = (int)v;
		most = size[n] > most ? size[n] : most;
		s = *end ? end + 1 : end;
	}
	if (ranks != 2 || !(sample > 0) || window < 1)
		fail("rma_bench needs two ranks, and a --sample-ms and --window above 0; fix: "
		     "mpirun -np 2");
	buf = malloc((size_t)most);
	MPI_Win_allocate(most + 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mem, &win);
	if (!buf)
		fail("no memory for the largest size");
	memset(mem, 0, (size_t)most + 8);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	if (rank == 0) {
		for (int i = 0; i < n; i++) {
			check((size_t)size[i]);
			measure(PUT, size[i], sample);
			measure(GET, size[i], sample);
			memset(buf, 0, (size_t)size[i]);
			if (size[i] % 8 == 0)
				measure(ACC, size[i], sample);
		}
		measure(FETCH_ADD, 8, sample);
		measure(CAS, 8, sample);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_unlock_all(win);
	if (rank == 0)
		measure(LOCK_PUT, 8, sample);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_free(&win);
	free(buf);
	MPI_Finalize();
	return 0;
}

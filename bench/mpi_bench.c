/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/mpi_bench.c: latency and bandwidth between two ranks, in plain MPI.
 *
 * It contains nothing of Hikyaku: the same binary runs over any transport, and the driver (`hikyaku
 * bench mpi`) alternates them. Rank 0 prints one JSON object a line:
 *
 *     {"metric":"init_ms","value":41.3}
 *     {"metric":"latency_us","size":8,"value":0.41,"iterations":70000}
 *
 * Metrics:
 *     latency_us         half of a round trip in microseconds
 *     bandwidth_MBps     windows of 64 messages (--window) one way, with an answer of 4 bytes after
 *                        each; payload bytes / time, 1 MB = 10^6 bytes
 *     bibandwidth_MBps   the same both ways at once; the sum of both directions
 *     messages_per_s     the loop of bandwidth_MBps, counted in messages
 *
 * Duration: for each metric and size, a calibration raises the number of rounds until they fill a
 * good part of --sample-ms. Then one timing takes as many rounds as fill all of it: that is a
 * sample. The driver takes the median of many samples.
 *
 * With --line FILE, the time of a cache line between the two cores (bench/line.h) follows each
 * sample. FILE has at least 64 zero bytes, and both ranks can map it, so they are on one machine:
 *
 *     {"metric":"line_ns","of":"latency_us","size":8,"value":52.1}
 *
 * With --switch SOCKET and --turns N, another process switches the measured system between two
 * sides, a and b. Each metric and size is timed N times on either side, in the order a b b a a b,
 * and so on. Each object then names its side. Before each timing rank 0 sends the letter of the
 * side to the UNIX socket, and waits until the letter comes back. So both sides are measured within
 * milliseconds, on a machine that changes within seconds. With --most-ms M, a metric and size has
 * no further turn after M ms, which limits the time for a slow wire.
 *
 * All messages of a window share one buffer at each end, as in other well-known benchmarks. The
 * content is checked once for each metric and size, outside of the timing.
 */
#include "line.h"

#include <errno.h>
#include <getopt.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#define WINDOW     64 /* at most */
#define MAX_SIZES  64
#define MAX_SIZE   (1ul << 30)
#define MAX_ROUNDS (1l << 30)

enum tag { TAG_DATA = 1, TAG_ANSWER, TAG_ROUNDS };

static int rank;
static unsigned char *out, *in;
static int window = WINDOW;
static MPI_Request requests[2 * WINDOW];

static void fail(const char *what, const char *detail)
{
	fprintf(stderr, "mpi_bench: %s%s\n", what, detail);
	MPI_Abort(MPI_COMM_WORLD, 2);
	exit(2);
}

/* ---- the loops: each returns the seconds of @rounds, as rank 0 measures them ---------------- */

static double ping_pong(int size, long rounds)
{
	double start = MPI_Wtime();

	for (long i = 0; i < rounds; i++) {
		if (rank == 0) {
			MPI_Send(out, size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD);
			MPI_Recv(in, size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(in, size, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
			MPI_Send(out, size, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
		}
	}
	return MPI_Wtime() - start;
}

static double one_way(int size, long rounds)
{
	int answer = 0;
	double start = MPI_Wtime();

	for (long i = 0; i < rounds; i++) {
		if (rank == 0) {
			for (int w = 0; w < window; w++)
				MPI_Isend(out, size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD,
					  &requests[w]);
			MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
			MPI_Recv(&answer, 1, MPI_INT, 1, TAG_ANSWER, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		} else {
			for (int w = 0; w < window; w++)
				MPI_Irecv(in, size, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD,
					  &requests[w]);
			MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
			MPI_Send(&answer, 1, MPI_INT, 0, TAG_ANSWER, MPI_COMM_WORLD);
		}
	}
	return MPI_Wtime() - start;
}

static double both_ways(int size, long rounds)
{
	int peer = 1 - rank, answer = 0, theirs;
	double start = MPI_Wtime();

	for (long i = 0; i < rounds; i++) {
		for (int w = 0; w < window; w++)
			MPI_Irecv(in, size, MPI_BYTE, peer, TAG_DATA, MPI_COMM_WORLD, &requests[w]);
		for (int w = 0; w < window; w++)
			MPI_Isend(out, size, MPI_BYTE, peer, TAG_DATA, MPI_COMM_WORLD,
				  &requests[window + w]);
		MPI_Waitall(2 * window, requests, MPI_STATUSES_IGNORE);
		MPI_Sendrecv(&answer, 1, MPI_INT, peer, TAG_ANSWER, &theirs, 1, MPI_INT, peer,
			     TAG_ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	return MPI_Wtime() - start;
}

/* Metrics of the same loop share one timing. */
enum { PING_PONG, ONE_WAY, BOTH_WAYS, LOOPS };

static const struct {
	double (*run)(int size, long rounds);
	long warm_up; /* rounds until connections, credits and caches are in their steady state */
} loops[LOOPS] = {
	[PING_PONG] = {ping_pong, 16},
	[ONE_WAY] = {one_way, 2},
	[BOTH_WAYS] = {both_ways, 2},
};

static double half_us(int size, double s)
{
	(void)size;
	return s * 1e6 / 2;
}

static double window_MBps(int size, double s)
{
	return (double)size * window / s / 1e6;
}

static double both_windows_MBps(int size, double s)
{
	return 2 * window_MBps(size, s);
}

static double window_rate(int size, double s)
{
	(void)size;
	return window / s;
}

static const struct {
	const char *name;
	int loop;
	double (*value)(int size, double seconds_per_round);
} metrics[] = {
	{"latency_us", PING_PONG, half_us},
	{"bandwidth_MBps", ONE_WAY, window_MBps},
	{"messages_per_s", ONE_WAY, window_rate},
	{"bibandwidth_MBps", BOTH_WAYS, both_windows_MBps},
};

#define METRICS ((int)(sizeof(metrics) / sizeof(metrics[0])))

/* ---- one sample ----------------------------------------------------------------------------- */

static double timed(int loop, int size, long rounds)
{
	MPI_Barrier(MPI_COMM_WORLD);
	return loops[loop].run(size, rounds);
}

/* Rank 0's value, on both ranks. */
static long agree(long rounds)
{
	MPI_Bcast(&rounds, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	return rounds;
}

/* The number of rounds that fill @target seconds. Tries growing numbers, which also warms up. */
static long calibrate(int loop, int size, double target)
{
	long rounds = loops[loop].warm_up;

	for (;;) {
		double took = timed(loop, size, rounds);
		bool enough = took >= target / 4 || rounds >= MAX_ROUNDS;
		long next = enough ? (long)((double)rounds * target / took) : rounds * 4;
		bool done = agree(enough);

		rounds = agree(next < 1 ? 1 : next > MAX_ROUNDS ? MAX_ROUNDS : next);
		if (done)
			return rounds;
	}
}

/* A different pattern for each rank and size, so that the check finds old bytes. */
static unsigned char pattern(int who, int size, int i)
{
	return (unsigned char)(who * 101 + size * 7 + i * 13 + (i >> 8));
}

static void check_content(int size)
{
	for (int i = 0; i < size; i++) {
		out[i] = pattern(rank, size, i);
		in[i] = 0;
	}
	MPI_Sendrecv(out, size, MPI_BYTE, 1 - rank, TAG_DATA, in, size, MPI_BYTE, 1 - rank,
		     TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < size; i++)
		if (in[i] != pattern(1 - rank, size, i))
			fail("the transport delivered wrong bytes", "");
}

static bool chosen[METRICS];
static struct hk_line line;

static int switcher = -1; /* connection to the process that switches sides */
static long turns;
static double most_s = 1e9; /* limit in seconds for the turns of one metric and size */

static void switch_connect(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = 20};

	if (rank != 0)
		return;
	if (strlen(path) >= sizeof(addr.sun_path))
		fail("the path of the socket is too long: ", path);
	strcpy(addr.sun_path, path);
	switcher = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (switcher < 0 || connect(switcher, (struct sockaddr *)&addr, sizeof(addr)) != 0)
		fail("cannot connect to the process that switches sides at ", path);
	setsockopt(switcher, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

static void switch_to(char side)
{
	char answer = 0;

	MPI_Barrier(MPI_COMM_WORLD);
	if (rank != 0)
		return;
	if (send(switcher, &side, 1, MSG_NOSIGNAL) != 1 || recv(switcher, &answer, 1, 0) != 1 ||
	    answer != side)
		fail("the process that switches sides does not answer", "");
}

/* @side: 'a' or 'b', or 0 without sides. */
static void print_result(int loop, int size, long rounds, double took, char side)
{
	char of_side[16] = "";

	if (side)
		snprintf(of_side, sizeof(of_side), ",\"side\":\"%c\"", side);
	for (int i = 0; i < METRICS; i++)
		if (chosen[i] && metrics[i].loop == loop)
			printf("{\"metric\":\"%s\",\"size\":%d,\"value\":%.6g,\"iterations\":%ld%s}"
			       "\n",
			       metrics[i].name, size, metrics[i].value(size, took), rounds,
			       of_side);
}

static void both_sides(int loop, int size, long rounds)
{
	double start = MPI_Wtime();

	for (long i = 0; i < 2 * turns; i++) {
		/* check before a pair, so that both sides are timed equally often */
		if (i % 2 == 0 && i && agree(MPI_Wtime() - start > most_s))
			break;
		char side = (i + 1) / 2 % 2 ? 'b' : 'a';

		switch_to(side);
		double took = timed(loop, size, rounds) / (double)rounds;

		if (rank == 0)
			print_result(loop, size, rounds, took, side);
	}
	fflush(stdout);
}

static void sample(int loop, int size, double target)
{
	check_content(size);
	long rounds = calibrate(loop, size, target);

	if (turns) {
		both_sides(loop, size, rounds);
		return;
	}
	double took = timed(loop, size, rounds) / (double)rounds;
	double apart = hk_line_ns(&line, (unsigned)rank);

	if (rank == 0)
		print_result(loop, size, rounds, took, 0);
	for (int i = 0; rank == 0 && apart > 0 && i < METRICS; i++)
		if (chosen[i] && metrics[i].loop == loop)
			printf("{\"metric\":\"line_ns\",\"of\":\"%s\",\"size\":%d,\"value\":%.1f}"
			       "\n",
			       metrics[i].name, size, apart);
	fflush(stdout);
}

/* ---- options -------------------------------------------------------------------------------- */

static long number(const char *text, char **end, long max)
{
	errno = 0;
	long n = strtol(text, end, 10);

	if (*end == text || errno || n < 0 || n > max)
		fail("not a number in range: ", text);
	return n;
}

/* A number of bytes, such as 64K. */
static long bytes(const char *text, char **end, long max)
{
	long n = number(text, end, max);
	int shift = **end == 'K' ? 10 : **end == 'M' ? 20 : 0;

	if (n > max >> shift)
		fail("not a number in range: ", text);
	*end += shift != 0;
	return n << shift;
}

static int parse_sizes(const char *text, int *sizes)
{
	int n = 0;
	char *end;

	for (const char *p = text;; p = end + 1) {
		if (n == MAX_SIZES)
			fail("too many sizes: ", text);
		sizes[n++] = (int)bytes(p, &end, MAX_SIZE);
		if (!*end)
			return n;
		if (*end != ',')
			fail("fix: give sizes such as 8,64K,1M in place of ", text);
	}
}

#define METRIC_NAMES "latency_us, bandwidth_MBps, bibandwidth_MBps, messages_per_s"

static void parse_metrics(char *text)
{
	for (char *save, *word = strtok_r(text, ",", &save); word;
	     word = strtok_r(NULL, ",", &save)) {
		int i = 0;

		while (i < METRICS && strcmp(metrics[i].name, word) != 0)
			i++;
		if (i == METRICS)
			fail("no such metric; fix: use some of " METRIC_NAMES " in place of ",
			     word);
		chosen[i] = true;
	}
}

static const char usage[] =
	"usage: mpirun -np 2 mpi_bench [--sizes N,...] [--metrics NAME,...] [--sample-ms N] "
	"[--window N]\n"
	"                              [--line FILE] [--switch SOCKET --turns N [--most-ms N]]\n"
	"  --sizes      message sizes in bytes, also such as 64K or 1M [8,1K,64K]\n"
	"  --metrics    " METRIC_NAMES " [latency_us]\n"
	"  --sample-ms  how long each timing lasts [30]\n"
	"  --window     messages in a window, at most 64 [64]\n"
	"  --line       file of 64 zero bytes that both ranks map: time of a cache line\n"
	"  --switch     socket of a process that switches sides; each side has --turns timings\n"
	"  --most-ms    limit for the turns of one metric and size [no limit]\n";

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"sizes", required_argument, NULL, 's'},
		{"metrics", required_argument, NULL, 'm'},
		{"sample-ms", required_argument, NULL, 't'},
		{"window", required_argument, NULL, 'W'},
		{"line", required_argument, NULL, 'l'},
		{"switch", required_argument, NULL, 'w'},
		{"turns", required_argument, NULL, 'n'},
		{"most-ms", required_argument, NULL, 'M'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int sizes[MAX_SIZES] = {8, 1024, 65536}, count = 3, ranks, largest = 1;
	bool any = false, switches = false, needed[LOOPS] = {false};
	long sample_ms = 30;
	char *end;
	double before = now();

	MPI_Init(&argc, &argv);
	double init_ms = (now() - before) * 1e3;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (c) {
		case 's':
			count = parse_sizes(optarg, sizes);
			break;
		case 'm':
			parse_metrics(optarg);
			any = true;
			break;
		case 't':
			sample_ms = number(optarg, &end, 60000);
			break;
		case 'W':
			window = (int)number(optarg, &end, WINDOW);
			if (window < 1)
				fail("a window has at least one message", "");
			break;
		case 'l':
			if (!hk_line_open(&line, optarg))
				fail(strerror(errno), ": the file of --line");
			break;
		case 'w':
			switch_connect(optarg);
			switches = true;
			break;
		case 'n':
			turns = number(optarg, &end, 100000);
			break;
		case 'M':
			most_s = (double)number(optarg, &end, 3600000) / 1e3;
			break;
		case 'h':
			if (rank == 0)
				fputs(usage, stdout);
			MPI_Finalize();
			return 0;
		default:
			fail("bad option\n", usage);
		}
	}
	if (optind < argc)
		fail("unexpected argument: ", argv[optind]);
	if (ranks != 2)
		fail("mpi_bench needs two ranks; fix: mpirun -np 2", "");
	if (switches != (turns > 0))
		fail("--switch and --turns must be used together", "");
	if (!any)
		chosen[0] = true;

	for (int i = 0; i < count; i++)
		largest = sizes[i] > largest ? sizes[i] : largest;
	/* whole pages that are written now, so that no page fault is timed */
	size_t bytes = ((size_t)largest + 4095) & ~(size_t)4095;
	out = aligned_alloc(4096, bytes);
	in = aligned_alloc(4096, bytes);
	if (!out || !in)
		fail("no memory for the buffers", "");
	memset(out, 1, bytes);
	memset(in, 2, bytes);

	if (rank == 0)
		printf("{\"metric\":\"init_ms\",\"value\":%.3f}\n", init_ms);
	for (int i = 0; i < METRICS; i++)
		needed[metrics[i].loop] |= chosen[i];
	for (int loop = 0; loop < LOOPS; loop++)
		for (int i = 0; needed[loop] && i < count; i++)
			sample(loop, sizes[i], (double)sample_ms / 1e3);

	free(out);
	free(in);
	MPI_Finalize();
	return 0;
}

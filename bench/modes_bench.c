/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/modes_bench.c: what happens to messages for a rank that is busy elsewhere, in plain MPI.
 *
 * `hikyaku bench modes` runs one scene at a time, in each polling mode. Rank 0 prints one JSON
 * object a line, as mpi_bench does:
 *
 *     {"metric":"busy_done_ms","size":256,"value":14.2}
 *
 * Scene busy (2 ranks): rank 1 sends "go" and computes; rank 0 sends it --messages meanwhile.
 *
 *     busy_sent_ms   from the start of the computation to the return of the last MPI_Send
 *     busy_done_ms   from there to the first transmission of the last message, when all messages
 *                    except one window are acknowledged
 *     busy_early_ms  from that to the end of the computation; negative if it was later
 *     busy_resends   packets that the sender sent again
 *
 * Scene pickup (2 ranks): rank 1 sends "I leave" and computes. Rank 0 fills its window at once and
 * posts one more message. Rank 0 has a window of 8 packets and rank 1 the default, so that the
 * window and not credit stops rank 0.
 *
 *     pickup_us      until a progress proxy has received a frame for rank 1, which reads a counter
 *                    of the BTL for this, and never enters MPI
 *     ack_us         until rank 0 sends the additional message, since a frame was acknowledged
 *     pickup_p99_us, ack_p99_us   99th percentiles of these
 *     pickup_missed  rounds that do not count: no proxy came within 100 ms, or rank 0 itself was
 *                    interrupted too long
 *
 * Scene flood (4 ranks, the odd ones on the other node): ranks 0 and 1 play ping-pong, first alone
 * and then while rank 2 floods rank 3. Rank 3 sleeps a millisecond after every 16 messages.
 *
 *     flood_quiet_us, flood_us           median of half a round trip, over --sample-ms and over six
 *                                        times that; each round trip is timed
 *     flood_quiet_p90_us, flood_p90_us   their 90th percentiles
 *     flood_ratio                        ratio of the medians
 *     flood_messages, flood_lost         messages of the flood; those that did not arrive
 *     flood_waits    sends that waited for credit; 0 means that there was no flood
 *     flood_resends  packets that were sent again, of flood and ping-pong
 *
 * Scene idle (an even number of ranks): each rank makes the file FLAG.RANK, and polls MPI, or
 * sleeps. Meanwhile another program measures the CPU time. A rank ends when that program removes
 * the file, or after --seconds.
 *
 * Ranks compare times of CLOCK_MONOTONIC, so all must run on one machine. Counters are the BTL's
 * performance variables.
 */
#include "modes_bench.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int rank, ranks;
static MPI_T_pvar_session session; /* NULL: MPI has not started */
char buf[MAX_SIZE];

struct options opt = {
	.messages = 20000,
	.size = 256,
	.compute_ms = 200,
	.rounds = 200,
	.sample_ms = 500,
	.seconds = 10,
};

void fail(const char *what, const char *detail)
{
	fprintf(stderr, "modes_bench: rank %d: %s%s\n", rank, what, detail);
	if (session)
		MPI_Abort(MPI_COMM_WORLD, 2);
	exit(2);
}

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* One write for each line: mpirun mixes the parts of lines that come in several writes. */
void result(const char *metric, long size, double value)
{
	char line[160];
	int n = snprintf(line, sizeof(line), "{\"metric\":\"%s\",\"size\":%ld,\"value\":%.6g}\n",
			 metric, size, value);

	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		fail("cannot write a result: ", strerror(errno));
}

/* ---- counters of the BTL --------------------------------------------------------------------- */

MPI_T_pvar_handle counter(const char *name)
{
	MPI_T_pvar_handle handle;
	int index, count;

	if (MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index) != MPI_SUCCESS ||
	    MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) != MPI_SUCCESS ||
	    count != 1)
		fail("this MPI has no performance variable ", name);
	return handle;
}

uint64_t count_of(MPI_T_pvar_handle handle)
{
	unsigned long long value;

	if (MPI_T_pvar_read(session, handle, &value) != MPI_SUCCESS)
		fail("cannot read a performance variable", "");
	return value;
}

/* ---- messages -------------------------------------------------------------------------------- */

void send_number(int to, int tag, uint64_t number)
{
	MPI_Send(&number, 1, MPI_UINT64_T, to, tag, MPI_COMM_WORLD);
}

uint64_t receive_number(int from, int tag)
{
	uint64_t number;

	MPI_Recv(&number, 1, MPI_UINT64_T, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return number;
}

void send_numbered(int to, uint64_t number)
{
	memcpy(buf, &number, sizeof(number));
	MPI_Send(buf, (int)opt.size, MPI_BYTE, to, TAG_DATA, MPI_COMM_WORLD);
}

uint64_t receive_numbered(int from)
{
	uint64_t number;
	MPI_Status status;
	int len;

	MPI_Recv(buf, MAX_SIZE, MPI_BYTE, from, TAG_DATA, MPI_COMM_WORLD, &status);
	MPI_Get_count(&status, MPI_BYTE, &len);
	if (len != opt.size)
		fail("a message has a wrong length", "");
	memcpy(&number, buf, sizeof(number));
	return number;
}

void expect_numbered(int from, uint64_t number)
{
	if (receive_numbered(from) != number)
		fail("a message was lost, came twice or came late", "");
}

void progress(void)
{
	int flag;

	MPI_Iprobe(MPI_ANY_SOURCE, TAG_LAST, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double quantile(double *v, long n, double q)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return v[(long)(q * (double)(n - 1) + 0.5)];
}

double *samples(void)
{
	double *v = calloc(MAX_ROUNDS, sizeof(*v));

	if (!v)
		fail("no memory for the samples", "");
	return v;
}

void warm_up(int peer)
{
	for (uint64_t i = 0; i < 500; i++) {
		if (rank < peer)
			send_numbered(peer, i);
		expect_numbered(peer, i);
		if (rank > peer)
			send_numbered(peer, i);
	}
}

/* ---- idle ------------------------------------------------------------------------------------ */

#define LOOK_S 0.1 /* between two looks at the file */

static void idle(void)
{
	struct timespec t = {.tv_nsec = (long)(LOOK_S * 1e9)};
	char path[4096];

	if (!opt.flag)
		fail("idle needs --flag", "");
	snprintf(path, sizeof(path), "%s.%d", opt.flag, rank);
	warm_up(rank ^ 1);
	MPI_Barrier(MPI_COMM_WORLD);
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);

	if (fd < 0)
		fail("cannot create the file of --flag: ", strerror(errno));
	close(fd);
	double begin = now();
	do {
		for (double end = now() + LOOK_S; !opt.asleep && now() < end;)
			progress();
		if (opt.asleep)
			(void)nanosleep(&t, NULL);
	} while (access(path, F_OK) == 0 && now() - begin < (double)opt.seconds);
	unlink(path);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- options --------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*run)(void);
	int ranks; /* 0: an even number */
} scenes[] = {{"busy", busy, 2}, {"pickup", pickup, 2}, {"flood", flood, 4}, {"idle", idle, 0}};

static const char usage[] =
	"usage: mpirun -np N modes_bench --scene NAME [OPTION ...]\n"
	"  --scene NAME     busy, pickup (2 ranks), flood (4), idle (an even number)\n"
	"  --messages N     busy: number of messages [20000]\n"
	"  --size N         bytes of a message, 8 to 4096 [256]\n"
	"  --compute-ms N   busy: time that the receiver computes [200]\n"
	"  --rounds N       pickup: number of rounds [200]\n"
	"  --sample-ms N    flood: duration of a ping-pong [500]\n"
	"  --flag PATH      idle: wait until the file PATH.RANK, which the rank makes, is removed\n"
	"  --seconds N      idle: at most so long [10]\n"
	"  --asleep         idle: sleep instead of polling\n";

static void parse(int argc, char **argv)
{
	static const struct {
		const char *name;
		long *value, min, max;
	} numbers[] = {
		{"messages", &opt.messages, 1, 100000000}, {"size", &opt.size, 8, MAX_SIZE},
		{"compute-ms", &opt.compute_ms, 0, 60000}, {"rounds", &opt.rounds, 1, MAX_ROUNDS},
		{"sample-ms", &opt.sample_ms, 1, 60000},   {"seconds", &opt.seconds, 0, 3600},
	};
	struct option options[] = {
		{"messages", required_argument, NULL, 0},   {"size", required_argument, NULL, 1},
		{"compute-ms", required_argument, NULL, 2}, {"rounds", required_argument, NULL, 3},
		{"sample-ms", required_argument, NULL, 4},  {"seconds", required_argument, NULL, 5},
		{"scene", required_argument, NULL, 's'},    {"flag", required_argument, NULL, 'f'},
		{"asleep", no_argument, NULL, 'a'},         {0},
	};

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		char *end;

		if (c == 's') {
			opt.scene = optarg;
		} else if (c == 'f') {
			opt.flag = optarg;
		} else if (c == 'a') {
			opt.asleep = true;
		} else if (c == '?') {
			fail("bad option\n", usage);
		} else {
			errno = 0;
			*numbers[c].value = strtol(optarg, &end, 10);
			if (end == optarg || *end || errno || *numbers[c].value < numbers[c].min ||
			    *numbers[c].value > numbers[c].max)
				fail("not a number in range: ", optarg);
		}
	}
	if (optind < argc)
		fail("unexpected argument: ", argv[optind]);
}

/* A small window for rank 0: a message leaves a full window when a packet is acknowledged. */
static void narrow_window(void)
{
	const char *mine = getenv("OMPI_COMM_WORLD_RANK");
	char text[16];

	snprintf(text, sizeof(text), "%d", PICKUP_WINDOW);
	if (mine && strcmp(mine, "0") == 0)
		setenv("OMPI_MCA_btl_hikyaku_window", text, 1);
}

int main(int argc, char **argv)
{
	size_t i = 0, count = sizeof(scenes) / sizeof(scenes[0]);
	int provided;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	parse(argc, argv);
	if (opt.scene && strcmp(opt.scene, "pickup") == 0)
		narrow_window();
	MPI_Init(&argc, &argv);
	MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
	MPI_T_pvar_session_create(&session);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	while (i < count && (!opt.scene || strcmp(scenes[i].name, opt.scene) != 0))
		i++;
	if (i == count)
		fail("no such scene\n", usage);
	if (scenes[i].ranks ? ranks != scenes[i].ranks : ranks % 2)
		fail("the scene needs another number of ranks\n", usage);
	scenes[i].run();
	MPI_T_pvar_session_free(&session);
	MPI_T_finalize();
	MPI_Finalize();
	return 0;
}

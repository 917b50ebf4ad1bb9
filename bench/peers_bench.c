/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/peers_bench.c: the memory of a worker that has exchanged long messages with many peers.
 *
 *   peers_bench [--peers N] [--bytes N]
 *
 * The worker has the sizes of a rank (the BTL's defaults) and a UDP socket. Its peers are workers
 * of other processes on this machine, with sockets of their own. From each peer the worker gets
 * --bytes, and the peer gets as much from it: so Open MPI's long messages do. It prints one JSON
 * object a line: the most memory that the process had after the first peer, and after all.
 *
 *     {"metric":"resident_MB","peers":1,"value":11.2}
 *     {"metric":"resident_MB","peers":1000,"value":13.9}
 *
 * A rank has Open MPI's memory beside this.
 */
#include "arguments.h"
#include "hikyaku/rma.h"
#include "hikyaku/worker.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM      "peers_bench"
#define PEERS_MAX    4000
#define OF_PROCESS   30 /* peers: a process has at most 32 ports */
#define AT_ONCE      8  /* peers that exchange at the same time */
#define TIMEOUT_S    120
#define MAX_PEERS    4096 /* the BTL's default */
#define RANK_BUFFERS 2048
#define PEER_BUFFERS 64

struct endpoint {
	struct hk_peer_addr addr;
	hk_region region;
	atomic_bool go, done; /* may it start its get; has it ended it */
};

/* Between the processes. */
static struct shared {
	atomic_uint open;  /* peers that have an address */
	atomic_bool known; /* the rank has one */
	struct endpoint rank, peer[PEERS_MAX];
} * shared;

static size_t bytes = 1 << 20;

static void fail(const char *what, const char *why)
{
	fprintf(stderr, PROGRAM ": %s: %s\n", what, why);
	exit(1);
}

static void on_lost(void *arg, hk_peer peer, enum hk_disconnect_reason why, const char *text)
{
	(void)arg, (void)peer, (void)why;
	fail("a peer is lost", text);
}

static struct hk_worker *open_worker(uint32_t endpoint, unsigned buffers, void *memory,
				     struct endpoint *mine)
{
	struct hk_worker_config cfg;
	struct hk_worker *w;
	struct hk_error err;

	hk_worker_config_default(&cfg);
	cfg.engine.key = 1;
	cfg.engine.endpoint = endpoint;
	cfg.engine.epoch = 1;
	cfg.engine.protection = HK_PROTECTION_AUTH;
	if (buffers == RANK_BUFFERS)
		cfg.engine.max_peers = MAX_PEERS;
	cfg.tx_buffers = cfg.rx_backlog = buffers;
	cfg.frame_max = 0;
	cfg.lost = on_lost;
	if (hk_worker_open_port_spec(&cfg, "udp:addr=127.0.0.1", 0, &w, &err) != 0)
		fail("a worker", err.text);
	if (hk_worker_address(w, 0, &mine->addr) != 0)
		fail("a worker", "it has no address");
	mine->region = hk_worker_region_add(w, memory, bytes, HK_REGION_READ, HK_PEER_NONE);
	return w;
}

static hk_peer add(struct hk_worker *w, const struct endpoint *other)
{
	struct hk_peer_addr addr = other->addr;
	struct hk_error err;
	hk_peer peer;

	addr.name = "another process of this benchmark"; /* a pointer is of use in one alone */
	if (hk_worker_peer_add(w, &addr, &peer, &err) != 0)
		fail("a peer", err.text);
	return peer;
}

static void on_get(void *arg, int status)
{
	if (status)
		fail("a get", strerror(-status));
	atomic_store((atomic_bool *)arg, true);
}

static void nap(void)
{
	(void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* ---- the peers ------------------------------------------------------------------------------- */

static void be_peers(unsigned first, unsigned count)
{
	struct hk_worker *w[OF_PROCESS];
	hk_peer rank[OF_PROCESS];
	struct hk_op op[OF_PROCESS];
	bool started[OF_PROCESS] = {false};
	void *sent = calloc(1, bytes), *got = malloc(bytes);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!sent || !got)
		fail("memory", strerror(errno));
	for (unsigned i = 0; i < count; i++) {
		w[i] = open_worker(first + i + 2, PEER_BUFFERS, sent, &shared->peer[first + i]);
		atomic_fetch_add(&shared->open, 1);
	}
	while (!atomic_load(&shared->known))
		nap();
	for (unsigned i = 0; i < count; i++)
		rank[i] = add(w[i], &shared->rank);
	for (;;) { /* until our parent ends */
		unsigned moved = 0;

		for (unsigned i = 0; i < count; i++) {
			struct endpoint *mine = &shared->peer[first + i];

			moved += hk_worker_progress(w[i]);
			if (started[i] || !atomic_load(&mine->go))
				continue;
			started[i] = true;
			if (hk_worker_get(w[i], rank[i], &op[i], got, bytes, shared->rank.region, 0,
					  on_get, &mine->done) != 0)
				fail("a get", "the rank is not connected");
		}
		if (moved == 0)
			nap();
	}
}

/* ---- the rank -------------------------------------------------------------------------------- */

struct exchange {
	struct hk_op op;
	atomic_bool got;
	struct endpoint *with;
};

/* Ends this process if a process of peers has ended, or the time has. */
static void check(time_t end, unsigned done, unsigned count)
{
	char text[64];

	if (waitpid(-1, NULL, WNOHANG) > 0)
		fail("the exchange", "a process with peers has ended");
	if (time(NULL) <= end)
		return;
	snprintf(text, sizeof(text), "%u of %u peers are done after %d s", done, count, TIMEOUT_S);
	fail("the exchange", text);
}

/* Exchanges with the peers from @first on up to @last. */
static void exchange(struct hk_worker *w, unsigned first, unsigned last, void *to)
{
	struct exchange x[AT_ONCE] = {0};
	unsigned next = first, done = first;
	time_t end = time(NULL) + TIMEOUT_S;

	while (done < last) {
		for (unsigned i = 0; i < AT_ONCE; i++) {
			struct exchange *e = &x[i];

			if (e->with && atomic_load(&e->got) && atomic_load(&e->with->done)) {
				e->with = NULL;
				done++;
			}
			if (e->with || next == last)
				continue;
			e->with = &shared->peer[next++];
			atomic_store(&e->got, false);
			hk_peer peer = add(w, e->with);

			atomic_store(&e->with->go, true);
			if (hk_worker_get(w, peer, &e->op, to, bytes, e->with->region, 0, on_get,
					  &e->got) != 0)
				fail("a get", "the peer is not connected");
		}
		hk_worker_progress(w);
		check(end, done, last);
	}
}

static void print_memory(unsigned peers)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	printf("{\"metric\":\"resident_MB\",\"peers\":%u,\"value\":%.1f}\n", peers,
	       (double)u.ru_maxrss / 1024);
	fflush(stdout);
}

static void be_rank(unsigned peers)
{
	void *sent = calloc(1, bytes), *got = malloc(bytes);
	time_t end = time(NULL) + TIMEOUT_S;

	if (!sent || !got)
		fail("memory", strerror(errno));
	struct hk_worker *w = open_worker(1, RANK_BUFFERS, sent, &shared->rank);

	while (atomic_load(&shared->open) < peers) {
		nap();
		check(end, 0, peers);
	}
	atomic_store(&shared->known, true);
	exchange(w, 0, 1, got);
	print_memory(1);
	exchange(w, 1, peers, got);
	print_memory(peers);
	hk_worker_close(w, 0);
}

int main(int argc, char **argv)
{
	unsigned peers = 1000, children = 0;
	pid_t child[PEERS_MAX / OF_PROCESS + 1];

	for (int i = 1; i < argc; i += 2) {
		if (i + 1 < argc && strcmp(argv[i], "--peers") == 0)
			peers = hk_argument_number(PROGRAM, "--peers", argv[i + 1], 1, PEERS_MAX);
		else if (i + 1 < argc && strcmp(argv[i], "--bytes") == 0)
			bytes = hk_argument_number(PROGRAM, "--bytes", argv[i + 1], 1, 64 << 20);
		else {
			fprintf(stderr, "usage: " PROGRAM " [--peers N] [--bytes N]\n");
			return 2;
		}
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		fail("memory", strerror(errno));
	for (unsigned first = 0; first < peers; first += OF_PROCESS) {
		unsigned count = peers - first < OF_PROCESS ? peers - first : OF_PROCESS;
		pid_t pid = fork();

		if (pid < 0)
			fail("a process", strerror(errno));
		if (pid == 0)
			be_peers(first, count);
		child[children++] = pid;
	}
	be_rank(peers);
	for (unsigned i = 0; i < children; i++) {
		kill(child[i], SIGKILL);
		(void)waitpid(child[i], NULL, 0);
	}
	return 0;
}

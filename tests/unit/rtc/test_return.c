/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/test_return.c: nodes that are killed and restart, over the kernel backends.
 *
 * Each node is a process, and reads the addresses from a file, so that it may start at any time.
 * This process is node 0. It asks the others for the square of a number, in messages of class
 * HK_RTC_RETRY. All run in a network namespace of their own (veth_rig.c), so their ports are always
 * free.
 */
#include "hikyaku/error.h"
#include "hikyaku/rtc.h"
#include "tests/support/await.h"
#include "tests/support/child.h"
#include "tests/support/net.h"
#include "tests/unit/rtc/veth_rig.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#define NODES   3
#define SQUARE  7
#define WAIT_MS 20000

static char peers[64]; /* path of a file without a name, which disappears with this process */
static pid_t child[NODES];
static struct hk_rtc *rtc;
static unsigned replies[NODES], joined[NODES], left[NODES];

static void on_message(struct hk_rtc *r, void *arg, struct hk_msg *msg, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t v;
		if (msg[i].len != sizeof(v))
			continue;
		memcpy(&v, msg[i].data, sizeof(v));
		v *= v;
		memcpy(msg[i].data, &v, sizeof(v));
		msg[i].action = HK_RTC_REPLY;
	}
}

static void on_reply(struct hk_rtc *r, void *arg, struct hk_msg *msg, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t v;
		CHECK_EQ(msg[i].len, sizeof(v));
		memcpy(&v, msg[i].data, sizeof(v));
		CHECK_EQ(v, 12345ull * 12345);
		replies[msg[i].src]++;
	}
}

static void on_member(struct hk_rtc *r, void *arg, uint16_t node, bool here)
{
	++(here ? joined : left)[node];
}

static struct hk_rtc *open_node(unsigned node, const char *backend)
{
	static const char *const veths[NODES] = {"h0", "h1", "h2"};
	static const struct hk_rtc_type square = {
		.name = "square",
		.class = HK_RTC_RETRY,
		.on_message = on_message,
		.on_reply = on_reply,
	};
	struct hk_rtc_config cfg;
	struct hk_rtc *r;

	hk_rtc_defaults(&cfg);
	cfg.backend = backend;
	cfg.address = strcmp(backend, "raw") == 0 ? veths[node] : NULL; /* others: from the file */
	cfg.peers_file = peers;
	cfg.node = (uint16_t)node;
	cfg.nodes = NODES;
	cfg.key = 77;
	cfg.alive_ms = 20;
	cfg.on_member = on_member;
	CHECK_OK(hk_rtc_open(&cfg, &r, ERR));
	CHECK_OK(hk_rtc_register(r, SQUARE, &square, ERR));
	return r;
}

/* A separate program, because a forked child would keep this node's sockets open. */
static void start(unsigned node, const char *backend)
{
	char number[4];

	snprintf(number, sizeof(number), "%u", node);
	child[node] = child_fork();
	if (child[node] > 0)
		return;
	execl("/proc/self/exe", "test_rtc_return", "--role", "node", number, backend, peers,
	      (char *)NULL);
	_exit(1);
}

/* The program of such a node. Its arguments are its number, the backend and the path of the
 * addresses. */
ROLE(node)
{
	snprintf(peers, sizeof(peers), "%s", argv[2]);
	struct hk_rtc *r = open_node((unsigned)atoi(argv[0]), argv[1]);
	for (;;)
		if (hk_rtc_poll(r) == 0)
			sched_yield();
}

static void kill_node(unsigned node)
{
	child_kill(child[node]);
	child[node] = 0;
}

/* Polls until *@count exceeds @before. */
static void await(const unsigned *count, unsigned before, const char *what, unsigned node)
{
	for (int64_t end = hk_clock_ms() + WAIT_MS; *count <= before; sched_yield()) {
		hk_rtc_poll(rtc);
		CHECK_MSG(hk_clock_ms() < end, "node %u: %s", node, what);
	}
}

/* Asks @node and waits for the reply. */
static void ask(unsigned node)
{
	const uint64_t v = 12345;
	unsigned before = replies[node];

	CHECK_EQ(hk_rtc_send(rtc, (uint16_t)node, SQUARE, &v, sizeof(v), NULL), 0);
	await(&replies[node], before, "no reply", node);
}

static void write_peers(const char *backend)
{
	bool raw = strcmp(backend, "raw") == 0;
	FILE *f = fopen(peers, "w");

	CHECK(f != NULL);
	for (unsigned i = 0; i < NODES; i++)
		fprintf(f, raw ? "%u 02:00:00:00:00:%02x\n" : "%u 127.0.0.1:47%02u\n", i, i);
	CHECK(fclose(f) == 0);
}

static void go(const char *backend)
{
	memset(joined, 0, sizeof(joined));
	memset(left, 0, sizeof(left));
	write_peers(backend);
	start(1, backend);
	rtc = open_node(0, backend);
	await(&joined[1], 0, "is not there", 1);
	ask(1);
	start(2, backend); /* it starts late */
	await(&joined[2], 0, "is not there", 2);
	for (unsigned turn = 0; turn < 4; turn++) {
		unsigned node = 1 + turn % 2, other = 3 - node, gone = left[node];
		unsigned came = joined[node];
		ask(node);
		kill_node(node);
		ask(other);
		await(&left[node], gone, "is still a member", node);
		ask(other);
		start(node, backend);
		await(&joined[node], came, "does not come back", node);
		ask(node);
		ask(other);
	}
	/* this node leaves and comes back */
	hk_rtc_close(rtc);
	memset(joined, 0, sizeof(joined));
	rtc = open_node(0, backend);
	for (unsigned node = 1; node < NODES; node++) {
		await(&joined[node], 0, "does not come", node);
		ask(node);
	}
	hk_rtc_close(rtc);
	kill_node(1);
	kill_node(2);
}

TEST(udp)
{
	go("udp");
}

TEST(tcp)
{
	go("tcp");
}

TEST(tcp_batch)
{
	go("tcp:batch=1");
}

TEST(raw)
{
	go("raw");
}

BEFORE_ALL()
{
	int fd = memfd_create("peers", MFD_CLOEXEC);

	CHECK(fd >= 0);
	snprintf(peers, sizeof(peers), "/proc/%d/fd/%d", getpid(), fd);
	veth_rig_make();
	shell("ip link set lo up");
	for (unsigned i = 0; i < NODES; i++)
		shell("ip link set h%u address 02:00:00:00:00:%02x", i, i);
}

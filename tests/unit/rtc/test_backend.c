/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/test_backend.c: what every backend of the kernel must do, by rtc/backend.h alone.
 *
 * Built once for each: BACKEND and OPTION say which. udp and tcp are tried over loopback; raw over veths
 * and a bridge in a network namespace that this process makes for itself (veth_rig.c).
 */
#include "tests/unit/rtc/backend_rig.h"
#include "tests/unit/rtc/veth_rig.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT HK_RTC_BURST /* buffers that a backend has ready to receive into */

static struct rig rig;

static bool is_raw(void)
{
	return strcmp(BACKEND.name, "raw") == 0;
}

/* A stream neither loses nor mixes up; datagrams go lost when a queue is full. */
static bool is_stream(void)
{
	return strcmp(BACKEND.name, "tcp") == 0;
}

static void up(unsigned nodes, void (*change)(struct hk_rtc_config *))
{
	static const char *const loopback[] = {"127.0.0.1", NULL};
	static const char *const veths[] = {"h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", NULL};

	if (is_raw())
		veth_rig_make();
	rig_up(&rig, &BACKEND, OPTION, nodes, is_raw() ? veths : loopback, change);
	rig_meet(&rig, (1u << nodes) - 1);
}

static void down(void)
{
	for (unsigned i = 0; i < rig.nodes; i++)
		rig_all_free(&rig, i, KEPT);
	rig_down(&rig);
}

/* Waits for message @number at @node, while all poll. */
static void await(unsigned node, uint32_t number)
{
	int64_t end = rig_ms() + RIG_MS;
	uint32_t got[HK_RTC_BURST];

	for (;;) {
		CHECK_MSG(rig_ms() < end, "message %u did not come", number);
		unsigned n = rig_rx(&rig, node, got);
		for (unsigned i = 0; i < n; i++)
			if (got[i] == number)
				return;
	}
}

static void sizes(void)
{
	up(2, NULL);
	unsigned most = rig.b[0]->payload_max;
	CHECK_CMP(most, >=, 1400);
	for (unsigned len = 0; len <= most; len += len < 128 || len + 40 > most ? 1 : 37) {
		CHECK(rig_send(&rig, 0, 1, len, len));
		await(1, len);
		CHECK(rig_send(&rig, 1, 0, len, len));
		await(0, len);
	}
	CHECK_EQ(rig.b[0]->tx_full + rig.b[1]->tx_full, 0);
	down();
}

/* 32 at a time, of mixed sizes, to mixed nodes; each comes once and whole. */
static void bursts(void)
{
	enum { NODES = 3, ROUNDS = 400, MOST = ROUNDS * HK_RTC_BURST };
	static uint8_t seen[NODES][MOST];
	unsigned sent = 0, come = 0;

	up(NODES, NULL);
	memset(seen, 0, sizeof(seen));
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct hk_rtc_buf *m[HK_RTC_BURST];
		uint32_t number[HK_RTC_BURST];
		unsigned n = (unsigned)hk_rng_range(&hk_test_rng, 1, HK_RTC_BURST);
		unsigned from = round % NODES;
		CHECK_EQ(BACKEND.alloc(rig.b[from], m, n), n);
		for (unsigned i = 0; i < n; i++) {
			unsigned to = (from + 1 + (unsigned)hk_rng_below(&hk_test_rng, NODES - 1)) %
				      NODES;
			unsigned len = (unsigned)hk_rng_below(&hk_test_rng,
							      hk_rng_chance(&hk_test_rng, 100000)
								      ? rig.b[0]->payload_max + 1
								      : 100);
			rig_fill(m[i], from, to, sent++, len);
		}
		BACKEND.tx(rig.b[from], m, n);
		/* all of them, so that no queue of the kernel can be full */
		int64_t end = rig_ms() + RIG_MS;
		while (come < sent) {
			CHECK_MSG(rig_ms() < end, "%u of %u messages have come", come, sent);
			for (unsigned node = 0; node < NODES; node++) {
				unsigned got = rig_rx(&rig, node, number);
				for (unsigned i = 0; i < got; i++)
					CHECK_EQ(seen[node][number[i]]++, 0);
				come += got;
			}
		}
	}
	CHECK_EQ(come, sent);
	down();
}

static void copies_stay(void)
{
	struct hk_rtc_buf *m[4];

	up(2, NULL);
	CHECK_EQ(BACKEND.alloc(rig.b[0], m, 4), 4);
	for (unsigned i = 0; i < 4; i++)
		rig_fill(m[i], 0, 1, 70 + i, 100);
	for (unsigned twice = 0; twice < 2; twice++) {
		BACKEND.tx_copy(rig.b[0], m, 4);
		for (unsigned i = 0; i < 4; i++) {
			unsigned from, len;
			await(1, 73);
			CHECK_EQ(rig_check(1, m[i], &from, &len), 70 + i);
			if (i == 0)
				break; /* the others came with it or before it */
		}
	}
	BACKEND.free(rig.b[0], m, 4);
	down();
}

/* Nobody receives: what finds no room is dropped and counted, and then all goes on. */
static void full_queues(void)
{
	enum { MOST = 60000 };
	uint32_t number[HK_RTC_BURST];
	unsigned come = 0, quiet = 0;
	int64_t end = rig_ms() + 3 * RIG_MS;
	uint32_t next = 0;

	up(2, NULL);
	while (next < MOST && rig.b[0]->tx_full < 100) {
		struct hk_rtc_buf *m[HK_RTC_BURST];
		CHECK_EQ(BACKEND.alloc(rig.b[0], m, HK_RTC_BURST), HK_RTC_BURST);
		for (unsigned i = 0; i < HK_RTC_BURST; i++)
			rig_fill(m[i], 0, 1, next++, 1000);
		BACKEND.tx(rig.b[0], m, HK_RTC_BURST);
	}
	if (is_stream())
		CHECK_CMP(rig.b[0]->tx_full, >=, 100);
	uint64_t last = 0;
	while (quiet < 1000 && (!is_stream() || come + rig.b[0]->tx_full < next)) {
		CHECK_MSG(rig_ms() < end, "%u of %u have come", come, next);
		unsigned n = rig_rx(&rig, 1, number);
		rig_rx(&rig, 0, NULL); /* it sends what waits */
		for (unsigned i = 0; i < n; i++) {
			CHECK(come + i == 0 || number[i] > last || !is_stream());
			last = number[i];
		}
		come += n;
		quiet = n || is_stream() ? 0 : quiet + 1;
	}
	CHECK_CMP(come, >, 100);
	if (is_stream())
		CHECK_EQ(come + rig.b[0]->tx_full, next);
	rig_meet(&rig, 3);
	down();
}

static bool finished; /* atomically */

static void *send_all(void *arg)
{
	uint32_t *sent = arg;

	while (*sent < 50000) {
		struct hk_rtc_buf *m[HK_RTC_BURST];
		unsigned n = BACKEND.alloc(rig.b[0], m, HK_RTC_BURST);
		for (unsigned i = 0; i < n; i++, ++*sent)
			rig_fill(m[i], 0, 1, *sent, *sent % 1400);
		BACKEND.tx(rig.b[0], m, n);
		rig_rx(&rig, 0, NULL);
	}
	__atomic_store_n(&finished, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Sender and receiver at full speed on two cores: whatever comes is whole, and in order. */
static void two_threads(void)
{
	uint32_t sent = 0, last = 0, number[HK_RTC_BURST];
	unsigned come = 0;
	pthread_t thread;
	bool done;

	up(2, NULL);
	finished = false;
	CHECK(pthread_create(&thread, NULL, send_all, &sent) == 0);
	do {
		done = __atomic_load_n(&finished, __ATOMIC_ACQUIRE);
		unsigned n = rig_rx(&rig, 1, number);
		for (unsigned i = 0; i < n; i++) {
			CHECK(come + i == 0 || number[i] > last);
			last = number[i];
		}
		come += n;
		done &= n == 0;
	} while (!done);
	pthread_join(thread, NULL);
	CHECK_CMP(come, >, 1000);
	CHECK_CMP(come, <=, sent - rig.b[0]->tx_full);
	down();
}

/* All buffers are in other hands: nothing is lost for good, and no_buffer counts. */
static void no_buffers(void)
{
	struct hk_rtc_buf *m[1024], *in[HK_RTC_BURST];
	unsigned held = 0, come = 0, got;

	up(2, NULL);
	while ((got = BACKEND.alloc(rig.b[1], m + held, 16)) > 0)
		held += got;
	uint64_t before = rig.b[1]->no_buffer;
	for (unsigned i = 0; i < 2 * HK_RTC_BURST; i++)
		CHECK(rig_send(&rig, 0, 1, i, 10));
	/* those that it keeps ready may still come, and stay in our hands */
	int64_t end = rig_ms() + RIG_MS;
	while (rig.b[1]->no_buffer == before) {
		CHECK_MSG(rig_ms() < end, "no_buffer does not count");
		got = BACKEND.rx(rig.b[1], in, HK_RTC_BURST);
		memcpy(m + held, in, got * sizeof(in[0]));
		held += got;
		come += got;
	}
	CHECK_CMP(come, <=, KEPT);
	CHECK_EQ(rig_rx(&rig, 1, NULL), 0);
	BACKEND.free(rig.b[1], m, held);
	rig_meet(&rig, 3);
	down();
}

/* A node dies and comes back at its old address; the others go on meanwhile. */
static void death_and_return(void)
{
	up(3, NULL);
	for (unsigned turn = 0; turn < 4; turn++) {
		unsigned node = turn % 3, others = 7u & ~(1u << node);
		rig_close(&rig, node);
		for (unsigned i = 0; i < 3; i++)
			if (i != node)
				for (unsigned k = 0; k < 40; k++)
					rig_send(&rig, i, node, k, 200); /* to nobody */
		rig_meet(&rig, others);
		rig_reopen(&rig, node);
		rig_meet(&rig, 7);
	}
	down();
}

static void nodes_that_do_not_exist(void)
{
	struct hk_error err;
	struct hk_rtc_buf *buf;

	up(2, NULL);
	CHECK_EQ(BACKEND.peer(rig.b[0], 2, rig.address[1], &err), -ERANGE);
	CHECK_EQ(BACKEND.peer(rig.b[0], 1, "nowhere", &err), -EINVAL);
	CHECK(strstr(err.text, "nowhere") && strstr(err.text, "fix: "));
	CHECK_EQ(BACKEND.peer(rig.b[0], 1, rig.address[1], &err), 0);
	uint64_t before = rig.b[0]->tx_full;
	const uint16_t to[] = {2, 1024, UINT16_MAX};
	for (unsigned i = 0; i < HK_ARRAY_LEN(to); i++) {
		CHECK_EQ(BACKEND.alloc(rig.b[0], &buf, 1), 1);
		rig_fill(buf, 0, to[i], 1, 10);
		BACKEND.tx(rig.b[0], &buf, 1);
	}
	CHECK_EQ(rig.b[0]->tx_full, before + 3);
	rig_meet(&rig, 3);
	down();
}

static void many_nodes(void)
{
	up(RIG_NODES, NULL);
	for (unsigned turn = 0; turn < 5; turn++)
		rig_meet(&rig, (1u << RIG_NODES) - 1);
	down();
}

static void small(struct hk_rtc_config *cfg)
{
	cfg->payload_max = 100;
	cfg->buffers = 64;
}

static void options(void)
{
	struct hk_rtc_config cfg = {.nodes = 2, .key = RIG_KEY, .payload_max = 1u << 17};
	struct hk_rtc_backend *b = NULL;
	struct hk_error err;

	up(2, small);
	CHECK_EQ(rig.b[0]->payload_max, 100);
	CHECK_CMP(rig.b[0]->buffers, <=, 64 + KEPT);
	cfg.address = is_raw() ? "h2" : "127.0.0.1";
	CHECK_EQ(BACKEND.open(&cfg, OPTION, &b, &err), -EMSGSIZE);
	CHECK(strstr(err.text, "payload_max 131072") && strstr(err.text, "fix: "));
	cfg.payload_max = 0;
	CHECK_EQ(BACKEND.open(&cfg, "colour=red", &b, &err), -EINVAL);
	CHECK(strstr(err.text, "colour=red") != NULL);
	cfg.address = "nosuch0";
	CHECK_CMP(BACKEND.open(&cfg, OPTION, &b, &err), <, 0);
	CHECK(strstr(err.text, "nosuch0") && strstr(err.text, "fix: "));
	if (!is_raw()) {
		cfg.address = rig.address[0]; /* in use */
		CHECK_EQ(BACKEND.open(&cfg, OPTION, &b, &err), -EADDRINUSE);
		CHECK(strstr(err.text, rig.address[0]) != NULL);
		const char *const bad[] = {"127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", ":5",
					   "::1",        "0.0.0.0",     "192.0.2.1",       ""};
		for (unsigned i = 0; i < HK_ARRAY_LEN(bad); i++) {
			cfg.address = bad[i];
			CHECK_CMP(BACKEND.open(&cfg, OPTION, &b, &err), <, 0);
			CHECK(strstr(err.text, bad[i]) != NULL);
		}
		const char *const no_peer[] = {"127.0.0.1", "127.0.0.1:0", "0.0.0.0:1", "lo:1"};
		for (unsigned i = 0; i < HK_ARRAY_LEN(no_peer); i++)
			CHECK_EQ(BACKEND.peer(rig.b[0], 1, no_peer[i], &err), -EINVAL);
		CHECK_EQ(BACKEND.peer(rig.b[0], 1, rig.address[1], &err), 0);
		cfg.address = "lo:0";
		CHECK_EQ(BACKEND.open(&cfg, OPTION, &b, &err), 0);
		BACKEND.close(b);
	}
	CHECK(b == NULL || !is_raw());
	down();
}

/* In a process that has no rights at all. */
static int open_without_rights(const struct hk_rtc_config *cfg)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};
	struct hk_rtc_backend *b;
	struct hk_error err;

	if (syscall(SYS_capset, &head, none) != 0)
		return 1;
	if (BACKEND.open(cfg, "", &b, &err) != -EPERM)
		return 2;
	return strstr(err.text, "cap_net_raw+ep") ? 0 : 3;
}

static void raw_interfaces(void)
{
	struct hk_rtc_config cfg = {.nodes = 2, .buffers = 64};
	struct hk_rtc_backend *b = NULL;
	struct hk_error err;
	int status;

	if (!is_raw())
		return;
	up(2, NULL);
	CHECK_EQ(BACKEND.peer(rig.b[0], 1, rig.address[0], &err), -EADDRINUSE);
	CHECK(strstr(err.text, "same interface") && strstr(err.text, "h0"));
	const char *const bad[] = {"02:00:00:00:00",    "02:00:00:00:00:0",  "02:00:00:00:00:001",
				   "03:00:00:00:00:01", "ff:ff:ff:ff:ff:ff", ""};
	for (unsigned i = 0; i < HK_ARRAY_LEN(bad); i++)
		CHECK_EQ(BACKEND.peer(rig.b[0], 1, bad[i], &err), -EINVAL);
	CHECK_EQ(BACKEND.peer(rig.b[0], 1, rig.address[1], &err), 0);
	rig_meet(&rig, 3);
	down();

	cfg.address = "lo";
	CHECK_EQ(BACKEND.open(&cfg, "", &b, &err), -ENETDOWN);
	CHECK(strstr(err.text, "ip link set lo up") != NULL);
	veth_rig_ip("link set lo up");
	CHECK_EQ(BACKEND.open(&cfg, "", &b, &err), -EINVAL);
	CHECK(strstr(err.text, "no Ethernet") != NULL);
	cfg.address = "an-interface-with-a-long-name";
	CHECK_EQ(BACKEND.open(&cfg, "", &b, &err), -EINVAL);

	/* payloads follow the MTU */
	veth_rig_ip("link set h5 mtu 9000");
	cfg.address = "h5";
	CHECK_EQ(BACKEND.open(&cfg, "", &b, &err), 0);
	CHECK_EQ(b->payload_max, 9000 - HK_MSG_HLEN);
	BACKEND.close(b);
	cfg.payload_max = 9000 - HK_MSG_HLEN + 1;
	CHECK_EQ(BACKEND.open(&cfg, "", &b, &err), -EMSGSIZE);
	CHECK(strstr(err.text, "8982") != NULL);
	cfg.payload_max = 0;

	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(open_without_rights(&cfg));
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"sizes", sizes},
		{"bursts", bursts},
		{"copies_stay", copies_stay},
		{"full_queues", full_queues},
		{"two_threads", two_threads},
		{"no_buffers", no_buffers},
		{"death_and_return", death_and_return},
		{"nodes_that_do_not_exist", nodes_that_do_not_exist},
		{"many_nodes", many_nodes},
		{"options", options},
		{"raw_interfaces", raw_interfaces},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

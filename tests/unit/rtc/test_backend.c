/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/test_backend.c: tests every kernel backend by rtc/backend.h alone.
 *
 * The program is built once for each; BACKEND and OPTION name it. udp and tcp use loopback. raw
 * uses veths and a bridge, in a network namespace that this process makes (veth_rig.c).
 */
#include "tests/support/child.h"
#include "tests/support/net.h"
#include "tests/unit/rtc/backend_rig.h"
#include "tests/unit/rtc/veth_rig.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEPT HK_RTC_BURST /* buffers that a backend keeps for reception */

static struct rig rig;

static bool is_raw(void)
{
	return strcmp(BACKEND.name, "raw") == 0;
}

/* A stream neither loses nor reorders messages; a full queue loses datagrams. */
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

/* Waits for message @number at @node. */
static void await(unsigned node, uint32_t number)
{
	uint32_t got[HK_RTC_BURST];
	bool came = false;

	AWAIT(RIG_MS, came, {
		unsigned n = rig_rx(&rig, node, got);
		for (unsigned i = 0; i < n; i++)
			came |= got[i] == number;
	});
}

TEST(sizes)
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

/* Sends bursts of mixed sizes to mixed nodes; each message arrives once and complete. */
TEST(bursts)
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
		/* receive all of them, so that no kernel queue is full */
		AWAIT(RIG_MS, come >= sent, {
			for (unsigned node = 0; node < NODES; node++) {
				unsigned got = rig_rx(&rig, node, number);
				for (unsigned i = 0; i < got; i++)
					CHECK_EQ(seen[node][number[i]]++, 0);
				come += got;
			}
		});
	}
	CHECK_EQ(come, sent);
	down();
}

TEST(copies_stay)
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

/* No node receives: messages without space are dropped and counted. Then everything works again. */
TEST(full_queues)
{
	enum { MOST = 60000 };
	uint32_t number[HK_RTC_BURST];
	unsigned come = 0, quiet = 0;
	int64_t end = hk_clock_ms() + 3 * RIG_MS;
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
		CHECK_MSG(hk_clock_ms() < end, "%u of %u have come", come, next);
		unsigned n = rig_rx(&rig, 1, number);
		rig_rx(&rig, 0, NULL); /* also sends what waits */
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

static bool finished; /* accessed atomically */

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

/* Sender and receiver at full speed on two cores: each message that arrives is complete and in
 * order. */
TEST(two_threads)
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

/* All buffers are in use: no_buffer counts, and nothing is lost permanently. */
TEST(no_buffers)
{
	struct hk_rtc_buf *m[1024], *in[HK_RTC_BURST];
	unsigned held = 0, come = 0, got;

	up(2, NULL);
	while ((got = BACKEND.alloc(rig.b[1], m + held, 16)) > 0)
		held += got;
	uint64_t before = rig.b[1]->no_buffer;
	for (unsigned i = 0; i < 2 * HK_RTC_BURST; i++)
		CHECK(rig_send(&rig, 0, 1, i, 10));
	/* messages may still arrive in the buffers that the backend keeps */
	AWAIT(RIG_MS, rig.b[1]->no_buffer > before, {
		got = BACKEND.rx(rig.b[1], in, HK_RTC_BURST);
		memcpy(m + held, in, got * sizeof(in[0]));
		held += got;
		come += got;
	});
	CHECK_CMP(come, <=, KEPT);
	CHECK_EQ(rig_rx(&rig, 1, NULL), 0);
	BACKEND.free(rig.b[1], m, held);
	rig_meet(&rig, 3);
	down();
}

/* A node ends and comes back at its old address; the others go on. */
TEST(death_and_return)
{
	up(3, NULL);
	for (unsigned turn = 0; turn < 4; turn++) {
		unsigned node = turn % 3, others = 7u & ~(1u << node);
		rig_close(&rig, node);
		for (unsigned i = 0; i < 3; i++)
			if (i != node)
				for (unsigned k = 0; k < 40; k++)
					rig_send(&rig, i, node, k, 200); /* the node is closed */
		rig_meet(&rig, others);
		rig_reopen(&rig, node);
		rig_meet(&rig, 7);
	}
	down();
}

TEST(nodes_that_do_not_exist)
{
	struct hk_rtc_buf *buf;

	up(2, NULL);
	CHECK_EQ(BACKEND.peer(rig.b[0], 2, rig.address[1], ERR), -ERANGE);
	CHECK_REFUSED(BACKEND.peer(rig.b[0], 1, "nowhere", ERR), -EINVAL, "nowhere", "fix: ");
	CHECK_OK(BACKEND.peer(rig.b[0], 1, rig.address[1], ERR));
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

TEST(many_nodes)
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

TEST(options)
{
	struct hk_rtc_config cfg = {.nodes = 2, .key = RIG_KEY, .payload_max = 1u << 17};
	struct hk_rtc_backend *b = NULL;

	up(2, small);
	CHECK_EQ(rig.b[0]->payload_max, 100);
	CHECK_CMP(rig.b[0]->buffers, <=, 64 + KEPT);
	cfg.address = is_raw() ? "h2" : "127.0.0.1";
	CHECK_REFUSED(BACKEND.open(&cfg, OPTION, &b, ERR), -EMSGSIZE, "payload_max 131072",
		      "fix: ");
	cfg.payload_max = 0;
	CHECK_REFUSED(BACKEND.open(&cfg, "colour=red", &b, ERR), -EINVAL, "colour=red");
	cfg.address = "nosuch0";
	CHECK_CMP(BACKEND.open(&cfg, OPTION, &b, ERR), <, 0);
	CHECK_HAS(hk_test_err.text, "nosuch0", "fix: ");
	if (!is_raw()) {
		cfg.address = rig.address[0]; /* in use */
		CHECK_REFUSED(BACKEND.open(&cfg, OPTION, &b, ERR), -EADDRINUSE, rig.address[0]);
		const char *const bad[] = {"127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", ":5",
					   "::1",        "0.0.0.0",     "192.0.2.1",       ""};
		for (unsigned i = 0; i < HK_ARRAY_LEN(bad); i++) {
			cfg.address = bad[i];
			CHECK_CMP(BACKEND.open(&cfg, OPTION, &b, ERR), <, 0);
			CHECK_HAS(hk_test_err.text, bad[i]);
		}
		const char *const no_peer[] = {"127.0.0.1", "127.0.0.1:0", "0.0.0.0:1", "lo:1"};
		for (unsigned i = 0; i < HK_ARRAY_LEN(no_peer); i++)
			CHECK_EQ(BACKEND.peer(rig.b[0], 1, no_peer[i], ERR), -EINVAL);
		CHECK_OK(BACKEND.peer(rig.b[0], 1, rig.address[1], ERR));
		cfg.address = "lo:0";
		CHECK_OK(BACKEND.open(&cfg, OPTION, &b, ERR));
		BACKEND.close(b);
	}
	CHECK(b == NULL || !is_raw());
	down();
}

/* Opens the backend in a process without any rights. */
static void open_without_rights(const struct hk_rtc_config *cfg)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};
	struct hk_rtc_backend *b;

	CHECK_EQ(syscall(SYS_capset, &head, none), 0);
	CHECK_REFUSED(BACKEND.open(cfg, "", &b, ERR), -EPERM, "use backend udp");
}

TEST(raw_interfaces)
{
	struct hk_rtc_config cfg = {.nodes = 2, .buffers = 64};
	struct hk_rtc_backend *b = NULL;

	if (!is_raw())
		return;
	up(2, NULL);
	CHECK_REFUSED(BACKEND.peer(rig.b[0], 1, rig.address[0], ERR), -EADDRINUSE, "same interface",
		      "h0");
	const char *const bad[] = {"02:00:00:00:00",    "02:00:00:00:00:0",  "02:00:00:00:00:001",
				   "03:00:00:00:00:01", "ff:ff:ff:ff:ff:ff", ""};
	for (unsigned i = 0; i < HK_ARRAY_LEN(bad); i++)
		CHECK_EQ(BACKEND.peer(rig.b[0], 1, bad[i], ERR), -EINVAL);
	CHECK_OK(BACKEND.peer(rig.b[0], 1, rig.address[1], ERR));
	rig_meet(&rig, 3);
	down();

	cfg.address = "lo";
	CHECK_REFUSED(BACKEND.open(&cfg, "", &b, ERR), -ENETDOWN, "ip link set lo up");
	shell("ip link set lo up");
	CHECK_REFUSED(BACKEND.open(&cfg, "", &b, ERR), -EINVAL, "not an Ethernet");
	cfg.address = "an-interface-with-a-long-name";
	CHECK_REFUSED(BACKEND.open(&cfg, "", &b, ERR), -ENODEV, "no interface", "fix: use one of");

	/* payload_max follows the MTU */
	shell("ip link set h5 mtu 9000");
	cfg.address = "h5";
	CHECK_OK(BACKEND.open(&cfg, "", &b, ERR));
	CHECK_EQ(b->payload_max, 9000 - HK_MSG_HLEN);
	BACKEND.close(b);
	cfg.payload_max = 9000 - HK_MSG_HLEN + 1;
	CHECK_REFUSED(BACKEND.open(&cfg, "", &b, ERR), -EMSGSIZE, "8982");
	cfg.payload_max = 0;

	pid_t child = child_fork();
	if (child == 0) {
		open_without_rights(&cfg);
		_exit(0);
	}
	child_ends_well(child);
}

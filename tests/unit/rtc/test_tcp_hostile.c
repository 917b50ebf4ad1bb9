/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/test_tcp_hostile.c: false connections to the tcp backend are closed, and no
 * others.
 *
 * Nodes 0, 1 and 2 run. A plain socket attacks, mostly node 1. After each attack all three nodes
 * must reach each other.
 */
#include "rtc/tcp.h"
#include "tests/unit/rtc/backend_rig.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ALL 7u

static struct rig rig;
static const char *connect_from = "127.0.0.1";

static void up(void)
{
	static const char *const loopback[] = {"127.0.0.1", NULL};

	rig_up(&rig, &hk_rtc_backend_tcp, hk_rng_below(&hk_test_rng, 2) ? "batch=1" : "", 3,
	       loopback, NULL);
	rig_meet(&rig, ALL);
}

static void down(void)
{
	for (unsigned i = 0; i < 3; i++)
		rig_all_free(&rig, i, 0);
	rig_down(&rig);
}

static void poll_all(void)
{
	for (unsigned i = 0; i < 3; i++)
		if (rig.b[i])
			rig_rx(&rig, i, NULL);
}

/* Opens a plain connection to @node. */
static int connect_to(unsigned node)
{
	struct sockaddr_in at,
		from = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(connect_from)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	CHECK(fd >= 0 && hk_rtc_inet_peer(rig.address[node], &at, ERR) == 0);
	CHECK(bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0);
	CHECK(connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0 || errno == EINPROGRESS);
	/* it waits while the listener's queue is full */
	AWAIT(RIG_MS, poll(&p, 1, 0) != 0, poll_all());
	return fd;
}

/* A valid greeting of node 0 after a restart. */
static struct hk_rtc_tcp_hello good_hello(void)
{
	return (struct hk_rtc_tcp_hello){
		.magic = {'H', 'K', 'r', 't'},
		.version = htole16(HK_RTC_TCP_VERSION),
		.src = htole16(0),
		.dst = htole16(1),
		.key = htole32(RIG_KEY),
		.incarnation = htole64(UINT64_MAX),
		.message_max = htole32(4096),
	};
}

static void send_bytes(int fd, const void *bytes, size_t len)
{
	/* the other end may have closed the connection already, which the test waits for */
	ssize_t r = send(fd, bytes, len, MSG_NOSIGNAL);
	CHECK(r == (ssize_t)len || r < 0);
}

/* Waits until the other end closes, while all nodes poll. Returns the number of bytes that came
 * before. */
static size_t await_end(int fd)
{
	uint8_t bytes[4096];
	size_t come = 0;
	ssize_t r = 1;

	AWAIT(RIG_MS, r == 0 || (r < 0 && errno != EAGAIN), {
		poll_all();
		r = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		come += r > 0 ? (size_t)r : 0;
	});
	close(fd);
	return come;
}

/* Sends @hello to node 1, which closes the connection without a reply. */
static void refused(const struct hk_rtc_tcp_hello *hello)
{
	uint64_t before = rig.b[1]->cut_off;
	int fd = connect_to(1);

	send_bytes(fd, hello, sizeof(*hello));
	CHECK_EQ(await_end(fd), 0);
	CHECK_EQ(rig.b[1]->cut_off, before + 1);
	rig_meet(&rig, ALL);
}

TEST(wrong_hellos)
{
	struct hk_rtc_tcp_hello h;

	up();
	for (unsigned i = 0; i < sizeof(h.magic); i++) {
		h = good_hello();
		h.magic[i] ^= 1;
		refused(&h);
	}
	h = good_hello(), h.version = htole16(3), refused(&h);
	h = good_hello(), h.key ^= 1, refused(&h);
	h = good_hello(), h.dst = htole16(2), refused(&h);
	h = good_hello(), h.src = htole16(1), refused(&h); /* node 1 itself */
	/* a node that never connects to node 1 */
	h = good_hello(), h.src = htole16(2), refused(&h);
	h = good_hello(), h.src = htole16(3), refused(&h); /* does not exist */
	h = good_hello(), h.src = UINT16_MAX, refused(&h);
	h = good_hello(), h.zero = 1, refused(&h);
	h = good_hello(), h.zero2 = 1, refused(&h);
	h = good_hello(), h.message_max = htole32(HK_MSG_HLEN - 1), refused(&h);
	h = good_hello(), h.incarnation = htole64(1), refused(&h); /* an earlier incarnation */
	/* from another address than node 0's */
	connect_from = "127.0.0.2";
	h = good_hello(), refused(&h);
	connect_from = "127.0.0.1";
	down();
}

TEST(silent_stranger)
{
	up();
	CHECK_EQ(await_end(connect_to(1)), 0);
	int fd = connect_to(1);
	send_bytes(fd, "HK", 2);
	CHECK_EQ(await_end(fd), 0);
	rig_meet(&rig, ALL);
	down();
}

/* More connections than entries, while a node comes back. */
TEST(crowd)
{
	int fd[3 * HK_RTC_TCP_INCOMING];

	up();
	for (unsigned i = 0; i < HK_ARRAY_LEN(fd); i++) {
		fd[i] = connect_to(1);
		poll_all();
	}
	rig_close(&rig, 0);
	rig_reopen(&rig, 0);
	rig_meet(&rig, ALL);
	for (unsigned i = 0; i < HK_ARRAY_LEN(fd); i++)
		close(fd[i]);
	rig_meet(&rig, ALL);
	down();
}

/* Takes node 0's place at node 1, which accepts it. */
static int impersonate(void)
{
	struct hk_rtc_tcp_hello h = good_hello(), back;
	size_t come = 0;
	int fd = connect_to(1);

	send_bytes(fd, &h, sizeof(h));
	AWAIT(RIG_MS, come >= sizeof(back), {
		rig_rx(&rig, 1, NULL);
		ssize_t r = recv(fd, (uint8_t *)&back + come, sizeof(back) - come, MSG_DONTWAIT);
		CHECK_MSG(r != 0, "it hangs up");
		come += r > 0 ? (size_t)r : 0;
	});
	CHECK(memcmp(back.magic, h.magic, sizeof(h.magic)) == 0);
	CHECK(back.src == h.dst && back.dst == h.src && back.key == h.key);
	return fd;
}

/* Sends a message with one corrupted byte; the connection is closed. */
static void send_corrupted(size_t at, uint8_t with)
{
	uint8_t bytes[HK_MSG_HLEN + 20];
	struct hk_rtc_buf buf = {.hdr = bytes};
	uint64_t before = rig.b[1]->cut_off;
	int fd = impersonate();

	rig_fill(&buf, 0, 1, 5, 20);
	send_bytes(fd, bytes, sizeof(bytes)); /* a valid message first */
	bytes[at] = with;
	send_bytes(fd, bytes, sizeof(bytes));
	await_end(fd);
	CHECK_CMP(rig.b[1]->cut_off, >, before); /* the real node 0 may have tried meanwhile */
	rig_meet(&rig, ALL);
}

TEST(wrong_framing)
{
	up();
	send_corrupted(0, HK_MSG_VERSION + 1);
	send_corrupted(0, 0);
	send_corrupted(3, 0xff); /* a length above the maximum */
	send_corrupted(4, 2);    /* node 2 as source */
	down();
}

/* Single bytes are slow but valid; closing within a message loses only that message. */
TEST(slow_peer)
{
	uint8_t bytes[HK_MSG_HLEN + 300];
	struct hk_rtc_buf buf = {.hdr = bytes};
	uint32_t number[HK_RTC_BURST] = {0};
	unsigned come = 0;

	up();
	int fd = impersonate();
	rig_fill(&buf, 0, 1, 77, 300);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		CHECK_EQ(come, 0);
		send_bytes(fd, bytes + i, 1);
		come += rig_rx(&rig, 1, number);
	}
	AWAIT(RIG_MS, come > 0, come += rig_rx(&rig, 1, number));
	CHECK(come == 1 && number[0] == 77);
	send_bytes(fd, bytes, sizeof(bytes) / 2);
	shutdown(fd, SHUT_WR);
	await_end(fd);
	rig_meet(&rig, ALL);
	down();
}

/* Random bytes, after a greeting or instead of one. */
TEST(noise)
{
	uint8_t bytes[2000];
	struct hk_rtc_buf buf = {.hdr = bytes}, *m[HK_RTC_BURST];

	up();
	for (unsigned run = 0; run < 300; run++) {
		size_t len = hk_rng_range(&hk_test_rng, 1, sizeof(bytes));
		uint64_t kind = hk_rng_below(&hk_test_rng, 4);
		int fd = kind ? impersonate() : connect_to(1);
		for (size_t i = 0; i < len; i++)
			bytes[i] = (uint8_t)hk_rng_next(&hk_test_rng);
		/* some begin with a valid message */
		if (kind > 1)
			rig_fill(&buf, 0, 1, run, (unsigned)hk_rng_below(&hk_test_rng, 900));
		if (kind > 2)
			bytes[hk_rng_below(&hk_test_rng, HK_MSG_HLEN)] = (uint8_t)hk_rng_next(
				&hk_test_rng);
		send_bytes(fd, bytes, len);
		shutdown(fd, SHUT_WR);
		struct pollfd p = {.fd = fd, .events = POLLRDHUP};
		AWAIT(RIG_MS, poll(&p, 1, 0) != 0, {
			/* the messages may be invalid, which the core would check */
			unsigned n = hk_rtc_backend_tcp.rx(rig.b[1], m, HK_RTC_BURST);
			for (unsigned i = 0; i < n; i++)
				CHECK_CMP(m[i]->len, <=, HK_MSG_HLEN + rig.b[1]->payload_max);
			hk_rtc_backend_tcp.free(rig.b[1], m, n);
		});
		close(fd);
	}
	rig_meet(&rig, ALL);
	down();
}

/* connect() refuses another program at a node's address, and says so. */
TEST(false_listener)
{
	static const char *const wrong[] = {"it is not a node", "it belongs to another job",
					    "it is another node", "it hangs up"};
	struct hk_rtc_config cfg = {
		.address = "127.0.0.1", .node = 0, .nodes = 2, .key = RIG_KEY, .buffers = 16};
	struct hk_rtc_backend *b;
	char text[32];

	for (unsigned i = 0; i < HK_ARRAY_LEN(wrong); i++) {
		struct hk_rtc_inet here;
		struct hk_rtc_tcp_hello h = good_hello();
		CHECK_OK(hk_rtc_inet_local("127.0.0.1", &here, ERR));
		int fd = hk_rtc_inet_bind(&here, SOCK_STREAM, ERR);
		CHECK(fd >= 0 && listen(fd, 8) == 0);
		hk_rtc_inet_text(&here.addr, text, sizeof(text));
		CHECK_OK(hk_rtc_backend_tcp.open(&cfg, "", &b, ERR));
		CHECK_OK(hk_rtc_backend_tcp.peer(b, 1, text, ERR));
		h.src = htole16(i == 2 ? 0 : 1);
		h.dst = htole16(0);
		h.key = htole32(RIG_KEY + (i == 1));
		h.magic[0] ^= i == 0;
		/* the reply to its first attempt is not there yet; connect() retries until its
		 * deadline */
		CHECK_EQ(hk_rtc_backend_tcp.connect(b, hk_clock_ms(), ERR), -ETIMEDOUT);
		int other = -1;
		int64_t end = hk_clock_ms() + RIG_MS;
		while ((other = accept(fd, NULL, NULL)) < 0)
			CHECK(hk_clock_ms() < end && errno == EAGAIN);
		if (i < 3)
			send_bytes(other, &h, sizeof(h));
		else
			shutdown(other, SHUT_RDWR);
		int rc;
		do {
			rc = hk_rtc_backend_tcp.connect(b, hk_clock_ms() + 5, ERR);
			CHECK_EQ(rc, -ETIMEDOUT);
			CHECK_MSG(hk_clock_ms() < end, "%s", hk_test_err.text);
		} while (!strstr(hk_test_err.text, wrong[i]));
		CHECK_HAS(hk_test_err.text, "1 of 2 nodes", "node 1 at", text, "fix: ");
		hk_rtc_backend_tcp.close(b);
		close(other);
		close(fd);
	}
}

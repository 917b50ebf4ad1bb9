/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/test_tcp_hostile.c: strangers and liars on the tcp backend are cut off alone.
 *
 * Nodes 0, 1 and 2 run; a plain socket plays the enemy, mostly towards node 1. After each attack all
 * three must hear each other.
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
static const char *call_from = "127.0.0.1";

static void up(void)
{
	static const char *const loopback[] = {"127.0.0.1", NULL};

	rig_up(&rig, &hk_rtc_tcp, hk_rng_below(&hk_test_rng, 2) ? "batch=1" : "", 3, loopback,
	       NULL);
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

/* A plain connection to @node. */
static int call(unsigned node)
{
	struct sockaddr_in at,
		from = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(call_from)};
	struct hk_error err;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	CHECK(fd >= 0 && hk_rtc_inet_peer(rig.address[node], &at, &err) == 0);
	CHECK(bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0);
	CHECK(connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0 || errno == EINPROGRESS);
	/* it waits while many others are not taken */
	for (int64_t end = rig_ms() + RIG_MS; poll(&p, 1, 0) == 0; poll_all())
		CHECK(rig_ms() < end);
	return fd;
}

/* A hello that is right: node 0 has come back. */
static struct hk_tcp_hello good_hello(void)
{
	return (struct hk_tcp_hello){
		.magic = {'H', 'K', 'r', 't'},
		.version = htole16(HK_TCP_VERSION),
		.src = htole16(0),
		.dst = htole16(1),
		.key = htole32(RIG_KEY),
		.incarnation = htole64(UINT64_MAX),
		.takes = htole32(4096),
	};
}

static void say(int fd, const void *bytes, size_t len)
{
	/* the other may have hung up already: that is what we look for */
	ssize_t r = send(fd, bytes, len, MSG_NOSIGNAL);
	CHECK(r == (ssize_t)len || r < 0);
}

/* Waits until the other end hangs up, while all nodes poll; says how many bytes came before. */
static size_t await_end(int fd)
{
	uint8_t bytes[4096];
	int64_t end = rig_ms() + RIG_MS;
	size_t come = 0;

	for (;;) {
		CHECK_MSG(rig_ms() < end, "it is not cut off");
		poll_all();
		ssize_t r = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (r > 0) {
			come += (size_t)r;
			continue;
		}
		if (r < 0 && errno == EAGAIN)
			continue;
		close(fd);
		return come;
	}
}

/* Says @hello to node 1, which hangs up without a word. */
static void refused(const struct hk_tcp_hello *hello)
{
	uint64_t before = rig.b[1]->cut_off;
	int fd = call(1);

	say(fd, hello, sizeof(*hello));
	CHECK_EQ(await_end(fd), 0);
	CHECK_EQ(rig.b[1]->cut_off, before + 1);
	rig_meet(&rig, ALL);
}

static void wrong_hellos(void)
{
	struct hk_tcp_hello h;

	up();
	for (unsigned i = 0; i < sizeof(h.magic); i++) {
		h = good_hello();
		h.magic[i] ^= 1;
		refused(&h);
	}
	h = good_hello(), h.version = htole16(2), refused(&h);
	h = good_hello(), h.key ^= 1, refused(&h);
	h = good_hello(), h.dst = htole16(2), refused(&h);
	h = good_hello(), h.src = htole16(1), refused(&h); /* ourselves */
	h = good_hello(), h.src = htole16(2), refused(&h); /* connects to nobody */
	h = good_hello(), h.src = htole16(3), refused(&h); /* is none */
	h = good_hello(), h.src = UINT16_MAX, refused(&h);
	h = good_hello(), h.zero = 1, refused(&h);
	h = good_hello(), h.zero2 = 1, refused(&h);
	h = good_hello(), h.takes = htole32(HK_MSG_HLEN - 1), refused(&h);
	h = good_hello(), h.incarnation = htole64(1), refused(&h); /* an earlier life */
	/* from elsewhere than node 0 */
	call_from = "127.0.0.2";
	h = good_hello(), refused(&h);
	call_from = "127.0.0.1";
	down();
}

static void silent_stranger(void)
{
	up();
	CHECK_EQ(await_end(call(1)), 0);
	int fd = call(1);
	say(fd, "HK", 2);
	CHECK_EQ(await_end(fd), 0);
	rig_meet(&rig, ALL);
	down();
}

/* More strangers than places, and a node that comes back meanwhile. */
static void crowd(void)
{
	int fd[3 * HK_TCP_STRANGERS];

	up();
	for (unsigned i = 0; i < HK_ARRAY_LEN(fd); i++) {
		fd[i] = call(1);
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

/* Becomes node 0 to node 1, which takes it. */
static int impersonate(void)
{
	struct hk_tcp_hello h = good_hello(), back;
	int64_t end = rig_ms() + RIG_MS;
	size_t come = 0;
	int fd = call(1);

	say(fd, &h, sizeof(h));
	while (come < sizeof(back)) {
		CHECK_MSG(rig_ms() < end, "no greeting");
		rig_rx(&rig, 1, NULL);
		ssize_t r = recv(fd, (uint8_t *)&back + come, sizeof(back) - come, MSG_DONTWAIT);
		CHECK_MSG(r != 0, "it hangs up");
		come += r > 0 ? (size_t)r : 0;
	}
	CHECK(memcmp(back.magic, h.magic, sizeof(h.magic)) == 0);
	CHECK(back.src == h.dst && back.dst == h.src && back.key == h.key);
	return fd;
}

/* Sends a message that is spoiled at one byte, and is cut off. */
static void spoiled(size_t at, uint8_t with)
{
	uint8_t bytes[HK_MSG_HLEN + 20];
	struct hk_rtc_buf buf = {.hdr = bytes};
	uint64_t before = rig.b[1]->cut_off;
	int fd = impersonate();

	rig_fill(&buf, 0, 1, 5, 20);
	say(fd, bytes, sizeof(bytes)); /* a good one first */
	bytes[at] = with;
	say(fd, bytes, sizeof(bytes));
	await_end(fd);
	CHECK_CMP(rig.b[1]->cut_off, >, before); /* the real node 0 may have tried meanwhile */
	rig_meet(&rig, ALL);
}

static void wrong_framing(void)
{
	up();
	spoiled(0, HK_MSG_VERSION + 1);
	spoiled(0, 0);
	spoiled(3, 0xff); /* length: longer than any */
	spoiled(4, 2);    /* says that it is node 2 */
	down();
}

/* One byte at a time is slow, but no crime; hanging up in a message costs the message. */
static void slow_peer(void)
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
		say(fd, bytes + i, 1);
		come += rig_rx(&rig, 1, number);
	}
	int64_t end = rig_ms() + RIG_MS;
	while (come == 0) {
		CHECK(rig_ms() < end);
		come += rig_rx(&rig, 1, number);
	}
	CHECK(come == 1 && number[0] == 77);
	say(fd, bytes, sizeof(bytes) / 2);
	shutdown(fd, SHUT_WR);
	await_end(fd);
	rig_meet(&rig, ALL);
	down();
}

/* Any bytes at all, after a greeting or instead of one. */
static void noise(void)
{
	uint8_t bytes[2000];
	struct hk_rtc_buf buf = {.hdr = bytes}, *m[HK_RTC_BURST];

	up();
	for (unsigned run = 0; run < 300; run++) {
		size_t len = hk_rng_range(&hk_test_rng, 1, sizeof(bytes));
		uint64_t kind = hk_rng_below(&hk_test_rng, 4);
		int fd = kind ? impersonate() : call(1);
		for (size_t i = 0; i < len; i++)
			bytes[i] = (uint8_t)hk_rng_next(&hk_test_rng);
		/* some that begin well */
		if (kind > 1)
			rig_fill(&buf, 0, 1, run, (unsigned)hk_rng_below(&hk_test_rng, 900));
		if (kind > 2)
			bytes[hk_rng_below(&hk_test_rng, HK_MSG_HLEN)] = (uint8_t)hk_rng_next(
				&hk_test_rng);
		say(fd, bytes, len);
		shutdown(fd, SHUT_WR);
		int64_t end = rig_ms() + RIG_MS;
		struct pollfd p = {.fd = fd, .events = POLLRDHUP};
		do {
			CHECK(rig_ms() < end);
			/* what comes may be no message of the rig's: it is the core that looks */
			unsigned n = hk_rtc_tcp.rx(rig.b[1], m, HK_RTC_BURST);
			for (unsigned i = 0; i < n; i++)
				CHECK_CMP(m[i]->len, <=, HK_MSG_HLEN + rig.b[1]->payload_max);
			hk_rtc_tcp.free(rig.b[1], m, n);
		} while (poll(&p, 1, 0) == 0);
		close(fd);
	}
	rig_meet(&rig, ALL);
	down();
}

/* Whoever listens at a node's address and is not that node is no connection, and connect() says so. */
static void false_listener(void)
{
	static const char *const wrong[] = {"it is no node", "it is of another job",
					    "it is another node", "it hangs up"};
	struct hk_rtc_config cfg = {
		.address = "127.0.0.1", .node = 0, .nodes = 2, .key = RIG_KEY, .buffers = 16};
	struct hk_rtc_backend *b;
	struct hk_error err;
	char text[32];

	for (unsigned i = 0; i < HK_ARRAY_LEN(wrong); i++) {
		struct hk_rtc_inet here;
		struct hk_tcp_hello h = good_hello();
		CHECK_EQ(hk_rtc_inet_here("127.0.0.1", &here, &err), 0);
		int fd = hk_rtc_inet_bind(&here, SOCK_STREAM, &err);
		CHECK(fd >= 0 && listen(fd, 8) == 0);
		hk_rtc_inet_text(&here.at, text, sizeof(text));
		CHECK_EQ(hk_rtc_tcp.open(&cfg, "", &b, &err), 0);
		CHECK_EQ(hk_rtc_tcp.peer(b, 1, text, &err), 0);
		h.src = htole16(i == 2 ? 0 : 1);
		h.dst = htole16(0);
		h.key = htole32(RIG_KEY + (i == 1));
		h.magic[0] ^= i == 0;
		/* the answer to its first attempt waits for it; connect() goes on trying until its end */
		CHECK_EQ(hk_rtc_tcp.connect(b, rig_ms(), &err), -ETIMEDOUT);
		int other = -1;
		int64_t end = rig_ms() + RIG_MS;
		while ((other = accept(fd, NULL, NULL)) < 0)
			CHECK(rig_ms() < end && errno == EAGAIN);
		if (i < 3)
			say(other, &h, sizeof(h));
		else
			shutdown(other, SHUT_RDWR);
		int rc;
		do {
			rc = hk_rtc_tcp.connect(b, rig_ms() + 5, &err);
			CHECK_EQ(rc, -ETIMEDOUT);
			CHECK_MSG(rig_ms() < end, "%s", err.text);
		} while (!strstr(err.text, wrong[i]));
		CHECK(strstr(err.text, "1 of 2 nodes") && strstr(err.text, "node 1 at"));
		CHECK(strstr(err.text, text) && strstr(err.text, "fix: "));
		hk_rtc_tcp.close(b);
		close(other);
		close(fd);
	}
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"wrong_hellos", wrong_hellos},
		{"silent_stranger", silent_stranger},
		{"crowd", crowd},
		{"wrong_framing", wrong_framing},
		{"slow_peer", slow_peer},
		{"noise", noise},
		{"false_listener", false_listener},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

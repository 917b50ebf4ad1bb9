/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/test_tcp_proved.c: the tcp backend with protection. A node takes a connection from
 * a node with the job's secret, and from nobody else.
 *
 * Nodes 0, 1 and 2 run. A plain socket attacks node 1, as tests/unit/rtc/test_tcp_hostile.c.
 */
#include "rtc/keys.h"
#include "rtc/tcp.h"
#include "tests/unit/rtc/backend_rig.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ALL 7u
#define LEN sizeof(struct hk_rtc_tcp_greeting)

static struct rig rig;

static bool other_secret; /* of the next node */

static struct hk_rtc_protect *by_secret(const struct hk_rtc_config *c)
{
	uint8_t secret[HK_AGREE_LEN];
	const struct hk_rtc_keys_config k = {
		.node = c->node, .nodes = c->nodes, .key = c->key, .secret = secret};
	struct hk_rtc_protect *p;

	memset(secret, other_secret ? 0x5f : 0x5e, sizeof(secret));
	CHECK_OK(hk_rtc_keys_open(&k, &p, ERR));
	return p;
}

static void up(void)
{
	static const char *const loopback[] = {"127.0.0.1", NULL};

	rig_protect = by_secret;
	rig_up(&rig, &hk_rtc_backend_tcp, hk_rng_below(&hk_test_rng, 2) ? "batch=1" : "", 3,
	       loopback, NULL);
	rig_meet(&rig, ALL);
}

static void down(void)
{
	for (unsigned i = 0; i < 3; i++)
		rig_all_free(&rig, i, 0);
	rig_down(&rig);
	rig_protect = NULL;
}

static void poll_all(void)
{
	for (unsigned i = 0; i < 3; i++)
		rig_rx(&rig, i, NULL);
}

static int connect_to(unsigned node)
{
	struct sockaddr_in at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	CHECK(fd >= 0 && hk_rtc_inet_peer(rig.address[node], &at, ERR) == 0);
	CHECK(connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0 || errno == EINPROGRESS);
	AWAIT(RIG_MS, poll(&p, 1, 0) != 0, poll_all());
	return fd;
}

/* Receives @len bytes, while all nodes poll. False: the other end closed first. */
static bool receive(int fd, void *to, size_t len)
{
	size_t got = 0;
	ssize_t r = 1;

	AWAIT(RIG_MS, got == len || r == 0 || (r < 0 && errno != EAGAIN), {
		poll_all();
		r = recv(fd, (uint8_t *)to + got, len - got, MSG_DONTWAIT);
		got += r > 0 ? (size_t)r : 0;
	});
	return got == len;
}

static void deliver(int fd, const void *bytes, size_t len)
{
	CHECK_EQ(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* Sends @g to node 1, which closes the connection without an answer. */
static void refused(const struct hk_rtc_tcp_greeting *g, size_t len)
{
	uint64_t before = rig.b[1]->cut_off;
	int fd = connect_to(1);
	uint8_t byte;

	deliver(fd, g, len);
	CHECK(!receive(fd, &byte, 1));
	close(fd);
	CHECK_EQ(rig.b[1]->cut_off, before + 1);
	rig_meet(&rig, ALL);
}

/* A greeting of node 0, with all but the proof. */
static struct hk_rtc_tcp_greeting unproved(void)
{
	const struct hk_rtc_tcp_expected e = {
		.node = 0, .nodes = 3, .key = RIG_KEY, .proved = true};
	struct hk_rtc_tcp_greeting g = {.nonce = {1, 2, 3}};

	hk_rtc_tcp_hello_write(&e, 1, UINT64_MAX, 4096, &g.hello);
	return g;
}

TEST(strangers_are_not_answered)
{
	struct hk_rtc_tcp_greeting g;

	up();
	g = unproved(), refused(&g, LEN);
	for (unsigned i = 0; i < 20; i++) {
		g = unproved();
		for (unsigned b = 0; b < sizeof(g.proof); b++)
			g.proof[b] = (uint8_t)hk_rng_next(&hk_test_rng);
		refused(&g, LEN);
	}
	/* without protection it would be valid */
	g = unproved(), g.hello.version = htole16(HK_RTC_TCP_VERSION), refused(&g, LEN);
	down();
}

static const struct hk_rtc_backend_ops *const ops = &hk_rtc_backend_tcp;

/* Opens a node outside of the rig. */
static struct hk_rtc_backend *open_node(uint16_t node)
{
	const struct hk_rtc_config cfg = {.address = "127.0.0.1",
					  .node = node,
					  .nodes = 3,
					  .key = RIG_KEY,
					  .buffers = 512,
					  .peers_file = "none",
					  .protection = HK_RTC_PROTECTION_AUTH};
	struct hk_rtc_backend *b;

	CHECK_OK(ops->open(&cfg, "", &b, ERR));
	b->protect = by_secret(&cfg);
	return b;
}

static void close_node(struct hk_rtc_backend *b)
{
	struct hk_rtc_protect *p = b->protect;

	ops->close(b);
	p->close(p);
}

/* Takes the first greeting that a genuine node 0 sends to node 1: it connects to us instead. */
static struct hk_rtc_tcp_greeting recorded(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("127.0.0.1")};
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), fd;
	struct hk_rtc_tcp_greeting g;
	struct hk_rtc_backend *b = open_node(0);
	struct hk_rtc_buf *m[1];
	char text[32];
	ssize_t r = -1;

	CHECK(bind(listener, (struct sockaddr *)&at, size) == 0 && listen(listener, 4) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&at, &size) == 0);
	hk_rtc_inet_text(&at, text, sizeof(text));
	CHECK_OK(ops->peer(b, 1, text, ERR));
	CHECK_OK(ops->connect(b, hk_clock_ms() + RIG_MS, ERR));
	AWAIT(RIG_MS, (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0,
	      ops->rx(b, m, 1));
	AWAIT(RIG_MS, r == (ssize_t)LEN, {
		ops->rx(b, m, 1);
		r = recv(fd, &g, LEN, MSG_DONTWAIT | MSG_PEEK);
	});
	CHECK_EQ(recv(fd, &g, LEN, MSG_DONTWAIT), (ssize_t)LEN);
	close(fd);
	close(listener);
	close_node(b);
	return g;
}

/* Its proof is right, so node 1 answers it. But nobody can repeat node 1's nonce. */
TEST(a_recorded_greeting_opens_no_connection)
{
	struct hk_rtc_tcp_greeting g, answer;
	uint8_t byte;

	up();
	g = recorded(); /* of an incarnation later than that of the connection */
	for (unsigned way = 0; way < 3; way++) {
		uint64_t before = rig.b[1]->cut_off;
		int fd = connect_to(1);

		deliver(fd, &g, LEN);
		CHECK(receive(fd, &answer, LEN));
		CHECK(memcmp(answer.echo, g.nonce, sizeof(g.nonce)) == 0);
		struct hk_rtc_tcp_greeting third = way == 0 ? g : answer; /* replayed, reflected */
		if (way == 2) {                                           /* forged */
			third = g;
			memcpy(third.echo, answer.nonce, sizeof(third.echo));
		}
		deliver(fd, &third, LEN);
		CHECK(!receive(fd, &byte, 1));
		close(fd);
		CHECK_EQ(rig.b[1]->cut_off, before + 1);
		rig_meet(&rig, ALL);
	}
	down();
}

TEST(nodes_with_different_secrets_do_not_connect)
{
	struct hk_rtc_backend *b[2];
	struct hk_rtc_buf *m[1];

	for (uint16_t i = 0; i < 2; i++) {
		other_secret = i == 1;
		b[i] = open_node(i);
	}
	other_secret = false;
	for (uint16_t i = 0; i < 2; i++) {
		CHECK_OK(ops->peer(b[i], !i, b[!i]->address, ERR));
		CHECK_OK(ops->connect(b[i], hk_clock_ms() + RIG_MS, ERR));
	}
	AWAIT(RIG_MS, b[1]->cut_off >= 3, (ops->rx(b[0], m, 1), ops->rx(b[1], m, 1)));
	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(((struct hk_rtc_tcp *)b[i])->up_count, 0);
		close_node(b[i]);
	}
}

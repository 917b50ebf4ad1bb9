/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_udp.c: ports on UDP sockets, on the loopback interface. A loopback passes
 * trains whole, as a virtual link does, and needs no rights.
 */
#include "port/udp.h"
#include "tests/support/hk_test.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_ether.h>

#define MTU     1500
#define PIECE   (MTU - 28) /* bytes of the largest frame behind its Ethernet header */
#define FRAME   (PIECE + RTE_ETHER_HDR_LEN)
#define BUFFERS 2048
#define SPEC    "udp:addr=127.0.0.1,mtu=1500"

static struct hk_port *a, *b, *c;

static struct hk_port *open_spec(const char *spec)
{
	struct hk_port *port;

	CHECK_OK(hk_port_open(spec, BUFFERS, NULL, 1000, &port, ERR));
	return port;
}

static void start(void)
{
	if (a)
		return;
	struct hk_eal_config cfg = {.lazy_buffers = true};

	CHECK_OK(hk_port_spec_eal(SPEC, &cfg, ERR));
	CHECK_OK(hk_eal_init(&cfg, ERR));
	CHECK(hk_eal_bare());
	a = open_spec(SPEC);
	b = open_spec(SPEC);
	c = open_spec(SPEC);
	CHECK_EQ(a->info.frame_max, FRAME);
	CHECK(memcmp(a->info.mac, b->info.mac, 6) != 0);
	CHECK(hk_port_link(a));
	CHECK(hk_port_wait_fd(a) >= 0);
}

#define TAG 24 /* bytes of a third segment */

static void append_segment(struct rte_mbuf *m, struct hk_port *from, const uint8_t *bytes,
			   uint16_t len)
{
	struct rte_mbuf *s = rte_pktmbuf_alloc(from->pool);

	memcpy(rte_pktmbuf_append(s, len), bytes, len);
	CHECK_EQ(rte_pktmbuf_chain(m, s), 0);
}

/* A frame to @to, numbered @number, of @len bytes. The last @second are in a second segment; with
 * an odd number the last of these are in a third one. */
static struct rte_mbuf *make(struct hk_port *from, const struct hk_port *to, uint32_t number,
			     uint16_t len, uint16_t second)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(from->pool);
	uint8_t bytes[FRAME];

	memset(bytes, 0, RTE_ETHER_HDR_LEN);
	memcpy(bytes, to->info.mac, 6);
	for (unsigned i = RTE_ETHER_HDR_LEN; i < len; i++)
		bytes[i] = (uint8_t)(number * 31 + i);
	memcpy(bytes + RTE_ETHER_HDR_LEN, &number, sizeof(number));
	memcpy(rte_pktmbuf_append(m, len - second), bytes, len - second);
	uint16_t third = second > TAG && number % 2 ? TAG : 0;

	if (second)
		append_segment(m, from, bytes + len - second, (uint16_t)(second - third));
	if (third)
		append_segment(m, from, bytes + len - third, third);
	return m;
}

static void check(const struct rte_mbuf *m, const struct hk_port *from, const struct hk_port *to,
		  uint32_t number, uint16_t len)
{
	const uint8_t *f = rte_pktmbuf_mtod(m, const uint8_t *);

	CHECK_EQ(m->nb_segs, 1);
	CHECK_EQ(m->data_len, len);
	CHECK_EQ(rte_pktmbuf_pkt_len(m), len);
	CHECK_EQ(memcmp(f, to->info.mac, 6), 0);
	CHECK_EQ(memcmp(f + 6, from->info.mac, 6), 0);
	CHECK(f[12] == 0x88 && f[13] == 0xb5);
	CHECK_EQ(memcmp(f + RTE_ETHER_HDR_LEN, &number, sizeof(number)), 0);
	for (unsigned i = RTE_ETHER_HDR_LEN + sizeof(number); i < len; i++)
		CHECK_EQ(f[i], (uint8_t)(number * 31 + i));
}

/* Receives exactly @n frames. The loopback has delivered them when tx returns. */
static void receive(struct hk_port *port, struct rte_mbuf **m, unsigned n)
{
	unsigned got = 0;

	for (unsigned tries = 0; got < n && tries < 1000; tries++)
		got += hk_port_rx(port, 0, m + got, (uint16_t)HK_MIN(n - got, 32u));
	CHECK_EQ(got, n);
}

static void no_more(struct hk_port *port)
{
	struct rte_mbuf *m;

	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(hk_port_rx(port, 0, &m, 1), 0);
}

TEST(a_frame_of_each_length)
{
	start();
	for (uint16_t len = RTE_ETHER_HDR_LEN + 4; len <= FRAME; len += 97) {
		struct rte_mbuf *m = make(a, b, len, len, 0);

		CHECK_EQ(hk_port_tx(a, 0, &m, 1), 1);
		receive(b, &m, 1);
		check(m, a, b, len, len);
		rte_pktmbuf_free(m);
	}
	no_more(b);
}

TEST(a_train_of_long_frames)
{
	start();
	struct rte_mbuf *m[64];

	for (unsigned i = 0; i < 64; i++)
		m[i] = make(a, b, i, FRAME, i % 3 ? 0 : 700);
	CHECK_EQ(hk_port_tx(a, 0, m, 64), 64);
	receive(b, m, 64);
	for (unsigned i = 0; i < 64; i++) {
		check(m[i], a, b, i, FRAME);
		rte_pktmbuf_free(m[i]);
	}
	no_more(b);
}

/* After short trains, a receive holds a few long frames in buffers, and the rest elsewhere. */
TEST(a_long_train_after_short_ones)
{
	start();
	for (unsigned round = 0; round < 4; round++) {
		uint16_t len = round % 2 ? FRAME : 900;
		struct rte_mbuf *m[60];

		for (unsigned i = 0; i < HK_UDP_CALM; i++) {
			m[0] = make(a, b, i, 100, 0);
			CHECK_EQ(hk_port_tx(a, 0, m, 1), 1);
			receive(b, m, 1);
			check(m[0], a, b, i, 100);
			rte_pktmbuf_free(m[0]);
			no_more(b);
		}
		CHECK(((struct hk_port_impl *)b)->udp->calm >= HK_UDP_CALM);
		for (unsigned i = 0; i < 60; i++)
			m[i] = make(a, b, i, len, 0);
		CHECK_EQ(hk_port_tx(a, 0, m, 60), 60);
		receive(b, m, 60);
		for (unsigned i = 0; i < 60; i++) {
			check(m[i], a, b, i, len);
			rte_pktmbuf_free(m[i]);
		}
		CHECK_EQ(((struct hk_port_impl *)b)->udp->calm, 0);
		no_more(b);
	}
}

/* Lengths, segments and peers at random: each peer gets its frames once and in order. */
TEST(bursts_at_random)
{
	start();
	unsigned seed = 5;

	for (unsigned round = 0; round < 300; round++) {
		unsigned n = 1 + (unsigned)rand_r(&seed) % 64, to_b = 0, to_c = 0;
		bool same = rand_r(&seed) % 2;
		uint16_t len[64], first = 60;
		struct rte_mbuf *m[64];
		struct hk_port *to[64];

		for (unsigned i = 0; i < n; i++) {
			len[i] = (uint16_t)(20 + rand_r(&seed) % (FRAME - 19));
			if (same && i + 1 < n)
				len[i] = i ? len[0] : first;
			to[i] = !same && rand_r(&seed) % 4 == 0 ? c : b;
			m[i] = make(a, to[i], round * 64 + i, len[i], rand_r(&seed) % 2);
		}
		CHECK_EQ(hk_port_tx(a, 0, m, (uint16_t)n), n);
		for (unsigned i = 0; i < n; i++)
			*(to[i] == c ? &to_c : &to_b) += 1;
		struct rte_mbuf *got_b[64], *got_c[64];

		receive(b, got_b, to_b);
		receive(c, got_c, to_c);
		to_b = to_c = 0;
		for (unsigned i = 0; i < n; i++) {
			struct rte_mbuf *got = to[i] == c ? got_c[to_c++] : got_b[to_b++];

			check(got, a, to[i], round * 64 + i, len[i]);
			rte_pktmbuf_free(got);
		}
	}
	no_more(b);
	no_more(c);
}

/* Frames that arrive while no buffer is free wait in the kernel. */
TEST(no_free_buffer)
{
	start();
	static struct rte_mbuf *held[8 * BUFFERS];
	unsigned n = 0;
	struct rte_mbuf *m[64];

	while (n < HK_ARRAY_LEN(held) && (held[n] = rte_pktmbuf_alloc(b->pool)))
		n++;
	CHECK(n < HK_ARRAY_LEN(held));
	unsigned sent = 0;

	for (unsigned round = 0; round < 6; round++) {
		for (unsigned i = 0; i < 30; i++)
			m[i] = make(a, b, sent + i, FRAME, 0);
		CHECK_EQ(hk_port_tx(a, 0, m, 30), 30);
		sent += 30;
	}
	unsigned at = 0;

	for (unsigned tries = 0; at < sent && tries < 10000; tries++) {
		uint16_t got = hk_port_rx(b, 0, m, 32);

		for (unsigned i = 0; i < got; i++) {
			check(m[i], a, b, at++, FRAME);
			rte_pktmbuf_free(m[i]);
		}
		if (got == 0 && n > 0)
			rte_pktmbuf_free(held[--n]);
	}
	CHECK_EQ(at, sent);
	rte_pktmbuf_free_bulk(held, n);
	no_more(b);
}

/* Another program's datagrams: empty ones, which nobody counts, some that are larger than a frame,
 * and a large train of small pieces. */
TEST(other_datagrams)
{
	start();
	static char bytes[60000];
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct rte_mbuf *m;
	int fd = socket(AF_INET, SOCK_DGRAM, 0), piece = 300;

	memcpy(&to.sin_addr.s_addr, b->info.mac, 4);
	memcpy(&to.sin_port, b->info.mac + 4, 2);
	static const size_t lengths[] = {0, PIECE + 1, 9000, sizeof(bytes)};

	for (unsigned i = 0; i < HK_ARRAY_LEN(lengths); i++)
		CHECK_EQ(sendto(fd, bytes, lengths[i], 0, (struct sockaddr *)&to, sizeof(to)),
			 (ssize_t)lengths[i]);
	no_more(b);
	CHECK_EQ(((struct hk_port_impl *)b)->udp->dropped_rx, HK_ARRAY_LEN(lengths) - 1);
	CHECK_EQ(setsockopt(fd, SOL_UDP, 103 /* UDP_SEGMENT */, &piece, sizeof(piece)), 0);
	CHECK_EQ(sendto(fd, bytes, 300 * 60 + 7, 0, (struct sockaddr *)&to, sizeof(to)),
		 300 * 60 + 7);
	for (unsigned i = 0; i < 61; i++) {
		receive(b, &m, 1);
		CHECK_EQ(m->data_len, RTE_ETHER_HDR_LEN + (i < 60 ? 300 : 7));
		rte_pktmbuf_free(m);
	}
	m = make(a, b, 3, 200, 0);
	CHECK_EQ(hk_port_tx(a, 0, &m, 1), 1);
	receive(b, &m, 1);
	check(m, a, b, 3, 200);
	rte_pktmbuf_free(m);
	no_more(b);
	close(fd);
}

/* A frame that the kernel does not send is as lost as one in the network. */
TEST(a_peer_that_cannot_be_reached)
{
	start();
	struct hk_port nowhere = {.info.mac = {240, 0, 0, 1, 1, 1}};
	struct rte_mbuf *m[3];

	m[0] = make(a, b, 0, 100, 0);
	m[1] = make(a, &nowhere, 1, 100, 0);
	m[2] = make(a, b, 2, 100, 0);
	CHECK_EQ(hk_port_tx(a, 0, m, 3), 3);
	receive(b, m, 2);
	check(m[0], a, b, 0, 100);
	check(m[1], a, b, 2, 100);
	CHECK_EQ(((struct hk_port_impl *)a)->udp->failed_tx, 1);
	rte_pktmbuf_free_bulk(m, 2);
	no_more(b);
}

TEST(ports_that_do_not_open)
{
	start();
	struct hk_port *port;
	char taken[64];
	unsigned number = (unsigned)b->info.mac[4] << 8 | b->info.mac[5];

	CHECK_REFUSED(hk_port_open("udp:addr=none0", 64, NULL, 100, &port, ERR), -EADDRNOTAVAIL,
		      "no interface 'none0' with an IP address; fix: use one of: ");
	CHECK_REFUSED(hk_port_open("udp:addr=192.0.2.1", 64, NULL, 100, &port, ERR), -EADDRNOTAVAIL,
		      "no interface of this machine has the address 192.0.2.1");
	CHECK_REFUSED(hk_port_open("udp:addr=lo,ip=5", 64, NULL, 100, &port, ERR), -EINVAL,
		      "there is no IPv5; fix: ip=4 or ip=6");
	CHECK_REFUSED(hk_port_open("udp:addr=192.0.2.1,ip=6", 64, NULL, 100, &port, ERR),
		      -EADDRNOTAVAIL, "has the address 192.0.2.1");
	snprintf(taken, sizeof(taken), "udp:addr=lo,port=%u", number);
	CHECK_REFUSED(hk_port_open(taken, 64, NULL, 100, &port, ERR), -EADDRINUSE,
		      "leave out port=");
}

/* Closing frees the number and all buffers, so that there can be any number of ports in turn. */
TEST(ports_in_turn)
{
	start();
	for (unsigned i = 0; i < 2 * RTE_MAX_ETHPORTS; i++) {
		struct hk_port *port = open_spec("udp:addr=lo");
		struct rte_mbuf *m;

		CHECK_EQ(hk_port_rx(port, 0, &m, 1), 0);
		hk_port_close(port);
	}
	hk_port_close(a);
	hk_port_close(b);
	hk_port_close(c);
	a = b = c = NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_priority.c: priority tags, on DPDK's ring device, which shows what is sent.
 */
#include "port/priority.h"
#include "port/faults.h"
#include "tests/support/loopback.h"

#define BUFFERS  2048
#define PRIORITY 5
#define TAGGED   4

static struct hk_port *port;

static void start(void)
{
	if (!port)
		port = loopback_open(128, BUFFERS);
	CHECK_OK(hk_priority_attach(port, PRIORITY, ERR));
	CHECK_EQ(port->info.priority, PRIORITY);
}

static uint8_t byte_of(uint32_t i)
{
	return (uint8_t)(i * 7 + i / 256);
}

/* A frame of @len bytes, of which the last @second are in a second segment. */
static struct rte_mbuf *make(uint16_t len, uint16_t second)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(port->pool);
	uint16_t first = len - second;
	uint8_t *f = (uint8_t *)rte_pktmbuf_append(m, first);

	for (uint32_t i = 0; i < first; i++)
		f[i] = byte_of(i);
	if (second) {
		struct rte_mbuf *s = rte_pktmbuf_alloc(port->pool);

		f = (uint8_t *)rte_pktmbuf_append(s, second);
		for (uint32_t i = 0; i < second; i++)
			f[i] = byte_of(first + i);
		CHECK_EQ(rte_pktmbuf_chain(m, s), 0);
	}
	return m;
}

/* Is @m the frame that make() makes, behind @tag bytes that follow the addresses? */
static void check(const struct rte_mbuf *m, uint16_t len, unsigned tag)
{
	const uint8_t *f = rte_pktmbuf_mtod(m, const uint8_t *);

	CHECK_EQ(rte_pktmbuf_pkt_len(m), len + tag);
	for (uint32_t i = 0; i < len && m->nb_segs == 1; i++)
		CHECK_EQ(f[i < 12 ? i : i + tag], byte_of(i));
}

/* Receives one frame as it was sent. */
static struct rte_mbuf *take(void)
{
	struct rte_mbuf *m;

	CHECK_EQ(rte_eth_rx_burst(port->id, 0, &m, 1), 1);
	return m;
}

static void no_leak(void)
{
	struct rte_mbuf *m[64];

	for (uint16_t n; (n = hk_port_rx(port, 0, m, 64));)
		rte_pktmbuf_free_bulk(m, n);
	CHECK_EQ(rte_mempool_in_use_count(port->pool), 0);
	CHECK_EQ(rte_mempool_in_use_count(port->copies), 0);
	hk_priority_detach(port);
}

TEST(a_small_frame_has_a_tag)
{
	start();
	static const uint16_t second[] = {0, 20};

	for (unsigned i = 0; i < HK_ARRAY_LEN(second); i++) {
		struct rte_mbuf *m = make(60, second[i]);

		for (struct rte_mbuf *s = m; s; s = s->next)
			rte_mbuf_refcnt_set(s, 2); /* its sender may send it again */
		CHECK_EQ(hk_port_tx(port, 0, &m, 1), 1);
		CHECK_EQ(rte_mbuf_refcnt_read(m), 1);
		check(m, 60, 0);
		struct rte_mbuf *got = take();
		const uint8_t *f = rte_pktmbuf_mtod(got, const uint8_t *);

		check(got, 60, TAGGED);
		CHECK(f[12] == 0x81 && f[13] == 0 && f[14] == PRIORITY << 5 && f[15] == 0);
		rte_pktmbuf_free(got);
		rte_pktmbuf_free(m);
	}
	no_leak();
}

TEST(a_long_frame_has_none)
{
	start();
	for (uint16_t len = HK_PORT_SMALL_FRAME - 1; len <= HK_PORT_SMALL_FRAME; len++) {
		struct rte_mbuf *m = make(len, 0);

		CHECK_EQ(hk_port_tx(port, 0, &m, 1), 1);
		struct rte_mbuf *got = take();

		check(got, len, len < HK_PORT_SMALL_FRAME ? TAGGED : 0);
		CHECK_EQ(got == m, len == HK_PORT_SMALL_FRAME); /* not even copied */
		rte_pktmbuf_free(got);
	}
	no_leak();
}

TEST(a_received_frame_has_no_tag)
{
	start();
	struct rte_mbuf *m[100];

	for (unsigned i = 0; i < HK_ARRAY_LEN(m); i++)
		m[i] = make((uint16_t)(60 + 20 * i), 0);
	CHECK_EQ(hk_port_tx(port, 0, m, HK_ARRAY_LEN(m)), HK_ARRAY_LEN(m));
	CHECK_EQ(hk_port_rx(port, 0, m, HK_ARRAY_LEN(m)), HK_ARRAY_LEN(m));
	for (unsigned i = 0; i < HK_ARRAY_LEN(m); i++) {
		check(m[i], (uint16_t)(60 + 20 * i), 0);
		rte_pktmbuf_free(m[i]);
	}
	no_leak();
}

/* Frames that others send: of another VLAN, with another EtherType, too short for a tag. */
TEST(other_frames_stay_as_they_are)
{
	static const struct {
		uint8_t bytes[4];
		uint16_t len;
		bool taken_off;
	} table[] = {
		{{0x81, 0, 0xe0, 0}, 64, true},     {{0x81, 0, 0x10, 0}, 64, true},
		{{0x81, 0, 0xe0, 1}, 64, false},    {{0x81, 0, 0xe1, 0}, 64, false},
		{{0x88, 0xa8, 0xe0, 0}, 64, false}, {{0x81, 1, 0xe0, 0}, 64, false},
		{{0x81, 0, 0xe0, 0}, 18, true},     {{0x81, 0, 0xe0, 0}, 17, false},
	};

	start();
	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		struct rte_mbuf *m = make(table[i].len, 0);

		memcpy(rte_pktmbuf_mtod_offset(m, uint8_t *, 12), table[i].bytes, 4);
		port->wrapped = false;
		CHECK_EQ(hk_port_tx(port, 0, &m, 1), 1);
		port->wrapped = true;
		CHECK_EQ(hk_port_rx(port, 0, &m, 1), 1);
		CHECK_EQ(rte_pktmbuf_pkt_len(m), table[i].len - (table[i].taken_off ? TAGGED : 0));
		rte_pktmbuf_free(m);
	}
	no_leak();
}

TEST(a_refused_frame_stays_with_its_sender)
{
	struct rte_mbuf *m[64];
	unsigned sent = 0;
	uint16_t some;

	start();
	do {
		for (unsigned i = 0; i < HK_ARRAY_LEN(m); i++)
			m[i] = make(60, 0);
		some = hk_port_tx(port, 0, m, HK_ARRAY_LEN(m));
		sent += some;
		for (unsigned i = some; i < HK_ARRAY_LEN(m); i++) {
			CHECK_EQ(rte_mbuf_refcnt_read(m[i]), 1);
			check(m[i], 60, 0);
			rte_pktmbuf_free(m[i]);
		}
	} while (some == HK_ARRAY_LEN(m));
	CHECK_EQ(rte_mempool_in_use_count(port->pool), 0);
	CHECK_EQ(rte_mempool_in_use_count(port->copies), sent);
	no_leak();
}

TEST(without_a_buffer_there_is_no_tag)
{
	static struct rte_mbuf *all[4 * BUFFERS];
	unsigned n = 0;

	start();
	struct rte_mbuf *m = make(60, 0);

	while (n < HK_ARRAY_LEN(all) && (all[n] = rte_pktmbuf_alloc(port->copies)))
		n++;
	CHECK_CMP(n, <, HK_ARRAY_LEN(all));
	CHECK_EQ(hk_port_tx(port, 0, &m, 1), 1);
	struct rte_mbuf *got = take();

	CHECK(got == m);
	check(got, 60, 0);
	rte_pktmbuf_free(got);
	rte_pktmbuf_free_bulk(all, n);
	no_leak();
}

/* Faults are those of the network, so they hit tagged frames. */
TEST(faults_come_after_tags)
{
	struct hk_faults_config cfg;
	struct rte_mbuf *m, *two[2];

	start();
	CHECK_OK(hk_faults_parse("dup=1", &cfg, ERR));
	CHECK_OK(hk_faults_attach(port, &cfg, ERR));
	m = make(60, 0);
	CHECK_EQ(hk_port_tx(port, 0, &m, 1), 1);
	CHECK_EQ(hk_port_rx(port, 0, two, 2), 2);
	check(two[0], 60, 0);
	check(two[1], 60, 0);
	rte_pktmbuf_free_bulk(two, 2);
	hk_faults_detach(port);
	CHECK(port->wrapped); /* the priority still holds */
	m = make(60, 0);
	CHECK_EQ(hk_port_tx(port, 0, &m, 1), 1);
	two[0] = take();
	check(two[0], 60, TAGGED);
	rte_pktmbuf_free(two[0]);
	no_leak();
	CHECK(!port->wrapped);
}

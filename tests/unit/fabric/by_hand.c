/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/fabric/by_hand.c: see by_hand.h. */
#include "tests/unit/fabric/by_hand.h"

#include <time.h>

static void on_lost(void *arg, hk_peer peer, enum hk_verdict why, const char *text)
{
	struct scene *s = arg;

	CHECK_EQ(peer, s->about);
	s->lost++;
	s->why = why;
	snprintf(s->text, sizeof(s->text), "%s", text);
}

static void open_it(struct scene *s, bool crc, unsigned rx_keep)
{
	static unsigned rings;
	struct hk_eal_config eal = {.memory_mb = 128};
	struct hk_fabric_config cfg;
	struct hk_peer_addr addr = {
		.endpoint = OTHER, .epoch = EPOCH, .frame_max = 2048, .name = "rank 1 on node1"};
	struct hk_error err = {""};
	char spec[64];

	memset(s, 0, sizeof(*s));
	s->crc = crc;
	CHECK_MSG(hk_eal_init(&eal, &err) == 0, "%s", err.text);
	snprintf(spec, sizeof(spec), "vdev:net_ring%u", rings++);
	CHECK_MSG(hk_port_open(spec, 512, NULL, WAIT_MS, &s->port, &err) == 0, "%s", err.text);
	hk_fabric_config_default(&cfg);
	cfg.engine.key = KEY;
	cfg.engine.endpoint = SELF;
	cfg.engine.epoch = EPOCH;
	cfg.engine.max_peers = 32;
	cfg.engine.crc = crc;
	cfg.engine.min_rto = cfg.engine.initial_rto = HK_MSEC;
	cfg.engine.peer_timeout = 10ull * WAIT_MS * HK_MSEC;
	cfg.engine.keepalive = 0;
	cfg.tx_buffers = BUFFERS;
	if (rx_keep)
		cfg.rx_keep = rx_keep;
	cfg.frame_max = 2048;
	cfg.lost = on_lost;
	cfg.lost_arg = s;
	CHECK_MSG(hk_fabric_open(&cfg, &s->f, &err) == 0, "%s", err.text);
	CHECK_MSG(hk_fabric_add_port(s->f, s->port, &err) == 0, "%s", err.text);
	CHECK_MSG(hk_fabric_peer_add(s->f, &addr, &s->peer, &err) == 0, "%s", err.text);
	s->about = s->peer;
}

void scene_open(struct scene *s, bool crc)
{
	open_it(s, crc, 0);
}

void scene_open_keep(struct scene *s, unsigned rx_keep)
{
	open_it(s, false, rx_keep);
}

/* ---- the other end --------------------------------------------------------------------------- */

struct rte_mbuf *take(struct scene *s, struct hk_frame *f)
{
	struct rte_mbuf *m;

	if (hk_port_rx(s->port, 0, &m, 1) == 0)
		return NULL;
	enum hk_wire_status st = hk_wire_parse(rte_pktmbuf_mtod(m, void *), m->data_len, s->crc, f);

	CHECK_MSG(st == HK_WIRE_OK, "the fabric sent a frame that does not parse: %s",
		  hk_wire_status_name(st));
	return m;
}

uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

struct rte_mbuf *take_data(struct scene *s, struct hk_frame *f)
{
	uint64_t end = now_ms() + WAIT_MS;

	while (now_ms() < end) {
		struct rte_mbuf *m = take(s, f);

		if (m && f->h.type == HK_WIRE_DATA)
			return m;
		if (m)
			rte_pktmbuf_free_seg(m);
		else
			hk_fabric_progress(s->f);
	}
	FAIL("waited %d ms for a data frame in vain", WAIT_MS);
}

static const uint8_t other_mac[6] = {2, 0, 0, 0, 0, 2};

struct hk_wire_hdr other_header(enum hk_wire_type type, uint32_t psn, uint16_t window)
{
	return (struct hk_wire_hdr){
		.version = HK_WIRE_VERSION,
		.type = (uint8_t)type,
		.window = window,
		.key = KEY,
		.src = OTHER,
		.dst = SELF,
		.src_epoch = EPOCH,
		.dst_epoch = EPOCH,
		.psn = psn,
		.tsval = 1,
	};
}

void frame_into_ring(struct scene *s, const struct hk_wire_hdr *h, const void *payload)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(s->port->pool), *own;
	struct hk_frame f;

	CHECK_MSG(m != NULL, "no receive buffer for packet %u", h->psn);
	char *at = rte_pktmbuf_append(m, (uint16_t)(HK_ETH_HLEN + HK_WIRE_HLEN + h->len));

	CHECK(at != NULL);
	hk_wire_put_eth(at, s->port->info.mac, other_mac);
	hk_wire_put_hdr(at + HK_ETH_HLEN, h);
	if (payload)
		memcpy(at + HK_ETH_HLEN + HK_WIRE_HLEN, payload, h->len);
	else
		memset(at + HK_ETH_HLEN + HK_WIRE_HLEN, 0, h->len);
	if (s->crc) {
		rte_pktmbuf_append(m, HK_WIRE_CRC_LEN);
		hk_wire_seal(at + HK_ETH_HLEN);
	}
	while ((own = take(s, &f))) /* it must not find its own frames */
		rte_pktmbuf_free_seg(own);
	CHECK_EQ(hk_port_tx(s->port, 0, &m, 1), 1);
}

void into_ring(struct scene *s, enum hk_wire_type type, uint32_t psn, uint32_t ack, uint16_t window)
{
	struct hk_wire_hdr h = other_header(type, psn, window);

	h.len = type == HK_WIRE_ACK ? HK_WIRE_SACK_LEN : 0;
	h.ack = ack;
	frame_into_ring(s, &h, NULL);
}

void arrives(struct scene *s, enum hk_wire_type type, uint32_t psn, uint32_t ack, uint16_t window)
{
	into_ring(s, type, psn, ack, window);
	hk_fabric_progress(s->f);
}

int send_one(struct scene *s, uint8_t first)
{
	hk_buf *b = hk_fabric_alloc(s->f);

	CHECK(b != NULL);
	for (unsigned i = 0; i < LEN; i++)
		((uint8_t *)hk_buf_data(b))[i] = (uint8_t)(first + i);
	return hk_fabric_send(s->f, s->peer, AM, b, LEN);
}

void nothing_is_left(struct scene *s)
{
	struct hk_frame f;
	struct rte_mbuf *m;

	hk_fabric_progress(s->f);
	while ((m = take(s, &f)))
		rte_pktmbuf_free_seg(m);
	CHECK_EQ(hk_fabric_room(s->f), BUFFERS);
	CHECK_EQ(hk_fabric_backlog(s->f, s->peer), 0);
	CHECK_EQ(hk_fabric_close(s->f, 0), 0);
}

void served(struct scene *s)
{
	uint64_t before = hk_engine_counters(hk_fabric_engine(s->f))->rx_packets;

	for (uint64_t end = now_ms() + WAIT_MS;
	     hk_engine_counters(hk_fabric_engine(s->f))->rx_packets == before;) {
		(void)hk_fabric_serve(s->f, rte_rdtsc());
		CHECK_MSG(now_ms() < end, "a stand-in did not take in a packet");
	}
}

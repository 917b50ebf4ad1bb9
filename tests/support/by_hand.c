/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/by_hand.c: see by_hand.h. */
#include "tests/support/by_hand.h"
#include "tests/support/frames.h"
#include "tests/support/loopback.h"

static void on_lost(void *arg, hk_peer peer, enum hk_disconnect_reason why, const char *text)
{
	struct scene *s = arg;

	CHECK_EQ(peer, s->about);
	s->lost++;
	s->why = why;
	snprintf(s->text, sizeof(s->text), "%s", text);
}

static void open_it(struct scene *s, bool crc, unsigned rx_backlog)
{
	struct hk_worker_config cfg;
	struct hk_peer_addr addr = {
		.endpoint = OTHER, .epoch = EPOCH, .frame_max = 2048, .name = "rank 1 on node1"};

	memset(s, 0, sizeof(*s));
	s->crc = crc;
	s->port = loopback_open(128, 512);
	hk_worker_config_default(&cfg);
	cfg.engine.key = KEY;
	cfg.engine.endpoint = SELF;
	cfg.engine.epoch = EPOCH;
	cfg.engine.max_peers = 32;
	cfg.engine.protection = crc;
	cfg.engine.min_rto = cfg.engine.initial_rto = HK_MSEC;
	cfg.engine.peer_timeout = 10ull * WAIT_MS * HK_MSEC;
	cfg.engine.keepalive = 0;
	cfg.tx_buffers = BUFFERS;
	if (rx_backlog)
		cfg.rx_backlog = rx_backlog;
	cfg.frame_max = 2048;
	cfg.lost = on_lost;
	cfg.lost_arg = s;
	CHECK_OK(hk_worker_open(&cfg, &s->w, ERR));
	CHECK_OK(hk_worker_add_port(s->w, s->port, ERR));
	CHECK_OK(hk_worker_peer_add(s->w, &addr, &s->peer, ERR));
	s->about = s->peer;
}

void scene_open(struct scene *s, bool crc)
{
	open_it(s, crc, 0);
}

void scene_open_rx_backlog(struct scene *s, unsigned rx_backlog)
{
	open_it(s, false, rx_backlog);
}

void scene_share(struct scene *s)
{
	CHECK_OK(hk_worker_share(s->w, ERR));
}

/* ---- the other end --------------------------------------------------------------------------- */

struct rte_mbuf *take(struct scene *s, struct hk_frame *f)
{
	struct rte_mbuf *m;

	if (hk_port_rx(s->port, 0, &m, 1) == 0)
		return NULL;
	enum hk_wire_status st = hk_wire_frame_parse(rte_pktmbuf_mtod(m, void *), m->data_len,
						     s->crc, f);

	CHECK_MSG(st == HK_WIRE_OK, "the worker sent a frame that does not parse: %s",
		  hk_wire_status_name(st));
	return m;
}

struct rte_mbuf *take_data(struct scene *s, struct hk_frame *f)
{
	struct rte_mbuf *m = NULL;

	AWAIT(WAIT_MS, (m = take(s, f)) && f->h.type == HK_WIRE_DATA, {
		if (m)
			rte_pktmbuf_free_seg(m);
		else
			hk_worker_progress(s->w);
	});
	return m;
}

struct hk_wire_hdr other_header(enum hk_wire_type type, uint32_t psn, uint16_t credit)
{
	struct hk_wire_hdr h = frame_hdr(type, KEY, OTHER, SELF);

	h.credit = credit;
	h.src_epoch = h.dst_epoch = EPOCH;
	h.psn = psn;
	return h;
}

void frame_into_ring(struct scene *s, const struct hk_wire_hdr *h, const void *payload)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(s->port->pool), *own;
	struct hk_frame f;

	CHECK_MSG(m != NULL, "no receive buffer for packet %u", h->psn);
	char *at = rte_pktmbuf_append(m, (uint16_t)FRAME_BYTES(h->len));

	CHECK(at != NULL);
	rte_pktmbuf_trim(m, (uint16_t)(m->data_len - frame_encode(at, h, payload, s->crc)));
	while ((own = take(s, &f))) /* it must not find its own frames */
		rte_pktmbuf_free_seg(own);
	CHECK_EQ(hk_port_tx(s->port, 0, &m, 1), 1);
}

void into_ring(struct scene *s, enum hk_wire_type type, uint32_t psn, uint32_t ack, uint16_t window)
{
	struct hk_wire_hdr h = other_header(type, psn, window);

	h.ack = ack;
	frame_into_ring(s, &h, NULL);
}

void arrives(struct scene *s, enum hk_wire_type type, uint32_t psn, uint32_t ack, uint16_t window)
{
	into_ring(s, type, psn, ack, window);
	hk_worker_progress(s->w);
}

int send_one(struct scene *s, uint8_t first)
{
	hk_buf *b = hk_worker_alloc(s->w);

	CHECK(b != NULL);
	for (unsigned i = 0; i < LEN; i++)
		((uint8_t *)hk_buf_data(b))[i] = (uint8_t)(first + i);
	return hk_worker_send(s->w, s->peer, AM, b, LEN);
}

void nothing_is_left(struct scene *s)
{
	struct hk_frame f;
	struct rte_mbuf *m;

	hk_worker_progress(s->w);
	while ((m = take(s, &f)))
		rte_pktmbuf_free_seg(m);
	CHECK_EQ(hk_worker_tx_available(s->w), BUFFERS);
	CHECK_EQ(hk_worker_backlog(s->w, s->peer), 0);
	CHECK_EQ(hk_worker_close(s->w, 0), 0);
}

void served(struct scene *s)
{
	uint64_t before = hk_engine_counters(hk_worker_engine(s->w))->rx_packets;

	AWAIT(WAIT_MS, hk_engine_counters(hk_worker_engine(s->w))->rx_packets > before,
	      (void)hk_worker_proxy_poll(s->w, rte_rdtsc()));
}

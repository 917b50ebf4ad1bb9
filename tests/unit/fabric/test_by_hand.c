/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/test_by_hand.c: one fabric, and its peer's frames made by hand.
 *
 * For what two honest fabrics cannot be brought to do at will: a driver that keeps what it has
 * sent, a peer that leaves at a given moment. The wire is a net_ring that leads back to its own
 * port, without a copy: what the fabric sends the test takes out of the ring, as the very buffer,
 * before the fabric looks; what the test puts in comes to the fabric.
 */
#include "fabric/rma.h"
#include "port/bell.h"
#include "port/internal.h"
#include "tests/unit/hk_test.h"

#include <errno.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 30000 /* no test takes a hundredth of it */
#define KEY     0x48414e44u
#define SELF    1u
#define OTHER   2u
#define EPOCH   100u
#define AM      7
#define BUFFERS 256
#define LEN     200

struct scene {
	struct hk_port *port;
	struct hk_fabric *f;
	hk_peer peer;
	hk_peer about; /* of whom verdicts are expected */
	bool crc;
	unsigned lost; /* verdicts */
	enum hk_verdict why;
	char text[256]; /* of the last */
};

static void on_lost(void *arg, hk_peer peer, enum hk_verdict why, const char *text)
{
	struct scene *s = arg;

	CHECK_EQ(peer, s->about);
	s->lost++;
	s->why = why;
	snprintf(s->text, sizeof(s->text), "%s", text);
}

static void scene_open(struct scene *s, bool crc)
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
	CHECK_MSG(hk_port_open(spec, 64, NULL, WAIT_MS, &s->port, &err) == 0, "%s", err.text);
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
	cfg.frame_max = 2048;
	cfg.lost = on_lost;
	cfg.lost_arg = s;
	CHECK_MSG(hk_fabric_open(&cfg, &s->f, &err) == 0, "%s", err.text);
	CHECK_MSG(hk_fabric_add_port(s->f, s->port, &err) == 0, "%s", err.text);
	CHECK_MSG(hk_fabric_peer_add(s->f, &addr, &s->peer, &err) == 0, "%s", err.text);
	s->about = s->peer;
}

/* ---- the other end --------------------------------------------------------------------------- */

/* What the fabric sent last, if anything: the buffer is the test's, as if it were the driver. */
static struct rte_mbuf *take(struct scene *s, struct hk_frame *f)
{
	struct rte_mbuf *m;

	if (hk_port_rx(s->port, 0, &m, 1) == 0)
		return NULL;
	enum hk_wire_status st = hk_wire_parse(rte_pktmbuf_mtod(m, void *), m->data_len, s->crc, f);

	CHECK_MSG(st == HK_WIRE_OK, "the fabric sent a frame that does not parse: %s",
		  hk_wire_status_name(st));
	return m;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Waits for the next data frame; acks and the like are let go. */
static struct rte_mbuf *take_data(struct scene *s, struct hk_frame *f)
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

/* What every header of the other end has. */
static struct hk_wire_hdr other_header(enum hk_wire_type type, uint32_t psn, uint16_t window)
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

/* A frame into the ring, with h->len bytes of @payload (NULL: zeros). */
static void frame_into_ring(struct scene *s, const struct hk_wire_hdr *h, const void *payload)
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

/* A frame of the other end that carries nothing, into the ring. */
static void into_ring(struct scene *s, enum hk_wire_type type, uint32_t psn, uint32_t ack,
		      uint16_t window)
{
	struct hk_wire_hdr h = other_header(type, psn, window);

	h.len = type == HK_WIRE_ACK ? HK_WIRE_SACK_LEN : 0;
	h.ack = ack;
	frame_into_ring(s, &h, NULL);
}

/* … and the fabric takes it. */
static void put(struct scene *s, enum hk_wire_type type, uint32_t psn, uint32_t ack,
		uint16_t window)
{
	into_ring(s, type, psn, ack, window);
	hk_fabric_progress(s->f);
}

static int send_one(struct scene *s, uint8_t first)
{
	hk_buf *b = hk_fabric_alloc(s->f);

	CHECK(b != NULL);
	for (unsigned i = 0; i < LEN; i++)
		((uint8_t *)hk_buf_data(b))[i] = (uint8_t)(first + i);
	return hk_fabric_send(s->f, s->peer, AM, b, LEN);
}

static void is_message(const struct hk_frame *f, uint8_t first)
{
	CHECK_EQ(f->payload_len, LEN);
	for (unsigned i = 0; i < LEN; i++)
		CHECK_EQ(f->payload[i], (uint8_t)(first + i));
}

/* All buffers are back. */
static void nothing_is_left(struct scene *s)
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

/* ---- resends while the driver holds the buffer --------------------------------------------------- */

/* NICs give buffers back lazily. What such a driver still reads must not change under it, and what
 * is sent again must be a whole, sealed frame all the same. */
static void held_buffer_is_copied(bool crc)
{
	struct scene s;
	struct hk_frame f;
	char before[HK_ETH_HLEN + HK_WIRE_HLEN + LEN + HK_WIRE_CRC_LEN];

	scene_open(&s, crc);
	CHECK_EQ(send_one(&s, 3), 0);
	struct rte_mbuf *held = take_data(&s, &f);
	struct rte_mempool *pool = held->pool;
	uint32_t psn = f.h.psn;

	CHECK(!(f.h.flags & HK_WIRE_F_RESENT));
	CHECK_EQ(rte_mbuf_refcnt_read(held), 2);
	CHECK_CMP(held->data_len, <=, sizeof(before));
	memcpy(before, rte_pktmbuf_mtod(held, void *), held->data_len);
	for (int i = 0; i < 2; i++) { /* nobody answers */
		struct rte_mbuf *again = take_data(&s, &f);

		CHECK_MSG(again != held, "a resend rewrites a buffer that the driver still reads");
		CHECK(f.h.flags & HK_WIRE_F_RESENT);
		CHECK_EQ(f.h.psn, psn);
		is_message(&f, 3);
		CHECK_EQ(again->data_len, held->data_len);
		CHECK_EQ(again->pkt_len, held->data_len);
		CHECK_EQ(rte_mbuf_refcnt_read(again), 1); /* the driver's alone */
		CHECK(memcmp(before, rte_pktmbuf_mtod(held, void *), held->data_len) == 0);
		rte_pktmbuf_free_seg(again);
	}
	rte_pktmbuf_free_seg(held); /* the driver lets go: from now on no copy is needed */
	CHECK_MSG(take_data(&s, &f) == held, "a resend copies a buffer that nobody else holds");
	CHECK(f.h.flags & HK_WIRE_F_RESENT);
	is_message(&f, 3);
	/* acknowledged before the driver lets go */
	put(&s, HK_WIRE_ACK, 0, psn + 1, 64);
	CHECK_EQ(hk_engine_unacked(hk_fabric_engine(s.f), HK_PEER_NONE), 0);
	CHECK_EQ(rte_mbuf_refcnt_read(held), 1);
	CHECK_EQ(rte_mempool_in_use_count(pool), 1);
	rte_pktmbuf_free_seg(held);
	CHECK_EQ(rte_mempool_in_use_count(pool), 0);
	nothing_is_left(&s);
}

static void held_buffers_are_copied(void)
{
	held_buffer_is_copied(false);
	held_buffer_is_copied(true);
}

/* ---- a peer that leaves -------------------------------------------------------------------------- */

/* Sends until messages wait here. Returns how many packets were numbered; all are answered, and the
 * credit is used up, if @answered. */
static uint32_t fill(struct scene *s, bool answered)
{
	struct hk_frame f;
	struct rte_mbuf *m;
	uint32_t next = 0;

	for (unsigned i = 0; i < BUFFERS; i++) {
		int rc = send_one(s, (uint8_t)i);

		CHECK(rc >= 0);
		while ((m = take(s, &f))) {
			next = f.h.psn + 1;
			rte_pktmbuf_free_seg(m);
		}
		if (rc == 0)
			continue;
		if (!answered)
			break;
		put(s, HK_WIRE_ACK, 0, next, 0); /* its edge stands where it stood */
		while ((m = take(s, &f))) {
			next = f.h.psn + 1;
			rte_pktmbuf_free_seg(m);
		}
		if (hk_fabric_backlog(s->f, s->peer) &&
		    hk_engine_unacked(hk_fabric_engine(s->f), s->peer) == 0)
			break;
	}
	CHECK(hk_fabric_backlog(s->f, s->peer) > 0);
	CHECK_EQ(s->lost, 0);
	return next;
}

static void it_left(struct scene *s, uint32_t ack)
{
	put(s, HK_WIRE_BYE, 0, ack, 0);
	for (uint64_t end = now_ms() + WAIT_MS; s->lost == 0 && now_ms() < end;)
		hk_fabric_progress(s->f);
	CHECK_MSG(s->lost > 0, "messages waited for a peer that left, and nobody was told");
	CHECK_EQ(s->why, HK_VERDICT_LEFT);
	CHECK_MSG(strstr(s->text, "rank 1 on node1 has left"), "the verdict says '%s'", s->text);
	CHECK_EQ(hk_fabric_backlog(s->f, s->peer), 0);
	CHECK_EQ(send_one(s, 0), -ENOTCONN);
	for (int i = 0; i < 100; i++)
		hk_fabric_progress(s->f);
	CHECK_MSG(s->lost == 1, "the verdict came %u times", s->lost);
	nothing_is_left(s);
}

/* Everything in flight was acknowledged, so the engine has nothing to complain of. */
static void bye_while_messages_wait(void)
{
	struct scene s;

	scene_open(&s, false);
	uint32_t next = fill(&s, true);

	CHECK_EQ(hk_engine_unacked(hk_fabric_engine(s.f), s.peer), 0);
	it_left(&s, next);
}

/* Both complain, and one is heard. */
static void bye_with_packets_in_flight_too(void)
{
	struct scene s;

	scene_open(&s, false);
	fill(&s, false);
	CHECK(hk_engine_unacked(hk_fabric_engine(s.f), s.peer) > 0);
	it_left(&s, 0);
}

static void bye_that_nobody_regrets(void)
{
	struct scene s;

	scene_open(&s, false);
	put(&s, HK_WIRE_BYE, 0, 0, 0);
	for (int i = 0; i < 100; i++)
		hk_fabric_progress(s.f);
	CHECK_EQ(hk_engine_peer_state(hk_fabric_engine(s.f), s.peer), HK_PEER_LEFT);
	CHECK_EQ(s.lost, 0);
	nothing_is_left(&s);
}

/* ---- the stand-in -------------------------------------------------------------------------------- */

/* A stand-in takes in the packet that lies in the ring, while the application is away. */
static void served(struct scene *s)
{
	uint64_t before = hk_engine_counters(hk_fabric_engine(s->f))->rx_packets;

	for (uint64_t end = now_ms() + WAIT_MS;
	     hk_engine_counters(hk_fabric_engine(s->f))->rx_packets == before;) {
		(void)hk_fabric_serve(s->f);
		CHECK_MSG(now_ms() < end, "a stand-in did not take in a packet");
	}
}

/* ---- puts to a peer that leaves ------------------------------------------------------------------- */

static void done(void *arg, int status)
{
	*(int *)arg = status ? status : 1;
}

/* A put of two frames, the first @acked of them acknowledged by the BYE itself. Its status. */
static int put_before_bye(uint32_t acked, bool stand_in, unsigned *lost)
{
	static char from[3000];
	struct hk_error err = {""};
	struct rte_mbuf *m;
	struct hk_frame f;
	struct hk_op op;
	struct scene s;
	int status = 0;

	scene_open(&s, false);
	CHECK_MSG(hk_fabric_share(s.f, &err) == 0, "%s", err.text);
	CHECK_EQ(hk_fabric_put(s.f, s.peer, &op, from, sizeof(from), 1 << 16, 0, done, &status), 0);
	for (uint32_t i = 0; i < 2; i++) {
		m = take(&s, &f);
		CHECK(m && f.h.type == HK_WIRE_PUT && f.h.psn == i);
		rte_pktmbuf_free_seg(m);
	}
	if (stand_in)
		into_ring(&s, HK_WIRE_BYE, 0, acked, 0);
	else
		put(&s, HK_WIRE_BYE, 0, acked, 0);
	for (uint64_t end = now_ms() + WAIT_MS;
	     stand_in && hk_engine_peer_state(hk_fabric_engine(s.f), s.peer) != HK_PEER_LEFT;) {
		(void)hk_fabric_serve(s.f);
		CHECK_MSG(now_ms() < end, "the stand-in did not take the BYE");
	}
	for (uint64_t end = now_ms() + WAIT_MS; !status;) {
		hk_fabric_progress(s.f);
		CHECK_MSG(now_ms() < end, "the put never ended");
	}
	for (unsigned i = 0; i < 100; i++)
		hk_fabric_progress(s.f);
	*lost = s.lost;
	nothing_is_left(&s);
	return status;
}

/* What the peer acknowledged before it left is done; what it did not is lost. */
static void puts_before_bye(void)
{
	unsigned lost;

	for (int stand_in = 0; stand_in < 2; stand_in++) {
		CHECK_EQ(put_before_bye(2, stand_in, &lost), 1);
		CHECK_EQ(lost, 0);
		CHECK_EQ(put_before_bye(1, stand_in, &lost), -ENOTCONN);
		CHECK_EQ(lost, 1);
	}
}

/* ---- a peer that begins anew ---------------------------------------------------------------------- */

#define THIRD 3u /* nobody has added it */

struct third {
	hk_peer peer;
	unsigned messages;
};

static void on_third(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	struct third *t = arg;

	(void)am;
	(void)iov;
	(void)count;
	t->peer = peer;
	t->messages++;
}

/* The first message of its incarnation @epoch. */
static void third_talks(struct scene *s, uint32_t epoch, uint8_t am, const void *payload,
			uint16_t len)
{
	struct hk_wire_hdr h = other_header(HK_WIRE_DATA, 0, 64);

	h.src = THIRD;
	h.src_epoch = epoch;
	h.frags = 1;
	h.am = am;
	h.len = len;
	frame_into_ring(s, &h, payload);
}

/* What an incarnation that has ended left here: a window of packets, messages that wait, a put and a get. */
static void leave_things(struct scene *s, struct third *t, struct hk_op op[2], int status[2])
{
	static char memory[4096];
	int rc = 0;

	third_talks(s, EPOCH, AM, NULL, 0);
	hk_fabric_progress(s->f);
	CHECK_EQ(t->messages, 1);
	s->about = t->peer;
	for (unsigned i = 0; i < BUFFERS / 2; i++) {
		hk_buf *b = hk_fabric_alloc(s->f);

		CHECK(b != NULL);
		rc = hk_fabric_send(s->f, t->peer, AM, b, 8);
		CHECK(rc >= 0);
	}
	CHECK_EQ(rc, 1);
	CHECK_EQ(hk_fabric_put(s->f, t->peer, &op[0], memory, sizeof(memory), 1 << 16, 0, done,
			       &status[0]),
		 0);
	CHECK_EQ(hk_fabric_get(s->f, t->peer, &op[1], memory, sizeof(memory), 1 << 16, 0, done,
			       &status[1]),
		 0);
}

/* What was sent to the first incarnation is lost: a verdict says so, once. */
static void told_of_the_first(struct scene *s)
{
	for (uint64_t end = now_ms() + WAIT_MS; s->lost == 0;) {
		hk_fabric_progress(s->f);
		CHECK_MSG(now_ms() < end, "messages to a peer that began anew vanish in silence");
	}
	for (int i = 0; i < 100; i++)
		hk_fabric_progress(s->f);
	CHECK_EQ(s->lost, 1);
	CHECK_EQ(s->why, HK_VERDICT_RESTARTED);
}

/* Of all that it left nothing goes to the next incarnation, and what we send to that one does. */
static void third_is_new(struct scene *s, struct third *t, const int status[2])
{
	struct rte_mbuf *m;
	struct hk_frame f;
	hk_buf *b = hk_fabric_alloc(s->f);
	unsigned to_new = 0;

	CHECK(b != NULL);
	CHECK_MSG(hk_fabric_send(s->f, t->peer, AM, b, 77) == 0,
		  "messages to the earlier incarnation still wait");
	for (uint64_t end = now_ms() + WAIT_MS; !to_new || !status[0] || !status[1];) {
		while ((m = take(s, &f))) {
			bool packet = f.h.type == HK_WIRE_DATA || f.h.type == HK_WIRE_PUT;

			if (packet && f.h.dst_epoch == EPOCH + 1) {
				CHECK_MSG(f.h.len == 77, "it got %u bytes of its predecessor",
					  f.h.len);
				to_new++;
			}
			rte_pktmbuf_free_seg(m);
		}
		hk_fabric_progress(s->f);
		CHECK_MSG(now_ms() < end, "waited in vain for the end of what was left");
	}
	CHECK_EQ(status[0], -ENOTCONN);
	CHECK_EQ(status[1], -ENOTCONN);
	CHECK_EQ(hk_fabric_backlog(s->f, t->peer), 0);
	told_of_the_first(s);
}

/* The next incarnation is heard by the application, by a stand-in, or the application adds it. */
enum newcomer { HEARD, HEARD_BY_STAND_IN, ADDED };

static void begins_anew(enum newcomer how)
{
	struct hk_peer_addr addr = {
		.endpoint = THIRD, .epoch = EPOCH + 1, .frame_max = 2048, .name = "rank 2"};
	struct hk_error err = {""};
	struct third t = {0};
	int status[2] = {0};
	struct hk_op op[2];
	struct scene s;
	hk_peer again;

	scene_open(&s, false);
	CHECK_MSG(hk_fabric_share(s.f, &err) == 0, "%s", err.text);
	hk_fabric_set_am(s.f, AM, on_third, &t);
	leave_things(&s, &t, op, status);
	if (how == ADDED) {
		CHECK_MSG(hk_fabric_peer_add(s.f, &addr, &again, &err) == 0, "%s", err.text);
		CHECK_EQ(again, t.peer);
	} else {
		third_talks(&s, EPOCH + 1, AM, NULL, 0);
		if (how == HEARD)
			hk_fabric_progress(s.f);
		else
			served(&s);
	}
	third_is_new(&s, &t, status);
	hk_fabric_close(s.f, 0);
}

/* No message waits here: one packet is in flight, and the next incarnation knows nothing of it. If it was
 * acknowledged, nothing is lost. */
static void packet_to_the_first(bool acknowledged)
{
	struct third t = {0};
	struct scene s;

	scene_open(&s, false);
	hk_fabric_set_am(s.f, AM, on_third, &t);
	third_talks(&s, EPOCH, AM, NULL, 0);
	hk_fabric_progress(s.f);
	s.about = t.peer;
	hk_buf *b = hk_fabric_alloc(s.f);

	CHECK(b != NULL);
	CHECK_EQ(hk_fabric_send(s.f, t.peer, AM, b, 8), 0);
	if (acknowledged) {
		struct hk_wire_hdr h = other_header(HK_WIRE_ACK, 0, 64);

		h.src = THIRD;
		h.ack = 1;
		h.len = HK_WIRE_SACK_LEN;
		frame_into_ring(&s, &h, NULL);
		hk_fabric_progress(s.f);
		CHECK_EQ(hk_engine_unacked(hk_fabric_engine(s.f), t.peer), 0);
	}
	third_talks(&s, EPOCH + 1, AM, NULL, 0);
	hk_fabric_progress(s.f);
	CHECK_EQ(t.messages, 2);
	if (!acknowledged)
		told_of_the_first(&s);
	for (int i = 0; i < 100; i++)
		hk_fabric_progress(s.f);
	CHECK_EQ(s.lost, !acknowledged);
	hk_fabric_close(s.f, 0);
}

static void what_was_sent_to_the_first_is_told(void)
{
	packet_to_the_first(false);
	packet_to_the_first(true);
}

static void another_incarnation_gets_nothing_of_the_first(void)
{
	begins_anew(HEARD);
	begins_anew(HEARD_BY_STAND_IN);
	begins_anew(ADDED);
}

/* What an incarnation asked for is not put into the memory of the next. */
static void request_of_an_earlier_incarnation(void)
{
	struct hk_wire_get g = {.len = 64, .to_region = 1 << 16};
	char memory[64] = {0}, request[HK_WIRE_GET_LEN];
	struct hk_error err = {""};
	struct third t = {0};
	struct scene s;

	scene_open(&s, false);
	CHECK_MSG(hk_fabric_share(s.f, &err) == 0, "%s", err.text);
	hk_fabric_set_am(s.f, AM, on_third, &t);
	g.region = hk_fabric_region_add(s.f, memory, sizeof(memory), HK_REGION_READ, HK_PEER_NONE);
	hk_wire_put_get(request, &g);
	third_talks(&s, EPOCH, HK_WIRE_AM_GET, request, sizeof(request));
	served(&s);
	third_talks(&s, EPOCH + 1, AM, NULL, 0);
	served(&s);
	for (uint64_t end = now_ms() + WAIT_MS; t.messages == 0;) {
		hk_fabric_progress(s.f);
		CHECK_MSG(now_ms() < end, "what was kept never came");
	}
	CHECK_EQ(hk_fabric_counters(s.f)->gets_served, 0);
	hk_fabric_close(s.f, 0);
}

/* ---- gets without measure ------------------------------------------------------------------------ */

#define MEASURE 64 /* gets that a peer may have under way: HK_GETS_MAX */
#define GREEDY  10 /* endpoints from here on */

/* Request @psn of @endpoint, that acknowledges nothing, and the fabric takes it. */
static void asks(struct scene *s, uint32_t endpoint, uint32_t psn, uint32_t region)
{
	struct hk_wire_get g = {.region = region, .len = 64, .to_region = 1 << 16};
	struct hk_wire_hdr h = other_header(HK_WIRE_DATA, psn, 64);
	char request[HK_WIRE_GET_LEN];

	h.src = endpoint;
	h.frags = 1;
	h.am = HK_WIRE_AM_GET;
	h.len = sizeof(request);
	hk_wire_put_get(request, &g);
	frame_into_ring(s, &h, request);
	hk_fabric_progress(s->f);
}

static void excess_is_dropped(bool refused)
{
	const struct hk_fabric_counters *n;
	char memory[64] = {0};
	struct scene s;

	scene_open(&s, false);
	n = hk_fabric_counters(s.f);
	hk_region r = hk_fabric_region_add(s.f, memory, 64, HK_REGION_READ, HK_PEER_NONE);

	for (uint32_t i = 0; i < 1000; i++)
		asks(&s, OTHER, i, refused ? r + 1 : r);
	CHECK_CMP(hk_fabric_backlog(s.f, s.peer), <=, MEASURE);
	CHECK_CMP(n->get_excess, >=, 1000 - 2 * MEASURE);
	CHECK_EQ(n->get_excess + (refused ? n->get_refused : n->gets_served), 1000);
	put(&s, HK_WIRE_BYE, 1000, 0, 0);
	/* it is counted anew, and what was taken has come back */
	CHECK_EQ(hk_fabric_backlog(s.f, s.peer), 0);
	CHECK_EQ(hk_fabric_room(s.f), BUFFERS);
	hk_fabric_close(s.f, 0);
}

static void gets_beyond_measure_are_dropped(void)
{
	excess_is_dropped(false);
	excess_is_dropped(true);
}

/* Many peers ask for all they may and acknowledge nothing; one more asks for little, and gets it. */
static void who_asks_for_little_is_served(void)
{
	uint32_t little = GREEDY + 25;
	char memory[64] = {0};
	struct rte_mbuf *m;
	struct hk_frame f;
	struct scene s;
	bool served_it = false;

	scene_open(&s, false);
	hk_region r = hk_fabric_region_add(s.f, memory, 64, HK_REGION_READ, HK_PEER_NONE);

	for (uint32_t endpoint = GREEDY; endpoint < little; endpoint++)
		for (uint32_t i = 0; i < 2 * MEASURE; i++)
			asks(&s, endpoint, i, r);
	asks(&s, little, 0, r);
	while ((m = take(&s, &f))) {
		served_it |= f.h.dst == little && f.h.type == HK_WIRE_PUT;
		rte_pktmbuf_free_seg(m);
	}
	CHECK_MSG(served_it, "others took all places: %lu gets are served",
		  hk_fabric_counters(s.f)->gets_served);
	hk_fabric_close(s.f, 0);
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* One message of the other end, taken in by a stand-in while the application is away. */
static void kept(struct scene *s, uint32_t psn, uint16_t len)
{
	struct hk_wire_hdr h = other_header(HK_WIRE_DATA, psn, 256);
	char payload[2048] = {0};

	CHECK_CMP(len, <=, sizeof(payload));
	h.len = len;
	h.am = AM;
	h.frags = 1;
	memcpy(payload, &psn, sizeof(psn));
	frame_into_ring(s, &h, payload);
	served(s);
}

static void on_kept(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	uint32_t *next = arg, psn;

	(void)peer;
	(void)am;
	CHECK_EQ(count, 1);
	memcpy(&psn, iov->base, sizeof(psn));
	CHECK_EQ(psn, (*next)++);
}

/* What is kept nearly fills its memory, and one frame lets go many that came early: as many as fit are kept,
 * and all arrive, in order. */
static void many_come_free_when_little_can_be_kept(void)
{
	struct hk_error err = {""};
	struct scene s;
	uint32_t n = 0, next = 0, last;

	scene_open(&s, false);
	CHECK_MSG(hk_fabric_share(s.f, &err) == 0, "%s", err.text);
	hk_fabric_set_am(s.f, AM, on_kept, &next);
	while (n < ((8u << 20) - 1024) / 1920)
		kept(&s, n++, 1900);
	last = n + 60;
	for (uint32_t i = n + 1; i <= last; i++)
		kept(&s, i, 200);
	kept(&s, n, 200);
	for (uint64_t end = now_ms() + WAIT_MS; next <= last;) {
		hk_fabric_progress(s.f);
		CHECK_MSG(now_ms() < end, "%u of %u messages came", next, last + 1);
	}
	nothing_is_left(&s);
}

/* ---- peers that sleep ----------------------------------------------------------------------------- */

static bool rung(int end)
{
	char c;

	return recv(end, &c, 1, MSG_DONTWAIT) == 1;
}

/* The packet leaves, and nobody answers. With @stand_in the application does not wait itself. */
static uint32_t until_rung(struct scene *s, int end, bool stand_in)
{
	struct hk_frame f;

	CHECK_EQ(send_one(s, 1), 0);
	rte_pktmbuf_free_seg(take_data(s, &f));
	for (uint64_t until = now_ms() + WAIT_MS; !rung(end);) {
		if (stand_in)
			CHECK_CMP(hk_fabric_serve(s->f), !=,
				  HK_SERVE_IDLE); /* it is owed an answer */
		else
			hk_fabric_progress(s->f);
		CHECK_MSG(now_ms() < until, "nobody rang for a peer that is silent");
	}
	return f.h.psn;
}

/* Who waits for a silent peer rings, be it the application or its stand-in; not for long, if that does not
 * help; and not at all for one that has acknowledged everything. */
static void silent_peers_are_rung_for(void)
{
	struct hk_error err = {""};
	struct scene s;
	int sv[2];

	scene_open(&s, false);
	CHECK_MSG(hk_fabric_share(s.f, &err) == 0, "%s", err.text);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv) == 0);
	hk_bell_set_wire(s.port->id, sv[0]);
	const struct hk_fabric_counters *n = hk_fabric_counters(s.f);

	for (unsigned i = 0; i < 2; i++) {
		uint64_t before = n->rings;
		uint32_t psn = until_rung(&s, sv[1], i == 1);

		CHECK_EQ(n->rings, before + 1);
		put(&s, HK_WIRE_ACK, 0, psn + 1, 64);
		CHECK_EQ(hk_engine_unacked(hk_fabric_engine(s.f), HK_PEER_NONE), 0);
		before = n->rings;
		for (unsigned k = 0; k < 1000; k++)
			hk_fabric_progress(s.f);
		CHECK_EQ(n->rings, before);
	}
	uint64_t from = now_ms(), before = n->rings;
	uint32_t psn = until_rung(&s, sv[1], false);

	while (now_ms() < from + 50)
		hk_fabric_progress(s.f);
	/* pauses of 0.5, 1, 2, 4, 8, 8, … ms */
	CHECK_CMP(n->rings - before, >, 1);
	CHECK_CMP(n->rings - before, <=, 6 + (now_ms() - from) / 8);
	put(&s, HK_WIRE_ACK, 0, psn + 1, 64);
	while (rung(sv[1]))
		;
	CHECK_EQ(hk_bell_take_wire(s.port->id), sv[0]);
	nothing_is_left(&s);
	close(sv[0]);
	close(sv[1]);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"held_buffers_are_copied", held_buffers_are_copied},
		{"bye_while_messages_wait", bye_while_messages_wait},
		{"bye_with_packets_in_flight_too", bye_with_packets_in_flight_too},
		{"bye_that_nobody_regrets", bye_that_nobody_regrets},
		{"puts_before_bye", puts_before_bye},
		{"what_was_sent_to_the_first_is_told", what_was_sent_to_the_first_is_told},
		{"another_incarnation_gets_nothing_of_the_first",
		 another_incarnation_gets_nothing_of_the_first},
		{"request_of_an_earlier_incarnation", request_of_an_earlier_incarnation},
		{"gets_beyond_measure_are_dropped", gets_beyond_measure_are_dropped},
		{"who_asks_for_little_is_served", who_asks_for_little_is_served},
		{"many_come_free_when_little_can_be_kept", many_come_free_when_little_can_be_kept},
		{"silent_peers_are_rung_for", silent_peers_are_rung_for},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

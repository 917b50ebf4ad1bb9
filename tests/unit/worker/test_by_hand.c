/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_by_hand.c: one worker in difficult cases. The driver holds frames that it
 * has sent. A peer asks for more than it may. The rx backlog is full. A peer is silent.
 */
#include "port/wakeup.h"
#include "worker/rma_internal.h"
#include "worker/rx.h"
#include "worker/tx.h"
#include "tests/support/by_hand.h"

#include <sys/socket.h>
#include <unistd.h>

/* ---- resends while the driver holds the buffer ----------------------------------------------- */

static void is_message(const struct hk_frame *f, uint8_t first)
{
	CHECK_EQ(f->payload_len, LEN);
	for (unsigned i = 0; i < LEN; i++)
		CHECK_EQ(f->payload[i], (uint8_t)(first + i));
}

/* A NIC returns buffers late. A frame that such a driver still reads must not change, and the
 * resent one must be complete and sealed all the same. */
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
		CHECK_EQ(rte_mbuf_refcnt_read(again), 1); /* only the driver's */
		CHECK(memcmp(before, rte_pktmbuf_mtod(held, void *), held->data_len) == 0);
		rte_pktmbuf_free_seg(again);
	}
	rte_pktmbuf_free_seg(held); /* the driver frees it: from now on no copy is needed */
	CHECK_MSG(take_data(&s, &f) == held, "a resend copies a buffer that nobody else holds");
	CHECK(f.h.flags & HK_WIRE_F_RESENT);
	is_message(&f, 3);
	/* acknowledged before the driver frees it */
	arrives(&s, HK_WIRE_ACK, 0, psn + 1, 64);
	CHECK_EQ(hk_engine_unacked(hk_worker_engine(s.w), HK_PEER_NONE), 0);
	CHECK_EQ(rte_mbuf_refcnt_read(held), 1);
	CHECK_EQ(rte_mempool_in_use_count(pool), 1);
	rte_pktmbuf_free_seg(held);
	CHECK_EQ(rte_mempool_in_use_count(pool), 0);
	nothing_is_left(&s);
}

TEST(held_buffers_are_copied)
{
	held_buffer_is_copied(false);
	held_buffer_is_copied(true);
}

/* ---- gets without measure -------------------------------------------------------------------- */

#define MEASURE 64 /* gets of a peer in flight, at most: HK_GETS_MAX */
#define GREEDY  10 /* endpoints from here on */

/* The worker receives request @psn of @endpoint, which acknowledges nothing. */
static void asks(struct scene *s, uint32_t endpoint, uint32_t psn, uint32_t region)
{
	struct hk_wire_get g = {.region = region, .len = 64, .to_region = 1 << 16};
	struct hk_wire_hdr h = other_header(HK_WIRE_DATA, psn, 64);
	char request[HK_WIRE_GET_LEN];

	h.src = endpoint;
	h.am = HK_WIRE_AM_GET;
	h.len = sizeof(request);
	hk_wire_get_encode(request, &g);
	frame_into_ring(s, &h, request);
	hk_worker_progress(s->w);
}

static void excess_is_dropped(bool refused)
{
	const struct hk_worker_counters *n;
	char memory[64] = {0};
	struct scene s;

	scene_open(&s, false);
	n = hk_worker_counters(s.w);
	hk_region r = hk_worker_region_add(s.w, memory, 64, HK_REGION_READ, HK_PEER_NONE);

	for (uint32_t i = 0; i < 1000; i++)
		asks(&s, OTHER, i, refused ? r + 1 : r);
	CHECK_CMP(hk_worker_backlog(s.w, s.peer), <=, MEASURE);
	CHECK_CMP(n->get_excess, >=, 1000 - 2 * MEASURE);
	CHECK_EQ(n->get_excess + (refused ? n->get_refused : n->gets_served), 1000);
	arrives(&s, HK_WIRE_BYE, 1000, 0, 0);
	/* the count starts again, and what was taken has come back */
	CHECK_EQ(hk_worker_backlog(s.w, s.peer), 0);
	CHECK_EQ(hk_worker_tx_available(s.w), BUFFERS);
	hk_worker_close(s.w, 0);
}

TEST(gets_beyond_measure_are_dropped)
{
	excess_is_dropped(false);
	excess_is_dropped(true);
}

/* Many peers ask for all they may and acknowledge nothing. One more asks for little, and gets
 * it. */
TEST(who_asks_for_little_is_served)
{
	uint32_t little = GREEDY + 25;
	char memory[64] = {0};
	struct rte_mbuf *m;
	struct hk_frame f;
	struct scene s;
	bool served_it = false;

	scene_open(&s, false);
	hk_region r = hk_worker_region_add(s.w, memory, 64, HK_REGION_READ, HK_PEER_NONE);

	for (uint32_t endpoint = GREEDY; endpoint < little; endpoint++)
		for (uint32_t i = 0; i < 2 * MEASURE; i++)
			asks(&s, endpoint, i, r);
	asks(&s, little, 0, r);
	while ((m = take(&s, &f))) {
		served_it |= f.h.dst == little && f.h.type == HK_WIRE_PUT;
		rte_pktmbuf_free_seg(m);
	}
	CHECK_MSG(served_it, "others took all depth: %lu gets are served",
		  hk_worker_counters(s.w)->gets_served);
	hk_worker_close(s.w, 0);
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* A worker that the poller may drive, with @fn for messages and an rx backlog of @rx_backlog
 * frames (0: many). */
static void shared_scene(struct scene *s, unsigned rx_backlog, hk_am_fn fn, void *arg)
{
	scene_open_rx_backlog(s, rx_backlog);
	scene_share(s);
	hk_worker_set_am(s->w, AM, fn, arg);
}

/* One message of the other end, which contains its number. */
static void message_into_ring(struct scene *s, uint8_t am, uint32_t psn, uint16_t len)
{
	struct hk_wire_hdr h = other_header(HK_WIRE_DATA, psn, 256);
	char payload[2048] = {0};

	CHECK_CMP(len, <=, sizeof(payload));
	h.len = len;
	h.am = am;
	memcpy(payload, &psn, sizeof(psn));
	frame_into_ring(s, &h, payload);
}

/* The same, and the poller takes it in while the application does not poll. */
static void stored_am(struct scene *s, uint8_t am, uint32_t psn, uint16_t len)
{
	message_into_ring(s, am, psn, len);
	served(s);
}

static void stored(struct scene *s, uint32_t psn, uint16_t len)
{
	stored_am(s, AM, psn, len);
}

static void on_stored(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	uint32_t *next = arg, psn;

	CHECK_EQ(count, 1);
	memcpy(&psn, iov->base, sizeof(psn));
	CHECK_EQ(psn, (*next)++);
}

/* So many messages of 1900 bytes fill the rx backlog of a worker that stores few buffers. The
 * same number once more finds no space. */
#define COPIES (((8u << 20) - 4096) / 1920)
/* Deferred messages of one window, and others that the rx backlog then stores in their buffers. Of
 * MANY buffers, those that wait may have three quarters. */
#define MANY  192
#define EARLY 117
#define GAP   (COPIES + 135)

/* The rx backlog is nearly full when one frame makes many reordered messages due. As many as fit
 * are stored, and all arrive, in order. */
TEST(many_come_free_when_little_can_be_stored)
{
	struct scene s;
	uint32_t n = 0, next = 0, last = GAP + EARLY;

	shared_scene(&s, MANY, on_stored, &next);
	while (n < COPIES)
		stored(&s, n++, 1900);
	for (uint32_t i = GAP + 1; i <= last; i++)
		stored(&s, i, 200);
	while (n <= GAP)
		stored(&s, n++, 200);
	AWAIT(WAIT_MS, next > last, hk_worker_progress(s.w));
	nothing_is_left(&s);
}

/* The acknowledgement and credit that the other end has: all before @acked has arrived, and it
 * may send packets before @edge. */
struct ack_state {
	uint32_t acked, edge;
};

static void listen_to(struct scene *s, struct ack_state *t)
{
	struct rte_mbuf *m;
	struct hk_frame f;

	while ((m = take(s, &f))) {
		t->acked = f.h.ack;
		t->edge = f.h.ack + f.h.credit;
		rte_pktmbuf_free_seg(m);
	}
}

/* A sender that keeps to its credit sends nothing for nothing. It is stopped when no more small
 * messages can be copied, and there is space for what its credit allows. */
TEST(credit_is_honoured)
{
	const struct hk_engine_counters *c;
	struct ack_state t = {0, 1};
	struct scene s;
	uint32_t n = 0, next = 0;

	shared_scene(&s, 0, on_stored, &next);
	c = hk_engine_counters(hk_worker_engine(s.w));
	for (int64_t end = hk_clock_ms() + WAIT_MS; t.acked != n || t.edge != n || n == 0;) {
		if ((int32_t)(t.edge - n) > 0)
			message_into_ring(&s, AM, n++, 1900);
		/* not hk_worker_proxy_poll(), which polls again and finds what it has sent */
		hk_rx_poll(s.w, true);
		hk_txqs_flush(s.w);
		listen_to(&s, &t);
		CHECK_MSG(c->refused == 0, "one of %u packets was sent with credit, and refused",
			  n);
		CHECK_MSG(hk_clock_ms() < end,
			  "the sender is not stopped after %u packets, with ack %u and credit up "
			  "to %u",
			  n, t.acked, t.edge);
	}
	CHECK_CMP(n, >, ((8u << 20) - (1u << 18)) / 1920);
	while (next < n)
		CHECK_CMP(hk_worker_progress(s.w), >, 0);
	nothing_is_left(&s);
}

/* The rx backlog is a ring, and wraps. */
TEST(the_backlog_wraps)
{
	const uint32_t lot = (8u << 20) * 2 / 3 / 1920;
	struct scene s;
	uint32_t n = 0, next = 0;

	shared_scene(&s, 0, on_stored, &next);
	for (unsigned round = 1; round <= 4; round++) {
		while (n < round * lot) {
			stored(&s, n, (uint16_t)(1700 + n % 200));
			n++;
		}
		while (next < n)
			CHECK_CMP(hk_worker_progress(s.w), >, 0);
	}
	nothing_is_left(&s);
}

static void on_reordered(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov,
			 unsigned count)
{
	(*(unsigned *)arg)++;
}

/* Messages of the worker's own (garbage here) fill the memory. EARLY more, and then @others for
 * the application, wait for packet GAP, which is missing. */
static void fill_with_own(struct scene *s, unsigned others)
{
	for (uint32_t i = 0; i < COPIES; i++)
		stored_am(s, HK_WIRE_AM_GET, i, 1900);
	for (uint32_t i = GAP + 1; i <= GAP + EARLY; i++)
		stored_am(s, HK_WIRE_AM_GET, i, 200);
	for (uint32_t i = 1; i <= others; i++)
		stored(s, GAP + EARLY + i, 200);
	for (uint32_t i = COPIES; i < GAP; i++)
		stored_am(s, HK_WIRE_AM_GET, i, 200);
}

/* The same, but all stored messages are the worker's own (garbage here), and the RMA proxy
 * removes them. Then only the messages that found no space wait. They arrive with the next poll,
 * which returns that something was done. */
TEST(what_found_no_room_comes_alone)
{
	struct scene s;
	unsigned came = 0;

	shared_scene(&s, MANY, on_reordered, &came);
	fill_with_own(&s, 3);
	stored_am(&s, HK_WIRE_AM_GET, GAP, 1900);
	hk_rx_backlog_deliver(s.w);
	CHECK(hk_rx_backlog_empty(&s.w->rx_backlog));
	CHECK_CMP(hk_worker_progress(s.w), >=, 3);
	CHECK_EQ(came, 3);
	nothing_is_left(&s);
}

/* Messages that wait for space hold up later ones until an RMA proxy makes some, not until the
 * application polls again. */
TEST(the_rma_proxy_makes_space_for_waiting_messages)
{
	struct scene s;
	unsigned came = 0;

	shared_scene(&s, MANY, on_reordered, &came);
	fill_with_own(&s, 0);
	stored_am(&s, HK_WIRE_AM_GET, GAP, 1900);
	CHECK(hk_peers_listed(s.w, HK_LIST_REORDER));
	hk_rx_backlog_deliver(s.w);
	stored(&s, GAP + EARLY + 1, 200); /* the poller takes it in */
	hk_rx_backlog_deliver(s.w);
	CHECK_CMP(hk_worker_progress(s.w), >, 0);
	CHECK_EQ(came, 1);
	nothing_is_left(&s);
}

/* ---- receivers that take nothing ------------------------------------------------------------- */

/* Only a sender that waits for its receiver counts, not one that waits for an acknowledgement,
 * which comes soon. */
TEST(what_waits_for_a_receiver_is_held)
{
	struct scene s;
	struct hk_frame f;

	scene_open(&s, false);
	CHECK(!hk_worker_peers_not_polling(s.w));
	uint32_t next = 0;

	/* until the first credit is used up */
	for (unsigned i = 0; i < 10000 && !hk_worker_peers_not_polling(s.w); i++) {
		(void)send_one(&s, 1);
		while (!hk_worker_backlog(s.w, s.peer) &&
		       hk_engine_unacked(hk_worker_engine(s.w), s.peer)) {
			CHECK(!hk_worker_peers_not_polling(s.w)); /* some are in flight */
			rte_pktmbuf_free_seg(take_data(&s, &f));
			next = f.h.psn + 1;
			arrives(&s, HK_WIRE_ACK, 0, next, 0);
		}
	}
	CHECK_EQ(hk_worker_backlog(s.w, s.peer), 1);
	(void)send_one(&s, 1);
	CHECK(hk_worker_peers_not_polling(s.w));
	arrives(&s, HK_WIRE_ACK, 0, next, 2);
	CHECK_EQ(hk_worker_backlog(s.w, s.peer), 0);
	CHECK(!hk_worker_peers_not_polling(s.w));
	rte_pktmbuf_free_seg(take_data(&s, &f)); /* both messages */
	arrives(&s, HK_WIRE_ACK, 0, next + 1, 0);
	CHECK(!hk_worker_peers_not_polling(s.w)); /* nothing waits */
	nothing_is_left(&s);
}

/* ---- peers that sleep ------------------------------------------------------------------------ */

static bool signalled(int end)
{
	char c;

	return recv(end, &c, 1, MSG_DONTWAIT) == 1;
}

/* The packet leaves, and nobody answers. With @by_poller the application does not wait itself. */
static uint32_t until_signalled(struct scene *s, int end, bool by_poller)
{
	struct hk_frame f;

	CHECK_EQ(send_one(s, 1), 0);
	rte_pktmbuf_free_seg(take_data(s, &f));
	AWAIT(WAIT_MS, signalled(end), {
		if (by_poller)
			CHECK_CMP(hk_worker_proxy_poll(s->w, rte_rdtsc()), !=,
				  HK_PROXY_IDLE); /* the other end waits for an answer */
		else
			hk_worker_progress(s->w);
	});
	return f.h.psn;
}

/* A sender that waits for a silent peer signals its poller; the sender is the application or our
 * own poller. It stops soon if that does not help. It does not signal a peer that has
 * acknowledged everything. */
TEST(silent_peers_are_rung_for)
{
	struct scene s;
	int sv[2];

	scene_open(&s, false);
	scene_share(&s);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv) == 0);
	hk_wakeup_set_wire(s.port->id, sv[0]);
	const struct hk_worker_counters *n = hk_worker_counters(s.w);

	for (unsigned i = 0; i < 2; i++) {
		uint64_t before = n->wakeups_sent;
		uint32_t psn = until_signalled(&s, sv[1], i == 1);

		CHECK_EQ(n->wakeups_sent, before + 1);
		arrives(&s, HK_WIRE_ACK, 0, psn + 1, 64);
		CHECK_EQ(hk_engine_unacked(hk_worker_engine(s.w), HK_PEER_NONE), 0);
		before = n->wakeups_sent;
		for (unsigned k = 0; k < 1000; k++)
			hk_worker_progress(s.w);
		CHECK_EQ(n->wakeups_sent, before);
	}
	uint64_t from = hk_clock_ns(), before = n->wakeups_sent;
	uint32_t psn = until_signalled(&s, sv[1], false);

	while (hk_clock_ns() < from + 50 * HK_MSEC)
		hk_worker_progress(s.w);
	/* pauses of 0.5, 1, 2, 4, 8, 8, … ms */
	CHECK_CMP(n->wakeups_sent - before, >, 1);
	CHECK_CMP(n->wakeups_sent - before, <=, 6 + (hk_clock_ns() - from) / (8 * HK_MSEC));
	arrives(&s, HK_WIRE_ACK, 0, psn + 1, 64);
	while (signalled(sv[1]))
		;
	CHECK_EQ(hk_wakeup_take_wire(s.port->id), sv[0]);
	nothing_is_left(&s);
	close(sv[0]);
	close(sv[1]);
}

/* A rank whose last poll is long ago is not polling. It still counts as polling before the time
 * that it gave, and for a time in which its core was busy with another thread. */
TEST(who_waits_for_its_core_is_present)
{
	struct scene s;

	scene_open(&s, false);
	scene_share(&s);
	hk_worker_next_poll_at(s.w, hk_worker_now(s.w) + 3600 * HK_SEC);
	CHECK_EQ(hk_worker_proxy_poll(s.w, rte_rdtsc()), HK_PROXY_POLLING);
	uint64_t lost = rte_rdtsc(), from = hk_worker_now(s.w);

	hk_worker_next_poll_at(s.w, from);
	while (hk_worker_now(s.w) < from + HK_WORKER_NOT_POLLING)
		rte_pause();
	CHECK_EQ(hk_worker_proxy_poll(s.w, lost), HK_PROXY_POLLING);
	CHECK_EQ(hk_worker_proxy_poll(s.w, rte_rdtsc()), HK_PROXY_IDLE);
	nothing_is_left(&s);
}

/* Many ranks of one node are silent, and one of another node, at any place among them: the
 * poller of that node is woken, too. */
TEST(who_is_silent_hides_nobody)
{
	struct hk_peer_addr addr = {
		.endpoint = 10, .epoch = EPOCH, .frame_max = 2048, .name = "another"};
	struct hk_silent_peer u[32];
	struct hk_port *second;
	struct scene s;
	hk_peer p;
	int sv[2];

	scene_open(&s, false);
	scene_share(&s);
	CHECK_OK(hk_port_open("vdev:net_ring99", 64, NULL, WAIT_MS, &second, ERR));
	CHECK_EQ(hk_worker_add_port(s.w, second, ERR), 1);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv) == 0);
	hk_wakeup_set_wire(second->id, sv[0]);
	for (; addr.endpoint <= 30; addr.endpoint++) {
		addr.port = addr.endpoint == 20;
		CHECK_OK(hk_worker_peer_add(s.w, &addr, &p, ERR));
		hk_buf *b = hk_worker_alloc(s.w);

		CHECK(b != NULL);
		CHECK_EQ(hk_worker_send(s.w, p, AM, b, 8), 0);
	}
	while (hk_engine_silent_peers(s.w->engine, hk_now(s.w), s.w->cfg.wakeup_after, 0, u, 32) <
	       21)
		; /* they become silent by themselves */
	AWAIT(WAIT_MS, signalled(sv[1]), hk_worker_progress(s.w));
	CHECK_EQ(hk_wakeup_take_wire(second->id), sv[0]);
	hk_worker_close(s.w, 0);
	close(sv[0]);
	close(sv[1]);
}

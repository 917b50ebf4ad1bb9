/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/test_by_hand.c: a driver that holds what it has sent, a peer that asks for more than it may, memory
 * for what a stand-in keeps that runs out, and a peer that is silent.
 */
#include "port/bell.h"
#include "fabric/internal.h"
#include "tests/unit/fabric/by_hand.h"

#include <sys/socket.h>
#include <unistd.h>

/* ---- resends while the driver holds the buffer --------------------------------------------------- */

static void is_message(const struct hk_frame *f, uint8_t first)
{
	CHECK_EQ(f->payload_len, LEN);
	for (unsigned i = 0; i < LEN; i++)
		CHECK_EQ(f->payload[i], (uint8_t)(first + i));
}

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
	arrives(&s, HK_WIRE_ACK, 0, psn + 1, 64);
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
	arrives(&s, HK_WIRE_BYE, 1000, 0, 0);
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

/* A fabric that a stand-in may drive, with @fn for messages; it keeps @rx_keep frames in their buffers (0: many). */
static void shared_scene(struct scene *s, unsigned rx_keep, hk_am_fn fn, void *arg)
{
	struct hk_error err = {""};

	scene_open_keep(s, rx_keep);
	CHECK_MSG(hk_fabric_share(s->f, &err) == 0, "%s", err.text);
	hk_fabric_set_am(s->f, AM, fn, arg);
}

/* One message of the other end, which says its number. */
static void message_into_ring(struct scene *s, uint8_t am, uint32_t psn, uint16_t len)
{
	struct hk_wire_hdr h = other_header(HK_WIRE_DATA, psn, 256);
	char payload[2048] = {0};

	CHECK_CMP(len, <=, sizeof(payload));
	h.len = len;
	h.am = am;
	h.frags = 1;
	memcpy(payload, &psn, sizeof(psn));
	frame_into_ring(s, &h, payload);
}

/* … and a stand-in takes it in while the application is away. */
static void kept_am(struct scene *s, uint8_t am, uint32_t psn, uint16_t len)
{
	message_into_ring(s, am, psn, len);
	served(s);
}

static void kept(struct scene *s, uint32_t psn, uint16_t len)
{
	kept_am(s, AM, psn, len);
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

/* Of 1900 bytes each, so many fill the memory of a fabric that keeps few in buffers; and so many more at once find no
 * room. */
#define COPIES (((8u << 20) - 4096) / 1920)
#define EARLY  120

/* What is kept nearly fills its memory, and one frame lets go many that came early: as many as fit are kept,
 * and all arrive, in order. */
static void many_come_free_when_little_can_be_kept(void)
{
	struct scene s;
	uint32_t n = 0, next = 0, last;

	shared_scene(&s, HK_RX_BURST, on_kept, &next);
	while (n < COPIES)
		kept(&s, n++, 1900);
	last = n + EARLY;
	for (uint32_t i = n + 1; i <= last; i++)
		kept(&s, i, 200);
	kept(&s, n, 200);
	for (uint64_t end = now_ms() + WAIT_MS; next <= last;) {
		hk_fabric_progress(s.f);
		CHECK_MSG(now_ms() < end, "%u of %u messages came", next, last + 1);
	}
	nothing_is_left(&s);
}

/* What the other end has been told: all before @acked has come, and it may send what is before @edge. */
struct told {
	uint32_t acked, edge;
};

static void listen_to(struct scene *s, struct told *t)
{
	struct rte_mbuf *m;
	struct hk_frame f;

	while ((m = take(s, &f))) {
		t->acked = f.h.ack;
		t->edge = f.h.ack + f.h.window;
		rte_pktmbuf_free_seg(m);
	}
}

/* A sender that keeps to its credit sends nothing in vain: when no more small messages can be copied it is stopped,
 * and what it was promised room for has some. */
static void what_was_promised_is_kept(void)
{
	const struct hk_engine_counters *c;
	struct told t = {0, 1};
	struct scene s;
	uint32_t n = 0, next = 0;

	shared_scene(&s, 0, on_kept, &next);
	c = hk_engine_counters(hk_fabric_engine(s.f));
	for (uint64_t end = now_ms() + WAIT_MS; t.acked != n || t.edge != n || n == 0;) {
		if ((int32_t)(t.edge - n) > 0)
			message_into_ring(&s, AM, n++, 1900);
		/* not hk_fabric_serve(), which looks again and finds what it has sent */
		hk_rx_poll(s.f, true);
		hk_tx_flush(s.f);
		listen_to(&s, &t);
		CHECK_MSG(c->refused == 0, "one of %u packets was sent with credit, and refused",
			  n);
		CHECK_MSG(now_ms() < end,
			  "the sender is not stopped after %u packets, told %u and %u", n, t.acked,
			  t.edge);
	}
	CHECK_CMP(n, >, ((8u << 20) - (1u << 18)) / 1920);
	while (next < n)
		CHECK_CMP(hk_fabric_progress(s.f), >, 0);
	nothing_is_left(&s);
}

/* The memory for what is kept is a ring, and goes round. */
static void what_is_kept_goes_round(void)
{
	const uint32_t lot = (8u << 20) * 2 / 3 / 1920;
	struct scene s;
	uint32_t n = 0, next = 0;

	shared_scene(&s, 0, on_kept, &next);
	for (unsigned round = 1; round <= 4; round++) {
		while (n < round * lot) {
			kept(&s, n, (uint16_t)(1700 + n % 200));
			n++;
		}
		while (next < n)
			CHECK_CMP(hk_fabric_progress(s.f), >, 0);
	}
	nothing_is_left(&s);
}

static void on_early(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	(void)peer, (void)am, (void)iov, (void)count;
	(*(unsigned *)arg)++;
}

/* Messages of the fabric's own (garbage here) fill the memory, and EARLY more wait for packet COPIES, which is not there. */
static void fill_with_own(struct scene *s)
{
	for (uint32_t i = 0; i <= COPIES + EARLY; i++)
		if (i != COPIES)
			kept_am(s, HK_WIRE_AM_GET, i, 1900);
}

/* The same, but all that was kept is the fabric's own (garbage here), and the servant takes it out. What found no room
 * waits alone then: it comes with the next poll, which is told that something was done. */
static void what_found_no_room_comes_alone(void)
{
	struct scene s;
	unsigned came = 0;
	const uint32_t n = COPIES, last = n + EARLY;

	shared_scene(&s, HK_RX_BURST, on_early, &came);
	fill_with_own(&s);
	for (uint32_t i = last + 1; i <= last + 3; i++)
		kept(&s, i, 200);
	kept_am(&s, HK_WIRE_AM_GET, n, 1900);
	hk_rx_serve_kept(s.f);
	CHECK(!hk_keeps(s.f));
	CHECK_CMP(hk_fabric_progress(s.f), >=, 3);
	CHECK_EQ(came, 3);
	nothing_is_left(&s);
}

/* What waits for room holds up what comes after it, until a servant makes some: not until the application is back. */
static void who_waits_for_room_gets_it_from_a_servant(void)
{
	struct scene s;
	unsigned came = 0;
	const uint32_t n = COPIES, last = n + EARLY;

	shared_scene(&s, HK_RX_BURST, on_early, &came);
	fill_with_own(&s);
	kept_am(&s, HK_WIRE_AM_GET, n, 1900);
	CHECK(hk_listed(s.f, HK_LIST_EARLY));
	hk_rx_serve_kept(s.f);
	kept(&s, last + 1, 200); /* a stand-in takes it in */
	hk_rx_serve_kept(s.f);
	CHECK_CMP(hk_fabric_progress(s.f), >, 0);
	CHECK_EQ(came, 1);
	nothing_is_left(&s);
}

/* ---- receivers that take nothing ------------------------------------------------------------------- */

/* Held is who waits for a receiver alone: not for an acknowledgement, which comes soon. */
static void what_waits_for_a_receiver_is_held(void)
{
	struct scene s;
	struct hk_frame f;

	scene_open(&s, false);
	CHECK(!hk_fabric_held(s.f));
	uint32_t next = 0;

	/* until what it was lent at first is used up */
	for (unsigned i = 0; i < 10000 && !hk_fabric_held(s.f); i++) {
		(void)send_one(&s, 1);
		while (!hk_fabric_backlog(s.f, s.peer) &&
		       hk_engine_unacked(hk_fabric_engine(s.f), s.peer)) {
			CHECK(!hk_fabric_held(s.f)); /* some are under way */
			rte_pktmbuf_free_seg(take_data(&s, &f));
			next = f.h.psn + 1;
			arrives(&s, HK_WIRE_ACK, 0, next, 0);
		}
	}
	CHECK_EQ(hk_fabric_backlog(s.f, s.peer), 1);
	(void)send_one(&s, 1);
	CHECK(hk_fabric_held(s.f));
	arrives(&s, HK_WIRE_ACK, 0, next, 2);
	CHECK_EQ(hk_fabric_backlog(s.f, s.peer), 0);
	CHECK(!hk_fabric_held(s.f));
	for (unsigned i = 0; i < 2; i++)
		rte_pktmbuf_free_seg(take_data(&s, &f));
	arrives(&s, HK_WIRE_ACK, 0, next + 2, 0);
	CHECK(!hk_fabric_held(s.f)); /* nothing waits */
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
			CHECK_CMP(hk_fabric_serve(s->f, rte_rdtsc()), !=,
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
		arrives(&s, HK_WIRE_ACK, 0, psn + 1, 64);
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
	arrives(&s, HK_WIRE_ACK, 0, psn + 1, 64);
	while (rung(sv[1]))
		;
	CHECK_EQ(hk_bell_take_wire(s.port->id), sv[0]);
	nothing_is_left(&s);
	close(sv[0]);
	close(sv[1]);
}

/* Whose last poll is long ago is away; but not before the time that it said, nor for what its core was somebody
 * else's. */
static void who_waits_for_its_core_is_present(void)
{
	struct hk_error err = {""};
	struct scene s;

	scene_open(&s, false);
	CHECK_MSG(hk_fabric_share(s.f, &err) == 0, "%s", err.text);
	hk_fabric_back_at(s.f, hk_fabric_now(s.f) + 3600 * HK_SEC);
	CHECK_EQ(hk_fabric_serve(s.f, rte_rdtsc()), HK_SERVE_PRESENT);
	uint64_t lost = rte_rdtsc(), from = hk_fabric_now(s.f);

	hk_fabric_back_at(s.f, from);
	while (hk_fabric_now(s.f) < from + HK_FABRIC_ABSENT)
		rte_pause();
	CHECK_EQ(hk_fabric_serve(s.f, lost), HK_SERVE_PRESENT);
	CHECK_EQ(hk_fabric_serve(s.f, rte_rdtsc()), HK_SERVE_IDLE);
	nothing_is_left(&s);
}

/* Many ranks of a node are silent, and one of another node, whatever place it has among them: that node's poller is woken
 * too. */
static void who_is_silent_hides_nobody(void)
{
	struct hk_peer_addr addr = {
		.endpoint = 10, .epoch = EPOCH, .frame_max = 2048, .name = "another"};
	struct hk_error err = {""};
	struct hk_unheard u[32];
	struct hk_port *second;
	struct scene s;
	hk_peer p;
	int sv[2];

	scene_open(&s, false);
	CHECK_MSG(hk_fabric_share(s.f, &err) == 0, "%s", err.text);
	CHECK_MSG(hk_port_open("vdev:net_ring99", 64, NULL, WAIT_MS, &second, &err) == 0, "%s",
		  err.text);
	CHECK_EQ(hk_fabric_add_port(s.f, second, &err), 1);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv) == 0);
	hk_bell_set_wire(second->id, sv[0]);
	for (; addr.endpoint <= 30; addr.endpoint++) {
		addr.port = addr.endpoint == 20;
		CHECK_MSG(hk_fabric_peer_add(s.f, &addr, &p, &err) == 0, "%s", err.text);
		hk_buf *b = hk_fabric_alloc(s.f);

		CHECK(b != NULL);
		CHECK_EQ(hk_fabric_send(s.f, p, AM, b, 8), 0);
	}
	while (hk_engine_unheard(s.f->engine, hk_now(s.f), s.f->cfg.ring_after, 0, u, 32) < 21)
		; /* they become so by themselves */
	for (uint64_t until = now_ms() + WAIT_MS; !rung(sv[1]);) {
		hk_fabric_progress(s.f);
		CHECK_MSG(now_ms() < until, "one of another node was never rung for");
	}
	CHECK_EQ(hk_bell_take_wire(second->id), sv[0]);
	hk_fabric_close(s.f, 0);
	close(sv[0]);
	close(sv[1]);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"held_buffers_are_copied", held_buffers_are_copied},
		{"gets_beyond_measure_are_dropped", gets_beyond_measure_are_dropped},
		{"who_asks_for_little_is_served", who_asks_for_little_is_served},
		{"many_come_free_when_little_can_be_kept", many_come_free_when_little_can_be_kept},
		{"what_was_promised_is_kept", what_was_promised_is_kept},
		{"what_is_kept_goes_round", what_is_kept_goes_round},
		{"who_waits_for_room_gets_it_from_a_servant",
		 who_waits_for_room_gets_it_from_a_servant},
		{"what_found_no_room_comes_alone", what_found_no_room_comes_alone},
		{"what_waits_for_a_receiver_is_held", what_waits_for_a_receiver_is_held},
		{"silent_peers_are_rung_for", silent_peers_are_rung_for},
		{"who_waits_for_its_core_is_present", who_waits_for_its_core_is_present},
		{"who_is_silent_hides_nobody", who_is_silent_hides_nobody},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_poll.c: which frames a poll emits, how many, and exactly when.
 *
 * All times are multiples of STEP, which is a multiple of a timer's unit and of the wheel's tick.
 * So no timer is late, and the tests compare times exactly.
 */
#include "engine/internal.h"
#include "tests/support/rig.h"

#define STEP UINT64_C(10240000) /* ns */

/* A rig whose waits all last one step, and at most @longest. */
static void in_steps(struct rig *g, uint64_t longest)
{
	g->cfg.initial_rto = g->cfg.min_rto = STEP;
	g->cfg.max_rto = longest;
	g->cfg.peer_timeout = 10 * STEP;
}

/* ---- resends -------------------------------------------------------------------------------- */

/* The header of a resend is that of the packet, except for what has changed since. */
TEST(a_resend_is_the_packet_again)
{
	for (unsigned bulk = 0; bulk < 2; bulk++) {
		struct hk_packet pkt = {
			.token = 1, .len = 32, .type = HK_WIRE_DATA, .am = 9, .frags = 2};
		struct hk_wire_hdr h;

		RIG(g);
		g.cfg.link_mbps = bulk ? 10000 : 0;
		hk_peer p = rig_pair(&g);

		hk_rec(g.e, p)->cwnd = 4u << 8;
		rig_grant(&g, 2, 5000, 0);
		CHECK(hk_engine_send(g.e, p, &pkt, g.now, &h));
		pkt = (struct hk_packet){.token = 77,
					 .len = 1500,
					 .type = HK_WIRE_DATA,
					 .am = 9,
					 .frag = 1,
					 .frags = 2};
		CHECK(hk_engine_send(g.e, p, &pkt, g.now, &h));
		CHECK_EQ(rig_next(&g), 1); /* the last packet */
		CHECK_EQ(g.out[0].kind, HK_OUT_RESEND);
		CHECK_EQ(g.out[0].peer, p);
		CHECK_EQ(g.out[0].token, 77);
		CHECK_EQ(g.out[0].len, HK_WIRE_HLEN);
		CHECK_EQ(g.out[0].path, 0);
		struct hk_wire_hdr r = rig_out(&g, 0);

		CHECK_EQ(r.type, HK_WIRE_DATA);
		CHECK_EQ(r.flags,
			 HK_WIRE_F_RESENT | HK_WIRE_F_ACK_NOW | (bulk ? HK_WIRE_F_BULK : 0));
		CHECK_EQ(r.len, 1500);
		CHECK_EQ(r.psn, 1);
		CHECK(r.am == 9 && r.frag == 1 && r.frags == 2);
		CHECK_CMP(r.tsval, >, h.tsval);
		CHECK_EQ(hk_engine_counters(g.e)->tx_resends, 1);
	}
}

/* Sends @count packets to @p, and later one more. Only that one arrives, so the others are lost. */
static void lose(struct rig *g, hk_peer p, unsigned count, unsigned borrowed)
{
	struct hk_wire_hdr h = rig_hdr(g, hk_engine_peer_endpoint(g->e, p), HK_WIRE_ACK);
	struct hk_wire_sack last = {{UINT64_C(1) << count}};

	for (unsigned i = 0; i <= count; i++) {
		struct hk_packet pkt = {
			.token = i, .len = 32, .type = HK_WIRE_PUT, .borrowed = i < borrowed};
		struct hk_wire_hdr sent;

		g->now += i == count ? 50 * HK_USEC : 0;
		CHECK(hk_engine_send(g->e, p, &pkt, g->now, &sent));
	}
	h.ack = hk_rec(g->e, p)->tx_una;
	h.tsecr = (uint32_t)(g->now >> HK_WIRE_TS_SHIFT);
	g->now += 20 * HK_USEC;
	rig_input(g, &h, &last, 0);
	CHECK_EQ(hk_rec(g->e, p)->lost, count);
}

/* Resends stay within the congestion window. The others wait for an acknowledgement, and nobody
 * polls for them meanwhile. */
TEST(a_full_window_stops_resends)
{
	RIG(g);
	hk_peer p = rig_pair(&g);

	lose(&g, p, 5, 0);
	hk_rec(g.e, p)->cwnd = 2u << 8;
	CHECK_EQ(rig_poll(&g), 2);
	CHECK(g.out[0].token == 0 && g.out[1].token == 1);
	CHECK_EQ(rig_info(&g, p).in_flight, 2);
	CHECK(!hk_engine_urgent(g.e));
	rig_ack(&g, 2, 1, 64);
	CHECK(hk_engine_urgent(g.e));
	CHECK_EQ(hk_engine_deadline(g.e), 0);
	hk_rec(g.e, p)->cwnd = 2u << 8;
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(g.out[0].token, 2);
	CHECK(!hk_engine_urgent(g.e));
}

/* Nothing progresses without the first packet, so it needs no space in the window. */
TEST(the_first_packet_is_resent_in_any_case)
{
	RIG(g);
	hk_peer p = rig_pair(&g);

	lose(&g, p, 5, 0);
	hk_rec(g.e, p)->cwnd = 0;
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(g.out[0].token, 0);
	CHECK(!hk_engine_urgent(g.e));
}

/* The cap holds for all peers together. A peer with packets left over has the next poll. */
TEST(resends_continue_with_the_next_poll)
{
	RIG(g);
	g.cfg.resend_cap = 3;
	hk_peer a = rig_pair(&g), b = rig_add(&g, 3);

	lose(&g, a, 2, 0);
	lose(&g, b, 2, 0);
	CHECK_EQ(rig_poll(&g), 3);
	CHECK(hk_engine_urgent(g.e));
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(!hk_engine_urgent(g.e));
	CHECK_EQ(rig_poll(&g), 0);
}

/* A progress proxy resends the packets that it can read, as many in each poll as the cap allows.
 * It polls no longer when only others are left. The owner resends those, of all peers. */
TEST(a_proxy_resends_what_it_can_read)
{
	RIG(g);
	g.cfg.resend_cap = 1;
	g.cfg.tx_blocks = 3;
	hk_peer gone = rig_pair(&g), a = rig_add(&g, 3), b = rig_add(&g, 4);

	rig_send(&g, gone, 1);
	rig_send(&g, a, 0);
	rig_send(&g, b, 0);
	rig_ack(&g, 2, 1, 64); /* the block of this peer is free */
	rig_ack(&g, 3, 1, 64);
	rig_ack(&g, 4, 1, 64);
	hk_engine_set_proxy(g.e, true);
	lose(&g, a, 3, 1);
	for (unsigned i = 1; i < 3; i++) {
		CHECK_EQ(rig_poll(&g), 1);
		CHECK_EQ(g.out[0].token, i);
	}
	rig_poll(&g);
	CHECK(!hk_engine_urgent(g.e));
	lose(&g, b, 1, 1);
	rig_poll(&g);
	CHECK(!hk_engine_urgent(g.e));
	hk_engine_set_proxy(g.e, false);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(rig_poll(&g), 1);
		CHECK(g.out[0].kind == HK_OUT_RESEND && g.out[0].token == 0);
	}
	CHECK(!hk_engine_urgent(g.e));
}

/* A proxy that left nothing costs the owner nothing: no peer is visited. */
TEST(a_proxy_that_read_everything_leaves_nothing)
{
	RIG(g);
	hk_peer p = rig_pair(&g);

	for (unsigned round = 0; round < 2; round++) {
		hk_engine_set_proxy(g.e, true);
		lose(&g, p, 1, round == 0);
		rig_poll(&g);
		hk_engine_set_proxy(g.e, false);
		CHECK_EQ(hk_engine_urgent(g.e), round == 0);
		rig_poll(&g);
		rig_ack(&g, 2, hk_rec(g.e, p)->tx_next, 64);
	}
	/* nor if packets wait for the window */
	lose(&g, p, 5, 0);
	hk_rec(g.e, p)->cwnd = 0;
	CHECK_EQ(rig_poll(&g), 1);
	hk_engine_set_proxy(g.e, true);
	hk_engine_set_proxy(g.e, false);
	CHECK(!hk_engine_urgent(g.e));
}

/* The proxy can read nothing that is in flight: its probe goes by the first path. */
TEST(a_proxy_asks_by_the_first_path)
{
	struct hk_packet borrowed = {.len = 32, .type = HK_WIRE_PUT, .path = 1, .borrowed = true};
	struct hk_wire_hdr h;

	RIG(g);
	hk_peer p = rig_pair(&g);

	rig_echo(&g, rig_send(&g, p, 0).psn + 1, (uint32_t)(g.now >> HK_WIRE_TS_SHIFT), 0);
	CHECK(hk_engine_send(g.e, p, &borrowed, g.now, &h));
	hk_engine_set_proxy(g.e, true);
	CHECK_EQ(rig_next(&g), 1);
	CHECK_EQ(g.out[0].kind, HK_OUT_TAIL_PROBE);
	CHECK_EQ(g.out[0].path, 0);
}

/* Of equal paths only the second is left. All in flight is lost then, so there is nothing to ask
 * about when the timer fires, and the resend alone goes out. */
TEST(a_path_taken_away_leaves_one_resend)
{
	RIG(g);
	hk_peer p = rig_pair(&g);

	rig_send(&g, p, 1);
	hk_engine_peer_paths(g.e, p, 1u << 1);
	g.now += 2 * g.cfg.initial_rto;
	CHECK_EQ(rig_poll(&g), 1);
	CHECK_EQ(g.out[0].kind, HK_OUT_RESEND);
	CHECK_EQ(g.out[0].path, 1);
	CHECK_EQ(hk_rec(g.e, p)->tx_others, 1u << 1); /* it has a latest arrival of its own */
}

/* ---- peers that are given up ---------------------------------------------------------------- */

/* Polls at each deadline until the peer is given up. Returns the number of frames. */
static unsigned until_the_end(struct rig *g, hk_peer p)
{
	unsigned frames = 0;

	while (hk_engine_peer_state(g->e, p) == HK_PEER_ACTIVE)
		frames += rig_next(g);
	return frames;
}

/* Waiting for the tail probe does not count. After that the peer has the whole timeout. */
TEST(a_silent_peer_ends_on_time)
{
	RIG(g);
	in_steps(&g, STEP);
	hk_peer p = rig_pair(&g);
	uint64_t start = g.now;

	rig_send(&g, p, 1);
	CHECK_EQ(until_the_end(&g, p), 10);
	CHECK_EQ(g.now - start, 11 * STEP);
	CHECK_EQ(rig_disconnect(&g, p), HK_DISCONNECT_SILENT);
}

/* If we poll late, a wait counts for at most twice what it was meant to be. */
TEST(late_polls_count_little)
{
	RIG(g);
	in_steps(&g, STEP);
	hk_peer p = rig_pair(&g);

	rig_send(&g, p, 1);
	for (unsigned i = 0; i < 5; i++) {
		g.now += 5 * STEP;
		rig_poll(&g);
		CHECK_EQ(hk_engine_peer_state(g.e, p), HK_PEER_ACTIVE);
	}
	g.now += 5 * STEP;
	rig_poll(&g);
	CHECK_EQ(rig_disconnect(&g, p), HK_DISCONNECT_SILENT);
}

/* All that was sent has arrived, and the peer gives no credit for more. */
static hk_peer without_credit(struct rig *g)
{
	hk_peer p = rig_pair(g);
	uint32_t n = 0;

	while (rig_info(g, p).credit) {
		while (hk_engine_available(g->e, p))
			rig_send(g, p, n++);
		rig_ack(g, 2, n, 0);
	}
	CHECK(hk_engine_zero_credit(g->e, p));
	return p;
}

TEST(a_peer_without_credit_ends_on_time)
{
	RIG(g);
	in_steps(&g, STEP);
	hk_peer p = without_credit(&g);
	uint64_t start = g.now;

	CHECK_EQ(until_the_end(&g, p), 10);
	CHECK_EQ(g.now - start, 11 * STEP);
	CHECK_EQ(rig_disconnect(&g, p), HK_DISCONNECT_SILENT);
}

/* It may go on giving none for as long as it likes, if it answers. We ask ever more rarely, and
 * never again more often. */
TEST(credit_is_asked_for_ever_more_rarely)
{
	RIG(g);
	in_steps(&g, 4 * STEP);
	hk_peer p = without_credit(&g);
	uint64_t last = g.now;

	for (unsigned i = 0; i < 300; i++) {
		CHECK_EQ(rig_next(&g), 1);
		CHECK_EQ(g.now - last, (i < 2 ? 1u << i : 4u) * STEP);
		CHECK(rig_out(&g, 0).flags & HK_WIRE_F_ACK_NOW);
		last = g.now;
		rig_ack(&g, 2, rig_out(&g, 0).psn, 0);
	}
	CHECK_EQ(hk_engine_peer_state(g.e, p), HK_PEER_ACTIVE);
}

/* The peer answers, but never receives the first packet. */
static void resent_and_answered(struct rig *g, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		CHECK_EQ(rig_next(g), 1);
		CHECK_EQ(g->out[0].kind, HK_OUT_RESEND);
		rig_ack(g, 2, 0, 64);
	}
}

/* Ten resends alone do not show that a peer is stuck: more than twice the timeout passes as well.
 */
TEST(a_stuck_peer_has_twice_the_timeout)
{
	RIG(g);
	in_steps(&g, STEP);
	hk_peer p = rig_pair(&g);
	uint64_t start = g.now;

	rig_send(&g, p, 1);
	resent_and_answered(&g, 10);
	g.now = start + 2 * g.cfg.peer_timeout;
	CHECK_EQ(rig_poll(&g), 1);
	rig_ack(&g, 2, 0, 64);
	g.now += STEP;
	CHECK_EQ(rig_poll(&g), 0);
	CHECK_EQ(rig_disconnect(&g, p), HK_DISCONNECT_STUCK);
}

/* Neither does the time: a process that was stopped for long first makes up ten resends. */
TEST(a_stuck_peer_has_ten_resends)
{
	RIG(g);
	in_steps(&g, STEP);
	hk_peer p = rig_pair(&g);

	rig_send(&g, p, 1);
	resent_and_answered(&g, 9);
	g.now += 50 * g.cfg.peer_timeout;
	CHECK_EQ(rig_poll(&g), 1);
	rig_ack(&g, 2, 0, 64);
	CHECK_EQ(until_the_end(&g, p), 0);
	CHECK_EQ(rig_disconnect(&g, p), HK_DISCONNECT_STUCK);
}

/* Hundreds of resends count as ten, too. */
TEST(a_stuck_peer_may_have_hundreds_of_resends)
{
	RIG(g);
	in_steps(&g, STEP);
	g.cfg.peer_timeout = 130 * STEP;
	hk_peer p = rig_pair(&g);

	rig_send(&g, p, 1);
	resent_and_answered(&g, 260);
	CHECK_EQ(until_the_end(&g, p), 0);
	CHECK_EQ(rig_disconnect(&g, p), HK_DISCONNECT_STUCK);
}

/* ---- keepalives ------------------------------------------------------------------------------ */

/* The next frame must be a probe, at @at. */
static void next_is_a_probe(struct rig *g, uint64_t at)
{
	CHECK_EQ(rig_next(g), 1);
	CHECK_EQ(g->out[0].kind, HK_OUT_CONTROL);
	CHECK(rig_out(g, 0).flags & HK_WIRE_F_ACK_NOW);
	CHECK_CMP(g->now, ==, at);
}

TEST(a_keepalive_follows_the_last_frame)
{
	RIG(g);
	in_steps(&g, 4 * STEP);
	g.cfg.keepalive = 100 * STEP;
	hk_peer p = rig_pair(&g);
	uint64_t last = g.now;

	CHECK_EQ(rig_data(&g, 2, 0), HK_RX_DELIVER);
	CHECK_EQ(rig_next(&g), 1); /* its acknowledgement, which wants no answer */
	CHECK_EQ(rig_out(&g, 0).flags, 0);
	next_is_a_probe(&g, last + 100 * STEP);
	g.now = last += 130 * STEP; /* an answer comes late, after probes that back off */
	rig_poll(&g);
	rig_ack(&g, 2, 0, 64);
	g.now += 40 * STEP;
	rig_ack(&g, 2, 0, 64);
	next_is_a_probe(&g, last + 140 * STEP);
	next_is_a_probe(&g, last + 142 * STEP);
	next_is_a_probe(&g, last + 146 * STEP);
	CHECK_EQ(rig_next(&g), 0); /* 2 + 4 + 4 steps without an answer are the timeout */
	CHECK_EQ(g.now - last, 150 * STEP);
	CHECK_EQ(rig_disconnect(&g, p), HK_DISCONNECT_SILENT);
}

/* A frame that was overtaken acknowledges nothing, but its sender is alive: the next wait begins
 * with this frame. */
TEST(an_overtaken_frame_shows_life)
{
	RIG(g);
	in_steps(&g, 4 * STEP);
	g.cfg.keepalive = 100 * STEP;
	hk_peer p = rig_pair(&g);

	rig_send(&g, p, 1);
	rig_ack(&g, 2, 1, 64);
	uint64_t last = g.now;

	next_is_a_probe(&g, last + 100 * STEP);
	g.now += STEP;
	rig_ack(&g, 2, 0, 64);
	next_is_a_probe(&g, last + 201 * STEP);
	next_is_a_probe(&g, last + 203 * STEP);
}

/* After the pause of a window below one packet, the caller runs its send queues. If nothing waits
 * there, keepalives go on. */
TEST(a_pause_ends_once)
{
	RIG(g);
	g.cfg.link_mbps = 10000;
	g.cfg.keepalive = 100 * STEP;
	hk_peer p = rig_pair(&g);
	uint32_t tsval = rig_send(&g, p, 1).tsval;

	g.now += STEP;
	hk_rec(g.e, p)->cwnd = 64; /* a quarter of a packet */
	hk_rec(g.e, p)->ssthresh = 0;
	rig_echo(&g, 1, tsval, 0);
	CHECK_EQ(hk_engine_available(g.e, p), 0);
	g.now += 4 * STEP; /* more than the pause */
	CHECK_EQ(rig_poll(&g), 0);
	CHECK_EQ(hk_engine_available(g.e, p), 1);
	CHECK_EQ(hk_engine_deadline(g.e), g.now + 1);
	g.now++;
	CHECK_EQ(rig_poll(&g), 0);
	CHECK_CMP(hk_engine_deadline(g.e), >, g.now);
	next_is_a_probe(&g, g.now + 100 * STEP - 1);
}

/* Without keepalives, a peer is asked only while a message of it waits for the rest. */
TEST(a_message_that_waits_is_asked_for)
{
	RIG(g);
	in_steps(&g, STEP);
	g.cfg.peer_timeout = 40 * STEP;
	rig_pair(&g);
	uint64_t start = g.now;

	CHECK_EQ(rig_fragment(&g, 0, 0, 2, 1), HK_RX_HOLD);
	CHECK_EQ(rig_next(&g), 1); /* its acknowledgement */
	g.now = start + 5 * STEP;
	rig_ack(&g, 2, 0, 64);
	next_is_a_probe(&g, start + 15 * STEP); /* a quarter of the timeout later */
	rig_ack(&g, 2, 0, 64);
	g.now += 5 * STEP;
	CHECK_EQ(rig_fragment(&g, 1, 1, 2, 1), HK_RX_DELIVER);
	rig_next(&g);
	while (hk_engine_deadline(g.e) != UINT64_MAX)
		CHECK_EQ(rig_next(&g), 0);
}

/* ---- BYE and RESET --------------------------------------------------------------------------- */

/* Polls for at most @max frames, and checks that no more are written. */
static unsigned poll_at_most(struct rig *g, unsigned max)
{
	struct hk_out untouched;

	CHECK_CMP(max, <, HK_ARRAY_LEN(g->out));
	memset(&untouched, 0xa5, sizeof(untouched));
	memset(g->out, 0xa5, sizeof(g->out));
	g->outs = hk_engine_poll(g->e, g->now, g->out, max);
	CHECK_CMP(g->outs, <=, max);
	CHECK(memcmp(&g->out[g->outs], &untouched, sizeof(untouched)) == 0);
	return g->outs;
}

static void check_bye(const struct rig *g, hk_peer p)
{
	struct hk_wire_hdr h = rig_out(g, 0);

	CHECK_EQ(g->out[0].kind, HK_OUT_CONTROL);
	CHECK_EQ(g->out[0].peer, p);
	CHECK_EQ(g->out[0].token, 0);
	CHECK_EQ(g->out[0].len, HK_WIRE_HLEN);
	CHECK_EQ(h.type, HK_WIRE_BYE);
	CHECK_EQ(h.flags, 0);
	CHECK_EQ(h.dst, hk_engine_peer_endpoint(g->e, p));
	CHECK_EQ(h.dst_epoch, RIG_EPOCH(h.dst));
}

/* A BYE goes once to each peer that knows us: it has sent, or we have packets to it in flight. */
TEST(bye_goes_to_peers_that_know_us)
{
	RIG(g);
	hk_peer sent = rig_pair(&g), left = rig_add(&g, 3), reached = rig_add(&g, 4);
	struct hk_wire_hdr bye = rig_hdr(&g, 3, HK_WIRE_BYE);

	rig_add(&g, 5); /* never heard of us */
	hk_engine_set_not_polling(g.e, true);
	rig_data(&g, 2, 0);
	rig_data(&g, 3, 0);
	rig_input(&g, &bye, NULL, 0);
	CHECK_EQ(hk_engine_peer_state(g.e, left), HK_PEER_LEFT);
	rig_send(&g, reached, 1);
	hk_engine_bye(g.e);
	CHECK_EQ(poll_at_most(&g, 1), 1);
	check_bye(&g, sent);
	CHECK(hk_engine_urgent(g.e));
	CHECK_EQ(poll_at_most(&g, 1), 1);
	check_bye(&g, reached);
	CHECK_EQ(poll_at_most(&g, 1), 0);
	CHECK(!hk_engine_urgent(g.e));
	/* a peer that comes late is told as well */
	rig_data(&g, 6, 0);
	CHECK_EQ(poll_at_most(&g, 1), 1);
	check_bye(&g, g.rx.peer);
	CHECK(!hk_engine_urgent(g.e));
}

/* Endpoint 2 sends a frame to an incarnation that is not ours. */
static void wrong_epoch(struct rig *g)
{
	struct hk_wire_hdr h = rig_hdr(g, 2, HK_WIRE_DATA);

	h.dst_epoch = 55;
	CHECK_EQ(rig_input(g, &h, NULL, 0), HK_RX_DROP);
}

static void check_reset(const struct rig *g)
{
	struct hk_wire_hdr h = rig_out(g, 0);

	CHECK_EQ(g->out[0].kind, HK_OUT_CONTROL);
	CHECK_EQ(g->out[0].peer, HK_PEER_NONE);
	CHECK_EQ(g->out[0].len, HK_WIRE_HLEN);
	CHECK_EQ(h.type, HK_WIRE_RESET);
	CHECK_EQ(h.job, RIG_KEY);
	CHECK(h.src == RIG_SELF && h.src_epoch == RIG_EPOCH(RIG_SELF));
	CHECK(h.dst == 2 && h.dst_epoch == RIG_EPOCH(2));
	CHECK_EQ(h.tsecr, 55);
	CHECK(h.flags == 0 && h.credit == 0 && h.psn == 0 && h.ack == 0 && h.tsval == 0);
}

/* Probes count against the cap of resends; a RESET does not. */
TEST(probes_and_resends_share_the_cap)
{
	for (uint16_t cap = 1; cap <= 4; cap++) {
		unsigned resends = 0;

		RIG(g);
		g.cfg.resend_cap = cap;
		rig_start(&g);
		for (uint32_t endpoint = 2; endpoint < 5; endpoint++)
			rig_send(&g, rig_add(&g, endpoint), 1000);
		g.now += 3 * g.cfg.initial_rto;
		lose(&g, rig_add(&g, 5), 5, 0);
		wrong_epoch(&g);
		CHECK_EQ(poll_at_most(&g, 60), 1u + cap);
		check_reset(&g);
		for (unsigned i = 1; i < g.outs; i++)
			resends += g.out[i].peer == 3;
		CHECK_EQ(resends, cap - HK_MIN(cap, 3u));
	}
}

/* Frames of every kind are due. However few a poll may write, all are written in the end. */
TEST(a_poll_writes_no_more_than_it_may)
{
	for (unsigned max = 1; max <= 20; max++) {
		unsigned total = 0, polls = 0;

		RIG(g);
		rig_start(&g);
		for (uint32_t endpoint = 2; endpoint < 5; endpoint++)
			rig_send(&g, rig_add(&g, endpoint), 1000);
		rig_data(&g, 6, 0);
		rig_data(&g, 7, 0);
		g.now += 3 * g.cfg.initial_rto;
		lose(&g, rig_add(&g, 5), 4, 0);
		hk_engine_bye(g.e);
		wrong_epoch(&g);
		CHECK_EQ(poll_at_most(&g, 0), 0);
		while (hk_engine_deadline(g.e) <= g.now) {
			total += poll_at_most(&g, max);
			CHECK_CMP(++polls, <, 100);
		}
		/* RESET, BYE to six peers, three probes, four resends, two acknowledgements */
		CHECK_EQ(total, 1 + 6 + 3 + 4 + 2);
	}
}

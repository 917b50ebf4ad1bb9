/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/test_engine_silence.c: what an engine does when nothing comes back: it waits, asks, resends, and says of
 * whom it has heard nothing; one engine on the bench, and its clock in our hands.
 */
#include "tests/unit/rig.h"

#define RTT (20 * HK_USEC)

/* ---- timers -------------------------------------------------------------------------------- */

/* Nobody answers: each wait twice the one before, up to the ceiling, and never longer. */
static void back_off_doubles_to_its_ceiling(void)
{
	struct rig g;
	uint64_t gap[20], last;
	unsigned n = 0;

	rig_config(&g);
	g.cfg.initial_rto = 10 * HK_MSEC;
	g.cfg.min_rto = HK_MSEC;
	g.cfg.max_rto = 150 * HK_MSEC;
	g.cfg.peer_timeout = 10 * HK_SEC;
	rig_start(&g);
	rig_send(&g, rig_add(&g, 2), 1);
	last = g.now;
	while (n < HK_ARRAY_LEN(gap)) {
		rig_next(&g);
		for (unsigned i = 0; i < g.outs; i++) {
			CHECK_EQ(g.out[i].kind, HK_OUT_RESEND);
			CHECK_EQ(g.out[i].token, 1);
			CHECK(rig_out(&g, i).flags & HK_WIRE_F_RESENT);
			gap[n++] = g.now - last;
			last = g.now;
		}
		CHECK_CMP(g.outs, <=, 1);
	}
	CHECK_EQ(gap[0], g.cfg.initial_rto);
	bool doubled = false;
	for (unsigned i = 1; i < n; i++) {
		CHECK_CMP(gap[i], <=, g.cfg.max_rto);
		CHECK_CMP(gap[i], >=, gap[i - 1]);
		doubled |= gap[i] == 2 * gap[i - 1];
	}
	CHECK(doubled);
	CHECK_CMP(hk_engine_counters(g.e)->loss_rto, >=, 1);
	CHECK_CMP(hk_engine_counters(g.e)->loss_rto, <=, n);
	CHECK_EQ(gap[n - 1], g.cfg.max_rto);
	rig_end(&g);
}

/* The back-off ends with the first sign of progress. */
static void progress_ends_back_off(void)
{
	struct rig g;

	rig_config(&g);
	g.cfg.initial_rto = 10 * HK_MSEC;
	hk_peer p = rig_pair(&g);
	rig_send(&g, p, 1);
	rig_send(&g, p, 2);
	for (unsigned i = 0; i < 5; i++)
		rig_next(&g);
	rig_ack(&g, 2, 1, 64);
	CHECK_CMP(hk_engine_deadline(g.e), <=, g.now + 2 * g.cfg.initial_rto);
	rig_end(&g);
}

/* However much is lost, one poll resends no more than the cap, and asks to be polled again. */
static void resend_cap(void)
{
	struct rig g;
	struct hk_wire_sack sack = {{0, 0, 0, 0}};
	unsigned total = 0;

	rig_config(&g);
	g.cfg.resend_cap = 4;
	hk_peer p = rig_pair(&g);
	g.now += HK_MSEC;
	for (unsigned i = 0; i < 24; i++)
		rig_send(&g, p, i);
	struct hk_peer_info before, after;
	hk_engine_peer_info(g.e, p, &before);
	/* time passes, one more is sent, and only that one arrives */
	g.now += 50 * HK_USEC;
	rig_send(&g, p, 24);
	g.now += 20 * HK_USEC;
	sack.bits[0] = UINT64_C(1) << 24;
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK);
	h.tsecr = (uint32_t)((g.now - 20 * HK_USEC) >> HK_WIRE_TS_SHIFT);
	rig_input(&g, &h, &sack, 0);
	for (unsigned polls = 0; polls < 20 && hk_engine_deadline(g.e) <= g.now; polls++) {
		rig_poll(&g);
		CHECK_CMP(g.outs, <=, 4);
		for (unsigned i = 0; i < g.outs; i++)
			CHECK_EQ(g.out[i].kind, HK_OUT_RESEND);
		total += g.outs;
	}
	CHECK_CMP(total, >, 4);
	hk_engine_peer_info(g.e, p, &after);
	CHECK_CMP(after.cwnd, <, before.cwnd);
	CHECK_EQ(hk_engine_counters(g.e)->loss_time, 24);
	rig_end(&g);
}

/* Many peers fall silent at once: one poll probes no more of them than the cap, either. */
static void resend_cap_over_peers(void)
{
	struct rig g;
	unsigned probed = 0;

	rig_config(&g);
	g.cfg.resend_cap = 3;
	rig_start(&g);
	for (uint32_t i = 2; i < 10; i++)
		rig_send(&g, rig_add(&g, i), i);
	for (unsigned polls = 0; polls < 20 && probed < 8; polls++) {
		rig_next(&g);
		CHECK_CMP(g.outs, <=, 3);
		probed += g.outs;
	}
	CHECK_EQ(probed, 8);
	rig_end(&g);
}

/* ---- questions before resends ---------------------------------------------------------------- */

static void ack_echo(struct rig *g, uint32_t ack, uint16_t flags)
{
	struct hk_wire_sack none = {{0}};
	struct hk_wire_hdr h = rig_hdr(g, 2, HK_WIRE_ACK);

	h.ack = ack;
	h.flags = flags;
	h.tsecr = (uint32_t)(g->now >> HK_WIRE_TS_SHIFT) - (uint32_t)(RTT >> HK_WIRE_TS_SHIFT);
	rig_input(g, &h, &none, 0);
}

/* A peer that we have heard of, and three packets to it, the last one by path 1. Nothing comes back. */
static hk_peer silent_pair(struct rig *g)
{
	struct hk_packet bulk = {
		.token = 3, .len = 900, .type = HK_WIRE_PUT, .frags = 1, .path = 1};
	struct hk_wire_hdr h;

	rig_config(g);
	hk_peer p = rig_pair(g);

	rig_send(g, p, 0);
	ack_echo(g, 1, 0);
	rig_send(g, p, 1);
	rig_send(g, p, 2);
	CHECK(hk_engine_send(g->e, p, &bulk, g->now, &h));
	return p;
}

static void next_is_a_question(struct rig *g)
{
	CHECK_EQ(rig_next(g), 1);
	CHECK_EQ(g->out[0].kind, HK_OUT_QUESTION);
	CHECK_EQ(g->out[0].path, 1); /* behind the last packet */
	CHECK(rig_out(g, 0).type == HK_WIRE_ACK && rig_out(g, 0).flags & HK_WIRE_F_ACK_NOW);
}

/* It has lost its core for longer than a resend timeout, and none of our packets: nothing is resent. */
static void a_silent_peer_is_asked(void)
{
	struct rig g;
	hk_peer p = silent_pair(&g);
	uint64_t start = g.now;

	next_is_a_question(&g);
	CHECK_CMP(g.now - start, <, g.cfg.min_rto);
	next_is_a_question(&g);
	CHECK_CMP(g.now - start, >, g.cfg.min_rto);
	CHECK_CMP(hk_engine_deadline(g.e) - start, >=, 3 * g.cfg.min_rto);
	ack_echo(&g, 4, HK_WIRE_F_AWAY);
	CHECK_EQ(hk_engine_unacked(g.e, p), 0);
	CHECK_EQ(hk_engine_counters(g.e)->tx_resends, 0);
	CHECK_EQ(hk_engine_counters(g.e)->loss_rto + hk_engine_counters(g.e)->loss_time, 0);
	rig_end(&g);
}

/* Its answer does not know of the last packet before the question: that is resent, once, and none behind it. */
static void an_answer_tells_what_is_lost(void)
{
	struct rig g;
	hk_peer p = silent_pair(&g);

	next_is_a_question(&g);
	g.now += HK_USEC;
	rig_send(&g, p, 4);
	ack_echo(&g, 1, HK_WIRE_F_ACK_NOW); /* a question of its own: it may not have ours yet */
	CHECK_EQ(rig_poll(&g), 1);          /* … an answer to it */
	CHECK_EQ(g.out[0].kind, HK_OUT_CONTROL);
	ack_echo(&g, 1, 0);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(g.out[0].kind == HK_OUT_RESEND && g.out[0].token == 3);
	ack_echo(&g, 1, 0);
	CHECK_EQ(rig_poll(&g), 0);
	/* from here on by the timer, first packet first, which doubles */
	uint64_t last = g.now, gap = 0;
	for (unsigned n = 0; n < 4; n++) {
		CHECK_EQ(rig_next(&g), 1);
		CHECK(g.out[0].kind == HK_OUT_RESEND && g.out[0].token == 1);
		CHECK_CMP(g.now - last, >=, gap + gap / 2);
		gap = g.now - last;
		last = g.now;
		ack_echo(&g, 1, 0); /* it lives, and never gets it */
	}
	rig_end(&g);
}

/* As they echo what was sent at @heard, in a header of the peer's. */
static void echo(struct hk_wire_hdr *h, uint64_t heard)
{
	h->ack = 1;
	h->tsecr = (uint32_t)(heard >> HK_WIRE_TS_SHIFT);
}

/* Data takes the place of an answer: sent before ours can have been there it says nothing, and afterwards all. */
static void data_answers_too(void)
{
	struct rig g;

	silent_pair(&g);
	next_is_a_question(&g);
	uint64_t asked = g.now;

	for (unsigned n = 0; n < 2; n++) {
		struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_DATA);
		unsigned resent = 0;

		h.psn = n;
		g.now = asked + RTT + n * RTT;
		echo(&h, g.now - RTT - 2 * HK_USEC + n * 4 * HK_USEC);
		rig_input(&g, &h, NULL, 8 + n);
		rig_poll(&g);
		for (unsigned i = 0; i < g.outs; i++)
			resent += g.out[i].kind == HK_OUT_RESEND && g.out[i].token == 3;
		CHECK_EQ(resent, n);
	}
	rig_end(&g);
}

/* The question goes behind the last that is in flight, not behind what is known to be there. */
static void asked_behind_what_is_in_flight(void)
{
	const struct hk_wire_sack fourth = {{1u << 3}};
	struct rig g;
	hk_peer p = silent_pair(&g);
	struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK);

	rig_send(&g, p, 4); /* by path 0, overtakes the one by path 1 */
	echo(&h, g.now - RTT);
	rig_input(&g, &h, &fourth, 0);
	CHECK_EQ(rig_next(&g), 2); /* the two of path 0 were lost */
	CHECK(g.out[0].kind == HK_OUT_RESEND && g.out[1].kind == HK_OUT_RESEND);
	next_is_a_question(&g);
	rig_end(&g);
}

/* A stand-in is answered: of what is lost it resends what it can read, though that was not the last. */
static void an_answer_to_a_stand_in(void)
{
	struct hk_packet lent = {
		.token = 9, .len = 900, .type = HK_WIRE_PUT, .frags = 1, .path = 1};
	struct rig g;
	hk_peer p = silent_pair(&g);
	struct hk_wire_hdr h;

	lent.lent = true;
	CHECK(hk_engine_send(g.e, p, &lent, g.now, &h));
	hk_engine_stand_in(g.e, true);
	next_is_a_question(&g);
	ack_echo(&g, 1, 0);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(g.out[0].kind == HK_OUT_RESEND && g.out[0].token == 3);
	hk_engine_stand_in(g.e, false);
	rig_end(&g);
}

/* Neither answers come, nor is there an end of asking: after two questions it is the packet again. */
static void two_questions_are_enough(void)
{
	struct rig g;

	silent_pair(&g);
	next_is_a_question(&g);
	next_is_a_question(&g);
	for (unsigned n = 0; n < 5; n++) {
		CHECK_EQ(rig_next(&g), 1);
		CHECK(g.out[0].kind == HK_OUT_RESEND && g.out[0].token == 1);
	}
	rig_end(&g);
}

/* Who never spoke to us may not know us, and only packets introduce us. */
static void a_stranger_is_not_asked(void)
{
	struct rig g;

	rig_config(&g);
	hk_peer p = rig_pair(&g);

	rig_send(&g, p, 1);
	CHECK_EQ(rig_next(&g), 1);
	CHECK(g.out[0].kind == HK_OUT_RESEND && g.out[0].token == 1);
	rig_end(&g);
}

/* ---- what a stand-in cannot read ------------------------------------------------------------- */

/* One that is lent, and one behind it that is not. A stand-in drives the engine. */
static hk_peer lent_and_not(struct rig *g)
{
	struct hk_packet lent = {
		.token = 1, .len = 900, .type = HK_WIRE_PUT, .path = 1, .lent = true};
	struct hk_wire_hdr h;

	rig_config(g);
	g->cfg.peer_timeout = 2 * HK_SEC;
	hk_peer p = rig_pair(g);

	CHECK(hk_engine_send(g->e, p, &lent, g->now, &h));
	rig_send(g, p, 2);
	hk_engine_stand_in(g->e, true);
	return p;
}

/* It is never resent before its owner is back, however long that takes; others are. The peer answers when it
 * is asked, and so gets no verdict. */
static void lent_packets_wait_for_their_owner(void)
{
	enum hk_verdict why;
	unsigned asked = 0, resent = 0;
	struct rig g;
	hk_peer p = lent_and_not(&g);
	uint64_t end = g.now + 10 * g.cfg.peer_timeout;

	while (g.now < end) {
		rig_next(&g);
		for (unsigned i = 0; i < g.outs; i++) {
			if (g.out[i].kind == HK_OUT_RESEND) {
				CHECK_MSG(g.out[i].token != 1, "a stand-in resends what it cannot "
							       "read");
				resent++;
			} else {
				CHECK(rig_out(&g, i).flags & HK_WIRE_F_ACK_NOW);
				asked++;
			}
		}
		if (g.outs) { /* it has the second, and will not have the first */
			struct hk_wire_sack second = {{2}};
			struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK);

			rig_input(&g, &h, resent ? &second : &(struct hk_wire_sack){{0}}, 0);
		}
		CHECK_EQ(hk_engine_verdict(g.e, &why), HK_PEER_NONE);
	}
	CHECK(resent > 0 && asked > 0);
	CHECK_EQ(hk_engine_unacked(g.e, p), 2); /* the second is no more than known to be there */
	CHECK_CMP(hk_engine_deadline(g.e), >, g.now);
	hk_engine_stand_in(g.e, false);
	CHECK_EQ(rig_poll(&g), 1);
	CHECK(g.out[0].kind == HK_OUT_RESEND && g.out[0].token == 1);
	rig_ack(&g, 2, 2, 64);
	CHECK_EQ(hk_engine_unacked(g.e, p), 0);
	rig_end(&g);
}

/* That nothing is resent to it is no reason to believe that a peer lives. */
static void silence_is_noticed_by_a_stand_in(void)
{
	enum hk_verdict why;
	struct rig g;
	hk_peer p = lent_and_not(&g);
	uint64_t end = g.now + 10 * g.cfg.peer_timeout;

	rig_ack(&g, 2, 0, 64);
	while (g.now < end && hk_engine_peer_state(g.e, p) == HK_PEER_ACTIVE)
		rig_next(&g);
	CHECK_EQ(hk_engine_verdict(g.e, &why), p);
	CHECK_EQ(why, HK_VERDICT_SILENT);
	rig_end(&g);
}

/* ---- who is silent, long before anything is lost ------------------------------------------- */

static void silent_peers_are_named(void)
{
	const uint64_t after = 50 * HK_USEC;
	struct hk_unheard u[4];
	struct rig g;

	rig_config(&g);
	rig_start(&g);
	hk_peer a = rig_add(&g, 2), b = rig_add(&g, 3);
	CHECK_EQ(hk_engine_unheard(g.e, g.now + after, after, 0, u, 4), 0); /* nothing is awaited */
	uint64_t start = g.now;
	rig_send(&g, a, 1);
	g.now += 10 * HK_USEC;
	rig_send(&g, b, 2);
	rig_send(&g, a, 3); /* the first is what counts */
	g.now = start + after - 1;
	CHECK_EQ(hk_engine_unheard(g.e, g.now, after, 0, u, 4), 0);
	g.now++;
	CHECK_EQ(hk_engine_unheard(g.e, g.now, after, 0, u, 4), 1);
	CHECK(u[0].peer == a && u[0].since == start);
	g.now += after;
	CHECK_EQ(hk_engine_unheard(g.e, g.now, after, 0, u, 4), 2);
	CHECK_EQ(hk_engine_unheard(g.e, g.now, after, 0, u, 1), 1);
	hk_peer first = u[0].peer;

	CHECK_EQ(hk_engine_unheard(g.e, g.now, after, 1, u, 4), 1); /* the other one */
	CHECK(u[0].peer != first);
	CHECK_EQ(hk_engine_unheard(g.e, g.now, after, 2, u, 4), 0);
	/* one that lives, and acknowledges nothing: somebody polls there */
	rig_ack(&g, 2, 0, 64);
	CHECK_EQ(hk_engine_unheard(g.e, g.now + after - 1, after, 0, u, 4), 1);
	CHECK(u[0].peer == b);
	CHECK_EQ(hk_engine_unheard(g.e, g.now + after, after, 0, u, 4), 2);
	rig_ack(&g, 3, 1, 64);
	CHECK_EQ(hk_engine_unheard(g.e, g.now + after, after, 0, u, 4), 1);
	CHECK(u[0].peer == a);
	rig_ack(&g, 2, 2, 64);
	CHECK_EQ(hk_engine_unheard(g.e, g.now + after, after, 0, u, 4), 0);
	rig_end(&g);
}

/* Where bulk moves, either way, a peer that copies it is silent for a while; up to a bound. */
static void silence_is_longer_where_bulk_moves(void)
{
	const uint64_t after = 50 * HK_USEC;
	enum bulk { NONE, SENT, CAME };
	static const struct {
		uint64_t rtt, patience;
		enum bulk bulk;
	} way[] = {{10, 50, SENT},  {80, 160, SENT},   {4000, 400, SENT},
		   {80, 160, CAME}, {4000, 400, CAME}, {4000, 50, NONE}}; /* us */

	for (unsigned i = 0; i < HK_ARRAY_LEN(way); i++) {
		struct hk_packet pkt = {.len = 8192, .type = HK_WIRE_DATA, .frags = 1};
		struct hk_wire_sack none = {{0}};
		struct hk_unheard u[4];
		struct rig g;

		rig_config(&g);
		rig_start(&g);
		g.now = 100ull << 20; /* not when no long frame looks like one of just now */
		hk_peer p = rig_add(&g, 2);
		uint32_t tsval = rig_send(&g, p, 1).tsval;

		g.now += way[i].rtt * HK_USEC;
		struct hk_wire_hdr h = rig_hdr(&g, 2, HK_WIRE_ACK);

		h.ack = 1;
		h.tsecr = tsval;
		rig_input(&g, &h, &none, 0);
		rig_send(&g, p, 2);
		for (unsigned n = 0; way[i].bulk == SENT && n < 8; n++) {
			uint8_t header[HK_WIRE_HLEN];

			pkt.token = 3 + n;
			CHECK(hk_engine_send(g.e, p, &pkt, g.now, header));
		}
		if (way[i].bulk == CAME)
			rig_long(&g, 2, 0);
		uint64_t patience = way[i].patience * HK_USEC;

		CHECK_EQ(hk_engine_unheard(g.e, g.now + patience - 1, after, 0, u, 4), 0);
		CHECK_CMP(hk_engine_unheard(g.e, g.now + patience, after, 0, u, 4), ==, 1);
		rig_end(&g);
	}
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"back_off_doubles_to_its_ceiling", back_off_doubles_to_its_ceiling},
		{"progress_ends_back_off", progress_ends_back_off},
		{"resend_cap", resend_cap},
		{"resend_cap_over_peers", resend_cap_over_peers},
		{"a_silent_peer_is_asked", a_silent_peer_is_asked},
		{"an_answer_tells_what_is_lost", an_answer_tells_what_is_lost},
		{"data_answers_too", data_answers_too},
		{"asked_behind_what_is_in_flight", asked_behind_what_is_in_flight},
		{"an_answer_to_a_stand_in", an_answer_to_a_stand_in},
		{"two_questions_are_enough", two_questions_are_enough},
		{"a_stranger_is_not_asked", a_stranger_is_not_asked},
		{"lent_packets_wait_for_their_owner", lent_packets_wait_for_their_owner},
		{"silence_is_noticed_by_a_stand_in", silence_is_noticed_by_a_stand_in},
		{"silent_peers_are_named", silent_peers_are_named},
		{"silence_is_longer_where_bulk_moves", silence_is_longer_where_bulk_moves},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

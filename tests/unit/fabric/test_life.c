/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/test_life.c: peers that leave, and peers that begin anew, while things are under way to them:
 * what is lost is told once, what was acknowledged is done, and the next incarnation gets nothing of the first.
 */
#include "fabric/internal.h"
#include "port/bell.h"
#include "tests/unit/fabric/by_hand.h"

#include <errno.h>

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
		arrives(s, HK_WIRE_ACK, 0, next, 0); /* its edge stands where it stood */
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
	arrives(s, HK_WIRE_BYE, 0, ack, 0);
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

/* It may leave MPI now, and the polling process is awake, and may look too early: it is asked, not only rung for. */
static void the_poller_is_asked_while_messages_wait(void)
{
	static struct hk_bell_word words[HK_BELLS];
	struct hk_error err = {""};
	struct scene s;

	scene_open(&s, false);
	CHECK_MSG(hk_fabric_share(s.f, &err) == 0, "%s", err.text);
	hk_bell_words = words;
	fill(&s, false);
	CHECK(hk_bell_asked(HK_BELL_POLLER));
	hk_bell_words = NULL;
	hk_fabric_close(s.f, 0);
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
	arrives(&s, HK_WIRE_BYE, 0, 0, 0);
	for (int i = 0; i < 100; i++)
		hk_fabric_progress(s.f);
	CHECK_EQ(hk_engine_peer_state(hk_fabric_engine(s.f), s.peer), HK_PEER_LEFT);
	CHECK_EQ(s.lost, 0);
	nothing_is_left(&s);
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
		arrives(&s, HK_WIRE_BYE, 0, acked, 0);
	for (uint64_t end = now_ms() + WAIT_MS;
	     stand_in && hk_engine_peer_state(hk_fabric_engine(s.f), s.peer) != HK_PEER_LEFT;) {
		(void)hk_fabric_serve(s.f, rte_rdtsc());
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

/* ---- a polling process that is lost inside ------------------------------------------------------------ */

/* Whether or not anybody noticed: closing ends, and lingers for nothing. */
static void closes_though_the_stand_in_was_lost_inside(void)
{
	for (int noticed = 0; noticed < 2; noticed++) {
		struct hk_error err = {""};
		struct scene s;

		scene_open(&s, false);
		CHECK_MSG(hk_fabric_share(s.f, &err) == 0, "%s", err.text);
		CHECK(send_one(&s, 0) >= 0);
		CHECK(hk_biased_try_helper(&s.f->lock));
		if (noticed)
			hk_fabric_break(s.f, "it is lost");
		CHECK_CMP(hk_fabric_close(s.f, WAIT_MS), >, 0);
	}
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"bye_while_messages_wait", bye_while_messages_wait},
		{"bye_with_packets_in_flight_too", bye_with_packets_in_flight_too},
		{"the_poller_is_asked_while_messages_wait",
		 the_poller_is_asked_while_messages_wait},
		{"bye_that_nobody_regrets", bye_that_nobody_regrets},
		{"puts_before_bye", puts_before_bye},
		{"what_was_sent_to_the_first_is_told", what_was_sent_to_the_first_is_told},
		{"another_incarnation_gets_nothing_of_the_first",
		 another_incarnation_gets_nothing_of_the_first},
		{"closes_though_the_stand_in_was_lost_inside",
		 closes_though_the_stand_in_was_lost_inside},
		{"request_of_an_earlier_incarnation", request_of_an_earlier_incarnation},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

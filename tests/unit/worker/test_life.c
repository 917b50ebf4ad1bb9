/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_life.c: peers that leave, and peers that restart, while frames to them are
 * in flight. A loss is reported once, and what was acknowledged is complete. The next incarnation
 * gets nothing of the first.
 */
#include "worker/internal.h"
#include "worker/rx.h"
#include "port/wakeup.h"
#include "tests/support/by_hand.h"

#include <errno.h>

/* ---- a peer that leaves ---------------------------------------------------------------------- */

/* Sends until messages wait here. Returns how many packets were numbered. With @answered all are
 * acknowledged, and the credit is used up. */
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
		arrives(s, HK_WIRE_ACK, 0, next, 0); /* its edge stays */
		while ((m = take(s, &f))) {
			next = f.h.psn + 1;
			rte_pktmbuf_free_seg(m);
		}
		if (hk_worker_backlog(s->w, s->peer) &&
		    hk_engine_unacked(hk_worker_engine(s->w), s->peer) == 0)
			break;
	}
	CHECK(hk_worker_backlog(s->w, s->peer) > 0);
	CHECK_EQ(s->lost, 0);
	return next;
}

static void it_left(struct scene *s, uint32_t ack)
{
	arrives(s, HK_WIRE_BYE, 0, ack, 0);
	AWAIT(WAIT_MS, s->lost > 0, hk_worker_progress(s->w));
	CHECK_EQ(s->why, HK_DISCONNECT_LEFT);
	CHECK_HAS(s->text, "rank 1 on node1 has left");
	CHECK_EQ(hk_worker_backlog(s->w, s->peer), 0);
	CHECK_EQ(send_one(s, 0), -ENOTCONN);
	for (int i = 0; i < 100; i++)
		hk_worker_progress(s->w);
	CHECK_MSG(s->lost == 1, "the connection end was reported %u times", s->lost);
	nothing_is_left(s);
}

/* Everything in flight was acknowledged, so the engine has nothing to report. */
TEST(bye_while_messages_wait)
{
	struct scene s;

	scene_open(&s, false);
	uint32_t next = fill(&s, true);

	CHECK_EQ(hk_engine_unacked(hk_worker_engine(s.w), s.peer), 0);
	it_left(&s, next);
}

/* The application may leave MPI now, and its poller is awake and may look too early. So the
 * poller is asked, not only signalled. */
TEST(the_poller_is_asked_while_messages_wait)
{
	static struct hk_wakeup_word words[HK_WAKEUPS];
	struct scene s;

	scene_open(&s, false);
	scene_share(&s);
	hk_wakeup_words = words;
	fill(&s, false);
	CHECK(hk_wakeup_requested(HK_WAKEUP_POLLER));
	hk_wakeup_words = NULL;
	hk_worker_close(s.w, 0);
}

/* Engine and worker have a reason to report; one is reported. */
TEST(bye_with_packets_in_flight_too)
{
	struct scene s;

	scene_open(&s, false);
	fill(&s, false);
	CHECK(hk_engine_unacked(hk_worker_engine(s.w), s.peer) > 0);
	it_left(&s, 0);
}

/* The progress thread learns of it, and the application asks why its call was refused. */
TEST(a_refused_call_can_be_explained)
{
	struct scene s;

	scene_open(&s, false);
	fill(&s, false);
	into_ring(&s, HK_WIRE_BYE, 0, 0, 0);
	AWAIT(WAIT_MS, hk_engine_peer_state(hk_worker_engine(s.w), s.peer) == HK_PEER_LEFT,
	      hk_rx_poll(s.w, true));
	CHECK_EQ(s.lost, 0);
	CHECK_EQ(send_one(&s, 0), -ENOTCONN);
	for (int i = 0; i < 2; i++)
		hk_worker_report_lost(s.w);
	CHECK_EQ(s.lost, 1);
	CHECK_HAS(s.text, "rank 1 on node1 has left");
	hk_worker_progress(s.w);
	nothing_is_left(&s);
}

TEST(bye_that_nobody_regrets)
{
	struct scene s;

	scene_open(&s, false);
	arrives(&s, HK_WIRE_BYE, 0, 0, 0);
	for (int i = 0; i < 100; i++)
		hk_worker_progress(s.w);
	CHECK_EQ(hk_engine_peer_state(hk_worker_engine(s.w), s.peer), HK_PEER_LEFT);
	CHECK_EQ(s.lost, 0);
	nothing_is_left(&s);
}

/* ---- puts to a peer that leaves -------------------------------------------------------------- */

static void done(void *arg, int status)
{
	*(int *)arg = status ? status : 1;
}

/* Runs a put of two frames; the BYE itself acknowledges the first @acked of them. Returns
 * its status. */
static int put_before_bye(uint32_t acked, bool by_poller, unsigned *lost)
{
	static char from[3000];
	struct rte_mbuf *m;
	struct hk_frame f;
	struct hk_op op;
	struct scene s;
	int status = 0;

	scene_open(&s, false);
	scene_share(&s);
	CHECK_EQ(hk_worker_put(s.w, s.peer, &op, from, sizeof(from), 1 << 16, 0, done, &status), 0);
	for (uint32_t i = 0; i < 2; i++) {
		m = take(&s, &f);
		CHECK(m && f.h.type == HK_WIRE_PUT && f.h.psn == i);
		rte_pktmbuf_free_seg(m);
	}
	if (by_poller)
		into_ring(&s, HK_WIRE_BYE, 0, acked, 0);
	else
		arrives(&s, HK_WIRE_BYE, 0, acked, 0);
	if (by_poller)
		AWAIT(WAIT_MS, hk_engine_peer_state(hk_worker_engine(s.w), s.peer) == HK_PEER_LEFT,
		      (void)hk_worker_proxy_poll(s.w, rte_rdtsc()));
	AWAIT(WAIT_MS, status, hk_worker_progress(s.w));
	for (unsigned i = 0; i < 100; i++)
		hk_worker_progress(s.w);
	*lost = s.lost;
	nothing_is_left(&s);
	return status;
}

/* Frames that the peer acknowledged before it left are complete; the others are lost. */
TEST(puts_before_bye)
{
	unsigned lost;

	for (int by_poller = 0; by_poller < 2; by_poller++) {
		CHECK_EQ(put_before_bye(2, by_poller, &lost), 1);
		CHECK_EQ(lost, 0);
		CHECK_EQ(put_before_bye(1, by_poller, &lost), -ENOTCONN);
		CHECK_EQ(lost, 1);
	}
}

/* ---- a peer that restarts -------------------------------------------------------------------- */

#define THIRD 3u /* not added by the application */

struct third {
	hk_peer peer;
	unsigned messages;
};

static void on_third(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	struct third *t = arg;

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
	h.am = am;
	h.len = len;
	frame_into_ring(s, &h, payload);
}

/* Leaves work of an incarnation that has ended: a window of packets, messages that wait, a put
 * and a get. */
static void leave_things(struct scene *s, struct third *t, struct hk_op op[2], int status[2])
{
	static char memory[4096];
	int rc = 0;

	third_talks(s, EPOCH, AM, NULL, 0);
	hk_worker_progress(s->w);
	CHECK_EQ(t->messages, 1);
	s->about = t->peer;
	for (unsigned i = 0; i < BUFFERS / 2; i++) {
		hk_buf *b = hk_worker_alloc(s->w);

		CHECK(b != NULL);
		rc = hk_worker_send(s->w, t->peer, AM, b, 8);
		CHECK(rc >= 0);
	}
	CHECK_EQ(rc, 1);
	CHECK_EQ(hk_worker_put(s->w, t->peer, &op[0], memory, sizeof(memory), 1 << 16, 0, done,
			       &status[0]),
		 0);
	CHECK_EQ(hk_worker_get(s->w, t->peer, &op[1], memory, sizeof(memory), 1 << 16, 0, done,
			       &status[1]),
		 0);
}

/* Packets to the first incarnation are lost, and that is reported once. */
static void first_is_reported_lost(struct scene *s)
{
	AWAIT(WAIT_MS, s->lost > 0, hk_worker_progress(s->w));
	for (int i = 0; i < 100; i++)
		hk_worker_progress(s->w);
	CHECK_EQ(s->lost, 1);
	CHECK_EQ(s->why, HK_DISCONNECT_RESTARTED);
}

/* Nothing of that goes to the next incarnation, and new messages do. */
static void third_is_new(struct scene *s, struct third *t, const int status[2])
{
	struct rte_mbuf *m;
	struct hk_frame f;
	hk_buf *b = hk_worker_alloc(s->w);
	unsigned to_new = 0;

	CHECK(b != NULL);
	CHECK_MSG(hk_worker_send(s->w, t->peer, AM, b, 77) == 0,
		  "messages to the earlier incarnation still wait");
	AWAIT(WAIT_MS, to_new && status[0] && status[1], {
		while ((m = take(s, &f))) {
			bool packet = f.h.type == HK_WIRE_DATA || f.h.type == HK_WIRE_PUT;

			if (packet && f.h.dst_epoch == EPOCH + 1) {
				CHECK_MSG(f.h.len == 77, "it got %u bytes of its predecessor",
					  f.h.len);
				to_new++;
			}
			rte_pktmbuf_free_seg(m);
		}
		hk_worker_progress(s->w);
	});
	CHECK_EQ(status[0], -ENOTCONN);
	CHECK_EQ(status[1], -ENOTCONN);
	CHECK_EQ(hk_worker_backlog(s->w, t->peer), 0);
	first_is_reported_lost(s);
}

/* The application or the poller receives a frame of the next incarnation, or the application adds
 * it. */
enum newcomer { RECEIVED, RECEIVED_BY_POLLER, ADDED };

static void restarts(enum newcomer how)
{
	struct hk_peer_addr addr = {
		.endpoint = THIRD, .epoch = EPOCH + 1, .frame_max = 2048, .name = "rank 2"};
	struct third t = {0};
	int status[2] = {0};
	struct hk_op op[2];
	struct scene s;
	hk_peer again;

	scene_open(&s, false);
	scene_share(&s);
	hk_worker_set_am(s.w, AM, on_third, &t);
	leave_things(&s, &t, op, status);
	if (how == ADDED) {
		CHECK_OK(hk_worker_peer_add(s.w, &addr, &again, ERR));
		CHECK_EQ(again, t.peer);
	} else {
		third_talks(&s, EPOCH + 1, AM, NULL, 0);
		if (how == RECEIVED)
			hk_worker_progress(s.w);
		else
			served(&s);
	}
	third_is_new(&s, &t, status);
	hk_worker_close(s.w, 0);
}

/* No message waits here: one packet is in flight, and the next incarnation knows nothing of it. If
 * it was acknowledged, nothing is lost. */
static void packet_to_the_first(bool acknowledged)
{
	struct third t = {0};
	struct scene s;

	scene_open(&s, false);
	hk_worker_set_am(s.w, AM, on_third, &t);
	third_talks(&s, EPOCH, AM, NULL, 0);
	hk_worker_progress(s.w);
	s.about = t.peer;
	hk_buf *b = hk_worker_alloc(s.w);

	CHECK(b != NULL);
	CHECK_EQ(hk_worker_send(s.w, t.peer, AM, b, 8), 0);
	if (acknowledged) {
		struct hk_wire_hdr h = other_header(HK_WIRE_ACK, 0, 64);

		h.src = THIRD;
		h.ack = 1;
		frame_into_ring(&s, &h, NULL);
		hk_worker_progress(s.w);
		CHECK_EQ(hk_engine_unacked(hk_worker_engine(s.w), t.peer), 0);
	}
	third_talks(&s, EPOCH + 1, AM, NULL, 0);
	hk_worker_progress(s.w);
	CHECK_EQ(t.messages, 2);
	if (!acknowledged)
		first_is_reported_lost(&s);
	for (int i = 0; i < 100; i++)
		hk_worker_progress(s.w);
	CHECK_EQ(s.lost, !acknowledged);
	hk_worker_close(s.w, 0);
}

TEST(messages_to_the_first_are_reported_lost)
{
	packet_to_the_first(false);
	packet_to_the_first(true);
}

TEST(another_incarnation_gets_nothing_of_the_first)
{
	restarts(RECEIVED);
	restarts(RECEIVED_BY_POLLER);
	restarts(ADDED);
}

/* A request of an earlier incarnation does not reach the memory of the next. */
TEST(request_of_an_earlier_incarnation)
{
	struct hk_wire_get g = {.len = 64, .to_region = 1 << 16};
	char memory[64] = {0}, request[HK_WIRE_GET_LEN];
	struct third t = {0};
	struct scene s;

	scene_open(&s, false);
	scene_share(&s);
	hk_worker_set_am(s.w, AM, on_third, &t);
	g.region = hk_worker_region_add(s.w, memory, sizeof(memory), HK_REGION_READ, HK_PEER_NONE);
	hk_wire_get_encode(request, &g);
	third_talks(&s, EPOCH, HK_WIRE_AM_GET, request, sizeof(request));
	served(&s);
	third_talks(&s, EPOCH + 1, AM, NULL, 0);
	served(&s);
	AWAIT(WAIT_MS, t.messages > 0, hk_worker_progress(s.w));
	CHECK_EQ(hk_worker_counters(s.w)->gets_served, 0);
	hk_worker_close(s.w, 0);
}

/* ---- a poller that dies inside --------------------------------------------------------------- */

/* Closing ends and does not linger, whether or not anybody noticed. */
TEST(closes_though_the_poller_was_lost_inside)
{
	for (int noticed = 0; noticed < 2; noticed++) {
		struct scene s;

		scene_open(&s, false);
		scene_share(&s);
		CHECK(send_one(&s, 0) >= 0);
		CHECK(hk_biased_try_proxy(&s.w->lock));
		if (noticed)
			hk_worker_break(s.w, "it is lost");
		CHECK_CMP(hk_worker_close(s.w, WAIT_MS), >, 0);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_bundles.c: messages that share a frame, sent and received. The test makes
 * the other end's frames by hand.
 */
#include "tests/support/by_hand.h"
#include "wire/bundle.h"
#include "worker/internal.h"
#include "worker/proxy.h"

#include <errno.h>
#include <string.h>

#define AM_OTHER 8

/* ---- sending --------------------------------------------------------------------------------- */

/* Sends @len bytes, all of them @byte. Returns as hk_worker_send(). */
static int send_bytes(struct scene *s, uint8_t am, uint8_t byte, size_t len)
{
	hk_buf *b = hk_worker_alloc(s->w);

	CHECK(b != NULL);
	memset(hk_buf_data(b), byte, len);
	return hk_worker_send(s->w, s->peer, am, b, len);
}

/* Sends until a message must wait; that one is @first. Returns how many left, each in a frame. */
static uint32_t fill(struct scene *s, uint8_t first, size_t len)
{
	uint32_t sent = 0;

	while (send_bytes(s, AM, sent ? first : 0, sent ? len : 1) == 0)
		sent++;
	CHECK_CMP(sent, >, 0);
	return sent;
}

static void drain(struct scene *s)
{
	struct rte_mbuf *m;
	struct hk_frame f;

	while ((m = take(s, &f)))
		rte_pktmbuf_free_seg(m);
}

/* The next frame has the messages of @expected, a letter for each. */
static void next_frame(struct scene *s, const char *expected)
{
	struct hk_wire_record r;
	struct hk_frame f;
	struct rte_mbuf *m = take_data(s, &f);
	const uint8_t *p;
	size_t at = 0;
	char got[64] = "";
	unsigned n = 0;

	if (f.h.am != HK_WIRE_AM_BUNDLE) {
		got[n++] = *(const char *)f.payload;
	} else {
		while ((p = hk_wire_bundle_next(f.payload, f.payload_len, &at, &r))) {
			for (unsigned i = 1; i < r.len; i++)
				CHECK_EQ(p[i], p[0]);
			CHECK_EQ(r.am, p[0] == 'x' ? AM_OTHER : AM);
			got[n++] = (char)*p;
		}
		CHECK_EQ(at, f.payload_len);
	}
	got[n] = 0;
	CHECK_STR(got, expected);
	rte_pktmbuf_free_seg(m);
}

/* The window is full. The next messages wait in few buffers and keep their order. */
TEST(small_messages_that_wait_share_a_frame)
{
	struct scene s;

	scene_open(&s, false);
	uint32_t sent = fill(&s, 'a', 8);
	unsigned held = BUFFERS - hk_worker_tx_available(s.w);

	CHECK_EQ(send_bytes(&s, AM, 'b', 256), 1);
	CHECK_EQ(send_bytes(&s, AM_OTHER, 'x', 1), 1);
	CHECK_EQ(hk_worker_tx_available(s.w), BUFFERS - held);
	CHECK_EQ(hk_worker_backlog(s.w, s.peer), 1);
	CHECK_EQ(send_bytes(&s, AM, 'c', 257), 1); /* too long to share */
	CHECK_EQ(send_bytes(&s, AM, 'd', 8), 1);   /* must not overtake */
	CHECK_EQ(send_bytes(&s, AM, 'e', 256), 1);
	CHECK_EQ(send_bytes(&s, AM, 'f', 256), 1);
	CHECK_EQ(send_bytes(&s, AM, 'g', 256), 1);
	CHECK_EQ(send_bytes(&s, AM, 'h', 256), 1); /* a bundle is shorter than HK_LONG_FRAME */
	CHECK_EQ(send_bytes(&s, AM, 'i', 0), 1);
	CHECK_EQ(hk_worker_counters(s.w)->bundled, 6);
	CHECK_EQ(hk_worker_backlog(s.w, s.peer), 4);
	drain(&s);
	arrives(&s, HK_WIRE_ACK, 0, sent, 64);
	next_frame(&s, "abx");
	next_frame(&s, "c");
	next_frame(&s, "defg");
	struct hk_frame f;
	struct rte_mbuf *m = take_data(&s, &f);

	CHECK_EQ(f.h.len, 4 + 256 + 4);
	rte_pktmbuf_free_seg(m);
	arrives(&s, HK_WIRE_ACK, 0, sent + 4, 64);
	nothing_is_left(&s);
}

/* A buffer that waits behind a put, or with another tag, is not joined. */
TEST(what_differs_stays_alone)
{
	struct scene s;

	scene_open(&s, false);
	uint32_t sent = fill(&s, 'a', 8);

	hk_note(hk_buf_of(s.w->peer[s.peer].tx.queue.tail))->function = 1;
	CHECK_EQ(send_bytes(&s, AM, 'b', 8), 1);
	hk_note(hk_buf_of(s.w->peer[s.peer].tx.queue.tail))->bulk = true;
	CHECK_EQ(send_bytes(&s, AM, 'c', 8), 1);
	CHECK_EQ(send_bytes(&s, AM, 'd', 8), 1);
	CHECK_EQ(hk_worker_backlog(s.w, s.peer), 3);
	drain(&s);
	arrives(&s, HK_WIRE_ACK, 0, sent, 64);
	next_frame(&s, "a");
	next_frame(&s, "b");
	next_frame(&s, "cd");
	arrives(&s, HK_WIRE_ACK, 0, sent + 3, 64);
	nothing_is_left(&s);
}

/* ---- receiving ------------------------------------------------------------------------------- */

struct heard {
	struct scene *s;
	char text[64];
	unsigned n;
	unsigned nested; /* with so many messages, packet 1 arrives while the handler runs */
};

static void bundle_into_ring(struct scene *s, uint32_t psn, const char *letters, unsigned frags);

static void on_message(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov,
		       unsigned count)
{
	struct heard *h = arg;

	CHECK_EQ(count, 1);
	CHECK_EQ(am, *(const char *)iov->base == 'x' ? AM_OTHER : AM);
	h->text[h->n++] = *(const char *)iov->base;
	if (h->n == h->nested) {
		bundle_into_ring(h->s, 1, "def", 1);
		hk_worker_progress(h->s->w);
	}
}

static void listen_with(struct scene *s, struct heard *h)
{
	*h = (struct heard){.s = s};
	hk_worker_set_am(s->w, AM, on_message, h);
	hk_worker_set_am(s->w, AM_OTHER, on_message, h);
}

/* Puts packet @psn into the ring: a bundle with a message of two bytes for each letter. The record
 * of '!' is for a handler that the rules forbid. */
static void bundle_into_ring(struct scene *s, uint32_t psn, const char *letters, unsigned frags)
{
	struct hk_wire_hdr h = other_header(HK_WIRE_DATA, psn, 64);
	char bundle[256];
	size_t used = 0;

	for (const char *c = letters; *c; c++) {
		uint8_t am = *c == '!' ? HK_WIRE_AM_BUNDLE : *c == 'x' ? AM_OTHER : AM;

		memset(hk_wire_bundle_add(bundle, &used, am, 2), *c, 2);
	}
	h.am = HK_WIRE_AM_BUNDLE;
	h.frags = (uint8_t)frags;
	h.len = (uint16_t)used;
	frame_into_ring(s, &h, bundle);
}

TEST(each_message_reaches_its_handler)
{
	struct heard h;
	struct scene s;

	scene_open(&s, false);
	listen_with(&s, &h);
	bundle_into_ring(&s, 0, "abxc", 1);
	hk_worker_progress(s.w);
	CHECK_STR(h.text, "abxc");
	CHECK_EQ(hk_worker_counters(s.w)->messages_delivered, 4);
	CHECK_EQ(hk_worker_counters(s.w)->bad_bundles, 0);
	nothing_is_left(&s);
}

TEST(what_breaks_a_rule_is_dropped_and_counted)
{
	const struct hk_worker_counters *n;
	struct heard h;
	struct scene s;

	scene_open(&s, false);
	n = hk_worker_counters(s.w);
	listen_with(&s, &h);
	bundle_into_ring(&s, 0, "ab!c", 1);
	hk_worker_progress(s.w);
	CHECK_STR(h.text, "ab");
	CHECK_EQ(n->bad_bundles, 1);
	bundle_into_ring(&s, 1, "", 1); /* no message at all */
	hk_worker_progress(s.w);
	CHECK_EQ(n->bad_bundles, 1);
	bundle_into_ring(&s, 2, "d", 2);
	hk_worker_progress(s.w);
	struct hk_wire_hdr last = other_header(HK_WIRE_DATA, 3, 64);

	last.am = HK_WIRE_AM_BUNDLE;
	last.frag = 1;
	last.frags = 2;
	frame_into_ring(&s, &last, NULL);
	hk_worker_progress(s.w);
	CHECK_STR(h.text, "ab");
	CHECK_EQ(n->unknown_am, 1);
	nothing_is_left(&s);
}

/* A handler that calls progress gets the rest of its bundle before what came later. */
TEST(nested_progress_keeps_the_order)
{
	for (unsigned nested = 1; nested <= 3; nested++) {
		struct heard h;
		struct scene s;

		scene_open(&s, false);
		listen_with(&s, &h);
		h.nested = nested;
		bundle_into_ring(&s, 0, "abc", 1);
		hk_worker_progress(s.w);
		CHECK_STR(h.text, "abcdef");
		CHECK(s.w->bundle == NULL);
		nothing_is_left(&s);
	}
}

/* A progress proxy stores bundles whole. */
TEST(stored_bundles_are_delivered)
{
	struct heard h;
	struct scene s;

	scene_open(&s, false);
	scene_share(&s);
	listen_with(&s, &h);
	bundle_into_ring(&s, 0, "ab", 1);
	served(&s);
	bundle_into_ring(&s, 1, "cd!", 1);
	served(&s);
	CHECK_STR(h.text, "");
	hk_worker_progress(s.w);
	CHECK_STR(h.text, "abcd");
	CHECK_EQ(hk_worker_counters(s.w)->bad_bundles, 1);
	nothing_is_left(&s);
}

/* ---- short messages -------------------------------------------------------------------------- */

static int send_short(struct scene *s, const char *header, const char *data)
{
	return hk_worker_send_short(s->w, s->peer, AM, header, strlen(header), data, strlen(data));
}

/* Header and data are one message, alone or in a bundle. With a quarter of the buffers waiting, the
 * worker accepts no more for this peer. */
TEST(short_messages_of_two_parts)
{
	struct hk_frame f;
	struct scene s;
	char longest[HK_SHORT_MAX] = "";

	scene_open(&s, false);
	CHECK_EQ(send_short(&s, "ab", "cd"), 0);
	struct rte_mbuf *m = take_data(&s, &f);

	CHECK(f.payload_len == 4 && memcmp(f.payload, "abcd", 4) == 0);
	CHECK_EQ(f.h.am, AM);
	rte_pktmbuf_free_seg(m);
	uint32_t sent = 1;

	while (send_short(&s, "a", "") == 0)
		sent++;
	CHECK_EQ(send_short(&s, "b", "b"), 1);
	CHECK_EQ(send_short(&s, "", "cc"), 1);
	CHECK_EQ(hk_worker_backlog(s.w, s.peer), 1);
	memset(longest, 'd', sizeof(longest));
	int rc;

	while ((rc = hk_worker_send_short(s.w, s.peer, AM, "", 0, longest, HK_SHORT_MAX)) == 1)
		;
	CHECK_EQ(rc, -EAGAIN);
	CHECK_CMP(hk_worker_backlog(s.w, s.peer), >, BUFFERS / 4);
	CHECK_CMP(hk_worker_tx_available(s.w), >, BUFFERS / 2);
	drain(&s);
	arrives(&s, HK_WIRE_ACK, 0, sent, 4);
	next_frame(&s, "abcddd");
	arrives(&s, HK_WIRE_BYE, 0, sent + 1, 0);
	CHECK_EQ(send_short(&s, "a", "b"), -ENOTCONN);
	hk_worker_close(s.w, 0);
}

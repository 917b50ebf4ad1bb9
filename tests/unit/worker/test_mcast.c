/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_mcast.c: multicasts reach their listeners, and nobody else. A memif has
 * one receiver; tests/integration shows that network switches make several of one frame.
 */
#include "hikyaku/mcast.h"
#include "tests/support/pair.h"

#include <time.h>

#define EACH   1000u
#define PIECES 700u

struct listener {
	struct hk_mcast m;
	char *to;
	unsigned times[PIECES], frames;
	size_t bytes;
};

static void piece_in(struct hk_mcast *m, uint32_t piece, const void *bytes, size_t len)
{
	struct listener *l = (struct listener *)m;

	CHECK(piece < PIECES);
	CHECK_EQ(len, piece + 1 < PIECES ? EACH : EACH / 2);
	memcpy(l->to + (size_t)piece * EACH, bytes, len);
	l->frames++;
	l->bytes += len;
	l->times[piece]++;
}

static const uint8_t KEY[HK_KEY_LEN] = {1, 2, 3};
static const struct hk_mcast_to TO = {
	.tag = UINT64_C(0x674804000000), .channel = 7, .number = 9, .key = KEY};

static struct listener listener(char *to)
{
	return (struct listener){.m = {.channel = TO.channel,
				       .number = TO.number,
				       .endpoint = A + 1,
				       .epoch = 100,
				       .key = KEY,
				       .fn = piece_in},
				 .to = to};
}

static const struct hk_worker_counters *count(int which)
{
	return hk_worker_counters(end[which].w);
}

/* Sends all pieces from A: as many as there is space for, and then the rest. */
static void send_all(const char *from)
{
	size_t len = (size_t)PIECES * EACH - EACH / 2;

	for (uint32_t sent = 0; sent < PIECES; progress()) {
		size_t at = (size_t)sent * EACH;
		uint32_t n = hk_worker_mcast(end[A].w, &TO, sent, from + at, len - at, EACH);

		CHECK(n <= PIECES - sent);
		sent += n;
	}
	CHECK_EQ(count(A)->mcasts, PIECES);
}

EACH_WAY(what_comes_is_what_was_sent)
{
	MAPPED(from, 1);
	MAPPED(to, 2);
	struct listener l = listener(to);
	unsigned there = 0;

	hk_worker_mcast_open(end[B].w, &l.m);
	send_all(from);
	message(A); /* comes after all of them, or is sent again: then most have come as well */
	UNTIL(end[B].messages == 1);
	if (!*faults)
		UNTIL(l.frames == PIECES);
	hk_worker_mcast_close(end[B].w, &l.m);
	for (unsigned i = 0; i < PIECES; i++) {
		size_t at = (size_t)i * EACH;

		if (!l.times[i])
			continue;
		there++;
		CHECK(*faults || l.times[i] == 1);
		CHECK(memcmp(from + at, to + at, i + 1 < PIECES ? EACH : EACH / 2) == 0);
	}
	CHECK(there > PIECES / 2);
	CHECK(there == PIECES || *faults);
	CHECK_EQ(count(B)->mcasts_in, l.frames);
	CHECK_EQ(count(B)->mcast_no_listener, 0);
}

/* Another channel, transfer, sender or incarnation; and after the close. */
static void to_nobody(void)
{
	MAPPED(from, 1);
	MAPPED(to, 2);
	struct listener l[4];

	for (unsigned i = 0; i < HK_ARRAY_LEN(l); i++)
		l[i] = listener(to);
	l[0].m.channel++;
	l[1].m.number++;
	l[2].m.endpoint++;
	l[3].m.epoch++;
	for (unsigned i = 0; i < HK_ARRAY_LEN(l); i++)
		hk_worker_mcast_open(end[B].w, &l[i].m);
	CHECK_EQ(hk_worker_mcast(end[A].w, &TO, 0, from, EACH, EACH), 1);
	UNTIL(count(B)->mcast_no_listener == 1);

	struct listener right = listener(to);

	hk_worker_mcast_open(end[B].w, &right.m);
	CHECK_EQ(hk_worker_mcast(end[A].w, &TO, 0, from, EACH, EACH), 1);
	UNTIL(right.frames == 1);
	hk_worker_mcast_close(end[B].w, &right.m);
	CHECK_EQ(hk_worker_mcast(end[A].w, &TO, 0, from, EACH, EACH), 1);
	hk_worker_announce(end[A].w);
	UNTIL(count(B)->mcast_no_listener == 3);
	CHECK_EQ(right.frames, 1);
	for (unsigned i = 0; i < HK_ARRAY_LEN(l); i++) {
		CHECK_EQ(l[i].frames, 0);
		hk_worker_mcast_close(end[B].w, &l[i].m);
	}
}

TEST(what_has_no_listener_reaches_nobody)
{
	once("", to_nobody);
}

/* The progress thread takes pieces in while the application does not poll. */
static void while_not_polling(void)
{
	MAPPED(from, 1);
	MAPPED(to, 2);
	struct listener l = listener(to);
	const struct timespec moment = {.tv_nsec = 100000};

	hk_worker_mcast_open(end[B].w, &l.m);
	CHECK_OK(hk_worker_progress_thread_start(end[B].w, 200, 100, ERR));
	for (uint32_t sent = 0; sent < PIECES; nanosleep(&moment, NULL)) {
		size_t at = (size_t)sent * EACH, len = (size_t)PIECES * EACH - EACH / 2;

		sent += hk_worker_mcast(end[A].w, &TO, sent, from + at, len - at, EACH);
		hk_worker_progress(end[A].w);
	}
	for (unsigned i = 0; i < 100000 && __atomic_load_n(&l.frames, __ATOMIC_ACQUIRE) < PIECES;
	     i++) {
		hk_worker_progress(end[A].w);
		nanosleep(&moment, NULL);
	}
	hk_worker_mcast_close(end[B].w, &l.m);
	CHECK_EQ(l.frames, PIECES);
	CHECK(memcmp(from, to, (size_t)PIECES * EACH - EACH / 2) == 0);
}

TEST(progress_thread_takes_pieces_in)
{
	once("", while_not_polling);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/test_mcast.c: multicasts reach who listens for them, and nobody else.
 *
 * A memif has one receiver; that switches make several of one frame, tests/integration shows.
 */
#include "fabric/mcast.h"
#include "tests/unit/fabric/pair.h"

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

static const struct hk_mcast_to TO = {.tag = UINT64_C(0x674804000000), .channel = 7, .number = 9};

static struct listener listener(char *to)
{
	return (struct listener){.m = {.channel = TO.channel,
				       .number = TO.number,
				       .endpoint = A + 1,
				       .epoch = 100,
				       .fn = piece_in},
				 .to = to};
}

static const struct hk_fabric_counters *count(int which)
{
	return hk_fabric_counters(end[which].f);
}

/* Sends all pieces from A, as far as there is room and then the rest. */
static void send_all(const char *from)
{
	size_t len = (size_t)PIECES * EACH - EACH / 2;

	for (uint32_t sent = 0; sent < PIECES; progress()) {
		size_t at = (size_t)sent * EACH;
		uint32_t n = hk_fabric_mcast(end[A].f, &TO, sent, from + at, len - at, EACH);

		CHECK(n <= PIECES - sent);
		sent += n;
	}
	CHECK_EQ(count(A)->mcasts, PIECES);
}

static void what_comes_is_what_was_sent(void)
{
	char *from = memory(1), *to = memory(2);
	struct listener l = listener(to);
	unsigned there = 0;

	hk_fabric_mcast_open(end[B].f, &l.m);
	send_all(from);
	message(A); /* comes after all of them, or is sent again: then most have come as well */
	UNTIL(end[B].messages == 1);
	if (!*faults)
		UNTIL(l.frames == PIECES);
	hk_fabric_mcast_close(end[B].f, &l.m);
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
	CHECK_EQ(count(B)->mcast_strays, 0);
	munmap(from, MEMORY);
	munmap(to, MEMORY);
}

static void test_pieces(void)
{
	each_way(what_comes_is_what_was_sent);
}

/* Another channel, transfer, sender or incarnation; and after the close. */
static void test_strays(void)
{
	char *from = memory(1), *to = memory(2);
	struct listener l[4];

	faults = "";
	open_both();
	for (unsigned i = 0; i < HK_ARRAY_LEN(l); i++)
		l[i] = listener(to);
	l[0].m.channel++;
	l[1].m.number++;
	l[2].m.endpoint++;
	l[3].m.epoch++;
	for (unsigned i = 0; i < HK_ARRAY_LEN(l); i++)
		hk_fabric_mcast_open(end[B].f, &l[i].m);
	CHECK_EQ(hk_fabric_mcast(end[A].f, &TO, 0, from, EACH, EACH), 1);
	UNTIL(count(B)->mcast_strays == 1);

	struct listener right = listener(to);

	hk_fabric_mcast_open(end[B].f, &right.m);
	CHECK_EQ(hk_fabric_mcast(end[A].f, &TO, 0, from, EACH, EACH), 1);
	UNTIL(right.frames == 1);
	hk_fabric_mcast_close(end[B].f, &right.m);
	CHECK_EQ(hk_fabric_mcast(end[A].f, &TO, 0, from, EACH, EACH), 1);
	hk_fabric_announce(end[A].f);
	UNTIL(count(B)->mcast_strays == 3);
	CHECK_EQ(right.frames, 1);
	for (unsigned i = 0; i < HK_ARRAY_LEN(l); i++) {
		CHECK_EQ(l[i].frames, 0);
		hk_fabric_mcast_close(end[B].f, &l[i].m);
	}
	close_both();
	munmap(from, MEMORY);
	munmap(to, MEMORY);
}

/* The helper thread takes pieces in while the application is elsewhere. */
static void test_helper(void)
{
	char *from = memory(1), *to = memory(2);
	struct listener l = listener(to);
	struct hk_error err = {""};
	const struct timespec moment = {.tv_nsec = 100000};

	faults = "";
	open_both();
	hk_fabric_mcast_open(end[B].f, &l.m);
	CHECK_MSG(hk_fabric_async_start(end[B].f, 200, 100, &err) == 0, "%s", err.text);
	for (uint32_t sent = 0; sent < PIECES; nanosleep(&moment, NULL)) {
		size_t at = (size_t)sent * EACH, len = (size_t)PIECES * EACH - EACH / 2;

		sent += hk_fabric_mcast(end[A].f, &TO, sent, from + at, len - at, EACH);
		hk_fabric_progress(end[A].f);
	}
	for (unsigned i = 0; i < 100000 && __atomic_load_n(&l.frames, __ATOMIC_ACQUIRE) < PIECES;
	     i++) {
		hk_fabric_progress(end[A].f);
		nanosleep(&moment, NULL);
	}
	hk_fabric_mcast_close(end[B].f, &l.m);
	CHECK_EQ(l.frames, PIECES);
	CHECK(memcmp(from, to, (size_t)PIECES * EACH - EACH / 2) == 0);
	close_both();
	munmap(from, MEMORY);
	munmap(to, MEMORY);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"pieces", test_pieces},
		{"strays", test_strays},
		{"helper", test_helper},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

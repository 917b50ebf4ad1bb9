/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/test_rma.c: puts and gets between two fabrics of one process, over a real memif.
 *
 * Each test runs with source memory lent to the driver and with copies, each over a good and over a lossy wire (pair.h).
 */
#include "tests/unit/fabric/pair.h"

static const size_t sizes[] = {1, 7, 511, 512, 9000, 9121, 9122, 9123, 9216, 100000, 3000001};

/* ---- tests --------------------------------------------------------------------------------------- */

static void put_arrives_before_the_message_that_follows(void)
{
	char *from = memory(1), *to = memory(2);

	for (size_t i = 0; i < HK_ARRAY_LEN(sizes); i++) {
		size_t len = sizes[i], at = hk_rng_below(&hk_test_rng, MEMORY - len);
		hk_region r = hk_fabric_region_add(end[B].f, to, MEMORY, HK_REGION_WRITE,
						   end[B].peer);
		unsigned before = end[B].messages;
		struct hk_op op;
		int status = 0;
		char left = at ? to[at - 1] : 0, right = at + len < MEMORY ? to[at + len] : 0;

		CHECK(r != HK_REGION_NONE);
		CHECK_EQ(hk_fabric_put(end[A].f, end[A].peer, &op, from + at, len, r, at, done,
				       &status),
			 0);
		message(A);
		UNTIL(end[B].messages > before);
		CHECK_MSG(memcmp(to + at, from + at, len) == 0, "%zu bytes at %zu", len, at);
		CHECK(at == 0 || to[at - 1] == left);
		CHECK(at + len == MEMORY || to[at + len] == right);
		CHECK_EQ(hk_fabric_region_arrived(end[B].f, r), len);
		UNTIL(status);
		CHECK_EQ(status, 1);
		hk_fabric_region_del(end[B].f, r);
	}
	munmap(from, MEMORY);
	munmap(to, MEMORY);
}

static void get_brings_what_lies_there(void)
{
	char *from = memory(3), *to = memory(4);
	hk_region r = hk_fabric_region_add(end[B].f, from, MEMORY, HK_REGION_READ, HK_PEER_NONE);

	for (size_t i = 0; i < HK_ARRAY_LEN(sizes); i++) {
		size_t len = sizes[i], at = hk_rng_below(&hk_test_rng, MEMORY - len);
		struct hk_op op;
		int status = 0;

		CHECK_EQ(hk_fabric_get(end[A].f, end[A].peer, &op, to + at, len, r, at, done,
				       &status),
			 0);
		UNTIL(status);
		CHECK_EQ(status, 1);
		CHECK_MSG(memcmp(to + at, from + at, len) == 0, "%zu bytes at %zu", len, at);
	}
	hk_fabric_region_del(end[B].f, r);
	munmap(from, MEMORY);
	munmap(to, MEMORY);
}

/* More gets than may be under way, puts and messages, both ways at once. */
static void many_at_once(void)
{
	enum { N = 300 };
	static struct hk_op op[2][N];
	static int status[2][N];
	static hk_region r[2];
	char *mine[2] = {memory(5), memory(6)}, *to[2] = {memory(7), memory(8)};
	size_t piece = MEMORY / N;
	unsigned sent[2] = {0};

	memset(status, 0, sizeof(status));
	for (int e = 0; e < 2; e++)
		r[e] = hk_fabric_region_add(end[e].f, mine[e], MEMORY, HK_REGION_READ, end[e].peer);
	for (unsigned i = 0; i < N; i++)
		for (int e = 0; e < 2; e++) {
			size_t len = hk_rng_range(&hk_test_rng, 1, piece);

			CHECK_EQ(hk_fabric_get(end[e].f, end[e].peer, &op[e][i], to[e] + i * piece,
					       len, r[!e], i * piece, done, &status[e][i]),
				 0);
			if (i % 3 == 0 && !hk_fabric_low(end[e].f)) {
				message(e);
				sent[e]++;
			}
			if (i % 16 == 0)
				progress();
		}
	for (unsigned i = 0; i < N; i++)
		for (int e = 0; e < 2; e++) {
			UNTIL(status[e][i]);
			CHECK_EQ(status[e][i], 1);
			CHECK(memcmp(to[e] + i * piece, mine[!e] + i * piece, op[e][i].len) == 0);
		}
	UNTIL(end[A].messages == sent[B] && end[B].messages == sent[A]);
	for (int e = 0; e < 2; e++) {
		CHECK_EQ(hk_fabric_counters(end[e].f)->gets_served, N);
		hk_fabric_region_del(end[e].f, r[e]);
		munmap(mine[e], MEMORY);
		munmap(to[e], MEMORY);
	}
}

/* A frame that brings no message is something nevertheless: who is said to have nothing to do gives its core away. */
static void what_is_no_message_counts(void)
{
	char *from = memory(11), *to = memory(12);
	hk_region r = hk_fabric_region_add(end[B].f, to, MEMORY, HK_REGION_WRITE, end[B].peer);
	uint64_t before = hk_fabric_counters(end[B].f)->am_delivered;
	unsigned came = 0;
	struct hk_op op;
	int status = 0;

	CHECK_EQ(hk_fabric_put(end[A].f, end[A].peer, &op, from, 9000, r, 0, done, &status), 0);
	for (unsigned i = 0; i < ROUNDS && hk_fabric_region_arrived(end[B].f, r) == 0; i++) {
		hk_fabric_progress(end[A].f); /* the wire may be lossy */
		came = hk_fabric_progress(end[B].f);
	}
	CHECK(came > 0);
	CHECK_EQ(hk_fabric_counters(end[B].f)->am_delivered, before);
	UNTIL(status);
	hk_fabric_region_del(end[B].f, r);
	munmap(from, MEMORY);
	munmap(to, MEMORY);
}

static int get_status(hk_region r, uint64_t offset, size_t len, char *to)
{
	struct hk_op op;
	int status = 0;

	CHECK_EQ(hk_fabric_get(end[A].f, end[A].peer, &op, to, len, r, offset, done, &status), 0);
	UNTIL(status);
	return status;
}

static void refused(hk_region r, uint64_t offset, size_t len, char *from)
{
	uint64_t before = hk_fabric_counters(end[B].f)->put_refused;
	struct hk_op op;
	int status = 0;

	CHECK_EQ(hk_fabric_put(end[A].f, end[A].peer, &op, from, len, r, offset, done, &status), 0);
	UNTIL(status);
	CHECK(hk_fabric_counters(end[B].f)->put_refused > before);
}

static void what_is_not_allowed_is_refused(void)
{
	char *m = memory(9), *mine = memory(10), *copy = memory(9);
	struct hk_fabric *f = end[B].f;
	hk_region w = hk_fabric_region_add(f, m, 1000, HK_REGION_WRITE, end[B].peer),
		  r = hk_fabric_region_add(f, m, 1000, HK_REGION_READ, end[B].peer),
		  other = hk_fabric_region_add(f, m, 1000, HK_REGION_READ | HK_REGION_WRITE,
					       end[B].peer + 1),
		  gone = hk_fabric_region_add(f, m, 1000, HK_REGION_READ | HK_REGION_WRITE,
					      end[B].peer);

	hk_fabric_region_del(f, gone);
	hk_fabric_region_del(f, gone); /* a second time: nothing */
	CHECK_EQ(get_status(w, 0, 10, mine), -EACCES);
	CHECK_EQ(get_status(r, 991, 10, mine), -EACCES);
	CHECK_EQ(get_status(r, UINT64_MAX - 4, 10, mine), -EACCES);
	CHECK_EQ(get_status(other, 0, 10, mine), -EACCES);
	CHECK_EQ(get_status(gone, 0, 10, mine), -EACCES);
	CHECK_EQ(get_status(0, 0, 10, mine), -EACCES);
	CHECK_EQ(get_status(UINT32_MAX, 0, 10, mine), -EACCES);
	CHECK_EQ(get_status(r, 0, 1000, mine), 1);
	refused(r, 0, 10, mine);
	refused(w, 991, 10, mine);
	refused(w, UINT64_MAX - 4, 10, mine);
	refused(w, 0, 20000, mine);
	refused(other, 0, 10, mine);
	refused(gone, 0, 10, mine);
	CHECK_EQ(hk_fabric_region_arrived(f, gone), 0);
	/* of the put that was too long the frames that fit have come: nothing behind them has */
	CHECK(memcmp(m + 1000, copy + 1000, MEMORY - 1000) == 0);
	hk_fabric_region_del(f, w);
	hk_fabric_region_del(f, r);
	hk_fabric_region_del(f, other);
	munmap(m, MEMORY);
	munmap(mine, MEMORY);
	munmap(copy, MEMORY);
}

/* The owner takes its memory away while it is read: the reader is told, and nothing touches it. */
static void memory_is_taken_away_under_a_get(void)
{
	char *to = memory(11), *copy = memory(12);

	for (int rounds = 0; rounds < 40; rounds++) {
		char *from = memory(12);
		hk_region r = hk_fabric_region_add(end[B].f, from, MEMORY, HK_REGION_READ,
						   HK_PEER_NONE);
		struct hk_op op;
		int status = 0;

		CHECK_EQ(hk_fabric_get(end[A].f, end[A].peer, &op, to, MEMORY, r, 0, done, &status),
			 0);
		for (uint64_t i = hk_rng_below(&hk_test_rng, 30); i > 0 && !status; i--)
			progress();
		hk_fabric_region_del(end[B].f, r);
		munmap(from, MEMORY);
		UNTIL(status);
		CHECK_MSG(status == -EACCES || (status == 1 && memcmp(to, copy, MEMORY) == 0),
			  "status %d", status);
		UNTIL(hk_engine_unacked(hk_fabric_engine(end[B].f), HK_PEER_NONE) == 0);
	}
	munmap(copy, MEMORY);
	munmap(to, MEMORY);
}

/* The table of regions is full: said at once, and good again when one is gone. Gets go on. */
static void regions_run_out(void)
{
	enum { GETS = 3000 }; /* more than the table has */
	static hk_region r[1025];
	static struct hk_op op[GETS];
	static int status[GETS];
	static char to[GETS];
	char byte = 1;
	unsigned n = 0;

	memset(status, 0, sizeof(status));
	memset(to, 0, sizeof(to));
	hk_region theirs = hk_fabric_region_add(end[A].f, &byte, 1, HK_REGION_READ, HK_PEER_NONE);

	while ((r[n] = hk_fabric_region_add(end[B].f, &byte, 1, HK_REGION_READ, HK_PEER_NONE)))
		n++;
	CHECK_EQ(n, 1024);
	for (unsigned i = 0; i < GETS; i++)
		CHECK_EQ(hk_fabric_get(end[B].f, end[B].peer, &op[i], &to[i], 1, theirs, 0, done,
				       &status[i]),
			 0);
	for (unsigned i = 0; i < GETS; i++) {
		UNTIL(status[i]);
		CHECK_EQ(status[i], 1);
		CHECK_EQ(to[i], 1);
	}
	CHECK(!hk_fabric_region_add(end[B].f, &byte, 1, HK_REGION_READ, HK_PEER_NONE));
	while (n)
		hk_fabric_region_del(end[B].f, r[--n]);
	CHECK(hk_fabric_region_add(end[B].f, &byte, 1, HK_REGION_READ, HK_PEER_NONE));
}

static void with_a_peer_that_is_lost_operations_end(void)
{
	enum { N = 100 };
	static struct hk_op op[2 * N];
	static int status[2 * N];
	char *m = memory(13);

	memset(status, 0, sizeof(status));
	for (unsigned i = 0; i < N; i++) {
		CHECK_EQ(hk_fabric_get(end[A].f, end[A].peer, &op[i], m, 1000, 1 << 16, 0, done,
				       &status[i]),
			 0);
		CHECK_EQ(hk_fabric_put(end[A].f, end[A].peer, &op[N + i], m, MEMORY, 1 << 16, 0,
				       done, &status[N + i]),
			 0);
	}
	for (unsigned i = 0; !end[A].lost; i++) {
		hk_fabric_progress(end[A].f); /* B is not driven any more */
		CHECK(i < UINT32_MAX);
	}
	for (unsigned i = 0; i < 2 * N; i++) {
		for (unsigned k = 0; !status[i]; k++) {
			hk_fabric_progress(end[A].f);
			CHECK(k < ROUNDS);
		}
		CHECK_EQ(status[i], -ENOTCONN);
	}
	CHECK_EQ(hk_fabric_put(end[A].f, end[A].peer, &op[0], m, 1, 1, 0, done, &status[0]),
		 -ENOTCONN);
	CHECK_EQ(hk_fabric_get(end[A].f, end[A].peer, &op[0], m, 1, 1, 0, done, &status[0]),
		 -ENOTCONN);
	munmap(m, MEMORY);
}

/* Messages that wait behind a put hold all buffers: it must go all the same, or nothing ever does. */
static void put_goes_although_buffers_are_low(void)
{
	char *from = memory(14), *to = memory(15);
	hk_region r = hk_fabric_region_add(end[B].f, to, MEMORY, HK_REGION_WRITE, end[B].peer);
	struct hk_op op;
	int status = 0;
	unsigned n = 0;

	CHECK_EQ(hk_fabric_put(end[A].f, end[A].peer, &op, from, 3000001, r, 0, done, &status), 0);
	for (hk_buf *b; (b = hk_fabric_alloc(end[A].f)); n++)
		CHECK(hk_fabric_send(end[A].f, end[A].peer, AM, b, 0) >= 0);
	UNTIL(status && end[B].messages == n);
	CHECK_EQ(status, 1);
	CHECK(memcmp(from, to, 3000001) == 0);
	munmap(from, MEMORY);
	munmap(to, MEMORY);
}

static void refuse_as_busy(hk_region region)
{
	hk_buf *b = hk_fabric_alloc(end[B].f);

	CHECK(b != NULL);
	hk_wire_put_get(hk_buf_data(b), &(struct hk_wire_get){.status = HK_WIRE_GET_BUSY,
							      .len = 4096,
							      .to_region = region});
	CHECK(hk_fabric_send(end[B].f, end[B].peer, HK_WIRE_AM_GET, b, HK_WIRE_GET_LEN) >= 0);
}

/* An owner that says it is busy, twice, and writes all the same: the get is asked again, and its
 * operation is told once and not used afterwards. */
static void owner_that_contradicts_itself(void)
{
	static char from[4096], to[4096];
	hk_region r = hk_fabric_region_add(end[B].f, from, 4096, HK_REGION_READ, HK_PEER_NONE);
	struct hk_op op, put, clean = {.status = 77};
	int status = 0, put_status = 0, second = 0;

	memset(from, 1, sizeof(from));
	CHECK_EQ(hk_fabric_get(end[A].f, end[A].peer, &op, to, 4096, r, 0, done, &status), 0);
	hk_region local = op.local;

	refuse_as_busy(local);
	refuse_as_busy(local);
	CHECK_EQ(
		hk_fabric_put(end[B].f, end[B].peer, &put, from, 4096, local, 0, done, &put_status),
		0);
	UNTIL(status && put_status);
	CHECK_EQ(status, 1);
	op = clean; /* the application's again */
	CHECK_EQ(hk_fabric_get(end[A].f, end[A].peer, &put, to, 4096, r, 0, done, &second), 0);
	UNTIL(second);
	CHECK_EQ(second, 1);
	CHECK(memcmp(&op, &clean, sizeof(op)) == 0 && memcmp(to, from, sizeof(to)) == 0);
	hk_fabric_region_del(end[B].f, r);
}

/* The owner acknowledges the question and leaves in good order: somebody must say so. */
static void owner_that_leaves_is_a_verdict(void)
{
	static char to[64];
	struct hk_op op;
	int status = 0;

	hk_fabric_set_am(end[B].f, HK_WIRE_AM_GET, NULL, NULL); /* never answers */
	CHECK_EQ(hk_fabric_get(end[A].f, end[A].peer, &op, to, 64, 1 << 16, 0, done, &status), 0);
	UNTIL(hk_engine_unacked(hk_fabric_engine(end[A].f), HK_PEER_NONE) == 0);
	hk_engine_bye((struct hk_engine *)(uintptr_t)hk_fabric_engine(end[B].f));
	UNTIL(status && end[A].lost);
	CHECK_EQ(status, -ENOTCONN);
	CHECK_EQ(end[A].lost, 1);
}

/* ---- a stand-in that does not have the source ---------------------------------------------------- */

#define PIECE 100000u

/* Drives A by a stand-in, in whose process the source at @from is not, and B until @cond. */
#define SERVE_UNTIL(from, cond)                                                                    \
	do {                                                                                       \
		int rounds_ = 0;                                                                   \
		CHECK(mprotect(from, MEMORY, PROT_NONE) == 0);                                     \
		while (!(cond)) {                                                                  \
			(void)hk_fabric_serve(end[A].f, rte_rdtsc());                              \
			hk_fabric_progress(end[B].f);                                              \
			CHECK_MSG(rounds_++ < ROUNDS, "waited in vain for: " #cond);               \
		}                                                                                  \
		CHECK(mprotect(from, MEMORY, PROT_READ | PROT_WRITE) == 0);                        \
	} while (0)

static const struct hk_engine_counters *engine_of(int which)
{
	return hk_engine_counters(hk_fabric_engine(end[which].f));
}

/* A puts @len bytes of @from to @to at B; its application stays away from then on. */
static hk_region put_and_leave(char *from, char *to, size_t len, struct hk_op *op, int *status)
{
	struct hk_error err = {""};
	hk_region r = hk_fabric_region_add(end[B].f, to, MEMORY, HK_REGION_WRITE, end[B].peer);

	message(A); /* the wire has room only when its other end has looked */
	UNTIL(hk_engine_unacked(hk_fabric_engine(end[A].f), HK_PEER_NONE) == 0);
	CHECK_MSG(hk_fabric_share(end[A].f, &err) == 0, "%s", err.text);
	CHECK_EQ(hk_fabric_put(end[A].f, end[A].peer, op, from, len, r, 0, done, status), 0);
	return r;
}

/* The ring is full, and frames wait in A's queue before it: a stand-in sends them, from A's own memory. */
static void stand_in_empties_the_queue(void)
{
	char *from = memory(20), *to = memory(21);
	struct hk_op op;
	int status = 0;
	hk_region r = put_and_leave(from, to, PIECE, &op, &status);
	uint64_t sent = op.sent;

	CHECK_MSG(end[A].port->tx_frames < engine_of(A)->tx_packets,
		  "no frame waits for the ring: %lu of %lu were sent", end[A].port->tx_frames,
		  engine_of(A)->tx_packets);
	SERVE_UNTIL(from, hk_fabric_region_arrived(end[B].f, r) == sent);
	CHECK_EQ(op.sent, sent); /* the rest of the put is the application's */
	UNTIL(status);
	CHECK_EQ(status, 1);
	CHECK(memcmp(from, to, PIECE) == 0);
	hk_fabric_region_del(end[B].f, r);
	munmap(from, MEMORY);
	munmap(to, MEMORY);
}

/* All frames are lost: a stand-in lets them be, and asks B for a sign of life. A sends them again when it is
 * back. */
static void stand_in_resends_nothing_lent(void)
{
	char *from = memory(22), *to = memory(23);
	unsigned stolen = 0;
	struct rte_mbuf *m;
	struct hk_op op;
	int status = 0;
	hk_region r = put_and_leave(from, to, PIECE, &op, &status);

	while (hk_port_rx(end[B].port, 0, &m, 1)) {
		rte_pktmbuf_free(m);
		stolen++;
	}
	CHECK_CMP(stolen, >=, PIECE / 9216);
	SERVE_UNTIL(from, engine_of(A)->tx_probes >= 5 && engine_of(B)->tx_acks >= 5);
	CHECK_EQ(engine_of(A)->tx_resends, 0);
	CHECK_EQ(hk_fabric_region_arrived(end[B].f, r), 0);
	CHECK(!status && !end[A].lost);
	UNTIL(status);
	CHECK_EQ(status, 1);
	CHECK_CMP(engine_of(A)->tx_resends, >=, stolen);
	CHECK(memcmp(from, to, PIECE) == 0);
	hk_fabric_region_del(end[B].f, r);
	munmap(from, MEMORY);
	munmap(to, MEMORY);
}

/* ---- the ways of sending ------------------------------------------------------------------------- */

static void test_put(void)
{
	each_way(put_arrives_before_the_message_that_follows);
}

static void test_get(void)
{
	each_way(get_brings_what_lies_there);
}

static void test_many(void)
{
	each_way(many_at_once);
}

static void test_counts(void)
{
	each_way(what_is_no_message_counts);
}

static void test_refused(void)
{
	each_way(what_is_not_allowed_is_refused);
}

static void test_taken_away(void)
{
	each_way(memory_is_taken_away_under_a_get);
}

static void test_full(void)
{
	each_way(regions_run_out);
}

static void test_low(void)
{
	each_way(put_goes_although_buffers_are_low);
}

static void test_busy(void)
{
	each_way(owner_that_contradicts_itself);
}

static void test_leaves(void)
{
	each_way(owner_that_leaves_is_a_verdict);
}

static void test_stand_in(void)
{
	faults = ",ring=8";
	crc = false;
	open_both();
	stand_in_empties_the_queue();
	close_both();
	faults = "";
	open_both();
	stand_in_resends_nothing_lent();
	close_both();
}

static void test_lost(void)
{
	peer_timeout = 300 * HK_MSEC;
	each_way(with_a_peer_that_is_lost_operations_end);
	peer_timeout = 0;
}

/* Gets and puts, their resends and their acks take the port for bulk, and all else the other. */
static void bulk_has_a_port_of_its_own(void)
{
	char *from = memory(16), *to = memory(17);
	hk_region r = hk_fabric_region_add(end[B].f, to, MEMORY, HK_REGION_WRITE, end[B].peer);
	unsigned frames = (unsigned)(MEMORY / hk_fabric_frame_payload(end[A].f));
	struct hk_op op;
	int status = 0;

	message(A);
	UNTIL(end[B].messages == 1);
	CHECK_EQ(end[A].bulk->tx_frames, 0);
	UNTIL(hk_engine_unacked(hk_fabric_engine(end[A].f), HK_PEER_NONE) == 0);
	uint64_t sent = end[A].port->tx_frames, answered = end[B].port->tx_frames;

	CHECK_EQ(hk_fabric_put(end[A].f, end[A].peer, &op, from, MEMORY, r, 0, done, &status), 0);
	UNTIL(status);
	CHECK_EQ(status, 1);
	CHECK(memcmp(from, to, MEMORY) == 0);
	CHECK(end[A].bulk->tx_frames >= frames && end[B].bulk->tx_frames > 0);
	CHECK_EQ(end[A].port->tx_frames, sent);
	CHECK_EQ(end[B].port->tx_frames, answered);
	CHECK(hk_fabric_counters(end[A].f)->tx_bulk >= frames);
	CHECK_EQ(hk_fabric_counters(end[B].f)->tx_bulk, 0);
	hk_fabric_region_del(end[B].f, r);
	r = hk_fabric_region_add(end[B].f, to, MEMORY, HK_REGION_READ, end[B].peer);
	memset(from, 0, MEMORY);
	CHECK_EQ(get_status(r, 0, MEMORY, from), 1);
	CHECK(memcmp(from, to, MEMORY) == 0);
	CHECK_EQ(get_status(r, 1, MEMORY, from), -EACCES); /* one byte too far */
	UNTIL(hk_engine_unacked(hk_fabric_engine(end[B].f), HK_PEER_NONE) == 0);
	CHECK_EQ(end[A].port->tx_frames, sent);
	CHECK_EQ(end[B].port->tx_frames, answered);
	message(B); /* the newest that B sees from A after this comes by the first port again */
	message(A);
	UNTIL(end[B].messages == 2 && end[A].messages == 1);
	CHECK(end[A].port->tx_frames > sent && end[B].port->tx_frames > answered);
	hk_fabric_region_del(end[B].f, r);
	munmap(from, MEMORY);
	munmap(to, MEMORY);
}

/* Messages by both ports, and puts between them, as one row. The handler looks at the numbers. */
static void two_ports_keep_order(void)
{
	enum { N = 3000, PUTS = 30 };
	static struct hk_op op[PUTS];
	static int status[PUTS];
	char *from = memory(18), *to = memory(19);
	hk_region r = hk_fabric_region_add(end[B].f, to, MEMORY, HK_REGION_WRITE, end[B].peer);

	memset(status, 0, sizeof(status));
	for (uint64_t i = 1; i <= N; i++) {
		hk_buf *b;
		size_t len = sizeof(i);

		while (!(b = hk_fabric_alloc(end[A].f)))
			progress();
		memcpy(hk_buf_data(b), &i, len);
		bool bulk = hk_rng_below(&hk_test_rng, 2);

		CHECK((bulk ? hk_fabric_sendv_bulk : hk_fabric_sendv)(end[A].f, end[A].peer, AM, &b,
								      &len, 1) >= 0);
		if (i % (N / PUTS) == 0) {
			unsigned k = (unsigned)(i / (N / PUTS)) - 1;

			CHECK_EQ(hk_fabric_put(end[A].f, end[A].peer, &op[k], from + k * 100000,
					       100000, r, k * 100000, done, &status[k]),
				 0);
		}
		if (i % 8 == 0)
			progress();
	}
	UNTIL(end[B].last == N);
	for (unsigned k = 0; k < PUTS; k++)
		UNTIL(status[k]);
	CHECK(memcmp(from, to, PUTS * 100000) == 0);
	CHECK_EQ(end[B].messages, N);
	hk_fabric_region_del(end[B].f, r);
	munmap(from, MEMORY);
	munmap(to, MEMORY);
}

static void test_two_ports(void)
{
	each_way_by_two_ports(bulk_has_a_port_of_its_own);
}

static void test_two_ports_keep_order(void)
{
	each_way_by_two_ports(two_ports_keep_order);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"put", test_put},
		{"get", test_get},
		{"many", test_many},
		{"counts", test_counts},
		{"refused", test_refused},
		{"taken_away", test_taken_away},
		{"full", test_full},
		{"low", test_low},
		{"busy", test_busy},
		{"leaves", test_leaves},
		{"lost", test_lost},
		{"stand_in", test_stand_in},
		{"two_ports", test_two_ports},
		{"two_ports_keep_order", test_two_ports_keep_order},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

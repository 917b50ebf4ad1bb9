/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_rma.c: puts and gets between two workers of one process, over a real
 * memif. Each test runs with zero-copy puts and with copies, each over a good and over a lossy wire
 * (tests/support/pair.h).
 */
#include "worker/private.h"
#include "worker/rma_internal.h"
#include "tests/support/pair.h"

static const size_t sizes[] = {1, 7, 511, 512, 9000, 9121, 9122, 9123, 9216, 100000, 3000001};

/* ---- tests ----------------------------------------------------------------------------------- */

EACH_WAY(put_arrives_before_the_message_that_follows)
{
	MAPPED(from, 1);
	MAPPED(to, 2);

	for (size_t i = 0; i < HK_ARRAY_LEN(sizes); i++) {
		size_t len = sizes[i], at = hk_rng_below(&hk_test_rng, MEMORY - len);
		hk_region r = hk_worker_region_add(end[B].w, to, MEMORY, HK_REGION_WRITE,
						   end[B].peer);
		unsigned before = end[B].messages;
		struct xfer x;
		char left = at ? to[at - 1] : 0, right = at + len < MEMORY ? to[at + len] : 0;

		CHECK(r != HK_REGION_NONE);
		put_start(&x, A, from + at, len, r, at);
		message(A);
		UNTIL(end[B].messages > before);
		CHECK_MSG(memcmp(to + at, from + at, len) == 0, "%zu bytes at %zu", len, at);
		CHECK(at == 0 || to[at - 1] == left);
		CHECK(at + len == MEMORY || to[at + len] == right);
		CHECK_EQ(hk_worker_region_arrived(end[B].w, r), len);
		CHECK_EQ(finish(&x), 1);
		hk_worker_region_del(end[B].w, r);
	}
}

EACH_WAY(get_brings_what_lies_there)
{
	MAPPED(from, 3);
	MAPPED(to, 4);
	hk_region r = hk_worker_region_add(end[B].w, from, MEMORY, HK_REGION_READ, HK_PEER_NONE);

	for (size_t i = 0; i < HK_ARRAY_LEN(sizes); i++) {
		size_t len = sizes[i], at = hk_rng_below(&hk_test_rng, MEMORY - len);

		CHECK_EQ(get(A, to + at, len, r, at), 1);
		CHECK_MSG(memcmp(to + at, from + at, len) == 0, "%zu bytes at %zu", len, at);
	}
	hk_worker_region_del(end[B].w, r);
}

/* B serves a long get. A message that it sends meanwhile does not wait for the end of that. */
EACH_WAY(messages_pass_a_reply)
{
	MAPPED(from, 3);
	MAPPED(to, 4);
	hk_region r = hk_worker_region_add(end[B].w, from, MEMORY, HK_REGION_READ, HK_PEER_NONE);
	uint64_t served = hk_worker_counters(end[B].w)->gets_served;
	unsigned before = end[A].messages;
	struct xfer x;

	get_start(&x, A, to, MEMORY, r, 0);
	UNTIL(hk_worker_counters(end[B].w)->gets_served > served);
	message(B);
	UNTIL(end[A].messages > before);
	if (!*faults) /* a lost message may come later */
		CHECK_EQ(x.status, 0);
	CHECK_EQ(finish(&x), 1);
	CHECK(memcmp(to, from, MEMORY) == 0);
	hk_worker_region_del(end[B].w, r);
}

/* A peer that puts without an end does not keep ours from what we get from it. */
EACH_WAY(a_reply_passes_puts)
{
	enum { PUTS = 4 };
	MAPPED(from, 5);
	MAPPED(to, 6);
	MAPPED(into, 7);
	hk_region r = hk_worker_region_add(end[B].w, from, MEMORY, HK_REGION_READ, HK_PEER_NONE),
		  s = hk_worker_region_add(end[A].w, into, MEMORY, HK_REGION_WRITE, HK_PEER_NONE);
	struct xfer put[PUTS], x;

	for (unsigned i = 0; i < PUTS; i++)
		put_start(&put[i], B, from, MEMORY, s, 0);
	get_start(&x, A, to, MEMORY / 4, r, 0);
	CHECK_EQ(finish(&x), 1);
	CHECK_EQ(put[PUTS - 1].status, 0);
	for (unsigned i = 0; i < PUTS; i++)
		CHECK_EQ(finish(&put[i]), 1);
	hk_worker_region_del(end[B].w, r);
	hk_worker_region_del(end[A].w, s);
}

/* A put and a reply have about the same part of a window that is short. */
static void share_the_window(void)
{
	enum { LEN = 1 << 20 };
	MAPPED(from, 5);
	MAPPED(to, 6);
	MAPPED(into, 7);
	hk_region r = hk_worker_region_add(end[B].w, from, MEMORY, HK_REGION_READ, HK_PEER_NONE),
		  s = hk_worker_region_add(end[A].w, into, MEMORY, HK_REGION_WRITE, HK_PEER_NONE);
	struct xfer put, got;

	put_start(&put, B, from, LEN, s, 0);
	get_start(&got, A, to, LEN, r, 0);
	UNTIL(put.status || got.status ||
	      hk_worker_region_arrived(end[A].w, got.op.local) >= LEN / 2);
	CHECK(!put.status && !got.status);
	CHECK_CMP(hk_worker_region_arrived(end[A].w, s), >=, LEN / 4);
	CHECK(finish(&put) == 1 && finish(&got) == 1);
	hk_worker_region_del(end[B].w, r);
	hk_worker_region_del(end[A].w, s);
}

TEST(a_short_window_is_shared)
{
	for (window = 8; window <= 16; window *= 2)
		each_way(share_the_window);
	window = 0;
}

/* A region ends while its owner serves as many gets of it as may be in flight. The peer hears of
 * that, and asks for as many others. There must be room for them at once. */
EACH_WAY(refused_gets_make_room_for_others)
{
	enum { N = 100 };
	static struct xfer x[N];
	MAPPED(from, 5);
	MAPPED(to, 6);
	hk_region r = hk_worker_region_add(end[B].w, from, MEMORY, HK_REGION_READ, HK_PEER_NONE);
	const struct hk_peer_rma *rma = &end[B].w->peer[end[B].peer].rma;
	uint64_t served = hk_worker_counters(end[B].w)->gets_served;

	for (unsigned i = 0; i < N; i++)
		get_start(&x[i], A, to, MEMORY, r, 0);
	UNTIL(hk_worker_counters(end[B].w)->gets_served >= served + HK_GETS_MAX);
	CHECK_CMP(rma->get_replies_unsent, >, 0);
	hk_worker_region_del(end[B].w, r);
	CHECK_EQ(rma->get_replies_unsent, 0);
	for (unsigned i = 0; i < N; i++)
		finish(&x[i]);
	CHECK_EQ(x[N - 1].status, -EACCES);
	CHECK_EQ(hk_worker_counters(end[B].w)->get_excess, 0);
}

static struct both_ways {
	struct xfer x;
	hk_region remote;
	char *to;
} both_ways;

static void get_as_well(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned n)
{
	(void)arg, (void)peer, (void)am, (void)iov, (void)n;
	get_start(&both_ways.x, B, both_ways.to, MEMORY, both_ways.remote, 0);
}

/* A gets from B, and a message has B get from A. B's request leaves before the long reply does, so
 * that both directions of the wire are busy. */
EACH_WAY(a_request_leaves_before_a_reply)
{
	MAPPED(from, 8);
	MAPPED(to, 9);
	hk_region r = hk_worker_region_add(end[B].w, from, MEMORY, HK_REGION_READ, HK_PEER_NONE);
	uint64_t bytes;
	struct xfer x;

	both_ways.to = to;
	both_ways.remote = hk_worker_region_add(end[A].w, from, MEMORY, HK_REGION_READ,
						HK_PEER_NONE);
	hk_worker_set_am(end[B].w, AM + 1, get_as_well, NULL);
	get_start(&x, A, to, MEMORY, r, 0);
	hk_buf *b = hk_worker_alloc(end[A].w);

	CHECK(b && hk_worker_send(end[A].w, end[A].peer, AM + 1, b, 0) >= 0);
	do {
		CHECK_CMP(hk_worker_counters(end[A].w)->put_bytes, ==, 0);
		bytes = hk_worker_region_arrived(end[A].w, x.op.local);
		progress();
	} while (!hk_worker_counters(end[A].w)->gets_served);
	if (!*faults) /* the first frames of the reply came with the request, behind it */
		CHECK_EQ(bytes, 0);
	CHECK(finish(&x) == 1 && finish(&both_ways.x) == 1);
	CHECK(memcmp(to, from, MEMORY) == 0);
	hk_worker_region_del(end[B].w, r);
	hk_worker_region_del(end[A].w, both_ways.remote);
}

/* More gets than may be in flight, puts and messages, both ways at once. */
EACH_WAY(many_at_once)
{
	enum { N = 300 };
	static struct xfer x[2][N];
	static hk_region r[2];
	char *mine[2] = {memory(5), memory(6)}, *to[2] = {memory(7), memory(8)};
	size_t piece = MEMORY / N;
	unsigned sent[2] = {0};

	for (int e = 0; e < 2; e++)
		r[e] = hk_worker_region_add(end[e].w, mine[e], MEMORY, HK_REGION_READ, end[e].peer);
	for (unsigned i = 0; i < N; i++)
		for (int e = 0; e < 2; e++) {
			size_t len = hk_rng_range(&hk_test_rng, 1, piece);

			get_start(&x[e][i], e, to[e] + i * piece, len, r[!e], i * piece);
			if (i % 3 == 0 && !hk_worker_tx_low(end[e].w)) {
				message(e);
				sent[e]++;
			}
			if (i % 16 == 0)
				progress();
		}
	for (unsigned i = 0; i < N; i++)
		for (int e = 0; e < 2; e++) {
			CHECK_EQ(finish(&x[e][i]), 1);
			CHECK(memcmp(to[e] + i * piece, mine[!e] + i * piece, x[e][i].op.len) == 0);
		}
	UNTIL(end[A].messages == sent[B] && end[B].messages == sent[A]);
	for (int e = 0; e < 2; e++) {
		CHECK_EQ(hk_worker_counters(end[e].w)->gets_served, N);
		hk_worker_region_del(end[e].w, r[e]);
		munmap(mine[e], MEMORY);
		munmap(to[e], MEMORY);
	}
}

/* A frame without a message is progress nevertheless: a rank to which none is reported yields its
 * core. */
EACH_WAY(what_is_no_message_counts)
{
	MAPPED(from, 11);
	MAPPED(to, 12);
	hk_region r = hk_worker_region_add(end[B].w, to, MEMORY, HK_REGION_WRITE, end[B].peer);
	uint64_t before = hk_worker_counters(end[B].w)->messages_delivered;
	unsigned came = 0;
	struct xfer x;

	put_start(&x, A, from, 9000, r, 0);
	for (unsigned i = 0; i < ROUNDS && hk_worker_region_arrived(end[B].w, r) == 0; i++) {
		hk_worker_progress(end[A].w); /* the wire may be lossy */
		came = hk_worker_progress(end[B].w);
	}
	CHECK(came > 0);
	CHECK_EQ(hk_worker_counters(end[B].w)->messages_delivered, before);
	finish(&x);
	hk_worker_region_del(end[B].w, r);
}

static void refused(hk_region r, uint64_t offset, size_t len, char *from)
{
	uint64_t before = hk_worker_counters(end[B].w)->put_refused;

	put(A, from, len, r, offset);
	CHECK(hk_worker_counters(end[B].w)->put_refused > before);
}

EACH_WAY(what_is_not_allowed_is_refused)
{
	MAPPED(m, 9);
	MAPPED(mine, 10);
	MAPPED(copy, 9);
	struct hk_worker *w = end[B].w;
	struct hk_op none;
	hk_region writable = hk_worker_region_add(w, m, 1000, HK_REGION_WRITE, end[B].peer),
		  r = hk_worker_region_add(w, m, 1000, HK_REGION_READ, end[B].peer),
		  other = hk_worker_region_add(w, m, 1000, HK_REGION_READ | HK_REGION_WRITE,
					       end[B].peer + 1),
		  gone = hk_worker_region_add(w, m, 1000, HK_REGION_READ | HK_REGION_WRITE,
					      end[B].peer);

	hk_worker_region_del(w, gone);
	hk_worker_region_del(w, gone); /* a second time: nothing */
	CHECK_EQ(hk_worker_put(end[A].w, end[A].peer, &none, mine, 0, writable, 0, NULL, NULL),
		 -EINVAL);
	CHECK_EQ(hk_worker_get(end[A].w, end[A].peer, &none, mine, 0, r, 0, NULL, NULL), -EINVAL);
	CHECK_EQ(get(A, mine, 10, writable, 0), -EACCES);
	CHECK_EQ(get(A, mine, 10, r, 991), -EACCES);
	CHECK_EQ(get(A, mine, 10, r, UINT64_MAX - 4), -EACCES);
	CHECK_EQ(get(A, mine, 10, other, 0), -EACCES);
	CHECK_EQ(get(A, mine, 10, gone, 0), -EACCES);
	CHECK_EQ(get(A, mine, 10, 0, 0), -EACCES);
	CHECK_EQ(get(A, mine, 10, UINT32_MAX, 0), -EACCES);
	CHECK_EQ(get(A, mine, 1000, r, 0), 1);
	refused(r, 0, 10, mine);
	refused(writable, 991, 10, mine);
	refused(writable, UINT64_MAX - 4, 10, mine);
	refused(writable, 0, 20000, mine);
	refused(other, 0, 10, mine);
	refused(gone, 0, 10, mine);
	CHECK_EQ(hk_worker_region_arrived(w, gone), 0);
	/* the frames of the long put that fit have arrived, and nothing behind them */
	CHECK(memcmp(m + 1000, copy + 1000, MEMORY - 1000) == 0);
	hk_worker_region_del(w, writable);
	hk_worker_region_del(w, r);
	hk_worker_region_del(w, other);
}

/* The owner takes its memory away during a get: the reader is told, and nothing touches it. */
EACH_WAY(memory_is_taken_away_under_a_get)
{
	MAPPED(to, 11);
	MAPPED(copy, 12);

	for (int rounds = 0; rounds < 40; rounds++) {
		char *from = memory(12);
		hk_region r = hk_worker_region_add(end[B].w, from, MEMORY, HK_REGION_READ,
						   HK_PEER_NONE);
		struct xfer x;

		get_start(&x, A, to, MEMORY, r, 0);
		for (uint64_t i = hk_rng_below(&hk_test_rng, 30); i > 0 && !x.status; i--)
			progress();
		hk_worker_region_del(end[B].w, r);
		munmap(from, MEMORY);
		int status = finish(&x);

		CHECK_MSG(status == -EACCES || (status == 1 && memcmp(to, copy, MEMORY) == 0),
			  "status %d", status);
		UNTIL(hk_engine_unacked(hk_worker_engine(end[B].w), HK_PEER_NONE) == 0);
	}
}

/* The table of regions is full: that is reported at once, and ends when a region ends. Gets
 * proceed. */
EACH_WAY(regions_run_out)
{
	enum { GETS = 3000 }; /* more than the table has */
	static hk_region r[1025];
	static struct xfer x[GETS];
	static char to[GETS];
	char byte = 1;
	unsigned n = 0;

	memset(to, 0, sizeof(to));
	hk_region theirs = hk_worker_region_add(end[A].w, &byte, 1, HK_REGION_READ, HK_PEER_NONE);

	while ((r[n] = hk_worker_region_add(end[B].w, &byte, 1, HK_REGION_READ, HK_PEER_NONE)))
		n++;
	CHECK_EQ(n, 1024);
	for (unsigned i = 0; i < GETS; i++)
		get_start(&x[i], B, &to[i], 1, theirs, 0);
	for (unsigned i = 0; i < GETS; i++) {
		CHECK_EQ(finish(&x[i]), 1);
		CHECK_EQ(to[i], 1);
	}
	CHECK(!hk_worker_region_add(end[B].w, &byte, 1, HK_REGION_READ, HK_PEER_NONE));
	while (n)
		hk_worker_region_del(end[B].w, r[--n]);
	CHECK(hk_worker_region_add(end[B].w, &byte, 1, HK_REGION_READ, HK_PEER_NONE));
}

static void operations_to_a_silent_peer(void)
{
	enum { N = 100 };
	static struct xfer x[2 * N];
	MAPPED(m, 13);

	for (unsigned i = 0; i < N; i++) {
		get_start(&x[i], A, m, 1000, 1 << 16, 0);
		put_start(&x[N + i], A, m, MEMORY, 1 << 16, 0);
	}
	for (unsigned i = 0; !end[A].lost; i++) {
		hk_worker_progress(end[A].w); /* B does not poll any more */
		CHECK(i < UINT32_MAX);
	}
	for (unsigned i = 0; i < 2 * N; i++) {
		for (unsigned k = 0; !x[i].status; k++) {
			hk_worker_progress(end[A].w);
			CHECK(k < ROUNDS);
		}
		CHECK_EQ(x[i].status, -ENOTCONN);
	}
	CHECK_EQ(hk_worker_put(end[A].w, end[A].peer, &x[0].op, m, 1, 1, 0, done, &x[0].status),
		 -ENOTCONN);
	CHECK_EQ(hk_worker_get(end[A].w, end[A].peer, &x[0].op, m, 1, 1, 0, done, &x[0].status),
		 -ENOTCONN);
}

TEST(with_a_peer_that_is_lost_operations_end)
{
	peer_timeout = 300 * HK_MSEC;
	each_way(operations_to_a_silent_peer);
	peer_timeout = 0;
}

/* Messages that wait behind a put hold all buffers. The put must proceed all the same. */
EACH_WAY(put_goes_although_buffers_are_low)
{
	MAPPED(from, 14);
	MAPPED(to, 15);
	hk_region r = hk_worker_region_add(end[B].w, to, MEMORY, HK_REGION_WRITE, end[B].peer);
	struct xfer x;
	unsigned n = 0;

	put_start(&x, A, from, 3000001, r, 0);
	for (hk_buf *b; (b = hk_worker_alloc(end[A].w)); n++)
		CHECK(hk_worker_send(end[A].w, end[A].peer, AM, b, 0) >= 0);
	UNTIL(x.status && end[B].messages == n);
	CHECK_EQ(x.status, 1);
	CHECK(memcmp(from, to, 3000001) == 0);
}

static void refuse_as_busy(hk_region region)
{
	hk_buf *b = hk_worker_alloc(end[B].w);

	CHECK(b != NULL);
	hk_wire_get_encode(hk_buf_data(b), &(struct hk_wire_get){.status = HK_WIRE_GET_BUSY,
								 .len = 4096,
								 .to_region = region});
	CHECK(hk_worker_send(end[B].w, end[B].peer, HK_WIRE_AM_GET, b, HK_WIRE_GET_LEN) >= 0);
}

/* An owner says that it is busy, twice, and writes all the same. The get is requested again, and
 * completes once. Its memory is not used afterwards. */
EACH_WAY(owner_that_contradicts_itself)
{
	static char from[4096], to[4096];
	hk_region r = hk_worker_region_add(end[B].w, from, 4096, HK_REGION_READ, HK_PEER_NONE);
	struct xfer asked, written;
	struct hk_op clean = {.status = 77};

	memset(from, 1, sizeof(from));
	get_start(&asked, A, to, 4096, r, 0);
	hk_region local = asked.op.local;

	refuse_as_busy(local);
	refuse_as_busy(local);
	put_start(&written, B, from, 4096, local, 0);
	UNTIL(asked.status && written.status);
	CHECK_EQ(asked.status, 1);
	asked.op = clean; /* the application's again */
	CHECK_EQ(get(A, to, 4096, r, 0), 1);
	CHECK(memcmp(&asked.op, &clean, sizeof(clean)) == 0 && memcmp(to, from, sizeof(to)) == 0);
	hk_worker_region_del(end[B].w, r);
}

/* The owner acknowledges the request and leaves in good order: that must be reported. */
EACH_WAY(owner_that_leaves_is_a_disconnect)
{
	static char to[64];
	struct xfer x;

	hk_worker_set_am(end[B].w, HK_WIRE_AM_GET, NULL, NULL); /* never answers */
	get_start(&x, A, to, 64, 1 << 16, 0);
	UNTIL(hk_engine_unacked(hk_worker_engine(end[A].w), HK_PEER_NONE) == 0);
	hk_engine_bye((struct hk_engine *)(uintptr_t)hk_worker_engine(end[B].w));
	UNTIL(x.status && end[A].lost);
	CHECK_EQ(x.status, -ENOTCONN);
	CHECK_EQ(end[A].lost, 1);
}

/* ---- the poller that does not have the source ------------------------------------------------ */

#define PIECE 100000u

/* Drives A by the poller, in whose process the source at @from is not mapped, and B, until
 * @cond. */
#define SERVE_UNTIL(from, cond)                                                                    \
	do {                                                                                       \
		int rounds_ = 0;                                                                   \
		CHECK(mprotect(from, MEMORY, PROT_NONE) == 0);                                     \
		while (!(cond)) {                                                                  \
			(void)hk_worker_proxy_poll(end[A].w, rte_rdtsc());                         \
			hk_worker_progress(end[B].w);                                              \
			CHECK_MSG(rounds_++ < ROUNDS, "waited in vain for: " #cond);               \
		}                                                                                  \
		CHECK(mprotect(from, MEMORY, PROT_READ | PROT_WRITE) == 0);                        \
	} while (0)

static const struct hk_engine_counters *engine_of(int which)
{
	return hk_engine_counters(hk_worker_engine(end[which].w));
}

/* Puts @len bytes of @from to @to at B; the application of A does not poll from then on. */
static hk_region put_and_leave(struct xfer *x, char *from, char *to, size_t len)
{
	hk_region r = hk_worker_region_add(end[B].w, to, MEMORY, HK_REGION_WRITE, end[B].peer);

	message(A); /* the wire has space only when its other end has polled */
	UNTIL(hk_engine_unacked(hk_worker_engine(end[A].w), HK_PEER_NONE) == 0);
	CHECK_OK(hk_worker_share(end[A].w, ERR));
	put_start(x, A, from, len, r, 0);
	return r;
}

/* The ring is full, and frames wait in the transmit queue of A. The poller sends them, from
 * memory of the worker. */
static void poller_empties_the_queue(void)
{
	MAPPED(from, 20);
	MAPPED(to, 21);
	struct xfer x;
	hk_region r = put_and_leave(&x, from, to, PIECE);
	uint64_t sent = x.op.sent;

	CHECK_MSG(end[A].port->tx_frames < engine_of(A)->tx_packets,
		  "no frame waits for the ring: %lu of %lu were sent", end[A].port->tx_frames,
		  engine_of(A)->tx_packets);
	SERVE_UNTIL(from, hk_worker_region_arrived(end[B].w, r) == sent);
	CHECK_EQ(x.op.sent, sent); /* the rest of the put waits for the application */
	CHECK_EQ(finish(&x), 1);
	CHECK(memcmp(from, to, PIECE) == 0);
	hk_worker_region_del(end[B].w, r);
}

/* All frames are lost. The poller does not resend them, and asks B for a sign of life. A resends
 * them when it polls again. */
static void poller_resends_no_zero_copy_frame(void)
{
	MAPPED(from, 22);
	MAPPED(to, 23);
	unsigned stolen = 0;
	struct rte_mbuf *m;
	struct xfer x;
	hk_region r = put_and_leave(&x, from, to, PIECE);

	if (!end[A].port->info.tx_multi_seg) { /* memif of DPDK 24.11: there are no such frames */
		UNTIL(finish(&x) == 1);
		hk_worker_region_del(end[B].w, r);
		return;
	}
	while (hk_port_rx(end[B].port, 0, &m, 1)) {
		rte_pktmbuf_free(m);
		stolen++;
	}
	CHECK_CMP(stolen, >=, PIECE / 9216);
	SERVE_UNTIL(from, engine_of(A)->tx_probes >= 5 && engine_of(B)->tx_acks >= 5);
	CHECK_EQ(engine_of(A)->tx_resends, 0);
	CHECK_EQ(hk_worker_region_arrived(end[B].w, r), 0);
	CHECK(!x.status && !end[A].lost);
	CHECK_EQ(finish(&x), 1);
	CHECK_CMP(engine_of(A)->tx_resends, >=, stolen);
	CHECK(memcmp(from, to, PIECE) == 0);
	hk_worker_region_del(end[B].w, r);
}

TEST(poller_without_the_source)
{
	once(",ring=8", poller_empties_the_queue);
	once("", poller_resends_no_zero_copy_frame);
}

/* Gets and puts, their resends and their acks take the bulk port, and all other frames the other
 * port. */
static void bulk_and_messages(void)
{
	MAPPED(from, 16);
	MAPPED(to, 17);
	hk_region r = hk_worker_region_add(end[B].w, to, MEMORY, HK_REGION_WRITE, end[B].peer);
	unsigned frames = (unsigned)(MEMORY / hk_worker_frame_payload(end[A].w));

	message(A);
	UNTIL(end[B].messages == 1);
	CHECK_EQ(end[A].bulk->tx_frames, 0);
	UNTIL(hk_engine_unacked(hk_worker_engine(end[A].w), HK_PEER_NONE) == 0);
	uint64_t sent = end[A].port->tx_frames, answered = end[B].port->tx_frames;

	CHECK_EQ(put(A, from, MEMORY, r, 0), 1);
	CHECK(memcmp(from, to, MEMORY) == 0);
	CHECK(end[A].bulk->tx_frames >= frames && end[B].bulk->tx_frames > 0);
	CHECK_EQ(end[A].port->tx_frames, sent);
	CHECK_EQ(end[B].port->tx_frames, answered);
	CHECK(hk_worker_counters(end[A].w)->tx_bulk >= frames);
	CHECK_EQ(hk_worker_counters(end[B].w)->tx_bulk, 0);
	hk_worker_region_del(end[B].w, r);
	r = hk_worker_region_add(end[B].w, to, MEMORY, HK_REGION_READ, end[B].peer);
	memset(from, 0, MEMORY);
	CHECK_EQ(get(A, from, MEMORY, r, 0), 1);
	CHECK(memcmp(from, to, MEMORY) == 0);
	CHECK_EQ(get(A, from, MEMORY, r, 1), -EACCES); /* one byte too far */
	UNTIL(hk_engine_unacked(hk_worker_engine(end[B].w), HK_PEER_NONE) == 0);
	CHECK_EQ(end[A].port->tx_frames, sent);
	CHECK_EQ(end[B].port->tx_frames, answered);
	message(B); /* the newest that B sees from A after this comes by the first port again */
	message(A);
	UNTIL(end[B].messages == 2 && end[A].messages == 1);
	CHECK(end[A].port->tx_frames > sent && end[B].port->tx_frames > answered);
	hk_worker_region_del(end[B].w, r);
}

/* Messages by both ports, and puts between them, in one sequence. The handler checks the
 * numbers. */
static void numbers_by_both_ports(void)
{
	enum { N = 3000, PUTS = 30 };
	static struct xfer x[PUTS];
	MAPPED(from, 18);
	MAPPED(to, 19);
	hk_region r = hk_worker_region_add(end[B].w, to, MEMORY, HK_REGION_WRITE, end[B].peer);

	for (uint64_t i = 1; i <= N; i++) {
		hk_buf *b;
		size_t len = sizeof(i);

		while (!(b = hk_worker_alloc(end[A].w)))
			progress();
		memcpy(hk_buf_data(b), &i, len);
		bool bulk = hk_rng_below(&hk_test_rng, 2);

		CHECK((bulk ? hk_worker_sendv_bulk : hk_worker_sendv)(end[A].w, end[A].peer, AM, &b,
								      &len, 1) >= 0);
		if (i % (N / PUTS) == 0) {
			unsigned k = (unsigned)(i / (N / PUTS)) - 1;

			put_start(&x[k], A, from + k * 100000, 100000, r, k * 100000);
		}
		if (i % 8 == 0)
			progress();
	}
	UNTIL(end[B].last == N);
	for (unsigned k = 0; k < PUTS; k++)
		finish(&x[k]);
	CHECK(memcmp(from, to, PUTS * 100000) == 0);
	CHECK_EQ(end[B].messages, N);
	hk_worker_region_del(end[B].w, r);
}

TEST(bulk_has_a_port_of_its_own)
{
	each_way_by_two_ports(bulk_and_messages);
}

TEST(two_ports_keep_order)
{
	each_way_by_two_ports(numbers_by_both_ports);
}

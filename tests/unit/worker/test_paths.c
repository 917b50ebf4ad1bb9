/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_paths.c: two ports between two workers, both for all frames: shares, a
 * dead port, and addresses that are refused. test_notify.c and test_atomic.c check that frames
 * arrive once and in order.
 */
#include "tests/support/await.h"
#include "tests/support/pair.h"

#include "worker/paths.h"
#include "worker/tx.h"
#include "port/faults.h"

#define BYTES (MEMORY / 2)

static char *from, *to;

static void open_paths(const char *with)
{
	several_paths = two_ports = true;
	faults = with;
	open_both();
	from = memory(1);
	to = memory(2);
}

static void close_paths(void)
{
	munmap(from, MEMORY);
	munmap(to, MEMORY);
	close_both();
	several_paths = two_ports = false;
	faults = "";
}

static const struct hk_path_counters *path(int e, unsigned i)
{
	return &hk_worker_counters(end[e].w)->path[i];
}

/* Puts @len bytes from A to B, and checks them. */
static void put_bytes(size_t len)
{
	hk_region r = hk_worker_region_add(end[B].w, to, len, HK_REGION_WRITE, end[B].peer);

	CHECK(r != HK_REGION_NONE);
	CHECK_EQ(put(A, from, len, r, 0), 1);
	CHECK(memcmp(from, to, len) == 0);
	hk_worker_region_del(end[B].w, r);
}

TEST(equal_paths_carry_equal_shares)
{
	open_paths("");
	for (unsigned i = 0; i < 8; i++)
		put_bytes(BYTES);
	uint64_t a = path(A, 0)->bytes, b = path(A, 1)->bytes;

	CHECK_EQ(a + b, 8 * BYTES);
	CHECK_CMP(HK_MAX(a, b) - HK_MIN(a, b), <, (a + b) / 50);
	CHECK_EQ(path(A, 0)->pauses + path(A, 1)->pauses, 0);
	close_paths();
}

/* Gets @len bytes of B for A. */
static void get_bytes(size_t len)
{
	hk_region r = hk_worker_region_add(end[B].w, to, len, HK_REGION_READ, end[B].peer);

	CHECK_EQ(get(A, from, len, r, 0), 1);
	hk_worker_region_del(end[B].w, r);
}

/* Short puts, gets and messages go by the first port, and so does the request of a long get. */
TEST(what_is_short_stays_together)
{
	open_paths("");
	for (unsigned i = 0; i < 50; i++) {
		put_bytes(16383);
		get_bytes(16383);
		message(A);
	}
	UNTIL(end[B].messages == 50);
	CHECK_EQ(path(B, 1)->frames, 0);
	get_bytes(BYTES);
	CHECK_CMP(path(B, 1)->frames, >, 0);
	CHECK_EQ(path(A, 1)->frames, 0);
	put_bytes(16384);
	CHECK_CMP(path(A, 1)->frames, >, 0);
	close_paths();
}

static void message_of(unsigned frames)
{
	hk_buf *b[16];
	size_t len[16];
	unsigned before = end[B].messages;

	for (unsigned i = 0; i < frames; i++) {
		CHECK((b[i] = hk_worker_alloc(end[A].w)) != NULL);
		len[i] = 8000;
	}
	CHECK(hk_worker_sendv(end[A].w, end[A].peer, AM, b, len, frames) >= 0);
	UNTIL(end[B].messages > before);
}

/* Transfers of many frames go by the path of bulk, and nothing else does. */
TEST(bulk_has_a_path_of_its_own)
{
	bulk_apart = true;
	open_paths("");
	put_bytes(BYTES);
	uint64_t alone = path(A, 1)->bytes;

	CHECK_EQ(alone, BYTES);
	message_of(HK_FEW_FRAMES + 1);
	CHECK_EQ(path(A, 1)->bytes - alone, (HK_FEW_FRAMES + 1) * 8000);
	CHECK_EQ(path(A, 0)->bytes, 0);
	message_of(HK_FEW_FRAMES);
	for (unsigned i = 0; i < 50; i++) {
		put_bytes(4096);
		message(A);
	}
	UNTIL(end[B].messages == 52);
	CHECK_EQ(path(A, 1)->bytes - alone, (HK_FEW_FRAMES + 1) * 8000);
	close_paths();
	bulk_apart = false;
}

/* The other path takes bulk over, and is asked less and less often whether that goes on. */
TEST(a_dead_path_of_bulk)
{
	bulk_apart = true;
	open_paths(";faults=drop=1");
	while (path(A, 1)->pauses < 2)
		put_bytes(BYTES);
	CHECK_EQ(end[A].paths_down, 1);
	CHECK_EQ(end[A].w->peer[end[A].peer].tx.paths->path[1].pauses_in_vain, 2);
	put_bytes(BYTES);
	CHECK_CMP(path(A, 0)->bytes, >=, BYTES);
	close_paths();
	bulk_apart = false;
}

/* A port whose polls make system calls rests beside another one, but no frame waits for ever. */
TEST(a_port_of_system_calls_rests)
{
	bulk_apart = true;
	open_paths("");
	for (int e = A; e <= B; e++) {
		end[e].w->txq[1]->system_calls = true;
		end[e].w->cheap_ports = 1;
	}
	struct hk_txq *q = end[B].w->txq[1];

	UNTIL(q->rest_until > hk_worker_now(end[B].w));
	for (unsigned i = 0; i < 8; i++) {
		put_bytes(BYTES);
		CHECK_CMP(q->active_until, >, q->rest_until);
		UNTIL(q->rest_until > q->active_until);
	}
	close_paths();
	bulk_apart = false;
}

/* Nothing arrives by the second port. The sending end reports it once to the application. */
TEST(a_dead_path_is_paused)
{
	open_paths(";faults=drop=1");
	while (!end[A].paths_down)
		put_bytes(BYTES);
	CHECK_CMP(path(A, 1)->pauses, >, 0);
	CHECK_CMP(path(A, 1)->lost, >, 0);
	uint64_t before = path(A, 1)->frames, pauses = path(A, 1)->pauses;

	put_bytes(BYTES);
	CHECK(path(A, 1)->frames == before ||
	      path(A, 1)->pauses > pauses); /* or a second had passed */
	CHECK_EQ(end[A].paths_down, 1);
	CHECK_EQ(end[A].lost + end[B].lost, 0);
	close_paths();
}

/* The path is tried again, and used if it delivers. */
TEST(a_path_comes_back)
{
	open_paths(";faults=drop=1");
	while (!end[A].paths_down)
		put_bytes(BYTES);
	hk_faults_detach(end[A].bulk);
	hk_faults_detach(end[B].bulk);
	uint64_t before = path(A, 1)->bytes;

	while (path(A, 1)->bytes - before < 4 * BYTES)
		put_bytes(BYTES);
	CHECK_EQ(end[A].paths_down, 1);
	close_paths();
}

/* A frame that was sent on two paths may have arrived late by the first. Its acknowledgement
 * tells nothing of the second. */
TEST(only_its_own_frames_speak_for_a_rail)
{
	open_paths("");
	struct hk_worker *w = end[A].w;
	const struct hk_tx_path *second = &w->peer[end[A].peer].tx.paths->path[1];
	struct hk_buf_note lost = {.peer = end[A].peer, .path = 1}, late = {.peer = end[A].peer},
			   own = lost;

	hk_path_lost(w, end[A].peer, &lost, 0);
	CHECK_EQ(second->consecutive_losses, 1);
	hk_path_lost(w, end[A].peer, &late, 1);
	hk_path_acked(w, &late);
	CHECK_EQ(second->consecutive_losses, 1);
	CHECK(second->silent_since != 0);
	hk_path_acked(w, &own);
	CHECK_EQ(second->consecutive_losses, 0);
	CHECK(second->silent_since == 0);
	close_paths();
}

static void traffic(void)
{
	unsigned before = end[B].messages;

	put_bytes(BYTES);
	message(A);
	UNTIL(end[B].messages > before);
}

/* Frames to other peers wait for port @txq of A. */
static void fill(uint16_t txq)
{
	struct hk_worker *w = end[A].w;

	while (!hk_txq_stuck(w, txq)) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(w->bufs.pool);

		CHECK(m != NULL);
		memset(rte_pktmbuf_append(m, 60), 0, 60);
		hk_tx_bare(w, txq, m);
	}
}

/* A port takes nothing after @frames, and with 1 its queue is full. So no frame on it is ever
 * lost. All frames go by the other port, also after a second, when the path would be tried
 * again. */
static void survive_stuck(const char *frames)
{
	open_paths(frames);
	if (strcmp(frames, ";faults=stuck=1") == 0)
		fill(on_first ? 0 : 1);
	while (!end[A].paths_down)
		traffic();
	unsigned i = on_first ? 0 : 1;

	CHECK_CMP(path(A, i)->pauses, >, 0);
	for (int64_t until = hk_clock_ms() + 1500; hk_clock_ms() < until;)
		traffic();
	CHECK_EQ(end[A].paths_down, 1);
	CHECK_EQ(end[A].lost + end[B].lost, 0);

	/* the path is used again once its port takes frames */
	hk_faults_detach(on_first ? end[A].port : end[A].bulk);
	hk_faults_detach(on_first ? end[B].port : end[B].bulk);
	uint64_t before = path(A, i)->bytes;

	while (path(A, i)->bytes - before < 4 * BYTES)
		traffic();
	close_paths();
}

TEST(a_stuck_path_rests)
{
	survive_stuck(";faults=stuck=1");
}

TEST(a_path_gets_stuck_under_way)
{
	survive_stuck(";faults=stuck=300");
}

TEST(a_stuck_first_path_rests)
{
	on_first = true;
	survive_stuck(";faults=stuck=1");
	on_first = false;
}

/* Nothing leaves by any port: the peer is silent, for the operation and for the application. */
TEST(with_all_stuck_the_peer_is_lost)
{
	hk_region r;
	int status;

	on_both = true;
	peer_timeout = 300 * HK_MSEC;
	open_paths(";faults=stuck=300");
	r = hk_worker_region_add(end[B].w, to, BYTES, HK_REGION_WRITE, end[B].peer);
	do
		status = put(A, from, BYTES, r, 0);
	while (status == 1);
	CHECK_EQ(status, -ENOTCONN);
	UNTIL(end[A].lost == 1);
	close_paths();
	peer_timeout = 0;
	on_both = false;
}

TEST(wrong_addresses_are_refused)
{
	static const struct {
		struct hk_peer_addr addr;
		int rc;
	} bad[] = {
		{{.more = HK_PATHS_MAX}, -EINVAL},
		{{.more = 200}, -EINVAL},
		{{.more = 1, .path = {{.port = 2, .frame_max = 9216}}}, -EINVAL},
		{{.more = 1, .path = {{.port = 1, .frame_max = 1500}}}, -EMSGSIZE},
		{{.more = 1, .bulk = 3, .path = {{.port = 1, .frame_max = 9216}}}, -EINVAL},
		{{.bulk = 3}, -EINVAL},
	};

	open_paths("");
	for (unsigned i = 0; i < HK_ARRAY_LEN(bad); i++) {
		struct hk_peer_addr addr = bad[i].addr;
		hk_peer p;

		addr.endpoint = 9;
		addr.epoch = 1;
		addr.frame_max = 9216;
		addr.name = "a third";
		CHECK_REFUSED(hk_worker_peer_add(end[A].w, &addr, &p, ERR), bad[i].rc, "a third");
	}
	close_paths();
}

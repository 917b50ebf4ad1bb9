/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/test_rails.c: two ports between two fabrics, both for all: shares, a dead one, and addresses
 * that are refused. That what goes by them arrives once and in order, test_notify.c and test_atomic.c see to.
 */
#include "tests/unit/fabric/pair.h"

#include "fabric/internal.h"
#include "port/faults.h"

#define BYTES (MEMORY / 2)

static char *from, *to;

static void open_rails(const char *with)
{
	rails = two_ports = true;
	faults = with;
	open_both();
	from = memory(1);
	to = memory(2);
}

static void close_rails(void)
{
	munmap(from, MEMORY);
	munmap(to, MEMORY);
	close_both();
	rails = two_ports = false;
	faults = "";
}

static const struct hk_rail_counters *rail(int e, unsigned i)
{
	return &hk_fabric_counters(end[e].f)->rail[i];
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A puts @len bytes to B, and all is there. */
static void put(size_t len)
{
	hk_region r = hk_fabric_region_add(end[B].f, to, len, HK_REGION_WRITE, end[B].peer);
	struct hk_op op;
	int status = 0;

	CHECK(r != HK_REGION_NONE);
	CHECK(hk_fabric_put(end[A].f, end[A].peer, &op, from, len, r, 0, done, &status) == 0);
	UNTIL(status);
	CHECK_EQ(status, 1);
	CHECK(memcmp(from, to, len) == 0);
	hk_fabric_region_del(end[B].f, r);
}

static void equal_rails_carry_equal_shares(void)
{
	open_rails("");
	for (unsigned i = 0; i < 8; i++)
		put(BYTES);
	uint64_t a = rail(A, 0)->bytes, b = rail(A, 1)->bytes;

	CHECK_EQ(a + b, 8 * BYTES);
	CHECK_CMP(HK_MAX(a, b) - HK_MIN(a, b), <, (a + b) / 50);
	CHECK_EQ(rail(A, 0)->rests + rail(A, 1)->rests, 0);
	close_rails();
}

/* A gets @len bytes of B. */
static void get(size_t len)
{
	hk_region r = hk_fabric_region_add(end[B].f, to, len, HK_REGION_READ, end[B].peer);
	struct hk_op op;
	int status = 0;

	CHECK(hk_fabric_get(end[A].f, end[A].peer, &op, from, len, r, 0, done, &status) == 0);
	UNTIL(status);
	CHECK_EQ(status, 1);
	hk_fabric_region_del(end[B].f, r);
}

/* Short puts, gets and messages go by the first, and so does what asks for a long get. */
static void what_is_short_stays_together(void)
{
	open_rails("");
	for (unsigned i = 0; i < 50; i++) {
		put(16383);
		get(16383);
		message(A);
	}
	UNTIL(end[B].messages == 50);
	CHECK_EQ(rail(B, 1)->frames, 0);
	get(BYTES);
	CHECK_CMP(rail(B, 1)->frames, >, 0);
	CHECK_EQ(rail(A, 1)->frames, 0);
	put(16384);
	CHECK_CMP(rail(A, 1)->frames, >, 0);
	close_rails();
}

/* Of what goes by the second port nothing arrives. The application hears of it once, at the end that sent. */
static void a_dead_rail_rests(void)
{
	open_rails(";faults=drop=1");
	while (!end[A].rails_down)
		put(BYTES);
	CHECK_CMP(rail(A, 1)->rests, >, 0);
	CHECK_CMP(rail(A, 1)->lost, >, 0);
	uint64_t before = rail(A, 1)->frames, rests = rail(A, 1)->rests;

	put(BYTES);
	CHECK(rail(A, 1)->frames == before ||
	      rail(A, 1)->rests > rests); /* or a second had passed */
	CHECK_EQ(end[A].rails_down, 1);
	CHECK_EQ(end[A].lost + end[B].lost, 0);
	close_rails();
}

/* It is tried again, and used if it brings something. */
static void a_rail_comes_back(void)
{
	open_rails(";faults=drop=1");
	while (!end[A].rails_down)
		put(BYTES);
	hk_faults_detach(end[A].bulk);
	hk_faults_detach(end[B].bulk);
	uint64_t before = rail(A, 1)->bytes;

	while (rail(A, 1)->bytes - before < 4 * BYTES)
		put(BYTES);
	CHECK_EQ(end[A].rails_down, 1);
	close_rails();
}

/* What was sent by two rails may have come by the first of them, late: it tells nothing of the second. */
static void only_its_own_frames_speak_for_a_rail(void)
{
	open_rails("");
	struct hk_fabric *f = end[A].f;
	const struct hk_rail *second = &f->peer[end[A].peer].rails->rail[1];
	struct hk_buf_note lost = {.peer = end[A].peer, .path = 1}, late = {.peer = end[A].peer},
			   own = lost;

	hk_rail_lost(f, end[A].peer, &lost, 0);
	CHECK_EQ(second->strikes, 1);
	hk_rail_lost(f, end[A].peer, &late, 1);
	hk_rail_acked(f, &late);
	CHECK_EQ(second->strikes, 1);
	CHECK(second->silent_since != 0);
	hk_rail_acked(f, &own);
	CHECK_EQ(second->strikes, 0);
	CHECK(second->silent_since == 0);
	close_rails();
}

static void traffic(void)
{
	unsigned before = end[B].messages;

	put(BYTES);
	message(A);
	UNTIL(end[B].messages > before);
}

/* What others were sent waits for the port @lane of A. */
static void fill(uint16_t lane)
{
	struct hk_fabric *f = end[A].f;

	while (!hk_tx_stuck(f, lane)) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(f->tx_pool);

		CHECK(m != NULL);
		memset(rte_pktmbuf_append(m, 60), 0, 60);
		hk_tx_frame(f, lane, m);
	}
}

/* A port takes nothing any more after @frames, and its queue is full if that is 1: so nothing that goes by it is
 * ever lost. All goes by the other, also when a second has passed, and the rail would be tried again. */
static void survive_stuck(const char *frames)
{
	open_rails(frames);
	if (strcmp(frames, ";faults=stuck=1") == 0)
		fill(on_first ? 0 : 1);
	while (!end[A].rails_down)
		traffic();
	unsigned i = on_first ? 0 : 1;

	CHECK_CMP(rail(A, i)->rests, >, 0);
	for (uint64_t until = now_ms() + 1500; now_ms() < until;)
		traffic();
	CHECK_EQ(end[A].rails_down, 1);
	CHECK_EQ(end[A].lost + end[B].lost, 0);

	/* and it is used again, once it takes something */
	hk_faults_detach(on_first ? end[A].port : end[A].bulk);
	hk_faults_detach(on_first ? end[B].port : end[B].bulk);
	uint64_t before = rail(A, i)->bytes;

	while (rail(A, i)->bytes - before < 4 * BYTES)
		traffic();
	close_rails();
}

static void a_stuck_rail_rests(void)
{
	survive_stuck(";faults=stuck=1");
}

static void a_rail_gets_stuck_under_way(void)
{
	survive_stuck(";faults=stuck=300");
}

static void a_stuck_first_rail_rests(void)
{
	on_first = true;
	survive_stuck(";faults=stuck=1");
	on_first = false;
}

/* Nothing leaves by any port: the peer is silent, for the operation and for the application. */
static void with_all_stuck_the_peer_is_lost(void)
{
	hk_region r;
	struct hk_op op;
	int status = 0;

	on_both = true;
	peer_timeout = 300 * HK_MSEC;
	open_rails(";faults=stuck=300");
	r = hk_fabric_region_add(end[B].f, to, BYTES, HK_REGION_WRITE, end[B].peer);
	do {
		status = 0;
		CHECK(hk_fabric_put(end[A].f, end[A].peer, &op, from, BYTES, r, 0, done, &status) ==
		      0);
		UNTIL(status);
	} while (status == 1);
	CHECK_EQ(status, -ENOTCONN);
	UNTIL(end[A].lost == 1);
	close_rails();
	peer_timeout = 0;
	on_both = false;
}

static void wrong_addresses_are_refused(void)
{
	static const struct {
		struct hk_peer_addr addr;
		int rc;
	} bad[] = {
		{{.more = HK_RAILS_MAX}, -EINVAL},
		{{.more = 200}, -EINVAL},
		{{.more = 1, .rail = {{.port = 2, .frame_max = 9216}}}, -EINVAL},
		{{.more = 1, .rail = {{.port = 1, .frame_max = 1500}}}, -EMSGSIZE},
		{{.more = 1, .bulk = 2, .rail = {{.port = 1, .frame_max = 9216}}}, -EINVAL},
	};

	open_rails("");
	for (unsigned i = 0; i < HK_ARRAY_LEN(bad); i++) {
		struct hk_peer_addr addr = bad[i].addr;
		struct hk_error err = {""};
		hk_peer p;

		addr.endpoint = 9;
		addr.epoch = 1;
		addr.frame_max = 9216;
		addr.name = "a third";
		CHECK_EQ(hk_fabric_peer_add(end[A].f, &addr, &p, &err), bad[i].rc);
		CHECK(strstr(err.text, "a third") != NULL);
	}
	close_rails();
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"equal_rails_carry_equal_shares", equal_rails_carry_equal_shares},
		{"what_is_short_stays_together", what_is_short_stays_together},
		{"a_dead_rail_rests", a_dead_rail_rests},
		{"a_rail_comes_back", a_rail_comes_back},
		{"only_its_own_frames_speak_for_a_rail", only_its_own_frames_speak_for_a_rail},
		{"a_stuck_rail_rests", a_stuck_rail_rests},
		{"a_rail_gets_stuck_under_way", a_rail_gets_stuck_under_way},
		{"a_stuck_first_rail_rests", a_stuck_first_rail_rests},
		{"with_all_stuck_the_peer_is_lost", with_all_stuck_the_peer_is_lost},
		{"wrong_addresses_are_refused", wrong_addresses_are_refused},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

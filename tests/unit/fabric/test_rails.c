/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/test_rails.c: two ports between two fabrics, both for all: shares, a dead one, and addresses
 * that are refused. That what goes by them arrives once and in order, test_notify.c and test_atomic.c see to.
 */
#include "tests/unit/fabric/pair.h"

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

/* Short puts and messages go by the first. */
static void what_is_short_stays_together(void)
{
	open_rails("");
	for (unsigned i = 0; i < 50; i++) {
		put(16383);
		message(A);
	}
	UNTIL(end[B].messages == 50);
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
		{"wrong_addresses_are_refused", wrong_addresses_are_refused},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

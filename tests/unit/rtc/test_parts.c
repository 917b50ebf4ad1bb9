/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/test_parts.c: the pure parts of rtc, one by one.
 */
#include "rtc/internal.h"
#include "rtc/ring.h"
#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"

#include <errno.h>
#include <unistd.h>

/* ---- topology -------------------------------------------------------------------------------- */

static bool linked[64][64];

/* Computes the neighbours of every member. */
static void build(enum hk_rtc_topology kind, unsigned degree, uint64_t seed, unsigned nodes,
		  const uint16_t *epoch, const char *file)
{
	memset(linked, 0, sizeof(linked));
	for (unsigned i = 0; i < nodes; i++) {
		struct hk_rtc_config c = {.topology = kind,
					  .degree = degree,
					  .seed = seed,
					  .node = (uint16_t)i,
					  .nodes = (uint16_t)nodes,
					  .topology_file = file};
		struct hk_rtc_topology_view t;
		if (!epoch[i])
			continue;
		CHECK_OK(hk_rtc_topology_init(&t, &c, ERR));
		hk_rtc_topology_update(&t, epoch);
		for (unsigned k = 0; k < t.count; k++) {
			CHECK(t.neighbour[k] != i && epoch[t.neighbour[k]]);
			CHECK(k == 0 || t.neighbour[k - 1] < t.neighbour[k]);
			linked[i][t.neighbour[k]] = true;
		}
		hk_rtc_topology_free(&t);
	}
}

static unsigned degree_of(unsigned node)
{
	unsigned d = 0;
	for (unsigned i = 0; i < 64; i++)
		d += linked[node][i];
	return d;
}

/* Returns whether every member reaches every other. */
static bool connected(const uint16_t *epoch, unsigned nodes)
{
	bool seen[64] = {false}, grew = true;
	unsigned first = 0;
	while (!epoch[first])
		first++;
	seen[first] = true;
	while (grew) {
		grew = false;
		for (unsigned i = 0; i < nodes; i++)
			for (unsigned k = 0; seen[i] && k < nodes; k++)
				if (linked[i][k] && !seen[k])
					grew = seen[k] = true;
	}
	for (unsigned i = 0; i < nodes; i++)
		if (epoch[i] && !seen[i])
			return false;
	return true;
}

static bool symmetric(unsigned nodes)
{
	for (unsigned i = 0; i < nodes; i++)
		for (unsigned k = 0; k < nodes; k++)
			if (linked[i][k] != linked[k][i])
				return false;
	return true;
}

TEST(topologies)
{
	for (unsigned run = 0; run < 500; run++) {
		uint16_t epoch[64] = {0};
		unsigned nodes = (unsigned)hk_rng_range(&hk_test_rng, 1, 64), members = 0;
		for (unsigned i = 0; i < nodes; i++)
			members += (epoch[i] = (uint16_t)(hk_rng_below(&hk_test_rng, 4) != 0));
		if (members == 0)
			members = epoch[0] = 1;
		build(HK_RTC_ALL, 0, 1, nodes, epoch, NULL);
		CHECK(symmetric(nodes) && connected(epoch, nodes));
		build(HK_RTC_RING, 0, 1, nodes, epoch, NULL);
		CHECK(symmetric(nodes) && connected(epoch, nodes));
		for (unsigned i = 0; i < nodes; i++)
			CHECK(!epoch[i] || degree_of(i) == HK_MIN(members - 1, 2u));
		build(HK_RTC_EXPONENTIAL, 0, 1, nodes, epoch, NULL);
		CHECK(connected(epoch, nodes));
		unsigned degree = (unsigned)hk_rng_range(&hk_test_rng, 1, 8);
		uint64_t seed = hk_rng_next(&hk_test_rng);
		build(HK_RTC_RANDOM, degree, seed, nodes, epoch, NULL);
		CHECK(symmetric(nodes));
		CHECK(degree < 2 || connected(epoch, nodes));
		for (unsigned i = 0; i < nodes; i++) {
			CHECK(degree_of(i) <= HK_MIN(members - 1, degree));
			CHECK(degree < 2 || !epoch[i] || degree_of(i) >= HK_MIN(members - 1, 2u));
		}
	}
}

TEST(random_topology_by_seed)
{
	static bool first[64][64];
	uint16_t epoch[64];
	unsigned same = 0;

	for (unsigned i = 0; i < 64; i++)
		epoch[i] = 1;
	build(HK_RTC_RANDOM, 4, 7, 64, epoch, NULL);
	memcpy(first, linked, sizeof(first));
	build(HK_RTC_RANDOM, 4, 7, 64, epoch, NULL);
	CHECK_EQ(memcmp(first, linked, sizeof(first)), 0);
	build(HK_RTC_RANDOM, 4, 8, 64, epoch, NULL);
	for (unsigned i = 0; i < 64; i++)
		for (unsigned k = 0; k < 64; k++)
			same += first[i][k] && linked[i][k];
	CHECK(same < 64); /* of 256 */
	/* a missing member changes little */
	epoch[20] = 0;
	same = 0;
	build(HK_RTC_RANDOM, 4, 7, 64, epoch, NULL);
	for (unsigned i = 0; i < 64; i++)
		for (unsigned k = 0; k < 64; k++)
			same += first[i][k] && linked[i][k];
	CHECK(same >= 240);
}

TEST(topology_file)
{
	static const uint16_t epoch[4] = {1, 1, 1, 0};
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"0 1\n1 0\n2 4\n", "line 3: '4'"},    {"0 1\n1 0\nx 1\n", "line 3: 'x'"},
		{"0 1\n0 2\n", "line 2: node 0"},      {"1 0\n2 1\n", "no line for node 0"},
		{"0 0\n", "line 1: '0' cannot"},       {"0 1 -1\n", "'-1'"},
		{"0 99999999999999\n", "'9999999999"}, {"", "no line for node 0"},
	};
	const char *path = tmp_file("# who talks to whom\n0  1 2,\n");
	struct hk_rtc_config c = {.topology = HK_RTC_FILE, .nodes = 4, .topology_file = path};
	struct hk_rtc_topology_view t;

	CHECK_REFUSED(hk_rtc_topology_init(&t, &c, ERR), -EINVAL, "line 2: '2,'");
	unlink(path);
	path = tmp_file("# who talks to whom\n\n0\t1   2 1 # twice\n1 0 2 3\r\n2 0\n3\n");
	build(HK_RTC_FILE, 0, 0, 4, epoch, path);
	CHECK(degree_of(0) == 2 && degree_of(1) == 2 && degree_of(2) == 1 && degree_of(3) == 0);
	unlink(path);
	for (unsigned i = 0; i < HK_ARRAY_LEN(bad); i++) {
		c.topology_file = path = tmp_file(bad[i].text);
		CHECK_REFUSED(hk_rtc_topology_init(&t, &c, ERR), -EINVAL, bad[i].says, path,
			      "fix: ");
		unlink(path);
	}
	CHECK_EQ(hk_rtc_topology_init(&t, &c, ERR), -ENOENT);
	c.topology_file = NULL;
	CHECK_EQ(hk_rtc_topology_init(&t, &c, ERR), -EINVAL);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Compares with a receiver that remembers every number; also across the wrap. */
TEST(once)
{
	struct hk_rtc_once o;
	static bool had[4096];

	CHECK(hk_rtc_once_init(&o, 2));
	for (unsigned run = 0; run < 50; run++) {
		uint32_t base = run % 2 ? 0xfffff800u : (uint32_t)hk_rng_next(&hk_test_rng);
		unsigned lowest = 0;
		memset(had, 0, sizeof(had));
		hk_rtc_once_forget(&o, 1);
		/* the sender's open numbers lie within HK_RTC_WINDOW */
		for (unsigned i = 0; i < 20000; i++) {
			unsigned n = lowest + (unsigned)hk_rng_below(&hk_test_rng, HK_RTC_WINDOW);
			if (n >= 4096)
				break;
			uint32_t number = base + n ? base + n : 1;
			if (base + n == 0)
				continue;
			CHECK_EQ(hk_rtc_once_is_new(&o, 1, number), !had[n]);
			if (hk_rng_below(&hk_test_rng, 4) == 0) {
				hk_rtc_once_mark(&o, 1, number);
				had[n] = true;
			}
			/* answered requests are not open any more */
			while (had[lowest] || base + lowest == 0)
				lowest++;
		}
		CHECK(hk_rtc_once_is_new(&o, 0, base | 1));
	}
	hk_rtc_once_mark(&o, 0, 1000);
	hk_rtc_once_unmark(&o, 0, 1000);
	CHECK(hk_rtc_once_is_new(&o, 0, 1000));
	free(o.peer);
}

TEST(window_of_requests)
{
	struct hk_rtc_requests a;
	struct hk_rtc_request q;
	uint32_t n = 0xffffff80u; /* wraps */

	CHECK(hk_rtc_requests_init(&a, 2, 1000) && hk_rtc_requests_add_type(&a, 9));
	CHECK(!hk_rtc_requests_available(&a, 1, 8, n)); /* no such type */
	uint32_t first = n;
	for (unsigned i = 0; i < HK_RTC_WINDOW; i++, n++) {
		CHECK(hk_rtc_requests_available(&a, 1, 9, n));
		hk_rtc_requests_add(&a, 1, 9, n, i, 0, 100, 3);
	}
	CHECK(!hk_rtc_requests_available(&a, 1, 9, n)); /* the first request is still open */
	CHECK(hk_rtc_requests_available(&a, 0, 9, n));  /* but another node has none */
	CHECK_EQ(hk_rtc_requests_answered(&a, 1, 9, first + 5), 5);
	CHECK(!hk_rtc_requests_available(&a, 1, 9, n));
	CHECK_EQ(hk_rtc_requests_answered(&a, 1, 9, first + HK_RTC_WINDOW), HK_RTC_NO_BUF);
	CHECK_EQ(hk_rtc_requests_answered(&a, 0, 9, first), HK_RTC_NO_BUF);
	CHECK_EQ(hk_rtc_requests_answered(&a, 1, 9, first), 0);
	CHECK_EQ(hk_rtc_requests_answered(&a, 1, 9, first), HK_RTC_NO_BUF); /* only once */
	CHECK(hk_rtc_requests_available(&a, 1, 9, n));
	unsigned gone = 0;
	while (hk_rtc_requests_drop_peer(&a, 1, &q))
		gone++;
	CHECK_EQ(gone, HK_RTC_WINDOW - 2);
	CHECK_EQ(a.open, 0);
	hk_rtc_requests_free(&a);
}

/* One request: the times of its retries and of giving up. */
TEST(timeouts_double)
{
	struct hk_rtc_requests a;
	struct hk_rtc_request q;
	unsigned again = 0;

	CHECK(hk_rtc_requests_init(&a, 2, 4) && hk_rtc_requests_add_type(&a, 0));
	hk_rtc_requests_add(&a, 1, 0, 1, 77, 1000, 10, 4);
	static const uint64_t due[] = {1010, 1030, 1070, 1150};
	for (uint64_t now = 1000; now <= 1150; now++) {
		enum hk_rtc_requests_task t = hk_rtc_requests_poll(&a, now, &q);
		if (t == HK_RTC_REQUESTS_NOTHING)
			continue;
		CHECK(again < 4 && now == due[again]);
		CHECK(q.buf == 77 && q.number == 1 && q.dst == 1);
		CHECK_EQ(t, again == 3 ? HK_RTC_REQUESTS_GIVEN_UP : HK_RTC_REQUESTS_RESEND);
		again++;
	}
	CHECK_EQ(again, 4);
	CHECK_EQ(hk_rtc_requests_poll(&a, UINT64_MAX - 1, &q), HK_RTC_REQUESTS_NOTHING);
	CHECK_EQ(a.due, UINT64_MAX);
	hk_rtc_requests_free(&a);
}

TEST(replies_by_number)
{
	struct hk_rtc_replies a;

	CHECK(hk_rtc_replies_init(&a, 2, 3) && hk_rtc_replies_add_type(&a, 1));
	CHECK_EQ(hk_rtc_replies_store(&a, 0, 1, 100, 7), HK_RTC_NO_BUF);
	CHECK_EQ(hk_rtc_replies_store(&a, 1, 1, 100, 8), HK_RTC_NO_BUF);
	CHECK_EQ(hk_rtc_replies_find(&a, 0, 1, 100), 7);
	CHECK_EQ(hk_rtc_replies_find(&a, 1, 1, 100), 8);
	CHECK_EQ(hk_rtc_replies_find(&a, 1, 1, 100 + HK_RTC_WINDOW), HK_RTC_NO_BUF);
	CHECK_EQ(hk_rtc_replies_find(&a, 1, 2, 100), HK_RTC_NO_BUF);
	CHECK_EQ(hk_rtc_replies_store(&a, 1, 1, 100 + HK_RTC_WINDOW, 9),
		 HK_RTC_NO_BUF); /* replaces the index of the older one */
	CHECK_EQ(hk_rtc_replies_find(&a, 1, 1, 100), HK_RTC_NO_BUF);
	CHECK_EQ(hk_rtc_replies_store(&a, 0, 1, 101, 10), 7); /* replaces the oldest */
	CHECK_EQ(hk_rtc_replies_find(&a, 0, 1, 100), HK_RTC_NO_BUF);
	CHECK_EQ(hk_rtc_replies_store(&a, 0, 1, 102, 11), 8);
	CHECK_EQ(hk_rtc_replies_find(&a, 1, 1, 100 + HK_RTC_WINDOW), 9); /* still in the index */
	hk_rtc_replies_forget(&a, 1);
	CHECK_EQ(hk_rtc_replies_find(&a, 1, 1, 100 + HK_RTC_WINDOW), HK_RTC_NO_BUF);
	CHECK_EQ(hk_rtc_replies_find(&a, 0, 1, 102), 11);
	hk_rtc_replies_free(&a);
}

/* ---- the rest -------------------------------------------------------------------------------- */

TEST(budget)
{
	struct hk_rtc_budget b = {.limit = 100};
	unsigned n = 0;

	for (unsigned i = 0; i < 100; i++)
		CHECK(!hk_rtc_budget_sample(&b, 90 * 32, 32));
	CHECK(!b.over && hk_rtc_budget_recent(&b) >= 85 && hk_rtc_budget_recent(&b) <= 90);
	/* one burst that was preempted changes nothing */
	CHECK(hk_rtc_budget_sample(&b, 10 * HK_MSEC, 1));
	hk_rtc_budget_sample(&b, 90, 1);
	hk_rtc_budget_sample(&b, 90, 1);
	hk_rtc_budget_sample(&b, 90, 1);
	CHECK(!b.over);
	while (!b.over && n < 100) {
		hk_rtc_budget_sample(&b, 150 * 8, 8);
		n++;
	}
	CHECK(n >= 1 && n < 10);
	for (unsigned i = 0; i < 100; i++) /* below the budget, but above three quarters */
		hk_rtc_budget_sample(&b, 85, 1);
	CHECK(b.over);
	for (n = 0; b.over && n < 100; n++)
		hk_rtc_budget_sample(&b, 50, 1);
	CHECK(!b.over && n > 1);
	struct hk_rtc_budget none = {0};
	for (unsigned i = 0; i < 100; i++)
		CHECK(!hk_rtc_budget_sample(&none, 2000, 1));
	CHECK(!none.over && hk_rtc_budget_recent(&none) >= 1990 &&
	      hk_rtc_budget_recent(&none) <= 2000);
}

TEST(epochs)
{
	struct hk_rtc_members m;

	CHECK(hk_rtc_members_init(&m, 0, 3, 9, 100, 1000));
	CHECK_EQ(hk_rtc_members_input(&m, 1, 0xfff0, 1000), HK_RTC_MEMBERS_JOINED);
	CHECK_EQ(hk_rtc_members_input(&m, 1, 0xfff0, 1000), HK_RTC_MEMBERS_KNOWN);
	CHECK_EQ(hk_rtc_members_input(&m, 1, 0xffef, 1000), HK_RTC_MEMBERS_STALE);
	CHECK_EQ(hk_rtc_members_input(&m, 1, 5, 1000), HK_RTC_MEMBERS_RESTARTED); /* wraps */
	CHECK_EQ(hk_rtc_members_input(&m, 1, 0xfff0, 1000), HK_RTC_MEMBERS_STALE);
	CHECK_EQ(m.count, 2);
	/* a late leave message */
	CHECK_EQ(hk_rtc_members_leave(&m, 1, 0xfff0), HK_RTC_MEMBERS_STALE);
	CHECK_EQ(m.count, 2);
	CHECK_EQ(hk_rtc_members_leave(&m, 1, 5), HK_RTC_MEMBERS_LEFT);
	CHECK_EQ(hk_rtc_members_input(&m, 1, 5, 1000), HK_RTC_MEMBERS_STALE); /* still on its way */
	CHECK_EQ(m.count, 1);
	CHECK_EQ(hk_rtc_members_input(&m, 1, 4, 1999),
		 HK_RTC_MEMBERS_STALE); /* also of an earlier incarnation */
	CHECK_EQ(hk_rtc_members_input(&m, 1, 4, 2000),
		 HK_RTC_MEMBERS_JOINED); /* its clock was set back */
	/* the leave message overtakes earlier messages */
	CHECK_EQ(hk_rtc_members_leave(&m, 2, 7), HK_RTC_MEMBERS_STALE);
	CHECK_EQ(hk_rtc_members_input(&m, 2, 7, 1000), HK_RTC_MEMBERS_STALE);
	CHECK_EQ(hk_rtc_members_input(&m, 2, 8, 1000), HK_RTC_MEMBERS_JOINED);
	CHECK_EQ(m.count, 3);
	hk_rtc_members_free(&m);
}

/* One alive message to each node in each interval, members or not. */
TEST(signs_of_life)
{
	struct hk_rtc_members m;
	unsigned sent[4] = {0}, lost = 0;
	uint16_t node;

	CHECK(hk_rtc_members_init(&m, 2, 4, 1, 100, 1000));
	CHECK_EQ(hk_rtc_members_input(&m, 1, 7, 1000), HK_RTC_MEMBERS_JOINED);
	for (uint64_t now = 1000; now < 3000; now += 10) {
		enum hk_rtc_members_task t;
		while ((t = hk_rtc_members_poll(&m, now, &node)) != HK_RTC_MEMBERS_NOTHING) {
			sent[node] += t == HK_RTC_MEMBERS_SEND;
			if (t == HK_RTC_MEMBERS_LOST) {
				CHECK(node == 1 && now > 2000 && now <= 2110);
				lost++;
			}
		}
	}
	CHECK(sent[0] == 20 && sent[1] == 20 && sent[2] == 0 && sent[3] == 20);
	CHECK(lost == 1 && m.count == 1);
	hk_rtc_members_free(&m);
}

TEST(rings)
{
	struct hk_rtc_ring *r = NULL;
	struct hk_msg m[HK_RTC_BURST];
	uint32_t put = 0, got = 0;

	CHECK_EQ(posix_memalign((void **)&r, 64, sizeof(*r)), 0);
	memset(r, 0, sizeof(*r));
	for (unsigned i = 0; i < 5000; i++) {
		unsigned n = (unsigned)hk_rng_range(&hk_test_rng, 1, HK_RTC_BURST),
			 held = put - got;
		for (unsigned k = 0; k < n; k++)
			m[k] = (struct hk_msg){.number = put + k, .type = (put + k) / 20 % 2};
		unsigned took = hk_rtc_ring_push(r, m, n);
		CHECK_EQ(took, HK_MIN(n, HK_RTC_RING_SIZE - held));
		put += took;
		for (unsigned t = (unsigned)hk_rng_below(&hk_test_rng, 4); t; t--) {
			n = hk_rtc_ring_pop(r, m, HK_RTC_BURST);
			CHECK(n > 0 || put == got);
			for (unsigned k = 0; k < n; k++) {
				CHECK_EQ(m[k].number, got + k);
				CHECK_EQ(m[k].type, m[0].type);
			}
			got += n;
		}
	}
	free(r);
}

TEST(clock_runs)
{
	struct hk_rtc_clock c;

	hk_rtc_clock_begin(&c);
	hk_rtc_clock_end(&c);
	/* it must not run backwards, and must be close to the kernel's clock */
	uint64_t a = hk_rtc_clock_now(&c), real = hk_clock_ns();
	CHECK(a > real - HK_SEC && a < real + HK_SEC);
	CHECK(hk_rtc_clock_now(&c) >= a);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/halo/test_send_log.c: the order in which messages to a rank were sent
 * (halo/promote/send_log.h), compared with a record of all messages. And the table by peer and tag
 * (table.h).
 */
#include "halo/promote/send_log.h"
#include "halo/promote/table.h"
#include "tests/support/hk_test.h"

#define MESSAGES 40000
#define PUTS     20

static uint16_t sent[MESSAGES]; /* the tag of each message */
static uint64_t count[HK_PAIR_TAGS];
static _Alignas(struct hk_send_order) char buffer[HK_SEND_ORDER_MAX];
static struct hk_send_order *const order = (struct hk_send_order *)(void *)buffer;

static size_t make(const struct hk_send_log *l, uint64_t first, int tags)
{
	size_t bytes = hk_send_order_encode(order, l, first, (uint32_t)tags);

	for (uint32_t t = 0; t < order->tags; t++)
		hk_send_order_tags(order)[t] = (struct hk_send_order_tag){.tag = (int32_t)t,
									  .sent = count[t]};
	return bytes;
}

/* For each put, the counts of the other tags must be those of the record. */
static void check_order(const struct hk_send_log *l, const struct hk_put_position *put,
			uint32_t puts, int tags)
{
	static uint64_t before[HK_PAIR_TAGS], truth[HK_PAIR_TAGS];
	uint64_t first = UINT64_MAX;

	if (!l->tag_index) /* with one tag, the log is empty */
		return;
	for (uint32_t k = 0; k < puts; k++)
		first = HK_MIN(first, put[k].position);
	size_t bytes = make(l, first, tags);

	CHECK(bytes > 0 && bytes <= HK_SEND_ORDER_MAX);
	CHECK(hk_send_order_valid(order, bytes));
	for (uint32_t k = 0; k < puts; k++) {
		memset(truth, 0, sizeof(truth));
		for (uint64_t i = 0; i < put[k].position; i++)
			truth[sent[i]]++;
		hk_send_order_before(order, put[k].position, before);
		for (uint32_t t = 0; t < order->tags; t++)
			CHECK(t == sent[put[k].position] || before[t] == truth[t]);
	}
}

TEST(counts_are_those_of_all_that_was_sent)
{
	for (int round = 0; round < 12; round++) {
		int most = (int)hk_rng_range(&hk_test_rng, 1, round % 3 == 0 ? 2000 : 100),
		    tags = 1;
		struct hk_put_position put[PUTS];
		uint32_t puts = 0;
		struct hk_send_log l;

		hk_send_log_init(&l);
		memset(count, 0, sizeof(count));
		for (uint64_t k = 0; k < MESSAGES; k++) {
			if (l.sent >= l.check_at) { /* drops the puts that it forgets */
				uint64_t soon, forgotten = hk_send_log_check(&l, &soon);
				uint32_t left = 0;

				for (uint32_t p = 0; p < puts; p++)
					if (put[p].position >= forgotten)
						put[left++] = put[p];
				puts = left;
			}
			if (tags < most && hk_rng_below(&hk_test_rng, 20) == 0)
				CHECK(hk_send_log_resize(&l, ++tags));
			sent[k] = (uint16_t)hk_rng_below(&hk_test_rng, (uint64_t)tags);
			if (puts < PUTS && hk_rng_below(&hk_test_rng, 40) == 0)
				put[puts++] = (struct hk_put_position){k, l.sent};
			hk_send_log_append(&l, sent[k]);
			count[sent[k]]++;
			if (hk_rng_below(&hk_test_rng, 2500) == 0)
				check_order(&l, put, puts, tags);
		}
		check_order(&l, put, puts, tags);
		hk_send_log_free(&l);
	}
}

/* The log knows a put for at least three quarters of its length, and says one check earlier that it
 * will forget it. Its length is bounded. */
TEST(a_log_is_bounded)
{
	struct hk_send_log l;

	hk_send_log_init(&l);
	for (int tags = 2; tags <= HK_PAIR_TAGS; tags++)
		CHECK(hk_send_log_resize(&l, tags));
	CHECK_EQ(l.mask + 1, HK_SEND_LOG_MAX);
	CHECK(hk_send_log_resize(&l, HK_PAIR_TAGS));
	for (uint64_t before = 0, next = 0; l.sent < (uint64_t)4 * HK_SEND_LOG_MAX;) {
		hk_send_log_append(&l, 3);
		if (l.sent < l.check_at)
			continue;
		uint64_t at = l.sent, soon, forgotten = hk_send_log_check(&l, &soon);

		CHECK(forgotten + HK_SEND_LOG_MAX >= l.check_at); /* complete until then */
		CHECK(l.check_at - at == HK_SEND_LOG_MAX / 4 && forgotten >= before);
		CHECK(soon >= forgotten && at - soon <= HK_SEND_LOG_MAX / 2);
		CHECK(before == 0 || forgotten == next);
		before = forgotten;
		next = soon;
	}
	hk_send_log_free(&l);
}

/* The log encodes the messages before a put exactly, or not at all. */
TEST(a_put_that_the_log_has_forgotten_is_not_encoded)
{
	struct hk_send_log l;

	hk_send_log_init(&l);
	hk_send_log_append(&l, 0); /* with one tag, there is no log yet */
	CHECK(hk_send_log_resize(&l, 2));
	for (uint32_t k = 0; k <= l.mask; k++)
		hk_send_log_append(&l, 1);
	CHECK_EQ(hk_send_order_encode(order, &l, 1, 2), hk_send_order_bytes(2, l.mask + 1));
	CHECK_EQ(hk_send_order_encode(order, &l, 0, 2), hk_send_order_bytes(2, l.mask + 1));
	hk_send_log_append(&l, 1);
	CHECK_EQ(hk_send_order_encode(order, &l, 1, 2), 0);
	CHECK_EQ(hk_send_order_encode(order, &l, 0, 2), 0);
	CHECK(hk_send_order_encode(order, &l, 2, 2) > 0);
	CHECK_EQ(hk_send_order_encode(order, &l, UINT64_MAX, 2), hk_send_order_bytes(2, 0));
	hk_send_log_free(&l);
}

TEST(a_malformed_send_order_is_refused)
{
	struct hk_send_log l;

	hk_send_log_init(&l);
	hk_send_log_resize(&l, 2);
	memset(count, 0, sizeof(count));
	for (int k = 0; k < 10; k++) {
		hk_send_log_append(&l, k % 2);
		count[k % 2]++;
	}
	size_t bytes = make(&l, 0, 2);

	CHECK_EQ(order->logged, 10);
	CHECK(hk_send_order_valid(order, bytes));
	CHECK(!hk_send_order_valid(order, bytes - 1));
	CHECK(!hk_send_order_valid(order, bytes + 1));
	CHECK(!hk_send_order_valid(order, 4));
	uint16_t *last = (uint16_t *)(void *)(buffer + bytes - sizeof(*last));

	*last = 2;
	CHECK(!hk_send_order_valid(order, bytes));
	*last = 0;
	order->sent = 9;
	CHECK(!hk_send_order_valid(order, bytes));
	order->sent = 10;
	order->tags = HK_PAIR_TAGS + 1;
	CHECK(!hk_send_order_valid(order, hk_send_order_bytes(HK_PAIR_TAGS + 1, 10)));
	order->tags = 2;
	order->logged = HK_SEND_LOG_MAX + 1;
	order->sent = HK_SEND_LOG_MAX + 1;
	CHECK(!hk_send_order_valid(order, hk_send_order_bytes(2, HK_SEND_LOG_MAX + 1)));
	hk_send_log_free(&l);
}

TEST(a_table_finds_what_was_added)
{
	static bool in[64][500];
	static char ends[64][500];
	struct hk_table t = {0};
	uint32_t added = 0, found = 0, k = 0;

	CHECK(hk_table_find(&t, 0, 0) == NULL);
	CHECK(hk_table_next(&t, &k) == NULL);
	for (int round = 0; round < 20000; round++) {
		int peer = (int)hk_rng_below(&hk_test_rng, 64),
		    tag = (int)hk_rng_below(&hk_test_rng, 500);

		CHECK(hk_table_find(&t, peer, tag) == (in[peer][tag] ? &ends[peer][tag] : NULL));
		if (in[peer][tag])
			continue;
		CHECK(hk_table_add(&t, peer, tag, &ends[peer][tag]));
		in[peer][tag] = true;
		added++;
	}
	CHECK_EQ(t.count, added);
	CHECK(t.capacity >= 2 * t.count && t.capacity <= 4 * t.count);
	for (k = 0; hk_table_next(&t, &k);)
		found++;
	CHECK_EQ(found, added);
	hk_table_free(&t);
	CHECK(hk_table_find(&t, 1, 1) == NULL);
}

/* Consecutive tags, tags in steps and many ranks must not form long runs of entries. */
TEST(a_table_spreads_what_programs_name)
{
	static const int step[] = {1, 2, 64, 128, 1000, 4096, 1 << 20};

	for (size_t s = 0; s < HK_ARRAY_LEN(step); s++) {
		struct hk_table t = {0};
		uint32_t longest = 0;
		char end;

		for (int k = 0; k < 2000; k++)
			CHECK(hk_table_add(&t, k % 4, k / 4 * step[s], &end));
		for (uint32_t k = 0, run = 0; k < t.capacity; k++) {
			run = t.at[k].end ? run + 1 : 0;
			longest = HK_MAX(longest, run);
		}
		CHECK(longest < 64);
		hk_table_free(&t);
	}
}

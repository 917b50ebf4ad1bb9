/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/halo/test_order.c: which messages to a rank were sent before which (halo/interpose/order.h), against all that
 * was ever sent; and the table by peer and tag (table.h).
 */
#include "halo/interpose/order.h"
#include "halo/interpose/table.h"
#include "tests/unit/hk_test.h"

#define MESSAGES 40000
#define PUTS     20

static uint16_t sent[MESSAGES]; /* the slot of each */
static uint64_t count[HK_PAIR_TAGS];
static _Alignas(struct hk_past) char room[HK_PAST_MOST];
static struct hk_past *const past = (struct hk_past *)(void *)room;

static size_t make(const struct hk_log *l, uint64_t first, int tags)
{
	size_t bytes = hk_past_make(past, l, first, (uint32_t)tags);

	for (uint32_t t = 0; t < past->tags; t++)
		hk_past_tags(past)[t] = (struct hk_past_tag){.tag = (int32_t)t, .sent = count[t]};
	return bytes;
}

/* For each put: as many of the other tags as were sent before it. */
static void check_past(const struct hk_log *l, const struct hk_order *put, uint32_t puts, int tags)
{
	static uint64_t before[HK_PAIR_TAGS], truth[HK_PAIR_TAGS];
	uint64_t first = UINT64_MAX;

	if (!l->slot) /* of one tag alone there is nothing to know */
		return;
	for (uint32_t k = 0; k < puts; k++)
		first = HK_MIN(first, put[k].at);
	size_t bytes = make(l, first, tags);

	CHECK(bytes > 0 && bytes <= HK_PAST_MOST);
	CHECK(hk_past_valid(past, bytes));
	for (uint32_t k = 0; k < puts; k++) {
		memset(truth, 0, sizeof(truth));
		for (uint64_t i = 0; i < put[k].at; i++)
			truth[sent[i]]++;
		hk_past_before(past, put[k].at, before);
		for (uint32_t t = 0; t < past->tags; t++)
			CHECK(t == sent[put[k].at] || before[t] == truth[t]);
	}
}

static void counts_are_those_of_all_that_was_sent(void)
{
	for (int round = 0; round < 12; round++) {
		int most = (int)hk_rng_range(&hk_test_rng, 1, round % 3 == 0 ? 2000 : 100),
		    tags = 1;
		struct hk_order put[PUTS];
		uint32_t puts = 0;
		struct hk_log l;

		hk_log_init(&l);
		memset(count, 0, sizeof(count));
		for (uint64_t k = 0; k < MESSAGES; k++) {
			if (l.sent >= l.turn) { /* what is older than that is over */
				uint64_t soon, forgotten = hk_log_turn(&l, &soon);
				uint32_t kept = 0;

				for (uint32_t p = 0; p < puts; p++)
					if (put[p].at >= forgotten)
						put[kept++] = put[p];
				puts = kept;
			}
			if (tags < most && hk_rng_below(&hk_test_rng, 20) == 0)
				CHECK(hk_log_fit(&l, ++tags));
			sent[k] = (uint16_t)hk_rng_below(&hk_test_rng, (uint64_t)tags);
			if (puts < PUTS && hk_rng_below(&hk_test_rng, 40) == 0)
				put[puts++] = (struct hk_order){k, l.sent};
			hk_log_note(&l, sent[k]);
			count[sent[k]]++;
			if (hk_rng_below(&hk_test_rng, 2500) == 0)
				check_past(&l, put, puts, tags);
		}
		check_past(&l, put, puts, tags);
		hk_log_free(&l);
	}
}

/* A put is known for three quarters of the log at least, and asked about first; and the log has an end. */
static void a_log_is_bounded(void)
{
	struct hk_log l;

	hk_log_init(&l);
	for (int tags = 2; tags <= HK_PAIR_TAGS; tags++)
		CHECK(hk_log_fit(&l, tags));
	CHECK_EQ(l.mask + 1, HK_LOG_MOST);
	CHECK(hk_log_fit(&l, HK_PAIR_TAGS));
	for (uint64_t before = 0, next = 0; l.sent < (uint64_t)4 * HK_LOG_MOST;) {
		hk_log_note(&l, 3);
		if (l.sent < l.turn)
			continue;
		uint64_t at = l.sent, soon, forgotten = hk_log_turn(&l, &soon);

		CHECK(forgotten + HK_LOG_MOST >= l.turn); /* until then it is all there */
		CHECK(l.turn - at == HK_LOG_MOST / 4 && forgotten >= before);
		CHECK(soon >= forgotten && at - soon <= HK_LOG_MOST / 2);
		CHECK(before == 0 || forgotten == next);
		before = forgotten;
		next = soon; /* of which all were asked about */
	}
	hk_log_free(&l);
}

/* What was sent before a put is told exactly, or not at all. */
static void a_put_that_the_log_has_forgotten_is_not_told(void)
{
	struct hk_log l;

	hk_log_init(&l);
	hk_log_note(&l, 0); /* of one tag alone: before the log */
	CHECK(hk_log_fit(&l, 2));
	for (uint32_t k = 0; k <= l.mask; k++)
		hk_log_note(&l, 1);
	CHECK_EQ(hk_past_make(past, &l, 1, 2), hk_past_bytes(2, l.mask + 1));
	CHECK_EQ(hk_past_make(past, &l, 0, 2), hk_past_bytes(2, l.mask + 1));
	hk_log_note(&l, 1);
	CHECK_EQ(hk_past_make(past, &l, 1, 2), 0);
	CHECK_EQ(hk_past_make(past, &l, 0, 2), 0);
	CHECK(hk_past_make(past, &l, 2, 2) > 0);
	CHECK_EQ(hk_past_make(past, &l, UINT64_MAX, 2), hk_past_bytes(2, 0));
	hk_log_free(&l);
}

static void what_the_other_end_tells_is_checked(void)
{
	struct hk_log l;

	hk_log_init(&l);
	hk_log_fit(&l, 2);
	memset(count, 0, sizeof(count));
	for (int k = 0; k < 10; k++) {
		hk_log_note(&l, k % 2);
		count[k % 2]++;
	}
	size_t bytes = make(&l, 0, 2);

	CHECK_EQ(past->logged, 10);
	CHECK(hk_past_valid(past, bytes));
	CHECK(!hk_past_valid(past, bytes - 1));
	CHECK(!hk_past_valid(past, bytes + 1));
	CHECK(!hk_past_valid(past, 4));
	uint16_t *last = (uint16_t *)(void *)(room + bytes - sizeof(*last));

	*last = 2;
	CHECK(!hk_past_valid(past, bytes));
	*last = 0;
	past->now = 9;
	CHECK(!hk_past_valid(past, bytes));
	past->now = 10;
	past->tags = HK_PAIR_TAGS + 1;
	CHECK(!hk_past_valid(past, hk_past_bytes(HK_PAIR_TAGS + 1, 10)));
	past->tags = 2;
	past->logged = HK_LOG_MOST + 1;
	past->now = HK_LOG_MOST + 1;
	CHECK(!hk_past_valid(past, hk_past_bytes(2, HK_LOG_MOST + 1)));
	hk_log_free(&l);
}

static void a_table_finds_what_was_added(void)
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
	CHECK(t.room >= 2 * t.count && t.room <= 4 * t.count);
	for (k = 0; hk_table_next(&t, &k);)
		found++;
	CHECK_EQ(found, added);
	hk_table_free(&t);
	CHECK(hk_table_find(&t, 1, 1) == NULL);
}

/* Tags one after the other, or in steps, and many ranks, must not meet in few places. */
static void a_table_spreads_what_programs_name(void)
{
	static const int step[] = {1, 2, 64, 128, 1000, 4096, 1 << 20};

	for (size_t s = 0; s < HK_ARRAY_LEN(step); s++) {
		struct hk_table t = {0};
		uint32_t longest = 0;
		char end;

		for (int k = 0; k < 2000; k++)
			CHECK(hk_table_add(&t, k % 4, k / 4 * step[s], &end));
		for (uint32_t k = 0, run = 0; k < t.room; k++) {
			run = t.at[k].end ? run + 1 : 0;
			longest = HK_MAX(longest, run);
		}
		CHECK(longest < 64);
		hk_table_free(&t);
	}
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"counts_are_those_of_all_that_was_sent", counts_are_those_of_all_that_was_sent},
		{"a_log_is_bounded", a_log_is_bounded},
		{"a_put_that_the_log_has_forgotten_is_not_told",
		 a_put_that_the_log_has_forgotten_is_not_told},
		{"what_the_other_end_tells_is_checked", what_the_other_end_tells_is_checked},
		{"a_table_finds_what_was_added", a_table_finds_what_was_added},
		{"a_table_spreads_what_programs_name", a_table_spreads_what_programs_name},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/wire/test_tag.c: the tag against its examples, and its rules on random numbers.
 * HK_TAG_VECTORS is the path of tests/vectors/tag.txt.
 */
#include "tests/support/hk_test.h"
#include "wire/tag.h"

static uint64_t mac_of(const char *text)
{
	uint8_t mac[6];

	CHECK_EQ(sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3],
			&mac[4], &mac[5]),
		 6);
	return hk_tag_from_mac(mac);
}

static void golden(const char *line)
{
	struct hk_tag want, got;
	unsigned job, function, source, destination;
	char kind[8], text[24];
	uint8_t mac[6];

	CHECK_MSG(sscanf(line, "tag %u %u %u %7s %u %23s", &job, &function, &source, kind,
			 &destination, text) == 6,
		  "unreadable: %s", line);
	want = (struct hk_tag){.job = (uint16_t)job,
			       .function = (uint8_t)function,
			       .source = (uint16_t)source,
			       .group = strcmp(kind, "group") == 0,
			       .destination = (uint16_t)destination};
	CHECK_MSG(hk_tag_pack(&want) == mac_of(text), "packs to %012" PRIx64 ": %s",
		  hk_tag_pack(&want), line);
	hk_tag_to_mac(hk_tag_pack(&want), mac);
	CHECK(hk_tag_from_mac(mac) == hk_tag_pack(&want));
	CHECK_MSG(hk_tag_unpack(mac_of(text), &got), "refused: %s", line);
	CHECK_EQ(got.job, want.job);
	CHECK_EQ(got.function, want.function);
	CHECK_EQ(got.source, want.source);
	CHECK_EQ(got.destination, want.destination);
	CHECK_EQ(got.group, want.group);
}

static void refused(const char *line)
{
	struct hk_tag t;
	char text[24], why[16];

	CHECK_EQ(sscanf(line, "refused %23s %15s", text, why), 2);
	CHECK_MSG(!hk_tag_unpack(mac_of(text), &t), "taken: %s", line);
	CHECK_EQ(hk_tag_is(mac_of(text)), strcmp(why, "prefix") != 0);
}

/* The masks that the constants form. */
static void match(const char *line)
{
	static const struct {
		const char *field;
		uint64_t mask;
	} known[] = {
		{"-", HK_TAG_PREFIX_MASK},
		{"group=1", HK_TAG_PREFIX_MASK | HK_TAG_GROUP},
		{"job=3", HK_TAG_PREFIX_MASK | (uint64_t)(HK_TAG_JOBS - 1) << HK_TAG_JOB_SHIFT},
	};
	char field[64], value[24], mask[24];

	CHECK_EQ(sscanf(line, "match %63s %23s %23s", field, value, mask), 3);
	CHECK((mac_of(value) & ~mac_of(mask)) == 0);
	for (size_t i = 0; i < HK_ARRAY_LEN(known); i++)
		if (strcmp(known[i].field, field) == 0)
			CHECK(known[i].mask == mac_of(mask));
}

TEST(vectors)
{
	FILE *f = fopen(HK_TAG_VECTORS, "r");
	unsigned tags = 0, others = 0;
	char line[256];

	CHECK_MSG(f != NULL, "%s is not there", HK_TAG_VECTORS);
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "tag ", 4) == 0) {
			golden(line);
			tags++;
		} else if (strncmp(line, "refused ", 8) == 0) {
			refused(line);
			others++;
		} else if (strncmp(line, "match ", 6) == 0) {
			match(line);
			others++;
		} else {
			CHECK_MSG(line[0] == '#', "unreadable: %s", line);
		}
	}
	fclose(f);
	CHECK_CMP(tags, >=, 10);
	CHECK_CMP(others, >=, 10);
}

TEST(there_and_back)
{
	for (int i = 0; i < 100000; i++) {
		struct hk_tag t = {
			.job = (uint16_t)hk_rng_range(&hk_test_rng, 1, HK_TAG_JOBS - 1),
			.function = (uint8_t)hk_rng_below(&hk_test_rng, HK_TAG_FUNCTION_MAX),
			.group = hk_rng_chance(&hk_test_rng, 500000),
			.source = (uint16_t)hk_rng_below(&hk_test_rng, HK_TAG_RANKS),
			.destination = (uint16_t)hk_rng_below(&hk_test_rng, HK_TAG_RANKS)};
		struct hk_tag back;

		CHECK(hk_tag_unpack(hk_tag_pack(&t), &back));
		CHECK(hk_tag_pack(&back) == hk_tag_pack(&t));
		CHECK_EQ(back.source, t.source);
		CHECK_EQ(back.destination, t.destination);
	}
}

/* A random address is a tag only if it has the prefix, and is always locally administered. */
TEST(strangers)
{
	unsigned tags = 0;

	for (int i = 0; i < 1000000; i++) {
		uint64_t a = hk_rng_next(&hk_test_rng) & HK_TAG_BITS;
		struct hk_tag t;

		if (!hk_tag_unpack(a, &t))
			continue;
		tags++;
		CHECK((a >> 32 & 0xfeff) == 0x6648);
	}
	CHECK_CMP(tags, <=, 100); /* we expect 30 */
}

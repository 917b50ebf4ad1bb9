/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/openmpi/test_modex.c: what a rank publishes is not believed before it is looked at.
 */
#include "openmpi/btl/modex.h"
#include "tests/support/hk_test.h"

static struct hk_modex good(void)
{
	return (struct hk_modex){
		.magic = HK_MODEX_MAGIC,
		.version = HK_MODEX_VERSION,
		.path_count = 2,
		.path = {{.frame_max = 1500}, {.frame_max = 9000}},
		.host = "node1",
	};
}

TEST(as_published)
{
	struct hk_modex m = good(), got;

	CHECK_EQ(hk_modex_read(&m, sizeof(m), &got), HK_MODEX_OK);
	CHECK(memcmp(&m, &got, sizeof(m)) == 0);
	m.path_count = HK_MODEX_PATHS;
	CHECK_EQ(hk_modex_read(&m, sizeof(m), &got), HK_MODEX_OK);
}

TEST(numbers_of_ports)
{
	static const uint8_t wrong[] = {0, HK_MODEX_PATHS + 1, 200, 255};

	for (unsigned i = 0; i < HK_ARRAY_LEN(wrong); i++) {
		struct hk_modex m = good(), got;

		m.path_count = wrong[i];
		CHECK_EQ(hk_modex_read(&m, sizeof(m), &got), HK_MODEX_PATHS_MALFORMED);
		CHECK_EQ(got.path_count, wrong[i]);
		CHECK(strcmp(got.host, "node1") == 0);
	}
}

TEST(strangers)
{
	struct hk_modex m = good(), got;

	CHECK_EQ(hk_modex_read(NULL, sizeof(m), &got), HK_MODEX_STRANGE);
	CHECK_EQ(hk_modex_read(&m, sizeof(m) - 1, &got), HK_MODEX_VERSION_DIFFERS);
	CHECK_EQ(hk_modex_read(&m, 7, &got), HK_MODEX_STRANGE);
	m.version++;
	CHECK_EQ(hk_modex_read(&m, sizeof(m), &got), HK_MODEX_VERSION_DIFFERS);
	CHECK_EQ(got.version, HK_MODEX_VERSION + 1);
	m.magic++;
	CHECK_EQ(hk_modex_read(&m, sizeof(m), &got), HK_MODEX_STRANGE);
}

/* Of any length, and with any bytes behind a good beginning; sanitizers see what is read. */
TEST(any_bytes)
{
	for (int i = 0; i < 20000; i++) {
		size_t len = (size_t)hk_rng_below(&hk_test_rng, 2 * sizeof(struct hk_modex));
		uint8_t *data = malloc(len + 1);
		size_t begin = (size_t)hk_rng_below(&hk_test_rng, 8);
		struct hk_modex m = good(), got;

		CHECK(data != NULL);
		for (size_t k = 0; k < len; k++)
			data[k] = (uint8_t)hk_rng_next(&hk_test_rng);
		memcpy(data, &m, HK_MIN(len, begin));
		if (hk_modex_read(data, len, &got) == HK_MODEX_OK)
			CHECK(got.path_count >= 1 && got.path_count <= HK_MODEX_PATHS);
		CHECK(memchr(got.host, '\0', sizeof(got.host)) != NULL);
		free(data);
	}
	for (int i = 0; i < 20000; i++) {
		struct hk_modex m = good(), got;

		((uint8_t *)&m)[hk_rng_below(&hk_test_rng, sizeof(m))] = (uint8_t)hk_rng_next(
			&hk_test_rng);
		if (hk_modex_read(&m, sizeof(m), &got) == HK_MODEX_OK)
			CHECK(got.path_count >= 1 && got.path_count <= HK_MODEX_PATHS);
		CHECK(memchr(got.host, '\0', sizeof(got.host)) != NULL);
	}
}

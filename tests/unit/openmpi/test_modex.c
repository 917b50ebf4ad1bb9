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

/* Of the ranks' ports, written as kinds: e, Ethernet; u, UDP; and the network behind an e. */
static struct hk_modex with_ports(const char *ports)
{
	struct hk_modex m = good();

	m.path_count = 0;
	for (; *ports; ports++) {
		if (*ports >= '0' && *ports <= '9')
			m.path[m.path_count - 1].network = (uint64_t)(*ports - '0');
		else
			m.path[m.path_count++].udp = *ports == 'u';
	}
	return m;
}

static void check_pairs(const char *own, const char *peer, const char *want)
{
	struct hk_modex a = with_ports(own), b = with_ports(peer);
	int to[HK_MODEX_PATHS];
	unsigned n = hk_modex_pair(&a, &b, to), pairs = 0;

	for (unsigned i = 0; i < a.path_count; i++) {
		CHECK_MSG(to[i] == (want[i] == '-' ? -1 : want[i] - '0'), "%s and %s: port %u", own,
			  peer, i);
		pairs += to[i] >= 0;
	}
	CHECK_EQ(n, pairs);
}

TEST(ports_of_one_kind_reach_each_other)
{
	check_pairs("ee", "ee", "01");
	check_pairs("ee", "e", "0-");
	check_pairs("e", "ee", "0");
	check_pairs("eu", "eu", "01");
	check_pairs("eu", "u", "-0");
	check_pairs("u", "eu", "1");
	check_pairs("eu", "ue", "10");
	check_pairs("euu", "uue", "201");
	check_pairs("e", "u", "-");
	/* in different networks: only if nothing else reaches */
	check_pairs("e1u", "e2u", "-1");
	check_pairs("e1u", "e1u", "01");
	check_pairs("e1u", "eu", "01");
	check_pairs("e1", "e2", "0");
	check_pairs("e1u", "e2", "0-");
	check_pairs("e1e2", "e1e3", "0-");
}

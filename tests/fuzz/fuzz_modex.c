/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/fuzz_modex.c: arbitrary bytes as the address that another rank has published.
 *
 * In a second pass the target corrects what says that it is one of this version, so that the fuzzer
 * gets past that. A rank must believe only values within bounds, and pair only ports that exist.
 */
#include "openmpi/btl/modex.h"
#include "tests/support/hk_test.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_and_pair(const uint8_t *data, size_t size)
{
	struct hk_modex own = {.path_count = HK_MODEX_PATHS}, peer;
	int to[HK_MODEX_PATHS];

	for (unsigned i = 0; i < HK_MODEX_PATHS; i++)
		own.path[i] = (struct hk_modex_path){.udp = i % 2, .network = i};
	enum hk_modex_status status = hk_modex_read(data, size, &peer);

	CHECK(memchr(peer.host, '\0', sizeof(peer.host)) != NULL);
	if (status != HK_MODEX_OK)
		return;
	CHECK(size == sizeof(peer) && peer.path_count >= 1 && peer.path_count <= HK_MODEX_PATHS);
	unsigned pairs = hk_modex_pair(&own, &peer, to), found = 0;

	for (unsigned i = 0; i < HK_MODEX_PATHS; i++) {
		CHECK(to[i] < (int)peer.path_count);
		found += to[i] >= 0;
	}
	CHECK_EQ(pairs, found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hk_modex right;

	read_and_pair(data, size);
	if (size < sizeof(right))
		return 0;
	memcpy(&right, data, sizeof(right));
	right.magic = HK_MODEX_MAGIC;
	right.version = HK_MODEX_VERSION;
	right.path_count = (uint8_t)(1 + right.path_count % HK_MODEX_PATHS);
	read_and_pair((const uint8_t *)&right, sizeof(right));
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/fuzz_fi_message.c: arbitrary bytes as a message of a peer to the libfabric provider.
 * The target writes again what it has read, as the same bytes. It carries out atomic operations
 * that pass their check, on memory that is just large enough.
 */
#include "libfabric/atomic_ops.h"
#include "tests/support/hk_test.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES_MAX 4096 /* the provider limits the count as well */

static void carry_out(const struct hk_fi_prefix *p, const char *values, size_t len)
{
	const struct hk_fi_atomic *a = &p->atomic;
	size_t bytes = a->count * hk_fi_atomic_size(a->type);
	bool fetch = p->header.flags & HK_FI_FETCH;

	if (bytes > BYTES_MAX || !hk_fi_atomic_check(a, fetch, len))
		return;
	char *at = calloc(1, bytes), *old = malloc(bytes), *first = calloc(1, bytes);

	CHECK(at && old && first);
	CHECK((uintptr_t)at % hk_fi_atomic_align(a->type) == 0);
	hk_fi_atomic_apply(a->type, a->op, at, a->count, values, values + bytes,
			   fetch ? old : NULL);
	if (fetch && hk_fi_atomic_size(a->type) <= 8) /* others may have unused bytes */
		CHECK(memcmp(old, first, bytes) == 0);
	free(at);
	free(old);
	free(first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (enum hk_fi_am am = HK_FI_AM_TAGGED; am <= HK_FI_AM_ATOMIC; am++) {
		struct hk_fi_prefix p;
		char again[HK_FI_PREFIX_MAX];
		size_t len = hk_fi_prefix_read(data, size, am, &p);

		CHECK(len <= size);
		if (!len)
			continue;
		CHECK_EQ(hk_fi_prefix_write(&p, am, again), len);
		CHECK(memcmp(again, data, len) == 0);
		if (am == HK_FI_AM_ATOMIC)
			carry_out(&p, (const char *)data + len, size - len);
	}
	return 0;
}

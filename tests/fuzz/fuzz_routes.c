/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/fuzz_routes.c: arbitrary bytes as a route file, as a table in MRT, and as a packet's
 * header.
 *
 * The first byte chooses. The bytes lie in memory of exactly their size, so that a sanitizer
 * reports each read beyond it.
 */
#include "devmem/router/header.h"
#include "devmem/router/routes.h"
#include "tests/support/hk_test.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_routes(const struct hk_routes *r)
{
	for (size_t i = 0; i < r->routes; i++) {
		const struct hk_route *t = &r->route[i];
		CHECK(t->family == 4 || t->family == 6);
		CHECK(t->depth <= (t->family == 4 ? 32 : 128) && t->hop < r->hops);
		CHECK(hk_prefix_clean(t->prefix, t->family, t->depth));
	}
	for (uint32_t i = HK_HOP_KINDS; i < r->hops; i++)
		CHECK(r->hop[i].kind < HK_HOP_KINDS);
}

static void header(const uint8_t *f, size_t len, unsigned frame)
{
	unsigned avail = (unsigned)HK_MIN(len, (size_t)HK_HEADER_MAX);
	struct hk_ip ip;

	for (unsigned family = 4; family <= 6; family += 2) {
		enum hk_router_result v = family == 4 ? hk_ip4_read(f, avail, frame, &ip)
						      : hk_ip6_read(f, avail, frame, &ip);
		CHECK(v < HK_RESULTS);
		if (v != HK_RESULT_FORWARD)
			continue;
		CHECK(ip.family == family && ip.length + (unsigned)HK_ETHER_LEN <= frame);
		CHECK(ip.length >= ip.header && (unsigned)HK_ETHER_LEN + ip.header <= avail);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hk_error err = {""};
	struct hk_routes *r = NULL;

	if (size < 3)
		return 0;
	size_t len = size - 3;
	uint8_t *bytes = malloc(len ? len : 1);
	CHECK(bytes != NULL);
	memcpy(bytes, data + 3, len);
	if (data[0] % 4 == 0) {
		/* the input must not name another file of this machine */
		if (!memmem(bytes, len, "table", 5) &&
		    hk_routes_parse((char *)bytes, len, "input", 2, &r, &err) == 0)
			check_routes(r);
	} else if (data[0] % 4 == 1) {
		CHECK(hk_routes_new("input", 1, &r, &err) == 0);
		if (hk_routes_mrt(r, bytes, len, "input", UINT32_MAX, &err) == 0)
			check_routes(r);
	} else {
		header(bytes, len, (unsigned)len + (data[0] % 4 == 2 ? 0 : data[1] << 8 | data[2]));
	}
	CHECK(err.text[0] == '\0' || strstr(err.text, "input"));
	hk_routes_free(r);
	free(bytes);
	return 0;
}

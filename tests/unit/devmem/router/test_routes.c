/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/devmem/router/test_routes.c: route files, tables and headers; no DPDK.
 */
#include "devmem/router/generate.h"
#include "devmem/router/header.h"
#include "devmem/router/routes.h"
#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"

#include <unistd.h>

static int parse(const char *text, struct hk_routes **r, struct hk_error *err)
{
	err->text[0] = '\0';
	return hk_routes_parse(text, strlen(text), "f", 2, r, err);
}

/* Each line is wrong. The message names the place, the mistake and the fix. */
TEST(wrong_lines)
{
	static const struct {
		const char *text, *message;
	} bad[] = {
		{"rout 10.0.0.0/8 via 10.0.0.1\n", "f:1: 'rout'"},
		{"# x\nroute 10.0.0.0/8\n", "f:2: malformed route statement; fix: write `route"},
		{"route 10.0.0.0/33 blackhole\n", "not a prefix"},
		{"route 10.0.0.0 blackhole\n", "not a prefix"},
		{"route 10.0.0.0/08 blackhole\n", "not a prefix"},
		{"route 10.0.0.0/-1 blackhole\n", "not a prefix"},
		{"route 10.1.0.0/8 blackhole\n", "bits set beyond"},
		{"route fd00::1/64 blackhole\n", "bits set beyond"},
		{"route 127.1.0.0/16 blackhole\n", "127.0.0.0/8 (loopback, RFC 1122"},
		{"route 224.0.0.0/4 blackhole\n", "multicast"},
		{"route 10.0.0.0/8 via fd00::1 port 0\n", "not an IPv4 address"},
		{"route 10.0.0.0/8 via 10.0.0.1 port 2\n",
		 "port 2 is out of range; fix: give one from 0 to 1"},
		{"route 10.0.0.0/8 via 10.0.0.1 port x\n", "not a number"},
		{"route 10.0.0.0/8 via 10.0.0.1 metric 5\n", "`via` needs"},
		{"route 10.0.0.0/8 nowhere\n", "'nowhere'"},
		{"route 10.0.0.0/8 blackhole now\n", "'blackhole' is not understood"},
		{"route 10.0.0.0/8 via 10.9.9.9\n",
		 "f:1: the next hop 10.9.9.9 cannot be resolved"},
		{"route 10.0.0.0/8 via 11.9.9.9\n",
		 "f:1: the next hop 11.9.9.9 cannot be resolved"},
		{"route 10.0.0.0/8 blackhole\nroute 10.0.0.0/8 unreachable\n",
		 "another route to 10.0.0.0/8"},
		{"address 10.0.0.1 port 0\n", "not an address with a length"},
		{"address 10.0.0.1/4 port 0\n", "not an address with a length"},
		{"address 127.0.0.1/8 port 0\n", "loopback"},
		{"address 10.0.0.1/24 port 0\naddress 10.0.0.1/16 port 1\n", "given twice"},
		{"neighbour 10.0.0.1 port 0 mac 01:00:00:00:00:01\n", "not a station's MAC"},
		{"neighbour 10.0.0.1 port 0 mac 02:00:00:00:00\n", "not a station's MAC"},
		{"neighbour 10.0.0.1 port 0 mac 02:00:00:00:00:01:02\n", "not a station's MAC"},
		{"neighbour 224.0.0.1 port 0 mac 02:00:00:00:00:01\n",
		 "which no neighbour can have"},
		{"neighbour 10.0.0.1 port 0 mac 02:00:00:00:00:01\n"
		 "neighbour 10.0.0.1 port 0 mac 02:00:00:00:00:02\n",
		 "given twice"},
		{"port 0 mtu 100\n", "mtu 100 is out of range; fix: give one from 576"},
		{"port 0 mtu 1500\nport 0 mtu 1400\n", "mtu already"},
		{"port 5 mtu 1500\n", "port 5"},
		{"port 0 speed 10\n", "'speed'"},
		{"table /nonexistent/table\n", "f:1: /nonexistent/table: No such file"},
		{"table\n", "write `table FILE`"},
		{"a b c d e f g h i\n", "more than 8 words"},
	};

	for (size_t i = 0; i < HK_ARRAY_LEN(bad); i++) {
		struct hk_routes *r = (void *)1;
		int rc = parse(bad[i].text, &r, ERR);
		CHECK_MSG(rc < 0 && r == NULL, "accepted: %s", bad[i].text);
		CHECK_HAS(hk_test_err.text, bad[i].message, "fix: ");
	}
}

TEST(longest_lines)
{
	struct hk_routes *r;
	char text[700];

	memset(text, ' ', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	memcpy(text, "port", 4);
	CHECK(parse(text, &r, ERR) < 0);
	CHECK_HAS(hk_test_err.text, "f:1: longer than 511");
	text[5] = '#'; /* a comment may have any length */
	CHECK(parse(text, &r, ERR) < 0);
	CHECK_HAS(hk_test_err.text, "f:1: malformed port statement; fix: write `port");
	CHECK(hk_routes_parse("port\0 0", 7, "f", 2, &r, ERR) < 0);
	CHECK_HAS(hk_test_err.text, "zero byte");
}

static const struct hk_route *find(const struct hk_routes *r, const char *prefix)
{
	uint8_t address[16];
	int depth;
	unsigned family = hk_prefix_parse(prefix, address, &depth);

	for (size_t i = 0; i < r->routes; i++)
		if (r->route[i].family == family && r->route[i].depth == depth &&
		    memcmp(r->route[i].prefix, address, 16) == 0)
			return &r->route[i];
	FAIL("no route to %s", prefix);
}

TEST(what_is_implied)
{
	struct hk_routes *r;

	CHECK_OK(parse("address 10.0.0.1/24 port 1 # a comment\n\n"
		       "route 10.2.0.0/16 via 10.1.0.7\n"
		       "route 10.1.0.0/16 via 10.0.0.9\n"
		       "neighbour 10.0.0.9 port 1 mac 02:00:00:00:00:09\n",
		       &r, ERR));
	CHECK_EQ(r->hop[find(r, "10.0.0.1/32")->hop].kind, HK_HOP_LOCAL);
	CHECK_EQ(r->hop[find(r, "10.0.0.0/24")->hop].kind, HK_HOP_GLEAN);
	CHECK_EQ(r->hop[find(r, "10.0.0.0/32")->hop].kind, HK_HOP_BROADCAST);
	CHECK_EQ(r->hop[find(r, "10.0.0.255/32")->hop].kind, HK_HOP_BROADCAST);
	CHECK_EQ(r->hop[find(r, "127.0.0.0/8")->hop].kind, HK_HOP_MARTIAN);
	CHECK_EQ(r->hop[find(r, "fe80::/10")->hop].kind, HK_HOP_LINK_LOCAL);
	/* resolved through another route to the neighbour whose MAC address is in the file */
	const struct hk_route_hop *h = &r->hop[find(r, "10.2.0.0/16")->hop];
	CHECK(h->kind == HK_HOP_FORWARD && h->port == 1 && h->has_mac && h->mac[5] == 9);
	CHECK_EQ(h->address[3], 9);
	for (size_t i = 1; i < r->routes; i++)
		CHECK(r->route[i - 1].family < r->route[i].family ||
		      memcmp(r->route[i - 1].prefix, r->route[i].prefix, 16) <= 0);
	hk_routes_free(r);
}

/* A generated table gives the same routes through text and through MRT. */
TEST(text_and_mrt)
{
	const char *path = tmp_file("");
	char file[128];
	struct hk_table_prefix *t;
	struct hk_routes *r[2];
	unsigned lengths[33] = {0};

	CHECK_OK(hk_table_make(hk_test_now.seed, 20000, 300, &t, ERR));
	for (unsigned mrt = 0; mrt < 2; mrt++) {
		FILE *f = fopen(path, "w");
		CHECK(f && hk_table_write(t, 20000, mrt, f) && fclose(f) == 0);
		snprintf(file, sizeof(file), "address 198.18.0.1/16 port 0\ntable %s\n", path);
		CHECK_OK(parse(file, &r[mrt], ERR));
	}
	CHECK_EQ(r[0]->routes, r[1]->routes);
	for (size_t i = 0; i < r[0]->routes; i++) {
		const struct hk_route *a = &r[0]->route[i], *b = &r[1]->route[i];
		CHECK(memcmp(a->prefix, b->prefix, 16) == 0 && a->depth == b->depth &&
		      a->family == b->family);
		CHECK(memcmp(r[0]->hop[a->hop].address, r[1]->hop[b->hop].address, 16) == 0);
	}
	for (unsigned i = 0; i < 20000; i++) {
		lengths[t[i].depth]++;
		if (i)
			CHECK(t[i - 1].address < t[i].address ||
			      (t[i - 1].address == t[i].address && t[i - 1].depth < t[i].depth));
	}
	CHECK(lengths[24] > 11000 && lengths[24] < 14000 && lengths[22] > 2000 &&
	      lengths[16] > 200);
	hk_routes_free(r[0]);
	hk_routes_free(r[1]);
	free(t);
	CHECK_EQ(unlink(path), 0);
}

TEST(hostile_mrt)
{
	/* a peer index of no peers, then one IPv4 prefix */
	static const uint8_t valid[] = {0, 0,  0,  0, 0,    13, 0, 1, 0,    0, 0, 8,  1, 1, 1,
					1, 0,  0,  0, 0, /* peers */
					0, 0,  0,  0, 0,    13, 0, 2, 0,    0, 0, 25, 0, 0, 0,
					0, 17, 10, 1, 0xff, 0,  1, /* /17 */
					0, 0,  0,  0, 0,    0,  0, 7, 0x40, 3, 4, 10, 0, 0, 1};
	struct hk_routes *r;
	uint8_t copy[sizeof(valid)];
	size_t accepted = 0;

	CHECK(hk_routes_is_mrt(valid, sizeof(valid)) && !hk_routes_is_mrt(valid, 11));
	CHECK_OK(hk_routes_new("f", 1, &r, ERR));
	CHECK_OK(hk_routes_mrt(r, valid, sizeof(valid), "m", UINT32_MAX, ERR));
	CHECK_EQ(r->routes, 1);
	CHECK(r->route[0].depth == 17 &&
	      r->route[0].prefix[2] == 0x80); /* bits beyond are dropped */
	/* a dump that is cut inside a record is refused with the record's number */
	for (size_t n = 1; n < sizeof(valid); n++) {
		if (n == 20)
			continue;
		CHECK(hk_routes_mrt(r, valid, n, "m", UINT32_MAX, ERR) < 0);
		CHECK_HAS(hk_test_err.text, n < 20 ? "record 1" : "record 2");
	}
	for (unsigned i = 0; i < 20000; i++) {
		memcpy(copy, valid, sizeof(copy));
		for (unsigned k = 0; k < 2; k++)
			copy[20 + hk_rng_below(&hk_test_rng, sizeof(copy) - 20)] =
				(uint8_t)hk_rng_next(&hk_test_rng);
		accepted += hk_routes_mrt(r, copy, sizeof(copy), "m", UINT32_MAX, ERR) == 0;
	}
	CHECK(accepted > 100 && accepted < 19000);
	hk_routes_free(r);
}

/* For all checksums and TTLs, the update equals a new computation (RFC 1624). 0 stands for 0xffff,
 * because no header sums to zero. */
TEST(checksum_updates)
{
	uint8_t h[20] = {0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2};

	for (unsigned i = 0; i < 65536; i++) {
		for (unsigned ttl = 2; ttl < 256; ttl += 11) {
			uint16_t sum = 0, again = 0;
			h[4] = (uint8_t)(i >> 8);
			h[5] = (uint8_t)i;
			h[8] = (uint8_t)ttl;
			memcpy(h + 10, &again, 2);
			sum = (uint16_t)~hk_sum(h, 20, 0);
			memcpy(h + 10, &sum, 2);
			CHECK_EQ(hk_sum20(h), 0xffff);
			CHECK_EQ(hk_sum(h, 20, 0), 0xffff);
			h[8]--;
			memcpy(h + 10, &again, 2);
			again = (uint16_t)~hk_sum(h, 20, 0);
			CHECK_EQ(hk_checksum_ttl(sum), again);
			memcpy(h + 10, &again, 2);
			CHECK_EQ(hk_sum20(h), 0xffff);
		}
	}
}

TEST(special_addresses)
{
	static const struct {
		const char *address;
		bool source;
	} known[] = {{"0.0.0.0", false},
		     {"10.0.0.1", true},
		     {"127.0.0.1", false},
		     {"169.254.7.7", false},
		     {"192.0.0.9", true},
		     {"192.0.0.1", true},
		     {"192.0.0.100", false},
		     {"192.0.2.1", false},
		     {"192.168.0.1", true},
		     {"198.18.0.1", true},
		     {"198.51.100.1", false},
		     {"203.0.113.200", false},
		     {"203.0.114.1", true},
		     {"224.0.0.1", false},
		     {"239.255.255.255", false},
		     {"240.0.0.1", false},
		     {"255.255.255.255", false},
		     {"::", false},
		     {"::1", false},
		     {"::2", true},
		     {"::ffff:1.2.3.4", false},
		     {"2001::1", true},
		     {"2001:1::1", true},
		     {"2001:1::9", false},
		     {"2001:2::1", true},
		     {"2001:db8::1", false},
		     {"2001:db9::1", true},
		     {"3fff::1", false},
		     {"3fff:1000::1", true},
		     {"fd00::1", true},
		     {"fe80::1", false},
		     {"fec0::1", true},
		     {"ff02::1", false}};

	for (size_t i = 0; i < HK_ARRAY_LEN(known); i++) {
		uint8_t address[16];
		int depth;
		unsigned family = hk_prefix_parse(known[i].address, address, &depth);
		CHECK_MSG(hk_source_ok(family, address) == known[i].source, "%s", known[i].address);
	}
	/* the first-byte table leads to every entry */
	for (unsigned family = 4; family <= 6; family += 2) {
		size_t n;
		const struct hk_special *s = hk_special_table(family, &n);
		for (size_t i = 0; i < n; i++) {
			CHECK((family == 4 ? hk_special_first4
					   : hk_special_first6)[s[i].address[0]]);
			CHECK(hk_prefix_clean(s[i].address, family, s[i].depth));
			CHECK(strncmp(s[i].rfc, "RFC ", 4) == 0);
		}
	}
}

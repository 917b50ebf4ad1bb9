/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_udp_peers.c: names of addresses of IPv6, and the way back.
 */
#include "port/udp_peers.h"
#include "tests/support/hk_test.h"

#include <string.h>

static union hk_inet_addr address(uint32_t net, uint32_t host, uint16_t port)
{
	union hk_inet_addr at = {.v6 = {.sin6_family = AF_INET6, .sin6_port = port}};

	memcpy(&at.v6.sin6_addr, &net, sizeof(net));
	memcpy((char *)&at.v6.sin6_addr + 12, &host, sizeof(host));
	return at;
}

static bool is(const union hk_inet_addr *found, const union hk_inet_addr *at)
{
	return found && memcmp(found, at, sizeof(*at)) == 0;
}

/* Addresses that differ in one place only, as those of a cluster do. */
TEST(every_peer_is_found)
{
	struct hk_udp_peers p = {0};
	uint8_t name[6];

	for (uint32_t i = 0; i < 20000; i++) {
		union hk_inet_addr at = address(0xfd, i / 3, (uint16_t)(7 + i % 3));

		CHECK_EQ(hk_udp_peers_add(&p, &at), 0);
		CHECK_EQ(hk_udp_peers_add(&p, &at), 0);
	}
	CHECK_EQ(p.count, 20000);
	for (uint32_t i = 0; i < 20000; i++) {
		union hk_inet_addr at = address(0xfd, i / 3, (uint16_t)(7 + i % 3));

		hk_udp_name(&at, name);
		CHECK(is(hk_udp_peers_find(&p, name), &at));
		CHECK_EQ(name[0] & 3, 2);
	}
	union hk_inet_addr other = address(0xfe, 0, 7);

	hk_udp_name(&other, name);
	CHECK(hk_udp_peers_find(&p, name) == NULL);
	hk_udp_peers_free(&p);
	CHECK(hk_udp_peers_find(&p, name) == NULL);
}

/* However many strangers send, the latest is remembered, and peers stay. */
TEST(strangers_displace_each_other_alone)
{
	struct hk_udp_peers p = {0};
	union hk_inet_addr peer = address(1, 1, 1);
	uint8_t name[6], of_peer[6];

	CHECK_EQ(hk_udp_peers_add(&p, &peer), 0);
	hk_udp_name(&peer, of_peer);
	for (uint32_t i = 0; i < 10000; i++) {
		union hk_inet_addr at = address(2, i, 9);

		hk_udp_name(&at, name);
		hk_udp_peers_heard(&p, name, &at);
		CHECK(is(hk_udp_peers_find(&p, name), &at));
		CHECK(is(hk_udp_peers_find(&p, of_peer), &peer));
		hk_udp_peers_heard(&p, of_peer, &at); /* as if its address had this name */
		CHECK(is(hk_udp_peers_find(&p, of_peer), &peer));
	}
	CHECK_EQ(p.count, 1);
	hk_udp_peers_free(&p);
}

TEST(names_of_ipv4_are_the_address)
{
	union hk_inet_addr at = {.v4 = {.sin_family = AF_INET, .sin_port = htons(0x1234)}};
	static const uint8_t expected[6] = {10, 78, 0, 2, 0x12, 0x34};
	uint8_t name[6];

	memcpy(&at.v4.sin_addr, expected, 4);
	hk_udp_name(&at, name);
	CHECK(memcmp(name, expected, 6) == 0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_name.c: names of endpoints: what is in them, and which are refused.
 */
#include "libfabric/name.h"

#include "tests/support/hk_test.h"

#include <string.h>

static const struct hk_hosted_node node = {
	.node_id = UINT64_C(0x1122334455667788), .slot = 2, .slots = 64, .eager = 4};

static struct hk_fi_name name_of(enum hk_ctl_mode mode)
{
	struct hk_fi_name n = {.version = HK_FI_NAME_VERSION,
			       .kind = HK_PROTECTION_SEAL | HK_FI_NAME_WIRE,
			       .endpoint = 7,
			       .frame_max = 9000,
			       .address = {2, 1, 2, 3, 4, 5}};

	if (mode)
		hk_fi_name_set_hosted(&n, mode, &node);
	return n;
}

TEST(says_where_a_hosted_worker_is)
{
	for (enum hk_ctl_mode mode = 0; mode < HK_CTL_MODES; mode++) {
		const struct hk_fi_name n = name_of(mode);
		const struct hk_hosted_node got = hk_fi_name_hosted(&n);
		struct hk_peer_addr addr;

		CHECK_EQ(hk_fi_name_mode(&n), mode);
		CHECK_EQ(n.kind & HK_FI_NAME_PROT, HK_PROTECTION_SEAL);
		CHECK(n.kind & HK_FI_NAME_WIRE);
		CHECK(!hk_fi_name_check(&n, &n));
		hk_fi_name_address(&n, (int[]){3}, 1, "it", &addr);
		CHECK_EQ(memcmp(addr.mac, n.address, 6), 0);
		CHECK_EQ(addr.port, 3);
		if (!mode)
			continue;
		CHECK(got.node_id == node.node_id && got.slot == node.slot);
		CHECK(got.slots == node.slots && got.eager == node.eager);
	}
}

/* Two of three MACs lead to ports of ours. */
TEST(has_several_ports)
{
	struct hk_fi_name n = name_of(0);
	struct hk_peer_addr addr;

	n.kind = 0;
	n.more = 2;
	for (unsigned i = 0; i < sizeof(n.address); i++)
		n.address[i] = (uint8_t)i;
	CHECK_EQ(hk_fi_name_ports(&n), HK_FI_NAME_MACS);
	CHECK(!hk_fi_name_check(&n, &n));
	hk_fi_name_address(&n, (int[]){5, 7}, 2, "it", &addr);
	CHECK(addr.port == 5 && addr.more == 1 && addr.path[0].port == 7);
	CHECK_EQ(memcmp(addr.mac, n.address, 6), 0);
	CHECK_EQ(memcmp(addr.path[0].mac, n.address + 6, 6), 0);
	CHECK_EQ(addr.path[0].frame_max, n.frame_max);
}

static void refused(const struct hk_fi_name *own, const struct hk_fi_name *peer, const char *says)
{
	const char *why = hk_fi_name_check(own, peer);

	CHECK(why != NULL);
	CHECK_HAS(why, says);
	CHECK_HAS(why, "fix:");
}

TEST(refuses_another_mode)
{
	for (enum hk_ctl_mode own = 0; own < HK_CTL_MODES; own++)
		for (enum hk_ctl_mode peer = 0; peer < HK_CTL_MODES; peer++) {
			const struct hk_fi_name a = name_of(own), b = name_of(peer);

			if (own != peer)
				refused(&a, &b, "FI_HIKYAKU_MODE");
		}
}

/* Names come from outside. */
TEST(refuses_slots_that_cannot_be)
{
	const struct hk_hosted_node bad[] = {
		{.node_id = 0, .slot = 0, .slots = 1},
		{.node_id = 1, .slot = 0, .slots = 0},
		{.node_id = 1, .slot = 4, .slots = 4},
		{.node_id = 1, .slot = 0, .slots = HK_CTL_MAX_SLOTS + 1},
		{.node_id = 1, .slot = 0, .slots = 1, .eager = HK_CTL_MAX_EAGER + 1},
	};
	const struct hk_fi_name own = name_of(HK_CTL_HYBRID);

	for (size_t i = 0; i < HK_ARRAY_LEN(bad); i++) {
		struct hk_fi_name peer = name_of(0);

		hk_fi_name_set_hosted(&peer, HK_CTL_HYBRID, &bad[i]);
		refused(&own, &peer, "a slot that no hikyakud has");
	}
}

TEST(refuses_more_ports_than_it_has_room_for)
{
	static const struct {
		uint8_t kind;
		unsigned most;
	} kinds[] = {{0, 3}, {HK_FI_NAME_IP6, 1}, {HK_FI_NAME_WIRE, 4}};

	for (size_t i = 0; i < HK_ARRAY_LEN(kinds); i++)
		for (unsigned count = 1; count <= HK_FI_NAME_PORTS; count++) {
			struct hk_fi_name own = name_of(0), peer = own;

			own.kind = kinds[i].kind;
			peer.kind = kinds[i].kind;
			peer.more = (uint8_t)((count - 1) & 3);
			if (count > kinds[i].most)
				refused(&own, &peer, "more ports than a name has");
			else
				CHECK(!hk_fi_name_check(&own, &peer));
		}
}

TEST(refuses_what_differs)
{
	const struct hk_fi_name own = name_of(0);
	struct hk_fi_name peer = own;

	peer.version++;
	refused(&own, &peer, "version");
	peer = own;
	peer.key_check++;
	refused(&own, &peer, "FI_HIKYAKU_KEY");
	peer = own;
	peer.kind ^= HK_PROTECTION_SEAL;
	refused(&own, &peer, "FI_HIKYAKU_PROTECTION");
	peer = own;
	peer.kind ^= HK_FI_NAME_WIRE;
	refused(&own, &peer, "FI_HIKYAKU_PORT");
}

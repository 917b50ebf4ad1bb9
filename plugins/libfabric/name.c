/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/name.c: names of endpoints, checked before they are used.
 */
#include "libfabric/name.h"

#include <string.h>

#define MAC_LEN 6 /* `address` begins with it */

uint8_t hk_fi_key_check(uint32_t key)
{
	return (uint8_t)(key ^ key >> 8 ^ key >> 16 ^ key >> 24);
}

void hk_fi_name_set_hosted(struct hk_fi_name *name, enum hk_ctl_mode mode,
			   const struct hk_hosted_node *node)
{
	uint8_t *at = name->address + MAC_LEN;

	name->kind |= (uint8_t)(mode << 2);
	memcpy(at, &node->node_id, sizeof(node->node_id));
	at[8] = (uint8_t)node->slot;
	at[9] = (uint8_t)node->slots;
	at[10] = (uint8_t)node->eager;
}

struct hk_hosted_node hk_fi_name_hosted(const struct hk_fi_name *name)
{
	const uint8_t *at = name->address + MAC_LEN;
	struct hk_hosted_node node = {.slot = at[8], .slots = at[9], .eager = at[10]};

	memcpy(&node.node_id, at, sizeof(node.node_id));
	return node;
}

static bool is_possible(const struct hk_hosted_node *node)
{
	return node->node_id && node->slot < node->slots && node->slots <= HK_CTL_MAX_SLOTS &&
	       node->eager <= HK_CTL_MAX_EAGER;
}

/* How many ports can such a name have? */
static unsigned most_ports(const struct hk_fi_name *name)
{
	if (hk_fi_name_mode(name))
		return 1;
	if (name->kind & HK_FI_NAME_WIRE)
		return HK_FI_NAME_PORTS;
	return name->kind & HK_FI_NAME_IP6 ? HK_FI_NAME_IP6S : HK_FI_NAME_MACS;
}

const char *hk_fi_name_check(const struct hk_fi_name *own, const struct hk_fi_name *peer)
{
	uint8_t differs = (own->kind ^ peer->kind) & ~HK_FI_NAME_COUNTS;

	if (peer->version != HK_FI_NAME_VERSION)
		return "another version of hikyaku; fix: install the same build on all nodes";
	if (peer->key_check != own->key_check)
		return "another job key; fix: give all processes the same FI_HIKYAKU_KEY";
	if (differs & HK_FI_NAME_PROT)
		return "another protection; fix: give all processes the same "
		       "FI_HIKYAKU_PROTECTION";
	if (differs & HK_FI_NAME_MODE)
		return "another polling mode; fix: give all processes the same FI_HIKYAKU_MODE";
	if (differs)
		return "another kind of port; fix: give all processes the same FI_HIKYAKU_PORT";
	const struct hk_hosted_node node = hk_fi_name_hosted(peer);

	if (hk_fi_name_mode(peer) && !is_possible(&node))
		return "a slot that no hikyakud has; fix: install the same build on all nodes";
	if (hk_fi_name_ports(peer) > most_ports(peer))
		return "more ports than a name has; fix: install the same build on all nodes";
	return NULL;
}

void hk_fi_name_address(const struct hk_fi_name *peer, const int *txq, unsigned count,
			const char *text, struct hk_peer_addr *addr)
{
	*addr = (struct hk_peer_addr){
		.endpoint = peer->endpoint,
		.epoch = HK_FI_EPOCH,
		.port = (uint16_t)txq[0],
		.frame_max = peer->frame_max,
		.name = text,
		.more = count - 1,
	};
	if (peer->kind & HK_FI_NAME_IP6)
		memcpy(addr->ip6, peer->address, sizeof(addr->ip6));
	else
		memcpy(addr->mac, peer->address, sizeof(addr->mac));
	for (unsigned i = 1; i < count; i++) {
		struct hk_path_addr *p = &addr->path[i - 1];

		p->port = (uint16_t)txq[i];
		p->frame_max = peer->frame_max;
		if (!(peer->kind & HK_FI_NAME_WIRE))
			memcpy(p->mac, peer->address + MAC_LEN * i, MAC_LEN);
	}
	memcpy(addr->public_key, peer->public_key, sizeof(addr->public_key));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/name.c: names of endpoints, checked before they are used.
 */
#include "libfabric/name.h"

#include <string.h>

uint8_t hk_fi_key_check(uint32_t key)
{
	return (uint8_t)(key ^ key >> 8 ^ key >> 16 ^ key >> 24);
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
	if (differs)
		return "another kind of port; fix: give all processes the same FI_HIKYAKU_PORT";
	return NULL;
}

void hk_fi_name_address(const struct hk_fi_name *peer, unsigned port, const char *text,
			struct hk_peer_addr *addr)
{
	*addr = (struct hk_peer_addr){
		.endpoint = peer->endpoint,
		.epoch = HK_FI_EPOCH,
		.port = (uint16_t)port,
		.frame_max = peer->frame_max,
		.name = text,
	};
	if (peer->kind & HK_FI_NAME_IP6)
		memcpy(addr->ip6, peer->address, sizeof(addr->ip6));
	else
		memcpy(addr->mac, peer->address, sizeof(addr->mac));
	memcpy(addr->public_key, peer->public_key, sizeof(addr->public_key));
}

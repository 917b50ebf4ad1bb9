/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/nic/transfers.h: counts the bytes that an emulated NIC or the host writes to each region,
 * and reads there.
 */
#ifndef HK_NIC_TRANSFERS_H
#define HK_NIC_TRANSFERS_H

#include "devmem/nic/region.h"

#include <stdio.h>

/* Numbers of regions: BAR n is n. */
#define HK_NIC_MAIN_OF(n) (HK_NICS + (n))
#define HK_NIC_HOST       (2 * HK_NICS)
#define HK_NIC_REGIONS    (2 * HK_NICS + 1)

enum hk_nic_what {
	HK_NIC_PAYLOAD, /* frames */
	HK_NIC_DESCRIPTOR,
	HK_NIC_DOORBELL, /* doorbells and credits */
	HK_NIC_ADDRESS,  /* destinations for the host */
	HK_NIC_HOP,      /* next hops from the host */
	HK_NIC_WHATS
};

enum hk_nic_way { HK_NIC_WRITE, HK_NIC_READ, HK_NIC_WAYS };

struct hk_nic_transfers {
	struct {
		uint64_t transfers, bytes;
	} of[HK_NIC_REGIONS][HK_NIC_WHATS][HK_NIC_WAYS];
};

static inline void hk_nic_count(struct hk_nic_transfers *t, unsigned region, enum hk_nic_what what,
				enum hk_nic_way way, uint64_t transfers, uint64_t bytes)
{
	t->of[region][what][way].transfers += transfers;
	t->of[region][what][way].bytes += bytes;
}

/* Writes all that are not 0 as a JSON array. */
void hk_nic_transfers_write(const struct hk_nic_transfers *t, FILE *out);

#endif

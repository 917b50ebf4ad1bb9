/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/nic/transfers.c: the counters of transfers as JSON.
 */
#include "devmem/nic/transfers.h"

#include <inttypes.h>

static const char *const whats[HK_NIC_WHATS] = {[HK_NIC_PAYLOAD] = "payload",
						[HK_NIC_DESCRIPTOR] = "descriptor",
						[HK_NIC_DOORBELL] = "doorbell",
						[HK_NIC_ADDRESS] = "address",
						[HK_NIC_HOP] = "hop"};

static void write_region(unsigned region, FILE *out)
{
	if (region == HK_NIC_HOST)
		fprintf(out, "\"host\"");
	else if (region >= HK_NICS)
		fprintf(out, "\"main%u\"", region - HK_NICS);
	else
		fprintf(out, "\"bar%u\"", region);
}

void hk_nic_transfers_write(const struct hk_nic_transfers *t, FILE *out)
{
	const char *comma = "";

	fprintf(out, "[");
	for (unsigned i = 0; i < HK_NIC_REGIONS * HK_NIC_WHATS * HK_NIC_WAYS; i++) {
		unsigned way = i % HK_NIC_WAYS, what = i / HK_NIC_WAYS % HK_NIC_WHATS,
			 region = i / HK_NIC_WAYS / HK_NIC_WHATS;
		if (!t->of[region][what][way].transfers)
			continue;
		fprintf(out, "%s{\"region\": ", comma);
		write_region(region, out);
		fprintf(out,
			", \"what\": \"%s\", \"way\": \"%s\", \"transfers\": %" PRIu64
			", \"bytes\": %" PRIu64 "}",
			whats[what], way == HK_NIC_WRITE ? "write" : "read",
			t->of[region][what][way].transfers, t->of[region][what][way].bytes);
		comma = ", ";
	}
	fprintf(out, "]");
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/protection_names.c: protections by the names that users give.
 */
#include "worker/private.h"

#include <errno.h>
#include <string.h>

static const char *const names[] = {
	[HK_PROTECTION_OFF] = "off",
	[HK_PROTECTION_CRC] = "crc",
	[HK_PROTECTION_AUTH] = "auth",
	[HK_PROTECTION_SEAL] = "seal",
};

int hk_protection_by_name(const char *name, uint8_t *protection)
{
	for (unsigned i = 0; i < HK_ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0) {
			*protection = (uint8_t)i;
			return 0;
		}
	return -EINVAL;
}

const char *hk_protection_name(uint8_t protection)
{
	return protection < HK_ARRAY_LEN(names) ? names[protection] : "unknown";
}

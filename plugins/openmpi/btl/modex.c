/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/modex.c: what other ranks published, checked before it is used.
 */
#include "openmpi/btl/modex.h"

#include <string.h>

enum hk_modex_status hk_modex_read(const void *data, size_t size, struct hk_modex *m)
{
	memset(m, 0, sizeof(*m));
	if (!data || size < offsetof(struct hk_modex, key))
		return HK_MODEX_STRANGE;
	memcpy(m, data, HK_MIN(size, sizeof(*m)));
	m->host[sizeof(m->host) - 1] = '\0';
	if (m->magic != HK_MODEX_MAGIC)
		return HK_MODEX_STRANGE;
	if (m->version != HK_MODEX_VERSION || size != sizeof(*m))
		return HK_MODEX_VERSION_DIFFERS;
	if (m->path_count < 1 || m->path_count > HK_MODEX_PATHS)
		return HK_MODEX_PATHS_MALFORMED;
	return HK_MODEX_OK;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/modex.c: what other ranks published, checked before it is used.
 */
#include "mpi/modex.h"

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
	if (m->rails < 1 || m->rails > HK_MODEX_RAILS)
		return HK_MODEX_RAILS_WRONG;
	return HK_MODEX_OK;
}

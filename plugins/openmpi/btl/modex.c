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

static int nth(const struct hk_modex *m, bool udp, unsigned n)
{
	for (unsigned i = 0; i < m->path_count; i++)
		if (m->path[i].udp == udp && n-- == 0)
			return (int)i;
	return -1;
}

static bool apart(const struct hk_modex_path *a, const struct hk_modex_path *b)
{
	return !a->udp && a->network && b->network && a->network != b->network;
}

unsigned hk_modex_pair(const struct hk_modex *own, const struct hk_modex *peer,
		       int to[HK_MODEX_PATHS])
{
	unsigned seen[2] = {0}, all = 0, near = 0;

	for (unsigned i = 0; i < own->path_count; i++) {
		to[i] = nth(peer, own->path[i].udp, seen[own->path[i].udp]++);
		all += to[i] >= 0;
		near += to[i] >= 0 && !apart(&own->path[i], &peer->path[to[i]]);
	}
	for (unsigned i = 0; near > 0 && i < own->path_count; i++)
		if (to[i] >= 0 && apart(&own->path[i], &peer->path[to[i]]))
			to[i] = -1;
	return near ? near : all;
}

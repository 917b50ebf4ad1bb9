/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/message.c: writes and reads what precedes the bytes of a message.
 */
#include "libfabric/message.h"

#include <string.h>

static size_t put(char *to, size_t at, const void *from, size_t len)
{
	memcpy(to + at, from, len);
	return at + len;
}

size_t hk_fi_prefix_write(const struct hk_fi_prefix *p, enum hk_fi_am am, char to[HK_FI_PREFIX_MAX])
{
	size_t len = put(to, 0, &p->header, sizeof(p->header));

	if (p->header.flags & HK_FI_HAS_DATA)
		len = put(to, len, &p->data, sizeof(p->data));
	if (hk_fi_am_is_long(am))
		len = put(to, len, &p->announced, sizeof(p->announced));
	if (am == HK_FI_AM_ATOMIC)
		len = put(to, len, &p->atomic, sizeof(p->atomic));
	return len;
}

static bool get(const char *from, size_t len, size_t *at, void *to, size_t size)
{
	if (len - *at < size)
		return false;
	memcpy(to, from + *at, size);
	*at += size;
	return true;
}

size_t hk_fi_prefix_read(const void *from, size_t len, enum hk_fi_am am, struct hk_fi_prefix *p)
{
	size_t at = 0;

	p->data = 0;
	p->announced = (struct hk_fi_long){0};
	p->atomic = (struct hk_fi_atomic){0};
	if (!get(from, len, &at, &p->header, sizeof(p->header)))
		return 0;
	if (p->header.flags & HK_FI_HAS_DATA && !get(from, len, &at, &p->data, sizeof(p->data)))
		return 0;
	if (hk_fi_am_is_long(am) && (!get(from, len, &at, &p->announced, sizeof(p->announced)) ||
				     p->announced.region == 0 || p->announced.len > SIZE_MAX / 2))
		return 0;
	if (am == HK_FI_AM_ATOMIC && !get(from, len, &at, &p->atomic, sizeof(p->atomic)))
		return 0;
	return at;
}

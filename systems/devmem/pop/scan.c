/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/scan.c: searches DPDK's main memory for a payload.
 */
#include "devmem/pop/scan.h"

#include <ctype.h>
#include <string.h>

#include <rte_memory.h>

struct scan {
	const void *marker;
	size_t len;
	uint64_t found;
};

static int scan_segment(const struct rte_memseg_list *list, const struct rte_memseg *seg, void *arg)
{
	struct scan *s = arg;
	const unsigned char *at = seg->addr, *end = at + seg->len;

	if (list->external)
		return 0;
	while ((at = memmem(at, (size_t)(end - at), s->marker, s->len))) {
		s->found++;
		at++;
	}
	return 0;
}

uint64_t hk_pop_scan(const void *marker, size_t len)
{
	struct scan s = {.marker = marker, .len = len};

	rte_memseg_walk(scan_segment, &s);
	return s.found;
}

static int digit(char c)
{
	return isdigit((unsigned char)c)    ? c - '0'
	       : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
					    : -1;
}

size_t hk_pop_hex(const char *text, unsigned char *out, size_t max)
{
	size_t n = 0;

	for (; text[0]; text += 2) {
		int high = digit(text[0]), low = high < 0 ? -1 : digit(text[1]);
		if (low < 0 || n == max)
			return 0;
		out[n++] = (unsigned char)(high << 4 | low);
	}
	return n;
}

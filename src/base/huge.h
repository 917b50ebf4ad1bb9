/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/huge.h: the machine's huge pages of one size, and the fix for too few of them.
 */
#ifndef HK_BASE_HUGE_H
#define HK_BASE_HUGE_H

#include <stdbool.h>
#include <stddef.h>

#define HK_HUGE_POOLS "/sys/kernel/mm/hugepages"

struct hk_huge_pool {
	char path[128];  /* of the file that sets their number */
	long all, nfree; /* pages; @nfree without those that are reserved */
};

/* Reads one number of the pages of @kb, such as "free". Returns -1 if this kernel has none. */
long hk_huge_number(unsigned long kb, const char *what);

/* Reads the pages of @kb. Returns whether this kernel has such. */
bool hk_huge_read(unsigned long kb, struct hk_huge_pool *p);

/* Writes the commands that raise the number of these pages to @pages, outside of labs and, for @mb
 * of a node, in one. Returns @out. */
char *hk_huge_fix(const struct hk_huge_pool *p, unsigned long pages, unsigned mb, char *out,
		  size_t len);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/huge.c: see huge.h.
 */
#include "base/huge.h"

#include "base/common.h"

#include <stdio.h>

static long read_number(const char *path)
{
	FILE *f = fopen(path, "re");
	long n = -1;
	if (f && fscanf(f, "%ld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

long hk_huge_number(unsigned long kb, const char *what)
{
	char path[128];

	snprintf(path, sizeof(path), HK_HUGE_POOLS "/hugepages-%lukB/%s_hugepages", kb, what);
	return read_number(path);
}

bool hk_huge_read(unsigned long kb, struct hk_huge_pool *p)
{
	long nfree = hk_huge_number(kb, "free"), reserved = hk_huge_number(kb, "resv");

	snprintf(p->path, sizeof(p->path), HK_HUGE_POOLS "/hugepages-%lukB/nr_hugepages", kb);
	p->all = read_number(p->path);
	p->nfree = HK_MAX(0, nfree - reserved);
	return nfree >= 0 && reserved >= 0 && p->all >= 0;
}

char *hk_huge_fix(const struct hk_huge_pool *p, unsigned long pages, unsigned mb, char *out,
		  size_t len)
{
	snprintf(out, len, "as root: echo %lu > %s; in a lab: make it again with --huge %u", pages,
		 p->path, mb);
	return out;
}

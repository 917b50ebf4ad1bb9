/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger/check.c: hk-tagger --check.
 */
#include "tagger/check.h"

#include "tagger/kernel.h"

#include <net/if.h>
#include <stdio.h>

static void stale(void *count, const char *name, unsigned ifindex, unsigned job, bool ingress)
{
	unsigned *n = count;

	(void)ifindex;
	printf("%s{\"interface\": \"%s\", \"job\": %u, \"direction\": \"%s\"}", (*n)++ ? ", " : "",
	       name, job, ingress ? "ingress" : "egress");
}

int hk_check_run(void)
{
	unsigned n = 0;

	hk_kernel_quiet();
	printf("{\"attach\": \"%s\", \"stale\": [", hk_attach_name(hk_attach_probe(1)));
	hk_attach_stale(stale, &n);
	puts("]}");
	return fflush(stdout) == 0 ? 0 : 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/check.c: hk-tagger --check.
 */
#include "sdn/tagger/check.h"

#include "sdn/tagger/kernel.h"

#include <net/if.h>
#include <stdio.h>

static void stale(void *count, const char *name, unsigned ifindex, unsigned job, bool ingress)
{
	unsigned *n = count;

	(void)ifindex;
	printf("%s{\"interface\": \"%s\", \"job\": %u, \"direction\": \"%s\"}", (*n)++ ? ", " : "",
	       name, job, ingress ? "ingress" : "egress");
}

int hk_tagger_check_run(void)
{
	unsigned n = 0;

	hk_tagger_kernel_quiet();
	printf("{\"attach\": \"%s\", \"stale\": [",
	       hk_tagger_attach_name(hk_tagger_attach_probe(1)));
	hk_tagger_attach_stale(stale, &n);
	puts("]}");
	return fflush(stdout) == 0 ? 0 : 1;
}

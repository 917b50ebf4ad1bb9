/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/rank_stats.h: counters as JSON. hikyakud uses it, and so does a rank without hikyakud
 * (openmpi/btl/stats.c). Monitoring relies on the members' names (docs/man/hikyaku.1.md).
 */
#ifndef HK_HOSTD_RANK_STATS_H
#define HK_HOSTD_RANK_STATS_H

#include "hostd/resources.h"

#include <inttypes.h>
#include <stdio.h>

/* Writes to @f the counters of @list (hostd/counters.h), which struct *@values has, as members of a
 * JSON object. @before: the text before the first, "{" or ", ". */
#define HK_STATS_MEMBERS(f, before, list, values)                                                  \
	do {                                                                                       \
		const char *before_ = (before);                                                    \
		FILE *f_ = (f);                                                                    \
		__typeof__(values) values_ = (values);                                             \
		list(HK_STATS_MEMBER)                                                              \
	} while (0)
#define HK_STATS_MEMBER(name, ...)                                                                 \
	fprintf(f_, "%s\"" #name "\": %" PRIu64, before_, (uint64_t)values_->name);                \
	before_ = ", ";

/* Writes the counters of a rank as an object. */
void hk_stats_rank(FILE *f, const struct hk_res_rank *n);

#endif

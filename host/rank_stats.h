/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/rank_stats.h: counters as JSON, the same from hikyakud and from a rank that has none (mpi/stats.c). The members'
 * names are a promise to monitoring (docs/man/hikyaku.1.md).
 */
#ifndef HK_HOST_RANK_STATS_H
#define HK_HOST_RANK_STATS_H

#include "base/common.h"
#include "host/resources.h"

#include <stddef.h>
#include <stdio.h>

struct hk_stat {
	const char *name;
	size_t at; /* of a uint64_t */
};

/* Writes the @fields of @values as an object. */
void hk_stats_object(FILE *f, const void *values, const struct hk_stat *fields, size_t count);

/* What a rank counts, as an object. */
void hk_stats_rank(FILE *f, const struct hk_res_rank *n);

#endif

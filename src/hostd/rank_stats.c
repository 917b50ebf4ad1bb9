/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/rank_stats.c: the counters of a rank as JSON.
 */
#include "hostd/rank_stats.h"

void hk_stats_rank(FILE *f, const struct hk_res_rank *n)
{
	HK_STATS_MEMBERS(f, "{", HK_ENGINE_COUNTERS, &n->engine);
	HK_STATS_MEMBERS(f, ", ", HK_WORKER_COUNTERS, &n->worker);
	HK_STATS_MEMBERS(f, ", ", HK_QUEUE_COUNTERS, &n->levels);
	HK_STATS_MEMBERS(f, ", ", HK_RANK_GAUGES, &n->levels);
	fprintf(f, "}");
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/stats.c: the counters of this rank, for `hikyaku stats` and `hikyaku top`. hikyakud
 * reports those of its ranks. A rank of mode inline answers by the thread of its tap (port/tap.h).
 */
#include "openmpi/btl/btl_hikyaku.h"
#include "hostd/rank_stats.h"
#include "port/tap.h"

#include <unistd.h>

#define PARAMS (&mca_btl_hikyaku_component.param)

static const char *polling_thread(uint64_t unpolled_ns)
{
	if (unpolled_ns < 2 * HK_USEC * PARAMS->progress_idle_us)
		return "rank";
	return PARAMS->progress_thread ? "thread" : "nobody";
}

/* In the tap's thread, while the rank counts: each number is one of some moment. */
static size_t write_stats(char *text, size_t size)
{
	struct hk_res_rank n;
	FILE *f = fmemopen(text, size, "w");

	if (!f)
		return 0;
	/* our own memory, all of it: nothing to be checked */
	if (hk_res_rank_counters(0, UINT64_MAX, (uint64_t)(uintptr_t)hk_btl.worker, &n) == 0) {
		fprintf(f,
			"{\"mode\": \"inline\", \"pid\": %d, \"job\": \"%08x\", \"endpoint\": %u, "
			"\"polls\": \"%s\", \"counters\": ",
			getpid(), hk_btl.key, hk_btl.endpoint,
			polling_thread(n.levels.unpolled_ns));
		hk_stats_rank(f, &n);
		fprintf(f, "}");
	}
	long len = ftell(f);

	/* a text that does not fit is not valid JSON */
	return fclose(f) == 0 && len > 0 && (size_t)len < size ? (size_t)len : 0;
}

void hk_btl_stats_start(void)
{
	if (!hk_btl.daemon)
		hk_tap_stats(write_stats);
}

void hk_btl_stats_stop(void)
{
	hk_tap_stats(NULL);
}

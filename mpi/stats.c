/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/stats.c: what this rank counts, for `hikyaku stats` and `hikyaku top`. Of ranks that share a hikyakud that one
 * tells; a rank of mode inline has nobody else, and answers by the thread of its tap (port/tap.h).
 */
#include "mpi/btl_hikyaku.h"
#include "host/rank_stats.h"
#include "port/tap.h"

#include <unistd.h>

#define PARAMS (&mca_btl_hikyaku_component.param)

static const char *who_polls(uint64_t unpolled_ns)
{
	if (unpolled_ns < 2 * HK_USEC * PARAMS->async_idle_us)
		return "rank";
	return PARAMS->async ? "helper" : "nobody";
}

/* In the tap's thread, while the rank counts: each number is one of some moment. */
static size_t write_stats(char *text, size_t room)
{
	struct hk_res_rank n;
	FILE *f = fmemopen(text, room, "w");

	if (!f)
		return 0;
	/* our own memory, all of it: nothing to be checked */
	if (hk_res_rank_counters(0, UINT64_MAX, (uint64_t)(uintptr_t)hk_btl.fabric, &n) == 0) {
		fprintf(f,
			"{\"mode\": \"inline\", \"pid\": %d, \"job\": \"%08x\", \"endpoint\": %u, "
			"\"polls\": \"%s\", \"counters\": ",
			getpid(), hk_btl.key, hk_btl.endpoint, who_polls(n.unpolled_ns));
		hk_stats_rank(f, &n);
		fprintf(f, "}");
	}
	long len = ftell(f);

	/* a text that is too long fills the room, and would be cut */
	return fclose(f) == 0 && len > 0 && (size_t)len < room ? (size_t)len : 0;
}

void hk_btl_stats_start(void)
{
	if (!hk_btl.host)
		hk_tap_stats(write_stats);
}

void hk_btl_stats_stop(void)
{
	hk_tap_stats(NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/wait.c: waits until all nodes of the job are members.
 */
#include "rtc/internal.h"

#include <errno.h>
#include <string.h>

static int report_absent(const struct hk_rtc *r, struct hk_error *err)
{
	char names[80] = "";
	unsigned absent = 0;

	for (uint16_t i = 0; i < r->nodes; i++) {
		size_t at = strlen(names);
		if (i == r->self || hk_rtc_members_contains(&r->members, i))
			continue;
		if (++absent <= 8)
			snprintf(names + at, sizeof(names) - at, "%s%u", at ? ", " : "", i);
	}
	return hk_error_set(err, -ETIMEDOUT,
			    "%u of %u nodes did not join within %u ms: %s%s; fix: start them, and "
			    "check their addresses%s",
			    absent, r->nodes, r->timeout_ms, names, absent > 8 ? ", …" : "",
			    r->stats.forged ? "; forged messages came, so also check that all "
					      "nodes have the same secret and protection"
					    : "");
}

int hk_rtc_wait_all(struct hk_rtc *r, struct hk_error *err)
{
	uint64_t until = hk_rtc_now(r) + r->timeout_ms * HK_MSEC;

	while (hk_rtc_members(r) < r->nodes) {
		if (atomic_load_explicit(&r->stop, memory_order_relaxed))
			return hk_error_set(err, -ECANCELED, "stopped while waiting for nodes");
		if (hk_rtc_now(r) >= until)
			return report_absent(r, err);
		hk_rtc_poll(r);
	}
	return 0;
}

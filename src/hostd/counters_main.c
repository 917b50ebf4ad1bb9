/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/counters_main.c: prints the definitions of all counters as JSON, for the Python package and
 * the manual. The build runs it once.
 */
#include "hostd/counters.h"

#include <stdio.h>

static const char *group, *kind, *before = "[";

static void entry(const char *name, const char *help)
{
	printf("%s\n  {\"group\": \"%s\", \"kind\": \"%s\", \"name\": \"%s\", \"help\": \"%s\"}",
	       before, group, kind, name, help);
	before = ",";
}

int main(void)
{
#define ENTRY(name, help, ...) entry(#name, help);
#define LIST(of, is, list)                                                                         \
	group = of;                                                                                \
	kind = is;                                                                                 \
	list(ENTRY)
	LIST("engine", "counter", HK_ENGINE_COUNTERS)
	LIST("worker", "counter", HK_WORKER_COUNTERS)
	LIST("path", "counter", HK_PATH_COUNTERS)
	LIST("queue", "counter", HK_QUEUE_COUNTERS)
	LIST("queue", "gauge", HK_RANK_GAUGES)
	LIST("slot", "counter", HK_SLOT_COUNTERS)
	LIST("pipe", "counter", HK_PIPE_COUNTERS)
	LIST("pipe", "gauge", HK_PIPE_GAUGES)
	LIST("switch", "counter", HK_SWITCH_COUNTERS)
	LIST("port", "counter", HK_PORT_COUNTERS)
	LIST("steering", "gauge", HK_STEERING_GAUGES)
	LIST("steering", "counter", HK_STEERING_COUNTERS)
	LIST("poller", "counter", HK_POLLER_COUNTERS)
	LIST("poller", "counter", HK_POLLER_LIFE_COUNTERS)
	LIST("poller", "counter", HK_CPU_COUNTER)
	LIST("daemon", "counter", HK_DAEMON_COUNTERS)
	LIST("daemon", "gauge", HK_DAEMON_GAUGES)
	LIST("daemon", "counter", HK_CPU_COUNTER)
	printf("\n]\n");
	return 0;
}

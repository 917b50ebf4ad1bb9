/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-ns3/main_tcp.c: hikyaku-sim-ns3-tcp: the same scenarios with ns-3's TCP.
 *
 *     hikyaku-sim-ns3-tcp cubic|dctcp MIN_RTO_MS SCENARIO [options of hikyaku-sim]
 */
#include "sim-ns3/host_tcp.h"
#include "sim-ns3/program.h"

#include <stdlib.h>
#include <string.h>

#define WARM_UP (2 * HK_SEC * SIM_NS) /* connections are open and idle after this time */

static void prepare(struct run *r)
{
	const char *name = r->o.scenario->name;

	tcp_hosts_connect(&r->hosts, strcmp(name, "alltoall") == 0 || strcmp(name, "mixed") == 0);
}

int main(int argc, char **argv)
{
	bool cubic = argc > 1 && strcmp(argv[1], "cubic") == 0;
	long min_rto = argc > 2 ? strtol(argv[2], NULL, 10) : 0;

	if (argc < 4 || (!cubic && strcmp(argv[1], "dctcp") != 0) || min_rto < 1 ||
	    min_rto > 1000) {
		fprintf(stderr, "usage: hikyaku-sim-ns3-tcp cubic|dctcp MIN_RTO_MS SCENARIO ...; "
				"fix: see tools/sim-ns3/README.md\n");
		return 2;
	}
	ns3_options = (struct ns3_options){.transport = cubic ? FABRIC_CUBIC : FABRIC_DCTCP,
					   .min_rto_ms = (uint32_t)min_rto,
					   .warm_up = WARM_UP,
					   .tcp = &tcp_hosts};
	return ns3_run(argc - 2, argv + 2, prepare);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-ns3/program.h: what the two programs have in common: a scenario of tools/sim on ns-3.
 *
 * main_engine.c is linked with the hosts of tools/sim, and main_tcp.c with those of host_tcp.c.
 * Everything else is the same, so the two run the same scenarios on the same network.
 */
#ifndef HK_SIM_NS3_PROGRAM_H
#define HK_SIM_NS3_PROGRAM_H

#include "sim-ns3/fabric.h"
#include "sim/run.h"

struct ns3_options {
	enum fabric_transport transport;
	uint32_t min_rto_ms;          /* of TCP */
	uint64_t warm_up;             /* ps before the scenario begins */
	const struct fabric_tcp *tcp; /* of the hosts, or NULL */
	uint32_t mtu;                 /* bytes, from the command line */
};

extern struct ns3_options ns3_options;

/* Sets our clock to that of ns-3, which calls us while it is ahead. */
void ns3_clock(struct events *q);

/* Runs the scenario of the command line. @prepare, if it is not NULL, is called in between. */
int ns3_run(int argc, char **argv, void (*prepare)(struct run *r));

#endif

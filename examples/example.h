/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/example.h: shared by the examples: options, and a node that they configure.
 *
 * Under a launcher no option is needed: `hikyaku lab mpirun -np 2 build/examples/sum`. With --json
 * 1 a node prints its result and its counters as JSON. Without a launcher:
 *
 *   --backend NAME    dpdk, af_xdp, raw, udp, tcp
 *   --address WHERE   as in hikyaku/rtc.h
 *   --peers FILE      lines "NODE ADDRESS"
 *   --node N          number of this node in FILE
 *   --key N           job key, the same on all nodes
 *   --threads N       handler threads for expensive handlers
 *   --timeout MS      limit for missing peers
 */
#ifndef HK_EXAMPLES_EXAMPLE_H
#define HK_EXAMPLES_EXAMPLE_H

#include "hikyaku/error.h"
#include "hikyaku/rtc.h"

struct example_option {
	const char *name; /* "window" for --window N */
	uint64_t *value;
	const char *help;
};

extern uint64_t example_json; /* --json */

/* Reads these options into @cfg, and the program's own. An invalid option ends the program. */
void example_options(int argc, char **argv, const char *what, const struct example_option *own,
		     unsigned n, struct hk_rtc_config *cfg);

/* Opens a node of a job with at least @min_nodes nodes. SIGINT and SIGTERM stop it. An error ends
 * the program. */
struct hk_rtc *example_open(const struct hk_rtc_config *cfg, unsigned min_nodes);

/* Registers the type. An error ends the program. */
void example_register(struct hk_rtc *rtc, uint8_t type, const struct hk_rtc_type *t);

/* Prints all counters as one line of JSON. */
void example_print_stats(struct hk_rtc *rtc);

#endif

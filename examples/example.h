/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/example.h: what the examples share: options, and a node that is opened from them.
 *
 * Under a launcher nothing needs to be said (`hikyaku lab mpirun -np 2 build/examples/sum`). Without one:
 *
 *   --backend NAME   dpdk, af_xdp, raw, udp, tcp              --address WHERE   as rtc/rtc.h says
 *   --peers FILE     lines "NODE ADDRESS"                     --node N          which of them this is
 *   --key N          of the job, the same on all              --workers N       threads for what is too dear
 *   --timeout MS     for peers that do not come
 */
#ifndef HK_EXAMPLE_H
#define HK_EXAMPLE_H

#include "base/error.h"
#include "rtc/rtc.h"

struct example_option {
	const char *name; /* "window" for --window N */
	uint64_t *value;
	const char *help;
};

/* Reads the options above into @cfg, and the program's own. Ends the program if they are wrong. */
void example_options(int argc, char **argv, const char *what, const struct example_option *own,
		     unsigned n, struct hk_rtc_config *cfg);

/* Opens the node of a job of at least @least nodes, or ends the program with the error. SIGINT and SIGTERM stop
 * it. */
struct hk_rtc *example_open(const struct hk_rtc_config *cfg, unsigned least);

/* Registers the type, or ends the program with the error. */
void example_register(struct hk_rtc *rtc, uint8_t type, const struct hk_rtc_type *t);

/* Prints the statistics as one line of JSON. */
void example_print_stats(struct hk_rtc *rtc);

#endif

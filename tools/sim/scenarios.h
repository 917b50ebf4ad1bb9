/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/scenarios.h: all scenarios, and what several of them need.
 */
#ifndef HK_SIM_SCENARIOS_H
#define HK_SIM_SCENARIOS_H

#include "sim/run.h"

#define SCENARIO_SPREAD HK_USEC /* hosts that begin together do so within this time, ns */

/* Starts host 0 as the receiver of all others. */
void scenario_start_fanin(struct run *r);

/* Fills in what the user did not choose. @time: ns. */
void scenario_default_limits(struct sim_options *o, uint32_t hosts, uint32_t size, uint32_t count,
			     uint64_t time);

/* When a finite scenario was done, and how fast it could have been. */
void scenario_report_end(const struct run *r, FILE *out, uint64_t ideal);

extern const struct scenario scenario_burst, scenario_eager, scenario_bulk; /* fanin.c */
extern const struct scenario scenario_incast, scenario_longflows;           /* loops.c */
extern const struct scenario scenario_lone, scenario_pingpong;              /* loops.c */
extern const struct scenario scenario_alltoall, scenario_mixed;             /* mesh.c */
extern const struct scenario scenario_silent, scenario_idle;                /* peers.c */
extern const struct scenario scenario_exchange;                             /* exchange.c */

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/options.h: the options of hikyaku-sim.
 */
#ifndef HK_SIM_OPTIONS_H
#define HK_SIM_OPTIONS_H

#include "sim/run.h"

#include "hikyaku/error.h"

/* Reads `SCENARIO [OPTION VALUE]…`, checks it, and fills in the scenario's defaults. */
int sim_options_parse(struct sim_options *o, int argc, char **argv, struct hk_error *err);

#endif

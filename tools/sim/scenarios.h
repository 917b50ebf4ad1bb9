/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/scenarios.h: all scenarios.
 */
#ifndef HK_SIM_SCENARIOS_H
#define HK_SIM_SCENARIOS_H

#include "sim/run.h"

extern const struct scenario scenario_burst, scenario_eager, scenario_bulk; /* fanin.c */
extern const struct scenario scenario_incast, scenario_longflows;

#endif

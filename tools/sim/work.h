/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/work.h: how much code of the engine has run.
 *
 * The compiler counts basic blocks in this program's copy of the engine (meson.build). Unlike time
 * and instructions, their number is the same in each run, and it grows with every turn of a loop.
 */
#ifndef HK_SIM_WORK_H
#define HK_SIM_WORK_H

#include <stdint.h>

extern uint64_t engine_work;

/* The compiler's name for what it calls in each block. */
void __sanitizer_cov_trace_pc(void);

#endif

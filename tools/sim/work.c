/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/work.c: see work.h.
 */
#include "sim/work.h"

uint64_t engine_work;

void __sanitizer_cov_trace_pc(void)
{
	engine_work++;
}

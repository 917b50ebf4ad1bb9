/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/counter_table.h: the counters of hikyaku/counters.h as tables, for code that shows all.
 */
#ifndef HK_WORKER_COUNTER_TABLE_H
#define HK_WORKER_COUNTER_TABLE_H

#include <stddef.h>

#pragma GCC visibility push(default)

struct hk_counter {
	const char *name, *help;
	size_t offset; /* of the uint64_t in its struct */
};

extern const struct hk_counter hk_engine_counter_table[]; /* of struct hk_engine_counters */
extern const struct hk_counter hk_worker_counter_table[]; /* of struct hk_worker_counters */
extern const struct hk_counter hk_path_counter_table[];   /* of struct hk_path_counters */
extern const size_t hk_engine_counter_count, hk_worker_counter_count, hk_path_counter_count;

#pragma GCC visibility pop

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/counter_table.c: see counter_table.h.
 */
#include "worker/counter_table.h"

#include "base/common.h"
#include "hikyaku/worker.h"

const struct hk_counter hk_engine_counter_table[] = {
#define ENTRY(name, help) {#name, help, offsetof(struct hk_engine_counters, name)},
	HK_ENGINE_COUNTERS(ENTRY)
#undef ENTRY
};

const struct hk_counter hk_worker_counter_table[] = {
#define ENTRY(name, help) {#name, help, offsetof(struct hk_worker_counters, name)},
	HK_WORKER_COUNTERS(ENTRY)
#undef ENTRY
};

const struct hk_counter hk_path_counter_table[] = {
#define ENTRY(name, help) {#name, help, offsetof(struct hk_path_counters, name)},
	HK_PATH_COUNTERS(ENTRY)
#undef ENTRY
};

const size_t hk_engine_counter_count = HK_ARRAY_LEN(hk_engine_counter_table);
const size_t hk_worker_counter_count = HK_ARRAY_LEN(hk_worker_counter_table);
const size_t hk_path_counter_count = HK_ARRAY_LEN(hk_path_counter_table);

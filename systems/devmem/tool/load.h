/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/load.h: the CPU's load while devices are measured (docs/references.md, 4). It does
 * nothing, reads or writes main memory, or trains a model, which does both. The load runs in a
 * thread of its own; one load runs at a time.
 */
#ifndef HK_TOOL_LOAD_H
#define HK_TOOL_LOAD_H

#include "base/common.h"
#include "hikyaku/error.h"

enum hk_devmem_load {
	HK_DEVMEM_LOAD_NOTHING,
	HK_DEVMEM_LOAD_READ,
	HK_DEVMEM_LOAD_WRITE,
	HK_DEVMEM_LOAD_TRAIN,
	HK_DEVMEM_LOADS
};

const char *hk_devmem_load_name(enum hk_devmem_load load);

/* HK_DEVMEM_LOADS: unknown name */
enum hk_devmem_load hk_devmem_load_find(const char *name);

/* Starts a load with @mb MB of memory. -ENOMEM, -EAGAIN. */
int hk_devmem_load_start(enum hk_devmem_load load, unsigned mb, struct hk_error *err);

/* The result of a load: the bytes that it read and wrote, and the model's first and last loss. */
struct hk_devmem_load_done {
	uint64_t bytes;
	float first_loss, last_loss;
};

/* Stops the load. */
void hk_devmem_load_stop(struct hk_devmem_load_done *done);

#endif

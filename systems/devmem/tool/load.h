/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/load.h: the CPU's load while devices are measured (docs/references.md, 4). It reads
 * or writes main memory, or trains a model, which does both. Each thread of a load has memory and a
 * model of its own. One load runs at a time.
 */
#ifndef HK_TOOL_LOAD_H
#define HK_TOOL_LOAD_H

#include "base/common.h"
#include "devmem/tool/train.h"
#include "hikyaku/error.h"

#define HK_DEVMEM_LOAD_THREADS 256
#define HK_DEVMEM_LOAD_MB_MAX  65536

enum hk_devmem_load {
	HK_DEVMEM_LOAD_NOTHING,
	HK_DEVMEM_LOAD_READ,
	HK_DEVMEM_LOAD_WRITE,
	HK_DEVMEM_LOAD_TRAIN,   /* linear regression: one model of the size of the memory */
	HK_DEVMEM_LOAD_NETWORK, /* a network of layers: devmem/tool/train.h */
	HK_DEVMEM_LOADS
};

struct hk_devmem_load_config {
	enum hk_devmem_load what;
	unsigned threads; /* 0: no load, the baseline; so is HK_DEVMEM_LOAD_NOTHING */
	unsigned mb;      /* MB of memory of each thread */
	unsigned cores;   /* 0: threads run on any core */
	unsigned core[HK_DEVMEM_LOAD_THREADS]; /* of each thread, in order */
};

/* A thread's part of a load, from the start of the first thread to its own end. */
struct hk_devmem_load_done {
	struct hk_traffic traffic;
	int core; /* the core that it is pinned to; -1: none */
	double seconds;
	float first_loss, last_loss;
};

const char *hk_devmem_load_name(enum hk_devmem_load load);

/* HK_DEVMEM_LOADS: unknown name */
enum hk_devmem_load hk_devmem_load_find(const char *name);

/* Parses a list of cores, such as 2,4-6, into @c. False: not a list, or more than threads can be.
 */
bool hk_devmem_load_cores(const char *text, struct hk_devmem_load_config *c);

/* Starts the load, and returns when each thread has its memory and runs. -EINVAL: fewer cores than
 * threads, or one that this process may not use. -ENOMEM, -EAGAIN. After an error nothing runs. */
int hk_devmem_load_start(const struct hk_devmem_load_config *c, struct hk_error *err);

/* Stops the load, and frees its memory. Fills in @done for each of its threads; returns their
 * number. Without a load it returns 0. */
unsigned hk_devmem_load_stop(struct hk_devmem_load_done done[HK_DEVMEM_LOAD_THREADS]);

#endif

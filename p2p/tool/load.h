/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/tool/load.h: what the CPU does while devices are measured (docs/references.md, 4): nothing, reads or writes main
 * memory, or trains a model, which does both. A thread of its own; one at a time.
 */
#ifndef HK_P2P_LOAD_H
#define HK_P2P_LOAD_H

#include "base/common.h"
#include "base/error.h"

enum hk_load { HK_LOAD_NOTHING, HK_LOAD_READ, HK_LOAD_WRITE, HK_LOAD_TRAIN, HK_LOADS };

const char *hk_load_name(enum hk_load load);

/* HK_LOADS: no such load */
enum hk_load hk_load_find(const char *name);

/* Begins, with @mb of memory. -ENOMEM, -EAGAIN */
int hk_load_start(enum hk_load load, unsigned mb, struct hk_error *err);

/* Ends it; the bytes that it read and wrote, and how far it got: the model's loss, first and last. */
struct hk_load_done {
	uint64_t bytes;
	float first_loss, last_loss;
};

void hk_load_stop(struct hk_load_done *done);

#endif

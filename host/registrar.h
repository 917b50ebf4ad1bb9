/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger/registrar.h: tells the job's registrar, beside its mpirun, where a rank is
 * (python/hikyaku/sdn/registrar.py), which tells the controller.
 *
 * One connection for each rank, one line each way: "SECRET RANK MAC", and "ok" or why not.
 */
#ifndef HK_TAGGER_REGISTRAR_H
#define HK_TAGGER_REGISTRAR_H

#include "base/common.h"
#include "base/error.h"

/* @address: "SECRET@/path/of/a/socket" or "SECRET@HOST:PORT". When it returns 0, the network knows the rank.
 * Waits, some seconds at the most. */
int hk_registrar_tell(const char *address, uint32_t rank, uint64_t mac, struct hk_error *err);

#endif

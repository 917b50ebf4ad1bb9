/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/pending.h: the MPI functions of pending nonblocking collectives, by request.
 *
 * Most of such a collective happens while the program waits for its request or tests it. Handles
 * are only compared, never followed. The table has HK_TAGGER_PENDING entries; a request beyond that
 * is not remembered.
 *
 * Threads: any.
 */
#ifndef HK_TAGGER_PENDING_H
#define HK_TAGGER_PENDING_H

#include "base/common.h"

#define HK_TAGGER_PENDING 64

/* Adds @request, which @function has just started. */
void hk_tagger_pending_add(const void *request, uint32_t function);

/* Finds the known ones of @count @requests. Returns their number, and for each its index, its
 * handle and its function, in the order of the array. A null handle is never known. */
struct hk_tagger_pending_found {
	int index;
	const void *request;
	uint32_t function;
};
unsigned hk_tagger_pending_find(const void *const requests[], int count,
				struct hk_tagger_pending_found found[HK_TAGGER_PENDING]);

/* Removes a request that has ended. */
void hk_tagger_pending_remove(const void *request);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger/pending.h: which function the requests of nonblocking collectives are of.
 *
 * Most of such a collective happens while its request is waited for or tested. Handles are only compared, never
 * followed. There are HK_PENDING at most; what finds no room is not remembered.
 *
 * Threads: any.
 */
#ifndef HK_TAGGER_PENDING_H
#define HK_TAGGER_PENDING_H

#include "base/common.h"

#define HK_PENDING 64

/* @request, just started, is of @function. */
void hk_pending_add(const void *request, uint32_t function);

/* Those of @count @requests that are known: how many of them, and for each its index, the handle and the
 * function, in the order of the array. A null handle is never known. */
struct hk_pending_found {
	int index;
	const void *request;
	uint32_t function;
};
unsigned hk_pending_find(const void *const requests[], int count,
			 struct hk_pending_found found[HK_PENDING]);

/* It has ended. */
void hk_pending_remove(const void *request);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/atomic_ops.h: the atomic operations of fi_atomic(3) on memory of this process.
 *
 * An element whose size the processor can change at once (1, 2, 4 or 8 bytes, aligned to its size)
 * is changed so. Then operations of other threads on it, and those of the worker
 * (worker/atomic.h), are atomic to ours. Larger ones are not: they are atomic only to each other,
 * as one thread carries them all out.
 *
 * Pure.
 */
#ifndef HK_FI_ATOMIC_OPS_H
#define HK_FI_ATOMIC_OPS_H

#include "libfabric/message.h"

#include <rdma/fi_domain.h>

/* The calls that have an operation. */
enum hk_fi_atomic_kind { HK_FI_ATOMIC_BASE, HK_FI_ATOMIC_FETCH, HK_FI_ATOMIC_COMPARE };

/* Bytes of an element, and its alignment; 0: there is no such type. */
size_t hk_fi_atomic_size(unsigned type);
size_t hk_fi_atomic_align(unsigned type);

/* Is there this operation, for this type and by these calls? */
bool hk_fi_atomic_valid(enum hk_fi_atomic_kind kind, unsigned type, unsigned op);

/* Values that a request carries for each element. */
static inline unsigned hk_fi_atomic_values(unsigned op)
{
	return op == FI_ATOMIC_READ ? 0 : op >= FI_CSWAP ? 2 : 1;
}

/* Checks the request @a of a peer, which is followed by @len bytes. @fetch: it wants the values. */
bool hk_fi_atomic_check(const struct hk_fi_atomic *a, bool fetch, size_t len);

/* Carries out a valid operation on the @count elements at @at. Operands and values to compare with
 * may lie anywhere, and are needed by hk_fi_atomic_values() alone. @old: where the values from
 * before come, or NULL. */
void hk_fi_atomic_apply(unsigned type, unsigned op, void *at, size_t count, const char *operand,
			const char *compare, char *old);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire/atomic.c: the codec of wire/atomic.h.
 */
#include "wire/atomic.h"

#include <string.h>

/* Converts between wire order and host order, in either direction. */
static void swap(struct hk_wire_atomic *a)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	a->token = __builtin_bswap32(a->token);
	a->region = __builtin_bswap32(a->region);
	a->len = __builtin_bswap32(a->len);
	a->offset = __builtin_bswap64(a->offset);
	a->operand = __builtin_bswap64(a->operand);
	a->compare = __builtin_bswap64(a->compare);
#else
	(void)a;
#endif
}

void hk_wire_atomic_encode(void *dst, const struct hk_wire_atomic *a)
{
	struct hk_wire_atomic w = *a;

	swap(&w);
	memcpy(dst, &w, sizeof(w));
}

bool hk_wire_atomic_parse(const void *message, size_t len, struct hk_wire_atomic *out)
{
	if (len < HK_WIRE_ATOMIC_LEN)
		return false;
	memcpy(out, message, sizeof(*out));
	swap(out);
	bool rpc = out->op == HK_ATOMIC_RPC;
	bool bytes = out->op == HK_ATOMIC_WRITE || out->op == HK_ATOMIC_READ;
	bool none = bytes || rpc || out->op == HK_ATOMIC_FENCE;
	bool compares = out->op == HK_ATOMIC_CAS || (rpc && out->status == HK_WIRE_ATOMIC_REQUEST);

	return out->op < HK_ATOMIC_KINDS && out->status <= HK_WIRE_ATOMIC_DENIED &&
	       out->zero == 0 && out->token != 0 && (rpc || (out->len != 0) == bytes) &&
	       (none ? out->size == 0 : out->size == 4 || out->size == 8) &&
	       (compares || out->compare == 0) &&
	       len - HK_WIRE_ATOMIC_LEN == (hk_wire_atomic_has_data(out) ? out->len : 0);
}

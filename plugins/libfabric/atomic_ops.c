/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/atomic_ops.c: datatypes and operations of fi_atomic(3).
 */
#include "libfabric/atomic_ops.h"

#include "base/common.h"

#include <complex.h>
#include <string.h>

#define BIT(op) (1u << (op))

/* The datatypes: FI_…, in C, the operations that they have, and a type of which sums and products
 * wrap around. */
#define TYPES(X)                                                                                   \
	X(INT8, int8_t, INTEGERS, uint32_t)                                                        \
	X(UINT8, uint8_t, INTEGERS, uint32_t)                                                      \
	X(INT16, int16_t, INTEGERS, uint32_t)                                                      \
	X(UINT16, uint16_t, INTEGERS, uint32_t)                                                    \
	X(INT32, int32_t, INTEGERS, uint32_t)                                                      \
	X(UINT32, uint32_t, INTEGERS, uint32_t)                                                    \
	X(INT64, int64_t, INTEGERS, uint64_t)                                                      \
	X(UINT64, uint64_t, INTEGERS, uint64_t)                                                    \
	X(FLOAT, float, ORDERED, float)                                                            \
	X(DOUBLE, double, ORDERED, double)                                                         \
	X(LONG_DOUBLE, long double, ORDERED, long double)                                          \
	X(FLOAT_COMPLEX, float complex, ALL, float complex)                                        \
	X(DOUBLE_COMPLEX, double complex, ALL, double complex)                                     \
	X(LONG_DOUBLE_COMPLEX, long double complex, ALL, long double complex)                      \
	INT128_TYPES(X)

#ifdef __SIZEOF_INT128__
#define INT128_TYPES(X)                                                                            \
	X(INT128, __int128, INTEGERS, unsigned __int128)                                           \
	X(UINT128, unsigned __int128, INTEGERS, unsigned __int128)
#else
#define INT128_TYPES(X)
#endif
#define SIZE_MOST sizeof(long double complex)

#define OPS_OF_ALL                                                                                 \
	(BIT(FI_SUM) | BIT(FI_PROD) | BIT(FI_LOR) | BIT(FI_LAND) | BIT(FI_LXOR) |                  \
	 BIT(FI_ATOMIC_READ) | BIT(FI_ATOMIC_WRITE) | BIT(FI_CSWAP) | BIT(FI_CSWAP_NE))
#define OPS_OF_ORDERED                                                                             \
	(OPS_OF_ALL | BIT(FI_MIN) | BIT(FI_MAX) | BIT(FI_CSWAP_LE) | BIT(FI_CSWAP_LT) |            \
	 BIT(FI_CSWAP_GE) | BIT(FI_CSWAP_GT))
#define OPS_OF_INTEGERS (BIT(FI_ATOMIC_OP_LAST) - 1)
#define OPS_COMPARING   (OPS_OF_INTEGERS & ~(BIT(FI_CSWAP) - 1)) /* they are the last ones */

/* ---- one element ----------------------------------------------------------------------------- */

/* The next value of an element: `o` lies there, `b` is the operand, `c` is compared with it. */
// clang-format off
#define NEXT_OF_ALL(T, W)                                                                          \
	op == FI_SUM            ? (T)((W)o + (W)b)                                                 \
	: op == FI_PROD         ? (T)((W)o * (W)b)                                                 \
	: op == FI_LOR          ? (T)(o || b)                                                      \
	: op == FI_LAND         ? (T)(o && b)                                                      \
	: op == FI_LXOR         ? (T)(!o != !b)                                                    \
	: op == FI_ATOMIC_WRITE ? b                                                                \
	: op == FI_CSWAP        ? (c == o ? b : o)                                                 \
	: op == FI_CSWAP_NE     ? (c != o ? b : o)                                                 \
	: o
#define NEXT_OF_ORDERED(T, W)                                                                      \
	op == FI_MIN        ? (b < o ? b : o)                                                      \
	: op == FI_MAX      ? (b > o ? b : o)                                                      \
	: op == FI_CSWAP_LE ? (c <= o ? b : o)                                                     \
	: op == FI_CSWAP_LT ? (c < o ? b : o)                                                      \
	: op == FI_CSWAP_GE ? (c >= o ? b : o)                                                     \
	: op == FI_CSWAP_GT ? (c > o ? b : o)                                                      \
	: NEXT_OF_ALL(T, W)
#define NEXT_OF_INTEGERS(T, W)                                                                     \
	op == FI_BOR     ? (o | b)                                                                 \
	: op == FI_BAND  ? (o & b)                                                                 \
	: op == FI_BXOR  ? (o ^ b)                                                                 \
	: op == FI_MSWAP ? ((b & c) | (o & ~c))                                                    \
	: NEXT_OF_ORDERED(T, W)
// clang-format on

#define FUNCTION(id, T, has, W)                                                                    \
	static void next_##id(unsigned op, const void *old, const void *operand,                   \
			      const void *compare, void *next)                                     \
	{                                                                                          \
		T o, b, c, n;                                                                      \
                                                                                                   \
		memcpy(&o, old, sizeof(o));                                                        \
		memcpy(&b, operand, sizeof(b));                                                    \
		memcpy(&c, compare, sizeof(c));                                                    \
		n = (T)(NEXT_OF_##has(T, W));                                                      \
		memcpy(next, &n, sizeof(n));                                                       \
	}
TYPES(FUNCTION)

#define ENTRY(id, T, has, W) [FI_##id] = {sizeof(T), _Alignof(T), OPS_OF_##has, next_##id},
static const struct type {
	size_t size, align;
	uint32_t ops;
	void (*next)(unsigned op, const void *old, const void *operand, const void *compare,
		     void *next);
} types[] = {TYPES(ENTRY)};

/* ---- requests -------------------------------------------------------------------------------- */

size_t hk_fi_atomic_size(unsigned type)
{
	return type < HK_ARRAY_LEN(types) ? types[type].size : 0;
}

size_t hk_fi_atomic_align(unsigned type)
{
	return type < HK_ARRAY_LEN(types) ? types[type].align : 0;
}

bool hk_fi_atomic_valid(enum hk_fi_atomic_kind kind, unsigned type, unsigned op)
{
	static const uint32_t by_kind[] = {
		[HK_FI_ATOMIC_BASE] = OPS_OF_INTEGERS & ~OPS_COMPARING & ~BIT(FI_ATOMIC_READ),
		[HK_FI_ATOMIC_FETCH] = OPS_OF_INTEGERS & ~OPS_COMPARING,
		[HK_FI_ATOMIC_COMPARE] = OPS_COMPARING,
	};

	return type < HK_ARRAY_LEN(types) && op < FI_ATOMIC_OP_LAST &&
	       types[type].ops & by_kind[kind] & BIT(op);
}

bool hk_fi_atomic_check(const struct hk_fi_atomic *a, bool fetch, size_t len)
{
	enum hk_fi_atomic_kind kind = !fetch             ? HK_FI_ATOMIC_BASE
				      : a->op < FI_CSWAP ? HK_FI_ATOMIC_FETCH
							 : HK_FI_ATOMIC_COMPARE;

	return a->count && hk_fi_atomic_valid(kind, a->type, a->op) &&
	       len == a->count * types[a->type].size * hk_fi_atomic_values(a->op);
}

/* ---- many elements --------------------------------------------------------------------------- */

/* Changes an element that the processor can change at once. */
#define CHANGE(W)                                                                                  \
	do {                                                                                       \
		W was = __atomic_load_n((W *)at, __ATOMIC_SEQ_CST), to;                            \
		do                                                                                 \
			t->next(op, &was, operand, compare, &to);                                  \
		while (to != was &&                                                                \
		       !__atomic_compare_exchange_n((W *)at, &was, to, false, __ATOMIC_SEQ_CST,    \
						    __ATOMIC_SEQ_CST));                            \
		memcpy(old, &was, sizeof(was));                                                    \
	} while (0)

/* Changes one element. Reads write nothing, since their region may not permit it. */
static void change(const struct type *t, unsigned op, char *at, const char *operand,
		   const char *compare, char *old)
{
	char next[SIZE_MOST];

	switch ((uintptr_t)at % t->size ? 0 : t->size) {
	case 1:
		CHANGE(uint8_t);
		break;
	case 2:
		CHANGE(uint16_t);
		break;
	case 4:
		CHANGE(uint32_t);
		break;
	case 8:
		CHANGE(uint64_t);
		break;
	default:
		memcpy(old, at, t->size);
		t->next(op, old, operand, compare, next);
		if (op != FI_ATOMIC_READ)
			memcpy(at, next, t->size);
	}
}

void hk_fi_atomic_apply(unsigned type, unsigned op, void *at, size_t count, const char *operand,
			const char *compare, char *old)
{
	static const char
		unused[SIZE_MOST]; /* in place of values that the operation does not need */
	const struct type *t = &types[type];
	unsigned values = hk_fi_atomic_values(op);
	char was[SIZE_MOST] = {0};

	for (size_t i = 0; i < count * t->size; i += t->size)
		change(t, op, (char *)at + i, values > 0 ? operand + i : unused,
		       values > 1 ? compare + i : unused, old ? old + i : was);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_atomic_ops.c: all pairs of datatype and operation, compared with a
 * model. The model computes in integers: a value is a pair of them, of which real types have the
 * first alone. Floating-point values in the tests are small integers, so both are exact.
 */
#include "libfabric/atomic_ops.h"
#include "tests/support/hk_test.h"

#include <complex.h>
#include <pthread.h>
#include <string.h>

typedef __int128 wide;

struct value {
	wide re, im;
};

/* Reads and writes a value of each type, and says what the type can do. */
#define TYPES(X)                                                                                   \
	X(FI_INT8, int8_t, 'i')                                                                    \
	X(FI_UINT8, uint8_t, 'i')                                                                  \
	X(FI_INT16, int16_t, 'i')                                                                  \
	X(FI_UINT16, uint16_t, 'i')                                                                \
	X(FI_INT32, int32_t, 'i')                                                                  \
	X(FI_UINT32, uint32_t, 'i')                                                                \
	X(FI_INT64, int64_t, 'i')                                                                  \
	X(FI_UINT64, uint64_t, 'i')                                                                \
	X(FI_INT128, __int128, 'i')                                                                \
	X(FI_UINT128, unsigned __int128, 'i')                                                      \
	X(FI_FLOAT, float, 'f')                                                                    \
	X(FI_DOUBLE, double, 'f')                                                                  \
	X(FI_LONG_DOUBLE, long double, 'f')

#define COMPLEX_TYPES(X)                                                                           \
	X(FI_FLOAT_COMPLEX, float, 'c')                                                            \
	X(FI_DOUBLE_COMPLEX, double, 'c')                                                          \
	X(FI_LONG_DOUBLE_COMPLEX, long double, 'c')

static const struct {
	int type;
	char is;
	size_t size;
} types[] = {
#define ENTRY(id, T, class)         {id, class, sizeof(T)},
#define COMPLEX_ENTRY(id, T, class) {id, class, sizeof(T complex)},
	TYPES(ENTRY) COMPLEX_TYPES(COMPLEX_ENTRY)};

static struct value load(int type, const void *at)
{
	switch (type) {
#define LOAD(id, T, class)                                                                         \
	case id: {                                                                                 \
		T v;                                                                               \
		memcpy(&v, at, sizeof(v));                                                         \
		return (struct value){(wide)v, 0};                                                 \
	}
#define COMPLEX_LOAD(id, T, class)                                                                 \
	case id: {                                                                                 \
		T v[2];                                                                            \
		memcpy(v, at, sizeof(v));                                                          \
		return (struct value){(wide)v[0], (wide)v[1]};                                     \
	}
		TYPES(LOAD) COMPLEX_TYPES(COMPLEX_LOAD)
	}
	return (struct value){0, 0};
}

static void store(int type, void *at, struct value x)
{
	switch (type) {
#define STORE(id, T, class)                                                                        \
	case id: {                                                                                 \
		T v = (T)x.re;                                                                     \
		memcpy(at, &v, sizeof(v));                                                         \
		return;                                                                            \
	}
#define COMPLEX_STORE(id, T, class)                                                                \
	case id: {                                                                                 \
		T v[2] = {(T)x.re, (T)x.im};                                                       \
		memcpy(at, v, sizeof(v));                                                          \
		return;                                                                            \
	}
		TYPES(STORE) COMPLEX_TYPES(COMPLEX_STORE)
	}
}

/* Is @a less than @b? Of 128 bits, `wide` has the bits of both signs. */
static bool less(int type, wide a, wide b)
{
	return type == FI_UINT128 ? (unsigned __int128)a < (unsigned __int128)b : a < b;
}

static struct value model(int type, unsigned op, struct value o, struct value b, struct value c)
{
	typedef unsigned __int128 u;
	bool ot = o.re || o.im, bt = b.re || b.im, equal = c.re == o.re && c.im == o.im;
	bool swap = false;

	switch (op) {
	case FI_MIN:
		swap = less(type, b.re, o.re);
		break;
	case FI_MAX:
		swap = less(type, o.re, b.re);
		break;
	case FI_SUM:
		return (struct value){(wide)((u)o.re + (u)b.re), o.im + b.im};
	case FI_PROD:
		return (struct value){(wide)((u)o.re * (u)b.re - (u)o.im * (u)b.im),
				      (wide)((u)o.re * (u)b.im + (u)o.im * (u)b.re)};
	case FI_LOR:
		return (struct value){ot || bt, 0};
	case FI_LAND:
		return (struct value){ot && bt, 0};
	case FI_LXOR:
		return (struct value){ot != bt, 0};
	case FI_BOR:
		return (struct value){o.re | b.re, 0};
	case FI_BAND:
		return (struct value){o.re & b.re, 0};
	case FI_BXOR:
		return (struct value){o.re ^ b.re, 0};
	case FI_ATOMIC_READ:
		break;
	case FI_ATOMIC_WRITE:
		swap = true;
		break;
	case FI_CSWAP:
		swap = equal;
		break;
	case FI_CSWAP_NE:
		swap = !equal;
		break;
	case FI_CSWAP_LE:
		swap = !less(type, o.re, c.re);
		break;
	case FI_CSWAP_LT:
		swap = less(type, c.re, o.re);
		break;
	case FI_CSWAP_GE:
		swap = !less(type, c.re, o.re);
		break;
	case FI_CSWAP_GT:
		swap = less(type, o.re, c.re);
		break;
	case FI_MSWAP:
		return (struct value){(b.re & c.re) | (o.re & ~c.re), 0};
	default:
		CHECK(false);
	}
	return swap ? b : o;
}

/* Random values: often equal, often at the ends of the type, and small in floating point. */
static struct value draw(char is)
{
	uint64_t r = hk_rng_next(&hk_test_rng), high = hk_rng_next(&hk_test_rng);
	wide small = (wide)(r % 5) - 2;

	if (is == 'i' && r >> 62)
		return (struct value){(wide)((unsigned __int128)high << 64 | r), 0};
	return (struct value){small, is == 'c' ? (wide)(r / 5 % 3) - 1 : 0};
}

#define ELEMENTS 5

static void fill(size_t i, char *at)
{
	for (size_t k = 0; k < ELEMENTS; k++)
		store(types[i].type, at + k * types[i].size, draw(types[i].is));
}

static void compare_once(size_t i, unsigned op)
{
	_Alignas(32) char at[ELEMENTS * 32] = {0};
	char b[ELEMENTS * 32] = {0}, c[ELEMENTS * 32] = {0}, before[ELEMENTS * 32];
	char old[ELEMENTS * 32] = {0};
	int type = types[i].type;

	fill(i, at);
	fill(i, b);
	fill(i, c);
	memcpy(before, at, sizeof(before));
	hk_fi_atomic_apply((unsigned)type, op, at, ELEMENTS, b, c,
			   hk_rng_next(&hk_test_rng) & 1 ? old : NULL);
	for (size_t k = 0; k < ELEMENTS; k++) {
		size_t o = k * types[i].size;
		char expected[32] = {0};
		struct value now, was = load(type, before + o);

		store(type, expected, model(type, op, was, load(type, b + o), load(type, c + o)));
		now = load(type, expected); /* as the type holds it */
		CHECK(load(type, at + o).re == now.re && load(type, at + o).im == now.im);
	}
}

/* By the rules of fi_atomic(3). */
static bool defined(char is, unsigned op)
{
	bool bits = op == FI_BOR || op == FI_BAND || op == FI_BXOR || op == FI_MSWAP;
	bool order = op == FI_MIN || op == FI_MAX || (op >= FI_CSWAP_LE && op <= FI_CSWAP_GT);

	return is == 'i' || (is == 'f' && !bits) || (is == 'c' && !bits && !order);
}

TEST(every_type_with_every_operation)
{
	unsigned pairs = 0;

	for (size_t i = 0; i < HK_ARRAY_LEN(types); i++) {
		unsigned type = (unsigned)types[i].type;

		CHECK_EQ(hk_fi_atomic_size(type), types[i].size);
		for (unsigned op = 0; op < FI_ATOMIC_OP_LAST; op++) {
			bool is = defined(types[i].is, op), compares = op >= FI_CSWAP;

			CHECK_EQ(hk_fi_atomic_valid(HK_FI_ATOMIC_BASE, type, op),
				 is && !compares && op != FI_ATOMIC_READ);
			CHECK_EQ(hk_fi_atomic_valid(HK_FI_ATOMIC_FETCH, type, op), is && !compares);
			CHECK_EQ(hk_fi_atomic_valid(HK_FI_ATOMIC_COMPARE, type, op),
				 is && compares);
			for (unsigned n = 0; is && n < 300; n++)
				compare_once(i, op);
			pairs += is;
		}
	}
	CHECK_EQ(pairs, 10 * 19 + 3 * 15 + 3 * 9);
}

TEST(values_from_before)
{
	_Alignas(8) int32_t at[3] = {1, 2, 3}, b[3] = {10, 20, 30}, old[3];

	hk_fi_atomic_apply(FI_INT32, FI_SUM, at, 3, (char *)b, NULL, (char *)old);
	CHECK(at[0] == 11 && at[1] == 22 && at[2] == 33);
	CHECK(old[0] == 1 && old[1] == 2 && old[2] == 3);
}

TEST(what_does_not_exist)
{
	CHECK_EQ(hk_fi_atomic_size(FI_UINT128 + 1), 0);
	CHECK(!hk_fi_atomic_valid(HK_FI_ATOMIC_FETCH, FI_UINT128 + 1, FI_SUM));
	CHECK(!hk_fi_atomic_valid(HK_FI_ATOMIC_FETCH, 255, FI_SUM));
	CHECK(!hk_fi_atomic_valid(HK_FI_ATOMIC_COMPARE, FI_INT8, FI_ATOMIC_OP_LAST));
	CHECK(!hk_fi_atomic_valid(HK_FI_ATOMIC_COMPARE, FI_INT8, 255));
}

/* The length must be that of the operands, and nothing else. */
TEST(requests_of_a_wrong_length)
{
	struct hk_fi_atomic a = {.count = 3, .type = FI_INT16, .op = FI_SUM};

	CHECK(hk_fi_atomic_check(&a, false, 6) && hk_fi_atomic_check(&a, true, 6));
	CHECK(!hk_fi_atomic_check(&a, false, 5) && !hk_fi_atomic_check(&a, false, 7));
	a.op = FI_ATOMIC_READ;
	CHECK(hk_fi_atomic_check(&a, true, 0) && !hk_fi_atomic_check(&a, true, 6));
	CHECK(!hk_fi_atomic_check(&a, false, 0));
	a.op = FI_CSWAP;
	CHECK(hk_fi_atomic_check(&a, true, 12) && !hk_fi_atomic_check(&a, false, 12));
	a.count = 0;
	CHECK(!hk_fi_atomic_check(&a, true, 0));
}

/* Two threads add to the same words, by our operations and by the processor's: no sum is lost. */
#define ADDS 200000

static _Alignas(8) uint64_t word8;
static _Alignas(4) uint32_t word4;

static void *add_by_processor(void *arg)
{
	for (unsigned i = 0; i < ADDS; i++) {
		__atomic_fetch_add(&word8, 1, __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&word4, 1, __ATOMIC_SEQ_CST);
	}
	return arg;
}

TEST(sums_of_two_threads)
{
	const uint64_t one8 = 1;
	const uint32_t one4 = 1;
	pthread_t other;

	word8 = word4 = 0;
	CHECK_EQ(pthread_create(&other, NULL, add_by_processor, NULL), 0);
	for (unsigned i = 0; i < ADDS; i++) {
		hk_fi_atomic_apply(FI_UINT64, FI_SUM, &word8, 1, (const char *)&one8, NULL, NULL);
		hk_fi_atomic_apply(FI_UINT32, FI_SUM, &word4, 1, (const char *)&one4, NULL, NULL);
	}
	pthread_join(other, NULL);
	CHECK_EQ(word8, 2 * ADDS);
	CHECK_EQ(word4, 2 * ADDS);
}

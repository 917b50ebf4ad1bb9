/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/add.h: adds 32 numbers of 16 bits, as often as asked (the second experiment of Yamamoto,
 * Kawashima and Matsuo, 2022).
 *
 * The functions are always inlined, so a caller with target_clones gets each version of them.
 */
#ifndef HK_EXAMPLES_ADD_H
#define HK_EXAMPLES_ADD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ADD_VALUES 32

#define ADD_INLINE static inline __attribute__((always_inline))

typedef uint32_t add_vector_t __attribute__((vector_size(32)));

/* Adds sixteen numbers at once, as eight pairs. */
ADD_INLINE uint32_t add_vector(const void *values, uint64_t repeat)
{
	add_vector_t sum = {0}, a, b;
	uint32_t total = 0;

	for (uint64_t t = 0; t < repeat; t++) {
		/* make the compiler assume that the data changed, so that it adds again */
		__asm__ volatile("" : : : "memory");
		memcpy(&a, values, sizeof(a));
		memcpy(&b, (const char *)values + sizeof(a), sizeof(b));
		sum += (a & 0xffff) + (a >> 16) + (b & 0xffff) + (b >> 16);
	}
	for (unsigned k = 0; k < sizeof(sum) / sizeof(uint32_t); k++)
		total += sum[k];
	return total;
}

/* Adds one number after the other, as a loop without vector instructions does. */
ADD_INLINE uint32_t add_plain(const void *values, uint64_t repeat)
{
	uint32_t total = 0;

	for (uint64_t t = 0; t < repeat; t++) {
		__asm__ volatile("" : : : "memory");
		for (unsigned k = 0; k < ADD_VALUES; k++) {
			uint16_t v;
			memcpy(&v, (const char *)values + k * sizeof(v), sizeof(v));
			total += v;
			/* the compiler cannot join this addition with the next one */
			__asm__ volatile("" : "+r"(total));
		}
	}
	return total;
}

ADD_INLINE uint32_t add_values(const void *values, uint64_t repeat, bool plain)
{
	return plain ? add_plain(values, repeat) : add_vector(values, repeat);
}

/* The numbers @first, @first + 1 and so on, and their sum by add_values(). */
ADD_INLINE void add_fill(uint16_t *values, uint16_t first)
{
	for (unsigned i = 0; i < ADD_VALUES; i++)
		values[i] = (uint16_t)(first + i);
}

ADD_INLINE uint32_t add_expected(uint16_t first, uint64_t repeat)
{
	return (uint32_t)repeat * (ADD_VALUES * first + ADD_VALUES * (ADD_VALUES - 1) / 2);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/arguments.h: numbers in a benchmark's arguments. A wrong one ends the program with
 * status 2.
 */
#ifndef HK_BENCH_ARGUMENTS_H
#define HK_BENCH_ARGUMENTS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value @text of the option @name of @program. */
static inline unsigned hk_argument_number(const char *program, const char *name, const char *text,
					  unsigned min, unsigned max)
{
	char *end;

	errno = 0;
	unsigned long v = strtoul(text, &end, 10);
	if (errno || end == text || *end || v < min || v > max) {
		fprintf(stderr, "%s: %s %s is not a number from %u to %u\n", program, name, text,
			min, max);
		exit(2);
	}
	return (unsigned)v;
}

/* Writes the numbers of @text, which has commas between them, to @size. Returns how many there are,
 * at most @most. */
static inline unsigned hk_argument_sizes(const char *program, char *text, unsigned min,
					 unsigned max, unsigned *size, unsigned most)
{
	char *save = NULL;
	unsigned n = 0;

	for (char *t = strtok_r(text, ",", &save); t; t = strtok_r(NULL, ",", &save)) {
		if (n == most) {
			fprintf(stderr, "%s: more than %u sizes\n", program, most);
			exit(2);
		}
		size[n++] = hk_argument_number(program, "--sizes", t, min, max);
	}
	return n;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/env.c: see base/env.h.
 */
#include "base/env.h"

#include "base/common.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define LONGEST 64 /* characters of a name that are compared */

/* The letters to insert, delete or replace until @a is @b (Levenshtein). */
static size_t distance(const char *a, size_t a_len, const char *b)
{
	size_t row[LONGEST + 1], b_len = HK_MIN(strlen(b), (size_t)LONGEST);

	for (size_t j = 0; j <= b_len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			row[j] = HK_MIN(replaced, HK_MIN(row[j], row[j - 1]) + 1);
		}
	}
	return row[b_len];
}

int hk_env_check(const char *prefix, const char *const known[], size_t n, struct hk_error *err)
{
	size_t skip = strlen(prefix);

	for (char **v = environ; v && *v; v++) {
		if (strncmp(*v, prefix, skip) != 0)
			continue;
		const char *name = *v + skip;
		size_t len = strcspn(name, "="), best = 0, least = SIZE_MAX;
		bool good = false;
		for (size_t k = 0; k < n && !good; k++) {
			size_t far = distance(name, HK_MIN(len, (size_t)LONGEST), known[k]);
			good = strlen(known[k]) == len && strncmp(name, known[k], len) == 0;
			if (far < least) {
				least = far;
				best = k;
			}
		}
		if (!good)
			return hk_error_set(err, -EINVAL,
					    "there is no variable %s%.*s; fix: unset it, or use "
					    "%s%s",
					    prefix, (int)len, name, prefix, known[best]);
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/halo_messages.c: the messages of experiments B and C between any number of ranks, computed
 * by the code that cuts the matrix for real ranks.
 *
 *     halo_messages N PARTS rows|metis
 *
 * prints one JSON object: {"ranks": PARTS, "messages": [[from, to, bytes], ...]}.
 */
#include "examples/spmv/problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 4096

static int number(const char *text, int most)
{
	char *end;
	long v = strtol(text, &end, 10);

	return *end || end == text || v < 1 || v > most ? 0 : (int)v;
}

int main(int argc, char **argv)
{
	int n = argc == 4 ? number(argv[1], MATRIX_EDGE_MAX) : 0;
	int parts = n ? number(argv[2], PARTS_MAX) : 0;
	int metis = parts && strcmp(argv[3], "metis") == 0;
	const char *before = "";

	if (!parts || (!metis && strcmp(argv[3], "rows") != 0)) {
		fprintf(stderr,
			"halo_messages: wrong arguments; fix: halo_messages N PARTS rows|metis, "
			"with N "
			"up to %d and PARTS up to %d\n",
			MATRIX_EDGE_MAX, PARTS_MAX);
		return 2;
	}
	long long *elements = calloc((size_t)parts * (size_t)parts, sizeof(*elements));
	const char *why = elements ? matrix_messages(n, parts, metis, elements) : "no memory";

	if (why) {
		fprintf(stderr, "halo_messages: %s\n", why);
		return 1;
	}
	printf("{\"ranks\": %d, \"messages\": [", parts);
	for (int from = 0; from < parts; from++)
		for (int to = 0; to < parts; to++) {
			long long bytes = (long long)sizeof(double) *
					  elements[(size_t)from * (size_t)parts + (size_t)to];

			if (!bytes)
				continue;
			printf("%s[%d, %d, %lld]", before, from, to, bytes);
			before = ", ";
		}
	printf("]}\n");
	free(elements);
	return 0;
}

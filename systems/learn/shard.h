/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/shard.h: the file that holds a node's rows. python/hikyaku/learn/shard.py writes it.
 *
 *   "HKSHARD1" | features u32 | classes u32 | rows u64 | rows of all nodes u64
 *              | node u32 | nodes u32 | sum u64
 *   float64 x[rows][features], y[rows]
 *
 * Little-endian. classes is 0 for regression; otherwise y holds whole numbers below it. sum is the
 * sum of all 64-bit words after the header, to detect a truncated or mixed-up file. The reader
 * checks every field against the file's length and the other fields.
 */
#ifndef HK_LEARN_SHARD_H
#define HK_LEARN_SHARD_H

#include "learn/learn.h"

#define HK_LEARN_SHARD_HLEN 48
#define HK_LEARN_SHARD_MAX  (UINT64_C(1) << 36) /* largest file in bytes */

struct hk_learn_shard {
	struct hk_learn_data data; /* points into memory */
	uint32_t features, classes, node, nodes;
	uint64_t rows_of_all;
	double *memory;
};

/* Checks @len bytes at @bytes; @path is the name in errors. On success @s->data points into @bytes,
 * which must be aligned to 8. -EINVAL: invalid. */
int hk_learn_shard_parse(struct hk_learn_shard *s, const void *bytes, size_t len, const char *path,
			 struct hk_error *err);

/* Reads the file. -errno, -EINVAL, -ENOMEM. Errors name @path and, if possible, the row. */
int hk_learn_shard_read(struct hk_learn_shard *s, const char *path, struct hk_error *err);
void hk_learn_shard_free(struct hk_learn_shard *s);

#endif

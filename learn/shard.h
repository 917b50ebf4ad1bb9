/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/shard.h: the file that holds a node's rows. python/hikyaku/learn/shard.py writes it.
 *
 *   "HKSHARD1" | features u32 | classes u32 | rows u64 | rows of all nodes u64
 *              | node u32 | nodes u32 | sum u64
 *   float64 x[rows][features], y[rows]
 *
 * Little-endian. classes is 0 for regression; else y holds whole numbers below it. sum is that of all
 * 64-bit words after the head, so that a file that was cut or mixed up is seen. What the file says is
 * believed only where it agrees with its length and with itself.
 */
#ifndef HK_LEARN_SHARD_H
#define HK_LEARN_SHARD_H

#include "learn/learn.h"

#define HK_SHARD_HLEN 48
#define HK_SHARD_MAX  (UINT64_C(1) << 36) /* bytes */

struct hk_shard {
	struct hk_learn_data data; /* points into memory */
	uint32_t features, classes, node, nodes;
	uint64_t rows_of_all;
	double *memory;
};

/* Checks @len bytes at @bytes; @path is for errors. On success @s->data points into @bytes, which must be
 * aligned to 8. -EINVAL. */
int hk_shard_parse(struct hk_shard *s, const void *bytes, size_t len, const char *path,
		   struct hk_error *err);

/* Reads the file. -errno, -EINVAL, -ENOMEM. Errors name @path and, where one is to blame, the row. */
int hk_shard_read(struct hk_shard *s, const char *path, struct hk_error *err);
void hk_shard_free(struct hk_shard *s);

#endif

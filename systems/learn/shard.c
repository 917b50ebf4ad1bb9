/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/shard.c: reads and checks a file of rows (learn/shard.h).
 */
#include "learn/shard.h"

#include "base/common.h"
#include "hikyaku/error.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct __attribute__((packed)) head {
	char magic[8];
	uint32_t features, classes;
	uint64_t rows, rows_of_all;
	uint32_t node, nodes;
	uint64_t sum;
};
_Static_assert(sizeof(struct head) == HK_LEARN_SHARD_HLEN, "48 bytes in the file");

#define FIX "; fix: write it again with 'hikyaku learn'"

static int check_head(const struct head *h, size_t len, const char *path, struct hk_error *err)
{
	if (memcmp(h->magic, "HKSHARD1", sizeof(h->magic)) != 0)
		return hk_error_set(err, -EINVAL, "%s is not a shard of version 1" FIX, path);
	if (h->features == 0 || h->features > HK_LEARN_MAX_FEATURES || h->classes == 1 ||
	    h->classes > HK_LEARN_MAX_CLASSES)
		return hk_error_set(err, -EINVAL, "%s has %u features and %u classes" FIX, path,
				    h->features, h->classes);
	if (h->rows == 0 || h->rows > UINT32_MAX || h->rows > h->rows_of_all ||
	    h->node >= h->nodes || h->nodes > UINT16_MAX)
		return hk_error_set(err, -EINVAL, "%s has %llu of %llu rows, of node %u of %u" FIX,
				    path, (unsigned long long)h->rows,
				    (unsigned long long)h->rows_of_all, h->node, h->nodes);
	/* no overflow: at most 2^32 rows of 2^16 + 1 words */
	uint64_t want = HK_LEARN_SHARD_HLEN +
			h->rows * (h->features + UINT64_C(1)) * sizeof(double);
	if (len != want)
		return hk_error_set(err, -EINVAL,
				    "%s has %zu bytes, but %llu rows of %u features take %llu" FIX,
				    path, len, (unsigned long long)h->rows, h->features,
				    (unsigned long long)want);
	return 0;
}

static int check_rows(const struct hk_learn_shard *s, const char *path, struct hk_error *err)
{
	for (size_t i = 0; i < s->data.rows; i++) {
		const double *x = s->data.x + i * s->features, y = s->data.y[i];
		for (uint32_t j = 0; j < s->features; j++)
			if (!isfinite(x[j]))
				return hk_error_set(
					err, -EINVAL,
					"%s, row %zu, feature %u: not a finite number" FIX, path, i,
					j);
		if (!isfinite(y) || (s->classes && !(y >= 0 && y < s->classes && y == floor(y))))
			return hk_error_set(err, -EINVAL, "%s, row %zu: the target is %g" FIX, path,
					    i, y);
	}
	return 0;
}

int hk_learn_shard_parse(struct hk_learn_shard *s, const void *bytes, size_t len, const char *path,
			 struct hk_error *err)
{
	struct head h;
	uint64_t sum = 0, word;
	int rc;

	*s = (struct hk_learn_shard){0};
	if (len < sizeof(h))
		return hk_error_set(err, -EINVAL,
				    "%s has %zu bytes, which is too short for a shard" FIX, path,
				    len);
	memcpy(&h, bytes, sizeof(h));
	rc = check_head(&h, len, path, err);
	if (rc != 0)
		return rc;
	const uint8_t *body = (const uint8_t *)bytes + sizeof(h);
	for (size_t at = 0; at < len - sizeof(h); at += sizeof(word)) {
		memcpy(&word, body + at, sizeof(word));
		sum += word;
	}
	if (sum != h.sum)
		return hk_error_set(err, -EINVAL, "%s is damaged: its sum is wrong" FIX, path);
	s->features = h.features;
	s->classes = h.classes;
	s->node = h.node;
	s->nodes = h.nodes;
	s->rows_of_all = h.rows_of_all;
	s->data.x = (const double *)(const void *)body;
	s->data.y = s->data.x + h.rows * h.features;
	s->data.rows = h.rows;
	return check_rows(s, path, err);
}

static int read_all(int fd, uint8_t *to, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = read(fd, to + at, len - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += (size_t)n;
	}
	return 0;
}

int hk_learn_shard_read(struct hk_learn_shard *s, const char *path, struct hk_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	struct stat st;
	double *memory = NULL;

	*s = (struct hk_learn_shard){0};
	if (fd < 0 || fstat(fd, &st) != 0)
		rc = hk_error_set(err, -errno, "%s cannot be read: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > HK_LEARN_SHARD_MAX)
		rc = hk_error_set(err, -EINVAL, "%s is not a regular file of at most 64 GiB", path);
	else if (memory = malloc((size_t)st.st_size + sizeof(double)), !memory)
		rc = hk_error_set(err, -ENOMEM, "no memory for %s: %lld bytes", path,
				  (long long)st.st_size);
	else if ((rc = read_all(fd, (uint8_t *)memory, (size_t)st.st_size)) != 0)
		hk_error_set(err, rc, "%s cannot be read: %s", path, strerror(-rc));
	else
		rc = hk_learn_shard_parse(s, memory, (size_t)st.st_size, path, err);
	if (fd >= 0)
		close(fd);
	if (rc != 0) {
		free(memory);
		*s = (struct hk_learn_shard){0};
		return rc;
	}
	s->memory = memory;
	return 0;
}

void hk_learn_shard_free(struct hk_learn_shard *s)
{
	free(s->memory);
	*s = (struct hk_learn_shard){0};
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/iov.h: buffers of several pieces. Pure.
 */
#ifndef HK_FI_IOV_H
#define HK_FI_IOV_H

#include "base/common.h"

#include <string.h>
#include <sys/uio.h>

/* A buffer of one piece. */
#define HK_FI_PIECE(buf, len) (&(const struct iovec){(void *)(uintptr_t)(buf), (len)})

static inline size_t hk_fi_iov_total(const struct iovec *iov, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++)
		len += iov[i].iov_len;
	return len;
}

/* A place in a buffer. It moves as bytes are copied. */
struct hk_fi_cursor {
	const struct iovec *iov;
	size_t at; /* bytes of *iov before it */
};

/* The next bytes that lie in one piece, at most @max. There must be some. */
static inline char *hk_fi_iov_next(struct hk_fi_cursor *c, size_t max, size_t *len)
{
	while (c->at == c->iov->iov_len) {
		c->iov++;
		c->at = 0;
	}
	char *next = (char *)c->iov->iov_base + c->at;

	*len = HK_MIN(max, c->iov->iov_len - c->at);
	c->at += *len;
	return next;
}

/* Copies the next @len bytes out of the buffer. */
static inline void hk_fi_iov_get(struct hk_fi_cursor *c, char *to, size_t len)
{
	for (size_t part; len; len -= part, to += part) {
		const char *from = hk_fi_iov_next(c, len, &part);

		memcpy(to, from, part);
	}
}

/* Copies @len bytes to its next ones. */
static inline void hk_fi_iov_put(struct hk_fi_cursor *c, const char *from, size_t len)
{
	for (size_t part; len; len -= part, from += part) {
		char *to = hk_fi_iov_next(c, len, &part);

		memcpy(to, from, part);
	}
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/rx_backlog.h: what a progress proxy took in for an application that is not polling, in
 * the order of arrival.
 */
#ifndef HK_WORKER_RX_BACKLOG_H
#define HK_WORKER_RX_BACKLOG_H

#include "hikyaku/worker.h"

#include <stdatomic.h>

#define HK_RX_BACKLOG_COPY_MAX 2048 /* longer messages stay in their receive buffers */

/* A ring of entries: copied messages, and lists of receive buffers. */
struct hk_rx_backlog {
	char *bytes;
	size_t size;         /* bytes */
	uint64_t head, tail; /* bytes ever added and removed */
	size_t tail_at;      /* offset of `tail`, because a division is expensive */
	unsigned frames;     /* receive buffers in it */
	/* Messages of the worker's own and frames of puts in it. */
	_Atomic unsigned own;
};

struct hk_rx_backlog_entry {
	hk_peer peer;
	uint8_t am;
	bool stale;         /* from an incarnation before the present one */
	struct hk_iov iov;  /* a copied message: valid until the next entry is removed */
	struct rte_mbuf *m; /* or the buffers of a message, or a frame of a put */
};

/* Bytes of memory that the ring takes. */
size_t hk_rx_backlog_size(const struct hk_worker_config *cfg);
int hk_rx_backlog_open(struct hk_worker *w);

static inline bool hk_rx_backlog_empty(const struct hk_rx_backlog *b)
{
	return b->head == b->tail;
}

/* Is there space for one more burst? */
bool hk_rx_backlog_fits(const struct hk_worker *w);

/* Is there space for one more message in its buffers, beside what a burst brings? Messages of the
 * reorder queue are only added while there is. */
bool hk_rx_backlog_fits_reordered(const struct hk_worker *w);

/* Copies the message of @n buffers in @iov. True if it was copied: then the buffers are the
 * caller's again. */
bool hk_rx_backlog_copy(struct hk_worker *w, hk_peer p, uint8_t am, const struct hk_iov *iov,
			unsigned n);

/* Stores a message, or a frame of a put, in its buffers. The caller has asked hk_rx_backlog_fits()
 * and hk_rx_backlog_fits_reordered(), so there is space. */
void hk_rx_backlog_add_buffers(struct hk_worker *w, struct rte_mbuf *m);

/* Removes the oldest entry. False if there is none. */
bool hk_rx_backlog_next(struct hk_worker *w, struct hk_rx_backlog_entry *entry);

/* Removes the oldest entry of the worker's own from @at on, and moves @at behind it. It overtakes
 * messages of the application, and none of these depends on it. False if there is none. */
bool hk_rx_backlog_next_own(struct hk_worker *w, uint64_t *at, struct hk_rx_backlog_entry *entry);

/* Frees the space of entries that hk_rx_backlog_next_own() removed, up to the first that remains.
 */
void hk_rx_backlog_trim(struct hk_worker *w);

#endif

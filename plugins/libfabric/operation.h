/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/operation.h: all operations: to whom they go, how they end, and the table of those that
 * wait for the peer's answer.
 *
 * Each of them runs between hk_fi_begin() and hk_fi_finish(), which lock the domain.
 */
#ifndef HK_FI_OPERATION_H
#define HK_FI_OPERATION_H

#include "libfabric/provider.h"

struct hk_fi_op {
	struct hk_fi_ep *ep;
	void *context;
	uint64_t flags; /* FI_SEND, FI_READ or FI_WRITE, what it is (FI_MSG …), those of the call */
	uint64_t tag;   /* of a message */
	hk_peer peer;   /* HK_PEER_NONE: our own worker */
};

/* Finds the address @at of op->ep, and op->peer, for an operation with @len bytes in that many
 * pieces. On a negative return nothing is locked. */
int hk_fi_begin(struct hk_fi_op *op, size_t pieces, size_t len, fi_addr_t at,
		const struct hk_fi_address **to);

/* Ends what hk_fi_begin() has begun. Returns what the call returns: 0 for all positive @rc. */
ssize_t hk_fi_finish(struct hk_fi_ep *ep, int rc);

/* Reports the end of @op. @error 0: success. */
void hk_fi_end(const struct hk_fi_op *op, int error);

/* An operation that waits for DONE. */
struct hk_fi_pending {
	struct hk_fi_op op;
	struct hk_fi_pending *next; /* of the free ones */
	uint32_t id;
	bool active;
	hk_region region; /* of a long message, or HK_REGION_NONE */
	char *copy;       /* its bytes lay in several pieces: this is their copy, or NULL */
	struct iovec result[HK_FI_IOV]; /* where fetched values come */
	size_t results;                 /* pieces */
};

/* NULL: there is no memory. */
struct hk_fi_pending *hk_fi_pending_take(struct hk_fi_domain *d, const struct hk_fi_op *op);
/* Gives it back without a report. */
void hk_fi_pending_give(struct hk_fi_domain *d, struct hk_fi_pending *p);
/* @peer has answered. @fetched: the @len bytes of values that it says were there. */
void hk_fi_pending_done(struct hk_fi_domain *d, hk_peer peer, const struct hk_fi_header *done,
			const char *fetched, size_t len);
/* Gives all of an endpoint back that is closed. */
void hk_fi_pending_forget(struct hk_fi_ep *ep);
/* Frees the table, after the worker is closed. */
void hk_fi_pending_close(struct hk_fi_domain *d);

#endif

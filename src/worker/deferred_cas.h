/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/deferred_cas.h: a peer's compare-and-swap that missed repeatedly and is answered when it
 * succeeds.
 */
#ifndef HK_WORKER_DEFERRED_CAS_H
#define HK_WORKER_DEFERRED_CAS_H

#include "hikyaku/worker.h"
#include "wire/atomic.h"

#include <stdatomic.h>

enum hk_deferred_cas_state {
	HK_DEFERRED_CAS_NONE,
	HK_DEFERRED_CAS_WATCHED,  /* `request` was answered; does the word ever match it? */
	HK_DEFERRED_CAS_SEEN,     /* the word did: the next such request is deferred */
	HK_DEFERRED_CAS_DEFERRED, /* `request` waits for its answer */
};

/* Guarded by the worker's lock, except `state`. */
struct hk_deferred_cas {
	_Atomic int state; /* enum hk_deferred_cas_state */
	hk_peer peer;
	struct hk_wire_atomic request;
	uint64_t until; /* ns: the end of watching or deferring */
};

/* Call after each compare-and-swap of @p: @req is the request, with the value found in `operand`.
 */
void hk_deferred_cas_count(struct hk_worker *w, hk_peer p, const struct hk_wire_atomic *req);

/* Call before one is carried out. True: it is deferred, and answered later. */
bool hk_deferred_cas_add(struct hk_worker *w, hk_peer p, const struct hk_wire_atomic *req);

/* Carries out and answers the deferred one if it succeeds now. */
void hk_deferred_cas_try(struct hk_worker *w);

/* Carries it out and answers it in any case. */
void hk_deferred_cas_end(struct hk_worker *w);

/* Ends it if its time has passed. */
void hk_deferred_cas_due(struct hk_worker *w, uint64_t now);

/* The connection to @p has ended, or @p has restarted. */
void hk_deferred_cas_forget(struct hk_worker *w, hk_peer p);

/* By the progress thread or the RMA proxy, without the lock: tries several times, for less than
 * 100 us. */
void hk_deferred_cas_poll(struct hk_worker *w);

/* Is one deferred? */
static inline bool hk_deferred_cas_waits(const struct hk_deferred_cas *d)
{
	return HK_UNLIKELY(atomic_load_explicit(&d->state, memory_order_relaxed) ==
			   HK_DEFERRED_CAS_DEFERRED);
}

/* Is a word watched, or a request deferred? */
static inline bool hk_deferred_cas_active(const struct hk_deferred_cas *d)
{
	return HK_UNLIKELY(atomic_load_explicit(&d->state, memory_order_relaxed));
}

#endif

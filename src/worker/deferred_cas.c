/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/deferred_cas.c: a peer's compare-and-swap that misses repeatedly is answered when it
 * succeeds.
 *
 * DESIGN NOTES
 *
 * Problem. Applications take locks in regions by a compare-and-swap that they repeat until it
 * succeeds. The owner's worker carries it out when the owner polls. An owner that polls only while
 * it holds the lock itself never lets a peer in. And if the owner
 * polls now and then, and serves each peer once a poll, two peers may be in step. One of them
 * always asks while the other has the lock.
 *
 * Approach. When a peer has missed one word often enough in a row (cfg.defer_cas), the word is
 * watched. The worker looks at it after operations of other peers, and in the progress thread or
 * the RMA proxy. These threads look at times that have nothing to do with the application's, as a
 * NIC's would be. If the word is ever seen to match, the peer's next such request is deferred, and
 * carried out as soon as it succeeds. A peer that waits for a word that does not change, or reads
 * it by compare-and-swap, is answered at once.
 *
 * Invariants. One word is watched or one request deferred at a time, and not for longer than
 * cfg.defer_cas.time. If that was of no use, the peer's threshold doubles; if it was, the threshold
 * is reset. A deferred request is answered before any later request of the same peer. Without a
 * thread of this worker that looks at the word, nothing is deferred.
 */
#include "worker/deferred_cas.h"

#include "worker/atomic_ops.h"
#include "worker/pending_reply.h"
#include "worker/proxy.h"
#include "worker/rma_internal.h"
#include "worker/tx.h"

#define TRIES 64 /* of hk_deferred_cas_poll(), each time the thread wakes up */

/* Would @req, of @p, miss if it were carried out now? Reading costs less than a compare-and-swap.
 * A request that will be refused does not miss. */
static bool misses(const struct hk_worker *w, hk_peer p, const struct hk_wire_atomic *req)
{
	const char *at = hk_worker_region_at(w, p, req->region, HK_REGION_READ | HK_REGION_WRITE,
					     req->offset, req->size);
	struct hk_wire_atomic found = *req;

	if (!at || (uintptr_t)at % req->size)
		return false;
	found.operand = req->size == 8 ? __atomic_load_n((const uint64_t *)at, __ATOMIC_RELAXED)
				       : __atomic_load_n((const uint32_t *)at, __ATOMIC_RELAXED);
	return hk_atomic_missed(&found);
}

/* Is @req the same as the peer's last one? A peer that adds by compare-and-swap comes with another
 * value each time. */
static bool repeats(const struct hk_peer_cas *last, const struct hk_wire_atomic *req)
{
	return last->region == req->region && last->offset == req->offset &&
	       last->compare == req->compare;
}

static uint32_t threshold(const struct hk_worker *w, const struct hk_peer_cas *last)
{
	return HK_MAX(last->threshold, w->cfg.defer_cas.misses);
}

void hk_deferred_cas_count(struct hk_worker *w, hk_peer p, const struct hk_wire_atomic *req)
{
	struct hk_peer_cas *last = &w->peer[p].atomic.cas;

	last->misses = hk_atomic_missed(req) ? (repeats(last, req) ? last->misses : 0) + 1 : 0;
	last->region = req->region;
	last->offset = req->offset;
	last->compare = req->compare;
}

static int state(const struct hk_worker *w)
{
	return atomic_load_explicit(&w->deferred_cas.state, memory_order_relaxed);
}

static void enter_state(struct hk_worker *w, enum hk_deferred_cas_state to)
{
	w->deferred_cas.until = hk_now(w) + w->cfg.defer_cas.time;
	atomic_store(&w->deferred_cas.state, to);
	if (to == HK_DEFERRED_CAS_WATCHED && w->rma_proxy.running)
		hk_rma_proxy_wake(w);
}

static bool is_watched(const struct hk_deferred_cas *d, hk_peer p, const struct hk_wire_atomic *req)
{
	return d->peer == p && d->request.region == req->region &&
	       d->request.offset == req->offset && d->request.compare == req->compare &&
	       d->request.size == req->size;
}

bool hk_deferred_cas_add(struct hk_worker *w, hk_peer p, const struct hk_wire_atomic *req)
{
	const struct hk_peer_cas *last = &w->peer[p].atomic.cas;
	struct hk_deferred_cas *d = &w->deferred_cas;

	if (HK_LIKELY(last->misses < threshold(w, last)) || !w->cfg.defer_cas.misses ||
	    !repeats(last, req) || hk_deferred_cas_waits(d) || !w->thread.running || w->by_poller ||
	    !misses(w, p, req))
		return false;
	if (state(w) == HK_DEFERRED_CAS_NONE) {
		d->peer = p;
		d->request = *req;
		enter_state(w, HK_DEFERRED_CAS_WATCHED);
	}
	if (state(w) != HK_DEFERRED_CAS_SEEN || !is_watched(d, p, req))
		return false;
	d->request = *req;
	w->n.atomics_deferred++;
	enter_state(w, HK_DEFERRED_CAS_DEFERRED);
	return true;
}

/* The poller or the engine may know that the peer has gone before the application does. */
static bool dropped(struct hk_worker *w)
{
	if (HK_LIKELY(hk_peer_connected(w, w->deferred_cas.peer)))
		return false;
	hk_deferred_cas_forget(w, w->deferred_cas.peer);
	return true;
}

void hk_deferred_cas_try(struct hk_worker *w)
{
	struct hk_deferred_cas *d = &w->deferred_cas;
	hk_buf *b;

	if (HK_LIKELY(!hk_deferred_cas_active(d)) || misses(w, d->peer, &d->request) || dropped(w))
		return;
	if (state(w) == HK_DEFERRED_CAS_WATCHED)
		enter_state(w, HK_DEFERRED_CAS_SEEN);
	if (!hk_deferred_cas_waits(d) || !(b = hk_pending_reply_buf(w, d->peer)))
		return;
	if (hk_atomic_try(w, d->peer, d->request, b)) {
		w->peer[d->peer].atomic.cas.threshold = w->cfg.defer_cas.misses;
		atomic_store(&d->state, HK_DEFERRED_CAS_NONE);
	} else {
		hk_buf_release(w, b);
	}
}

/* Watching or deferring was of no use: doubles the peer's threshold, up to @most. */
static void raise_threshold(const struct hk_worker *w, struct hk_peer_cas *last, uint32_t most)
{
	last->misses = 0;
	last->threshold = HK_MAX(HK_MIN(2 * threshold(w, last), most), last->threshold);
}

void hk_deferred_cas_end(struct hk_worker *w)
{
	struct hk_deferred_cas *d = &w->deferred_cas;

	hk_deferred_cas_try(w);
	if (!hk_deferred_cas_waits(d) || dropped(w))
		return;
	atomic_store(&d->state, HK_DEFERRED_CAS_NONE);
	hk_atomic_serve(w, d->peer, &d->request);
	raise_threshold(w, &w->peer[d->peer].atomic.cas, w->cfg.defer_cas.defer_misses_max);
}

void hk_deferred_cas_due(struct hk_worker *w, uint64_t now)
{
	struct hk_deferred_cas *d = &w->deferred_cas;

	if (!hk_deferred_cas_active(d) || w->by_poller || (int64_t)(now - d->until) < 0)
		return;
	if (hk_deferred_cas_waits(d)) {
		hk_deferred_cas_end(w);
		return;
	}
	if (state(w) == HK_DEFERRED_CAS_WATCHED)
		raise_threshold(w, &w->peer[d->peer].atomic.cas, w->cfg.defer_cas.watch_misses_max);
	atomic_store(&d->state, HK_DEFERRED_CAS_NONE);
}

void hk_deferred_cas_forget(struct hk_worker *w, hk_peer p)
{
	w->peer[p].atomic.cas.misses = w->peer[p].atomic.cas.threshold = 0;
	if (hk_deferred_cas_active(&w->deferred_cas) && w->deferred_cas.peer == p)
		atomic_store(&w->deferred_cas.state, HK_DEFERRED_CAS_NONE);
}

/* Waits between two tries. The length varies, or the tries might be in step with the application.
 */
static void wait_before_try(const struct hk_worker *w, unsigned i)
{
	uint64_t then = hk_now(w) + 300 + i * 379 % 1501;

	while ((int64_t)(hk_now(w) - then) < 0)
		;
}

void hk_deferred_cas_poll(struct hk_worker *w)
{
	for (unsigned i = 0; i < TRIES && hk_deferred_cas_active(&w->deferred_cas);
	     wait_before_try(w, i++)) {
		if (!hk_biased_try_proxy(&w->lock))
			continue;
		w->gather++;
		hk_deferred_cas_try(w);
		hk_deferred_cas_due(w, hk_now(w));
		w->gather--;
		hk_txqs_flush(w);
		hk_biased_leave_proxy(&w->lock);
	}
}

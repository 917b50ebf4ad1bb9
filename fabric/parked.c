/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/parked.c: a compare-and-swap of a peer that misses again and again waits until it hits.
 *
 * Locks that lie in regions are taken that way, by who tries in time. A rank that takes its own lock in a loop, until a peer has
 * written what it looks for, may poll the fabric while it has the lock, and never else: osc/rdma's MPI_Win_unlock
 * makes progress before it gives the lock back. Then every attempt of the peer is done while the lock is taken, for
 * ever. And two peers of an owner that looks now and then, and serves each once a look, may be in step: one
 * always asks while the other has it.
 *
 * So when a peer has missed a word many times in a row, the word is watched: after operations of others, and by the
 * helper thread or the servant, at times that have nothing to do with the application's, as a NIC's would. If it is ever seen to have
 * what the peer wants, its next request is parked, and done as soon as it would hit. Who waits for a word that does not
 * change, or reads it by compare-and-swap, is answered as ever.
 *
 * One is watched or parked at a time, and not for long. If it was for nothing, it takes that peer twice as many misses until the
 * next. What the same peer asks meanwhile is done after it.
 */
#include "fabric/internal.h"

#define PATIENCE       16u   /* misses, each a round trip */
#define PATIENCE_WATCH 1024u /* at the most until it is watched again: that keeps nobody waiting */
#define PATIENCE_MOST  (1u << 20)
#define PARKED_FOR     (10 * HK_MSEC) /* some turns of the scheduler */
#define LOOKS          64             /* of the other thread, each time it wakes up */

/* Would @w, of @p, miss if it were done now? A look costs less than a try. What is refused does not. */
static bool misses(const struct hk_fabric *f, hk_peer p, const struct hk_wire_atomic *w)
{
	const char *at = hk_region_at(f, p, w->region, HK_REGION_READ | HK_REGION_WRITE, w->offset,
				      w->size);
	struct hk_wire_atomic found = *w;

	if (!at || (uintptr_t)at % w->size)
		return false;
	found.operand = w->size == 8 ? __atomic_load_n((const uint64_t *)at, __ATOMIC_RELAXED)
				     : __atomic_load_n((const uint32_t *)at, __ATOMIC_RELAXED);
	return hk_atomic_missed(&found);
}

/* The same as its last one? Who wants to add by compare-and-swap comes with another value each time. */
static bool again(const struct hk_peer_tx *t, const struct hk_wire_atomic *w)
{
	return t->cas_region == w->region && t->cas_offset == w->offset &&
	       t->cas_compare == w->compare;
}

static uint32_t patience(const struct hk_peer_tx *t)
{
	return HK_MAX(t->cas_patience, PATIENCE);
}

void hk_parked_count(struct hk_fabric *f, hk_peer p, const struct hk_wire_atomic *w)
{
	struct hk_peer_tx *t = &f->peer[p];

	t->cas_misses = hk_atomic_missed(w) ? (again(t, w) ? t->cas_misses : 0) + 1 : 0;
	t->cas_region = w->region;
	t->cas_offset = w->offset;
	t->cas_compare = w->compare;
}

static int state(const struct hk_fabric *f)
{
	return atomic_load_explicit(&f->parked.state, memory_order_relaxed);
}

static void become(struct hk_fabric *f, enum hk_parked_state to)
{
	f->parked.until = hk_now(f) + PARKED_FOR;
	atomic_store(&f->parked.state, to);
	if (to == HK_PARKED_WATCHED && f->servant_runs)
		hk_servant_call(f);
}

static bool is_of(const struct hk_parked *k, hk_peer p, const struct hk_wire_atomic *w)
{
	return k->peer == p && k->ask.region == w->region && k->ask.offset == w->offset &&
	       k->ask.compare == w->compare && k->ask.size == w->size;
}

bool hk_park(struct hk_fabric *f, hk_peer p, const struct hk_wire_atomic *w)
{
	const struct hk_peer_tx *t = &f->peer[p];
	struct hk_parked *k = &f->parked;

	if (HK_LIKELY(t->cas_misses < patience(t)) || !again(t, w) || hk_parked_full(f) ||
	    !f->helper_runs || f->stand_in || !misses(f, p, w))
		return false;
	if (state(f) == HK_PARKED_NONE) {
		k->peer = p;
		k->ask = *w;
		become(f, HK_PARKED_WATCHED);
	}
	if (state(f) != HK_PARKED_SEEN || !is_of(k, p, w))
		return false;
	k->ask = *w;
	f->n.atomics_parked++;
	become(f, HK_PARKED_FULL);
	return true;
}

/* A stand-in may have heard that its peer has gone, or the engine, and the application not yet. */
static bool dropped(struct hk_fabric *f)
{
	if (HK_LIKELY(hk_peer_talks(f, f->parked.peer)))
		return false;
	hk_parked_forget(f, f->parked.peer);
	return true;
}

void hk_parked_try(struct hk_fabric *f)
{
	struct hk_parked *k = &f->parked;
	hk_buf *b;

	if (HK_LIKELY(!hk_parked_busy(f)) || misses(f, k->peer, &k->ask) || dropped(f))
		return;
	if (state(f) == HK_PARKED_WATCHED)
		become(f, HK_PARKED_SEEN);
	if (!hk_parked_full(f) || !(b = hk_later_buf(f, k->peer)))
		return;
	if (hk_atomic_hit(f, k->peer, k->ask, b)) {
		f->peer[k->peer].cas_patience = PATIENCE;
		atomic_store(&k->state, HK_PARKED_NONE);
	} else {
		hk_tx_give(f, b);
	}
}

static void in_vain(struct hk_peer_tx *t, uint32_t most)
{
	t->cas_misses = 0;
	t->cas_patience = HK_MAX(HK_MIN(2 * patience(t), most), t->cas_patience);
}

void hk_parked_end(struct hk_fabric *f)
{
	struct hk_parked *k = &f->parked;

	hk_parked_try(f);
	if (!hk_parked_full(f) || dropped(f))
		return;
	atomic_store(&k->state, HK_PARKED_NONE);
	hk_atomic_serve(f, k->peer, &k->ask);
	in_vain(&f->peer[k->peer], PATIENCE_MOST);
}

void hk_parked_due(struct hk_fabric *f, uint64_t now)
{
	struct hk_parked *k = &f->parked;

	if (!hk_parked_busy(f) || f->stand_in || (int64_t)(now - k->until) < 0)
		return;
	if (hk_parked_full(f)) {
		hk_parked_end(f);
		return;
	}
	if (state(f) == HK_PARKED_WATCHED)
		in_vain(&f->peer[k->peer], PATIENCE_WATCH);
	atomic_store(&k->state, HK_PARKED_NONE);
}

void hk_parked_forget(struct hk_fabric *f, hk_peer p)
{
	f->peer[p].cas_misses = f->peer[p].cas_patience = 0;
	if (hk_parked_busy(f) && f->parked.peer == p)
		atomic_store(&f->parked.state, HK_PARKED_NONE);
}

/* Not always as long, or it might be in step with the application. */
static void pause_a_while(const struct hk_fabric *f, unsigned i)
{
	uint64_t then = hk_now(f) + 300 + i * 379 % 1501;

	while ((int64_t)(hk_now(f) - then) < 0)
		;
}

void hk_parked_look(struct hk_fabric *f)
{
	for (unsigned i = 0; i < LOOKS && hk_parked_busy(f); pause_a_while(f, i++)) {
		if (!hk_biased_try_helper(&f->lock))
			continue;
		f->gather++;
		hk_parked_try(f);
		hk_parked_due(f, hk_now(f));
		f->gather--;
		hk_tx_flush(f);
		hk_biased_leave_helper(&f->lock);
	}
}

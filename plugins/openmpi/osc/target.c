/* SPDX-License-Identifier: BSD-3-Clause */
/* openmpi/osc/target.c: the owner's side of a window (target.h). */
#include "openmpi/osc/data.h"

#include "ompi_config.h"
#include "ompi/constants.h"

#include "base/common.h"

#include <stdlib.h>
#include <string.h>

/* A call that waits for the lock, in the owner's own memory. */
struct hk_osc_kept {
	struct hk_btl_waiting caller, unlock;
	bool unlocks;                              /* `unlock` is valid */
	char bytes[] __attribute__((aligned(16))); /* its arguments, then its result */
};

/* ---- locks ----------------------------------------------------------------------------------- */

static struct hk_osc_kept *keep(const struct hk_btl_caller *caller, const void *args, size_t result)
{
	size_t len = caller->call->len;
	struct hk_osc_kept *k = malloc(sizeof(*k) + len + result);

	if (!k)
		return NULL;
	hk_btl_caller_keep(&k->caller, caller);
	k->unlocks = false;
	if (len)
		memcpy(k->bytes, args, len);
	return k;
}

/* Replies to a call that was kept. Without memory for the reply its caller waits for ever, as
 * everything else does then. */
static void answer(struct hk_osc_target *t, struct hk_btl_waiting *caller, const void *result)
{
	(void)t->rpc->reply(caller, result);
}

static bool release(struct hk_osc_target *t, uint32_t rank)
{
	struct hk_osc_rank *w = &hk_osc_ranks(t->segment.state, t->ranks)[rank];

	if (!w->holds)
		return false;
	w->holds = false;
	return hk_osc_lock_release(&t->segment.state->lock);
}

/* Rank @rank, whose call was kept, has the lock now. */
static void run_kept(struct hk_osc_target *t, uint32_t rank)
{
	struct hk_osc_kept *k = t->kept[rank];
	struct hk_osc_data d;

	hk_osc_ranks(t->segment.state, t->ranks)[rank].is_kept = false;
	t->kept[rank] = NULL;
	if (!k)
		return;
	struct hk_wire_atomic *call = &k->caller.call;
	bool has_data = hk_osc_kind_of(call->operand) != HK_OSC_LOCK;
	char *result = k->bytes + call->len;
	bool valid = !has_data || hk_osc_data_parse(t, call, k->bytes, &d);

	call->len = has_data && valid ? hk_osc_data_run(t, &d, result) : 0;
	call->operand = valid ? 0 : HK_OSC_REFUSED;
	answer(t, &k->caller, result);
	if (k->unlocks) {
		(void)release(t, rank);
		k->unlock.call.len = 0;
		answer(t, &k->unlock, NULL);
	}
	free(k);
}

/* Rank @rank, which waited, has the lock. */
static void grant(struct hk_osc_target *t, uint32_t rank)
{
	struct hk_osc_rank *w = &hk_osc_ranks(t->segment.state, t->ranks)[rank];

	w->holds = true;
	if (w->is_kept && t->is_owner) {
		run_kept(t, rank);
		return;
	}
	t->segment.state->must_tell |= w->is_kept;
	atomic_store(&w->granted, true);
}

static void grant_next(struct hk_osc_target *t)
{
	struct hk_osc_state *s = t->segment.state;
	uint32_t rank;

	while ((rank = hk_osc_lock_next(&s->lock, hk_osc_waiters(s, t->ranks))) != HK_OSC_NOBODY)
		grant(t, rank);
}

/* Carries out the calls of ranks that another process of this node has granted the lock. */
static enum hk_rpc_end tell_granted(struct hk_osc_target *t)
{
	struct hk_osc_state *s = t->segment.state;

	if (!t->is_owner)
		return HK_RPC_DENIED;
	s->must_tell = false;
	for (uint32_t rank = 0; rank < t->ranks; rank++) {
		struct hk_osc_rank *w = &hk_osc_ranks(s, t->ranks)[rank];

		if (w->is_kept && atomic_exchange(&w->granted, false))
			run_kept(t, rank);
	}
	grant_next(t);
	return HK_RPC_DONE;
}

/* Takes the lock that the call asks for. HK_RPC_LATER: its rank waits. A call from another process
 * is kept then; @result: the bytes that it will give back. */
static enum hk_rpc_end take_lock(struct hk_osc_target *t, const struct hk_btl_caller *caller,
				 bool called, const void *args, size_t result)
{
	struct hk_osc_state *s = t->segment.state;
	uint32_t rank = (uint32_t)caller->call->offset;
	struct hk_osc_rank *w = &hk_osc_ranks(s, t->ranks)[rank];
	bool exclusive = hk_osc_lock_of(caller->call->operand) == HK_OSC_EXCLUSIVE;

	if (w->holds || hk_osc_waiters(s, t->ranks).of[rank].waits)
		return HK_RPC_DENIED; /* a rank has one request */
	if (HK_LIKELY(hk_osc_lock_try(&s->lock, hk_osc_waiters(s, t->ranks), rank, exclusive))) {
		w->holds = true;
		return HK_RPC_DONE;
	}
	if (called &&
	    (!t->is_owner || t->kept[rank] || !(t->kept[rank] = keep(caller, args, result))))
		return HK_RPC_DENIED;
	w->is_kept = called;
	atomic_store(&w->granted, false);
	hk_osc_lock_wait(&s->lock, hk_osc_waiters(s, t->ranks), rank, exclusive);
	return HK_RPC_LATER;
}

static enum hk_rpc_end unlock(struct hk_osc_target *t, const struct hk_btl_caller *caller)
{
	uint32_t rank = (uint32_t)caller->call->offset;
	struct hk_osc_kept *k = t->kept ? t->kept[rank] : NULL;

	if (k && k->unlocks)
		return HK_RPC_DENIED;
	if (k) { /* not before its operation */
		k->unlocks = true;
		hk_btl_caller_keep(&k->unlock, caller);
		return HK_RPC_LATER;
	}
	if (!release(t, rank))
		return HK_RPC_DENIED;
	grant_next(t);
	return HK_RPC_DONE;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static enum hk_rpc_end serve(struct hk_osc_target *t, struct hk_btl_caller *caller, bool called,
			     const void *args, void *result)
{
	struct hk_wire_atomic *call = caller->call;
	enum hk_osc_kind kind = hk_osc_kind_of(call->operand);
	unsigned lock = hk_osc_lock_of(call->operand);
	struct hk_osc_state *s = t->segment.state;
	struct hk_osc_data d = {.total = 0};
	bool has_data = kind <= HK_OSC_CAS;

	if (call->offset >= t->ranks || (!has_data && call->len) ||
	    (has_data && !hk_osc_data_parse(t, call, args, &d)))
		return HK_RPC_DENIED;
	if (lock != HK_OSC_NO_LOCK) {
		if (lock > HK_OSC_EXCLUSIVE || kind > HK_OSC_LOCK || (has_data && !called))
			return HK_RPC_DENIED;
		enum hk_rpc_end end = take_lock(t, caller, called, args, d.total);

		if (end != HK_RPC_DONE)
			return end;
	}
	call->operand = 0;
	call->len = has_data ? hk_osc_data_run(t, &d, result) : 0;
	switch (kind) {
	case HK_OSC_UNLOCK:
		return unlock(t, caller);
	case HK_OSC_POST:
		hk_osc_posted(s, t->ranks)[call->offset]++;
		return HK_RPC_DONE;
	case HK_OSC_COMPLETE:
		s->completed++;
		return HK_RPC_DONE;
	case HK_OSC_GRANT:
		return tell_granted(t);
	default:
		return kind <= HK_OSC_LOCK ? HK_RPC_DONE : HK_RPC_DENIED;
	}
}

enum hk_rpc_end hk_osc_serve(struct hk_osc_target *t, struct hk_btl_caller *caller, bool called,
			     const void *args, void *result, bool *tell)
{
	*tell = false;
	if (HK_UNLIKELY(!hk_osc_state_enter(t->segment.state)))
		return HK_RPC_DENIED;
	enum hk_rpc_end end = serve(t, caller, called, args, result);

	*tell = t->segment.state->must_tell && !t->is_owner;
	hk_osc_state_leave(t->segment.state);
	return end;
}

static bool is_claimed(struct hk_osc_target *t, const struct hk_btl_caller *caller)
{
	struct mca_btl_base_endpoint_t **callers = atomic_load(&t->callers);
	uint64_t rank = caller->call->offset;

	return callers && rank < t->ranks && callers[rank] && t->rpc->is_of(callers[rank], caller);
}

static enum hk_rpc_end called(void *arg, struct hk_btl_caller *caller, const void *args,
			      void *result)
{
	bool tell;

	if (HK_UNLIKELY(!is_claimed(arg, caller)))
		return HK_RPC_DENIED;
	return hk_osc_serve(arg, caller, true, args, result, &tell);
}

/* ---- start and end --------------------------------------------------------------------------- */

static bool has_space(struct hk_osc_target *t)
{
	t->operands = aligned_alloc(64, (t->rpc->max() + 63) / 64 * 64);
	if (t->is_owner)
		t->kept = calloc(t->ranks, sizeof(struct hk_osc_kept *));
	return t->operands && (t->kept || !t->is_owner);
}

int hk_osc_target_open(struct hk_osc_target *t, const struct hk_btl_rpc *rpc, void *base,
		       size_t size, bool dynamic, unsigned ranks, bool shared)
{
	bool allocates = !base && !dynamic;

	hk_osc_data_open();
	*t = (struct hk_osc_target){
		.rpc = rpc,
		.is_owner = true,
		.ranks = ranks,
		.size = size,
		.dynamic = dynamic,
		.procedure = {.fn = called, .arg = t},
	};
	if (!hk_osc_segment_make(&t->segment, ranks, allocates, size, shared)) {
		*t = (struct hk_osc_target){0};
		return OMPI_ERR_OUT_OF_RESOURCE;
	}
	t->base = allocates ? t->segment.memory : base;
	t->has_procedure = has_space(t) && rpc->add(&t->procedure);
	if (t->has_procedure)
		return OMPI_SUCCESS;
	hk_osc_target_close(t);
	return OMPI_ERR_OUT_OF_RESOURCE;
}

bool hk_osc_target_map(struct hk_osc_target *t, const struct hk_btl_rpc *rpc, const char *name,
		       uint64_t cookie, bool memory, size_t size, unsigned ranks)
{
	hk_osc_data_open();
	*t = (struct hk_osc_target){.rpc = rpc, .ranks = ranks, .size = size};
	if (!hk_osc_segment_map(&t->segment, name, cookie, ranks, memory, size))
		return false;
	t->base = t->segment.memory;
	if (has_space(t))
		return true;
	hk_osc_target_close(t);
	return false;
}

void hk_osc_target_close(struct hk_osc_target *t)
{
	if (t->has_procedure)
		t->rpc->del(&t->procedure);
	for (uint32_t rank = 0; t->kept && rank < t->ranks; rank++)
		free(t->kept[rank]);
	free(t->kept);
	while (t->attached) {
		struct hk_osc_attached *next = t->attached->next;

		free(t->attached);
		t->attached = next;
	}
	free(t->operands);
	if (t->segment.state)
		hk_osc_segment_free(&t->segment);
	*t = (struct hk_osc_target){0};
}

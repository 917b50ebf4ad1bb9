/* SPDX-License-Identifier: BSD-3-Clause */
/* openmpi/osc/target.c: the owner's side of a window (target.h). */
#include "openmpi/osc/target.h"

#include "ompi_config.h"
#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/op/op.h"
#include "opal/class/opal_pointer_array.h"

#include "base/common.h"

#include <stdlib.h>
#include <string.h>

/* ---- locks ----------------------------------------------------------------------------------- */

/* Answers the call of a rank that waited. Without memory for the answer it waits for ever, as
 * everything else does then. */
static void answer(struct hk_osc_target *t, struct hk_osc_waiting *w)
{
	w->called = false;
	w->caller.call.len = 0;
	(void)t->rpc->reply(&w->caller, NULL);
}

/* Rank @rank, which waited, has the lock. */
static void grant(struct hk_osc_target *t, uint32_t rank)
{
	struct hk_osc_waiting *w = &hk_osc_waiting(t->segment.state)[rank];

	if (w->called && t->is_owner) {
		answer(t, w);
		return;
	}
	t->segment.state->must_tell |= w->called;
	atomic_store(&w->granted, true);
}

/* Answers the calls of ranks that another process of this node has granted the lock. */
static enum hk_rpc_end tell_granted(struct hk_osc_target *t)
{
	struct hk_osc_state *s = t->segment.state;

	if (!t->is_owner)
		return HK_RPC_DENIED;
	s->must_tell = false;
	for (uint32_t rank = 0; rank < s->ranks; rank++) {
		struct hk_osc_waiting *w = &hk_osc_waiting(s)[rank];

		if (w->called && atomic_exchange(&w->granted, false))
			answer(t, w);
	}
	return HK_RPC_DONE;
}

static enum hk_rpc_end lock(struct hk_osc_target *t, const struct hk_btl_caller *caller,
			    bool called, bool exclusive)
{
	struct hk_osc_state *s = t->segment.state;
	uint32_t rank = (uint32_t)caller->call.offset;
	struct hk_osc_waiting *w = &hk_osc_waiting(s)[rank];

	if (hk_osc_waiters(s)[rank].waits || w->called)
		return HK_RPC_DENIED; /* a rank has one request */
	if (hk_osc_lock_try(&s->lock, exclusive))
		return HK_RPC_DONE;
	w->caller = *caller;
	w->called = called;
	atomic_store(&w->granted, false);
	hk_osc_lock_wait(&s->lock, hk_osc_waiters(s), rank, exclusive);
	return HK_RPC_LATER;
}

static enum hk_rpc_end unlock(struct hk_osc_target *t)
{
	struct hk_osc_state *s = t->segment.state;
	uint32_t rank;

	if (!hk_osc_lock_release(&s->lock))
		return HK_RPC_DENIED;
	while ((rank = hk_osc_lock_next(&s->lock, hk_osc_waiters(s))) != HK_OSC_NOBODY)
		grant(t, rank);
	return HK_RPC_DONE;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* How many bytes from @at on a dynamic window has in one piece. */
static size_t attached_at(const struct hk_osc_target *t, uint64_t at)
{
	for (const struct hk_osc_attached *a = t->attached; a; a = a->next)
		if (at - (uintptr_t)a->base < a->len)
			return a->len - (at - (uintptr_t)a->base);
	return 0;
}

/* Are all @bytes at @at attached? Pieces may follow each other. */
static bool is_attached(const struct hk_osc_target *t, uint64_t at, size_t bytes)
{
	size_t piece;

	for (; bytes; at += piece, bytes -= HK_MIN(piece, bytes))
		if (!(piece = attached_at(t, at)))
			return false;
	return true;
}

/* The @bytes at @offset. NULL: they are not of the window. */
static char *memory(const struct hk_osc_target *t, uint64_t offset, size_t bytes)
{
	if (t->dynamic)
		return is_attached(t, offset, bytes) ? (char *)(uintptr_t)offset : NULL;
	return t->base && offset <= t->size && bytes <= t->size - offset ? t->base + offset : NULL;
}

int hk_osc_attach(struct hk_osc_target *t, void *base, size_t len)
{
	struct hk_osc_attached *a = malloc(sizeof(*a));

	if (!a)
		return OMPI_ERR_OUT_OF_RESOURCE;
	hk_osc_state_enter(t->segment.state);
	*a = (struct hk_osc_attached){t->attached, base, len};
	t->attached = a;
	hk_osc_state_leave(t->segment.state);
	return OMPI_SUCCESS;
}

int hk_osc_detach(struct hk_osc_target *t, const void *base)
{
	struct hk_osc_attached *gone = NULL;

	hk_osc_state_enter(t->segment.state);
	for (struct hk_osc_attached **link = &t->attached; *link; link = &(*link)->next)
		if ((*link)->base == base) {
			gone = *link;
			*link = gone->next;
			break;
		}
	hk_osc_state_leave(t->segment.state);
	free(gone);
	return gone ? OMPI_SUCCESS : OMPI_ERR_BASE;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* A call for data, as its arguments say. */
struct access {
	enum hk_osc_kind kind;
	ompi_op_t *op;
	ompi_datatype_t *type; /* predefined; of PUT and GET it is one byte */
	size_t extent;         /* bytes of an element in memory */
	unsigned runs;
	const char *args; /* the runs */
	const char *data; /* the elements behind them */
	size_t data_len;
	size_t total; /* bytes of all runs */
};

static struct hk_osc_run run_of(const struct access *a, unsigned i)
{
	struct hk_osc_run r;

	memcpy(&r, a->args + i * sizeof(r), sizeof(r));
	return r;
}

/* The predefined datatype whose Fortran index is @index, with its extent. */
static bool type_of(struct access *a, unsigned index)
{
	ptrdiff_t lb, extent;

	a->type = opal_pointer_array_get_item(&ompi_datatype_f_to_c_table, (int)index);
	if (!a->type || !ompi_datatype_is_predefined(a->type))
		return false;
	ompi_datatype_get_extent(a->type, &lb, &extent);
	a->extent = (size_t)extent;
	return extent > 0;
}

static bool op_of(struct access *a, unsigned index)
{
	char *why = NULL;

	a->op = opal_pointer_array_get_item(ompi_op_f_to_c_table, (int)index);
	if (!a->op || !ompi_op_is_intrinsic(a->op))
		return false;
	if (a->op == &ompi_mpi_op_replace.op || a->op == &ompi_mpi_op_no_op.op)
		return true;
	bool valid = ompi_op_is_valid(a->op, a->type, &why, "");

	free(why);
	return valid;
}

static bool access_parse(const struct hk_osc_target *t, const struct hk_wire_atomic *call,
			 const void *args, struct access *a)
{
	uint64_t r = call->operand;
	unsigned type = r >> 16 & 0xffff, op = r >> 8 & 0xff;
	size_t runs_len;

	*a = (struct access){.kind = r & 0xff, .runs = r >> 32 & 0xffff, .args = args, .extent = 1};
	runs_len = a->runs * sizeof(struct hk_osc_run);
	if (runs_len > call->len)
		return false;
	a->data = a->args + runs_len;
	a->data_len = call->len - runs_len;
	bool bytes = a->kind == HK_OSC_PUT || a->kind == HK_OSC_GET;

	if (!bytes && (!type_of(a, type) || (a->kind != HK_OSC_CAS && !op_of(a, op))))
		return false;
	for (unsigned i = 0; i < a->runs; i++) {
		struct hk_osc_run run = run_of(a, i);
		size_t len;

		if (__builtin_mul_overflow(run.count, a->extent, &len) ||
		    __builtin_add_overflow(a->total, len, &a->total) || !memory(t, run.offset, len))
			return false;
	}
	size_t sent = a->kind == HK_OSC_GET ? 0 : a->kind == HK_OSC_CAS ? 2 * a->total : a->total;

	if (a->op == &ompi_mpi_op_no_op.op)
		sent = 0;
	return a->data_len == sent && a->total <= t->rpc->max() &&
	       (a->kind != HK_OSC_CAS || a->total == a->extent);
}

/* Combines @count elements at @in into those at @at. */
static void combine(const struct hk_osc_target *t, const struct access *a, char *at, const char *in,
		    size_t count)
{
	size_t len = count * a->extent;

	if (a->op == &ompi_mpi_op_no_op.op)
		return;
	if (a->op == &ompi_mpi_op_replace.op) {
		memcpy(at, in, len);
		return;
	}
	memcpy(t->operands, in, len); /* a frame aligns nothing */
	ompi_op_reduce(a->op, t->operands, at, count, a->type);
}

static void compare_and_swap(const struct access *a, char *at)
{
	if (memcmp(at, a->data, a->extent) == 0)
		memcpy(at, a->data + a->extent, a->extent);
}

static void access_run(const struct hk_osc_target *t, const struct access *a, char *result)
{
	const char *in = a->data;

	for (unsigned i = 0; i < a->runs; i++) {
		struct hk_osc_run r = run_of(a, i);
		size_t len = r.count * a->extent;
		char *at = memory(t, r.offset, len);

		if (a->kind == HK_OSC_GET || a->kind == HK_OSC_GET_ACC || a->kind == HK_OSC_CAS) {
			memcpy(result, at, len);
			result += len;
		}
		if (a->kind == HK_OSC_PUT)
			memcpy(at, in, len);
		else if (a->kind == HK_OSC_CAS)
			compare_and_swap(a, at);
		else if (a->kind != HK_OSC_GET)
			combine(t, a, at, in, r.count);
		in += len;
	}
}

static enum hk_rpc_end serve_data(struct hk_osc_target *t, struct hk_wire_atomic *call,
				  const void *args, void *result)
{
	struct access a;

	if (!access_parse(t, call, args, &a))
		return HK_RPC_DENIED;
	access_run(t, &a, result);
	call->len = a.kind == HK_OSC_PUT || a.kind == HK_OSC_ACC ? 0 : (uint32_t)a.total;
	return HK_RPC_DONE;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static enum hk_rpc_end serve(struct hk_osc_target *t, struct hk_btl_caller *caller, bool called,
			     const void *args, void *result)
{
	struct hk_wire_atomic *call = &caller->call;
	enum hk_osc_kind kind = call->operand & 0xff;
	struct hk_osc_state *s = t->segment.state;

	if (call->offset >= s->ranks)
		return HK_RPC_DENIED;
	if (kind <= HK_OSC_CAS)
		return serve_data(t, call, args, result);
	call->len = 0;
	switch (kind) {
	case HK_OSC_LOCK_SHARED:
	case HK_OSC_LOCK_EXCLUSIVE:
		return lock(t, caller, called, kind == HK_OSC_LOCK_EXCLUSIVE);
	case HK_OSC_UNLOCK:
		return unlock(t);
	case HK_OSC_POST:
		hk_osc_posted(s)[call->offset]++;
		return HK_RPC_DONE;
	case HK_OSC_COMPLETE:
		s->completed++;
		return HK_RPC_DONE;
	case HK_OSC_GRANT:
		return tell_granted(t);
	default:
		return HK_RPC_DENIED;
	}
}

enum hk_rpc_end hk_osc_serve(struct hk_osc_target *t, struct hk_btl_caller *caller, bool called,
			     const void *args, void *result, bool *tell)
{
	hk_osc_state_enter(t->segment.state);
	enum hk_rpc_end end = serve(t, caller, called, args, result);

	*tell = t->segment.state->must_tell && !t->is_owner;
	hk_osc_state_leave(t->segment.state);
	return end;
}

static enum hk_rpc_end called(void *arg, struct hk_btl_caller *caller, const void *args,
			      void *result)
{
	bool tell;

	return hk_osc_serve(arg, caller, true, args, result, &tell);
}

/* ---- start and end --------------------------------------------------------------------------- */

static bool has_operands(struct hk_osc_target *t)
{
	t->operands = aligned_alloc(64, (t->rpc->max() + 63) / 64 * 64);
	return t->operands != NULL;
}

int hk_osc_target_open(struct hk_osc_target *t, const struct hk_btl_rpc *rpc, void *base,
		       size_t size, bool dynamic, unsigned ranks, bool shared)
{
	bool allocates = !base && !dynamic;

	*t = (struct hk_osc_target){
		.rpc = rpc,
		.is_owner = true,
		.size = size,
		.dynamic = dynamic,
		.procedure = {.fn = called, .arg = t},
	};
	if (!hk_osc_segment_make(&t->segment, ranks, allocates, size, shared)) {
		*t = (struct hk_osc_target){0};
		return OMPI_ERR_OUT_OF_RESOURCE;
	}
	t->base = allocates ? t->segment.memory : base;
	if (has_operands(t) && rpc->add(&t->procedure))
		return OMPI_SUCCESS;
	t->is_owner = false; /* there is no procedure to end */
	hk_osc_target_close(t);
	return OMPI_ERR_OUT_OF_RESOURCE;
}

bool hk_osc_target_map(struct hk_osc_target *t, const struct hk_btl_rpc *rpc, const char *name,
		       bool memory, size_t size, unsigned ranks)
{
	*t = (struct hk_osc_target){.rpc = rpc, .size = size};
	if (!hk_osc_segment_map(&t->segment, name, ranks, memory, size))
		return false;
	t->base = t->segment.memory;
	if (has_operands(t))
		return true;
	hk_osc_target_close(t);
	return false;
}

void hk_osc_target_close(struct hk_osc_target *t)
{
	if (t->is_owner)
		t->rpc->del(&t->procedure);
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* openmpi/osc/data.c: calls for a window's data (data.h). */
#include "openmpi/osc/data.h"

#include "ompi_config.h"
#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/op/op.h"
#include "opal/class/opal_pointer_array.h"

#include "base/common.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
	if (!hk_osc_state_enter(t->segment.state)) {
		free(a);
		return OMPI_ERROR;
	}
	*a = (struct hk_osc_attached){t->attached, base, len};
	t->attached = a;
	hk_osc_state_leave(t->segment.state);
	return OMPI_SUCCESS;
}

int hk_osc_detach(struct hk_osc_target *t, const void *base)
{
	struct hk_osc_attached *gone = NULL;

	if (!hk_osc_state_enter(t->segment.state))
		return OMPI_ERROR;
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

/* ---- predefined types and operations --------------------------------------------------------- */

#define TYPES 256
#define OPS   64

/* By their Fortran index. Open MPI's own tables grow while other threads read them here. */
static ompi_datatype_t *type_at[TYPES];
static ompi_op_t *op_at[OPS];

static void copy_tables(void)
{
	for (int i = 0; i < TYPES; i++) {
		ompi_datatype_t *t = opal_pointer_array_get_item(&ompi_datatype_f_to_c_table, i);

		if (t && ompi_datatype_is_predefined(t))
			type_at[i] = t;
	}
	for (int i = 0; i < OPS; i++) {
		ompi_op_t *o = opal_pointer_array_get_item(ompi_op_f_to_c_table, i);

		if (o && ompi_op_is_intrinsic(o))
			op_at[i] = o;
	}
}

void hk_osc_data_open(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, copy_tables);
}

unsigned hk_osc_type_index(const ompi_datatype_t *type)
{
	unsigned index = (unsigned)type->d_f_to_c_index;

	if (HK_LIKELY(index < TYPES && type_at[index] == type))
		return index;
	for (unsigned i = 0; i < TYPES; i++)
		if (type_at[i] && type_at[i]->id == type->id)
			return i;
	return TYPES;
}

/* ---- data ------------------------------------------------------------------------------------ */

static struct hk_osc_run run_of(const struct hk_osc_data *a, unsigned i)
{
	struct hk_osc_run r;

	memcpy(&r, a->args + i * sizeof(r), sizeof(r));
	return r;
}

/* The predefined datatype whose Fortran index is @index, with its extent. */
static bool type_of(struct hk_osc_data *a, unsigned index)
{
	ptrdiff_t lb, extent;

	a->type = index < TYPES ? type_at[index] : NULL;
	if (!a->type)
		return false;
	ompi_datatype_get_extent(a->type, &lb, &extent);
	a->extent = (size_t)extent;
	return extent > 0;
}

static bool op_of(struct hk_osc_data *a, unsigned index)
{
	char *why = NULL;

	a->op = index < OPS ? op_at[index] : NULL;
	if (!a->op)
		return false;
	if (a->op == &ompi_mpi_op_replace.op || a->op == &ompi_mpi_op_no_op.op)
		return true;
	bool valid = ompi_op_is_valid(a->op, a->type, &why, "");

	free(why);
	return valid;
}

bool hk_osc_data_parse(const struct hk_osc_target *t, const struct hk_wire_atomic *call,
		       const void *args, struct hk_osc_data *a)
{
	uint64_t r = call->operand;
	unsigned type = r >> 16 & 0xffff, op = r >> 8 & 0xff;
	size_t runs_len;

	*a = (struct hk_osc_data){
		.kind = hk_osc_kind_of(r), .runs = r >> 32 & 0xffff, .args = args, .extent = 1};
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

		if (run.count == 0 || __builtin_mul_overflow(run.count, a->extent, &len) ||
		    __builtin_add_overflow(a->total, len, &a->total) || !memory(t, run.offset, len))
			return false;
	}
	size_t sent = a->kind == HK_OSC_GET ? 0 : a->kind == HK_OSC_CAS ? 2 * a->total : a->total;

	if (a->op == &ompi_mpi_op_no_op.op)
		sent = 0;
	return a->data_len == sent && a->total <= t->rpc->max() &&
	       (a->kind != HK_OSC_CAS || (a->runs == 1 && a->total == a->extent));
}

/* Combines @count elements at @in into those at @at. */
static void combine(const struct hk_osc_target *t, const struct hk_osc_data *a, char *at,
		    const char *in, size_t count)
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

static void compare_and_swap(const struct hk_osc_data *a, char *at)
{
	if (memcmp(at, a->data, a->extent) == 0)
		memcpy(at, a->data + a->extent, a->extent);
}

uint32_t hk_osc_data_run(const struct hk_osc_target *t, const struct hk_osc_data *a, char *result)
{
	const char *in = a->data;
	bool gives = a->kind == HK_OSC_GET || a->kind == HK_OSC_GET_ACC || a->kind == HK_OSC_CAS;

	for (unsigned i = 0; i < a->runs; i++) {
		struct hk_osc_run r = run_of(a, i);
		size_t len = r.count * a->extent;
		char *at = memory(t, r.offset, len);

		if (gives) {
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
	return gives ? (uint32_t)a->total : 0;
}

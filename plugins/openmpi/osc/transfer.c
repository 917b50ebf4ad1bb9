/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/osc/transfer.c: put, get, accumulate and their relatives.
 *
 * A transfer walks the origin's, the result's and the target's memory together, run by run. Runs
 * are gathered into calls of at most a frame. Long runs of put and get go by the BTL's put and get,
 * which copy nothing at the origin. So do most runs that are all of a transfer.
 */
#include "openmpi/osc/osc_hikyaku.h"
#include "openmpi/osc/data.h"
#include "openmpi/osc/runs.h"

#include "ompi/mca/osc/base/osc_base_obj_convert.h"
#include "opal/runtime/opal_progress.h"

#include "base/common.h"

#include <errno.h>
#include <stdlib.h>

/* One transfer while it is started. */
struct transfer {
	struct hk_osc_module *m;
	int target;
	enum hk_osc_kind kind;
	ompi_op_t *op;         /* of an accumulation */
	ompi_datatype_t *type; /* its elements; NULL: bytes */
	bool sends, receives;
	struct hk_osc_runs origin; /* with `sends` */
	struct hk_osc_runs result; /* with `receives` */
	struct hk_osc_runs at;     /* at the target: offsets, as addresses */
	struct hk_osc_request *request;
	struct hk_osc_run run[HK_OSC_RUNS_MAX];
	unsigned runs;
	const char *from[HK_OSC_RUNS_MAX];          /* the elements of each run at the origin */
	struct hk_osc_local local[HK_OSC_RUNS_MAX]; /* where those that come back go */
	size_t elements;                            /* in the call */
};

/* ---- by the BTL ------------------------------------------------------------------------------ */

struct btl_run {
	struct hk_osc_module *m;
	int target;
	struct hk_osc_request *request;
	bool get;
};

static void run_done(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *ep,
		     void *local, struct mca_btl_base_registration_handle_t *handle, void *context,
		     void *data, int status)
{
	struct btl_run l = *(struct btl_run *)context;

	(void)btl;
	(void)ep;
	(void)local;
	(void)handle;
	(void)data;
	free(context);
	l.m->peer[l.target].gets -= l.get;
	hk_osc_ended(l.m, l.target, l.request, status == OPAL_SUCCESS ? 0 : -EACCES);
}

/* Moves @len bytes at @local to or from @offset of the target. */
static int run_by_btl(struct transfer *t, char *local, uint64_t offset, size_t len)
{
	struct hk_osc_peer *p = &t->m->peer[t->target];
	struct mca_btl_base_module_t *btl = t->m->rpc->btl;
	int rc = hk_osc_lock_hold(t->m, t->target);

	if (rc != OMPI_SUCCESS)
		return rc;
	struct btl_run *l = malloc(sizeof(*l));

	if (!l)
		return OMPI_ERR_OUT_OF_RESOURCE;
	*l = (struct btl_run){t->m, t->target, t->request, t->kind == HK_OSC_GET};
	p->gets += l->get;
	hk_osc_begins(t->m, t->target, t->request);
	do {
		rc = (l->get ? btl->btl_get : btl->btl_put)(btl, p->ep, local, p->base + offset,
							    NULL, p->memory, len, 0,
							    MCA_BTL_NO_ORDER, run_done, l, NULL);
		if (rc == OPAL_ERR_OUT_OF_RESOURCE)
			opal_progress();
	} while (rc == OPAL_ERR_OUT_OF_RESOURCE);
	if (rc >= 0)
		return OMPI_SUCCESS;
	p->gets -= l->get;
	hk_osc_ended(t->m, t->target, t->request, 0); /* the caller reports it */
	free(l);
	return rc;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Bytes of arguments that @runs with @elements have, and of their result. */
static size_t args_len(const struct transfer *t, unsigned runs, size_t elements)
{
	return runs * sizeof(struct hk_osc_run) + (t->sends ? elements * t->at.extent : 0);
}

static size_t result_len(const struct transfer *t, size_t elements)
{
	return t->receives ? elements * t->at.extent : 0;
}

/* Sends what was gathered. */
static int flush(struct transfer *t)
{
	struct hk_osc_call *c;
	char *at;

	if (!t->runs)
		return OMPI_SUCCESS;
	size_t len = args_len(t, t->runs, t->elements), back = result_len(t, t->elements);

	if (!(c = hk_osc_call_new(t->m, t->target, HK_MAX(len, back), t->request)))
		return OMPI_ERR_OUT_OF_RESOURCE;
	memcpy(c->bytes, t->run, t->runs * sizeof(*t->run));
	at = c->bytes + t->runs * sizeof(*t->run);
	if (t->sends && t->runs == 1) { /* not copied here */
		c->more = t->from[0];
		c->more_len = (uint32_t)(t->elements * t->at.extent);
	}
	for (unsigned i = 0; t->sends && t->runs > 1 && i < t->runs; i++) {
		size_t bytes = t->run[i].count * t->at.extent;

		memcpy(at, t->from[i], bytes);
		at += bytes;
	}
	if (t->receives) {
		memcpy(c->local, t->local, t->runs * sizeof(*c->local));
		c->locals = t->runs;
	}
	unsigned op = t->op ? (unsigned)t->op->o_f_to_c_index : 0;
	unsigned type = t->type ? hk_osc_type_index(t->type) : 0;
	uint64_t operand = hk_osc_ask(t->kind, op, type, t->runs);

	t->runs = 0;
	t->elements = 0;
	return hk_osc_call_send(c, operand, len);
}

/* How many of @n further elements, in a run of their own, the call has space for. */
static size_t space(const struct transfer *t, size_t n)
{
	size_t max = t->m->rpc->max(), each = t->at.extent;
	size_t args = args_len(t, t->runs + 1, t->elements);
	size_t result = result_len(t, t->elements);

	if (t->runs == HK_OSC_RUNS_MAX || args >= max || result >= max)
		return 0;
	if (t->sends)
		n = HK_MIN(n, (max - args) / each);
	return t->receives ? HK_MIN(n, (max - result) / each) : n;
}

static void gather(struct transfer *t, size_t n)
{
	t->run[t->runs] = (struct hk_osc_run){(uintptr_t)t->at.at, n};
	if (t->sends)
		t->from[t->runs] = t->origin.at;
	if (t->receives)
		t->local[t->runs] = (struct hk_osc_local){t->result.at, n * t->at.extent};
	t->runs++;
	t->elements += n;
}

/* ---- transfers ------------------------------------------------------------------------------- */

/* Does a put or get find the target's memory in this process? */
static bool is_in_memory(const struct transfer *t)
{
	const struct hk_osc_target *here = t->m->peer[t->target].here;

	return (t->kind == HK_OSC_PUT || t->kind == HK_OSC_GET) && here && here->base;
}

/* Is a transfer of one short run better by the BTL, whose messages are shorter than a call's? A
 * call can ask for the lock with it. And a get of the BTL is not in order with a call that ends the
 * epoch, which must then wait for it. */
static bool is_better_by_btl(const struct transfer *t)
{
	enum hk_osc_access epoch = t->m->access;
	uint8_t lock = t->m->peer[t->target].lock;

	if (lock != HK_OSC_HELD && lock != HK_OSC_FREE)
		return false;
	return t->kind == HK_OSC_PUT || epoch == HK_OSC_FENCE || epoch == HK_OSC_LOCK_ALL;
}

/* Do the next @bytes go by the BTL's put or get? */
static bool is_by_btl(const struct transfer *t, size_t bytes)
{
	const struct hk_osc_peer *p = &t->m->peer[t->target];

	if ((t->kind != HK_OSC_PUT && t->kind != HK_OSC_GET) || !p->memory || !p->ep)
		return false;
	return bytes > t->m->rpc->max() || (bytes == t->at.total && is_better_by_btl(t));
}

/* Starts the transfer of the next elements, which follow each other everywhere. */
static int step(struct transfer *t)
{
	size_t n = t->at.count;
	int rc = OMPI_SUCCESS;

	if (t->sends)
		n = HK_MIN(n, t->origin.count);
	if (t->receives)
		n = HK_MIN(n, t->result.count);
	uint64_t offset = (uintptr_t)t->at.at;

	if (n == 0)
		return MPI_ERR_TRUNCATE;
	if (!t->m->target.dynamic && (offset > t->m->peer[t->target].size ||
				      n * t->at.extent > t->m->peer[t->target].size - offset))
		return OMPI_ERR_RMA_RANGE;
	if (is_in_memory(t)) {
		char *at = t->m->peer[t->target].here->base + offset;

		memcpy(t->sends ? at : t->result.at, t->sends ? t->origin.at : at, n);
	} else if (is_by_btl(t, n)) {
		rc = run_by_btl(t, t->sends ? t->origin.at : t->result.at, offset, n);
	} else {
		size_t fits = space(t, n);

		if (fits < n && t->runs) {
			rc = flush(t);
			fits = space(t, n);
		}
		n = fits;
		if (rc == OMPI_SUCCESS && n)
			gather(t, n);
		else if (rc == OMPI_SUCCESS)
			rc = OMPI_ERR_BAD_PARAM; /* an element is longer than a frame */
	}
	if (rc != OMPI_SUCCESS)
		return rc;
	hk_osc_runs_take(&t->at, n);
	if (t->sends)
		hk_osc_runs_take(&t->origin, n);
	if (t->receives)
		hk_osc_runs_take(&t->result, n);
	return OMPI_SUCCESS;
}

static int run(struct transfer *t)
{
	int rc = hk_osc_access(t->m, t->target);

	if (rc != OMPI_SUCCESS)
		return rc;
	if ((t->sends && t->origin.total != t->at.total) ||
	    (t->receives && t->result.total != t->at.total))
		return MPI_ERR_TRUNCATE;
	while (rc == OMPI_SUCCESS && t->at.count)
		rc = step(t);
	int flushed = flush(t);

	return rc == OMPI_SUCCESS ? flushed : rc;
}

/* Memory of one side. */
struct side {
	void *base;
	int count;
	ompi_datatype_t *type;
};

/* The whole of a transfer: @from or @to may be NULL. */
static int transfer(struct ompi_win_t *win, enum hk_osc_kind kind, ompi_op_t *op,
		    const struct side *from, const struct side *to, int target, ptrdiff_t disp,
		    int count, ompi_datatype_t *type, struct hk_osc_request *request)
{
	struct transfer on_stack, *t = &on_stack; /* mostly unused: not set as a whole */
	uint32_t unused;
	int rc = OMPI_SUCCESS;
	size_t size;

	ompi_datatype_type_size(type, &size);
	if (size * (size_t)count == 0) /* its elements may have no type */
		return hk_osc_access(hk_osc_of(win), target);
	t->m = hk_osc_of(win);
	t->target = target;
	t->kind = kind;
	t->op = op;
	t->type = NULL;
	t->request = request;
	t->sends = from != NULL;
	t->receives = to != NULL;
	t->runs = 0;
	t->elements = 0;
	t->at.convertor_used = t->origin.convertor_used = t->result.convertor_used = false;
	uint64_t offset = (uint64_t)disp * t->m->peer[target].disp_unit;

	if (op)
		rc = ompi_osc_base_get_primitive_type_info(type, &t->type, &unused);
	if (rc == OMPI_SUCCESS)
		rc = hk_osc_runs_open(&t->at, (void *)(uintptr_t)offset, count, type, t->type);
	if (rc == OMPI_SUCCESS && from)
		rc = hk_osc_runs_open(&t->origin, from->base, from->count, from->type, t->type);
	if (rc == OMPI_SUCCESS && to)
		rc = hk_osc_runs_open(&t->result, to->base, to->count, to->type, t->type);
	if (rc == OMPI_SUCCESS)
		rc = run(t);
	hk_osc_runs_close(&t->at);
	hk_osc_runs_close(&t->origin);
	hk_osc_runs_close(&t->result);
	return rc;
}

int hk_osc_put(const void *from, int from_count, ompi_datatype_t *from_type, int target,
	       ptrdiff_t disp, int count, ompi_datatype_t *type, struct ompi_win_t *win)
{
	const struct side s = {(void *)from, from_count, from_type};

	return transfer(win, HK_OSC_PUT, NULL, &s, NULL, target, disp, count, type, NULL);
}

int hk_osc_get(void *to, int to_count, ompi_datatype_t *to_type, int target, ptrdiff_t disp,
	       int count, ompi_datatype_t *type, struct ompi_win_t *win)
{
	const struct side s = {to, to_count, to_type};

	return transfer(win, HK_OSC_GET, NULL, NULL, &s, target, disp, count, type, NULL);
}

int hk_osc_accumulate(const void *from, int from_count, ompi_datatype_t *from_type, int target,
		      ptrdiff_t disp, int count, ompi_datatype_t *type, ompi_op_t *op,
		      struct ompi_win_t *win)
{
	const struct side s = {(void *)from, from_count, from_type};

	if (op == MPI_NO_OP)
		return hk_osc_access(hk_osc_of(win), target);
	return transfer(win, HK_OSC_ACC, op, &s, NULL, target, disp, count, type, NULL);
}

/* With MPI_NO_OP nothing is sent. */
static int get_accumulate(const struct side *from, const struct side *to, int target,
			  ptrdiff_t disp, int count, ompi_datatype_t *type, ompi_op_t *op,
			  struct ompi_win_t *win, struct hk_osc_request *request)
{
	return transfer(win, HK_OSC_GET_ACC, op, op == MPI_NO_OP ? NULL : from, to, target, disp,
			count, type, request);
}

int hk_osc_get_accumulate(const void *from, int from_count, ompi_datatype_t *from_type, void *to,
			  int to_count, ompi_datatype_t *to_type, int target, ptrdiff_t disp,
			  int count, ompi_datatype_t *type, ompi_op_t *op, struct ompi_win_t *win)
{
	const struct side s = {(void *)from, from_count, from_type}, r = {to, to_count, to_type};

	return get_accumulate(&s, &r, target, disp, count, type, op, win, NULL);
}

int hk_osc_fetch_and_op(const void *from, void *to, ompi_datatype_t *type, int target,
			ptrdiff_t disp, ompi_op_t *op, struct ompi_win_t *win)
{
	const struct side s = {(void *)from, 1, type}, r = {to, 1, type};

	return get_accumulate(&s, &r, target, disp, 1, type, op, win, NULL);
}

int hk_osc_compare_and_swap(const void *from, const void *compare, void *to, ompi_datatype_t *type,
			    int target, ptrdiff_t disp, struct ompi_win_t *win)
{
	struct hk_osc_module *m = hk_osc_of(win);
	struct hk_osc_run r = {(uint64_t)disp * m->peer[target].disp_unit, 1};
	ptrdiff_t lb, extent;
	int rc = hk_osc_access(m, target);

	if (rc != OMPI_SUCCESS)
		return rc;
	ompi_datatype_get_extent(type, &lb, &extent);
	size_t size = (size_t)extent, len = sizeof(r) + 2 * size;
	struct hk_osc_call *c = hk_osc_call_new(m, target, len, NULL);

	if (!c)
		return OMPI_ERR_OUT_OF_RESOURCE;
	memcpy(c->bytes, &r, sizeof(r));
	memcpy(c->bytes + sizeof(r), compare, size);
	memcpy(c->bytes + sizeof(r) + size, from, size);
	c->local[0] = (struct hk_osc_local){to, size};
	c->locals = 1;
	return hk_osc_call_send(c, hk_osc_ask(HK_OSC_CAS, 0, hk_osc_type_index(type), 1), len);
}

/* ---- with requests --------------------------------------------------------------------------- */

/* Everything is started with the result @rc: gives the caller its request. */
static int started(struct hk_osc_request *r, int rc, struct ompi_request_t **request)
{
	if (rc != OMPI_SUCCESS) {
		while (r->parts > 1) /* are in flight, and refer to it */
			opal_progress();
		hk_osc_request_free(r);
		*request = MPI_REQUEST_NULL;
		return rc;
	}
	*request = &r->super;
	hk_osc_request_part_ended(r, OMPI_SUCCESS);
	return OMPI_SUCCESS;
}

#define WITH_REQUEST(expression)                                                                   \
	struct hk_osc_request *r_ = hk_osc_request_new(win);                                       \
	if (!r_)                                                                                   \
		return OMPI_ERR_OUT_OF_RESOURCE;                                                   \
	int rc_ = (expression);                                                                    \
	return started(r_, rc_, request)

int hk_osc_rput(const void *from, int from_count, ompi_datatype_t *from_type, int target,
		ptrdiff_t disp, int count, ompi_datatype_t *type, struct ompi_win_t *win,
		struct ompi_request_t **request)
{
	const struct side s = {(void *)from, from_count, from_type};

	WITH_REQUEST(transfer(win, HK_OSC_PUT, NULL, &s, NULL, target, disp, count, type, r_));
}

int hk_osc_rget(void *to, int to_count, ompi_datatype_t *to_type, int target, ptrdiff_t disp,
		int count, ompi_datatype_t *type, struct ompi_win_t *win,
		struct ompi_request_t **request)
{
	const struct side s = {to, to_count, to_type};

	WITH_REQUEST(transfer(win, HK_OSC_GET, NULL, NULL, &s, target, disp, count, type, r_));
}

int hk_osc_raccumulate(const void *from, int from_count, ompi_datatype_t *from_type, int target,
		       ptrdiff_t disp, int count, ompi_datatype_t *type, ompi_op_t *op,
		       struct ompi_win_t *win, struct ompi_request_t **request)
{
	const struct side s = {(void *)from, from_count, from_type};

	WITH_REQUEST(op == MPI_NO_OP ? hk_osc_access(hk_osc_of(win), target)
				     : transfer(win, HK_OSC_ACC, op, &s, NULL, target, disp, count,
						type, r_));
}

int hk_osc_rget_accumulate(const void *from, int from_count, ompi_datatype_t *from_type, void *to,
			   int to_count, ompi_datatype_t *to_type, int target, ptrdiff_t disp,
			   int count, ompi_datatype_t *type, ompi_op_t *op, struct ompi_win_t *win,
			   struct ompi_request_t **request)
{
	const struct side s = {(void *)from, from_count, from_type}, r = {to, to_count, to_type};

	WITH_REQUEST(get_accumulate(&s, &r, target, disp, count, type, op, win, r_));
}

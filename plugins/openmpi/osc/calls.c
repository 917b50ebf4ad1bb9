/* SPDX-License-Identifier: BSD-3-Clause */
/* openmpi/osc/calls.c: calls of ours in flight. */
#include "openmpi/osc/osc_hikyaku.h"

#include "opal/runtime/opal_progress.h"

#include "base/common.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* Calls of one window in flight. More than the worker sends to one peer before a reply comes, and
 * so few that their memory stays in the cache. */
#define CALLS_MAX 128

void hk_osc_begins(struct hk_osc_module *m, int target, struct hk_osc_request *request)
{
	m->peer[target].in_flight++;
	if (request)
		request->parts++;
}

void hk_osc_ended(struct hk_osc_module *m, int target, struct hk_osc_request *request, int status)
{
	int error = status == 0 ? OMPI_SUCCESS : OMPI_ERR_RMA_RANGE;

	/* a lost peer ends the job; the BTL has said why */
	if (status == -ENOTCONN)
		error = OMPI_ERR_UNREACH;
	else if (status == -ENOMEM)
		error = OMPI_ERR_OUT_OF_RESOURCE;
	if (HK_UNLIKELY(error != OMPI_SUCCESS) && !request)
		m->error = error;
	if (request)
		hk_osc_request_part_ended(request, error);
	m->peer[target].in_flight--;
}

int hk_osc_wait(struct hk_osc_module *m, int target)
{
	int first = target < 0 ? 0 : target, last = target < 0 ? m->size - 1 : target;

	for (int i = first; i <= last; i++)
		while (m->peer[i].in_flight)
			opal_progress();
	return HK_UNLIKELY(m->error) ? atomic_exchange(&m->error, OMPI_SUCCESS) : OMPI_SUCCESS;
}

static opal_free_list_t pool;
static bool has_pool;

OBJ_CLASS_INSTANCE(hk_osc_call, opal_free_list_item_t, NULL, NULL);

int hk_osc_calls_open(const struct hk_btl_rpc *rpc)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	int rc = OPAL_SUCCESS;

	pthread_mutex_lock(&mutex); /* threads may make their first windows together */
	if (!has_pool) {
		OBJ_CONSTRUCT(&pool, opal_free_list_t);
		rc = opal_free_list_init(&pool, sizeof(hk_osc_call) + rpc->max(), 64,
					 OBJ_CLASS(hk_osc_call), 0, 64, 0, -1, 16, NULL, 0, NULL,
					 NULL, NULL);
		has_pool = rc == OPAL_SUCCESS;
		if (!has_pool)
			OBJ_DESTRUCT(&pool);
	}
	pthread_mutex_unlock(&mutex);
	return rc;
}

void hk_osc_calls_close(void)
{
	if (has_pool)
		OBJ_DESTRUCT(&pool);
	has_pool = false;
}

struct hk_osc_call *hk_osc_call_new(struct hk_osc_module *m, int target, size_t room,
				    struct hk_osc_request *request)
{
	while (HK_UNLIKELY(m->calls >= CALLS_MAX))
		opal_progress();
	struct hk_osc_call *c = (struct hk_osc_call *)opal_free_list_get(&pool);

	if (HK_UNLIKELY(!c))
		return NULL;
	c->m = m;
	c->target = target;
	c->request = request;
	c->wanted = HK_OSC_FREE;
	c->room = room;
	c->more = NULL;
	c->more_len = 0;
	c->locals = 0;
	m->calls++;
	return c;
}

static void call_free(struct hk_osc_call *c)
{
	c->m->calls--;
	opal_free_list_return(&pool, &c->super);
}

/* Stores the result, of @len bytes, where it belongs. */
static int store_result(const struct hk_osc_call *c, size_t len)
{
	size_t at = 0;

	for (unsigned i = 0; i < c->locals; i++) {
		if (len - at < c->local[i].len)
			return -EACCES;
		memcpy(c->local[i].at, c->bytes + at, c->local[i].len);
		at += c->local[i].len;
	}
	return at == len ? 0 : -EACCES;
}

static void done(void *arg, int status)
{
	struct hk_osc_call *c = arg;
	struct hk_osc_module *m = c->m;
	struct hk_osc_request *request = c->request;
	int target = c->target;

	if (c->wanted)
		m->peer[target].lock = status == 0 ? HK_OSC_HELD : c->wanted;
	if (status == 0)
		status = c->call.old == HK_OSC_REFUSED ? -EACCES : store_result(c, c->call.result);
	call_free(c);
	hk_osc_ended(m, target, request, status); /* the window may be freed now */
}

/* Carries out the call in this process. */
static void call_here(struct hk_osc_call *c, const struct hk_wire_atomic *ask)
{
	struct hk_osc_module *m = c->m;
	struct hk_osc_target *t = m->peer[c->target].here;
	struct hk_wire_atomic call = *ask;
	struct hk_btl_caller caller = {.call = &call};
	int target = c->target, rc;
	bool tell;
	char *args = ask->len ? malloc(ask->len) : NULL;

	if (ask->len && !args) {
		done(c, -ENOMEM);
		return;
	}
	if (ask->len)
		memcpy(args, c->bytes, ask->len - c->more_len);
	if (c->more_len)
		memcpy(args + ask->len - c->more_len, c->more, c->more_len);
	enum hk_rpc_end end = hk_osc_serve(t, &caller, false, args, c->bytes, &tell);

	free(args);
	c->call.old = 0;
	c->call.result = call.len;
	if (end == HK_RPC_LATER) /* of a lock */
		while (!hk_osc_ranks(t->segment.state, t->ranks)[m->rank].granted)
			opal_progress();
	done(c, end == HK_RPC_DENIED ? -EACCES : 0);
	if (tell && (rc = hk_osc_tell(m, target, HK_OSC_GRANT)) != OMPI_SUCCESS)
		m->error = rc;
	if (t == &m->target && hk_osc_kind_of(ask->operand) == HK_OSC_UNLOCK)
		opal_progress(); /* sends the replies to calls that waited for the lock */
}

/* Can this process carry out calls of @kind by itself? */
static bool is_here(const struct hk_osc_peer *p, enum hk_osc_kind kind)
{
	return p->here &&
	       (!p->ep || (kind <= HK_OSC_CAS ? p->here->base != NULL : kind != HK_OSC_GRANT));
}

/* If this rank wants the lock of @p, has the call @c ask for it. If another call asks, waits until
 * this rank has it. */
static void ask_or_wait(struct hk_osc_peer *p, struct hk_osc_call *c)
{
	for (uint8_t is; (is = p->lock) != HK_OSC_HELD && is != HK_OSC_FREE; opal_progress()) {
		if (is == HK_OSC_ASKED ||
		    !atomic_compare_exchange_strong(&p->lock, &is, HK_OSC_ASKED))
			continue; /* another thread's call asks */
		c->wanted = is;
		return;
	}
}

int hk_osc_call_send(struct hk_osc_call *c, uint64_t operand, size_t len)
{
	struct hk_osc_module *m = c->m;
	struct hk_osc_peer *peer = &m->peer[c->target];

	if (hk_osc_kind_of(operand) <= HK_OSC_LOCK) {
		ask_or_wait(peer, c);
		operand |= hk_osc_with_lock(c->wanted);
	}
	const struct hk_wire_atomic ask = {
		.op = HK_ATOMIC_RPC,
		.region = peer->procedure,
		.len = (uint32_t)len,
		.offset = (uint64_t)m->rank,
		.operand = operand,
	};

	hk_osc_begins(m, c->target, c->request);
	if (is_here(peer, hk_osc_kind_of(operand))) {
		call_here(c, &ask);
		return OMPI_SUCCESS;
	}
	const struct hk_rpc_bytes bytes = {c->bytes, (uint32_t)c->room, c->more, c->more_len};
	int rc = m->rpc->call(peer->ep, &c->call, &ask, &bytes, done, c);

	if (HK_LIKELY(rc == 0))
		return OMPI_SUCCESS;
	done(c, rc);
	return rc == -ENOTCONN ? OMPI_ERR_UNREACH : OMPI_ERR_BAD_PARAM;
}

int hk_osc_tell(struct hk_osc_module *m, int target, enum hk_osc_kind kind)
{
	struct hk_osc_call *c = hk_osc_call_new(m, target, 0, NULL);

	return HK_LIKELY(c) ? hk_osc_call_send(c, hk_osc_ask(kind, 0, 0, 0), 0)
			    : OMPI_ERR_OUT_OF_RESOURCE;
}

int hk_osc_lock_hold(struct hk_osc_module *m, int target)
{
	struct hk_osc_peer *p = &m->peer[target];
	int rc = OMPI_SUCCESS;

	if (HK_LIKELY(p->lock == HK_OSC_HELD || p->lock == HK_OSC_FREE))
		return OMPI_SUCCESS;
	/* a rank that takes its own lock in a loop must let the requests of others arrive */
	if (p->here)
		opal_progress();
	if (p->lock != HK_OSC_ASKED)
		rc = hk_osc_tell(m, target, HK_OSC_LOCK);
	while (rc == OMPI_SUCCESS && p->lock == HK_OSC_ASKED)
		opal_progress();
	return rc == OMPI_SUCCESS && p->lock != HK_OSC_HELD ? OMPI_ERR_RMA_SYNC : rc;
}

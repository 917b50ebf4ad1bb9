/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/procedure.c: remote procedures (procedure.h).
 *
 * A reply that is given later may come from any thread, and the worker's lock is not for any
 * thread. So such replies are posted to a list without a lock, and the worker sends them when it
 * polls. hikyakud's poller does not: they lie in the application's memory.
 */
#include "worker/rpc.h"

#include "worker/internal.h"
#include "worker/pending_reply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct hk_rpc_reply {
	struct hk_rpc_reply *next;
	hk_peer peer;
	uint16_t incarnation;
	size_t len;
	char bytes[]; /* the message */
};

hk_region hk_worker_procedure_add(struct hk_worker *w, hk_procedure_fn *fn, void *arg)
{
	hk_biased_enter(&w->lock);
	hk_region r = hk_region_new(w, arg, 0, HK_REGION_PROCEDURE, HK_PEER_NONE, NULL);

	if (r != HK_REGION_NONE)
		hk_region_find(&w->regions, r)->procedure = fn;
	hk_biased_leave(&w->lock);
	return r;
}

enum hk_rpc_end hk_rpc_serve(struct hk_worker *w, hk_peer p, struct hk_wire_atomic *call,
			     const void *args, void *result)
{
	const struct hk_region_slot *s = hk_region_find(&w->regions, call->region);
	struct hk_rpc_caller caller = {p, w->peer[p].incarnation, *call};

	if (HK_UNLIKELY(!hk_region_allows(s, p, HK_REGION_PROCEDURE, 0, 0)))
		return HK_RPC_DENIED;
	enum hk_rpc_end end = s->procedure(s->base, &caller, args, result);

	call->operand = caller.call.operand;
	call->len = caller.call.len;
	w->peer[p].atomic.replies_later += end == HK_RPC_LATER;
	return end;
}

int hk_worker_rpc_reply(struct hk_worker *w, const struct hk_rpc_caller *caller, const void *result)
{
	struct hk_wire_atomic call = caller->call;
	size_t len = HK_WIRE_ATOMIC_LEN + call.len;
	struct hk_rpc_reply *r = malloc(sizeof(*r) + len);

	if (!r)
		return -ENOMEM;
	r->peer = caller->peer;
	r->incarnation = caller->incarnation;
	r->len = len;
	call.status = HK_WIRE_ATOMIC_DONE;
	call.compare = 0;
	hk_wire_atomic_encode(r->bytes, &call);
	if (call.len)
		memcpy(r->bytes + HK_WIRE_ATOMIC_LEN, result, call.len);
	r->next = atomic_load(&w->rpcs.posted);
	while (!atomic_compare_exchange_weak(&w->rpcs.posted, &r->next, r))
		;
	if (w->rma_proxy.running && !r->next) /* else it is awake */
		hk_rma_proxy_wake(w);
	return 0;
}

/* Sends @bytes, a reply, in @b. */
static void send_reply(struct hk_worker *w, hk_peer p, const void *bytes, size_t len, hk_buf *b)
{
	memcpy(hk_buf_data(b), bytes, len);
	hk_atomic_reply_send(w, p, b, len);
}

static void send_posted(struct hk_worker *w, const struct hk_rpc_reply *r)
{
	struct hk_worker_peer *peer = &w->peer[r->peer];
	hk_buf *b;

	if (peer->incarnation != r->incarnation || peer->ended_unseen)
		return;
	peer->atomic.replies_later--;
	if (HK_LIKELY((b = hk_pending_reply_buf(w, r->peer)) != NULL))
		send_reply(w, r->peer, r->bytes, r->len, b);
	else if (!hk_pending_reply_add(w, r->peer, send_reply, r->bytes, r->len))
		w->n.atomic_excess++;
}

/* The posted replies, the first one first. */
static struct hk_rpc_reply *take_posted(struct hk_worker *w)
{
	struct hk_rpc_reply *list = atomic_exchange(&w->rpcs.posted, NULL), *first = NULL, *next;

	for (; list; list = next) {
		next = list->next;
		list->next = first;
		first = list;
	}
	return first;
}

void hk_rpc_replies_send(struct hk_worker *w)
{
	struct hk_rpc_reply *next;

	for (struct hk_rpc_reply *r = take_posted(w); r; r = next) {
		next = r->next;
		send_posted(w, r);
		free(r);
	}
}

void hk_rpc_close(struct hk_worker *w)
{
	struct hk_rpc_reply *next;

	for (struct hk_rpc_reply *r = take_posted(w); r; r = next) {
		next = r->next;
		free(r);
	}
}

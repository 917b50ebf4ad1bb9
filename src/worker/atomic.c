/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/atomic.c: atomic operations, ours and our peers'. The owner of a region carries them out
 * and replies.
 *
 * DESIGN NOTES
 *
 * Our operations in flight have a slot in a table. Slot and generation make the token that the
 * reply brings back. At most HK_ATOMIC_OPS_PER_PEER operations to one peer are in flight, so never
 * more replies wait in a send queue. To all peers together there are HK_ATOMIC_OPS. Further
 * operations wait in the list of their peer.
 */
#include "worker/atomic_ops.h"
#include "worker/peers.h"
#include "worker/pending_reply.h"
#include "worker/region.h"
#include "worker/rma_internal.h"
#include "worker/tx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct hk_atomic_slot {
	struct hk_atomic_op *op; /* NULL: free */
	uint16_t generation;
	uint16_t next_free;
};

#define SLOT_NONE UINT16_MAX
_Static_assert(HK_ATOMIC_OPS < SLOT_NONE, "slots are numbered by 16 bits");

static void on_atomic(void *arg, hk_peer p, uint8_t am, const struct hk_iov *iov, unsigned count);

int hk_atomic_ops_open(struct hk_worker *w)
{
	w->atomic_ops.slot = calloc(HK_ATOMIC_OPS, sizeof(*w->atomic_ops.slot));
	if (!w->atomic_ops.slot)
		return -ENOMEM;
	for (unsigned i = 0; i < HK_ATOMIC_OPS; i++)
		w->atomic_ops.slot[i].next_free = i + 1u < HK_ATOMIC_OPS ? (uint16_t)(i + 1)
									 : SLOT_NONE;
	w->am[HK_WIRE_AM_ATOMIC].fn = on_atomic;
	w->am[HK_WIRE_AM_ATOMIC].arg = w;
	return 0;
}

void hk_atomic_ops_close(struct hk_worker *w)
{
	free(w->atomic_ops.slot);
}

size_t hk_worker_atomic_max(const struct hk_worker *w)
{
	return w->frame_payload - HK_WIRE_ATOMIC_LEN;
}

/* ---- ours ------------------------------------------------------------------------------------ */

static uint32_t slot_take(struct hk_worker *w, struct hk_atomic_op *a)
{
	uint16_t i = w->atomic_ops.free;
	struct hk_atomic_slot *s = &w->atomic_ops.slot[i];

	w->atomic_ops.free = s->next_free;
	s->op = a;
	s->generation++;
	s->generation += s->generation == 0; /* a token is never 0 */
	return (uint32_t)s->generation << 16 | i;
}

static struct hk_atomic_op *slot_find(const struct hk_worker *w, hk_peer p, uint32_t token)
{
	uint32_t i = token & 0xffff;

	if (HK_UNLIKELY(i >= HK_ATOMIC_OPS || !w->atomic_ops.slot[i].op ||
			w->atomic_ops.slot[i].generation != token >> 16 ||
			w->atomic_ops.slot[i].op->op.peer != p))
		return NULL;
	return w->atomic_ops.slot[i].op;
}

/* Operations in flight to one peer, at most. All peers of an owner may ask it at once, and its
 * replies come from one reserve, which acknowledgements and resends use, too. We assume that the
 * owner has as many peers as we have. */
static unsigned ops_max(const struct hk_worker *w)
{
	unsigned share = HK_WORKER_TX_SLACK / 2 / (w->peers_added + 1);

	return HK_MAX(HK_MIN(share, (unsigned)HK_ATOMIC_OPS_PER_PEER), 1u);
}

/* Sends the request. False: it must wait. */
static bool request_op(struct hk_worker *w, struct hk_atomic_op *a)
{
	struct hk_worker_peer *peer = &w->peer[a->op.peer];
	size_t len = HK_WIRE_ATOMIC_LEN;
	hk_buf *b;

	if (peer->atomic.ops_in_flight >= ops_max(w) || w->atomic_ops.free == SLOT_NONE ||
	    !(b = hk_buf_take(w)))
		return false;
	a->request.token = slot_take(w, a);
	hk_wire_atomic_encode(hk_buf_data(b), &a->request);
	if (hk_wire_atomic_has_data(&a->request) && a->request.len) {
		uint32_t first = a->request.len - a->more_len;

		memcpy((char *)hk_buf_data(b) + len, a->op.base, first);
		if (a->more_len)
			memcpy((char *)hk_buf_data(b) + len + first, a->more, a->more_len);
		len += a->request.len;
	}
	peer->atomic.ops_in_flight++;
	/* if the connection has just ended, hk_atomic_ops_forget() ends this operation */
	(void)hk_tx_message(w, a->op.peer, HK_WIRE_AM_ATOMIC, &b, &len, 1, true);
	return true;
}

static void peer_ops_run(struct hk_worker *w, hk_peer p)
{
	struct hk_worker_peer *peer = &w->peer[p];

	while (peer->atomic.ops.head && !peer->ended_unseen) {
		struct hk_item *item = peer->atomic.ops.head, *next = item->next;

		if (!request_op(w, (struct hk_atomic_op *)item))
			break;
		peer->atomic.ops.head = next;
	}
}

void hk_atomic_ops_run(struct hk_worker *w)
{
	for (uint32_t *link = &w->list[HK_LIST_ATOMIC_OPS]; *link != HK_PEER_NONE;) {
		hk_peer p = *link;

		peer_ops_run(w, p);
		link = hk_peer_list_step(w, HK_LIST_ATOMIC_OPS, link,
					 w->peer[p].atomic.ops.head != NULL);
	}
}

/* The operation in slot @i has ended. */
static void end(struct hk_worker *w, uint16_t i, int status)
{
	struct hk_atomic_slot *s = &w->atomic_ops.slot[i];
	struct hk_atomic_op *a = s->op;

	s->op = NULL;
	s->next_free = w->atomic_ops.free;
	w->atomic_ops.free = i;
	w->peer[a->op.peer].atomic.ops_in_flight--;
	a->op.status = status;
	hk_op_complete(w, &a->op);
}

static void reply_received(struct hk_worker *w, hk_peer p, const struct hk_wire_atomic *req,
			   const void *data)
{
	struct hk_atomic_op *a = slot_find(w, p, req->token);

	/* not the reply to an operation of ours, or not to this one */
	if (HK_UNLIKELY(
		    !a || a->request.op != req->op ||
		    (req->op == HK_ATOMIC_RPC ? req->len > a->room : req->len != a->request.len))) {
		w->n.atomic_refused++;
		return;
	}
	a->old = req->operand;
	a->result = hk_wire_atomic_has_data(req) ? req->len : 0;
	if (a->result)
		memcpy(a->op.base, data, a->result);
	end(w, req->token & 0xffff, req->status == HK_WIRE_ATOMIC_DONE ? 0 : -EACCES);
	if (HK_UNLIKELY(w->peer[p].atomic.ops.head != NULL))
		peer_ops_run(w, p);
}

int hk_worker_atomic(struct hk_worker *w, hk_peer p, struct hk_atomic_op *a,
		     const struct hk_wire_atomic *what, void *data, hk_done_fn done, void *arg)
{
	return hk_worker_call(w, p, a, what, &(struct hk_rpc_bytes){.base = data}, done, arg);
}

int hk_worker_call(struct hk_worker *w, hk_peer p, struct hk_atomic_op *a,
		   const struct hk_wire_atomic *what, const struct hk_rpc_bytes *bytes,
		   hk_done_fn done, void *arg)
{
	struct hk_wire_atomic req = *what;
	uint8_t head[HK_WIRE_ATOMIC_LEN];
	struct hk_worker_peer *peer = &w->peer[p];
	int rc = -ENOTCONN;

	req.status = HK_WIRE_ATOMIC_REQUEST;
	req.token = 1;
	hk_wire_atomic_encode(head, &req);
	if (req.len > hk_worker_atomic_max(w) || bytes->more_len > req.len ||
	    !hk_wire_atomic_parse(
		    head, sizeof(head) + (hk_wire_atomic_has_data(&req) ? req.len : 0), &req))
		return -EINVAL;
	*a = (struct hk_atomic_op){
		.op = {.peer = p, .base = bytes->base, .done = done, .arg = arg},
		.request = req,
		.room = bytes->room,
		.more = bytes->more,
		.more_len = bytes->more_len,
	};
	hk_biased_enter(&w->lock);
	if (HK_LIKELY(hk_peer_connected(w, p))) {
		hk_peer_forget_ended(w, p);
		w->n.atomics++;
		if (peer->atomic.ops.head || !request_op(w, a)) {
			hk_items_append(&peer->atomic.ops, &a->op.item);
			hk_peer_list_add(w, HK_LIST_ATOMIC_OPS, p);
		}
		rc = 0;
	}
	hk_biased_leave(&w->lock);
	return rc;
}

bool hk_worker_atomics_wait(const struct hk_worker *w, hk_peer p)
{
	return w->peer[p].atomic.ops.head != NULL;
}

void hk_atomic_ops_forget(struct hk_worker *w, hk_peer p)
{
	struct hk_worker_peer *peer = &w->peer[p];

	for (uint16_t i = 0; peer->atomic.ops_in_flight && i < HK_ATOMIC_OPS; i++)
		if (w->atomic_ops.slot[i].op && w->atomic_ops.slot[i].op->op.peer == p)
			end(w, i, -ENOTCONN);
	while (peer->atomic.ops.head) {
		struct hk_op *op = (struct hk_op *)peer->atomic.ops.head;

		peer->atomic.ops.head = op->item.next;
		op->status = -ENOTCONN;
		hk_op_complete(w, op);
	}
}

/* ---- our peers' ------------------------------------------------------------------------------ */

/* Carries out @req on the word of type @type at @at; @old is the value before. */
#define APPLY(type, at, req, old)                                                                  \
	do {                                                                                       \
		type *at_ = (type *)(at);                                                          \
		type operand_ = (type)(req)->operand, old_ = (type)(req)->compare;                 \
		switch ((req)->op) {                                                               \
		case HK_ATOMIC_ADD:                                                                \
			old_ = __atomic_fetch_add(at_, operand_, __ATOMIC_SEQ_CST);                \
			break;                                                                     \
		case HK_ATOMIC_AND:                                                                \
			old_ = __atomic_fetch_and(at_, operand_, __ATOMIC_SEQ_CST);                \
			break;                                                                     \
		case HK_ATOMIC_OR:                                                                 \
			old_ = __atomic_fetch_or(at_, operand_, __ATOMIC_SEQ_CST);                 \
			break;                                                                     \
		case HK_ATOMIC_XOR:                                                                \
			old_ = __atomic_fetch_xor(at_, operand_, __ATOMIC_SEQ_CST);                \
			break;                                                                     \
		case HK_ATOMIC_SWAP:                                                               \
			old_ = __atomic_exchange_n(at_, operand_, __ATOMIC_SEQ_CST);               \
			break;                                                                     \
		default: /* CAS: gives old_ what lies there, if that is another value */           \
			(void)__atomic_compare_exchange_n(at_, &old_, operand_, false,             \
							  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);     \
		}                                                                                  \
		(old) = old_;                                                                      \
	} while (0)

uint64_t hk_atomic_apply(const struct hk_wire_atomic *req, void *at)
{
	uint64_t old;

	if (req->size == 8)
		APPLY(uint64_t, at, req, old);
	else
		APPLY(uint32_t, at, req, old);
	return old;
}

/* Carries out a peer's request. False: it is not allowed. @data: the bytes of a WRITE; @out:
 * space for those of a READ. */
static bool apply(struct hk_worker *w, hk_peer p, struct hk_wire_atomic *req, const void *data,
		  void *out)
{
	static const uint8_t rights[HK_ATOMIC_KINDS] = {
		[HK_ATOMIC_WRITE] = HK_REGION_WRITE, [HK_ATOMIC_READ] = HK_REGION_READ};
	unsigned need = rights[req->op] ? rights[req->op] : HK_REGION_READ | HK_REGION_WRITE;
	char *at;

	if (req->op == HK_ATOMIC_FENCE)
		return true;
	at = hk_worker_region_at(w, p, req->region, need, req->offset,
				 req->size ? req->size : req->len);
	if (HK_UNLIKELY(!at || (req->size && (uintptr_t)at % req->size)))
		return false;
	if (req->op == HK_ATOMIC_WRITE)
		memcpy(at, data, req->len);
	else if (req->op == HK_ATOMIC_READ)
		memcpy(out, at, req->len);
	else
		req->operand = hk_atomic_apply(req, at);
	return true;
}

void hk_atomic_reply_send(struct hk_worker *w, hk_peer p, hk_buf *b, size_t len)
{
	if (hk_tx_message(w, p, HK_WIRE_AM_ATOMIC, &b, &len, 1, true) == 1) {
		hk_note(b)->atomic_reply = true;
		w->peer[p].atomic.replies_queued++;
	}
}

/* Replies in @b, which has the bytes of a READ already. */
static void reply(struct hk_worker *w, hk_peer p, struct hk_wire_atomic *req, bool done, hk_buf *b)
{
	size_t len = HK_WIRE_ATOMIC_LEN;

	req->status = done ? HK_WIRE_ATOMIC_DONE : HK_WIRE_ATOMIC_DENIED;
	if (req->op != HK_ATOMIC_CAS)
		req->compare = 0;
	if (hk_wire_atomic_has_data(req))
		len += req->len;
	hk_wire_atomic_encode(hk_buf_data(b), req);
	if (HK_LIKELY(done))
		w->n.atomics_served++;
	else
		w->n.atomic_refused++;
	hk_atomic_reply_send(w, p, b, len);
}

/* Carries out a request and replies in @b. */
static void serve_with(struct hk_worker *w, hk_peer p, struct hk_wire_atomic *req, const void *data,
		       hk_buf *b)
{
	void *out = (char *)hk_buf_data(b) + HK_WIRE_ATOMIC_LEN;

	if (req->op != HK_ATOMIC_RPC) {
		reply(w, p, req, apply(w, p, req, data, out), b);
		return;
	}
	enum hk_rpc_end end = hk_rpc_serve(w, p, req, data, out);

	if (end == HK_RPC_LATER)
		hk_buf_release(w, b);
	else
		reply(w, p, req, end == HK_RPC_DONE, b);
	hk_rpc_replies_send(w); /* of calls for which this one was waiting */
}

static void serve_later(struct hk_worker *w, hk_peer p, const void *bytes, size_t len, hk_buf *b)
{
	struct hk_wire_atomic req;

	(void)hk_wire_atomic_parse(bytes, len, &req); /* it was valid when it arrived */
	serve_with(w, p, &req, (const char *)bytes + HK_WIRE_ATOMIC_LEN, b);
}

/* Serves a request. The reply comes from the reserve, because its requester waits. A peer that
 * keeps to the protocol never has more than HK_ATOMIC_OPS_PER_PEER replies waiting. */
static void serve(struct hk_worker *w, hk_peer p, struct hk_wire_atomic *req,
		  const struct hk_iov *request)
{
	const char *data = (const char *)request->base + HK_WIRE_ATOMIC_LEN;
	hk_buf *b;

	const struct hk_peer_atomic *a = &w->peer[p].atomic;

	if (HK_UNLIKELY(a->replies_queued + a->replies_later >= HK_ATOMIC_OPS_PER_PEER ||
			req->len > hk_worker_atomic_max(w)))
		/* a peer that keeps to the protocol does not ask for so much */
		w->n.atomic_excess++;
	else if (HK_LIKELY((b = hk_pending_reply_buf(w, p)) != NULL))
		serve_with(w, p, req, data, b);
	else if (!hk_pending_reply_add(w, p, serve_later, request->base, request->len))
		w->n.atomic_excess++;
}

static void on_atomic(void *arg, hk_peer p, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	struct hk_worker *w = arg;
	struct hk_wire_atomic req;

	(void)am;
	if (HK_UNLIKELY(count != 1 || !hk_wire_atomic_parse(iov[0].base, iov[0].len, &req))) {
		w->n.atomic_refused++;
		return;
	}
	if (req.status == HK_WIRE_ATOMIC_REQUEST)
		serve(w, p, &req, &iov[0]);
	else
		reply_received(w, p, &req, (const char *)iov[0].base + HK_WIRE_ATOMIC_LEN);
}

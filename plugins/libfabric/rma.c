/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/rma.c: writes to and reads of peers' memory.
 *
 * A short operation is one message there and one back, and the peer's worker carries it out
 * (worker/atomic.h). A long one is a put or a get. A put is not answered, so the last bytes of a
 * long write go by such a message behind it. So every write is complete when its bytes lie in the
 * peer's memory, which is more than most applications ask for (FI_DELIVERY_COMPLETE).
 *
 * Data for the peer's completion queue follows the bytes in a message of its own. Puts and messages
 * arrive in the order of their calls.
 */
#include "libfabric/operation.h"

#include "worker/atomic.h"

#include <errno.h>
#include <stdlib.h>

#define TAIL 8u /* bytes of a long write that go by a message */

struct rma {
	struct hk_fi_op op;
	struct hk_atomic_op atom; /* the short operation, or the end of a write */
	struct hk_op bulk;        /* the put or get */
	char *copy; /* of the source, or where bytes for several pieces come; or NULL */
	struct iovec iov[HK_FI_IOV];
	size_t len;
	unsigned waits;
	int status;
};

static void give(struct hk_fi_domain *d, struct rma *o)
{
	free(o->copy);
	hk_fi_pool_give(&d->rmas, o);
}

static int error_of(int status)
{
	return status == 0           ? 0
	       : status == -ENOTCONN ? FI_ENOTCONN
	       : status == -EACCES   ? FI_EACCES
				     : FI_EIO;
}

static void on_done(void *arg, int status)
{
	struct rma *o = arg;

	o->status = status ? status : o->status;
	if (--o->waits)
		return;
	if (o->copy && o->op.flags & FI_READ && !o->status)
		hk_fi_iov_put(&(struct hk_fi_cursor){o->iov, 0}, o->copy, o->len);
	o->op.ep->under_way--;
	hk_fi_end(&o->op, error_of(o->status));
	give(o->op.ep->domain, o);
}

/* The bytes as the worker needs them: in one piece, and unchanged until they are there. */
static char *in_one_piece(struct rma *o, const struct fi_msg_rma *m)
{
	if (m->iov_count == 1 && !(o->op.flags & (HK_FI_SILENT | FI_INJECT)))
		return m->msg_iov->iov_base;
	o->copy = malloc(o->len ? o->len : 1);
	if (o->copy && o->op.flags & FI_WRITE)
		hk_fi_iov_get(&(struct hk_fi_cursor){m->msg_iov, 0}, o->copy, o->len);
	return o->copy;
}

/* Asks for @len bytes at @done of the operation, by one message. Its answer comes when the peer has
 * carried it out, or says that it may not. */
static int start_message(struct rma *o, uint8_t kind, const struct fi_rma_iov *at, char *bytes,
			 size_t done, size_t len)
{
	const struct hk_wire_atomic ask = {
		.op = kind,
		.region = (uint32_t)at->key,
		.len = (uint32_t)len,
		/* no region reaches so far: the peer refuses it, whatever the sum is */
		.offset = at->addr > UINT64_MAX - o->len ? UINT64_MAX : at->addr + done,
	};

	o->waits++;
	return hk_worker_atomic(o->op.ep->domain->worker, o->op.peer, &o->atom, &ask, bytes + done,
				on_done, o);
}

static int start_fence(struct rma *o)
{
	const struct hk_wire_atomic fence = {.op = HK_ATOMIC_FENCE};

	o->waits++;
	return hk_worker_atomic(o->op.ep->domain->worker, o->op.peer, &o->atom, &fence, NULL,
				on_done, o);
}

static int start_long(struct rma *o, const struct fi_rma_iov *at, char *bytes)
{
	struct hk_worker *w = o->op.ep->domain->worker;
	uint32_t region = (uint32_t)at->key;
	size_t most = o->len - TAIL;
	int rc;

	o->waits = 1;
	if (o->op.flags & FI_READ)
		return hk_worker_get(w, o->op.peer, &o->bulk, bytes, o->len, region, at->addr,
				     on_done, o);
	rc = hk_worker_put(w, o->op.peer, &o->bulk, bytes, most, region, at->addr, on_done, o);
	if (rc)
		return rc;
	if (start_message(o, HK_ATOMIC_WRITE, at, bytes, most, TAIL) != 0)
		o->waits--; /* the connection has ended, so the put ends with an error */
	return 0;
}

/* Our own memory, without the network. */
static int to_self(const struct hk_fi_op *op, const struct fi_msg_rma *m, size_t len)
{
	bool reads = op->flags & FI_READ;
	char *at = hk_fi_mr_at(op->ep->domain, m->rma_iov->key, m->rma_iov->addr, len,
			       reads ? HK_REGION_READ : HK_REGION_WRITE);
	struct hk_fi_cursor ours = {m->msg_iov, 0};

	if (!at)
		return FI_EACCES;
	if (reads)
		hk_fi_iov_put(&ours, at, len);
	else
		hk_fi_iov_get(&ours, at, len);
	return 0;
}

static void tell_data(const struct hk_fi_op *op, const struct hk_fi_address *to, uint64_t data)
{
	const struct hk_fi_prefix p = {
		.header = {.to = to->number, .from = op->ep->number, .flags = HK_FI_HAS_DATA},
		.data = data,
	};
	char prefix[HK_FI_PREFIX_MAX];
	size_t len = hk_fi_prefix_write(&p, HK_FI_AM_WRITTEN, prefix);

	hk_fi_tell(op->ep->domain, op->peer, HK_FI_AM_WRITTEN, prefix, len, NULL, 0);
}

static int start(const struct hk_fi_op *op, const struct fi_msg_rma *m, size_t len)
{
	struct hk_fi_domain *d = op->ep->domain;
	bool reads = op->flags & FI_READ;
	struct rma *o;
	char *bytes;
	int rc;

	if (hk_worker_tx_low(d->worker))
		return -EAGAIN;
	o = hk_fi_pool_take(&d->rmas, sizeof(*o));
	if (!o)
		return -ENOMEM;
	*o = (struct rma){.op = *op, .len = len};
	memcpy(o->iov, m->msg_iov, m->iov_count * sizeof(*m->msg_iov));
	bytes = in_one_piece(o, m);
	if (!bytes)
		rc = -ENOMEM;
	else if (len == 0)
		rc = start_fence(o);
	else
		rc = len > hk_worker_atomic_max(d->worker)
			     ? start_long(o, m->rma_iov, bytes)
			     : start_message(o, reads ? HK_ATOMIC_READ : HK_ATOMIC_WRITE,
					     m->rma_iov, bytes, 0, len);
	if (rc == 0)
		op->ep->under_way++;
	else
		give(d, o);
	return rc;
}

ssize_t hk_fi_rma(struct fid_ep *fid, const struct fi_msg_rma *m, uint64_t flags)
{
	struct hk_fi_op op = {
		.ep = hk_fi_ep_of(fid), .context = m->context, .flags = flags | FI_RMA};
	struct hk_fi_domain *d = op.ep->domain;
	size_t len = hk_fi_iov_total(m->msg_iov, m->iov_count);
	const struct hk_fi_address *to;
	int rc;

	if (HK_UNLIKELY(m->rma_iov_count != 1 || m->iov_count > HK_FI_IOV ||
			m->rma_iov->key > UINT32_MAX ||
			(flags & HK_FI_SILENT && len > HK_FI_INJECT)))
		return -FI_EINVAL;
	rc = hk_fi_begin(&op, m->addr, &to);
	if (rc)
		return rc;
	if (to->peer == HK_FI_SELF) {
		int error = to_self(&op, m, len);

		if (!error && flags & FI_REMOTE_CQ_DATA)
			hk_fi_written(d, to->number, hk_fi_source(HK_FI_SELF, op.ep->number),
				      FI_RMA, m->data);
		hk_fi_end(&op, error);
	} else {
		rc = start(&op, m, len);
		if (rc == 0 && flags & FI_REMOTE_CQ_DATA)
			tell_data(&op, to, m->data);
	}
	return hk_fi_finish(op.ep, rc);
}

/* The peer has written, and has data for us. */
void hk_fi_written(struct hk_fi_domain *d, uint8_t number, uint32_t source, uint64_t kind,
		   uint64_t data)
{
	struct hk_fi_ep *ep = number < HK_FI_ENDPOINTS ? d->ep[number] : NULL;
	struct hk_fi_event *e = ep ? hk_fi_report(ep->rx_cq, NULL, true, 0) : NULL;

	if (e)
		*e = (struct hk_fi_event){
			.at = {.flags = kind | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, .data = data},
			.source = hk_fi_av_reverse(ep->av, source),
			.peer = HK_PEER_NONE,
		};
}

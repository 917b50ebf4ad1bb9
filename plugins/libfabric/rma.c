/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/rma.c: writes to and reads of peers' memory.
 *
 * A short operation is one message there and one back, and the peer's worker carries it out
 * (worker/atomic.h). A long one is a put or a get. A put is complete when it is acknowledged. With
 * FI_DELIVERY_COMPLETE a fence follows it, whose answer tells that the bytes lie in the peer's
 * memory.
 *
 * Data for the peer's completion queue follows the bytes in a message of its own. Puts and messages
 * arrive in the order of their calls.
 */
#include "libfabric/provider.h"

#include "worker/atomic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct hk_fi_rma {
	struct hk_atomic_op atom; /* the short operation, or the fence */
	struct hk_op op;          /* the put or get */
	struct hk_fi_ep *ep;
	void *context;
	uint64_t flags;
	hk_peer peer;
	char *copy; /* of the source, or where bytes for several pieces come; or NULL */
	struct iovec iov[HK_FI_IOV];
	size_t count, len;
	unsigned waits;
	int status;
	bool silent;
	struct hk_fi_rma *next; /* of the free ones */
};

struct call {
	const struct iovec *iov;
	size_t count;
	fi_addr_t to;
	uint64_t addr, key, data;
	uint64_t flags; /* FI_WRITE or FI_READ, and those of the call */
	void *context;
	bool silent;
};

static struct hk_fi_rma *take(struct hk_fi_domain *d)
{
	struct hk_fi_rma *o = d->free_rmas;

	if (HK_UNLIKELY(!o))
		return malloc(sizeof(*o));
	d->free_rmas = o->next;
	return o;
}

static void give(struct hk_fi_domain *d, struct hk_fi_rma *o)
{
	free(o->copy);
	o->next = d->free_rmas;
	d->free_rmas = o;
}

void hk_fi_rma_close(struct hk_fi_domain *d)
{
	while (d->free_rmas) {
		struct hk_fi_rma *o = d->free_rmas;

		d->free_rmas = o->next;
		free(o);
	}
}

/* An injected write is @silent: it counts, and the queue gets only its error. */
static void report(struct hk_fi_ep *ep, void *context, uint64_t flags, bool silent, int error,
		   hk_peer peer)
{
	struct hk_fi_cntr *c = flags & FI_READ ? ep->read_cntr : ep->write_cntr;
	struct hk_fi_event *e;

	if (c)
		error ? c->errors++ : c->value++;
	if (!ep->tx_cq || (!error && (silent || (ep->tx_selective && !(flags & FI_COMPLETION)))))
		return;
	e = hk_fi_cq_next(ep->tx_cq);
	if (HK_UNLIKELY(!e))
		return;
	*e = (struct hk_fi_event){
		.at = {.op_context = context, .flags = FI_RMA | (flags & (FI_READ | FI_WRITE))},
		.source = FI_ADDR_NOTAVAIL,
		.error = error,
		.peer = error ? peer : HK_PEER_NONE,
	};
}

static int error_of(int status)
{
	return status == 0           ? 0
	       : status == -ENOTCONN ? FI_ENOTCONN
	       : status == -EACCES   ? FI_EACCES
				     : FI_EIO;
}

static void scatter(const struct hk_fi_rma *o)
{
	const char *from = o->copy;

	for (size_t i = 0; i < o->count; i++) {
		if (o->iov[i].iov_len)
			memcpy(o->iov[i].iov_base, from, o->iov[i].iov_len);
		from += o->iov[i].iov_len;
	}
}

static void on_done(void *arg, int status)
{
	struct hk_fi_rma *o = arg;

	o->status = status ? status : o->status;
	if (--o->waits)
		return;
	if (o->copy && o->flags & FI_READ && !o->status)
		scatter(o);
	o->ep->under_way--;
	report(o->ep, o->context, o->flags, o->silent, error_of(o->status), o->peer);
	give(o->ep->domain, o);
}

/* The bytes as the worker needs them: in one piece, and unchanged until they are there. */
static char *in_one_piece(struct hk_fi_rma *o, const struct call *c)
{
	char *to;

	if (c->count == 1 && !(c->silent || c->flags & FI_INJECT))
		return c->iov->iov_base;
	to = o->copy = malloc(o->len ? o->len : 1);
	if (!to || c->flags & FI_READ)
		return to;
	for (size_t i = 0; i < c->count; i++) {
		if (c->iov[i].iov_len)
			memcpy(to, c->iov[i].iov_base, c->iov[i].iov_len);
		to += c->iov[i].iov_len;
	}
	return o->copy;
}

static int start_short(struct hk_fi_rma *o, const struct call *c, char *bytes)
{
	struct hk_fi_domain *d = o->ep->domain;
	const struct hk_wire_atomic ask = {
		.op = c->flags & FI_READ ? HK_ATOMIC_READ : HK_ATOMIC_WRITE,
		.region = (uint32_t)c->key,
		.len = (uint32_t)o->len,
		.offset = c->addr,
	};

	o->waits = 1;
	return hk_worker_atomic(d->worker, o->peer, &o->atom, &ask, bytes, on_done, o);
}

static int start_fence(struct hk_fi_rma *o)
{
	const struct hk_wire_atomic fence = {.op = HK_ATOMIC_FENCE};
	int rc;

	o->waits++;
	rc = hk_worker_atomic(o->ep->domain->worker, o->peer, &o->atom, &fence, NULL, on_done, o);
	o->waits -= rc != 0;
	return rc;
}

static int start_long(struct hk_fi_rma *o, const struct call *c, char *bytes)
{
	struct hk_fi_domain *d = o->ep->domain;
	uint32_t region = (uint32_t)c->key;
	int rc;

	o->waits = 1;
	if (c->flags & FI_READ)
		return hk_worker_get(d->worker, o->peer, &o->op, bytes, o->len, region, c->addr,
				     on_done, o);
	rc = hk_worker_put(d->worker, o->peer, &o->op, bytes, o->len, region, c->addr, on_done, o);
	if (rc == 0 && c->flags & FI_DELIVERY_COMPLETE)
		(void)start_fence(o); /* that fails only if the put does */
	return rc;
}

/* Our own memory, without the network. */
static int to_self(struct hk_fi_ep *ep, const struct call *c, size_t len)
{
	const struct hk_fi_mr *mr = hk_fi_mr_find(ep->domain, c->key);
	unsigned needed = c->flags & FI_READ ? HK_REGION_READ : HK_REGION_WRITE;
	char *at = mr ? mr->base + c->addr : NULL;

	if (!mr || !(mr->rights & needed) || c->addr > mr->len || len > mr->len - c->addr)
		return FI_EACCES;
	for (size_t i = 0; i < c->count; i++) {
		if (c->iov[i].iov_len && c->flags & FI_READ)
			memcpy(c->iov[i].iov_base, at, c->iov[i].iov_len);
		else if (c->iov[i].iov_len)
			memcpy(at, c->iov[i].iov_base, c->iov[i].iov_len);
		at += c->iov[i].iov_len;
	}
	return 0;
}

static void tell_data(struct hk_fi_ep *ep, const struct hk_fi_address *to, hk_peer peer,
		      const struct call *c)
{
	const struct hk_fi_prefix p = {
		.header = {.to = to->number, .from = ep->number, .flags = HK_FI_HAS_DATA},
		.data = c->data,
	};
	char prefix[HK_FI_PREFIX_MAX];
	size_t len = hk_fi_prefix_write(&p, false, prefix);

	hk_fi_tell(ep->domain, peer, HK_FI_AM_WRITTEN, prefix, len);
}

static int start(struct hk_fi_ep *ep, const struct call *c, const struct hk_fi_address *to,
		 hk_peer peer, size_t len)
{
	struct hk_fi_domain *d = ep->domain;
	struct hk_fi_rma *o;
	char *bytes;
	int rc;

	if (hk_worker_tx_low(d->worker))
		return -EAGAIN;
	o = take(d);
	if (!o)
		return -ENOMEM;
	o->ep = ep;
	o->copy = NULL;
	o->waits = 0;
	o->status = 0;
	o->context = c->context;
	o->flags = c->flags;
	o->peer = peer;
	o->len = len;
	o->count = c->count;
	memcpy(o->iov, c->iov, c->count * sizeof(*c->iov));
	o->silent = c->silent;
	bytes = in_one_piece(o, c);
	if (!bytes)
		rc = -ENOMEM;
	else if (len == 0)
		rc = start_fence(o);
	else
		rc = len <= hk_worker_atomic_max(d->worker) ? start_short(o, c, bytes)
							    : start_long(o, c, bytes);
	if (rc) {
		give(d, o);
		return rc;
	}
	ep->under_way++;
	if (c->flags & FI_REMOTE_CQ_DATA)
		tell_data(ep, to, peer, c);
	return 0;
}

static ssize_t run(struct hk_fi_ep *ep, const struct call *c)
{
	struct hk_fi_domain *d = ep->domain;
	const struct hk_fi_address *to;
	size_t len = 0;
	int rc;

	for (size_t i = 0; i < c->count; i++)
		len += c->iov[i].iov_len;
	if (HK_UNLIKELY(c->count > HK_FI_IOV || c->key > UINT32_MAX ||
			(c->silent && len > HK_FI_INJECT)))
		return -FI_EINVAL;
	hk_fi_lock(d);
	to = ep->av ? hk_fi_find(ep->av, c->to) : NULL;
	if (HK_UNLIKELY(!ep->enabled || !to)) {
		hk_fi_unlock(d);
		return ep->enabled ? -FI_EINVAL : -FI_EOPBADSTATE;
	}
	struct hk_fi_peer *peer = &d->peer[to->peer];

	if (to->peer == HK_FI_SELF) {
		int error = to_self(ep, c, len);

		if (!error && c->flags & FI_REMOTE_CQ_DATA)
			hk_fi_written(d, to->number, hk_fi_source(HK_FI_SELF, ep->number), c->data);
		report(ep, c->context, c->flags, c->silent, error, HK_PEER_NONE);
		rc = 0;
	} else if (peer->peer == HK_PEER_NONE) {
		rc = hk_fi_peer_wait(d, peer);
	} else {
		rc = start(ep, c, to, peer->peer, len);
	}
	if (rc == -EAGAIN)
		hk_fi_progress(d);
	hk_fi_unlock(d);
	return rc;
}

/* The peer has written, and has data for us. */
void hk_fi_written(struct hk_fi_domain *d, uint8_t number, uint32_t source, uint64_t data)
{
	struct hk_fi_ep *ep = number < HK_FI_ENDPOINTS ? d->ep[number] : NULL;
	struct hk_fi_event *e;

	if (!ep || !ep->rx_cq)
		return;
	e = hk_fi_cq_next(ep->rx_cq);
	if (HK_UNLIKELY(!e))
		return;
	*e = (struct hk_fi_event){
		.at = {.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, .data = data},
		.source = hk_fi_av_reverse(ep->av, source),
		.peer = HK_PEER_NONE,
	};
}

/* ---- the calls ------------------------------------------------------------------------------- */

static ssize_t simple(struct fid_ep *fid, const struct iovec *iov, size_t count, fi_addr_t to,
		      uint64_t addr, uint64_t key, uint64_t data, uint64_t kind, void *context)
{
	struct hk_fi_ep *ep = container_of(fid, struct hk_fi_ep, fid);

	return run(ep, &(struct call){.iov = iov,
				      .count = count,
				      .to = to,
				      .addr = addr,
				      .key = key,
				      .data = data,
				      .flags = ep->tx_flags | kind,
				      .context = context});
}

static ssize_t message(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags,
		       uint64_t kind)
{
	struct hk_fi_ep *ep = container_of(fid, struct hk_fi_ep, fid);

	if (msg->rma_iov_count != 1)
		return -FI_EINVAL;
	return run(ep, &(struct call){.iov = msg->msg_iov,
				      .count = msg->iov_count,
				      .to = msg->addr,
				      .addr = msg->rma_iov->addr,
				      .key = msg->rma_iov->key,
				      .data = msg->data,
				      .flags = flags | kind,
				      .context = msg->context});
}

static ssize_t readv_call(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t from, uint64_t addr, uint64_t key, void *context)
{
	(void)desc;
	return simple(ep, iov, count, from, addr, key, 0, FI_READ, context);
}

static ssize_t read_call(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
			 uint64_t addr, uint64_t key, void *context)
{
	const struct iovec iov = {buf, len};

	(void)desc;
	return simple(ep, &iov, 1, from, addr, key, 0, FI_READ, context);
}

static ssize_t readmsg_call(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	return message(ep, msg, flags, FI_READ);
}

static ssize_t writev_call(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			   fi_addr_t to, uint64_t addr, uint64_t key, void *context)
{
	(void)desc;
	return simple(ep, iov, count, to, addr, key, 0, FI_WRITE, context);
}

static ssize_t write_call(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to,
			  uint64_t addr, uint64_t key, void *context)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	(void)desc;
	return simple(ep, &iov, 1, to, addr, key, 0, FI_WRITE, context);
}

static ssize_t writemsg_call(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	return message(ep, msg, flags, FI_WRITE);
}

static ssize_t writedata_call(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			      uint64_t data, fi_addr_t to, uint64_t addr, uint64_t key,
			      void *context)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	(void)desc;
	return simple(ep, &iov, 1, to, addr, key, data, FI_WRITE | FI_REMOTE_CQ_DATA, context);
}

static ssize_t inject_any(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			  fi_addr_t to, uint64_t addr, uint64_t key, uint64_t kind)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	return run(container_of(fid, struct hk_fi_ep, fid), &(struct call){.iov = &iov,
									   .count = 1,
									   .to = to,
									   .addr = addr,
									   .key = key,
									   .data = data,
									   .flags = kind,
									   .silent = true});
}

static ssize_t inject_call(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to,
			   uint64_t addr, uint64_t key)
{
	return inject_any(ep, buf, len, 0, to, addr, key, FI_WRITE);
}

static ssize_t injectdata_call(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			       fi_addr_t to, uint64_t addr, uint64_t key)
{
	return inject_any(ep, buf, len, data, to, addr, key, FI_WRITE | FI_REMOTE_CQ_DATA);
}

struct fi_ops_rma hk_fi_rma_ops = {
	.size = sizeof(hk_fi_rma_ops),
	.read = read_call,
	.readv = readv_call,
	.readmsg = readmsg_call,
	.write = write_call,
	.writev = writev_call,
	.writemsg = writemsg_call,
	.inject = inject_call,
	.writedata = writedata_call,
	.injectdata = injectdata_call,
};

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
 * arrive in the order of their calls. If the write itself waits to be sent, so does its data.
 *
 * The news of an operation that the peer counts (FI_RMA_EVENT) goes out when it is complete.
 *
 * The first operation with a key reads the peer's directory of keys first (keys.h). The entry may
 * be outdated later. Then the peer refuses the operation, and it begins again.
 */
#include "libfabric/operation.h"

#include "worker/atomic.h"

#include <errno.h>
#include <stdlib.h>

#define TAIL 8u /* bytes of a long write that go by a message */

struct rma {
	struct hk_fi_op op;
	struct hk_atomic_op atomic; /* the short operation, or the end of a write */
	struct hk_op bulk;          /* the put or get */
	char *bytes;                /* the source or destination */
	char *copy;                 /* the same, if it is not the application's; or NULL */
	struct iovec iov[HK_FI_IOV];
	size_t len;
	struct hk_fi_key to; /* key, and what is known of it */
	uint64_t addr, data;
	uint32_t place, directory;
	uint8_t number;
	uint8_t news; /* for the peer when the bytes are there: flags of a WRITTEN; or 0 */
	bool told;    /* it has been sent behind the bytes */
	bool looked;  /* the directory has been read for this operation */
	struct hk_fi_key *bucket; /* what is read of it, or NULL */
	unsigned waits;
	int status;
};

static void give(struct hk_fi_domain *d, struct rma *o)
{
	free(o->copy);
	free(o->bucket);
	hk_fi_pool_give(&d->rmas, o);
}

static struct hk_fi_domain *domain_of(const struct rma *o)
{
	return o->op.ep->domain;
}

static int error_of(int status)
{
	return status == 0 || status == -ENOTCONN || status == -EACCES ? -status : FI_EIO;
}

static int look_up(struct rma *o);

/* Tells the peer of the operation. */
static void tell(const struct rma *o)
{
	const struct hk_fi_prefix p = {
		.header = {.tag = o->to.key,
			   .id = o->to.region,
			   .to = o->number,
			   .from = o->op.ep->number,
			   .flags = o->news},
		.data = o->data,
	};

	hk_fi_tell(domain_of(o), o->op.peer, HK_FI_AM_WRITTEN, &p, NULL, 0);
}

static void end(struct rma *o)
{
	if (o->copy && o->op.flags & FI_READ && !o->status)
		hk_fi_iov_put(&(struct hk_fi_cursor){o->iov, 0}, o->copy, o->len);
	if (o->news && !o->told && !o->status)
		tell(o);
	o->op.ep->under_way--;
	hk_fi_end(&o->op, error_of(o->status));
	give(domain_of(o), o);
}

static void on_done(void *arg, int status)
{
	struct rma *o = arg;

	o->status = status ? status : o->status;
	if (--o->waits)
		return;
	/* has the owner closed the region that had this key, and opened another one? */
	if (HK_UNLIKELY(o->status == -EACCES && !o->looked)) {
		o->status = look_up(o);
		if (o->status == 0)
			return;
	}
	end(o);
}

/* The bytes as the worker needs them: in one piece, and unchanged until they are there. */
static char *in_one_piece(struct rma *o, const struct fi_msg_rma *m)
{
	if (m->iov_count == 1 && !(o->op.flags & (HK_FI_SILENT | FI_INJECT)))
		return m->msg_iov->iov_base;
	o->copy = malloc(o->len);
	if (o->copy && o->op.flags & FI_WRITE)
		hk_fi_iov_get(&(struct hk_fi_cursor){m->msg_iov, 0}, o->copy, o->len);
	return o->copy;
}

/* Asks the peer's worker by one message. Its answer comes when it has carried that out, or says
 * that it may not. */
static int start_message(struct rma *o, const struct hk_wire_atomic *ask, void *bytes)
{
	o->waits++;
	return hk_worker_atomic(domain_of(o)->worker, o->op.peer, &o->atomic, ask, bytes, on_done,
				o);
}

/* The bytes of the operation from @first on, by a message. */
static int start_short(struct rma *o, uint64_t offset, size_t first)
{
	const struct hk_wire_atomic ask = {
		.op = o->op.flags & FI_READ ? HK_ATOMIC_READ : HK_ATOMIC_WRITE,
		.region = o->to.region,
		.len = (uint32_t)(o->len - first),
		/* no region reaches so far: the peer refuses it, whatever the sum is */
		.offset = offset > UINT64_MAX - o->len ? UINT64_MAX : offset + first,
	};

	return start_message(o, &ask, o->bytes + first);
}

static int start_long(struct rma *o, uint64_t offset)
{
	struct hk_worker *w = domain_of(o)->worker;
	size_t most = o->len - TAIL;
	int rc;

	o->waits = 1;
	if (o->op.flags & FI_READ)
		return hk_worker_get(w, o->op.peer, &o->bulk, o->bytes, o->len, o->to.region,
				     offset, on_done, o);
	rc = hk_worker_put(w, o->op.peer, &o->bulk, o->bytes, most, o->to.region, offset, on_done,
			   o);
	if (rc)
		return rc;
	if (start_short(o, offset, most) != 0)
		o->waits--; /* the connection has ended, so the put ends with an error */
	return 0;
}

/* Moves the bytes, since the region is known. */
static int move(struct rma *o)
{
	static const struct hk_wire_atomic fence = {.op = HK_ATOMIC_FENCE};
	const struct hk_worker *w = domain_of(o)->worker;
	uint64_t offset = o->addr - o->to.base;
	int rc;

	o->waits = 0;
	rc = o->len == 0                        ? start_message(o, &fence, NULL)
	     : o->len > hk_worker_atomic_max(w) ? start_long(o, offset)
						: start_short(o, offset, 0);
	o->told = rc == 0 && o->news == HK_FI_HAS_DATA && !hk_worker_atomics_wait(w, o->op.peer);
	if (o->told)
		tell(o);
	return rc;
}

static void on_bucket(void *arg, int status)
{
	struct rma *o = arg;
	const struct hk_fi_key *found = status ? NULL : hk_fi_key_find(o->bucket, o->to.key);

	if (found) {
		o->to = *found;
		hk_fi_key_learn(domain_of(o), o->place, found);
		status = move(o);
		if (status == 0)
			return;
	}
	o->status = status ? status : -EACCES;
	end(o);
}

/* Reads what the key is in the peer's directory. */
static int look_up(struct rma *o)
{
	const size_t len = HK_FI_BUCKET * sizeof(*o->bucket);

	o->looked = true;
	o->bucket = malloc(len);
	return o->bucket ? hk_worker_get(domain_of(o)->worker, o->op.peer, &o->bulk, o->bucket, len,
					 o->directory, hk_fi_key_offset(o->to.key), on_bucket, o)
			 : -ENOMEM;
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

static int start(const struct hk_fi_op *op, const struct fi_msg_rma *m,
		 const struct hk_fi_address *to, size_t len)
{
	struct hk_fi_domain *d = op->ep->domain;
	const struct hk_fi_key *known;
	struct rma *o;
	int rc;

	if (hk_worker_tx_low(d->worker))
		return -EAGAIN;
	o = hk_fi_pool_take(&d->rmas, sizeof(*o));
	if (!o)
		return -ENOMEM;
	*o = (struct rma){
		.op = *op,
		.len = len,
		.to = {.key = m->rma_iov->key},
		.addr = m->rma_iov->addr,
		.data = m->data,
		.place = to->peer,
		.directory = to->name.directory,
		.number = to->number,
		.news = (uint8_t)((op->flags & FI_REMOTE_CQ_DATA ? HK_FI_HAS_DATA : 0) |
				  (!(to->name.kind & HK_FI_NAME_COUNTS) ? 0
				   : op->flags & FI_READ                ? HK_FI_COUNTS | HK_FI_READS
									: HK_FI_COUNTS)),
	};
	memcpy(o->iov, m->msg_iov, m->iov_count * sizeof(*m->msg_iov));
	o->bytes = in_one_piece(o, m);
	known = len ? hk_fi_key_known(d, o->place, o->to.key) : &o->to; /* no key for no bytes */
	if (known)
		o->to = *known;
	rc = len && !o->bytes ? -ENOMEM : known ? move(o) : look_up(o);
	if (rc) {
		give(d, o);
		return rc;
	}
	op->ep->under_way++;
	return 0;
}

ssize_t hk_fi_rma(struct fid_ep *fid, const struct fi_msg_rma *m, uint64_t flags)
{
	struct hk_fi_op op = {
		.ep = hk_fi_ep_of(fid), .context = m->context, .flags = flags | FI_RMA};
	struct hk_fi_domain *d = op.ep->domain;
	size_t len = hk_fi_iov_total(m->msg_iov, m->iov_count);
	const struct hk_fi_address *to;
	int rc;

	rc = HK_UNLIKELY(m->rma_iov_count != 1) ? -FI_EINVAL
						: hk_fi_begin(&op, m->iov_count, len, m->addr, &to);
	if (rc)
		return rc;
	if (to->peer == HK_FI_SELF) {
		int error = to_self(&op, m, len);

		if (!error)
			hk_fi_count(d, to->number, m->rma_iov->key, flags & FI_READ,
				    flags & FI_WRITE);
		if (!error && flags & FI_REMOTE_CQ_DATA)
			hk_fi_written(d, to->number, hk_fi_source(HK_FI_SELF, op.ep->number),
				      FI_RMA, m->data);
		hk_fi_end(&op, error);
	} else {
		rc = start(&op, m, to, len);
	}
	return hk_fi_finish(op.ep, rc);
}

/* The peer has written, and has data for us. */
void hk_fi_written(struct hk_fi_domain *d, uint8_t number, uint32_t source, uint64_t kind,
		   uint64_t data)
{
	struct hk_fi_ep *ep = hk_fi_ep_at(d, number);
	struct hk_fi_event *e = ep ? hk_fi_report(ep->rx_cq, NULL, true, 0) : NULL;

	if (e)
		*e = (struct hk_fi_event){
			.at = {.flags = kind | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, .data = data},
			.source = hk_fi_av_reverse(ep->av, source),
			.peer = HK_PEER_NONE,
		};
}

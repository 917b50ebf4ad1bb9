/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/atomic.c: atomic operations on peers' memory, and peers' operations on ours.
 *
 * An operation is one message to the owner of the memory. The owner carries it out when it polls,
 * and answers with the values from before, if they are wanted. Messages to one peer arrive in the
 * order of their calls, so operations are carried out in that order.
 */
#include "libfabric/atomic_ops.h"
#include "libfabric/operation.h"

#include <errno.h>

#define BYTES_MAX HK_FI_ATOMIC_MAX

/* The kind of a call, by its flags. */
static enum hk_fi_atomic_kind kind_of(uint64_t flags)
{
	return flags & FI_COMPARE_ATOMIC ? HK_FI_ATOMIC_COMPARE
	       : flags & FI_FETCH_ATOMIC ? HK_FI_ATOMIC_FETCH
					 : HK_FI_ATOMIC_BASE;
}

/* Elements of one operation, at most: request and answer are one frame each. */
static size_t limit(const struct hk_fi_domain *d, enum hk_fi_atomic_kind kind, unsigned type)
{
	size_t bytes = HK_MIN(d->payload - HK_FI_PREFIX_MAX, (size_t)BYTES_MAX);

	return bytes / hk_fi_atomic_size(type) / (kind == HK_FI_ATOMIC_COMPARE ? 2 : 1);
}

int hk_fi_atomic_query(const struct hk_fi_domain *d, uint64_t kind, unsigned type, unsigned op,
		       size_t *count)
{
	if (!hk_fi_atomic_valid(kind_of(kind), type, op))
		return -FI_EOPNOTSUPP;
	*count = limit(d, kind_of(kind), type);
	return 0;
}

/* ---- peers' operations, and ours on our own memory ------------------------------------------- */

/* Carries out what endpoint @to is asked for, after all checks. @values: what follows the request.
 * @old: space for BYTES_MAX. Returns 0 or one of FI_E…. */
static int carry_out(struct hk_fi_domain *d, uint8_t to, const struct hk_fi_atomic *a, bool fetch,
		     const char *values, size_t len, char *old)
{
	unsigned rights = (fetch ? HK_REGION_READ : 0) |
			  (a->op == FI_ATOMIC_READ ? 0 : HK_REGION_WRITE);
	size_t bytes;
	char *at;

	if (!hk_fi_atomic_check(a, fetch, len) || a->count > limit(d, HK_FI_ATOMIC_BASE, a->type))
		return FI_EINVAL;
	bytes = a->count * hk_fi_atomic_size(a->type);
	at = hk_fi_mr_at(d, a->key, a->addr, bytes, rights);
	if (!at)
		return FI_EACCES;
	if ((uintptr_t)at % hk_fi_atomic_align(a->type))
		return FI_EINVAL;
	hk_fi_atomic_apply(a->type, a->op, at, a->count, values, values + bytes, old);
	hk_fi_count(d, to, a->key, fetch, a->op != FI_ATOMIC_READ);
	return 0;
}

void hk_fi_on_atomic(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	struct hk_fi_domain *d = arg;
	struct hk_fi_prefix p;
	char old[BYTES_MAX];
	size_t at = hk_fi_prefix_read(iov->base, iov->len, am, &p);
	uint32_t place = hk_fi_peer_of(d, peer);

	if (HK_UNLIKELY(!at || place == HK_FI_NO_PEER))
		return;
	bool fetch = p.header.flags & HK_FI_FETCH;
	int error = FI_ECONNREFUSED;

	if (HK_LIKELY(hk_fi_ep_at(d, p.header.to) != NULL))
		error = count == 1 ? carry_out(d, p.header.to, &p.atomic, fetch,
					       (const char *)iov->base + at, iov->len - at, old)
				   : FI_EINVAL;
	if (HK_UNLIKELY(error))
		hk_fi_warn("refused an atomic operation of %s on region %llx at %llx",
			   hk_worker_peer_name(d->worker, peer), (unsigned long long)p.atomic.key,
			   (unsigned long long)p.atomic.addr);
	else if (p.header.flags & HK_FI_HAS_DATA)
		hk_fi_written(d, p.header.to, hk_fi_source(place, p.header.from), FI_ATOMIC,
			      p.data);
	const struct hk_fi_prefix done = {.header = {.id = p.header.id, .tag = (uint64_t)error}};

	if (p.header.flags & HK_FI_ANSWER)
		hk_fi_tell(d, peer, HK_FI_AM_DONE, &done, old,
			   fetch && !error ? p.atomic.count * hk_fi_atomic_size(p.atomic.type) : 0);
}

/* ---- ours ------------------------------------------------------------------------------------ */

/* One of our operations. */
struct request {
	struct hk_fi_op op;
	struct hk_fi_prefix prefix;
	struct iovec values[2 * HK_FI_IOV]; /* operands, then what they are compared with */
	size_t value_pieces, len;
	struct iovec results[HK_FI_IOV];
	size_t result_pieces;
};

/* Adds @ioc to the *@pieces of @iov, in bytes. *@elements: how many it must have, or 0; then how
 * many it has. */
static int add_pieces(const struct fi_ioc *ioc, size_t count, size_t size, size_t most,
		      struct iovec *iov, size_t *pieces, size_t *elements)
{
	size_t sum = 0;

	if (count > HK_FI_IOV)
		return -FI_EINVAL;
	for (size_t i = 0; i < count; i++) {
		if (ioc[i].count > most - sum)
			return -FI_EMSGSIZE;
		sum += ioc[i].count;
		iov[(*pieces)++] = (struct iovec){ioc[i].addr, ioc[i].count * size};
	}
	if (!sum || (*elements && sum != *elements))
		return -FI_EINVAL;
	*elements = sum;
	return 0;
}

static int to_self(struct request *r, const struct hk_fi_address *to)
{
	struct hk_fi_domain *d = r->op.ep->domain;
	char values[BYTES_MAX], old[BYTES_MAX];
	int error;

	hk_fi_iov_get(&(struct hk_fi_cursor){r->values, 0}, values, r->len);
	error = carry_out(d, to->number, &r->prefix.atomic, r->result_pieces, values, r->len, old);
	if (!error)
		hk_fi_iov_put(&(struct hk_fi_cursor){r->results, 0}, old,
			      hk_fi_iov_total(r->results, r->result_pieces));
	if (!error && r->op.flags & FI_REMOTE_CQ_DATA)
		hk_fi_written(d, to->number, hk_fi_source(HK_FI_SELF, r->op.ep->number), FI_ATOMIC,
			      r->prefix.data);
	hk_fi_end(&r->op, error);
	return 0;
}

static int to_peer(struct request *r, const struct hk_fi_address *to)
{
	struct hk_fi_domain *d = r->op.ep->domain;
	struct hk_fi_pending *waits = hk_fi_pending_take(d, &r->op);
	int rc;

	if (!waits)
		return -EAGAIN;
	waits->results = r->result_pieces;
	memcpy(waits->result, r->results, sizeof(waits->result));
	r->prefix.header.id = waits->id;
	r->prefix.header.to = to->number;
	rc = hk_fi_transmit(d, r->op.peer, HK_FI_AM_ATOMIC, &r->prefix, r->values, r->value_pieces,
			    r->len);
	if (rc < 0)
		hk_fi_pending_give(d, waits);
	return rc;
}

ssize_t hk_fi_atomic(struct fid_ep *fid, const struct fi_msg_atomic *m,
		     const struct fi_ioc *compare, size_t compares, const struct fi_ioc *result,
		     size_t results, uint64_t flags)
{
	struct request r = {
		.op = {.ep = hk_fi_ep_of(fid), .context = m->context, .flags = flags | FI_ATOMIC}};
	enum hk_fi_atomic_kind kind = kind_of(flags);
	size_t size = hk_fi_atomic_size(m->datatype), most, elements = 0;
	unsigned values = hk_fi_atomic_values(m->op);
	const struct hk_fi_address *to;
	int rc = hk_fi_atomic_query(r.op.ep->domain, flags, m->datatype, m->op, &most);

	if (rc == 0 && m->rma_iov_count != 1)
		rc = -FI_EINVAL;
	if (rc == 0 && values > 0)
		rc = add_pieces(m->msg_iov, m->iov_count, size, most, r.values, &r.value_pieces,
				&elements);
	if (rc == 0 && values > 1)
		rc = add_pieces(compare, compares, size, most, r.values, &r.value_pieces,
				&elements);
	if (rc == 0 && kind != HK_FI_ATOMIC_BASE)
		rc = add_pieces(result, results, size, most, r.results, &r.result_pieces,
				&elements);
	r.len = values * elements * size;
	if (rc == 0)
		rc = hk_fi_begin(&r.op, 0, r.len, m->addr, &to);
	if (rc)
		return rc;
	r.prefix = (struct hk_fi_prefix){
		.header = {.from = r.op.ep->number,
			   .flags = (uint8_t)(HK_FI_ANSWER |
					      (kind == HK_FI_ATOMIC_BASE ? 0 : HK_FI_FETCH) |
					      (flags & FI_REMOTE_CQ_DATA ? HK_FI_HAS_DATA : 0))},
		.data = m->data,
		.atomic = {.addr = m->rma_iov->addr,
			   .key = m->rma_iov->key,
			   .count = (uint16_t)elements,
			   .type = (uint8_t)m->datatype,
			   .op = (uint8_t)m->op},
	};
	rc = to->peer == HK_FI_SELF ? to_self(&r, to) : to_peer(&r, to);
	return hk_fi_finish(r.op.ep, rc);
}

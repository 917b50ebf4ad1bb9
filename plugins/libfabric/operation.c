/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/operation.c: how operations begin and end, and the table of those that wait.
 *
 * An id names a place in the table and counts its uses. So the answer to an operation that has
 * ended does not end a later one.
 */
#include "libfabric/operation.h"

#include <errno.h>
#include <stdlib.h>

#define INDEX_BITS 20u /* of an id; the others count the uses of its place */
#define INDEX(id)  ((id) & ((1u << INDEX_BITS) - 1))

/* Flags of a completion. */
#define REPORTED (FI_SEND | FI_READ | FI_WRITE | FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC)

int hk_fi_begin(struct hk_fi_op *op, size_t pieces, size_t len, fi_addr_t at,
		const struct hk_fi_address **to)
{
	struct hk_fi_ep *ep = op->ep;
	struct hk_fi_peer *peer;
	int rc;

	if (HK_UNLIKELY(pieces > HK_FI_IOV || (op->flags & HK_FI_SILENT && len > HK_FI_INJECT)))
		return -FI_EINVAL;
	hk_fi_lock(ep->domain);
	*to = ep->av ? hk_fi_find(ep->av, at) : NULL;
	if (HK_UNLIKELY(!ep->enabled || !*to)) {
		hk_fi_unlock(ep->domain);
		return ep->enabled ? -FI_EINVAL : -FI_EOPBADSTATE;
	}
	peer = &ep->domain->peer[(*to)->peer];
	op->peer = peer->peer;
	if (HK_LIKELY(op->peer != HK_PEER_NONE || (*to)->peer == HK_FI_SELF))
		return 0;
	rc = hk_fi_peer_wait(ep->domain, peer);
	(void)hk_fi_finish(ep, rc);
	return rc;
}

ssize_t hk_fi_finish(struct hk_fi_ep *ep, int rc)
{
	if (HK_UNLIKELY(rc == -EAGAIN))
		hk_fi_progress(ep->domain); /* so that a caller who only repeats it gets on */
	hk_fi_unlock(ep->domain);
	return HK_MIN(rc, 0); /* FI_E… of these are the codes of errno */
}

void hk_fi_end(const struct hk_fi_op *op, int error)
{
	const struct hk_fi_ep *ep = op->ep;
	uint64_t flags = op->flags;
	struct hk_fi_cntr *c = flags & FI_SEND   ? ep->tx_cntr
			       : flags & FI_READ ? ep->read_cntr
						 : ep->write_cntr;
	bool wanted = !(flags & HK_FI_SILENT) && (!ep->tx_selective || flags & FI_COMPLETION);
	struct hk_fi_event *e = hk_fi_report(ep->tx_cq, c, wanted, error);

	if (HK_LIKELY(e != NULL))
		*e = (struct hk_fi_event){
			.at = {.op_context = op->context,
			       .flags = flags & REPORTED,
			       .tag = op->tag},
			.source = FI_ADDR_NOTAVAIL,
			.error = error,
			.peer = error ? op->peer : HK_PEER_NONE,
		};
}

/* ---- operations that wait -------------------------------------------------------------------- */

/* A new place in the table. */
static struct hk_fi_pending *add(struct hk_fi_domain *d)
{
	struct hk_fi_pending **table, *p;

	if (d->pendings == 1u << INDEX_BITS)
		return NULL;
	table = hk_fi_grow(d->pending, &d->pending_room, d->pendings, sizeof(*table), 0);
	if (!table)
		return NULL;
	d->pending = table;
	p = calloc(1, sizeof(*p));
	if (p) {
		p->id = d->pendings;
		table[d->pendings++] = p;
	}
	return p;
}

struct hk_fi_pending *hk_fi_pending_take(struct hk_fi_domain *d, const struct hk_fi_op *op)
{
	struct hk_fi_pending *p = d->pending_free;

	if (p)
		d->pending_free = p->next;
	else
		p = add(d);
	if (!p)
		return NULL;
	*p = (struct hk_fi_pending){.op = *op, .id = p->id, .active = true};
	return p;
}

void hk_fi_pending_give(struct hk_fi_domain *d, struct hk_fi_pending *p)
{
	if (p->region != HK_REGION_NONE)
		hk_worker_region_del(d->worker, p->region);
	free(p->copy);
	p->copy = NULL;
	p->active = false;
	p->id += 1u << INDEX_BITS;
	p->next = d->pending_free;
	d->pending_free = p;
}

static void end(struct hk_fi_domain *d, struct hk_fi_pending *p, int error)
{
	struct hk_fi_op op = p->op;

	hk_fi_pending_give(d, p);
	hk_fi_end(&op, error);
}

/* How @p ends, by the peer's answer. */
static int error_of(const struct hk_fi_domain *d, const struct hk_fi_pending *p, uint64_t said,
		    size_t len)
{
	if (!said)
		return len == hk_fi_iov_total(p->result, p->results) ? 0 : FI_EIO;
	if (!(p->op.flags & FI_ATOMIC))
		return FI_EIO;
	hk_fi_warn("%s has refused an atomic operation: %s",
		   hk_worker_peer_name(d->worker, p->op.peer), strerror((int)said));
	return said == FI_EACCES || said == FI_EINVAL ? (int)said : FI_EIO;
}

void hk_fi_pending_done(struct hk_fi_domain *d, hk_peer peer, const struct hk_fi_header *done,
			const char *fetched, size_t len)
{
	uint32_t index = INDEX(done->id);
	struct hk_fi_pending *p = index < d->pendings ? d->pending[index] : NULL;
	int error;

	/* a peer says anything */
	if (!p || !p->active || p->id != done->id || p->op.peer != peer)
		return;
	error = error_of(d, p, done->tag, len);
	if (!error)
		hk_fi_iov_put(&(struct hk_fi_cursor){p->result, 0}, fetched, len);
	end(d, p, error);
}

void hk_fi_send_lost(struct hk_fi_domain *d, hk_peer peer)
{
	for (uint32_t i = 0; i < d->pendings; i++) {
		struct hk_fi_pending *p = d->pending[i];

		if (p->active && (peer == HK_PEER_NONE || p->op.peer == peer))
			end(d, p, FI_ENOTCONN);
	}
}

void hk_fi_pending_forget(struct hk_fi_ep *ep)
{
	for (uint32_t i = 0; i < ep->domain->pendings; i++) {
		struct hk_fi_pending *p = ep->domain->pending[i];

		if (p->active && p->op.ep == ep)
			hk_fi_pending_give(ep->domain, p);
	}
}

void hk_fi_pending_close(struct hk_fi_domain *d)
{
	for (uint32_t i = 0; i < d->pendings; i++) {
		free(d->pending[i]->copy);
		free(d->pending[i]);
	}
	free(d->pending);
}

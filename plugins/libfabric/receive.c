/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/receive.c: posted receives, messages that arrive, and how they meet.
 *
 * A message that no receive fits is copied and waits, in the order of arrival. Of a long one only
 * the announcement waits. Its bytes stay in the sender's memory until a receive fits. Then they
 * come to their place by a get.
 *
 * A buffer for several messages (FI_MULTI_RECV) stays posted until less than the endpoint's minimum
 * is left. Its last completion tells that the application has it again. Gets into it may end in any
 * order, so the last one of them tells that.
 */
#include "libfabric/provider.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 64 /* receives that are allocated at a time */

struct chunk {
	struct chunk *next;
	struct hk_fi_recv recv[CHUNK];
};

/* A get of a long message. */
struct get {
	struct hk_op op;
	struct hk_fi_recv *recv;
	struct hk_fi_arrival from;
	char *to;     /* where it goes: in the application's buffer, or … */
	char *bounce; /* … here, if that has several pieces */
	size_t len;   /* bytes that fit */
};

static struct hk_fi_recv *recv_of(struct hk_match_item *item)
{
	return container_of(item, struct hk_fi_recv, item);
}

static struct hk_fi_unexpected *unexpected_of(struct hk_match_item *item)
{
	return container_of(item, struct hk_fi_unexpected, at.item);
}

static struct hk_fi_recv *recv_take(struct hk_fi_ep *ep)
{
	struct hk_fi_recv *r = ep->free_recvs;

	if (HK_UNLIKELY(!r)) {
		struct chunk *c = calloc(1, sizeof(*c));

		if (!c)
			return NULL;
		c->next = ep->recv_chunks;
		ep->recv_chunks = c;
		for (unsigned i = 0; i < CHUNK; i++) {
			c->recv[i].next = ep->free_recvs;
			ep->free_recvs = &c->recv[i];
		}
		r = ep->free_recvs;
	}
	ep->free_recvs = r->next;
	r->ep = ep;
	r->gets = 0;
	r->posted = r->held = false;
	return r;
}

static void recv_give(struct hk_fi_recv *r)
{
	r->next = r->ep->free_recvs;
	r->ep->free_recvs = r;
}

/* ---- completions ----------------------------------------------------------------------------- */

/* Tells the application of a message that has arrived. */
static void report(struct hk_fi_ep *ep, void *context, uint64_t flags,
		   const struct hk_fi_arrival *a, void *buf, size_t len, size_t olen, int error)
{
	struct hk_fi_event *e;

	if (ep->rx_cntr)
		error ? ep->rx_cntr->errors++ : ep->rx_cntr->value++;
	if (!ep->rx_cq || (ep->rx_selective && !(flags & FI_COMPLETION) && !error))
		return;
	e = hk_fi_cq_next(ep->rx_cq);
	if (HK_UNLIKELY(!e))
		return;
	e->at.op_context = context;
	e->at.flags = FI_RECV | a->flags | (flags & FI_MULTI_RECV);
	e->at.len = len;
	e->at.buf = buf;
	e->at.data = a->data;
	e->at.tag = a->item.tag;
	e->source = ep->caps & FI_SOURCE ? hk_fi_av_reverse(ep->av, a->item.source)
					 : FI_ADDR_NOTAVAIL;
	e->olen = olen;
	e->error = error;
	e->peer = error == FI_ENOTCONN ? a->peer : HK_PEER_NONE;
}

/* Does the application get the buffer of @r back with the next completion? */
static bool is_last(const struct hk_fi_recv *r)
{
	return !r->posted && r->gets == 0;
}

/* Ends one message of @r, which lies at @buf. */
static void complete(struct hk_fi_recv *r, const struct hk_fi_arrival *a, char *buf, size_t len,
		     int error)
{
	uint64_t flags = r->flags & FI_COMPLETION;
	bool last = is_last(r);

	if (r->multi && last)
		flags |= FI_MULTI_RECV;
	if (error == 0 && a->len > len)
		error = FI_ETRUNC;
	report(r->ep, r->context, flags, a, buf, len, a->len - len, error);
	if (last && !r->held)
		recv_give(r);
}

/* ---- bytes to their place -------------------------------------------------------------------- */

/* Copies up to @len bytes of the pieces into @iov. */
static void scatter(const struct iovec *iov, const struct hk_iov *piece, unsigned pieces,
		    size_t len)
{
	size_t at = 0;

	for (unsigned i = 0; i < pieces && len; i++) {
		const char *from = piece[i].base;
		size_t left = HK_MIN(piece[i].len, len);

		len -= left;
		while (left) {
			size_t part = HK_MIN(left, iov->iov_len - at);

			if (part)
				memcpy((char *)iov->iov_base + at, from, part);
			from += part;
			left -= part;
			at += part;
			if (at == iov->iov_len) {
				iov++;
				at = 0;
			}
		}
	}
}

/* Sets aside @len bytes of @r for one message. Afterwards `posted` tells whether it has room for
 * more. Returns where they are: in a buffer of several pieces, the first. */
static char *reserve(struct hk_fi_recv *r, size_t len)
{
	char *base = r->iov[0].iov_base;
	bool more = false;

	if (r->multi) {
		r->iov[0].iov_base = base + len;
		r->iov[0].iov_len -= len;
		r->len -= len;
		more = r->len >= r->ep->min_multi_recv && r->len > 0;
	}
	if (r->posted && !more) {
		hk_match_remove(&r->matcher->posted, &r->item);
		r->posted = false;
	}
	return base;
}

static void on_got(void *arg, int status)
{
	struct get *g = arg;
	struct hk_fi_recv *r = g->recv;
	int error = status == -ENOTCONN ? FI_ENOTCONN : status ? FI_EIO : 0;

	r->gets--;
	r->ep->under_way--;
	if (g->bounce && !error) {
		const struct hk_iov piece = {g->bounce, g->len};

		scatter(r->iov, &piece, 1, g->len);
	}
	free(g->bounce);
	hk_fi_answer(r->ep->domain, &g->from, error);
	complete(r, &g->from, g->to, g->len, error);
	free(g);
}

/* Gets a long message into @r. */
static void fetch(struct hk_fi_recv *r, const struct hk_fi_arrival *a)
{
	size_t len = (size_t)HK_MIN(a->len, (uint64_t)r->len);
	struct get *g = calloc(1, sizeof(*g));
	bool pieces = r->count > 1 && r->iov[0].iov_len < len;
	char *to = reserve(r, len);
	int rc = g ? 0 : -ENOMEM;

	if (rc == 0) {
		g->recv = r;
		g->from = *a;
		g->to = to;
		g->len = len;
		g->bounce = pieces ? malloc(len) : NULL;
		rc = pieces && !g->bounce ? -ENOMEM : 0;
	}
	if (rc == 0 && len) {
		r->gets++;
		r->ep->under_way++;
		rc = hk_worker_get(r->ep->domain->worker, a->peer, &g->op, pieces ? g->bounce : to,
				   len, a->region, 0, on_got, g);
		if (rc == 0)
			return;
		r->gets--;
		r->ep->under_way--;
	}
	if (g)
		free(g->bounce);
	free(g);
	hk_fi_answer(r->ep->domain, a, rc ? FI_EIO : 0);
	complete(r, a, to, len, -rc);
}

/* @r takes the message, whose bytes lie in the pieces unless it is long. */
static void take(struct hk_fi_recv *r, const struct hk_fi_arrival *a, const struct hk_iov *piece,
		 unsigned pieces)
{
	size_t len;
	char *to;

	if (HK_UNLIKELY(a->region != HK_REGION_NONE)) {
		fetch(r, a);
		return;
	}
	len = (size_t)HK_MIN(a->len, (uint64_t)r->len);
	scatter(r->iov, piece, pieces, len);
	to = reserve(r, len);
	if (a->answer)
		hk_fi_answer(r->ep->domain, a, 0);
	complete(r, a, to, len, 0);
}

/* ---- messages that wait ---------------------------------------------------------------------- */

static int store(struct hk_fi_matcher *m, const struct hk_fi_arrival *a, const struct hk_iov *piece,
		 unsigned pieces)
{
	size_t len = a->region == HK_REGION_NONE ? (size_t)a->len : 0;
	struct hk_fi_unexpected *u = malloc(sizeof(*u) + len);
	char *to;

	if (!u)
		return -ENOMEM;
	u->at = *a;
	u->at.item.ignore = 0;
	to = u->bytes;
	for (unsigned i = 0; i < pieces && len; i++) {
		if (piece[i].len)
			memcpy(to, piece[i].base, piece[i].len);
		to += piece[i].len;
	}
	hk_match_append(&m->unexpected, &u->at.item);
	return 0;
}

static void take_stored(struct hk_fi_recv *r, struct hk_fi_unexpected *u)
{
	const struct hk_iov piece = {u->bytes, (size_t)u->at.len};

	take(r, &u->at, &piece, 1);
	free(u);
}

static struct hk_fi_matcher *matcher_of(struct hk_fi_ep *ep, uint64_t flags)
{
	return flags & FI_TAGGED ? &ep->tagged : &ep->msg;
}

int hk_fi_arrived(struct hk_fi_ep *ep, const struct hk_fi_arrival *a, const struct hk_iov *piece,
		  unsigned pieces)
{
	struct hk_fi_matcher *m = matcher_of(ep, a->flags);
	struct hk_match_item *item = hk_match_message(&m->posted, &a->item);

	if (HK_UNLIKELY(!item))
		return store(m, a, piece, pieces);
	take(recv_of(item), a, piece, pieces);
	return 0;
}

/* ---- posting --------------------------------------------------------------------------------- */

/* FI_PEEK: looks for a message, and reports what it finds. */
static void peek(struct hk_fi_ep *ep, struct hk_fi_matcher *m, const struct hk_match_item *wanted,
		 const struct hk_fi_post *p)
{
	struct hk_match_item *item = hk_match_receive(&m->unexpected, wanted);
	struct hk_fi_arrival none = {.item = *wanted, .flags = FI_TAGGED};
	struct hk_fi_unexpected *u;

	if (!item) {
		report(ep, p->context, FI_COMPLETION, &none, NULL, 0, 0, FI_ENOMSG);
		return;
	}
	u = unexpected_of(item);
	report(ep, p->context, FI_COMPLETION, &u->at, NULL, (size_t)u->at.len, 0, 0);
	if (p->flags & (FI_CLAIM | FI_DISCARD))
		hk_match_remove(&m->unexpected, item);
	if (p->flags & FI_DISCARD) {
		hk_fi_answer(ep->domain, &u->at, 0);
		free(u);
	} else if (p->flags & FI_CLAIM) {
		u->claimed = p->context;
		hk_match_append(&m->claimed, item);
	}
}

/* The message that an FI_PEEK with FI_CLAIM and this context has found. */
static struct hk_fi_unexpected *claimed(struct hk_fi_matcher *m, const void *context)
{
	for (struct hk_match_item *i = m->claimed.first; i; i = i->next)
		if (unexpected_of(i)->claimed == context) {
			hk_match_remove(&m->claimed, i);
			return unexpected_of(i);
		}
	return NULL;
}

/* A claimed message goes to @r, which is not posted. */
static ssize_t post_claimed(struct hk_fi_ep *ep, struct hk_fi_matcher *m,
			    const struct hk_fi_post *p, struct hk_fi_recv *r)
{
	struct hk_fi_unexpected *u = claimed(m, p->context);

	if (!u) {
		recv_give(r);
		return -FI_EINVAL;
	}
	if (p->flags & FI_DISCARD) {
		hk_fi_answer(ep->domain, &u->at, 0);
		report(ep, p->context, p->flags, &u->at, NULL, 0, 0, 0);
		recv_give(r);
		free(u);
		return 0;
	}
	take_stored(r, u);
	return 0;
}

/* Where receives come from, in the matcher's terms. */
static int source_of(const struct hk_fi_ep *ep, fi_addr_t from, uint32_t *source)
{
	const struct hk_fi_address *a;

	*source = HK_MATCH_ANY;
	if (from == FI_ADDR_UNSPEC || !(ep->caps & FI_DIRECTED_RECV))
		return 0;
	a = ep->av ? hk_fi_find(ep->av, from) : NULL;
	if (!a)
		return -FI_EINVAL;
	*source = hk_fi_source(a->peer, a->number);
	return 0;
}

static void fill(struct hk_fi_recv *r, struct hk_fi_matcher *m, const struct hk_fi_post *p)
{
	r->context = p->context;
	r->flags = p->flags;
	r->count = (unsigned)p->count;
	r->len = 0;
	r->iov[0] = (struct iovec){NULL, 0};
	for (size_t i = 0; i < p->count; i++) {
		r->iov[i] = p->iov[i];
		r->len += p->iov[i].iov_len;
	}
	r->multi = p->flags & FI_MULTI_RECV;
	r->matcher = m;
}

static ssize_t post(struct hk_fi_ep *ep, struct hk_fi_matcher *m, const struct hk_fi_post *p)
{
	struct hk_match_item wanted = {.tag = p->tag, .ignore = p->ignore}, *item;
	struct hk_fi_recv *r;

	if (source_of(ep, p->from, &wanted.source) != 0)
		return -FI_EINVAL;
	if (HK_UNLIKELY(p->flags & FI_PEEK)) {
		hk_fi_progress(ep->domain);
		peek(ep, m, &wanted, p);
		return 0;
	}
	r = recv_take(ep);
	if (HK_UNLIKELY(!r))
		return -FI_ENOMEM;
	fill(r, m, p);
	r->item = wanted;
	if (HK_UNLIKELY(p->flags & FI_CLAIM))
		return post_claimed(ep, m, p, r);
	hk_match_append(&m->posted, &r->item);
	r->posted = true;
	if (HK_LIKELY(!m->unexpected.first))
		return 0;
	r->held = true; /* while this function looks at it */
	while (r->posted && (item = hk_match_receive(&m->unexpected, &wanted))) {
		hk_match_remove(&m->unexpected, item);
		take_stored(r, unexpected_of(item));
	}
	r->held = false;
	if (is_last(r))
		recv_give(r);
	return 0;
}

static ssize_t post_call(struct fid_ep *fid, uint64_t kind, const struct hk_fi_post *p)
{
	struct hk_fi_ep *ep = container_of(fid, struct hk_fi_ep, fid);
	ssize_t rc;

	if (HK_UNLIKELY(p->count > HK_FI_IOV || (p->flags & FI_MULTI_RECV && p->count != 1)))
		return -FI_EINVAL;
	hk_fi_lock(ep->domain);
	rc = HK_LIKELY(ep->enabled) ? post(ep, matcher_of(ep, kind), p) : -FI_EOPBADSTATE;
	hk_fi_unlock(ep->domain);
	return rc;
}

static uint64_t rx_flags(struct fid_ep *fid)
{
	return container_of(fid, struct hk_fi_ep, fid)->rx_flags;
}

ssize_t hk_fi_msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			fi_addr_t from, void *context)
{
	(void)desc;
	return post_call(fid, FI_MSG,
			 &(struct hk_fi_post){.iov = iov,
					      .count = count,
					      .from = from,
					      .flags = rx_flags(fid),
					      .context = context});
}

ssize_t hk_fi_msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from,
		       void *context)
{
	const struct iovec iov = {buf, len};

	return hk_fi_msg_recvv(fid, &iov, desc, 1, from, context);
}

ssize_t hk_fi_msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return post_call(fid, FI_MSG,
			 &(struct hk_fi_post){.iov = msg->msg_iov,
					      .count = msg->iov_count,
					      .from = msg->addr,
					      .flags = flags,
					      .context = msg->context});
}

ssize_t hk_fi_tagged_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			   fi_addr_t from, uint64_t tag, uint64_t ignore, void *context)
{
	(void)desc;
	return post_call(fid, FI_TAGGED,
			 &(struct hk_fi_post){.iov = iov,
					      .count = count,
					      .from = from,
					      .tag = tag,
					      .ignore = ignore,
					      .flags = rx_flags(fid) & ~FI_MULTI_RECV,
					      .context = context});
}

ssize_t hk_fi_tagged_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from,
			  uint64_t tag, uint64_t ignore, void *context)
{
	const struct iovec iov = {buf, len};

	return hk_fi_tagged_recvv(fid, &iov, desc, 1, from, tag, ignore, context);
}

ssize_t hk_fi_tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return post_call(fid, FI_TAGGED,
			 &(struct hk_fi_post){.iov = msg->msg_iov,
					      .count = msg->iov_count,
					      .from = msg->addr,
					      .tag = msg->tag,
					      .ignore = msg->ignore,
					      .flags = flags & ~FI_MULTI_RECV,
					      .context = msg->context});
}

/* ---- receives that end otherwise ------------------------------------------------------------- */

static struct hk_fi_recv *find_context(struct hk_fi_matcher *m, const void *context)
{
	for (struct hk_match_item *i = m->posted.first; i; i = i->next)
		if (recv_of(i)->context == context)
			return recv_of(i);
	return NULL;
}

/* Takes a posted receive back with an error. A buffer into which gets go ends with the last one. */
static void withdraw(struct hk_fi_recv *r, hk_peer peer, int error)
{
	const struct hk_fi_arrival none = {.item = r->item,
					   .peer = peer,
					   .flags = r->matcher == &r->ep->tagged ? FI_TAGGED
										 : FI_MSG};

	hk_match_remove(&r->matcher->posted, &r->item);
	r->posted = false;
	report(r->ep, r->context, FI_COMPLETION | (r->multi && !r->gets ? FI_MULTI_RECV : 0), &none,
	       NULL, 0, 0, error);
	if (is_last(r))
		recv_give(r);
}

ssize_t hk_fi_cancel(fid_t fid, void *context)
{
	struct hk_fi_ep *ep = container_of(fid, struct hk_fi_ep, fid.fid);
	struct hk_fi_recv *r;

	hk_fi_lock(ep->domain);
	r = find_context(&ep->tagged, context);
	if (!r)
		r = find_context(&ep->msg, context);
	if (r)
		withdraw(r, HK_PEER_NONE, FI_ECANCELED);
	hk_fi_unlock(ep->domain);
	return r ? 0 : -FI_ENOENT;
}

static void lost(const struct hk_fi_domain *d, struct hk_fi_matcher *m, uint32_t peer)
{
	struct hk_match_item *i = m->posted.first, *next;

	for (; i; i = next) {
		next = i->next;
		if (i->source != HK_MATCH_ANY && (peer == HK_FI_NO_PEER || i->source >> 8 == peer))
			withdraw(recv_of(i), d->peer[i->source >> 8].peer, FI_ENOTCONN);
	}
}

void hk_fi_receive_lost(struct hk_fi_domain *d, uint32_t peer)
{
	for (unsigned i = 0; i < HK_FI_ENDPOINTS; i++)
		if (d->ep[i]) {
			lost(d, &d->ep[i]->tagged, peer);
			lost(d, &d->ep[i]->msg, peer);
		}
}

static void forget(struct hk_fi_ep *ep, struct hk_match_list *list)
{
	while (list->first) {
		struct hk_fi_unexpected *u = unexpected_of(list->first);

		hk_match_remove(list, &u->at.item);
		hk_fi_answer(ep->domain, &u->at, FI_ECANCELED);
		free(u);
	}
}

void hk_fi_receive_close(struct hk_fi_ep *ep)
{
	forget(ep, &ep->tagged.unexpected);
	forget(ep, &ep->tagged.claimed);
	forget(ep, &ep->msg.unexpected);
	forget(ep, &ep->msg.claimed);
	while (ep->recv_chunks) {
		struct chunk *c = ep->recv_chunks;

		ep->recv_chunks = c->next;
		free(c);
	}
}

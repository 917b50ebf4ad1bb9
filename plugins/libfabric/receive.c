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

/* A posted receive. */
struct recv {
	struct hk_match_item item;
	struct hk_fi_ep *ep;
	void *context;
	uint64_t flags;
	struct iovec iov[HK_FI_IOV];
	unsigned count;
	size_t len; /* bytes of all pieces */
	/* of a buffer for several messages, whose iov[0] is what is left */
	bool multi;
	bool posted;   /* it is in the matcher's list */
	bool held;     /* nobody frees it now */
	uint32_t gets; /* of long messages that are under way */
	struct hk_fi_matcher *matcher;
};

/* A message that no receive fits. */
struct unexpected {
	struct hk_fi_arrival at;
	void *claimed; /* context of the FI_CLAIM that has it */
	char bytes[];  /* unless it is long */
};

/* A get of a long message. */
struct get {
	struct hk_op op;
	struct recv *recv;
	struct hk_fi_arrival from;
	char *to;      /* its place in the application's buffer */
	size_t len;    /* bytes that fit */
	bool bounces;  /* the buffer has several pieces, so it goes here first: */
	char bounce[]; /* its bytes */
};

static struct recv *recv_of(struct hk_match_item *item)
{
	return container_of(item, struct recv, item);
}

static struct unexpected *unexpected_of(struct hk_match_item *item)
{
	return container_of(item, struct unexpected, at.item);
}

static void recv_give(struct recv *r)
{
	hk_fi_pool_give(&r->ep->domain->recvs, r);
}

/* ---- completions ----------------------------------------------------------------------------- */

/* Tells the application of a message that has arrived. */
static void report(struct hk_fi_ep *ep, void *context, uint64_t flags,
		   const struct hk_fi_arrival *a, void *buf, size_t len, size_t olen, int error)
{
	struct hk_fi_event *e = hk_fi_report(ep->rx_cq, ep->rx_cntr,
					     !ep->rx_selective || flags & FI_COMPLETION, error);

	if (HK_LIKELY(e != NULL))
		*e = (struct hk_fi_event){
			.at = {.op_context = context,
			       .flags = FI_RECV | a->flags | (flags & FI_MULTI_RECV),
			       .len = len,
			       .buf = buf,
			       .data = a->data,
			       .tag = a->item.tag},
			.source = ep->caps & FI_SOURCE ? hk_fi_av_reverse(ep->av, a->item.source)
						       : FI_ADDR_NOTAVAIL,
			.olen = olen,
			.error = error,
			.peer = error == FI_ENOTCONN ? a->peer : HK_PEER_NONE,
		};
}

/* Does the application get the buffer of @r back with the next completion? */
static bool is_last(const struct recv *r)
{
	return !r->posted && r->gets == 0;
}

/* Ends one message of @r, which lies at @buf. */
static void complete(struct recv *r, const struct hk_fi_arrival *a, char *buf, size_t len,
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
	struct hk_fi_cursor to = {iov, 0};

	for (unsigned i = 0; i < pieces && len; i++) {
		size_t part = HK_MIN(piece[i].len, len);

		hk_fi_iov_put(&to, piece[i].base, part);
		len -= part;
	}
}

/* Sets aside @len bytes of @r for one message. Afterwards `posted` tells whether it has room for
 * more. Returns where they are: in a buffer of several pieces, the first. */
static char *reserve(struct recv *r, size_t len)
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
	struct recv *r = g->recv;
	int error = status == -ENOTCONN ? FI_ENOTCONN : status ? FI_EIO : 0;

	r->gets--;
	r->ep->under_way--;
	if (g->bounces && !error)
		hk_fi_iov_put(&(struct hk_fi_cursor){r->iov, 0}, g->bounce, g->len);
	hk_fi_answer(r->ep->domain, &g->from, error);
	complete(r, &g->from, g->to, g->len, error);
	free(g);
}

/* Gets a long message into @r. */
static void fetch(struct recv *r, const struct hk_fi_arrival *a)
{
	size_t len = (size_t)HK_MIN(a->len, (uint64_t)r->len);
	bool bounces = r->count > 1 && r->iov[0].iov_len < len;
	struct get *g = malloc(sizeof(*g) + (bounces ? len : 0));
	char *to = reserve(r, len);
	int rc = 0;

	if (!g) {
		hk_fi_answer(r->ep->domain, a, FI_ENOMEM);
		complete(r, a, to, len, FI_ENOMEM);
		return;
	}
	*g = (struct get){.recv = r, .from = *a, .to = to, .len = len, .bounces = bounces};
	r->gets++;
	r->ep->under_way++;
	if (len)
		rc = hk_worker_get(r->ep->domain->worker, a->peer, &g->op, bounces ? g->bounce : to,
				   len, a->region, 0, on_got, g);
	if (rc || !len)
		on_got(g, rc);
}

/* @r takes the message, whose bytes lie in the pieces unless it is long. */
static void take(struct recv *r, const struct hk_fi_arrival *a, const struct hk_iov *piece,
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
	struct unexpected *u = malloc(sizeof(*u) + len);

	if (!u)
		return -ENOMEM;
	u->at = *a;
	u->at.item.ignore = 0;
	scatter(HK_FI_PIECE(u->bytes, len), piece, pieces, len);
	hk_match_append(&m->unexpected, &u->at.item);
	return 0;
}

static void take_stored(struct recv *r, struct unexpected *u)
{
	const struct hk_iov piece = {u->bytes, (size_t)u->at.len};

	take(r, &u->at, &piece, 1);
	free(u);
}

static struct hk_fi_matcher *matcher_of(struct hk_fi_ep *ep, uint64_t flags)
{
	return &ep->matcher[flags & FI_TAGGED ? 1 : 0];
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

/* Nobody receives @u, which is in no list. */
static void drop(struct hk_fi_ep *ep, struct unexpected *u, int error)
{
	hk_fi_answer(ep->domain, &u->at, error);
	free(u);
}

/* ---- posting --------------------------------------------------------------------------------- */

/* FI_PEEK: looks for a message, and reports what it finds. */
static void peek(struct hk_fi_ep *ep, struct hk_fi_matcher *m, const struct hk_match_item *wanted,
		 const struct fi_msg_tagged *p, uint64_t flags)
{
	struct hk_match_item *item = hk_match_receive(&m->unexpected, wanted);
	struct hk_fi_arrival none = {.item = *wanted, .flags = FI_TAGGED};
	struct unexpected *u;

	if (!item) {
		report(ep, p->context, FI_COMPLETION, &none, NULL, 0, 0, FI_ENOMSG);
		return;
	}
	u = unexpected_of(item);
	report(ep, p->context, FI_COMPLETION, &u->at, NULL, (size_t)u->at.len, 0, 0);
	if (flags & (FI_CLAIM | FI_DISCARD))
		hk_match_remove(&m->unexpected, item);
	if (flags & FI_DISCARD) {
		drop(ep, u, 0);
	} else if (flags & FI_CLAIM) {
		u->claimed = p->context;
		hk_match_append(&m->claimed, item);
	}
}

/* The message that an FI_PEEK with FI_CLAIM and this context has found goes to @r, which is not
 * posted. */
static ssize_t post_claimed(struct hk_fi_ep *ep, struct hk_fi_matcher *m, uint64_t flags,
			    struct recv *r)
{
	struct hk_match_item *i = m->claimed.first;

	while (i && unexpected_of(i)->claimed != r->context)
		i = i->next;
	if (i)
		hk_match_remove(&m->claimed, i);
	if (i && !(flags & FI_DISCARD)) {
		take_stored(r, unexpected_of(i));
		return 0;
	}
	if (i) {
		report(ep, r->context, flags, &unexpected_of(i)->at, NULL, 0, 0, 0);
		drop(ep, unexpected_of(i), 0);
	}
	recv_give(r);
	return i ? 0 : -FI_EINVAL;
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

static struct recv *recv_take(struct hk_fi_ep *ep, struct hk_fi_matcher *m,
			      const struct hk_match_item *wanted, const struct fi_msg_tagged *p,
			      uint64_t flags)
{
	struct recv *r = hk_fi_pool_take(&ep->domain->recvs, sizeof(*r));

	if (HK_UNLIKELY(!r))
		return NULL;
	r->item = *wanted;
	r->ep = ep;
	r->context = p->context;
	r->flags = flags;
	r->iov[0] = (struct iovec){NULL, 0};
	for (size_t i = 0; i < p->iov_count; i++)
		r->iov[i] = p->msg_iov[i];
	r->count = (unsigned)p->iov_count;
	r->len = hk_fi_iov_total(r->iov, r->count);
	r->multi = flags & FI_MULTI_RECV;
	r->posted = r->held = false;
	r->gets = 0;
	r->matcher = m;
	return r;
}

static ssize_t post(struct hk_fi_ep *ep, struct hk_fi_matcher *m, const struct fi_msg_tagged *p,
		    uint64_t flags)
{
	struct hk_match_item wanted = {.tag = p->tag, .ignore = p->ignore}, *item;
	struct recv *r;

	if (source_of(ep, p->addr, &wanted.source) != 0)
		return -FI_EINVAL;
	if (HK_UNLIKELY(flags & FI_PEEK)) {
		hk_fi_progress(ep->domain);
		peek(ep, m, &wanted, p, flags);
		return 0;
	}
	r = recv_take(ep, m, &wanted, p, flags);
	if (HK_UNLIKELY(!r))
		return -FI_ENOMEM;
	if (HK_UNLIKELY(flags & FI_CLAIM))
		return post_claimed(ep, m, flags, r);
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

ssize_t hk_fi_receive(struct fid_ep *fid, const struct fi_msg_tagged *m, uint64_t flags)
{
	struct hk_fi_ep *ep = hk_fi_ep_of(fid);
	ssize_t rc;

	if (flags & FI_TAGGED)
		flags &= ~FI_MULTI_RECV; /* there are no such buffers for tagged messages */
	if (HK_UNLIKELY(m->iov_count > HK_FI_IOV || (flags & FI_MULTI_RECV && m->iov_count != 1)))
		return -FI_EINVAL;
	hk_fi_lock(ep->domain);
	rc = HK_LIKELY(ep->enabled) ? post(ep, matcher_of(ep, flags), m, flags) : -FI_EOPBADSTATE;
	hk_fi_unlock(ep->domain);
	return rc;
}

/* ---- receives that end otherwise ------------------------------------------------------------- */

/* Takes a posted receive back with an error. A buffer into which gets go ends with the last one. */
static void withdraw(struct recv *r, hk_peer peer, int error)
{
	const struct hk_fi_arrival none = {
		.item = r->item,
		.peer = peer,
		.flags = r->matcher == matcher_of(r->ep, FI_TAGGED) ? FI_TAGGED : FI_MSG};

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
	struct hk_match_item *i = NULL;

	hk_fi_lock(ep->domain);
	for (unsigned m = HK_FI_MATCHERS; m-- > 0 && !i;) /* tagged ones first */
		for (i = ep->matcher[m].posted.first; i && recv_of(i)->context != context;)
			i = i->next;
	if (i)
		withdraw(recv_of(i), HK_PEER_NONE, FI_ECANCELED);
	hk_fi_unlock(ep->domain);
	return i ? 0 : -FI_ENOENT;
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
		for (unsigned m = 0; d->ep[i] && m < HK_FI_MATCHERS; m++)
			lost(d, &d->ep[i]->matcher[m], peer);
}

void hk_fi_receive_open(struct hk_fi_ep *ep)
{
	for (unsigned m = 0; m < HK_FI_MATCHERS; m++) {
		hk_match_init(&ep->matcher[m].posted);
		hk_match_init(&ep->matcher[m].unexpected);
		hk_match_init(&ep->matcher[m].claimed);
	}
}

/* The first item of @list, which it leaves; NULL: it is empty. */
static struct hk_match_item *pop(struct hk_match_list *list)
{
	struct hk_match_item *i = list->first;

	if (i)
		hk_match_remove(list, i);
	return i;
}

void hk_fi_receive_close(struct hk_fi_ep *ep)
{
	struct hk_match_item *i;

	for (struct hk_fi_matcher *m = ep->matcher; m < ep->matcher + HK_FI_MATCHERS; m++) {
		while ((i = pop(&m->unexpected)) || (i = pop(&m->claimed)))
			drop(ep, unexpected_of(i), FI_ECANCELED);
		while ((i = pop(&m->posted)))
			recv_give(recv_of(i));
	}
}

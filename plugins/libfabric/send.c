/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/send.c: messages on their way out, and the calls that send them.
 *
 * A message of at most `eager` bytes is copied into frames, so its buffer is free at once and the
 * send is complete. Of a longer one only the announcement is sent. The receiver gets the bytes from
 * the sender's memory into its own, and then answers. A send with FI_DELIVERY_COMPLETE waits for
 * such an answer too.
 *
 * A message to the own worker does not touch the network.
 */
#include "libfabric/provider.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEND_MIN    8192 /* as openmpi/btl/send.c: shorter ones are copied */
#define BACKLOG_MAX (4 * HK_FRAGS_MAX)
#define CHUNK       256u /* sends that are allocated at a time; a power of two */
#define INDEX_BITS  20u  /* of an id; the others count the uses of its place */

struct message {
	const struct iovec *iov;
	size_t count;
	fi_addr_t to;
	uint64_t tag, data;
	uint64_t flags; /* of the call, with FI_TAGGED or FI_MSG */
	void *context;
	bool silent; /* no completion, since it is injected */
};

/* ---- sends that wait for an answer ----------------------------------------------------------- */

static struct hk_fi_send *send_at(const struct hk_fi_domain *d, uint32_t index)
{
	return &d->send[index / CHUNK][index % CHUNK];
}

static bool more_sends(struct hk_fi_domain *d)
{
	uint32_t chunks = d->sends / CHUNK;
	struct hk_fi_send **grown, *chunk;

	if (d->sends + CHUNK > 1u << INDEX_BITS)
		return false;
	grown = realloc(d->send, (chunks + 1) * sizeof(*grown));
	if (!grown)
		return false;
	d->send = grown;
	chunk = calloc(CHUNK, sizeof(*chunk));
	if (!chunk)
		return false;
	d->send[chunks] = chunk;
	for (uint32_t i = 0; i < CHUNK; i++) {
		chunk[i].id = d->sends + i;
		chunk[i].next = i + 1 < CHUNK ? d->sends + i + 1 : d->send_free;
	}
	d->send_free = d->sends;
	d->sends += CHUNK;
	return true;
}

static struct hk_fi_send *send_take(struct hk_fi_domain *d)
{
	struct hk_fi_send *s;

	if (HK_UNLIKELY(d->send_free == UINT32_MAX) && !more_sends(d))
		return NULL;
	s = send_at(d, d->send_free);
	d->send_free = s->next;
	s->active = true;
	s->region = HK_REGION_NONE;
	s->copy = NULL;
	return s;
}

static void send_give(struct hk_fi_domain *d, struct hk_fi_send *s)
{
	if (s->region != HK_REGION_NONE)
		hk_worker_region_del(d->worker, s->region);
	free(s->copy);
	s->copy = NULL;
	s->active = false;
	s->id += 1u << INDEX_BITS;
	s->next = d->send_free;
	d->send_free = s->id & ((1u << INDEX_BITS) - 1);
}

void hk_fi_sent(struct hk_fi_ep *ep, void *context, uint64_t flags, uint64_t tag, int error,
		hk_peer peer)
{
	struct hk_fi_event *e;

	if (ep->tx_cntr)
		error ? ep->tx_cntr->errors++ : ep->tx_cntr->value++;
	if (!ep->tx_cq || (ep->tx_selective && !(flags & FI_COMPLETION) && !error))
		return;
	e = hk_fi_cq_next(ep->tx_cq);
	if (HK_UNLIKELY(!e))
		return;
	e->at.op_context = context;
	e->at.flags = FI_SEND | (flags & (FI_TAGGED | FI_MSG));
	e->at.len = 0;
	e->at.buf = NULL;
	e->at.data = 0;
	e->at.tag = tag;
	e->source = FI_ADDR_NOTAVAIL;
	e->olen = 0;
	e->error = error;
	e->peer = peer;
}

static void end(struct hk_fi_domain *d, struct hk_fi_send *s, int error)
{
	struct hk_fi_send done = *s;

	send_give(d, s);
	if (done.ep)
		hk_fi_sent(done.ep, done.context, done.flags, done.tag, error,
			   error ? done.peer : HK_PEER_NONE);
}

void hk_fi_done(struct hk_fi_domain *d, hk_peer peer, const struct hk_fi_done *done)
{
	uint32_t index = done->id & ((1u << INDEX_BITS) - 1);
	struct hk_fi_send *s = index < d->sends ? send_at(d, index) : NULL;

	/* a peer says anything */
	if (s && s->active && s->id == done->id && s->peer == peer)
		end(d, s, done->error ? FI_EIO : 0);
}

void hk_fi_send_lost(struct hk_fi_domain *d, hk_peer peer)
{
	for (uint32_t i = 0; i < d->sends; i++) {
		struct hk_fi_send *s = send_at(d, i);

		if (s->active && (peer == HK_PEER_NONE || s->peer == peer))
			end(d, s, FI_ENOTCONN);
	}
}

void hk_fi_send_forget(struct hk_fi_ep *ep)
{
	for (uint32_t i = 0; i < ep->domain->sends; i++) {
		struct hk_fi_send *s = send_at(ep->domain, i);

		if (s->active && s->ep == ep)
			send_give(ep->domain, s);
	}
}

/* After the worker: no region is left. */
void hk_fi_send_close(struct hk_fi_domain *d)
{
	for (uint32_t i = 0; i < d->sends; i++)
		free(send_at(d, i)->copy);
	for (uint32_t i = 0; i < d->sends / CHUNK; i++)
		free(d->send[i]);
	free(d->send);
}

/* ---- one message ----------------------------------------------------------------------------- */

static size_t total(const struct iovec *iov, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++)
		len += iov[i].iov_len;
	return len;
}

static void gather(const struct iovec *iov, size_t count, char *to)
{
	for (size_t i = 0; i < count; i++) {
		if (iov[i].iov_len)
			memcpy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
}

static struct hk_fi_prefix prefix_of(const struct hk_fi_ep *ep, const struct message *m,
				     const struct hk_fi_address *to, const struct hk_fi_send *s)
{
	return (struct hk_fi_prefix){
		.header = {.tag = m->tag,
			   .id = s ? s->id : 0,
			   .to = to->number,
			   .from = ep->number,
			   .flags = (uint8_t)((m->flags & FI_REMOTE_CQ_DATA ? HK_FI_HAS_DATA : 0) |
					      (s ? HK_FI_ANSWER : 0))},
		.data = m->data,
	};
}

/* Takes up to @n bytes of @iov from *@at on. */
static void take(const struct iovec **iov, size_t *at, char *to, size_t n)
{
	while (n) {
		size_t part = HK_MIN(n, (*iov)->iov_len - *at);

		if (part)
			memcpy(to, (const char *)(*iov)->iov_base + *at, part);
		to += part;
		n -= part;
		*at += part;
		if (*at == (*iov)->iov_len) {
			(*iov)++;
			*at = 0;
		}
	}
}

/* Sends prefix and bytes in as many frames as they need. */
static int send_frames(struct hk_fi_domain *d, hk_peer peer, uint8_t am, const char *prefix,
		       size_t prefix_len, const struct message *m, size_t len)
{
	hk_buf *buf[HK_FRAGS_MAX];
	size_t part[HK_FRAGS_MAX], left = len, at = 0, sent = 0;
	const struct iovec *iov = m->iov;
	bool lend = m->count == 1 && len >= LEND_MIN;
	unsigned n = 0;

	if (hk_worker_tx_low(d->worker) || hk_worker_backlog(d->worker, peer) >= BACKLOG_MAX)
		return -EAGAIN;
	do {
		size_t head = n == 0 ? prefix_len : 0;
		size_t here = HK_MIN(left, d->payload - head);

		buf[n] = hk_worker_alloc(d->worker);
		if (HK_UNLIKELY(!buf[n])) {
			while (n--)
				hk_worker_free(d->worker, buf[n]);
			return -EAGAIN;
		}
		if (head)
			memcpy(hk_buf_data(buf[n]), prefix, head);
		if (lend)
			hk_worker_lend(d->worker, buf[n], head,
				       (const char *)m->iov->iov_base + sent, here);
		else
			take(&iov, &at, (char *)hk_buf_data(buf[n]) + head, here);
		part[n++] = head + here;
		sent += here;
		left -= here;
	} while (left);
	return hk_worker_sendv(d->worker, peer, am, buf, part, n);
}

static int send_eager(struct hk_fi_ep *ep, const struct message *m, const struct hk_fi_address *to,
		      hk_peer peer, const struct hk_fi_send *s, size_t len)
{
	struct hk_fi_domain *d = ep->domain;
	uint8_t am = m->flags & FI_TAGGED ? HK_FI_AM_TAGGED : HK_FI_AM_MSG;
	const struct hk_fi_prefix p = prefix_of(ep, m, to, s);
	char prefix[HK_FI_PREFIX_MAX];
	size_t prefix_len = hk_fi_prefix_write(&p, false, prefix);

	if (HK_LIKELY(m->count == 1 && prefix_len + len <= HK_SHORT_MAX))
		return hk_worker_send_short(d->worker, peer, am, prefix, prefix_len,
					    m->iov->iov_base, len);
	return send_frames(d, peer, am, prefix, prefix_len, m, len);
}

/* Announces a long message, whose bytes the receiver gets. */
static int send_long(struct hk_fi_ep *ep, const struct message *m, const struct hk_fi_address *to,
		     struct hk_fi_send *s, size_t len)
{
	struct hk_fi_domain *d = ep->domain;
	uint8_t am = m->flags & FI_TAGGED ? HK_FI_AM_TAGGED_LONG : HK_FI_AM_MSG_LONG;
	struct hk_fi_prefix p = prefix_of(ep, m, to, s);
	char prefix[HK_FI_PREFIX_MAX], *base = m->iov[0].iov_base;

	if (m->count > 1) {
		base = s->copy = malloc(len);
		if (!base)
			return -ENOMEM;
		gather(m->iov, m->count, base);
	}
	s->region = hk_worker_region_add(d->worker, base, len, HK_REGION_READ, s->peer);
	if (s->region == HK_REGION_NONE)
		return -EAGAIN;
	p.announced = (struct hk_fi_long){.len = len, .region = s->region};
	return hk_worker_send_short(d->worker, s->peer, am, prefix,
				    hk_fi_prefix_write(&p, true, prefix), NULL, 0);
}

static int send_to_self(struct hk_fi_ep *ep, const struct message *m,
			const struct hk_fi_address *to, size_t len)
{
	struct hk_fi_ep *at = to->number < HK_FI_ENDPOINTS ? ep->domain->ep[to->number] : NULL;
	struct hk_iov piece[HK_FI_IOV];
	struct hk_fi_arrival a = {
		.item = {.tag = m->tag, .source = hk_fi_source(HK_FI_SELF, ep->number)},
		.peer = HK_PEER_NONE,
		.data = m->data,
		.flags = m->flags & (FI_TAGGED | FI_MSG | FI_REMOTE_CQ_DATA),
		.len = len,
	};

	if (!at)
		return -ENOTCONN;
	for (size_t i = 0; i < m->count; i++)
		piece[i] = (struct hk_iov){m->iov[i].iov_base, m->iov[i].iov_len};
	return hk_fi_arrived(at, &a, piece, (unsigned)m->count);
}

static int send_to_peer(struct hk_fi_ep *ep, const struct message *m,
			const struct hk_fi_address *to, size_t len, bool *waits)
{
	struct hk_fi_domain *d = ep->domain;
	struct hk_fi_peer *peer = &d->peer[to->peer];
	struct hk_fi_send *s = NULL;
	int rc;

	if (HK_UNLIKELY(peer->peer == HK_PEER_NONE))
		return hk_fi_peer_wait(d, peer);
	*waits = len > d->eager || (m->flags & FI_DELIVERY_COMPLETE && !m->silent);
	if (HK_LIKELY(!*waits))
		return send_eager(ep, m, to, peer->peer, NULL, len);
	s = send_take(d);
	if (!s)
		return -EAGAIN;
	s->ep = ep;
	s->peer = peer->peer;
	s->context = m->context;
	s->flags = m->flags;
	s->tag = m->tag;
	rc = len > d->eager ? send_long(ep, m, to, s, len) : send_eager(ep, m, to, s->peer, s, len);
	if (rc < 0)
		send_give(d, s);
	return rc;
}

static ssize_t send_message(struct hk_fi_ep *ep, const struct message *m)
{
	struct hk_fi_domain *d = ep->domain;
	size_t len = total(m->iov, m->count);
	const struct hk_fi_address *to;
	bool waits = false;
	int rc;

	if (HK_UNLIKELY(m->count > HK_FI_IOV || (m->silent && len > HK_FI_INJECT)))
		return -FI_EINVAL;
	hk_fi_lock(d);
	to = ep->av ? hk_fi_find(ep->av, m->to) : NULL;
	if (HK_UNLIKELY(!ep->enabled || !to)) {
		hk_fi_unlock(d);
		return ep->enabled ? -FI_EINVAL : -FI_EOPBADSTATE;
	}
	rc = HK_UNLIKELY(to->peer == HK_FI_SELF) ? send_to_self(ep, m, to, len)
						 : send_to_peer(ep, m, to, len, &waits);
	if (HK_UNLIKELY(rc == -EAGAIN))
		hk_fi_progress(d); /* so that a caller who only repeats the call gets on */
	else if (HK_LIKELY(rc >= 0 && !waits && !m->silent))
		hk_fi_sent(ep, m->context, m->flags, m->tag, 0, HK_PEER_NONE);
	else if (rc >= 0 && m->silent && ep->tx_cntr)
		ep->tx_cntr->value++;
	hk_fi_unlock(d);
	return HK_MIN(rc, 0); /* FI_E… of these are the codes of errno */
}

/* ---- the calls ------------------------------------------------------------------------------- */

static struct hk_fi_ep *ep_of(struct fid_ep *fid)
{
	return container_of(fid, struct hk_fi_ep, fid);
}

static ssize_t send_call(struct fid_ep *fid, const struct iovec *iov, size_t count, fi_addr_t to,
			 uint64_t tag, uint64_t data, uint64_t kind, void *context)
{
	struct hk_fi_ep *ep = ep_of(fid);
	const struct message m = {.iov = iov,
				  .count = count,
				  .to = to,
				  .tag = tag,
				  .data = data,
				  .flags = ep->tx_flags | kind,
				  .context = context};

	return send_message(ep, &m);
}

static ssize_t inject_call(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to,
			   uint64_t tag, uint64_t data, uint64_t kind)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};
	const struct message m = {.iov = &iov,
				  .count = 1,
				  .to = to,
				  .tag = tag,
				  .data = data,
				  .flags = kind,
				  .silent = true};

	return send_message(ep_of(fid), &m);
}

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to,
			void *context)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	(void)desc;
	return send_call(ep, &iov, 1, to, 0, 0, FI_MSG, context);
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t to, void *context)
{
	(void)desc;
	return send_call(ep, iov, count, to, 0, 0, FI_MSG, context);
}

/* Flags of the call, and what the endpoint always adds. */
static uint64_t flags_of(const struct hk_fi_ep *ep, uint64_t flags, uint64_t kind)
{
	/* without selective completion each operation reports its own */
	return flags | kind | (ep->tx_selective ? 0 : FI_COMPLETION);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct hk_fi_ep *ep = ep_of(fid);
	const struct message m = {.iov = msg->msg_iov,
				  .count = msg->iov_count,
				  .to = msg->addr,
				  .data = msg->data,
				  .flags = flags_of(ep, flags, FI_MSG),
				  .context = msg->context};

	return send_message(ep, &m);
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to)
{
	return inject_call(ep, buf, len, to, 0, 0, FI_MSG);
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t to, void *context)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	(void)desc;
	return send_call(ep, &iov, 1, to, 0, data, FI_MSG | FI_REMOTE_CQ_DATA, context);
}

static ssize_t msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			      fi_addr_t to)
{
	return inject_call(ep, buf, len, to, 0, data, FI_MSG | FI_REMOTE_CQ_DATA);
}

static ssize_t tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to,
			   uint64_t tag, void *context)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	(void)desc;
	return send_call(ep, &iov, 1, to, tag, 0, FI_TAGGED, context);
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t to, uint64_t tag, void *context)
{
	(void)desc;
	return send_call(ep, iov, count, to, tag, 0, FI_TAGGED, context);
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct hk_fi_ep *ep = ep_of(fid);
	const struct message m = {.iov = msg->msg_iov,
				  .count = msg->iov_count,
				  .to = msg->addr,
				  .tag = msg->tag,
				  .data = msg->data,
				  .flags = flags_of(ep, flags, FI_TAGGED),
				  .context = msg->context};

	return send_message(ep, &m);
}

static ssize_t tagged_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to,
			     uint64_t tag)
{
	return inject_call(ep, buf, len, to, tag, 0, FI_TAGGED);
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			       uint64_t data, fi_addr_t to, uint64_t tag, void *context)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	(void)desc;
	return send_call(ep, &iov, 1, to, tag, data, FI_TAGGED | FI_REMOTE_CQ_DATA, context);
}

static ssize_t tagged_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
				 fi_addr_t to, uint64_t tag)
{
	return inject_call(ep, buf, len, to, tag, data, FI_TAGGED | FI_REMOTE_CQ_DATA);
}

struct fi_ops_msg hk_fi_msg_ops = {
	.size = sizeof(hk_fi_msg_ops),
	.recv = hk_fi_msg_recv,
	.recvv = hk_fi_msg_recvv,
	.recvmsg = hk_fi_msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};

struct fi_ops_tagged hk_fi_tagged_ops = {
	.size = sizeof(hk_fi_tagged_ops),
	.recv = hk_fi_tagged_recv,
	.recvv = hk_fi_tagged_recvv,
	.recvmsg = hk_fi_tagged_recvmsg,
	.send = tagged_send,
	.sendv = tagged_sendv,
	.sendmsg = tagged_sendmsg,
	.inject = tagged_inject,
	.senddata = tagged_senddata,
	.injectdata = tagged_injectdata,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/calls.c: the calls of fi_msg(3) and fi_tagged(3). Each becomes a struct fi_msg_tagged
 * with its flags, for hk_fi_send() or hk_fi_receive().
 */
#include "libfabric/provider.h"

/* ---- sends ----------------------------------------------------------------------------------- */

/* A send without flags has those of its endpoint. */
static ssize_t send_simple(struct fid_ep *ep, uint64_t kind, const struct iovec *iov, void **desc,
			   size_t count, fi_addr_t to, uint64_t tag, uint64_t data, void *context)
{
	const struct fi_msg_tagged m = {.msg_iov = iov,
					.desc = desc,
					.iov_count = count,
					.addr = to,
					.tag = tag,
					.context = context,
					.data = data};
	uint64_t flags = kind & HK_FI_SILENT ? 0 : hk_fi_ep_of(ep)->tx_flags;

	return hk_fi_send(ep, &m, flags | kind);
}

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to,
			void *context)
{
	return send_simple(ep, FI_MSG, HK_FI_PIECE(buf, len), &desc, 1, to, 0, 0, context);
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t to, void *context)
{
	return send_simple(ep, FI_MSG, iov, desc, count, to, 0, 0, context);
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t to, void *context)
{
	return send_simple(ep, FI_MSG | FI_REMOTE_CQ_DATA, HK_FI_PIECE(buf, len), &desc, 1, to, 0,
			   data, context);
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to)
{
	return send_simple(ep, FI_MSG | HK_FI_SILENT, HK_FI_PIECE(buf, len), NULL, 1, to, 0, 0,
			   NULL);
}

static ssize_t msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			      fi_addr_t to)
{
	return send_simple(ep, FI_MSG | HK_FI_SILENT | FI_REMOTE_CQ_DATA, HK_FI_PIECE(buf, len),
			   NULL, 1, to, 0, data, NULL);
}

static ssize_t tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to,
			   uint64_t tag, void *context)
{
	return send_simple(ep, FI_TAGGED, HK_FI_PIECE(buf, len), &desc, 1, to, tag, 0, context);
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t to, uint64_t tag, void *context)
{
	return send_simple(ep, FI_TAGGED, iov, desc, count, to, tag, 0, context);
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			       uint64_t data, fi_addr_t to, uint64_t tag, void *context)
{
	return send_simple(ep, FI_TAGGED | FI_REMOTE_CQ_DATA, HK_FI_PIECE(buf, len), &desc, 1, to,
			   tag, data, context);
}

static ssize_t tagged_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to,
			     uint64_t tag)
{
	return send_simple(ep, FI_TAGGED | HK_FI_SILENT, HK_FI_PIECE(buf, len), NULL, 1, to, tag, 0,
			   NULL);
}

static ssize_t tagged_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
				 fi_addr_t to, uint64_t tag)
{
	return send_simple(ep, FI_TAGGED | HK_FI_SILENT | FI_REMOTE_CQ_DATA, HK_FI_PIECE(buf, len),
			   NULL, 1, to, tag, data, NULL);
}

static ssize_t tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return hk_fi_send(ep, msg, (flags & ~HK_FI_SILENT) | FI_TAGGED);
}

static struct fi_msg_tagged without_tag(const struct fi_msg *msg)
{
	return (struct fi_msg_tagged){.msg_iov = msg->msg_iov,
				      .desc = msg->desc,
				      .iov_count = msg->iov_count,
				      .addr = msg->addr,
				      .context = msg->context,
				      .data = msg->data};
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	const struct fi_msg_tagged m = without_tag(msg);

	return hk_fi_send(ep, &m, (flags & ~HK_FI_SILENT) | FI_MSG);
}

/* ---- receives -------------------------------------------------------------------------------- */

static ssize_t tagged_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t from, uint64_t tag, uint64_t ignore, void *context)
{
	const struct fi_msg_tagged m = {iov, desc, count, from, tag, ignore, context, 0};

	return hk_fi_receive(ep, &m, hk_fi_ep_of(ep)->rx_flags | FI_TAGGED);
}

static ssize_t tagged_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
			   uint64_t tag, uint64_t ignore, void *context)
{
	return tagged_recvv(ep, HK_FI_PIECE(buf, len), &desc, 1, from, tag, ignore, context);
}

static ssize_t tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return hk_fi_receive(ep, msg, flags | FI_TAGGED);
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t from, void *context)
{
	const struct fi_msg_tagged m = {iov, desc, count, from, 0, 0, context, 0};

	return hk_fi_receive(ep, &m, hk_fi_ep_of(ep)->rx_flags | FI_MSG);
}

static ssize_t msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
			void *context)
{
	return msg_recvv(ep, HK_FI_PIECE(buf, len), &desc, 1, from, context);
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	const struct fi_msg_tagged m = without_tag(msg);

	return hk_fi_receive(ep, &m, flags | FI_MSG);
}

struct fi_ops_msg hk_fi_msg_ops = {
	.size = sizeof(hk_fi_msg_ops),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};

struct fi_ops_tagged hk_fi_tagged_ops = {
	.size = sizeof(hk_fi_tagged_ops),
	.recv = tagged_recv,
	.recvv = tagged_recvv,
	.recvmsg = tagged_recvmsg,
	.send = tagged_send,
	.sendv = tagged_sendv,
	.sendmsg = tagged_sendmsg,
	.inject = tagged_inject,
	.senddata = tagged_senddata,
	.injectdata = tagged_injectdata,
};

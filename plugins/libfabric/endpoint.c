/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/endpoint.c: endpoints: opened, bound, enabled, closed.
 */
#include "libfabric/provider.h"

#include <stdlib.h>
#include <string.h>

static void unbind(struct hk_fi_ep *ep)
{
	if (ep->av)
		ep->av->users--;
	if (ep->tx_cq)
		ep->tx_cq->users--;
	if (ep->rx_cq)
		ep->rx_cq->users--;
	if (ep->tx_cntr)
		ep->tx_cntr->users--;
	if (ep->rx_cntr)
		ep->rx_cntr->users--;
	if (ep->read_cntr)
		ep->read_cntr->users--;
	if (ep->write_cntr)
		ep->write_cntr->users--;
}

static int close_ep(struct fid *fid)
{
	struct hk_fi_ep *ep = container_of(fid, struct hk_fi_ep, fid.fid);
	struct hk_fi_domain *d = ep->domain;

	hk_fi_lock(d);
	d->ep[ep->number] = NULL; /* nothing arrives for it from here on */
	/* The application's buffers are its own again when this returns. Operations with a peer
	 * that is silent end after the peer timeout. */
	while (ep->under_way)
		hk_fi_progress(d);
	unbind(ep);
	hk_fi_send_forget(ep);
	hk_fi_receive_close(ep);
	d->objects--;
	hk_fi_unlock(d);
	free(ep);
	return 0;
}

static int bind_cq(struct hk_fi_ep *ep, struct hk_fi_cq *cq, uint64_t flags)
{
	if (cq->domain != ep->domain || !(flags & (FI_TRANSMIT | FI_RECV)) ||
	    flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION))
		return -FI_EINVAL;
	if ((flags & FI_TRANSMIT && ep->tx_cq) || (flags & FI_RECV && ep->rx_cq))
		return -FI_EINVAL;
	if (flags & FI_TRANSMIT) {
		ep->tx_cq = cq;
		ep->tx_selective = flags & FI_SELECTIVE_COMPLETION;
		cq->users++;
	}
	if (flags & FI_RECV) {
		ep->rx_cq = cq;
		ep->rx_selective = flags & FI_SELECTIVE_COMPLETION;
		cq->users++;
	}
	return 0;
}

static int bind_cntr(struct hk_fi_ep *ep, struct hk_fi_cntr *c, uint64_t flags)
{
	const struct {
		uint64_t flag;
		struct hk_fi_cntr **at;
	} kinds[] = {{FI_SEND, &ep->tx_cntr},
		     {FI_RECV, &ep->rx_cntr},
		     {FI_READ, &ep->read_cntr},
		     {FI_WRITE, &ep->write_cntr}};
	uint64_t known = 0;

	if (flags & (FI_REMOTE_READ | FI_REMOTE_WRITE))
		return -FI_ENOSYS;
	for (size_t i = 0; i < HK_ARRAY_LEN(kinds); i++) {
		known |= kinds[i].flag;
		if (flags & kinds[i].flag && *kinds[i].at)
			return -FI_EINVAL;
	}
	if (c->domain != ep->domain || !flags || flags & ~known)
		return -FI_EINVAL;
	for (size_t i = 0; i < HK_ARRAY_LEN(kinds); i++)
		if (flags & kinds[i].flag) {
			*kinds[i].at = c;
			c->users++;
		}
	return 0;
}

static int bind_av(struct hk_fi_ep *ep, struct hk_fi_av *av)
{
	if (av->domain != ep->domain || ep->av)
		return -FI_EINVAL;
	ep->av = av;
	av->users++;
	return 0;
}

static int bind_ep(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct hk_fi_ep *ep = container_of(fid, struct hk_fi_ep, fid.fid);
	int rc = -FI_EINVAL;

	hk_fi_lock(ep->domain);
	if (ep->enabled)
		rc = -FI_EOPBADSTATE;
	else if (other->fclass == FI_CLASS_AV)
		rc = bind_av(ep, container_of(other, struct hk_fi_av, fid.fid));
	else if (other->fclass == FI_CLASS_CQ)
		rc = bind_cq(ep, container_of(other, struct hk_fi_cq, fid.fid), flags);
	else if (other->fclass == FI_CLASS_CNTR)
		rc = bind_cntr(ep, container_of(other, struct hk_fi_cntr, fid.fid), flags);
	hk_fi_unlock(ep->domain);
	return rc;
}

static int control(struct fid *fid, int command, void *arg)
{
	struct hk_fi_ep *ep = container_of(fid, struct hk_fi_ep, fid.fid);
	uint64_t *flags = arg;
	int rc = 0;

	hk_fi_lock(ep->domain);
	switch (command) {
	case FI_ENABLE:
		if (!ep->av)
			rc = -FI_ENOAV;
		else if (!ep->tx_cq && !ep->rx_cq && !ep->tx_cntr && !ep->rx_cntr &&
			 !ep->read_cntr && !ep->write_cntr)
			rc = -FI_ENOCQ;
		else
			ep->enabled = true;
		break;
	case FI_GETOPSFLAG:
		*flags = *flags & FI_TRANSMIT ? ep->tx_flags : ep->rx_flags;
		break;
	case FI_SETOPSFLAG:
		if (*flags & FI_TRANSMIT)
			ep->tx_flags = *flags & ~FI_TRANSMIT;
		else if (*flags & FI_RECV)
			ep->rx_flags = *flags & ~FI_RECV;
		else
			rc = -FI_EINVAL;
		break;
	default:
		rc = -FI_ENOSYS;
	}
	hk_fi_unlock(ep->domain);
	return rc;
}

static int getopt_ep(fid_t fid, int level, int option, void *value, size_t *len)
{
	struct hk_fi_ep *ep = container_of(fid, struct hk_fi_ep, fid.fid);

	if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (*len < sizeof(size_t))
		return -FI_ETOOSMALL;
	memcpy(value, &ep->min_multi_recv, sizeof(size_t));
	*len = sizeof(size_t);
	return 0;
}

static int setopt_ep(fid_t fid, int level, int option, const void *value, size_t len)
{
	struct hk_fi_ep *ep = container_of(fid, struct hk_fi_ep, fid.fid);

	if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (len < sizeof(size_t))
		return -FI_EINVAL;
	memcpy(&ep->min_multi_recv, value, sizeof(size_t));
	return 0;
}

static int no_context(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
		      void *context)
{
	(void)sep, (void)index, (void)attr, (void)ep, (void)context;
	return -FI_ENOSYS;
}

static int no_rx_context(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
			 void *context)
{
	(void)sep, (void)index, (void)attr, (void)ep, (void)context;
	return -FI_ENOSYS;
}

static ssize_t no_size(struct fid_ep *ep)
{
	(void)ep;
	return -FI_ENOSYS;
}

static int setname(fid_t fid, void *addr, size_t len)
{
	(void)fid, (void)addr, (void)len;
	return -FI_ENOSYS;
}

static int getname(fid_t fid, void *addr, size_t *len)
{
	struct hk_fi_ep *ep = container_of(fid, struct hk_fi_ep, fid.fid);
	struct hk_fi_name name = ep->domain->name;
	size_t room = *len;

	name.number = ep->number;
	memcpy(addr, &name, HK_MIN(room, sizeof(name)));
	*len = sizeof(name);
	return room < sizeof(name) ? -FI_ETOOSMALL : 0;
}

static int getpeer(struct fid_ep *ep, void *addr, size_t *len)
{
	(void)ep, (void)addr, (void)len;
	return -FI_ENOSYS;
}

static int connect_ep(struct fid_ep *ep, const void *addr, const void *data, size_t len)
{
	(void)ep, (void)addr, (void)data, (void)len;
	return -FI_ENOSYS;
}

static int listen_ep(struct fid_pep *ep)
{
	(void)ep;
	return -FI_ENOSYS;
}

static int accept_ep(struct fid_ep *ep, const void *data, size_t len)
{
	(void)ep, (void)data, (void)len;
	return -FI_ENOSYS;
}

static int reject(struct fid_pep *ep, fid_t handle, const void *data, size_t len)
{
	(void)ep, (void)handle, (void)data, (void)len;
	return -FI_ENOSYS;
}

static int shutdown_ep(struct fid_ep *ep, uint64_t flags)
{
	(void)ep, (void)flags;
	return -FI_ENOSYS;
}

static int join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
		void *context)
{
	(void)ep, (void)addr, (void)flags, (void)mc, (void)context;
	return -FI_ENOSYS;
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops),
	.close = close_ep,
	.bind = bind_ep,
	.control = control,
	.ops_open = hk_fi_no_ops,
};

static struct fi_ops_ep ep_ops = {
	.size = sizeof(ep_ops),
	.cancel = hk_fi_cancel,
	.getopt = getopt_ep,
	.setopt = setopt_ep,
	.tx_ctx = no_context,
	.rx_ctx = no_rx_context,
	.rx_size_left = no_size,
	.tx_size_left = no_size,
};

static struct fi_ops_cm cm_ops = {
	.size = sizeof(cm_ops),
	.setname = setname,
	.getname = getname,
	.getpeer = getpeer,
	.connect = connect_ep,
	.listen = listen_ep,
	.accept = accept_ep,
	.reject = reject,
	.shutdown = shutdown_ep,
	.join = join,
};

static void init_matcher(struct hk_fi_matcher *m)
{
	hk_match_init(&m->posted);
	hk_match_init(&m->unexpected);
	hk_match_init(&m->claimed);
}

int hk_fi_endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **fid,
			void *context)
{
	struct hk_fi_domain *d = container_of(domain, struct hk_fi_domain, fid);
	struct hk_fi_ep *ep;
	unsigned number = 0;
	int rc = hk_fi_check(info);

	if (rc)
		return rc;
	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	hk_fi_lock(d);
	while (number < HK_FI_ENDPOINTS && d->ep[number])
		number++;
	if (number == HK_FI_ENDPOINTS) {
		hk_fi_unlock(d);
		free(ep);
		return -FI_ENOSPC;
	}
	ep->domain = d;
	ep->number = (uint8_t)number;
	ep->caps = info->caps;
	ep->tx_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
	ep->rx_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
	ep->min_multi_recv = HK_FI_MULTI_RECV;
	init_matcher(&ep->tagged);
	init_matcher(&ep->msg);
	ep->fid.fid.fclass = FI_CLASS_EP;
	ep->fid.fid.context = context;
	ep->fid.fid.ops = &fid_ops;
	ep->fid.ops = &ep_ops;
	ep->fid.cm = &cm_ops;
	ep->fid.msg = &hk_fi_msg_ops;
	ep->fid.tagged = &hk_fi_tagged_ops;
	ep->fid.rma = &hk_fi_rma_ops;
	d->ep[number] = ep;
	d->objects++;
	hk_fi_unlock(d);
	*fid = &ep->fid;
	return 0;
}

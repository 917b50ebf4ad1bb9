/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/endpoint.c: endpoints: opened, bound, enabled, closed.
 */
#include "libfabric/operation.h"

#include <stdlib.h>
#include <string.h>

/* @ep is bound to an object, which counts that. */
static void use(struct hk_fi_ep *ep, int *users)
{
	(*users)++;
	ep->used[ep->uses++] = users;
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
	while (ep->uses)
		(*ep->used[--ep->uses])--;
	hk_fi_pending_forget(ep);
	hk_fi_receive_close(ep);
	hk_fi_unlock(d);
	return hk_fi_object_close(d, ep);
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
		use(ep, &cq->users);
	}
	if (flags & FI_RECV) {
		ep->rx_cq = cq;
		ep->rx_selective = flags & FI_SELECTIVE_COMPLETION;
		use(ep, &cq->users);
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
		     {FI_WRITE, &ep->write_cntr},
		     {FI_REMOTE_READ, &ep->remote_read_cntr},
		     {FI_REMOTE_WRITE, &ep->remote_write_cntr}};
	uint64_t known = 0;

	if (flags & (FI_REMOTE_READ | FI_REMOTE_WRITE) && !(ep->caps & FI_RMA_EVENT))
		return -FI_EINVAL;
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
			use(ep, &c->users);
		}
	return 0;
}

static int bind_av(struct hk_fi_ep *ep, struct hk_fi_av *av)
{
	if (av->domain != ep->domain || ep->av)
		return -FI_EINVAL;
	ep->av = av;
	use(ep, &av->users);
	return 0;
}

static int bind_ep(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct hk_fi_ep *ep = container_of(fid, struct hk_fi_ep, fid.fid);
	int rc = -FI_EINVAL;

	hk_fi_lock(ep->domain);
	/* Sandia OpenSHMEM binds counters to an enabled endpoint, as other providers permit. */
	if (ep->enabled && other->fclass != FI_CLASS_CNTR)
		rc = -FI_EOPBADSTATE;
	else if (other->fclass == FI_CLASS_AV)
		rc = bind_av(ep, container_of(other, struct hk_fi_av, fid.fid));
	else if (other->fclass == FI_CLASS_CQ)
		rc = bind_cq(ep, container_of(other, struct hk_fi_cq, fid.fid), flags);
	else if (other->fclass == FI_CLASS_CNTR)
		rc = bind_cntr(ep, container_of(other, struct hk_fi_cntr, fid.fid), flags);
	else if (other->fclass == FI_CLASS_EQ)
		rc = 0; /* an endpoint without connections has no events */
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
		else if (ep->uses == 1) /* that is the AV */
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

_Static_assert(HK_FI_ENDPOINTS <= 1 << 6, "a name has 6 bits for the number of an endpoint");
static int getname(fid_t fid, void *addr, size_t *len)
{
	struct hk_fi_ep *ep = container_of(fid, struct hk_fi_ep, fid.fid);
	struct hk_fi_name name = ep->domain->name;
	size_t room = *len;

	name.number = ep->number;
	name.kind |= ep->caps & FI_RMA_EVENT ? HK_FI_NAME_COUNTS : 0;
	memcpy(addr, &name, HK_MIN(room, sizeof(name)));
	*len = sizeof(name);
	return room < sizeof(name) ? -FI_ETOOSMALL : 0;
}

static struct fi_ops fid_ops = HK_FI_FID_OPS(close_ep, bind_ep, control);

static struct fi_ops_ep ep_ops = {
	.size = sizeof(ep_ops),
	.cancel = hk_fi_cancel,
	.getopt = getopt_ep,
	.setopt = setopt_ep,
	.tx_ctx = hk_fi_no_tx_context,
	.rx_ctx = hk_fi_no_rx_context,
	.rx_size_left = hk_fi_no_size,
	.tx_size_left = hk_fi_no_size,
};

static struct fi_ops_cm cm_ops = {
	.size = sizeof(cm_ops),
	.setname = hk_fi_no_setname,
	.getname = getname,
	.getpeer = hk_fi_no_getpeer,
	.connect = hk_fi_no_connect,
	.listen = hk_fi_no_listen,
	.accept = hk_fi_no_accept,
	.reject = hk_fi_no_reject,
	.shutdown = hk_fi_no_shutdown,
	.join = hk_fi_no_join,
};

int hk_fi_endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **fid,
			void *context)
{
	struct hk_fi_domain *d = container_of(domain, struct hk_fi_domain, fid);
	struct hk_fi_ep *ep;
	unsigned number = 0;
	int rc = hk_fi_check(info);

	if (rc)
		return rc;
	ep = hk_fi_object_open(d, sizeof(*ep), FI_CLASS_EP, &fid_ops, context);
	if (!ep)
		return -FI_ENOMEM;
	ep->domain = d;
	ep->caps = info->caps;
	ep->tx_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
	ep->rx_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
	ep->min_multi_recv = HK_FI_MULTI_RECV;
	hk_fi_receive_open(ep);
	ep->fid.ops = &ep_ops;
	ep->fid.cm = &cm_ops;
	ep->fid.msg = &hk_fi_msg_ops;
	ep->fid.tagged = &hk_fi_tagged_ops;
	ep->fid.rma = &hk_fi_rma_ops;
	ep->fid.atomic = &hk_fi_atomic_ops;
	hk_fi_lock(d);
	while (number < HK_FI_ENDPOINTS && d->ep[number])
		number++;
	ep->number = (uint8_t)number;
	if (number < HK_FI_ENDPOINTS)
		d->ep[number] = ep;
	hk_fi_unlock(d);
	if (number == HK_FI_ENDPOINTS) {
		(void)hk_fi_object_close(d, ep);
		return -FI_ENOSPC;
	}
	*fid = &ep->fid;
	return 0;
}

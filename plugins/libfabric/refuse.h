/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/refuse.h: the calls that this provider lacks. All of them answer -FI_ENOSYS. libfabric
 * calls most functions of a table without a look, so none may be missing.
 */
#ifndef HK_FI_REFUSE_H
#define HK_FI_REFUSE_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define HK_FI_LACKS(name, ...)                                                                     \
	static inline int hk_fi_no_##name(__VA_ARGS__)                                             \
	{                                                                                          \
		return -FI_ENOSYS;                                                                 \
	}

/* of every object */
HK_FI_LACKS(bind, struct fid *fid, struct fid *other, uint64_t flags)
HK_FI_LACKS(control, struct fid *fid, int command, void *arg)
HK_FI_LACKS(ops, struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)

/* of fabrics and domains */
HK_FI_LACKS(passive, struct fid_fabric *f, struct fi_info *i, struct fid_pep **p, void *context)
HK_FI_LACKS(wait_set, struct fid_fabric *f, struct fi_wait_attr *attr, struct fid_wait **wait)
HK_FI_LACKS(scalable, struct fid_domain *d, struct fi_info *i, struct fid_ep **ep, void *context)
HK_FI_LACKS(poll_set, struct fid_domain *d, struct fi_poll_attr *attr, struct fid_poll **set)
HK_FI_LACKS(stx, struct fid_domain *d, struct fi_tx_attr *attr, struct fid_stx **s, void *context)
HK_FI_LACKS(srx, struct fid_domain *d, struct fi_rx_attr *attr, struct fid_ep **ep, void *context)

/* of address vectors */
HK_FI_LACKS(service, struct fid_av *av, const char *node, const char *service, fi_addr_t *out,
	    uint64_t flags, void *context)
HK_FI_LACKS(symmetric, struct fid_av *av, const char *node, size_t nodes, const char *service,
	    size_t services, fi_addr_t *out, uint64_t flags, void *context)

/* of endpoints */
HK_FI_LACKS(tx_context, struct fid_ep *s, int i, struct fi_tx_attr *attr, struct fid_ep **ep,
	    void *context)
HK_FI_LACKS(rx_context, struct fid_ep *s, int i, struct fi_rx_attr *attr, struct fid_ep **ep,
	    void *context)
HK_FI_LACKS(setname, fid_t fid, void *addr, size_t len)
HK_FI_LACKS(getpeer, struct fid_ep *ep, void *addr, size_t *len)
HK_FI_LACKS(connect, struct fid_ep *ep, const void *addr, const void *data, size_t len)
HK_FI_LACKS(listen, struct fid_pep *ep)
HK_FI_LACKS(accept, struct fid_ep *ep, const void *data, size_t len)
HK_FI_LACKS(reject, struct fid_pep *ep, fid_t handle, const void *data, size_t len)
HK_FI_LACKS(shutdown, struct fid_ep *ep, uint64_t flags)
HK_FI_LACKS(join, struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
	    void *context)
static inline ssize_t hk_fi_no_size(struct fid_ep *ep)
{
	return -FI_ENOSYS;
}

#pragma GCC diagnostic pop

/* The functions that every object has. */
#define HK_FI_FID_OPS(close_, bind_, control_)                                                     \
	{                                                                                          \
		.size = sizeof(struct fi_ops), .close = (close_), .bind = (bind_),                 \
		.control = (control_), .ops_open = hk_fi_no_ops,                                   \
	}

#endif

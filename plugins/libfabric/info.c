/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/info.c: fi_getinfo(): does this provider have what an application asks for?
 *
 * There is one kind of endpoint, so there is one answer at most. Where the application leaves a
 * choice, it gets what costs nothing: all capabilities, and its own wish where several are
 * possible.
 */
#include "libfabric/provider.h"

#include <stdlib.h>
#include <string.h>

#define VERSION_1_5 FI_VERSION(1, 5)
#define TAG_FORMAT  UINT64_C(0xaaaaaaaaaaaaaaaa) /* FI_TAG_GENERIC: all bits, one field each */

/* Says why the application does not get us. */
#define REFUSE(...)                                                                                \
	do {                                                                                       \
		hk_fi_warn("not usable: the program asks for " __VA_ARGS__);                       \
		return -FI_ENODATA;                                                                \
	} while (0)

static int check_ep(const struct fi_ep_attr *ep)
{
	/* libfabric's providers that stand on others ask all for it */
	if (ep->type != FI_EP_UNSPEC && ep->type != FI_EP_RDM) {
		hk_fi_say(FI_LOG_INFO,
			  "not usable: the program asks for endpoints of type %s, and this "
			  "provider has FI_EP_RDM alone",
			  hk_fi_text(&ep->type, FI_TYPE_EP_TYPE));
		return -FI_ENODATA;
	}
	if (ep->protocol != FI_PROTO_UNSPEC && ep->protocol != FI_PROV_SPECIFIC)
		REFUSE("another protocol, %u", ep->protocol);
	if (ep->tx_ctx_cnt > 1 || ep->rx_ctx_cnt > 1)
		REFUSE("%zu transmit and %zu receive contexts of an endpoint, and this provider "
		       "has one",
		       ep->tx_ctx_cnt, ep->rx_ctx_cnt);
	if (ep->auth_key_size)
		REFUSE("authorization keys, which this provider lacks; see FI_HIKYAKU_PROTECTION");
	return 0;
}

static int check_domain(const struct fi_domain_attr *d)
{
	if (d->name && strcmp(d->name, "hikyaku") != 0)
		REFUSE("domain '%s', and this one is 'hikyaku'", d->name);
	if (d->cq_data_size > 8)
		REFUSE("%zu bytes of remote CQ data, and this provider has 8", d->cq_data_size);
	if (d->mr_key_size > 8)
		REFUSE("keys of %zu bytes, and this provider has 8", d->mr_key_size);
	if (d->data_progress == FI_PROGRESS_AUTO && !hk_fi_params.progress_thread)
		REFUSE("automatic progress, which needs a thread; fix: set "
		       "FI_HIKYAKU_PROGRESS_THREAD=1");
	if (d->caps & ~(FI_LOCAL_COMM | FI_REMOTE_COMM))
		REFUSE("domain capabilities %s", hk_fi_text(&d->caps, FI_TYPE_CAPS));
	if (d->auth_key_size)
		REFUSE("authorization keys, which this provider lacks; see FI_HIKYAKU_PROTECTION");
	return 0;
}

/* Transmit and receive attributes have these in common. */
static int check_way(const char *way, uint64_t caps, uint64_t flags, uint64_t order, size_t pieces)
{
	uint64_t lacking = caps & ~HK_FI_CAPS, unknown = flags & ~HK_FI_OP_FLAGS;

	if (lacking)
		REFUSE("%s capabilities %s", way, hk_fi_text(&lacking, FI_TYPE_CAPS));
	if (unknown)
		REFUSE("%s flags %s", way, hk_fi_text(&unknown, FI_TYPE_OP_FLAGS));
	if (order & ~HK_FI_ORDER)
		REFUSE("message order %s, and this provider orders sends after sends, and atomic "
		       "operations",
		       hk_fi_text(&order, FI_TYPE_MSG_ORDER));
	if (pieces > HK_FI_IOV)
		REFUSE("buffers of %zu pieces, and this provider takes %d", pieces, HK_FI_IOV);
	return 0;
}

static int check_tx(const struct fi_tx_attr *tx)
{
	if (tx->inject_size > HK_FI_INJECT)
		REFUSE("an inject size of %zu, and ours is %d", tx->inject_size, HK_FI_INJECT);
	return check_way("transmit", tx->caps, tx->op_flags, tx->msg_order, tx->iov_limit);
}

static int check_rx(const struct fi_rx_attr *rx)
{
	return check_way("receive", rx->caps, rx->op_flags, rx->msg_order, rx->iov_limit);
}

int hk_fi_check(const struct fi_info *h)
{
	uint64_t lacking = h->caps & ~HK_FI_CAPS;
	int rc = 0;

	if (lacking)
		REFUSE("capabilities %s, which this provider lacks",
		       hk_fi_text(&lacking, FI_TYPE_CAPS));
	if (h->addr_format != FI_FORMAT_UNSPEC && h->addr_format != FI_PROV_SPECIFIC)
		REFUSE("addresses of another format, %u", h->addr_format);
	if (h->fabric_attr && h->fabric_attr->name && strcmp(h->fabric_attr->name, "hikyaku") != 0)
		REFUSE("fabric '%s', and this one is 'hikyaku'", h->fabric_attr->name);
	if (h->ep_attr)
		rc = check_ep(h->ep_attr);
	if (rc == 0 && h->domain_attr)
		rc = check_domain(h->domain_attr);
	if (rc == 0 && h->tx_attr)
		rc = check_tx(h->tx_attr);
	if (rc == 0 && h->rx_attr)
		rc = check_rx(h->rx_attr);
	return rc;
}

static void fill_domain(struct fi_domain_attr *d, const struct fi_domain_attr *h, uint32_t version)
{
	int asked = h ? h->mr_mode : HK_FI_MR_UNSPEC;

	d->threading = h && h->threading ? h->threading : FI_THREAD_SAFE;
	d->control_progress = h && h->control_progress ? h->control_progress : FI_PROGRESS_MANUAL;
	d->data_progress = h && h->data_progress ? h->data_progress : FI_PROGRESS_MANUAL;
	d->resource_mgmt = FI_RM_ENABLED;
	d->av_type = h && h->av_type ? h->av_type : FI_AV_TABLE;
	/* these two are orders, and the bits of later programs are offers: we need none of them */
	if (asked == HK_FI_MR_BASIC || asked == HK_FI_MR_SCALABLE)
		d->mr_mode = asked;
	else
		d->mr_mode = version < VERSION_1_5 ? HK_FI_MR_SCALABLE : 0;
	d->mr_key_size = 8;
	d->cq_data_size = 8;
	d->cq_cnt = 1024;
	d->ep_cnt = HK_FI_ENDPOINTS;
	d->tx_ctx_cnt = HK_FI_ENDPOINTS;
	d->rx_ctx_cnt = HK_FI_ENDPOINTS;
	d->max_ep_tx_ctx = 1;
	d->max_ep_rx_ctx = 1;
	d->cntr_cnt = 1024;
	d->mr_iov_limit = 1;
	d->mr_cnt = HK_FI_REGIONS;
	d->caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
}

static int fill(struct fi_info *i, const struct fi_info *h, uint32_t version)
{
	/* peers tell of each write to an endpoint with FI_RMA_EVENT, so it is had on demand alone
	 */
	uint64_t caps = h && h->caps ? h->caps : HK_FI_CAPS & ~FI_RMA_EVENT;

	if (caps & (FI_RMA | FI_ATOMIC) && !(caps & HK_FI_ACCESS))
		caps |= HK_FI_ACCESS;
	/* what comes at no cost, as fi_getinfo(3) asks */
	if (!(caps & (FI_SEND | FI_RECV)))
		caps |= FI_SEND | FI_RECV;
	i->caps = caps;
	i->addr_format = FI_PROV_SPECIFIC;
	i->tx_attr->caps = caps & HK_FI_TX_CAPS;
	i->tx_attr->op_flags = h && h->tx_attr ? h->tx_attr->op_flags : 0;
	i->tx_attr->msg_order = HK_FI_ORDER;
	i->tx_attr->inject_size = HK_FI_INJECT;
	i->tx_attr->size = (size_t)hk_fi_params.tx_buffers;
	i->tx_attr->iov_limit = HK_FI_IOV;
	i->tx_attr->rma_iov_limit = 1;
	i->rx_attr->caps = caps & HK_FI_RX_CAPS;
	i->rx_attr->op_flags = h && h->rx_attr ? h->rx_attr->op_flags : 0;
	i->rx_attr->msg_order = HK_FI_ORDER;
	i->rx_attr->size = 65536;
	i->rx_attr->iov_limit = HK_FI_IOV;
	i->ep_attr->type = FI_EP_RDM;
	i->ep_attr->protocol = FI_PROV_SPECIFIC;
	i->ep_attr->protocol_version = 1;
	i->ep_attr->max_msg_size = (size_t)1 << 40;
	i->ep_attr->max_order_raw_size = HK_FI_ATOMIC_MAX; /* of atomic operations alone, as */
	i->ep_attr->max_order_war_size = HK_FI_ATOMIC_MAX; /* msg_order says */
	i->ep_attr->max_order_waw_size = HK_FI_ATOMIC_MAX;
	i->ep_attr->mem_tag_format = h && h->ep_attr && h->ep_attr->mem_tag_format
					     ? h->ep_attr->mem_tag_format
					     : TAG_FORMAT;
	i->ep_attr->tx_ctx_cnt = 1;
	i->ep_attr->rx_ctx_cnt = 1;
	fill_domain(i->domain_attr, h ? h->domain_attr : NULL, version);
	i->domain_attr->name = strdup("hikyaku");
	i->fabric_attr->name = strdup("hikyaku");
	i->fabric_attr->prov_version = hk_fi_provider.version;
	i->fabric_attr->api_version = version;
	return i->domain_attr->name && i->fabric_attr->name ? 0 : -FI_ENOMEM;
}

/* Names of endpoints are not names of hosts, so @node and @service do not matter. */
int hk_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		  const struct fi_info *hints, struct fi_info **info)
{
	int rc = hints ? hk_fi_check(hints) : 0;

	(void)node;
	(void)service;
	(void)flags;
	*info = NULL;
	if (rc)
		return rc;
	if (version == 0) /* MPICH 4.3 asks so first, for whatever there is */
		version = hk_fi_libfabric.version();
	*info = hk_fi_libfabric.dupinfo(NULL);
	if (!*info)
		return -FI_ENOMEM;
	rc = fill(*info, hints, version);
	if (rc) {
		hk_fi_libfabric.freeinfo(*info);
		*info = NULL;
	}
	return rc;
}

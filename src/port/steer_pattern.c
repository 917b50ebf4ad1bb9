/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/steer_pattern.c: rte_flow patterns for a match.
 *
 * Several patterns describe the same frames, and drivers accept different ones. These are the
 * *forms* of each method, in the order of trial, with the drivers that they are for:
 *
 *   endpoint  ETH type, RAW after it        the direct form
 *             RAW type, RAW, both absolute  igb's flexible filters: only RAW items
 *   MAC       ETH destination               net_tap, mlx5 and most others
 *             ETH destination and type      i40e's EtherType filters
 *   UDP       ETH, IPV4, UDP destination
 */
#include "port/internal.h"

#include <string.h>

#define ETH_HLEN    14
#define TYPE_OFFSET 12 /* offset of the EtherType in a frame, bytes */

static void eth(struct hk_steer_pattern *p, const uint8_t *mac, uint16_t type)
{
	struct rte_flow_item_eth *spec = &p->eth_spec, *mask = &p->eth_mask;

	if (mac) {
		memcpy(spec->dst.addr_bytes, mac, 6);
		memset(mask->dst.addr_bytes, 0xff, 6);
	}
	if (type) {
		spec->type = rte_cpu_to_be_16(type);
		mask->type = RTE_BE16(0xffff);
	}
	p->item[p->items++] = (struct rte_flow_item){
		.type = RTE_FLOW_ITEM_TYPE_ETH,
		.spec = mac || type ? spec : NULL,
		.mask = mac || type ? mask : NULL,
	};
}

/* Adds a RAW item: @value under @mask at @offset, counted from the previous item if @relative, from
 * the start of the frame otherwise. */
static void raw(struct hk_steer_pattern *p, bool relative, unsigned offset, const uint8_t *value,
		const uint8_t *mask, unsigned len)
{
	unsigned i = p->raws++;

	p->raw_spec[i] = (struct rte_flow_item_raw){
		.relative = relative,
		.offset = (int32_t)offset,
		.length = (uint16_t)len,
		.pattern = value,
	};
	/* a mask's length of all ones means that the length is compared */
	p->raw_mask[i] = (struct rte_flow_item_raw){
		.relative = 1,
		.search = 1,
		.offset = -1,
		.limit = 0xffff,
		.length = 0xffff,
		.pattern = mask,
	};
	p->item[p->items++] = (struct rte_flow_item){
		.type = RTE_FLOW_ITEM_TYPE_RAW,
		.spec = &p->raw_spec[i],
		.mask = &p->raw_mask[i],
	};
}

static bool endpoint(struct hk_steer_pattern *p, unsigned form, const struct hk_steer_match *m)
{
	if (!m->len || m->len > HK_STEER_FIELD_MAX || m->offset < ETH_HLEN || form > 1)
		return false;
	memcpy(p->value, m->value, m->len);
	memcpy(p->mask, m->mask, m->len);
	if (form == 0) {
		eth(p, NULL, m->ether_type);
		raw(p, true, m->offset - ETH_HLEN, p->value, p->mask, m->len);
		return true;
	}
	p->type[0] = (uint8_t)(m->ether_type >> 8);
	p->type[1] = (uint8_t)m->ether_type;
	memset(p->type_mask, 0xff, sizeof(p->type_mask));
	raw(p, false, TYPE_OFFSET, p->type, p->type_mask, sizeof(p->type));
	raw(p, false, m->offset, p->value, p->mask, m->len);
	return true;
}

static bool udp(struct hk_steer_pattern *p, unsigned form, const struct hk_steer_match *m)
{
	if (!m->udp_port || form > 0)
		return false;
	eth(p, NULL, 0);
	p->item[p->items++] = (struct rte_flow_item){.type = RTE_FLOW_ITEM_TYPE_IPV4};
	p->udp_spec.hdr.dst_port = rte_cpu_to_be_16(m->udp_port);
	p->udp_mask.hdr.dst_port = RTE_BE16(0xffff);
	p->item[p->items++] = (struct rte_flow_item){
		.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &p->udp_spec, .mask = &p->udp_mask};
	return true;
}

bool hk_steer_pattern(struct hk_steer_pattern *p, enum hk_steer_method method, unsigned form,
		      const struct hk_steer_match *m)
{
	bool ok = false;

	memset(p, 0, sizeof(*p));
	switch (method) {
	case HK_STEER_ENDPOINT:
		ok = endpoint(p, form, m);
		break;
	case HK_STEER_MAC:
		ok = m->has_mac && form <= 1;
		if (ok)
			eth(p, m->mac, form ? m->ether_type : 0);
		break;
	case HK_STEER_UDP:
		ok = udp(p, form, m);
		break;
	default:
		break;
	}
	p->item[p->items] = (struct rte_flow_item){.type = RTE_FLOW_ITEM_TYPE_END};
	return ok;
}

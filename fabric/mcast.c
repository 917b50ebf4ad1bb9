/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/mcast.c: one frame for a group of receivers.
 *
 * Frames are not kept after they were sent, so they count to no window: they are of the slack of the buffers,
 * as acknowledgements are.
 */
#include "fabric/internal.h"

#include "wire/tag.h"

#define TO_ALL UINT64_C(0xffffffffffff)

void hk_fabric_mcast_open(struct hk_fabric *f, struct hk_mcast *m)
{
	hk_biased_enter(&f->lock);
	m->next = f->mcasts;
	f->mcasts = m;
	hk_biased_leave(&f->lock);
}

void hk_fabric_mcast_close(struct hk_fabric *f, struct hk_mcast *m)
{
	hk_biased_enter(&f->lock);
	for (struct hk_mcast **link = &f->mcasts; *link; link = &(*link)->next)
		if (*link == m) {
			*link = m->next;
			break;
		}
	hk_biased_leave(&f->lock);
}

/* A stand-in of another process cannot reach who listens. */
void hk_mcast_in(struct hk_fabric *f, const struct hk_frame *frame)
{
	const struct hk_wire_hdr *h = &frame->h;

	for (struct hk_mcast *m = f->stand_in ? NULL : f->mcasts; m; m = m->next)
		if (m->channel == h->dst && m->number == h->dst_epoch && m->endpoint == h->src &&
		    m->epoch == h->src_epoch) {
			f->n.mcasts_in++;
			m->fn(m, h->psn, frame->payload, frame->payload_len);
			return;
		}
	f->n.mcast_strays++;
}

/* False if there is no buffer, or no room before the port. */
static bool send_piece(struct hk_fabric *f, const struct hk_mcast_to *to, uint32_t piece,
		       const void *bytes, size_t len)
{
	struct rte_mbuf *m = hk_tx_stuck(f, 0) ? NULL : rte_pktmbuf_alloc(f->tx_pool);
	const struct hk_wire_hdr h = {
		.version = HK_WIRE_VERSION,
		.type = HK_WIRE_MCAST,
		.len = (uint16_t)len,
		.key = f->cfg.engine.key,
		.src = f->cfg.engine.endpoint,
		.dst = to->channel,
		.src_epoch = f->cfg.engine.epoch,
		.dst_epoch = to->number,
		.psn = piece,
	};
	size_t all = HK_WIRE_DATA_OVERHEAD + len;
	uint8_t mac[6];

	if (!m)
		return false;
	m->data_off = HK_BUF_PAYLOAD_AT - HK_WIRE_DATA_OVERHEAD;
	char *frame = rte_pktmbuf_mtod(m, char *);

	hk_tag_to_mac(to->tag, mac);
	hk_wire_put_eth(frame, mac, f->lane[0]->port->info.mac);
	hk_wire_put_hdr(frame + HK_ETH_HLEN, &h);
	if (len)
		memcpy(frame + HK_WIRE_DATA_OVERHEAD, bytes, len);
	if (f->cfg.engine.crc)
		all += hk_wire_seal(frame + HK_ETH_HLEN);
	m->data_len = (uint16_t)all;
	m->pkt_len = (uint32_t)all;
	hk_tx_frame(f, 0, m);
	return true;
}

uint32_t hk_fabric_mcast(struct hk_fabric *f, const struct hk_mcast_to *to, uint32_t first,
			 const void *bytes, size_t len, size_t each)
{
	uint32_t sent = 0;

	hk_biased_enter(&f->lock);
	f->gather++;
	for (size_t at = 0; at < len && f->lanes && !hk_broken(f); at += each, sent++)
		if (!send_piece(f, to, first + sent, (const char *)bytes + at,
				HK_MIN(each, len - at)))
			break;
	if (--f->gather == 0 && f->unsent)
		hk_tx_flush(f);
	f->n.mcasts += sent;
	hk_biased_leave(&f->lock);
	return sent;
}

void hk_fabric_announce(struct hk_fabric *f)
{
	const struct hk_mcast_to all = {.tag = TO_ALL, .number = 1};

	hk_biased_enter(&f->lock);
	if (f->lanes && !hk_broken(f) && send_piece(f, &all, 0, NULL, 0))
		hk_tx_flush(f);
	hk_biased_leave(&f->lock);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/mcast.c: one frame for a group of receivers.
 *
 * A multicast frame is not stored after it was sent, so it does not count to a window. Its buffer
 * comes from the reserve, as that of an acknowledgement does.
 */
#include "worker/mcast_internal.h"
#include "seal/group.h"
#include "worker/rx.h"
#include "worker/tx.h"

#include "wire/tag.h"

#define TO_ALL UINT64_C(0xffffffffffff)

void hk_worker_mcast_open(struct hk_worker *w, struct hk_mcast *m)
{
	m->group = w->seal && m->key
			   ? hk_seal_group_open(w->seal, m->key, m->channel, m->endpoint, m->epoch)
			   : NULL;
	hk_biased_enter(&w->lock);
	m->next = w->mcast_listeners;
	w->mcast_listeners = m;
	hk_biased_leave(&w->lock);
}

void hk_worker_mcast_close(struct hk_worker *w, struct hk_mcast *m)
{
	hk_biased_enter(&w->lock);
	for (struct hk_mcast **link = &w->mcast_listeners; *link; link = &(*link)->next)
		if (*link == m) {
			*link = m->next;
			break;
		}
	hk_biased_leave(&w->lock);
	hk_seal_group_close(m->group);
	m->group = NULL;
}

/* The poller cannot reach the listeners, which lie in the application's memory. */
static struct hk_mcast *listener(const struct hk_worker *w, uint32_t channel, uint32_t number,
				 uint32_t endpoint, uint32_t epoch)
{
	struct hk_mcast *m = w->by_poller ? NULL : w->mcast_listeners;

	while (m && (m->channel != channel || m->number != number || m->endpoint != endpoint ||
		     m->epoch != epoch))
		m = m->next;
	return m;
}

bool hk_mcast_open_frame(const struct hk_worker *w, const struct hk_wire_sealed *f)
{
	const struct hk_mcast *m = listener(w, f->dst, f->dst_epoch, f->src, f->src_epoch);

	return m && m->group && hk_seal_group_read(w->seal, m->group, f);
}

void hk_mcast_receive(struct hk_worker *w, const struct hk_frame *frame)
{
	const struct hk_wire_hdr *h = &frame->h;
	struct hk_mcast *m = listener(w, h->dst, h->dst_epoch, h->src, h->src_epoch);

	if (m) {
		w->n.mcasts_in++;
		m->fn(m, h->psn, frame->payload, frame->payload_len);
	} else {
		w->n.mcast_no_listener++;
	}
}

/* Sends one piece. @group: its key, or NULL. False if there is no buffer, or the port takes
 * nothing. */
static bool send_piece(struct hk_worker *w, const struct hk_mcast_to *to, uint32_t piece,
		       const void *bytes, size_t len, const struct hk_seal_group *group)
{
	struct rte_mbuf *m = hk_txq_stuck(w, 0) ? NULL : rte_pktmbuf_alloc(w->bufs.pool);
	const struct hk_wire_hdr h = {
		.version = HK_WIRE_VERSION_BYTE(HK_WIRE_BARE),
		.type = HK_WIRE_MCAST,
		.len = (uint16_t)len,
		.job = w->cfg.engine.key,
		.src = w->cfg.engine.endpoint,
		.dst = to->channel,
		.src_epoch = w->cfg.engine.epoch,
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
	hk_wire_eth_encode(frame, mac, w->txq[0]->port->info.mac);
	hk_wire_hdr_encode(frame + HK_ETH_HLEN, &h);
	if (len)
		memcpy(frame + HK_WIRE_DATA_OVERHEAD, bytes, len);
	if (group) {
		hk_seal_group_write(w->seal, group, frame + HK_ETH_HLEN);
		all += HK_WIRE_SEAL_LEN;
	} else if (w->cfg.engine.protection == HK_PROTECTION_CRC) {
		all += hk_wire_frame_checksum(frame + HK_ETH_HLEN);
	}
	m->data_len = (uint16_t)all;
	m->pkt_len = (uint32_t)all;
	hk_tx_bare(w, 0, m);
	return true;
}

uint32_t hk_worker_mcast(struct hk_worker *w, const struct hk_mcast_to *to, uint32_t first,
			 const void *bytes, size_t len, size_t each)
{
	const struct hk_engine_config *c = &w->cfg.engine;
	struct hk_seal_group *group = NULL;
	uint32_t sent = 0;

	hk_biased_enter(&w->lock);
	w->gather++;
	if (w->seal && to->key)
		group = hk_seal_group_open(w->seal, to->key, to->channel, c->endpoint, c->epoch);
	bool able = w->txqs && (group || !w->seal);

	for (size_t at = 0; able && at < len && !hk_worker_broken(w); at += each, sent++)
		if (!send_piece(w, to, first + sent, (const char *)bytes + at,
				HK_MIN(each, len - at), group))
			break;
	hk_seal_group_close(group);
	if (--w->gather == 0 && w->tx_waiting)
		hk_txqs_flush(w);
	w->n.mcasts += sent;
	hk_biased_leave(&w->lock);
	return sent;
}

void hk_worker_announce(struct hk_worker *w)
{
	const struct hk_mcast_to all = {.tag = TO_ALL, .number = 1};

	hk_biased_enter(&w->lock);
	if (w->txqs && !hk_worker_broken(w) && send_piece(w, &all, 0, NULL, 0, NULL))
		hk_txqs_flush(w);
	hk_biased_leave(&w->lock);
}

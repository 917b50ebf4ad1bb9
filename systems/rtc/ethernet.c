/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/ethernet.c: receives and sends messages as Ethernet frames over port/port.h (ethernet.h).
 */
#include "rtc/ethernet.h"

#include <string.h>

_Static_assert(sizeof(struct hk_rtc_buf) <= RTE_PKTMBUF_HEADROOM - ETH_HLEN, "fits the headroom");
_Static_assert((RTE_PKTMBUF_HEADROOM + OVERHEAD) % 32 == 0, "vector code loads payloads aligned");

/* ---- the hot path ---------------------------------------------------------------------------- */

/* Receives frames and drops those of other protocols, such as the kernel's neighbour discovery.
 * Returns how many are left. */
static inline unsigned receive(struct hk_rtc_ethernet *e, struct hk_port *port,
			       struct hk_rtc_buf **out, unsigned n)
{
	struct rte_mbuf *m[HK_RTC_BURST];
	unsigned got = hk_port_rx(port, 0, m, (uint16_t)n), left = 0;

	for (unsigned i = 0; i < got; i++)
		rte_prefetch0(rte_pktmbuf_mtod(m[i], void *));
	for (unsigned i = 0; i < got; i++) {
		uint8_t *frame = rte_pktmbuf_mtod(m[i], uint8_t *);
		struct hk_rtc_buf *b = hk_rtc_ethernet_buf(m[i]);
		if (HK_UNLIKELY((m[i]->data_len < OVERHEAD) | (frame[12] != HK_MSG_ETHERTYPE >> 8) |
				(frame[13] != (HK_MSG_ETHERTYPE & 0xff)))) {
			e->base.stray++;
			rte_pktmbuf_free(m[i]);
			continue;
		}
		b->hdr = frame + ETH_HLEN;
		b->len = m[i]->data_len - (uint32_t)ETH_HLEN;
		out[left++] = b;
	}
	return left;
}

static unsigned ethernet_rx(struct hk_rtc_backend *b, struct hk_rtc_buf **out, unsigned n)
{
	struct hk_rtc_ethernet *e = (struct hk_rtc_ethernet *)b;

	if (HK_LIKELY(e->ports == 1))
		return receive(e, e->port[0], out, n);
	/* poll each port in turn; the next call begins at the port that filled the burst */
	unsigned got = 0;
	for (unsigned i = 0; i < e->ports && got < n; i++) {
		got += receive(e, e->port[e->next], out + got, n - got);
		if (got < n)
			e->next = e->next + 1 < e->ports ? e->next + 1 : 0;
	}
	return got;
}

static inline struct rte_mbuf *frame_of(struct hk_rtc_ethernet *e, struct hk_rtc_buf *b)
{
	struct rte_mbuf *m = b->priv;
	/* copy 14 bytes only: the message's header follows */
	memcpy(b->hdr - ETH_HLEN, e->peer[b->dst].head, ETH_HLEN);
	m->data_len = (uint16_t)(b->len + ETH_HLEN);
	m->pkt_len = b->len + ETH_HLEN;
	m->ol_flags = 0;
	return m;
}

static inline void transmit(struct hk_rtc_ethernet *e, struct hk_port *port, struct rte_mbuf **m,
			    unsigned n)
{
	unsigned sent = hk_port_tx(port, 0, m, (uint16_t)n);
	if (HK_UNLIKELY(sent < n)) {
		e->base.tx_full += n - sent;
		rte_pktmbuf_free_bulk(m + sent, n - sent);
	}
}

/* Sends at most HK_RTC_BURST frames. */
static void send_burst(struct hk_rtc_ethernet *e, struct hk_rtc_buf **out, unsigned n, bool keep)
{
	struct rte_mbuf *m[HK_RTC_BURST], *of[HK_RTC_BURST];
	struct hk_port *port[HK_RTC_BURST];

	for (unsigned i = 0; i < n; i++) {
		m[i] = frame_of(e, out[i]);
		if (keep)
			rte_mbuf_refcnt_update(m[i], 1);
	}
	if (HK_LIKELY(e->ports == 1)) {
		transmit(e, e->port[0], m, n);
		return;
	}
	for (unsigned i = 0; i < n; i++)
		port[i] = e->peer[out[i]->dst].port;
	while (n) {
		struct hk_port *to = port[0];
		unsigned rest = 0, k = 0;
		for (unsigned i = 0; i < n; i++) {
			if (port[i] == to) {
				of[k++] = m[i];
			} else {
				port[rest] = port[i];
				m[rest++] = m[i];
			}
		}
		transmit(e, to, of, k);
		n = rest;
	}
}

static inline void send_all(struct hk_rtc_backend *b, struct hk_rtc_buf **out, unsigned n,
			    bool keep)
{
	while (n) {
		unsigned some = HK_MIN(n, (unsigned)HK_RTC_BURST);
		send_burst((struct hk_rtc_ethernet *)b, out, some, keep);
		out += some;
		n -= some;
	}
}

static void ethernet_tx(struct hk_rtc_backend *b, struct hk_rtc_buf **out, unsigned n)
{
	send_all(b, out, n, false);
}

static void ethernet_tx_copy(struct hk_rtc_backend *b, struct hk_rtc_buf **out, unsigned n)
{
	send_all(b, out, n, true);
}

static unsigned ethernet_alloc(struct hk_rtc_backend *b, struct hk_rtc_buf **out, unsigned n)
{
	struct hk_rtc_ethernet *e = (struct hk_rtc_ethernet *)b;
	struct rte_mbuf *m[HK_RTC_BURST];

	n = HK_MIN(n, (unsigned)HK_RTC_BURST);
	if (HK_UNLIKELY(!e->pool))
		return 0;
	while (n && rte_pktmbuf_alloc_bulk(e->pool, m, n) != 0) {
		b->no_buffer += n - n / 2;
		n /= 2;
	}
	for (unsigned i = 0; i < n; i++) {
		out[i] = hk_rtc_ethernet_buf(m[i]);
		out[i]->hdr = rte_pktmbuf_mtod(m[i], uint8_t *) + ETH_HLEN;
	}
	return n;
}

static void ethernet_free(struct hk_rtc_backend *b, struct hk_rtc_buf **out, unsigned n)
{
	struct rte_mbuf *m[HK_RTC_BURST];

	(void)b;
	while (n) {
		unsigned some = HK_MIN(n, (unsigned)HK_RTC_BURST);
		for (unsigned i = 0; i < some; i++)
			m[i] = out[i]->priv;
		rte_pktmbuf_free_bulk(m, some);
		out += some;
		n -= some;
	}
}

#define ETHERNET                                                                                   \
	.peer = hk_rtc_ethernet_peer, .connect = hk_rtc_ethernet_connect,                          \
	.close = hk_rtc_ethernet_close, .rx = ethernet_rx, .tx = ethernet_tx,                      \
	.tx_copy = ethernet_tx_copy, .alloc = ethernet_alloc, .free = ethernet_free

const struct hk_rtc_backend_ops hk_rtc_backend_dpdk = {
	.name = "dpdk", .open = hk_rtc_ethernet_open_dpdk, ETHERNET};
const struct hk_rtc_backend_ops hk_rtc_backend_af_xdp = {
	.name = "af_xdp", .open = hk_rtc_ethernet_open_af_xdp, ETHERNET};

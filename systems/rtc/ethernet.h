/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/ethernet.h: the backends dpdk and af_xdp. Internal to them.
 *
 *   ethernet.c        receiving and sending
 *   ethernet_open.c   opening ports and DPDK, the peers' addresses, wires
 *
 * A buffer is an mbuf. Its struct hk_rtc_buf lies at the start of the mbuf's headroom, 128 bytes
 * before the frame, where no driver writes. So it needs no table, and works with pools that a port
 * makes for itself (AF_XDP needs pools of a certain layout). The frame begins at a multiple of 64.
 * After 14 bytes of Ethernet header and 18 of ours, the payload begins at a multiple of 32. A reply
 * is sent from the buffer in which its request arrived; it costs only a new header.
 *
 * One port reaches all nodes by their MAC addresses. In a set of memif wires there is one port for
 * each node, and all ports share the pool of the first one. Wires are made once, at the start. So a
 * node that comes later or restarts needs a port with addresses.
 */
#ifndef HK_RTC_ETHERNET_H
#define HK_RTC_ETHERNET_H

#include "port/port.h"
#include "port/spec.h"
#include "rtc/backend.h"

#define ETH_HLEN 14
#define OVERHEAD (ETH_HLEN + HK_MSG_HLEN) /* bytes of a frame before the payload */

struct hk_rtc_ethernet_peer {
	uint8_t head[16]; /* Ethernet header of frames to the peer, padded to 16 bytes */
	struct hk_port *port;
};

struct hk_rtc_ethernet {
	struct hk_rtc_backend base;
	struct rte_mempool *pool;
	struct hk_port *owner;             /* port that owns the pool */
	unsigned ports, next;              /* next: port at which the next rx begins */
	struct hk_port **port;             /* [ports] */
	struct hk_rtc_ethernet_peer *peer; /* [nodes] */
	uint16_t node, nodes;
	uint32_t key;
	unsigned buffers_wanted, payload_wanted;
	enum hk_spec_kind kind;
	char spec[256];
	bool *known; /* [nodes] whether peer() was called */
};

static inline struct hk_rtc_buf *hk_rtc_ethernet_buf(struct rte_mbuf *m)
{
	return m->buf_addr; /* the headroom, wherever the pool has it */
}

/* ---- ethernet_open.c: see struct hk_rtc_backend_ops ---- */

int hk_rtc_ethernet_open_dpdk(const struct hk_rtc_config *cfg, const char *option,
			      struct hk_rtc_backend **b, struct hk_error *err);
int hk_rtc_ethernet_open_af_xdp(const struct hk_rtc_config *cfg, const char *option,
				struct hk_rtc_backend **b, struct hk_error *err);
int hk_rtc_ethernet_peer(struct hk_rtc_backend *b, uint16_t node, const char *address,
			 struct hk_error *err);
int hk_rtc_ethernet_connect(struct hk_rtc_backend *b, int64_t deadline_ms, struct hk_error *err);
void hk_rtc_ethernet_close(struct hk_rtc_backend *b);

#endif

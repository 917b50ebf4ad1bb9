/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/router/forward.h: the data plane: a burst of received packets in, packets to send out. No I/O.
 *
 * One thread, run to completion: each packet of a burst is read, looked up, rewritten and put in
 * line for its port before the next burst is received. Modes differ in one thing, how the CPU looks
 * at a header; they forward the same bytes:
 *
 *   bounce   packets lie in main memory; headers are read where they are
 *   p2p      packets lie in device memory; fields are read where they are, and nothing else
 *   pktpit   packets lie in device memory; the first HK_HEADER_MAX bytes are read once, in one
 *            piece, and work is done on that copy
 *
 * In all of them no byte beyond HK_HEADER_MAX is read, and 12 + 4 bytes (IPv4) or 12 + 1 (IPv6) are
 * written, where they lie. Payload is never touched: what the CPU reads is `read_header_bytes`.
 *
 * Counters are written by this thread alone, and may be read by any (they are single words).
 */
#ifndef HK_ROUTER_FORWARD_H
#define HK_ROUTER_FORWARD_H

#include "p2p/router/fib.h"
#include "p2p/router/header.h"
#include "p2p/router/icmp.h"

#include <stdatomic.h>

#include <rte_mbuf.h>

enum hk_mode { HK_MODE_BOUNCE, HK_MODE_P2P, HK_MODE_PKTPIT };

const char *hk_mode_name(enum hk_mode m);
int hk_mode_of(const char *name); /* -1: there is none */

#define HK_FORWARD_OUT                                                                             \
	1024 /* packets in line for a port: a burst, with fragments and ICMP messages */
#define HK_FORWARD_OWN 1600 /* bytes of a frame that the router makes itself */

struct hk_forward_counters {
	uint64_t verdict[HK_VERDICTS]; /* of packets that came in by this port */
	uint64_t in_packets, in_bytes, out_packets, out_bytes;
	uint64_t header_bytes; /* read by the CPU */
	uint64_t icmp_sent;    /* about packets that came by this port */
	uint64_t icmp_limited; /* not sent: too many, or no buffer */
	uint64_t icmp_silent;  /* not sent: no address to send from, or no way back */
	uint64_t fragmented;   /* forwarded in pieces … */
	uint64_t fragments;    /* … this many */
};

struct hk_forward_port {
	uint8_t mac[8];     /* 6, and zeroes */
	uint16_t frame_max; /* without FCS */
	bool gathers;       /* sends a frame that lies in several buffers */
	unsigned outs;
	struct rte_mbuf *out[HK_FORWARD_OUT];
	struct hk_forward_counters count;
};

/* Neighbours that packets wait for: from the data thread to the control thread, one writer and one reader. */
#define HK_FORWARD_ASKS 64

struct hk_forward_asks {
	_Atomic uint32_t written, read;
	struct {
		uint8_t family, port, address[16];
	} ask[HK_FORWARD_ASKS];
};

struct hk_forward {
	enum hk_mode mode;
	unsigned ports;
	struct hk_fib *fib; /* written between bursts */
	/* takes a packet for the kernel, whose port is m->port; false: no room. NULL: there is no tap */
	bool (*kernel)(void *arg, struct rte_mbuf *m);
	void *kernel_arg;
	struct hk_forward_asks *asks; /* NULL: nobody listens */
	struct rte_mempool *
		own; /* main memory, for packets that the router makes itself; NULL: it makes none */
	struct rte_mempool *pieces; /* main memory, for fragments; NULL: packets are not cut up */
	struct hk_icmp_limit icmp;
	struct hk_forward_port port[HK_ROUTER_PORTS];
};

/* Handles a burst of at most HK_FIB_BURST packets that came by @port; takes them all. What is to be sent stands
 * in port[].out afterwards, and is the caller's to send and to take out of there. */
void hk_forward_burst(struct hk_forward *f, unsigned port, struct rte_mbuf **m, unsigned n);

/* forward_fragment.c: sends IPv4 packet @m, which came by @from and may be cut up, in fragments for @cell's link,
 * whose MTU is @mtu. @frame: its first bytes, as they were read. HK_V_FORWARD, and it is taken; or why not, and it
 * is the caller's still. */
enum hk_verdict hk_forward_fragment(struct hk_forward *f, unsigned from, struct rte_mbuf *m,
				    const uint8_t *frame, const struct hk_ip *ip, hk_cell cell,
				    unsigned mtu);

/* Puts a packet in line for a port, or drops and counts it. */
static inline void hk_forward_out(struct hk_forward *f, unsigned port, struct rte_mbuf *m)
{
	struct hk_forward_port *p = &f->port[port];

	if (HK_UNLIKELY(p->outs == HK_FORWARD_OUT)) {
		p->count.verdict[HK_V_TX_FULL]++;
		rte_pktmbuf_free(m);
		return;
	}
	p->out[p->outs++] = m;
}

#endif

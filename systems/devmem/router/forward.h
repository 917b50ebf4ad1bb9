/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/forward.h: the data plane. It takes a burst of received packets, and queues packets
 * to send. No I/O.
 *
 * DESIGN NOTES
 *
 * One thread runs to completion. It reads each packet of a burst, looks it up, rewrites it and
 * queues it for its port. Then it receives the next burst. The modes forward the same bytes. They
 * differ only in how the CPU reads a header:
 *
 *   bounce   packets are in main memory; the CPU reads header fields in place
 *   p2p      packets are in device memory; the CPU reads header fields in place, nothing else
 *   pktpit   packets are in device memory; the CPU copies the first HK_HEADER_MAX bytes once,
 *            in one piece, and works on the copy
 *
 * No mode reads a byte beyond HK_HEADER_MAX. Each writes 12 + 4 bytes (IPv4) or 12 + 1 bytes (IPv6)
 * in place. The CPU never touches the payload; `header_bytes` counts the bytes that it reads.
 *
 * Only this thread writes the counters. Any thread may read them: each is a single word.
 */
#ifndef HK_ROUTER_FORWARD_H
#define HK_ROUTER_FORWARD_H

#include "devmem/router/fib.h"
#include "devmem/router/header.h"
#include "devmem/router/icmp.h"

#include <stdatomic.h>

#include <rte_mbuf.h>

enum hk_router_mode { HK_ROUTER_BOUNCE, HK_ROUTER_P2P, HK_ROUTER_PKTPIT };

const char *hk_router_mode_name(enum hk_router_mode m);
int hk_router_mode_parse(const char *name); /* -1: unknown name */

#define HK_FORWARD_QUEUE                                                                           \
	1024 /* most packets queued for a port: a burst, with fragments and ICMP messages */
#define HK_FORWARD_OWN 1600 /* most bytes of a frame that the router makes itself */

struct hk_forward_counters {
	uint64_t result[HK_RESULTS]; /* packets received by this port, by result */
	uint64_t in_packets, in_bytes, out_packets, out_bytes;
	uint64_t header_bytes; /* header bytes that the CPU has read */
	uint64_t icmp_sent;    /* ICMP messages about packets received by this port */
	uint64_t icmp_limited; /* not sent: rate limit, or no buffer */
	uint64_t icmp_silent;  /* not sent: no source address, or no route back */
	uint64_t fragmented;   /* packets forwarded as fragments */
	uint64_t fragments;    /* fragments of these packets */
};

struct hk_forward_port {
	uint8_t mac[8];     /* 6 bytes, then zeroes */
	uint16_t frame_max; /* bytes, without FCS */
	bool gathers;       /* whether the port can send a frame from several buffers */
	unsigned queued;    /* packets in `out` */
	struct rte_mbuf *out[HK_FORWARD_QUEUE];
	struct hk_forward_counters count;
};

/* Neighbours that packets need: a ring from the data thread, its only writer, to the control
 * thread, its only reader. */
#define HK_FORWARD_REQUESTS 64

struct hk_forward_requests {
	_Atomic uint32_t written, read;
	struct {
		uint8_t family, port, address[16];
	} request[HK_FORWARD_REQUESTS];
};

struct hk_forward {
	enum hk_router_mode mode;
	unsigned ports;
	struct hk_fib *fib; /* changed between bursts */
	/* hands a packet to the kernel for port m->port; false: no space. NULL: no TAP
	 * interfaces */
	bool (*kernel)(void *arg, struct rte_mbuf *m);
	void *kernel_arg;
	struct hk_forward_requests *requests; /* NULL: nobody reads them */
	struct rte_mempool
		*own; /* for packets that the router makes, in main memory; NULL: none are made */
	struct rte_mempool *pieces; /* for fragments, in main memory; NULL: none are made */
	struct hk_icmp_limit icmp;
	struct hk_forward_port port[HK_ROUTER_PORTS];
};

/* State of a burst between its steps. */
struct hk_burst {
	struct hk_ip ip[HK_FIB_BURST];
	uint8_t result[HK_FIB_BURST];
	uint8_t header[HK_FIB_BURST][HK_HEADER_MAX]; /* pktpit: copies of the headers */
	uint32_t dst4[HK_FIB_BURST];                 /* destinations to look up, in host order */
	uint8_t dst6[HK_FIB_BURST][16];
	uint64_t hop4[HK_FIB_BURST], hop6[HK_FIB_BURST];  /* of these: the numbers of their cells */
	hk_cell cell4[HK_FIB_BURST], cell6[HK_FIB_BURST]; /* or their cells, from elsewhere */
	unsigned n4, n6;                                  /* destinations of each family */
};

/* Handles a burst of at most HK_FIB_BURST packets received by @port, and takes ownership of all. It
 * queues the packets to send in port[].out; the caller sends them and empties the queue. */
void hk_forward_burst(struct hk_forward *f, unsigned port, struct rte_mbuf **m, unsigned n);

/* The first and the last step of hk_forward_burst(), for a caller that looks destinations up
 * elsewhere. The first reads the headers, and collects the destinations. */
void hk_forward_read(struct hk_forward *f, unsigned port, struct rte_mbuf **m, unsigned n,
		     struct hk_burst *b);
/* Rewrites and queues the packets in the order of arrival, and takes ownership of all. The caller
 * has written a cell for each destination. Its kind is below HK_HOP_KINDS, and if that is
 * HK_HOP_FORWARD, it has one of the ports. Neighbours are not requested for such cells. */
void hk_forward_finish_cells(struct hk_forward *f, unsigned port, struct rte_mbuf **m, unsigned n,
			     const struct hk_burst *b);

/* forward_fragment.c: queues IPv4 packet @m, received by @from, as fragments for @cell's link,
 * whose MTU is @mtu. @frame has the packet's first bytes, as they were read. Returns
 * HK_RESULT_FORWARD and takes ownership of @m; with another result the caller still owns it. */
enum hk_router_result hk_forward_fragment(struct hk_forward *f, unsigned from, struct rte_mbuf *m,
					  const uint8_t *frame, const struct hk_ip *ip,
					  hk_cell cell, unsigned mtu);

/* Queues a packet for a port, or drops and counts it. */
static inline void hk_forward_enqueue(struct hk_forward *f, unsigned port, struct rte_mbuf *m)
{
	struct hk_forward_port *p = &f->port[port];

	if (HK_UNLIKELY(p->queued == HK_FORWARD_QUEUE)) {
		p->count.result[HK_RESULT_TX_FULL]++;
		rte_pktmbuf_free(m);
		return;
	}
	p->out[p->queued++] = m;
}

#endif

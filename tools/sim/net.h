/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/net.h: ports, links and network switches.
 *
 * DESIGN NOTES
 *
 * Every port that sends is one struct port: of a host's NIC, or of a network switch. It has one
 * queue for each 802.1p class in use, a rate, and the far end of its link:
 *
 *     host ---[NIC port]--- link ---> network switch ---[switch port]--- link ---> host
 *
 * Network switches store and forward. A frame that does not fit the buffer of its port is lost
 * (drop-tail). One that finds more bytes than the marking threshold there is marked (ECN).
 *
 * Topologies. star: one network switch. leafspine: leaves of some hosts each, which all spines
 * connect; frames of one flow take one spine, chosen by a hash (ECMP).
 */
#ifndef HK_SIM_NET_H
#define HK_SIM_NET_H

#include "sim/events.h"
#include "sim/frames.h"
#include "sim/series.h"

#include "base/rng.h"

#define NET_CLASSES 8 /* of 802.1p */

enum topology { TOPOLOGY_STAR, TOPOLOGY_LEAFSPINE };

struct net_config {
	uint32_t hosts;
	enum topology topology;
	uint32_t leaf_hosts, spines; /* LEAFSPINE */
	uint32_t host_ports;         /* ports a host, at most HK_PATHS */
	uint32_t ps_per_byte;        /* of every link: 800 is 10 Gb/s */
	uint64_t link_delay;         /* ps */
	uint32_t buffer;             /* bytes that a port of a network switch queues */
	uint32_t mark;               /* bytes in a queue from which frames are marked; 0: never */
	bool classes;                /* the network knows 802.1p classes */
	uint32_t loss;               /* frames per million that a link loses */
	uint64_t dead_at;            /* ps: the link of port `dead_port` of host `dead_host` dies */
	uint32_t dead_host, dead_port;
};

struct port_stats {
	uint64_t frames, bytes; /* sent */
	uint64_t dropped, dropped_bulk, marked;
	uint32_t queue_max; /* bytes */
};

struct port {
	uint32_t head[NET_CLASSES], tail[NET_CLASSES];
	uint32_t used;    /* bit c: class c has frames */
	uint32_t sending; /* FRAME_NONE: idle */
	uint32_t frames;  /* that wait or are being sent */
	uint32_t bytes;   /* of those */
	uint32_t limit;   /* of bytes; UINT32_MAX: of a NIC, whose host limits the frames */
	uint32_t to;      /* far end: a host, or NET_SWITCH and the number of a network switch */
	struct port_stats n;
	struct series queue; /* bytes over time */
};

#define NET_SWITCH 0x80000000u /* bit of port.to */

struct net {
	struct net_config c;
	struct events events;
	struct frames frames;
	struct hk_rng rng;
	struct port *port; /* NICs' first: host * host_ports + path */
	uint32_t ports, switches;
	uint64_t lost_by_links; /* frames */
	/* Called with a frame that arrives at its host; it owns the frame. */
	void (*arrived)(void *arg, uint32_t host, uint32_t frame);
	/* Called when a NIC has sent a frame. */
	void (*sent)(void *arg, uint32_t host);
	void *arg;
};

void net_init(struct net *n, const struct net_config *c, uint64_t seed, uint64_t start);
void net_free(struct net *n);

/* Puts @frame into the queue of @port, which sends it as soon as it can. */
void net_enqueue(struct net *n, uint32_t port, uint32_t frame);

/* Handles an event of kind SENT or ARRIVE. */
void net_event(struct net *n, const struct event *ev);

/* Bytes that a frame of @len bytes occupies on a link: with padding, preamble, check sequence and
 * gap. */
static inline uint32_t net_wire_bytes(uint32_t len)
{
	return HK_MAX(len, HK_ETH_MIN_FRAME) + 24;
}

static inline uint32_t net_nics(const struct net *n)
{
	return n->c.hosts * n->c.host_ports;
}

/* The NIC port of a host. */
static inline uint32_t net_nic(const struct net *n, uint32_t host, unsigned path)
{
	return host * n->c.host_ports + path;
}

/* The port of a network switch with the most bytes in its queue, on average. */
uint32_t net_busiest(const struct net *n);

/* Sums over all ports of network switches. */
struct port_stats net_sum(const struct net *n);

#endif

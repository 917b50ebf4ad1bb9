/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/nic/nic.h: an emulated programmable NIC that routes: hk_nic, and its files.
 *
 *   main.c        options, signals, the end of waits
 *   nic.c         the NIC: its rounds
 *   open.c        its regions and those of its peers
 *   wire.c        its wire side (wire.h)
 *   ring.h        frames between NICs
 *   lookup.c      Pktpit: addresses to the host, next hops back (lookup.h)
 *   region.c      the memory that the processes share (region.h)
 *   transfers.c   counters of bytes by region (transfers.h)
 *
 * DESIGN NOTES
 *
 * Problem: P2PNIC and Pktpit need NICs that look a packet's route up and move it to another NIC by
 * themselves. Few people have such NICs, and the comparison of the variants needs none.
 *
 * Approach: a process is a NIC. It owns a wire side, a BAR (a region that its peers map), and a
 * forwarding table. A round takes a burst from the wire, looks it up, and rewrites the headers. It
 * moves the frames to the NICs of their ports by writes and reads of shared memory. It also sends
 * the frames that its peers have moved to it. The data plane is that of hk_router
 * (devmem/router/forward.h), so both forward the same bytes. No other process is on a packet's
 * path, except for Pktpit's addresses.
 *
 * The host's part of a router, ICMP messages, ARP and fragments, stays out: a NIC counts such
 * packets, and drops them.
 *
 * Invariants:
 *  - A NIC takes frames from the wire only while every link has space for a burst. So no frame is
 *    lost between NICs, and the rate is that of the slowest stage.
 *  - Nothing that a peer writes is used without a check (ring.h, lookup.h).
 *  - A round never waits. main.c ends a NIC whose peer has died, or one that is stuck.
 */
#ifndef HK_NIC_NIC_H
#define HK_NIC_NIC_H

#include "devmem/nic/lookup.h"
#include "devmem/nic/wire.h"

#define HK_NIC_PENDING 4 /* bursts that wait for next hops; all fit the rings of lookup.h */

struct hk_nic_options {
	enum hk_nic_variant variant;
	unsigned id, nics;
	const char *dir;    /* of the regions */
	const char *routes; /* route file; its ports are the NICs */
	unsigned wait_ms;   /* for peers and links */
	struct hk_nic_wire_options wire;
};

/* The way to and from one peer. */
struct hk_nic_link {
	struct hk_nic_region bar, main; /* the peer's */
	struct hk_nic_sender to;
	struct hk_nic_receiver from;
	unsigned to_region, from_region;      /* of the frames (transfers.h) */
	bool left;                            /* the peer has ended; frames to it are lost */
	uint64_t came, lost, bad_descriptors; /* frames */
};

struct hk_nic_pending {
	struct hk_burst burst;
	struct rte_mbuf *m[HK_NIC_BURST];
	unsigned n;
};

struct hk_nic {
	struct hk_nic_options o;
	struct hk_nic_wire wire;
	struct hk_forward forward;
	struct hk_fib *fib;                   /* Pktpit: without tables */
	struct hk_nic_region bar, main, host; /* `host`: Pktpit */
	struct hk_nic_link link[HK_NICS];     /* that of `id` is not used */
	struct hk_nic_asker asker;
	struct hk_nic_pending pending[HK_NIC_PENDING];
	unsigned first, waiting; /* of `pending`: the oldest, and their number */
	struct hk_nic_transfers transfers;
	struct hk_load_cost cost; /* of the rounds that moved something */
};

/* open.c: opens the NIC, and makes its regions. It starts DPDK. */
int hk_nic_open(const struct hk_nic_options *o, struct hk_nic **out, struct hk_error *err);
/* Waits for the regions of all peers, and joins them. The first round comes after it. */
int hk_nic_join(struct hk_nic *nic, struct hk_error *err);
void hk_nic_close(struct hk_nic *nic); /* NULL is allowed */

/* open.c: Pktpit's process of the host. */
struct hk_nic_server_region {
	struct hk_nic_server server;
	struct hk_nic_region host, bar[HK_NICS];
	struct hk_fib *fib;
};
int hk_nic_server_open(const struct hk_nic_options *o, struct hk_nic_server_region *s,
		       struct hk_error *err);
int hk_nic_server_join(const struct hk_nic_options *o, struct hk_nic_server_region *s,
		       struct hk_error *err);
void hk_nic_server_close(struct hk_nic_server_region *s);

/* Receives, forwards and sends what there is, at most a burst from each side. Returns the number of
 * frames moved; -EPROTO: a peer or the host has written what cannot be, and @err names it. */
int hk_nic_round(struct hk_nic *nic, struct hk_error *err);

/* Whether a load is done, and no frame is under way from this NIC. */
bool hk_nic_done(const struct hk_nic *nic);

/* Looks for peers that have left or died. -EPIPE: one has died, or the host has ended. Makes system
 * calls. */
int hk_nic_check_peers(struct hk_nic *nic, struct hk_error *err);

/* Writes all counters as one JSON object in one line. It ends the measurement of rates. */
void hk_nic_stats(struct hk_nic *nic, FILE *out);

#endif

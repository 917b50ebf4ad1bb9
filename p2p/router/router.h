/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/router/router.h: the program behind `hikyaku p2p route`, and which file does what.
 *
 *   main.c         options, signals
 *   router.c       ports, buffers, the loop of the data thread
 *   pools.c        buffer plans: where packets lie
 *   control.c      the control thread: its socket, reloading, updates
 *   kernel.c, neighbour.c   taps, and the kernel's neighbour table (kernel.h)
 *   stats.c        what is counted, as JSON
 *   forward.c      the data plane (forward.h); header.c what it reads and writes (header.h)
 *   fib.c          the forwarding table (fib.h)
 *   routes.c, routes_text.c, mrt.c   route files and tables (routes.h); special.c martians
 *   forward_fragment.c, fragment.c   IPv4 packets cut up for a link (fragment.h)
 *   icmp.c         what is said about packets that are not forwarded (icmp.h)
 *   generate.c     tables that are made (generate.h)
 *
 * Two threads. The data thread runs to completion and makes no system call while packets come; the
 * control thread does all else. Between them: a pointer to the FIB, swapped (RCU), and a letter box for one
 * update at a time.
 */
#ifndef HK_ROUTER_H
#define HK_ROUTER_H

#include "p2p/pop/pop.h"
#include "p2p/router/forward.h"
#include "p2p/router/kernel.h"
#include "port/port.h"

#include <pthread.h>
#include <stdatomic.h>

#include <rte_rcu_qsbr.h>

struct hk_router_options {
	enum hk_mode mode;
	const char *routes;
	const char *port[HK_ROUTER_PORTS];
	unsigned ports;
	/* the memory that port i receives into: pool[i % pools], a pop spec (p2p/pop/pop.h); none: main memory */
	const char *pool[HK_ROUTER_PORTS];
	unsigned pools;
	const char
		*tap; /* prefix of the taps' names; NULL: none, and the kernel has no part in it */
	const char *control; /* path of the control socket; NULL: none */
	unsigned memory_mb, buffers, wait_ms;
	unsigned frame_max; /* of buffers in pops */
	unsigned icmp_rate; /* messages a second, at most; 0: none */
	bool spin;          /* never nap */
	unsigned char marker[64];
	size_t marker_len; /* 0: main memory is not scanned for it when the router ends */
};

/* One update of the FIB, which the data thread makes. */
struct hk_letter {
	_Atomic bool posted;
	uint8_t prefix[16], depth, family;
	uint32_t cell;
	int result;
};

struct hk_router {
	struct hk_router_options o;
	struct hk_port *port[HK_ROUTER_PORTS];
	struct hk_pop *pop[HK_ROUTER_PORTS];       /* [o.pools] */
	struct rte_mempool *pool[HK_ROUTER_PORTS]; /* of port i, in a pop; NULL: the port's own */
	bool write_combined;         /* one of the pops is: its loads and stores need fences */
	struct rte_mempool *headers; /* pktpit: main memory, where NICs split headers off */
	struct hk_forward forward;
	struct hk_fib *_Atomic fib; /* the control thread's to swap */
	struct rte_rcu_qsbr *rcu;
	struct hk_letter letter;
	struct hk_kernel *kernel; /* NULL: no taps */
	struct hk_forward_asks asks;
	_Atomic bool stop;
	uint64_t tx_full[HK_ROUTER_PORTS]; /* frames that the port refused */
	uint64_t in_main_memory;           /* how often the marker is there */
	/* of the control thread */
	pthread_t control;
	bool control_runs;
	int listen, wake[2]; /* the socket; a pipe that ends its wait */
	_Atomic bool reload;
	unsigned reloads;
};

/* router.c */
int hk_router_open(const struct hk_router_options *o, struct hk_router **out, struct hk_error *err);
void hk_router_run(struct hk_router *r);    /* until hk_router_stop() */
void hk_router_stop(struct hk_router *r);   /* from any thread or signal handler */
void hk_router_reload(struct hk_router *r); /* the same */
void hk_router_close(struct hk_router *r);  /* NULL is allowed */

/* pools.c: opens pops, lets ports reach them, and makes pools in them, all before a port is opened. */
int hk_pools_open(struct hk_router *r, struct hk_error *err);
void hk_pools_close(struct hk_router *r);

/* control.c: starts and ends the thread; wakes it, also from a signal handler. */
int hk_control_open(struct hk_router *r, const char *path, struct hk_error *err);
void hk_control_wake(struct hk_router *r);
void hk_control_close(struct hk_router *r);

/* stats.c: everything counted, as one JSON object in a line. */
void hk_router_stats(struct hk_router *r, FILE *out);

#endif

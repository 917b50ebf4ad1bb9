/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/router.h: hk_router, the program behind `hikyaku devmem route`, and its files.
 *
 *   main.c         options, signals
 *   router.c       ports, buffers, the loop of the data thread
 *   pools.c        buffer plans: the memory of packets
 *   control.c      the control thread: its socket, reloading, updates
 *   kernel.c, neighbour.c   TAP interfaces and the kernel's neighbour table (kernel.h)
 *   stats.c        the counters as JSON
 *   forward.c      the data plane (forward.h); header.c reads and rewrites headers (header.h)
 *   fib.c          the forwarding table (fib.h)
 *   routes.c, routes_text.c, mrt.c   route files and tables (routes.h); special.c martians
 *   forward_fragment.c, fragment.c   fragments of IPv4 packets (fragment.h)
 *   icmp.c         ICMP messages about packets that are not forwarded (icmp.h)
 *   generate.c     generated tables (generate.h)
 *
 * DESIGN NOTES
 *
 * Two threads. The data thread runs to completion and makes no system call while packets arrive.
 * The control thread does everything else. They share a pointer to the forwarding table, which the
 * control thread swaps (RCU), and one request for an update of that table.
 */
#ifndef HK_ROUTER_ROUTER_H
#define HK_ROUTER_ROUTER_H

#include "devmem/pop/pop.h"
#include "devmem/router/forward.h"
#include "devmem/router/kernel.h"
#include "port/port.h"

#include <pthread.h>
#include <stdatomic.h>

#include <rte_rcu_qsbr.h>

struct hk_router_options {
	enum hk_router_mode mode;
	const char *routes;
	const char *port[HK_ROUTER_PORTS];
	unsigned ports;
	/* Pop specs (devmem/pop/pop.h). Port i receives into pool[i % pools]; without any, into
	 * main memory. */
	const char *pool[HK_ROUTER_PORTS];
	unsigned pools;
	const char *tap;     /* prefix of the TAP interfaces' names; NULL: there are none */
	const char *control; /* path of the control socket, or NULL */
	unsigned memory_mb;  /* DPDK's memory in MB */
	unsigned buffers;    /* receive buffers of each port */
	unsigned wait_ms;    /* longest wait for a link, in ms */
	unsigned frame_max;  /* bytes of a buffer in a pop */
	unsigned icmp_rate;  /* most ICMP messages a second; 0: none */
	bool spin;           /* whether the data thread polls without ever sleeping */
	unsigned char marker[64];
	size_t marker_len; /* bytes of `marker`, which the router searches in main memory at its
			      end; 0: no search */
};

/* One update of the forwarding table. The control thread posts it, and the data thread applies
 * it. */
struct hk_fib_request {
	_Atomic bool posted;
	uint8_t prefix[16], depth, family;
	uint32_t cell;
	bool implied; /* hk_fib_update() */
	int result;
};

struct hk_router {
	struct hk_router_options o;
	struct hk_port *port[HK_ROUTER_PORTS];
	struct hk_pop *pop[HK_ROUTER_PORTS];       /* [o.pools] */
	struct rte_mempool *pool[HK_ROUTER_PORTS]; /* receive pool of port i in a pop; NULL: the
						      port's own pool */
	bool write_combined; /* a pop is write-combining: its loads and stores need fences */
	struct rte_mempool *headers; /* pktpit: for split-off headers, in main memory */
	struct hk_forward forward;
	struct hk_fib *_Atomic fib; /* the table in use; the control thread swaps it */
	struct rte_rcu_qsbr *rcu;
	struct hk_fib_request request;
	struct hk_router_kernel *kernel; /* NULL: no TAP interfaces */
	struct hk_forward_requests requests;
	_Atomic bool stop;
	uint64_t tx_full[HK_ROUTER_PORTS]; /* frames that the port did not accept */
	uint64_t in_main_memory;           /* occurrences of the marker in main memory */

	/* The fields below belong to the control thread. */
	pthread_t control;
	bool control_runs;
	int listen, wake[2]; /* the control socket; a pipe that wakes the thread */
	_Atomic bool reload;
	unsigned reloads;
};

/* router.c */
int hk_router_open(const struct hk_router_options *o, struct hk_router **out, struct hk_error *err);
void hk_router_run(struct hk_router *r);    /* returns after hk_router_stop() */
void hk_router_stop(struct hk_router *r);   /* for any thread or signal handler */
void hk_router_reload(struct hk_router *r); /* for any thread or signal handler */
void hk_router_close(struct hk_router *r);  /* NULL is allowed */

/* pools.c: opens the pops, maps them for the ports, and makes pools in them, before any port is
 * opened. */
int hk_router_pools_open(struct hk_router *r, struct hk_error *err);
void hk_router_pools_close(struct hk_router *r);

/* control.c: start, wake and end the control thread. A signal handler may wake it. */
int hk_router_control_open(struct hk_router *r, const char *path, struct hk_error *err);
void hk_router_control_wake(struct hk_router *r);
void hk_router_control_close(struct hk_router *r);

/* stats.c: writes all counters as one JSON object in one line. */
void hk_router_stats(struct hk_router *r, FILE *out);

#endif

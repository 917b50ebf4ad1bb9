/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/router/router.h: the program behind `hikyaku p2p route`, and which file does what.
 *
 *   main.c         options, signals
 *   router.c       ports, buffers, the loop of the data thread
 *   control.c      the control thread: its socket, reloading, updates
 *   stats.c        what is counted, as JSON
 *   forward.c      the data plane (forward.h); header.c what it reads and writes (header.h)
 *   fib.c          the forwarding table (fib.h)
 *   routes.c, routes_text.c   route files and tables (routes.h); special.c martians
 *
 * Two threads. The data thread runs to completion and makes no system call while packets come; the
 * control thread does all else. Between them: a pointer to the FIB, swapped (RCU), and a letter box for one
 * update at a time.
 */
#ifndef HK_ROUTER_H
#define HK_ROUTER_H

#include "p2p/router/forward.h"
#include "port/port.h"

#include <pthread.h>
#include <stdatomic.h>

#include <rte_rcu_qsbr.h>

struct hk_router_options {
	enum hk_mode mode;
	const char *routes;
	const char *port[HK_ROUTER_PORTS];
	unsigned ports;
	const char *control; /* path of the control socket; NULL: none */
	unsigned memory_mb, buffers, wait_ms;
	bool spin; /* never nap */
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
	struct hk_forward forward;
	struct hk_fib *_Atomic fib; /* the control thread's to swap */
	struct rte_rcu_qsbr *rcu;
	struct hk_letter letter;
	_Atomic bool stop;
	uint64_t tx_full[HK_ROUTER_PORTS]; /* frames that the port refused */
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

/* control.c: starts and ends the thread; wakes it, also from a signal handler. */
int hk_control_open(struct hk_router *r, const char *path, struct hk_error *err);
void hk_control_wake(struct hk_router *r);
void hk_control_close(struct hk_router *r);

/* stats.c: everything counted, as one JSON object in a line. */
void hk_router_stats(struct hk_router *r, FILE *out);

#endif

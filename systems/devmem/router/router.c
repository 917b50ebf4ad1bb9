/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/router.c: opens the router's ports and memory, and runs the data thread.
 */
#include "devmem/router/fragment.h"
#include "devmem/router/router.h"
#include "port/spec.h"
#include "port/split.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include <rte_atomic.h>
#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_malloc.h>

#define READER        0     /* the data thread's number in the RCU variable */
#define IDLE_ROUNDS   50000 /* empty rounds before the data thread sleeps: about a millisecond */
#define IDLE_SLEEP_NS 50000
#define OWN           2048 /* packets of the router's own that exist at a time */
#define PIECES        8192 /* buffers of fragments; each fragment needs two */

/* Sets the MAC address that the file gives a port. A NIC that cannot take it becomes promiscuous. A
 * wire carries frames to any address. */
static int set_mac(struct hk_router *r, unsigned i, const struct hk_routes *routes,
		   struct hk_error *err)
{
	struct rte_ether_addr mac;
	uint16_t id = r->port[i]->id;

	memcpy(r->forward.port[i].mac, r->port[i]->info.mac, 6);
	if (!routes->has_mac[i])
		return 0;
	memcpy(mac.addr_bytes, routes->mac[i], 6);
	memcpy(r->forward.port[i].mac, routes->mac[i], 6);
	if (r->port[i]->info.point_to_point || rte_eth_dev_default_mac_addr_set(id, &mac) == 0 ||
	    rte_eth_promiscuous_enable(id) == 0)
		return 0;
	return hk_error_set(err, -ENOTSUP,
			    "%s: port %u (%s) cannot change its MAC address; fix: remove `mac`",
			    r->o.routes, i, r->o.port[i]);
}

/* Refuses a port that opens and then does not get the frames of other stations. */
static int check_port(const struct hk_router_options *o, unsigned i, struct hk_error *err)
{
	struct hk_spec s;
	int rc = hk_spec_parse(o->port[i], &s, err);

	if (rc)
		return rc;
	if (s.kind == HK_SPEC_UDP)
		return hk_error_set(
			err, -ENOTSUP,
			"port %u (%s): a UDP socket carries no frames of other stations; "
			"fix: use --port af_xdp:iface=IF,take=all",
			i, o->port[i]);
	if (s.kind != HK_SPEC_AF_XDP)
		return 0;
	if (o->mode == HK_ROUTER_PKTPIT)
		return hk_error_set(err, -ENOTSUP,
				    "port %u (%s): mode pktpit takes ports of kinds pci:, memif:, "
				    "af_packet: and vdev:; fix: use --mode p2p",
				    i, o->port[i]);
	int keys = (int)strcspn(o->port[i], ";"); /* fault injection follows */

	return s.take_all ? 0
			  : hk_error_set(err, -EINVAL,
					 "port %u (%s) takes only Hikyaku's frames from the "
					 "kernel, and a router needs all; fix: --port '%.*s,"
					 "take=all%s'",
					 i, o->port[i], keys, o->port[i], o->port[i] + keys);
}

/* The error for a port whose frames are longer than buffers of the pool. Opens it with a pool of
 * its own, which shows what it needs. */
static int too_long(struct hk_router *r, unsigned i, struct hk_error *err)
{
	int rc = hk_port_open(r->o.port[i], 1024, NULL, (int)r->o.wait_ms, &r->port[i], err);

	if (rc)
		return rc;
	unsigned need = rte_pktmbuf_data_room_size(r->port[i]->pool) - RTE_PKTMBUF_HEADROOM;
	return hk_error_set(
		err, -EMSGSIZE,
		"port %u (%s) needs buffers of %u bytes, and those of the pool hold %u; "
		"fix: --frame %u",
		i, r->o.port[i], need, r->o.frame_max, need);
}

static int open_port(struct hk_router *r, unsigned i, struct hk_error *err)
{
	int wait = (int)r->o.wait_ms;
	int rc = r->headers ? hk_port_open_split(r->o.port[i], r->headers, HK_HEADER_MAX,
						 r->pool[i], wait, &r->port[i], err)
			    : hk_port_open(r->o.port[i], r->o.buffers, r->pool[i], wait,
					   &r->port[i], err);

	return rc == -EMSGSIZE && r->pool[i] ? too_long(r, i, err) : rc;
}

static int open_ports(struct hk_router *r, const struct hk_routes *routes, struct hk_error *err)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < r->o.ports; i++)
		rc = open_port(r, i, err);
	for (unsigned i = 0; rc == 0 && i < r->o.ports; i++)
		for (unsigned out = 0; rc == 0 && out < r->o.ports; out++)
			if (r->port[i]->info.split && !r->port[out]->info.tx_multi_seg)
				rc = hk_error_set(err, -ENOTSUP,
						  "port %u splits headers off, and port %u (%s) "
						  "cannot send from several buffers; fix: use "
						  "--mode p2p, or another port",
						  i, out, r->o.port[out]);
	for (unsigned i = 0; rc == 0 && i < r->o.ports; i++)
		rc = hk_port_wait_link(r->port[i], (int)r->o.wait_ms, err);
	for (unsigned i = 0; rc == 0 && i < r->o.ports; i++) {
		r->forward.port[i].frame_max = r->port[i]->info.frame_max;
		r->forward.port[i].gathers = r->port[i]->info.tx_multi_seg;
		rc = set_mac(r, i, routes, err);
	}
	return rc;
}

static int open_rcu(struct hk_router *r, struct hk_error *err)
{
	r->rcu = rte_zmalloc("hk_rcu", rte_rcu_qsbr_get_memsize(1), RTE_CACHE_LINE_SIZE);
	if (!r->rcu || rte_rcu_qsbr_init(r->rcu, 1) || rte_rcu_qsbr_thread_register(r->rcu, READER))
		return hk_error_set(
			err, -ENOMEM,
			"no memory for the router; fix: give it more memory (--memory)");
	rte_rcu_qsbr_thread_online(r->rcu, READER);
	return 0;
}

static bool to_kernel(void *arg, struct rte_mbuf *m)
{
	struct hk_router *r = arg;

	return rte_ring_sp_enqueue(r->kernel->to, m) == 0;
}

int hk_router_open(const struct hk_router_options *o, struct hk_router **out, struct hk_error *err)
{
	struct hk_eal_config eal = {.memory_mb = o->memory_mb,
				    .extra_args = "--force-max-simd-bitwidth=512"};
	struct hk_routes *routes = NULL;
	struct hk_fib *fib = NULL;

	*out = NULL;
	/* report mistakes in the file before touching a port */
	int rc = hk_routes_load(o->routes, o->ports, &routes, err);
	for (unsigned i = 0; rc == 0 && i < o->ports; i++)
		rc = check_port(o, i, err);
	for (unsigned i = 0; rc == 0 && i < o->ports; i++)
		rc = hk_port_spec_eal(o->port[i], &eal, err);
	struct hk_router *r = rc ? NULL : aligned_alloc(64, (sizeof(*r) + 63) / 64 * 64);
	if (rc == 0 && !r)
		rc = hk_error_set(err, -ENOMEM, "no memory for the router");
	if (r) {
		memset(r, 0, sizeof(*r));
		r->o = *o;
		r->listen = -1;
		r->o.control = NULL; /* set when the socket exists */
		r->forward.mode = o->mode;
		r->forward.ports = o->ports;
	}
	if (rc == 0)
		rc = hk_eal_init(&eal, err);
	if (rc == 0)
		rc = hk_fib_make(routes, &fib, err);
	if (rc == 0) {
		atomic_store(&r->fib, fib);
		r->forward.icmp = (struct hk_icmp_limit){
			.per_token = hk_eal_tsc_hz() / HK_MAX(o->icmp_rate, 1u),
			.last = rte_rdtsc(),
			.tokens = (o->icmp_rate + 9) / 10,
			.burst = (o->icmp_rate + 9) / 10}; /* the messages of a tenth of a second */
		rc = hk_pool_create("hk_router_own", OWN, HK_FORWARD_OWN, &r->forward.own, err);
	}
	if (rc == 0)
		rc = hk_pool_create_sized("hk_router_pieces", PIECES, 0,
					  RTE_PKTMBUF_HEADROOM + HK_ETHER_LEN + HK_IP4_HEADER_MAX,
					  &r->forward.pieces, err);
	if (rc == 0)
		rc = open_rcu(r, err);
	if (rc == 0)
		rc = hk_router_pools_open(r, err);
	if (rc == 0)
		rc = open_ports(r, routes, err);
	hk_routes_free(routes);
	if (rc == 0 && o->tap) {
		rc = hk_router_kernel_open(o->tap, &r->forward, fib, r->forward.own, &r->kernel,
					   err);
		r->forward.kernel = to_kernel;
		r->forward.kernel_arg = r;
		r->forward.requests = &r->requests;
	}
	if (rc == 0)
		rc = hk_router_control_open(r, o->control, err);
	if (rc) {
		hk_router_close(r);
		return rc;
	}
	*out = r;
	return 0;
}

void hk_router_close(struct hk_router *r)
{
	if (!r)
		return;
	hk_router_control_close(r);
	hk_router_kernel_close(r->kernel);
	for (unsigned i = 0; i < r->o.ports; i++)
		hk_port_stop(r->port[i]); /* a port holds packets that others received, from their
					     pools */
	for (unsigned i = 0; i < r->o.ports; i++)
		hk_port_close(r->port[i]);
	hk_router_pools_close(r);
	hk_pool_free(r->forward.own);
	hk_pool_free(r->forward.pieces);
	hk_pool_free(r->headers);
	hk_fib_free(atomic_load(&r->fib));
	rte_free(r->rcu);
	free(r);
}

/* ---- the data thread ------------------------------------------------------------------------- */

static void flush(struct hk_router *r, unsigned port)
{
	struct hk_forward_port *p = &r->forward.port[port];
	unsigned sent = 0, bytes = 0;

	for (unsigned i = 0; i < p->queued; i++)
		bytes += p->out[i]->pkt_len;
	if (HK_UNLIKELY(r->write_combined))
		rte_wmb(); /* order headers before the NIC's doorbell, as hk_pop_flush() does */
	while (sent < p->queued) {
		unsigned n = hk_port_tx(r->port[port], 0, p->out + sent,
					(uint16_t)(p->queued - sent));
		if (n == 0)
			break;
		sent += n;
	}
	if (HK_UNLIKELY(sent < p->queued)) {
		for (unsigned i = sent; i < p->queued; i++)
			bytes -= p->out[i]->pkt_len;
		r->tx_full[port] += p->queued - sent;
		rte_pktmbuf_free_bulk(p->out + sent, p->queued - sent);
	}
	p->count.out_packets += sent;
	p->count.out_bytes += bytes;
	p->queued = 0;
}

static HK_NOINLINE void apply_request(struct hk_router *r)
{
	struct hk_fib_request *l = &r->request;

	l->result = hk_fib_update(r->forward.fib, l->family, l->prefix, l->depth, l->cell,
				  l->implied);
	atomic_store_explicit(&l->posted, false, memory_order_release);
}

/* Sends the kernel's packets unchanged. */
static unsigned from_kernel(struct hk_router *r)
{
	void *m[HK_FIB_BURST];
	unsigned n = rte_ring_sc_dequeue_burst(r->kernel->from, m, HK_FIB_BURST, NULL);

	for (unsigned i = 0; i < n; i++)
		hk_forward_enqueue(&r->forward, ((struct rte_mbuf *)m[i])->port, m[i]);
	for (unsigned port = 0; n && port < r->o.ports; port++)
		if (r->forward.port[port].queued)
			flush(r, port);
	return n;
}

static void idle_sleep(void)
{
	const struct timespec t = {.tv_nsec = IDLE_SLEEP_NS};

	nanosleep(&t, NULL);
}

void hk_router_run(struct hk_router *r)
{
	struct rte_mbuf *m[HK_FIB_BURST];
	unsigned idle = 0;

	while (!atomic_load_explicit(&r->stop, memory_order_relaxed)) {
		unsigned got = 0;
		r->forward.fib = atomic_load_explicit(&r->fib, memory_order_acquire);
		for (unsigned i = 0; i < r->o.ports; i++) {
			unsigned n = hk_port_rx(r->port[i], 0, m, HK_FIB_BURST);
			if (n == 0)
				continue;
			got += n;
			if (HK_UNLIKELY(r->write_combined))
				rte_rmb(); /* do not read a header from before its descriptor's done
					      bit */
			hk_forward_burst(&r->forward, i, m, n);
			for (unsigned out = 0; out < r->o.ports; out++)
				if (r->forward.port[out].queued)
					flush(r, out);
		}
		if (r->kernel && HK_UNLIKELY(!rte_ring_empty(r->kernel->from)))
			got += from_kernel(r);
		if (HK_UNLIKELY(atomic_load_explicit(&r->request.posted, memory_order_acquire)))
			apply_request(r);
		rte_rcu_qsbr_quiescent(r->rcu, READER);
		idle = got ? 0 : idle + 1;
		if (HK_UNLIKELY(idle > IDLE_ROUNDS) && !r->o.spin)
			idle_sleep();
	}
	rte_rcu_qsbr_thread_offline(r->rcu, READER);
	hk_router_control_close(r);
}

void hk_router_stop(struct hk_router *r)
{
	atomic_store(&r->stop, true);
}

void hk_router_reload(struct hk_router *r)
{
	atomic_store(&r->reload, true);
	hk_router_control_wake(r);
}

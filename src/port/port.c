/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/port.c: opening and closing ports.
 *
 * Opening has the same steps for every kind of port:
 *  1. DPDK creates the device, and the driver limits the size of a frame (device.c).
 *  2. The port creates its frame buffers (pool.c).
 *  3. It configures the queues (queues.c) and starts the device.
 *
 * Buffers are as large as the largest frame, so a received frame lies in one mbuf.
 */
#include "port/wakeup.h"
#include "port/internal.h"
#include "port/pipe.h"
#include "port/priority.h"
#include "port/split.h"
#include "port/udp.h"
#include "port/xsk.h"

#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The arguments of the functions that open a port: one queue with `buffers` or `pool`, or `queues`,
 * or up to `steered` queues with `buffers`. */
struct wanted {
	const char *spec;
	unsigned buffers;
	struct rte_mempool *pool;
	unsigned sharers; /* 0 and 1: nobody shares the port */
	const struct hk_port_queues *queues;
	unsigned steered;
	const struct hk_steer_match *sample;
	const struct hk_split *split;
	unsigned ring_socket; /* 0: any */
	int timeout_ms;
};

static int wait_link(struct hk_port_impl *p, int64_t deadline, int timeout_ms,
		     struct hk_error *err);

static int open_device(struct hk_port_impl *p, const struct wanted *w, int64_t deadline,
		       struct hk_error *err)
{
	struct rte_eth_dev_info dev;
	int rc = hk_device_make(p, err);

	if (rc == 0)
		rc = hk_device_query(p, &dev, err);
	if (rc == 0 && w->steered)
		hk_queues_choose(p, &dev, w->steered);
	if (rc == 0)
		rc = w->queues ? hk_queues_check(p, &dev, w->queues, err)
			       : hk_pool_make(p, w->buffers, w->pool, err);
	if (rc == 0)
		rc = hk_queues_configure(p, &dev, w->queues, w->split, err);
	if (rc == 0)
		rc = hk_device_start(p, deadline, err);
	if (rc == 0 && w->steered && p->port.info.queues > 1)
		rc = hk_queues_steer(p, &dev, w->sample, deadline, err);
	return rc;
}

/* Opens a port on a socket, without DPDK. */
static int open_socket(struct hk_port_impl *p, const struct wanted *w, int64_t deadline,
		       struct hk_error *err)
{
	bool xdp = p->spec.kind == HK_SPEC_AF_XDP;

	if (w->queues || w->split)
		return hk_error_set(err, -ENOTSUP,
				    "port %s: %s socket has one queue; fix: use mode inline",
				    w->spec, xdp ? "an AF_XDP" : "a UDP");
	if (!xdp)
		return hk_udp_open(p, w->buffers, w->pool, w->sharers, deadline, err);
	enum hk_helper_take take = p->spec.take_all ? HK_HELPER_TAKE_ALL
				   : w->sharers > 1 ? HK_HELPER_TAKE_CLAIMED
						    : HK_HELPER_TAKE_OURS;
	int rc = hk_device_check_netdev(p, HK_PORT_FRAME_LIMIT, err);

	if (rc == 0 && p->spec.take_all)
		rc = hk_device_check_uplink(&p->spec, err);
	return rc ? rc : hk_xsk_open(p, w->buffers, w->pool, take, w->sharers, deadline, err);
}

static int open_port(const struct wanted *w, struct hk_port **port, struct hk_error *err)
{
	int64_t deadline = hk_clock_ms() + w->timeout_ms;

	*port = NULL;
	if (hk_eal_role() == HK_EAL_SECONDARY)
		return hk_error_set(
			err, -EPERM,
			"port %s: a secondary process does not open ports; fix: open it "
			"in the primary process, and attach to it here",
			w->spec);
	struct hk_port_impl *p = calloc(1, sizeof(*p));

	if (!p)
		return hk_error_set(err, -ENOMEM, "no memory for port %s", w->spec);
	int rc = hk_spec_parse(w->spec, &p->spec, err);

	memcpy(p->port.info.spec, p->spec.text, sizeof(p->port.info.spec));
	p->ring_socket = w->ring_socket;
	if (rc == 0)
		rc = hk_spec_is_socket(&p->spec) ? open_socket(p, w, deadline, err)
						 : open_device(p, w, deadline, err);
	if (rc == 0 && p->spec.priority)
		rc = hk_priority_attach(&p->port, p->spec.priority, err);
	if (rc == 0 && p->spec.faulty)
		rc = hk_faults_attach(&p->port, &p->spec.faults, err);
	if (rc == 0 && !(p->spec.kind == HK_SPEC_MEMIF && p->spec.server))
		rc = wait_link(p, deadline, w->timeout_ms, err);
	if (rc) {
		hk_port_close(&p->port);
		return rc;
	}
	if (!hk_spec_is_socket(&p->spec))
		hk_device_describe(p);
	if (w->queues && hk_share_publish(p, err) != 0) {
		hk_port_close(&p->port);
		return -ENOMEM;
	}
	if (!(p->spec.kind == HK_SPEC_MEMIF && p->spec.server))
		hk_share_state(p, HK_SHARE_UP);
	*port = &p->port;
	return 0;
}

int hk_port_open(const char *spec, unsigned buffers, struct rte_mempool *pool, int timeout_ms,
		 struct hk_port **port, struct hk_error *err)
{
	const struct wanted w = {
		.spec = spec, .buffers = buffers, .pool = pool, .timeout_ms = timeout_ms};
	return open_port(&w, port, err);
}

int hk_port_open_shared(const char *spec, unsigned buffers, struct rte_mempool *pool,
			unsigned sharers, int timeout_ms, struct hk_port **port,
			struct hk_error *err)
{
	const struct wanted w = {.spec = spec,
				 .buffers = buffers,
				 .pool = pool,
				 .sharers = sharers,
				 .timeout_ms = timeout_ms};
	return open_port(&w, port, err);
}

int hk_port_claim(struct hk_port *port, uint32_t job, uint32_t endpoint, struct hk_error *err)
{
	struct hk_port_impl *p = (struct hk_port_impl *)port;

	return p->xsk && !p->udp ? hk_xsk_claim(p, job, endpoint, err) : 0;
}

int hk_port_open_queues(const char *spec, const struct hk_port_queues *q, int timeout_ms,
			struct hk_port **port, struct hk_error *err)
{
	const struct wanted w = {.spec = spec, .queues = q, .timeout_ms = timeout_ms};
	return open_port(&w, port, err);
}

int hk_port_open_rings(const char *spec, struct rte_mempool *pool, unsigned socket, int timeout_ms,
		       struct hk_port **port, struct hk_error *err)
{
	const struct wanted w = {
		.spec = spec, .pool = pool, .ring_socket = socket, .timeout_ms = timeout_ms};
	return open_port(&w, port, err);
}

int hk_port_open_split(const char *spec, struct rte_mempool *first, unsigned bytes,
		       struct rte_mempool *rest, int timeout_ms, struct hk_port **port,
		       struct hk_error *err)
{
	const struct hk_split split = {first, bytes};
	const struct wanted w = {
		.spec = spec, .pool = rest, .split = &split, .timeout_ms = timeout_ms};
	return open_port(&w, port, err);
}

int hk_port_open_steered(const char *spec, unsigned buffers, unsigned queues,
			 const struct hk_steer_match *sample, int timeout_ms, struct hk_port **port,
			 struct hk_error *err)
{
	const struct wanted w = {.spec = spec,
				 .buffers = buffers,
				 .steered = HK_MAX(queues, 1u),
				 .sample = sample,
				 .timeout_ms = timeout_ms};
	return open_port(&w, port, err);
}

void hk_port_close(struct hk_port *port)
{
	struct hk_port_impl *p = (struct hk_port_impl *)port;
	if (!p)
		return;
	hk_tap_forget(port);
	hk_share_state(p, HK_SHARE_CLOSED);
	bool memif_server = p->spec.kind == HK_SPEC_MEMIF && p->spec.server;
	hk_faults_detach(port);
	hk_steer_end(p);
	hk_udp_close(p);
	hk_xsk_close(p);
	if (memif_server && p->dev_name[0])
		hk_memif_unlisten(p->spec.socket);
	if (p->dev_name[0])
		hk_device_remove(p);
	if (p->started && memif_server)
		(void)unlink(p->spec.socket);
	if (p->guard && hk_eal_role() == HK_EAL_PRIMARY) {
		hk_wakeup_unlisten_wire(port);
		(void)hk_wakeup_take_wire(port->id);
	}
	hk_memif_guard_free(p->guard);
	hk_priority_detach(port);
	if (p->own_pool && !hk_pools_left())
		hk_pool_delete(port->pool);
	free(p);
}

/* ---- links ----------------------------------------------------------------------------------- */

/* Arms the guard of a memif that is up. This must happen before anybody polls it. */
static int guard_link(struct hk_port_impl *p, struct hk_error *err)
{
	if (p->spec.kind != HK_SPEC_MEMIF || p->guard)
		return 0;
	int rc = hk_memif_guard_arm(p->spec.socket, p->spec.server, &p->guard, err);

	if (rc == 0 && hk_eal_role() == HK_EAL_PRIMARY)
		hk_wakeup_set_wire(p->port.id, hk_memif_guard_socket(p->guard));
	return rc;
}

static bool driver_link(const struct hk_port *port)
{
	const struct hk_port_impl *p = (const struct hk_port_impl *)port;
	struct rte_eth_link link;

	if (p->udp)
		return true; /* a socket sends whenever the kernel has a route */
	if (p->xsk)
		return hk_xsk_alive(p) && hk_netdev_carrier(p->spec.iface);
	return rte_eth_link_get_nowait(port->id, &link) == 0 && link.link_status;
}

bool hk_port_link(struct hk_port *port)
{
	struct hk_port_impl *p = (struct hk_port_impl *)port;
	if (p->attached)
		return hk_share_link(p);
	bool up = p->guard ? hk_memif_guard_alive(p->guard)
			   : driver_link(port) && guard_link(p, NULL) == 0;
	hk_share_state(p, up ? HK_SHARE_UP : HK_SHARE_DOWN);
	return up;
}

bool hk_port_fault(struct hk_port *port, char *text, size_t len)
{
	const struct hk_port_impl *p = (const struct hk_port_impl *)port;

	if (hk_port_link(port))
		return false;
	if (p->xsk && !hk_xsk_alive(p))
		snprintf(text, len, "the hikyaku-helper that serves port %s has ended",
			 port->info.spec);
	else
		snprintf(text, len, "port %s has no link", port->info.spec);
	return true;
}

/* @timeout_ms is the caller's limit, for the error text; part of it may have passed. */
static int wait_link(struct hk_port_impl *p, int64_t deadline, int timeout_ms, struct hk_error *err)
{
	struct hk_port *port = &p->port;
	bool memif = p->spec.kind == HK_SPEC_MEMIF;

	while (p->attached ? !hk_share_link(p) : !p->guard && !driver_link(port)) {
		if (p->xsk && !hk_xsk_alive(p))
			return hk_error_set(err, -EPIPE,
					    "port %s: the hikyaku-helper that serves it has ended; "
					    "fix: start this process again",
					    port->info.spec);
		if (hk_clock_ms() >= deadline)
			return hk_error_set(err, -ETIMEDOUT, "port %s: %s within %d ms; fix: %s",
					    port->info.spec,
					    memif ? "the other end of the wire has not connected"
						  : "the link has not come up",
					    timeout_ms,
					    memif ? "start the other process, or see why it failed"
						  : "check the cable and the switch, or the peer");
		hk_pause_1ms();
	}
	if (p->attached)
		return 0;
	int rc = guard_link(p, err);
	if (rc == 0)
		hk_share_state(p, HK_SHARE_UP);
	return rc;
}

int hk_port_wait_link(struct hk_port *port, int timeout_ms, struct hk_error *err)
{
	return wait_link((struct hk_port_impl *)port, hk_clock_ms() + timeout_ms, timeout_ms, err);
}

int hk_port_wait_fd(const struct hk_port *port)
{
	const struct hk_port_impl *p = (const struct hk_port_impl *)port;

	switch (p->spec.kind) {
	case HK_SPEC_AF_PACKET:
		return hk_netdev_socket(if_nametoindex(p->spec.iface));
	case HK_SPEC_AF_XDP:
		return hk_xsk_fd(p);
	case HK_SPEC_UDP:
		return hk_udp_fd(p);
	default:
		return -1;
	}
}

uint64_t hk_port_network(const struct hk_port *port)
{
	const struct hk_port_impl *p = (const struct hk_port_impl *)port;

	return p->spec.kind == HK_SPEC_AF_PACKET || p->spec.kind == HK_SPEC_AF_XDP
		       ? hk_netdev_network(p->spec.iface)
		       : 0;
}

bool hk_port_address(const struct hk_port *port, uint8_t address[HK_PORT_ADDRESS])
{
	const struct hk_port_impl *p = (const struct hk_port_impl *)port;

	return p->spec.kind == HK_SPEC_UDP && hk_udp_address(p, address);
}

int hk_port_meets(const struct hk_port *port, bool has_address, struct hk_error *err)
{
	const struct hk_port_impl *p = (const struct hk_port_impl *)port;

	if (port->info.ip6 == has_address)
		return 0;
	return hk_error_set(err, -EAFNOSUPPORT,
			    "port %s is of IPv%d, and that of the peer is not; fix: add "
			    "ip=4 or ip=6 on all nodes",
			    p->spec.text, has_address ? 4 : 6);
}

int hk_port_know(struct hk_port *port, const uint8_t *address, struct hk_error *err)
{
	int rc = hk_port_meets(port, address != NULL, err);

	return rc == 0 && address ? hk_udp_know((struct hk_port_impl *)port, address, err) : rc;
}

bool hk_port_advice(const struct hk_port *port, char *text, size_t len)
{
	const struct hk_port_impl *p = (const struct hk_port_impl *)port;

	return p->spec.kind == HK_SPEC_UDP && hk_udp_advice(p, text, len);
}

/* ---- rx and tx that are more than the driver's ----------------------------------------------- */

uint16_t hk_port_rx_wrapped(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	if (port->pipe)
		return hk_pipe_rx(port, m, n);
	return port->info.priority ? hk_priority_rx(port, queue, m, n)
				   : hk_faults_rx(port, queue, m, n);
}

uint16_t hk_port_tx_wrapped(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	if (port->pipe)
		return hk_pipe_tx(port, m, n);
	return port->info.priority ? hk_priority_tx(port, queue, m, n)
				   : hk_faults_tx(port, queue, m, n);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/port.c: opening and closing ports.
 *
 * Every kind of port goes through the same steps: check what the system offers (so that errors
 * speak of interfaces and sockets, not of drivers), let DPDK make the device, learn from it how
 * large a frame may be, make buffers for it (pool.c), configure, start. What differs is in the
 * `prepare` functions, here and in memif.c.
 *
 * A received frame lies in one mbuf: buffers are made as large as the largest frame.
 *
 * RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE is never asked for: callers keep references to what they sent.
 */
#include "port/bell.h"
#include "port/internal.h"
#include "port/pipe.h"
#include "port/split.h"

#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rte_bus_vdev.h>
#include <rte_dev.h>
#include <rte_errno.h>

#define FRAME_LIMIT     9216 /* larger frames gain nothing, and buffers are made this large */
#define AF_PACKET_RING  512
#define NIC_RING        1024
#define STEERED_RINGS   4096 /* descriptors that several receive queues share between them */
#define ETH_HLEN_NO_FCS 14

/* ---- kernel interfaces ----------------------------------------------------------------------- */

static int check_netdev(struct hk_port_impl *p, bool admin, unsigned limit, struct hk_error *err)
{
	const struct hk_spec *s = &p->spec;
	struct hk_netdev dev;
	int rc = hk_netdev_may_open(s->text, admin, err);
	if (rc == 0)
		rc = hk_netdev_get(s->text, s->iface, &dev, err);
	if (rc)
		return rc;
	if (!dev.up)
		return hk_error_set(err, -ENETDOWN,
				    "port %s: the interface %s is down; fix: ip link set %s up",
				    s->text, s->iface, s->iface);
	p->port.info.frame_max = (uint16_t)HK_MIN(dev.mtu + ETH_HLEN_NO_FCS, limit);
	return 0;
}

static int prepare_af_packet(struct hk_port_impl *p, char *args, size_t len, struct hk_error *err)
{
	const struct hk_spec *s = &p->spec;
	int rc = check_netdev(p, false, FRAME_LIMIT, err);
	if (rc)
		return rc;
	/* the slot holds the kernel's header (at most 128 bytes) too; blocks hold whole slots */
	unsigned slot = 2048, ring = 1u << hk_log2(s->ring ? s->ring : AF_PACKET_RING);
	while (slot < p->port.info.frame_max + 128u)
		slot *= 2;
	unsigned block = HK_MAX(slot, 4096u);
	p->port.info.rx_ring = (uint16_t)ring;
	snprintf(args, len, "iface=%s,qpairs=1,framesz=%u,blocksz=%u,framecnt=%u", s->iface, slot,
		 block, ring);
	return 0;
}

static int prepare_af_xdp(struct hk_port_impl *p, char *args, size_t len, struct hk_error *err)
{
	const struct hk_spec *s = &p->spec;
	int rc = check_netdev(p, true, HK_AF_XDP_FRAME, err);
	if (rc == 0)
		rc = hk_xdp_prepare(s->text, s->iface, &p->queues_tested, err);
	if (rc)
		return rc;
	p->port.info.rx_ring = 2048;
	snprintf(args, len, "iface=%s,start_queue=%u,queue_count=1,force_copy=%d,busy_budget=%u",
		 s->iface, s->queue, s->mode == HK_SPEC_MODE_COPY, s->busy);
	return 0;
}

/* ---- any device ------------------------------------------------------------------------------ */

static int probe(struct hk_port_impl *p, struct hk_error *err)
{
	static const char *const drivers[] = {[HK_SPEC_MEMIF] = "net_memif",
					      [HK_SPEC_AF_XDP] = "net_af_xdp",
					      [HK_SPEC_AF_PACKET] = "net_af_packet"};
	static unsigned serial; /* ports are opened by one thread */
	const struct hk_spec *s = &p->spec;
	char args[512] = "";
	int rc = 0;

	p->is_vdev = s->kind != HK_SPEC_PCI;
	switch (s->kind) {
	case HK_SPEC_MEMIF:
		rc = hk_memif_prepare(p, args, sizeof(args), err);
		break;
	case HK_SPEC_AF_PACKET:
		rc = prepare_af_packet(p, args, sizeof(args), err);
		break;
	case HK_SPEC_AF_XDP:
		rc = prepare_af_xdp(p, args, sizeof(args), err);
		break;
	case HK_SPEC_MEMIF_SET:
		return hk_error_set(err, -EINVAL,
				    "port %s: this names a place for wires, not one port; "
				    "fix: name one wire, memif:socket=PATH,role=server|client",
				    s->text);
	default:
		break;
	}
	if (rc)
		return rc;

	if (s->kind == HK_SPEC_PCI || s->kind == HK_SPEC_VDEV) {
		const char *comma = strchr(s->device, ',');
		size_t n = comma ? (size_t)(comma - s->device) : strlen(s->device);
		if (n >= sizeof(p->dev_name))
			return hk_error_set(err, -EINVAL,
					    "port %s: the device name is longer "
					    "than %zu characters; fix: shorten it",
					    s->text, sizeof(p->dev_name) - 1);
		memcpy(p->dev_name, s->device, n);
		if (comma)
			snprintf(args, sizeof(args), "%s", comma + 1);
	} else {
		snprintf(p->dev_name, sizeof(p->dev_name), "%s_hk%u", drivers[s->kind], serial++);
	}

	if (p->is_vdev && rte_eth_dev_get_port_by_name(p->dev_name, &p->port.id) == 0) {
		p->dev_name[0] = '\0'; /* not ours to remove */
		return hk_error_set(err, -EBUSY,
				    "port %s: this process has a device of that name already; "
				    "fix: give each port another name",
				    s->text);
	}
	hk_dpdk_said_clear();
	if (p->is_vdev && hk_eal_role() == HK_EAL_PRIMARY) {
		rc = rte_vdev_init(p->dev_name, args); /* for this process alone: port/shared.c */
	} else if (p->is_vdev) {
		rc = rte_eal_hotplug_add("vdev", p->dev_name, args);
	} else if (rte_eth_dev_get_port_by_name(p->dev_name, &p->port.id) != 0) {
		/* probed by hk_eal_init() if it was allowed, present, and has a driver */
		p->dev_name[0] = '\0';
		return hk_error_set(
			err, -ENODEV,
			"port %s: no DPDK driver has taken this device; fix: check the address "
			"(lspci -D), bind it (dpdk-devbind.py -b vfio-pci %s), and give it to "
			"hk_eal_init()",
			s->text, s->device);
	}
	if (rc == 0)
		rc = rte_eth_dev_get_port_by_name(p->dev_name, &p->port.id);
	if (rc == 0)
		return 0;
	p->dev_name[0] = '\0';
	return hk_error_set(err, -ENODEV, "port %s: DPDK cannot make the device%s%s; fix: %s",
			    s->text, *hk_dpdk_said() ? ": " : "", hk_dpdk_said(),
			    s->kind == HK_SPEC_VDEV
				    ? "check the driver's name and its arguments (DPDK's guide "
				      "to NICs lists them)"
				    : "check that no other process uses it, and that DPDK's "
				      "drivers are installed (dpdk-dev)");
}

static int learn(struct hk_port_impl *p, struct rte_eth_dev_info *dev, struct hk_error *err)
{
	struct hk_port_info *info = &p->port.info;
	int rc = rte_eth_dev_info_get(p->port.id, dev);
	if (rc)
		return hk_error_set(err, rc,
				    "port %s: the driver does not describe its device: "
				    "%s; fix: use another driver",
				    info->spec, rte_strerror(-rc));
	snprintf(info->driver, sizeof(info->driver), "%s", dev->driver_name);
	info->queues = 1;
	info->numa = rte_eth_dev_socket_id(p->port.id);
	/* AF_XDP's driver copies what lies in other pools than its own, which is what is asked here */
	info->copies_at_tx = p->spec.kind == HK_SPEC_MEMIF || p->spec.kind == HK_SPEC_AF_PACKET ||
			     p->spec.kind == HK_SPEC_AF_XDP;
	info->tx_multi_seg = dev->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	if (!info->rx_ring)
		info->rx_ring = (uint16_t)(p->spec.ring ? p->spec.ring : NIC_RING);
	if (!info->frame_max) { /* a NIC: what the driver says, without the FCS */
		uint32_t len = dev->max_rx_pktlen ? dev->max_rx_pktlen : RTE_ETHER_MAX_LEN;
		if (dev->max_mtu && dev->max_mtu != UINT16_MAX)
			len = HK_MIN(len, dev->max_mtu + (uint32_t)ETH_HLEN_NO_FCS + 4);
		info->frame_max = (uint16_t)HK_MIN(len - 4, (uint32_t)FRAME_LIMIT);
		if (p->spec.frame)
			info->frame_max = (uint16_t)HK_MIN(info->frame_max, p->spec.frame);
	}
	return 0;
}

static int check_queues(struct hk_port_impl *p, const struct rte_eth_dev_info *dev,
			const struct hk_port_queues *q, struct hk_error *err)
{
	struct hk_port_info *info = &p->port.info;
	unsigned most = HK_MIN(dev->max_rx_queues, dev->max_tx_queues);
	if (q->count == 0 || q->count > most)
		return hk_error_set(err, -ERANGE,
				    "port %s: %u queues are asked for, and %s has 1 to %u; fix: "
				    "let fewer processes share the port",
				    info->spec, q->count, info->driver, most);
	int rc = p->spec.kind == HK_SPEC_MEMIF ? hk_memif_check_queues(p, q->count, err) : 0;
	for (unsigned i = 0; rc == 0 && i < q->count; i++)
		rc = hk_pool_suits(p, q->pool[i], err);
	info->queues = (uint16_t)q->count;
	return rc;
}

/* @q: NULL: one queue, with the port's pool. @split: the buffers of frames' first bytes; NULL: none are split off. */
struct split {
	struct rte_mempool *first;
	unsigned bytes;
};

static int configure(struct hk_port_impl *p, const struct rte_eth_dev_info *dev,
		     const struct hk_port_queues *q, const struct split *split,
		     struct hk_error *err)
{
	struct hk_port_info *info = &p->port.info;
	struct rte_eth_conf conf = {.rxmode = {.mq_mode = RTE_ETH_MQ_RX_NONE},
				    .txmode = {.mq_mode = RTE_ETH_MQ_TX_NONE}};
	uint16_t rx = info->rx_ring, tx = rx, n = info->queues;
	bool nic = p->spec.kind == HK_SPEC_PCI;
	const char *step = "configure";

	if (nic)
		conf.rxmode.mtu = info->frame_max - ETH_HLEN_NO_FCS;
	if (info->tx_multi_seg)
		conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;

	if (split)
		conf.rxmode.offloads |= hk_split_offloads(dev);

	hk_dpdk_said_clear();
	int rc = rte_eth_dev_configure(p->port.id, n, n, &conf);
	p->configured = rc == 0;
	if (rc == 0) {
		step = "size the rings of";
		rc = rte_eth_dev_adjust_nb_rx_tx_desc(p->port.id, &rx, &tx);
	}
	for (uint16_t i = 0; rc == 0 && i < n; i++) {
		struct rte_eth_rxconf rxq = dev->default_rxconf;
		struct rte_mempool *pool = q ? q->pool[i] : p->port.pool;
		union rte_eth_rxseg seg[2];
		rxq.offloads = conf.rxmode.offloads;
		if (split) {
			hk_split_queue(&rxq, seg, split->first, split->bytes, pool);
			pool = NULL;
		}
		info->rx_ring = rx;
		step = "set up the receive queue of";
		rc = rte_eth_rx_queue_setup(p->port.id, i, rx, SOCKET_ID_ANY, &rxq, pool);
	}
	for (uint16_t i = 0; rc == 0 && i < n; i++) {
		struct rte_eth_txconf txq = dev->default_txconf;
		txq.offloads = conf.txmode.offloads;
		step = "set up the send queue of";
		rc = rte_eth_tx_queue_setup(p->port.id, i, tx, SOCKET_ID_ANY, &txq);
	}
	if (rc == 0)
		return 0;
	return hk_error_set(err, rc, "port %s: cannot %s the device: %s%s%s; fix: %s", info->spec,
			    step, rte_strerror(-rc), *hk_dpdk_said() ? ": " : "", hk_dpdk_said(),
			    p->spec.kind == HK_SPEC_AF_XDP
				    ? "check that no other process uses this queue (ip link show "
				      "tells of XDP programs), and that the MTU is at most 3506"
				    : "see what the driver says above");
}

static int start(struct hk_port_impl *p, int64_t deadline, struct hk_error *err)
{
	const struct hk_spec *s = &p->spec;
	bool client = s->kind == HK_SPEC_MEMIF && !s->server;
	int rc;

	while (client && access(s->socket, F_OK) != 0) {
		if (hk_now_ms() >= deadline)
			return hk_error_set(err, -ETIMEDOUT,
					    "port %s: the server end of this wire has not come "
					    "(no socket %s); fix: start the other process, or see "
					    "why it failed",
					    s->text, s->socket);
		hk_pause_1ms();
	}
	hk_dpdk_said_clear();
	while ((rc = rte_eth_dev_start(p->port.id)) != 0 && client && hk_now_ms() < deadline)
		hk_pause_1ms(); /* bound, but not listening yet */
	if (rc)
		return hk_error_set(err, client ? -ECONNREFUSED : rc,
				    "port %s: cannot start the device: %s%s%s; fix: %s", s->text,
				    rte_strerror(-rc), *hk_dpdk_said() ? ": " : "", hk_dpdk_said(),
				    client ? "remove the socket if the process that made it has "
					     "gone, and start that again"
					   : "see what the driver says above");
	p->started = true;
	return s->kind == HK_SPEC_MEMIF && s->server ? hk_memif_publish(s, err) : 0;
}

static void describe(struct hk_port_impl *p)
{
	struct hk_port_info *info = &p->port.info;
	struct rte_eth_link link;
	struct rte_ether_addr mac;
	if (rte_eth_macaddr_get(p->port.id, &mac) == 0)
		memcpy(info->mac, mac.addr_bytes, sizeof(info->mac));
	/* the speeds of virtual devices are made up */
	if (!p->is_vdev && rte_eth_link_get_nowait(p->port.id, &link) == 0 &&
	    link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN)
		info->link_mbps = link.link_speed;
}

int hk_port_spec_eal(const char *spec, struct hk_eal_config *cfg, struct hk_error *err)
{
	struct hk_spec s;
	int rc = hk_spec_parse(spec, &s, err);
	if (rc || s.kind != HK_SPEC_PCI)
		return rc;
	cfg->hugepages = true;
	size_t n = strlen(cfg->pci_allow);
	if (n + strlen(s.device) + 2 > sizeof(cfg->pci_allow))
		return hk_error_set(err, -EINVAL,
				    "port %s: too many PCI devices; fix: open fewer "
				    "in one process",
				    s.text);
	snprintf(cfg->pci_allow + n, sizeof(cfg->pci_allow) - n, "%s%s", n ? " " : "", s.device);
	return 0;
}

/* What a caller asks for: one queue with @buffers or @pool, or @queues, or up to @steered with @buffers. */
struct wanted {
	const char *spec;
	unsigned buffers;
	struct rte_mempool *pool;
	const struct hk_port_queues *queues;
	unsigned steered;
	const struct hk_steer_match *sample;
	const struct split *split;
};

/* Takes as many queues as can be steered to, before buffers are made for their rings. */
static void take_queues(struct hk_port_impl *p, const struct rte_eth_dev_info *dev, unsigned wanted)
{
	struct hk_port_info *info = &p->port.info;
	unsigned has = HK_MIN(dev->max_rx_queues, dev->max_tx_queues);
	unsigned n = HK_MIN(HK_MIN(wanted, has), (unsigned)HK_STEER_MAX_QUEUES);
	char why[80];

	if (p->spec.kind != HK_SPEC_PCI && p->spec.kind != HK_SPEC_VDEV) {
		snprintf(why, sizeof(why), "not asked: %s is opened with one queue", info->driver);
		hk_steer_out(p, why);
	} else if (n < 2) {
		snprintf(why, sizeof(why), "%s has %u receive queue%s here", info->driver, has,
			 has == 1 ? "" : "s");
		hk_steer_out(p, why);
	} else {
		info->queues = (uint16_t)n;
		info->rx_ring = (uint16_t)HK_MIN(HK_MAX(1u << hk_log2(STEERED_RINGS / n), 128u),
						 (unsigned)NIC_RING);
	}
}

/* Asks for rules. Without any, frames of a NIC shall come by one queue; a virtual device may spread them over
 * all that it has (net_af_packet), and may not survive to be configured anew. */
static int steer(struct hk_port_impl *p, const struct rte_eth_dev_info *dev,
		 const struct hk_steer_match *sample, int64_t deadline, struct hk_error *err)
{
	hk_steer_begin(p, sample);
	p->port.info.steered = p->steer != NULL;
	p->port.info.more_queues = (uint16_t)(p->port.info.queues - 1);
	if (p->steer || p->is_vdev)
		return 0;
	p->port.info.more_queues = 0;
	int rc = rte_eth_dev_stop(p->port.id);

	p->started = false;
	if (rc)
		return hk_error_set(err, rc,
				    "port %s: cannot stop the device to use fewer queues: "
				    "%s; fix: use another driver",
				    p->spec.text, rte_strerror(-rc));
	p->port.info.queues = 1;
	p->port.info.rx_ring = (uint16_t)(p->spec.ring ? p->spec.ring : NIC_RING);
	rc = configure(p, dev, NULL, NULL, err);
	return rc ? rc : start(p, deadline, err);
}

/* Configures, with a split if one is wanted and the driver takes it. */
static int configure_split(struct hk_port_impl *p, const struct rte_eth_dev_info *dev,
			   const struct wanted *w, struct hk_error *err)
{
	struct hk_port_info *info = &p->port.info;

	if (!w->split)
		return configure(p, dev, w->queues, NULL, err);
	info->no_split = hk_split_refusal(dev, w->split->bytes);
	if (!info->no_split) {
		info->split = configure(p, dev, w->queues, w->split, err) == 0;
		if (info->split)
			return 0;
		info->no_split = "the driver offers it, and refuses the queue";
	}
	return configure(p, dev, w->queues, NULL, err);
}

/* One try. @unbound: it failed because an AF_XDP queue is taken, or cannot be bound yet. @tested: the
 * queues were found free; another test would only be in our own way. */
static int open_once(const struct wanted *w, int64_t deadline, struct hk_port **port, bool *tested,
		     bool *unbound, struct hk_error *err)
{
	struct rte_eth_dev_info dev;
	struct hk_port_impl *p = calloc(1, sizeof(*p));
	*port = NULL;
	if (!p)
		return hk_error_set(err, -ENOMEM, "no memory for port %s", w->spec);

	p->queues_tested = *tested;
	int rc = hk_spec_parse(w->spec, &p->spec, err);
	memcpy(p->port.info.spec, p->spec.text, sizeof(p->port.info.spec));
	if (rc == 0)
		rc = probe(p, err);
	*unbound = rc == -EBUSY && p->spec.kind == HK_SPEC_AF_XDP;
	*tested = p->queues_tested;
	if (rc == 0)
		rc = learn(p, &dev, err);
	if (rc == 0 && w->steered)
		take_queues(p, &dev, w->steered);
	if (rc == 0)
		rc = w->queues ? check_queues(p, &dev, w->queues, err)
			       : hk_pool_make(p, w->buffers, w->pool, err);
	if (p->spec.kind == HK_SPEC_AF_XDP)
		hk_xdp_driver_enter(hk_eal_verbose());
	if (rc == 0)
		rc = configure_split(p, &dev, w, err);
	if (p->spec.kind == HK_SPEC_AF_XDP) {
		hk_xdp_driver_leave();
		*unbound |= rc != 0 && p->configured;
	}
	if (rc == 0)
		rc = start(p, deadline, err);
	if (rc == 0 && w->steered && p->port.info.queues > 1)
		rc = steer(p, &dev, w->sample, deadline, err);
	if (rc == 0 && p->spec.faulty)
		rc = hk_faults_attach(&p->port, &p->spec.faults, err);
	if (rc == 0 && !(p->spec.kind == HK_SPEC_MEMIF && p->spec.server))
		rc = hk_port_wait_link(&p->port, (int)HK_MAX(0, deadline - hk_now_ms()), err);
	if (rc) {
		hk_port_close(&p->port);
		return rc;
	}
	describe(p);
	if (w->queues && hk_share_publish(p, err) != 0) {
		hk_port_close(&p->port);
		return -ENOMEM;
	}
	if (!(p->spec.kind == HK_SPEC_MEMIF && p->spec.server))
		hk_share_state(p, HK_SHARE_UP);
	*port = &p->port;
	return 0;
}

/* The kernel takes an AF_XDP socket down a moment after it was closed, be it by the end of another
 * process or by our own test of the queue, and does not bind the queue anew before. */
#define UNBIND_WAIT_MS 3000

static int open_port(const struct wanted *w, int timeout_ms, struct hk_port **port,
		     struct hk_error *err)
{
	int64_t now = hk_now_ms(), deadline = now + timeout_ms;
	int64_t unbind_by = now + HK_MIN(timeout_ms, UNBIND_WAIT_MS);

	*port = NULL;
	if (hk_eal_role() == HK_EAL_SECONDARY)
		return hk_error_set(
			err, -EPERM,
			"port %s: a secondary process does not open ports; fix: open it "
			"in the primary process, and attach to it here",
			w->spec);
	for (bool tested = false;;) {
		bool unbound = false;
		int rc = open_once(w, deadline, port, &tested, &unbound, err);
		if (rc == 0 || !unbound || hk_now_ms() >= unbind_by)
			return rc;
		hk_pause_1ms();
	}
}

int hk_port_open(const char *spec, unsigned buffers, struct rte_mempool *pool, int timeout_ms,
		 struct hk_port **port, struct hk_error *err)
{
	const struct wanted w = {.spec = spec, .buffers = buffers, .pool = pool};
	return open_port(&w, timeout_ms, port, err);
}

int hk_port_open_queues(const char *spec, const struct hk_port_queues *q, int timeout_ms,
			struct hk_port **port, struct hk_error *err)
{
	const struct wanted w = {.spec = spec, .queues = q};
	return open_port(&w, timeout_ms, port, err);
}

int hk_port_open_split(const char *spec, struct rte_mempool *first, unsigned bytes,
		       struct rte_mempool *rest, int timeout_ms, struct hk_port **port,
		       struct hk_error *err)
{
	const struct split split = {first, bytes};
	const struct wanted w = {.spec = spec, .pool = rest, .split = &split};
	return open_port(&w, timeout_ms, port, err);
}

int hk_port_open_steered(const char *spec, unsigned buffers, unsigned queues,
			 const struct hk_steer_match *sample, int timeout_ms, struct hk_port **port,
			 struct hk_error *err)
{
	const struct wanted w = {
		.spec = spec, .buffers = buffers, .steered = HK_MAX(queues, 1u), .sample = sample};
	return open_port(&w, timeout_ms, port, err);
}

/* The memif driver says goodbye on a socket whose other end may have gone: no SIGPIPE may come of
 * that. */
struct no_sigpipe {
	sigset_t before, pending;
};

static void no_sigpipe_begin(struct no_sigpipe *n)
{
	sigset_t pipe_signal;

	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	sigpending(&n->pending);
	pthread_sigmask(SIG_BLOCK, &pipe_signal, &n->before);
}

static void no_sigpipe_end(const struct no_sigpipe *n)
{
	const struct timespec at_once = {0};
	sigset_t pipe_signal;

	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	if (!sigismember(&n->pending, SIGPIPE))
		(void)sigtimedwait(&pipe_signal, NULL, &at_once);
	pthread_sigmask(SIG_SETMASK, &n->before, NULL);
}

void hk_port_stop(struct hk_port *port)
{
	struct hk_port_impl *p = (struct hk_port_impl *)port;
	struct no_sigpipe guard;

	if (!p || !p->started || p->stopped)
		return;
	no_sigpipe_begin(&guard);
	(void)rte_eth_dev_stop(port->id);
	no_sigpipe_end(&guard);
	p->stopped = true;
}

/* Stops and removes the device. */
static void remove_device(struct hk_port_impl *p)
{
	struct no_sigpipe guard;

	hk_port_stop(&p->port);
	no_sigpipe_begin(&guard);
	(void)rte_eth_dev_close(p->port.id);
	if (p->is_vdev && hk_eal_role() == HK_EAL_PRIMARY)
		(void)rte_vdev_uninit(p->dev_name);
	else if (p->is_vdev)
		(void)rte_eal_hotplug_remove("vdev", p->dev_name);
	no_sigpipe_end(&guard);
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
	if (memif_server && p->dev_name[0])
		hk_memif_unlisten(p->spec.socket);
	if (p->dev_name[0])
		remove_device(p);
	if (p->dev_name[0] && p->spec.kind == HK_SPEC_AF_XDP)
		hk_xdp_cleanup(p->spec.iface);
	if (p->started && memif_server)
		(void)unlink(p->spec.socket);
	if (p->guard && hk_eal_role() == HK_EAL_PRIMARY) {
		hk_bell_unlisten_wire(port);
		(void)hk_bell_take_wire(port->id);
	}
	hk_memif_guard_free(p->guard);
	if (p->own_pool)
		rte_mempool_free(port->pool);
	free(p);
}

/* ---- links ----------------------------------------------------------------------------------- */

/* Once a memif is up, its guard must be armed before anybody polls it. */
static int guard_link(struct hk_port_impl *p, struct hk_error *err)
{
	if (p->spec.kind != HK_SPEC_MEMIF || p->guard)
		return 0;
	int rc = hk_memif_guard_arm(p->spec.socket, p->spec.server, &p->guard, err);

	if (rc == 0 && hk_eal_role() == HK_EAL_PRIMARY)
		hk_bell_set_wire(p->port.id, hk_memif_guard_socket(p->guard));
	return rc;
}

static bool driver_link(const struct hk_port *port)
{
	struct rte_eth_link link;
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

int hk_port_wait_link(struct hk_port *port, int timeout_ms, struct hk_error *err)
{
	struct hk_port_impl *p = (struct hk_port_impl *)port;
	int64_t deadline = hk_now_ms() + timeout_ms;
	bool memif = p->spec.kind == HK_SPEC_MEMIF;

	while (p->attached ? !hk_share_link(p) : !p->guard && !driver_link(port)) {
		if (hk_now_ms() >= deadline)
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

int hk_port_wait_fd(const struct hk_port *port)
{
	const struct hk_port_impl *p = (const struct hk_port_impl *)port;

	switch (p->spec.kind) {
	case HK_SPEC_AF_PACKET:
		return hk_netdev_socket(AF_PACKET, if_nametoindex(p->spec.iface));
	case HK_SPEC_AF_XDP:
		return hk_netdev_socket(AF_XDP, 0);
	default:
		return -1;
	}
}

/* ---- detours --------------------------------------------------------------------------------- */

uint16_t hk_port_rx_detour(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	return port->pipe ? hk_pipe_rx(port, m, n) : hk_faults_rx(port, queue, m, n);
}

uint16_t hk_port_tx_detour(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	return port->pipe ? hk_pipe_tx(port, m, n) : hk_faults_tx(port, queue, m, n);
}

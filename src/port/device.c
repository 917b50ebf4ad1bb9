/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/device.c: the DPDK device of a port: creation from the spec, description, start, stop and
 * removal.
 *
 * The code checks interfaces and sockets before it calls a driver, so that error texts speak of
 * them and not of drivers. The `prepare` functions, here and in memif.c, contain what differs
 * between kinds of ports.
 */
#include "port/internal.h"
#include "port/number.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_bus_vdev.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_pci.h>
#include <rte_version.h>

#define AF_PACKET_RING 512

/* ---- kernel interfaces ----------------------------------------------------------------------- */

int hk_device_check_netdev(struct hk_port_impl *p, unsigned limit, struct hk_error *err)
{
	const struct hk_spec *s = &p->spec;
	struct hk_netdev dev;
	int rc = hk_netdev_get(s->text, s->iface, &dev, err);

	if (rc)
		return rc;
	if (!dev.up)
		return hk_error_set(err, -ENETDOWN,
				    "port %s: the interface %s is down; fix: ip link set %s up",
				    s->text, s->iface, s->iface);
	p->port.info.frame_max = (uint16_t)HK_MIN(dev.mtu + RTE_ETHER_HDR_LEN, limit);
	return 0;
}

static int prepare_af_packet(struct hk_port_impl *p, char *args, size_t len, struct hk_error *err)
{
	const struct hk_spec *s = &p->spec;
	int rc = hk_netdev_may_open(s->text, err);

	if (rc == 0)
		rc = hk_device_check_netdev(p, HK_PORT_FRAME_LIMIT, err);
	if (rc)
		return rc;
	/* a slot also holds the kernel's header, at most 128 bytes; a block holds whole slots */
	unsigned slot = 2048, ring = 1u << hk_log2(s->ring ? s->ring : AF_PACKET_RING);
	while (slot < p->port.info.frame_max + 128u)
		slot *= 2;
	unsigned block = HK_MAX(slot, 4096u);
	p->port.info.rx_ring = (uint16_t)ring;
	snprintf(args, len, "iface=%s,qpairs=1,framesz=%u,blocksz=%u,framecnt=%u", s->iface, slot,
		 block, ring);
	return 0;
}

int hk_device_check_uplink(const struct hk_spec *s, struct hk_error *err)
{
	char by[IF_NAMESIZE] = "";
	int rc = s->force ? 0 : hk_netdev_uplink(s->text, s->iface, by, err);
	char at[HK_CONNECTION_LEN];
	if (rc == 0 && !s->force && hk_netdev_has_connection(s->iface, at))
		return hk_error_set(
			err, -EPERM,
			"port %s: TCP connections of this node use %s, such as the one at %s; "
			"take=all would take their frames from the kernel, also those of mpirun; "
			"fix: use an interface that nobody else needs, or leave out take=all, or "
			"add ,force=1 if nobody needs them",
			s->text, s->iface, at);
	if (rc <= 0)
		return rc;
	return hk_error_set(
		err, -EPERM,
		"port %s: the default route of this node leaves by %s%s%s; take=all takes all "
		"frames that arrive there from the kernel, also those of ssh and mpirun; "
		"fix: use an interface that nobody else needs, or leave out take=all, or "
		"add ,force=1 if nobody needs that route",
		s->text, s->iface, strcmp(by, s->iface) ? " below " : "",
		strcmp(by, s->iface) ? by : "");
}

/* ---- PCI devices ----------------------------------------------------------------------------- */

#define PCI_DEVICES "/sys/bus/pci/devices"

/* Says why EAL, which probes the devices of all specs when it starts, has not taken this one. */
static int refuse_untaken(const struct hk_spec *s, const char *device, struct hk_error *err)
{
	struct rte_pci_addr address = {0};
	char name[PCI_PRI_STR_SIZE], path[128], target[256];

	(void)rte_pci_addr_parse(device, &address);
	rte_pci_device_name(&address, name, sizeof(name));
	snprintf(path, sizeof(path), PCI_DEVICES "/%s", name);
	if (access(path, F_OK) != 0)
		return hk_error_set(err, -ENODEV,
				    "port %s: this machine has no PCI device %s; fix: give one "
				    "that it has: ls " PCI_DEVICES " (lspci -D describes them)",
				    s->text, name);
	snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver", name);
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	target[HK_MAX(n, 0)] = '\0';
	const char *slash = strrchr(target, '/');
	return hk_error_set(err, -ENODEV,
			    "port %s: no driver of DPDK has taken this device, which is bound to "
			    "%s; fix: as root: dpdk-devbind.py -b vfio-pci %s; if it is bound to "
			    "vfio-pci: see what this machine lacks: hikyaku doctor",
			    s->text, slash ? slash + 1 : "no driver", name);
}

/* ---- any device ------------------------------------------------------------------------------ */

int hk_device_make(struct hk_port_impl *p, struct hk_error *err)
{
	static const char *const drivers[] = {
		[HK_SPEC_MEMIF] = "net_memif", [HK_SPEC_AF_PACKET] = "net_af_packet"};
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
	case HK_SPEC_MEMIF_SET:
		return hk_error_set(err, -EINVAL,
				    "port %s: this is a wire set, not one port; "
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
		p->dev_name[0] = '\0'; /* the device is not ours, so do not remove it */
		return hk_error_set(err, -EBUSY,
				    "port %s: this process has a device of that name already; "
				    "fix: give each port another name",
				    s->text);
	}
	/* DPDK takes the lowest number that none of its devices has */
	if (p->is_vdev && rte_eth_dev_count_total() >= hk_number_lowest()) {
		p->dev_name[0] = '\0';
		return hk_error_set(err, -ENFILE,
				    "port %s: this process has opened %d ports, the most of DPDK; "
				    "fix: start fewer ranks on other nodes, or use another kind of "
				    "port than memif",
				    s->text, RTE_MAX_ETHPORTS);
	}
	hk_dpdk_log_clear();
	if (p->is_vdev) {
		/* In this process only: port/shared.c. rte_eal_hotplug_add() of DPDK 24.11 takes no
		 * more than 128 bytes. */
		rc = rte_vdev_init(p->dev_name, args);
	} else if (rte_eth_dev_get_port_by_name(p->dev_name, &p->port.id) != 0) {
		char device[sizeof(p->dev_name)];

		memcpy(device, p->dev_name, sizeof(device));
		p->dev_name[0] = '\0';
		return refuse_untaken(s, device, err);
	}
	if (rc == 0)
		rc = rte_eth_dev_get_port_by_name(p->dev_name, &p->port.id);
	if (rc == 0)
		return 0;
	p->dev_name[0] = '\0';
	return hk_error_set(err, -ENODEV, "port %s: DPDK cannot create the device%s%s; fix: %s",
			    s->text, *hk_dpdk_log() ? ": " : "", hk_dpdk_log(),
			    s->kind == HK_SPEC_VDEV
				    ? "check the driver's name and its arguments (DPDK's guide "
				      "to NICs lists them)"
				    : "check that no other process uses it, and that DPDK's "
				      "drivers are installed (dpdk-dev)");
}

int hk_device_query(struct hk_port_impl *p, struct rte_eth_dev_info *dev, struct hk_error *err)
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
	info->copies_at_tx = p->spec.kind == HK_SPEC_MEMIF || p->spec.kind == HK_SPEC_AF_PACKET;
	info->tx_multi_seg = dev->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	if (RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0) && p->spec.kind == HK_SPEC_MEMIF)
		info->tx_multi_seg = false;
	if (!info->rx_ring)
		info->rx_ring = (uint16_t)(p->spec.ring ? p->spec.ring : HK_NIC_RING);
	if (!info->frame_max) { /* a NIC: the driver's limit, which includes the FCS */
		uint32_t len = dev->max_rx_pktlen ? dev->max_rx_pktlen : RTE_ETHER_MAX_LEN;
		if (dev->max_mtu && dev->max_mtu != UINT16_MAX)
			len = HK_MIN(len, dev->max_mtu + (uint32_t)RTE_ETHER_HDR_LEN + 4);
		unsigned want = p->spec.frame ? p->spec.frame : HK_NIC_FRAME;
		info->frame_max = (uint16_t)HK_MIN(len - 4, want);
	}
	return 0;
}

int hk_device_start(struct hk_port_impl *p, int64_t deadline, struct hk_error *err)
{
	const struct hk_spec *s = &p->spec;
	bool client = s->kind == HK_SPEC_MEMIF && !s->server;
	int rc;

	while (client && access(s->socket, F_OK) != 0) {
		if (hk_clock_ms() >= deadline)
			return hk_error_set(err, -ETIMEDOUT,
					    "port %s: the server end of this wire has not opened "
					    "(no socket %s); fix: start the other process, or see "
					    "why it failed",
					    s->text, s->socket);
		hk_pause_1ms();
	}
	hk_dpdk_log_clear();
	while ((rc = rte_eth_dev_start(p->port.id)) != 0 && client && hk_clock_ms() < deadline)
		hk_pause_1ms(); /* the server's socket exists but does not listen yet */
	if (rc)
		return hk_error_set(err, client ? -ECONNREFUSED : rc,
				    "port %s: cannot start the device: %s%s%s; fix: %s", s->text,
				    rte_strerror(-rc), *hk_dpdk_log() ? ": " : "", hk_dpdk_log(),
				    client ? "remove the socket if the process that made it has "
					     "gone, and start that again"
					   : "see what the driver says above");
	p->started = true;
	return s->kind == HK_SPEC_MEMIF && s->server ? hk_memif_publish(s, err) : 0;
}

void hk_device_describe(struct hk_port_impl *p)
{
	struct hk_port_info *info = &p->port.info;
	struct rte_eth_link link;
	struct rte_ether_addr mac;
	if (rte_eth_macaddr_get(p->port.id, &mac) == 0)
		memcpy(info->mac, mac.addr_bytes, sizeof(info->mac));
	const struct hk_spec *s = &p->spec;

	/* virtual devices report arbitrary speeds */
	if (s->kind == HK_SPEC_AF_PACKET)
		info->link_mbps = hk_netdev_link_mbps(s->iface);
	else if (!p->is_vdev && rte_eth_link_get_nowait(p->port.id, &link) == 0 &&
		 link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN)
		info->link_mbps = link.link_speed;
}

int hk_port_spec_eal(const char *spec, struct hk_eal_config *cfg, struct hk_error *err)
{
	struct hk_spec s;
	int rc = hk_spec_parse(spec, &s, err);
	if (rc == 0)
		*(hk_spec_is_socket(&s) ? &cfg->sockets : &cfg->devices) += 1;
	if (rc == 0 && s.kind == HK_SPEC_VDEV) /* net_virtio_user shares DPDK's memory, for one */
		cfg->lazy_buffers = false;
	if (rc == 0)
		cfg->frame_max = HK_MAX(cfg->frame_max, s.frame);
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

/* ---- stop and removal ------------------------------------------------------------------------ */

/* The memif driver sends a last message on a socket whose other end may be closed. This blocks the
 * SIGPIPE that would follow. */
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

	if (!p || !p->started || p->stopped || hk_spec_is_socket(&p->spec))
		return;
	no_sigpipe_begin(&guard);
	(void)rte_eth_dev_stop(port->id);
	no_sigpipe_end(&guard);
	p->stopped = true;
}

void hk_device_remove(struct hk_port_impl *p)
{
	struct no_sigpipe guard;

	hk_port_stop(&p->port);
	no_sigpipe_begin(&guard);
	(void)rte_eth_dev_close(p->port.id);
	if (p->is_vdev)
		(void)rte_vdev_uninit(p->dev_name);
	no_sigpipe_end(&guard);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/shared.c: use of a primary's port in secondaries.
 *
 * DESIGN NOTES
 *
 * Problem: secondaries shall poll queues of a port that the primary has opened, and neither side
 * may depend on the other while it polls.
 *
 * Approach: the primary writes a port's description and the state of its link into a memzone
 * (struct hk_port_share). A secondary waits for it and probes the device under the primary's name,
 * which sets up the driver's functions in its own process. The driver then maps the rings that the
 * secondary polls.
 *
 * Rejected: rte_eal_hotplug_add(). DPDK then tells all secondaries about each new device at once,
 * waits 5 s for each one that is stopped, and removes the device again. On removal it would take
 * the device from a thread that polls it. So the primary creates devices for itself alone
 * (rte_vdev_init()), and secondaries attach when their callers say so.
 */
#include "port/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_bus_vdev.h>
#include <rte_errno.h>
#include <rte_memzone.h>

/* ---- abilities of drivers ------------------------------------------------------------------- */

static bool driver_shares(const char *driver, const char **why)
{
	static const struct {
		const char *driver;
		bool shares;
		const char *why;
	} known[] = {
		{"net_memif", true, "each process maps the rings for itself (tried)"},
		{"net_af_packet", false,
		 "its rings are mapped only in the process that opened it: a secondary crashes "
		 "(tried)"},
	};
	for (size_t i = 0; i < HK_ARRAY_LEN(known); i++) {
		if (strcmp(driver, known[i].driver) == 0) {
			*why = known[i].why;
			return known[i].shares;
		}
	}
	*why = "nobody has tried this driver's queues in secondary processes";
	return false;
}

/* @driver: of a kind that has several */
static bool kind_shares(enum hk_spec_kind kind, const char *driver, const char **why)
{
	switch (kind) {
	case HK_SPEC_AF_XDP:
		*why = "its sockets and rings belong to the process that opened it";
		return false;
	case HK_SPEC_UDP:
		*why = "a UDP socket has one queue";
		return false;
	default:
		return driver_shares(driver, why);
	}
}

bool hk_port_shares_queues(const struct hk_port *port, const char **why)
{
	return kind_shares(((const struct hk_port_impl *)port)->spec.kind, port->info.driver, why);
}

bool hk_port_spec_shares_queues(const char *spec, const char **why)
{
	struct hk_spec s;

	if (hk_spec_parse(spec, &s, NULL) != 0) {
		*why = "its spec does not parse";
		return false;
	}
	switch (s.kind) {
	case HK_SPEC_MEMIF_SET:
		return driver_shares("net_memif", why);
	case HK_SPEC_AF_PACKET:
		return driver_shares("net_af_packet", why);
	case HK_SPEC_MEMIF:
		*why = "it is one wire with one queue; a set of wires (memif:dir=DIR) has more";
		return false;
	default:
		return kind_shares(s.kind, "", why);
	}
}

/* ---- the primary's side --------------------------------------------------------------------- */

static void share_name(uint16_t id, char *out, size_t len)
{
	snprintf(out, len, "hk_port_%u", id);
}

int hk_share_publish(struct hk_port_impl *p, struct hk_error *err)
{
	char name[RTE_MEMZONE_NAMESIZE];
	if (hk_eal_role() != HK_EAL_PRIMARY)
		return 0;
	share_name(p->port.id, name, sizeof(name));
	const struct rte_memzone *mz = rte_memzone_lookup(name);
	if (!mz) {
		mz = rte_memzone_reserve(name, sizeof(*p->share), SOCKET_ID_ANY, 0);
		if (mz)
			memset(mz->addr, 0, sizeof(*p->share));
	}
	if (!mz)
		return hk_error_set(err, -ENOMEM,
				    "port %s: no shared memory for its description; "
				    "fix: give DPDK more memory",
				    p->spec.text);
	p->share = mz->addr;
	__atomic_store_n(&p->share->state, HK_SHARE_DOWN, __ATOMIC_RELEASE);
	p->generation = __atomic_add_fetch(&p->share->generation, 1, __ATOMIC_RELEASE);
	p->share->info = p->port.info;
	memcpy(p->share->dev_name, p->dev_name, sizeof(p->share->dev_name));
	return 0;
}

void hk_share_state(struct hk_port_impl *p, enum hk_share_state state)
{
	if (p->share && !p->attached)
		__atomic_store_n(&p->share->state, state, __ATOMIC_RELEASE);
}

/* ---- the secondary's side ------------------------------------------------------------------- */

bool hk_share_link(const struct hk_port_impl *p)
{
	return __atomic_load_n(&p->share->state, __ATOMIC_ACQUIRE) == HK_SHARE_UP &&
	       __atomic_load_n(&p->share->generation, __ATOMIC_ACQUIRE) == p->generation &&
	       hk_eal_primary_alive();
}

static int wait_share(struct hk_port_impl *p, int64_t deadline, int timeout_ms,
		      struct hk_error *err)
{
	char name[RTE_MEMZONE_NAMESIZE];
	share_name(p->port.id, name, sizeof(name));
	for (;;) {
		const struct rte_memzone *mz = rte_memzone_lookup(name);
		p->share = mz && mz->len >= sizeof(*p->share) ? mz->addr : NULL;
		if (p->share && __atomic_load_n(&p->share->state, __ATOMIC_ACQUIRE) == HK_SHARE_UP)
			return 0;
		if (!hk_eal_primary_alive())
			return hk_error_set(err, -EPIPE,
					    "port %u: the primary process has ended; "
					    "fix: start it and this process again",
					    p->port.id);
		if (hk_clock_ms() >= deadline)
			return hk_error_set(err, -ETIMEDOUT, "port %u: %s within %d ms; fix: %s",
					    p->port.id,
					    p->share ? "its link has not come up"
						     : "the primary process has not opened it",
					    timeout_ms,
					    p->share ? "start the other end, or see why it failed"
						     : "open it there with hk_port_open_queues()");
		hk_pause_1ms();
	}
}

/* Copies and checks the description, which any process of the memory may have overwritten. */
static int read_share(struct hk_port_impl *p, struct hk_error *err)
{
	struct hk_port_info *info = &p->port.info;
	p->generation = __atomic_load_n(&p->share->generation, __ATOMIC_ACQUIRE);
	*info = p->share->info;
	memcpy(p->dev_name, p->share->dev_name, sizeof(p->dev_name));
	bool ok = memchr(info->spec, 0, sizeof(info->spec)) &&
		  memchr(info->driver, 0, sizeof(info->driver)) &&
		  memchr(p->dev_name, 0, sizeof(p->dev_name)) && p->dev_name[0] && info->queues &&
		  info->queues <= RTE_MAX_QUEUES_PER_PORT;
	if (!ok)
		return hk_error_set(err, -EPROTO,
				    "port %u: its description in the shared memory is invalid; "
				    "fix: use the same version of Hikyaku in all processes",
				    p->port.id);
	return hk_spec_parse(info->spec, &p->spec, err);
}

/* Registers the primary's device with DPDK in this process. */
static int probe(struct hk_port_impl *p, struct hk_error *err)
{
	uint16_t id;
	hk_dpdk_log_clear();
	int rc = 0;
	p->is_vdev = p->spec.kind != HK_SPEC_PCI; /* DPDK probes a NIC when it starts */
	if (p->is_vdev)
		rc = rte_vdev_init(p->dev_name, NULL);
	if (rc == 0)
		rc = rte_eth_dev_get_port_by_name(p->dev_name, &id);
	else
		p->is_vdev = false; /* nothing to remove */
	if (rc == 0 && id == p->port.id)
		return 0;
	return hk_error_set(err, rc == -EEXIST ? -EEXIST : -ENODEV,
			    "port %u (%.120s): %s%s%s; fix: %s", p->port.id, p->port.info.spec,
			    rc == -EEXIST ? "this process is attached to it already"
					  : "DPDK cannot use the primary's device here",
			    *hk_dpdk_log() ? ": " : "", hk_dpdk_log(),
			    rc == -EEXIST ? "detach first" : "use the same DPDK in all processes");
}

static int map_rings(struct hk_port_impl *p, struct hk_error *err)
{
	struct rte_eth_link link;
	if (p->spec.kind != HK_SPEC_MEMIF)
		return 0;
	hk_dpdk_log_clear();
	int rc = rte_eth_link_get(p->port.id, &link); /* makes the driver map the rings */
	if (rc == 0 && hk_memif_shared_mapped(&p->memory))
		return 0;
	return hk_error_set(err, -EPIPE,
			    "port %s: the driver has not mapped its rings%s%s; "
			    "fix: see what the primary process is doing",
			    p->spec.text, *hk_dpdk_log() ? ": " : "", hk_dpdk_log());
}

static int fetch_wakeup(struct hk_port_impl *p, int64_t deadline, struct hk_error *err)
{
	int rc = hk_wakeup_fetch_wire(p->port.id, deadline, err);

	p->has_wakeup = rc == 0;
	return rc;
}

int hk_port_attach(uint16_t id, int timeout_ms, struct hk_port **port, struct hk_error *err)
{
	int64_t deadline = hk_clock_ms() + timeout_ms;
	*port = NULL;
	if (hk_eal_role() != HK_EAL_SECONDARY)
		return hk_error_set(err, -EPERM,
				    "port %u: only a secondary process attaches to a port; "
				    "fix: open it, or start DPDK with HK_EAL_SECONDARY",
				    id);
	if (id >= RTE_MAX_ETHPORTS)
		return hk_error_set(err, -EINVAL,
				    "port %u: DPDK has ports 0 to %d; fix: ask the "
				    "primary process for the number",
				    id, RTE_MAX_ETHPORTS - 1);
	struct hk_port_impl *p = calloc(1, sizeof(*p));
	if (!p)
		return hk_error_set(err, -ENOMEM, "no memory for port %u", id);
	p->port.id = id;
	p->attached = true;

	const char *why = "";
	int rc = wait_share(p, deadline, timeout_ms, err);
	if (rc == 0)
		rc = read_share(p, err);
	if (rc == 0 && !driver_shares(p->port.info.driver, &why))
		rc = hk_error_set(err, -ENOTSUP,
				  "port %.120s: queues of %s cannot be used in this process: %s; "
				  "fix: let the primary process poll it",
				  p->port.info.spec, p->port.info.driver, why);
	if (rc == 0 && p->spec.kind == HK_SPEC_MEMIF)
		rc = hk_memif_shared_prepare(p->spec.text, p->dev_name, p->port.info.queues,
					     deadline, &p->memory, err);
	if (rc == 0)
		rc = probe(p, err);
	if (rc == 0)
		rc = map_rings(p, err);
	if (rc == 0 && p->spec.kind == HK_SPEC_MEMIF)
		rc = fetch_wakeup(p, deadline, err);
	if (rc == 0 && p->spec.faulty)
		rc = hk_faults_attach(&p->port, &p->spec.faults, err);
	if (rc) {
		hk_port_detach(&p->port);
		return rc;
	}
	*port = &p->port;
	return 0;
}

int hk_port_take_queue(struct hk_port *port, uint16_t queue, struct hk_error *err)
{
	struct hk_port_impl *p = (struct hk_port_impl *)port;
	struct hk_memif_rings rings;

	if (p->spec.kind != HK_SPEC_MEMIF || !p->spec.server)
		return 0;
	int rc = hk_memif_shared_rings(&p->memory, port->info.queues, &rings);
	if (rc == 0)
		rc = hk_memif_rings_take(&rings, port->id, queue, port->info.frame_max);
	if (rc == 0)
		return 0;
	return hk_error_set(err, -EPROTO,
			    "port %s: queue %u differs from those that DPDK's driver makes; "
			    "fix: use DPDK 22.11 in all processes",
			    p->spec.text, queue);
}

void hk_port_detach(struct hk_port *port)
{
	struct hk_port_impl *p = (struct hk_port_impl *)port;
	if (!p)
		return;
	hk_tap_forget(port);
	if (p->has_wakeup) {
		hk_wakeup_unlisten_wire(port);
		close(hk_wakeup_take_wire(port->id));
	}
	/* Freeing takes locks in the shared memory, which a dead primary may never release. */
	if (hk_eal_primary_alive()) {
		hk_faults_detach(port);
		if (p->is_vdev)
			(void)rte_vdev_uninit(p->dev_name);
		if (p->is_vdev && p->memory.ino)
			hk_memif_shared_unmap(&p->memory);
	}
	free(p);
}

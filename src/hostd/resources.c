/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/resources.c: the daemon's memory, pools and slots, by DPDK.
 *
 * Each slot has a receive pool, a transmit pool and memory for its worker. The daemon creates them
 * when it starts, so that ranks allocate nothing. The mode decides on the queue pairs of a wire,
 * which is a memif:
 *
 *   hybrid   one for each pair of slots of the two nodes, with the receive pool of this node's slot
 *   daemon   eager queues, with one receive pool for all; the switch moves frames between wires and
 *            slots. The port may also be one port of any kind
 *   split    first the eager queues, then one for each pair of slots
 */
#include "worker/private.h"
#include "hikyaku/worker.h"
#include "hostd/resources_parts.h"
#include "hostd/steering.h"

#include <errno.h>
#include <linux/capability.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define BASE_MB      40 /* for DPDK itself */
#define PORT_OPEN_MS 5000
#define PORT_RINGS   8192u /* buffers in a driver's rings; AF_XDP has the most */
/* largest frame of a port that is not open yet */
#define FRAME_GUESS     4096u
#define NIC_FRAME_GUESS 8192u /* of a port that DPDK's PCI drivers serve */

/* ---- memory --------------------------------------------------------------------------------- */

static unsigned memory_needed(const struct hk_res_config *cfg, unsigned frame_max)
{
	bool pipes = hk_ctl_mode_has_pipes(cfg->mode),
	     own_port = !hk_port_spec_is_wire_set(cfg->port);
	size_t slot = hk_worker_tx_pool_bytes(cfg->tx_buffers, frame_max), common = 0;

	if (hk_ctl_mode_has_queues(cfg->mode))
		slot += hk_pool_bytes(cfg->rx_buffers, frame_max);
	if (pipes) {
		slot += HK_SWITCH_WIRES * sizeof(struct hk_pipe);
		common = hk_pool_bytes(cfg->slots * cfg->rx_buffers + own_port * PORT_RINGS,
				       frame_max);
	}
	return BASE_MB + (unsigned)(common >> 20) +
	       cfg->slots * (cfg->slot_memory_mb + 1 + (unsigned)(slot >> 20));
}

static int start_dpdk(const struct hk_res_config *cfg, unsigned frame_max, struct hk_error *err)
{
	unsigned need = memory_needed(cfg, frame_max);
	struct hk_eal_config eal = {
		.role = HK_EAL_PRIMARY,
		.shared = cfg->rundir->shared,
		.huge_dir = cfg->huge_dir,
		.lcore = HK_LCORE_DAEMON,
		.worker = hk_ctl_mode_has_pipes(cfg->mode) ? HK_LCORE_SWITCH : 0,
	};
	int rc = hk_port_spec_eal(cfg->port, &eal, err);

	eal.memory_mb = cfg->memory_mb ? cfg->memory_mb : need;
	return rc ? rc : hk_eal_init(&eal, err);
}

static int make_slot(struct hk_res *r, const struct hk_res_config *cfg, unsigned i,
		     struct hk_error *err)
{
	struct hk_res_slot *s = &r->slot[i];
	char name[32], rx[32], tx[32];

	hk_res_pool_names(r, i, rx, tx);
	int rc = 0;

	if (hk_ctl_mode_has_queues(cfg->mode))
		rc = hk_pool_create(rx, cfg->rx_buffers, r->info.frame_max, &s->rx, err);
	if (rc == 0)
		rc = hk_worker_tx_pool(tx, cfg->tx_buffers, r->info.frame_max, &s->tx, err);
	if (rc)
		return rc;
	snprintf(name, sizeof(name), "hk_worker_%u", i);
	s->worker = rte_memzone_reserve_aligned(name, (size_t)cfg->slot_memory_mb << 20,
						SOCKET_ID_ANY, 0, RTE_CACHE_LINE_SIZE);
	if (!s->worker)
		return hk_error_set(err, -ENOMEM,
				    "no memory for the worker of slot %u (%u MB); fix: raise "
				    "hikyakud's memory, or lower its slots",
				    i, cfg->slot_memory_mb);
	if (!hk_ctl_mode_has_pipes(cfg->mode))
		return 0;
	snprintf(name, sizeof(name), "hk_pipes_%u", i);
	s->pipes = rte_memzone_reserve_aligned(name, HK_SWITCH_WIRES * sizeof(struct hk_pipe),
					       SOCKET_ID_ANY, 0, RTE_CACHE_LINE_SIZE);
	return s->pipes ? 0
			: hk_error_set(err, -ENOMEM,
				       "no memory for the pipes of slot %u; fix: raise hikyakud's "
				       "memory, or lower its slots",
				       i);
}

/* Opens the one port that reaches all nodes, as wire 0 of the switch. */
static int open_one(struct hk_res *r, const struct hk_res_config *cfg, struct hk_error *err)
{
	int rc = hk_steering_open(cfg->port, cfg->slots * cfg->rx_buffers, cfg->slots, PORT_OPEN_MS,
				  &r->one, err);

	if (rc)
		return rc;
	r->info.eager = 1;
	r->info.port_kind = HK_CTL_PORT_ONE;
	r->info.frame_max = r->one->info.frame_max;
	r->info.link_mbps = r->one->info.link_mbps;
	r->info.classes = r->one->info.priority != 0;
	memcpy(r->info.mac, r->one->info.mac, sizeof(r->info.mac));
	r->wire_used[0] = true;
	return hk_switch_wire(r->sw, 0,
			      &(struct hk_switch_wire){.port = r->one,
						       .queues = r->one->info.extra_queues + 1u,
						       .copies = r->one->pool},
			      err);
}

static int open_pipes(struct hk_res *r, const struct hk_res_config *cfg, struct hk_error *err)
{
	int rc = hk_switch_start(HK_LCORE_SWITCH, &cfg->log, &r->sw, err);

	if (rc)
		return rc;
	if (!hk_port_spec_is_wire_set(cfg->port))
		return open_one(r, cfg, err);
	/* not "hk_rx": DPDK would name its memory MP_hk_rx_0, as that of slot 0's pool */
	return hk_pool_create("hk_eager", cfg->slots * cfg->rx_buffers, r->info.frame_max, &r->rx,
			      err);
}

/* A locally administered MAC address, from the node's id. */
static void make_mac(uint64_t node_id, uint8_t mac[6])
{
	mac[0] = 2;
	for (int i = 1; i < 6; i++)
		mac[i] = (uint8_t)(node_id >> (8 * i));
}

void hk_res_open_tap(const char *what, const char *shared)
{
	struct hk_error err;
	char who[128];

	snprintf(who, sizeof(who), "%s of %s", what, shared);
	if (hk_tap_open(who, shared, &err) != 0)
		fprintf(stderr, "hikyakud: %s\n", err.text);
}

/* Writes DPDK's runtime directory to @path, for ranks, whose environment or working directory may
 * differ. This process and its poller then use that path too. DPDK's processes know each other by
 * the text of their sockets' paths: one that came by a symbolic link (/var/run) gets no answers. */
static int fix_runtime_dir(char path[HK_CTL_DIR_LEN], struct hk_error *err)
{
	char real[PATH_MAX];
	int rc = hk_eal_make_runtime_base(err);

	if (rc)
		return rc;
	if (!realpath(hk_eal_runtime_dir(), real) || !hk_ctl_set_text(path, HK_CTL_DIR_LEN, real))
		return hk_error_set(
			err, -ENAMETOOLONG,
			"DPDK's runtime directory %.200s does not fit a message to ranks; fix: set "
			"RUNTIME_DIRECTORY to one that exists, of at most %u plain characters",
			hk_eal_runtime_dir(), HK_CTL_DIR_LEN - 1u);
	return setenv("RUNTIME_DIRECTORY", path, 1) == 0
		       ? 0
		       : hk_error_set(err, -ENOMEM, "no memory for hikyakud");
}

int hk_res_open(const struct hk_res_config *cfg, struct hk_res **res, struct hk_error *err)
{
	unsigned frame_max = hk_port_wire_frame_max(cfg->port);
	struct hk_eal_config eal = {0};
	const char *why;

	*res = NULL;
	if (!frame_max && cfg->eager_queues > 1)
		return hk_error_set(
			err, -EOPNOTSUPP,
			"port %s has one queue pair, not %u eager queues; fix: do not set "
			"eager-queues (btl_hikyaku_eager_queues)",
			cfg->port, cfg->eager_queues);
	if (hk_port_spec_eal(cfg->port, &eal, err))
		return -EINVAL;
	if (hk_ctl_mode_has_queues(cfg->mode) && !hk_port_spec_shares_queues(cfg->port, &why))
		return hk_error_set(
			err, -EOPNOTSUPP,
			"mode %s: ranks cannot poll queues of port %.100s: %s; fix: use mode "
			"daemon, in which hikyakud polls the port (btl_hikyaku_mode daemon; "
			"hikyakud's --mode daemon), or mode inline and a port for each rank",
			hk_ctl_mode_name(cfg->mode), cfg->port, why);
	if (!frame_max)
		frame_max = eal.frame_max      ? eal.frame_max
			    : eal.pci_allow[0] ? NIC_FRAME_GUESS
					       : FRAME_GUESS;
	char runtime_dir[HK_CTL_DIR_LEN];
	int rc = fix_runtime_dir(runtime_dir, err);

	if (rc == 0)
		rc = start_dpdk(cfg, frame_max, err);
	if (rc)
		return rc;
	struct hk_res *r = calloc(1, sizeof(*r));

	if (!r) {
		hk_eal_end();
		return hk_error_set(err, -ENOMEM, "no memory for hikyakud");
	}
	r->rundir = *cfg->rundir;
	r->info.port_kind = HK_CTL_PORT_WIRES;
	r->info.frame_max = (uint16_t)frame_max;
	make_mac(cfg->node_id, r->info.mac);
	memcpy(r->info.runtime_dir, runtime_dir, sizeof(runtime_dir));
	snprintf(r->info.huge_dir, sizeof(r->info.huge_dir), "%s",
		 cfg->huge_dir ? cfg->huge_dir : "");
	snprintf(r->port, sizeof(r->port), "%s", cfg->port);
	r->mode = cfg->mode;
	r->key = cfg->job_key;
	r->node_id = cfg->node_id;
	r->slots = cfg->slots;
	r->rx_buffers = cfg->rx_buffers;
	if (rc == 0 && hk_ctl_mode_has_pipes(cfg->mode)) {
		r->info.eager = (uint16_t)(cfg->eager_queues ? cfg->eager_queues : HK_EAGER_QUEUES);
		rc = open_pipes(r, cfg, err);
	}
	for (unsigned i = 0; rc == 0 && i < cfg->slots; i++)
		rc = make_slot(r, cfg, i, err);
	if (rc) {
		hk_res_close(r);
		return rc;
	}
	if (r->sw)
		hk_res_open_tap("switch", r->rundir.shared);
	*res = r;
	return 0;
}

static void close_pipes(struct hk_res *r)
{
	struct hk_error err;

	for (unsigned i = 0; i < r->slots; i++)
		(void)hk_switch_slot_remove(r->sw, i, &err);
	for (unsigned i = 0; i < HK_SWITCH_WIRES; i++)
		if (r->wire_used[i])
			(void)hk_switch_wire(r->sw, i, NULL, &err);
	hk_switch_stop(r->sw);
	/* closing removes the port's XDP program from the kernel; no rank uses this port itself */
	hk_port_close(r->one);
}

void hk_res_close(struct hk_res *r)
{
	if (r->sw)
		close_pipes(r);
	hk_tap_close();
	/* pools are not freed, since ranks may still use them; they end with this process */
	hk_eal_end();
	free(r);
}

const struct hk_res_info *hk_res_info(const struct hk_res *r)
{
	return &r->info;
}

/* Wires need none. A port of the daemon's own has rules, which come and go with ranks, and an XDP
 * program, which goes with the port. */
uint64_t hk_res_capabilities(const struct hk_res *r)
{
	return r->one ? UINT64_C(1) << CAP_NET_ADMIN | UINT64_C(1) << CAP_NET_RAW |
				UINT64_C(1) << CAP_BPF
		      : 0;
}

/* ---- slots ---------------------------------------------------------------------------------- */

void hk_res_pool_names(const struct hk_res *r, unsigned slot, char rx[32], char tx[32])
{
	(void)r;
	snprintf(rx, 32, "hk_rx_%u", slot);
	snprintf(tx, 32, "hk_tx_%u", slot);
}

void hk_res_memory(const struct hk_res *r, unsigned slot, uint64_t *address, uint64_t *len)
{
	*address = r->slot[slot].worker->addr_64;
	*len = r->slot[slot].worker->len;
}

uint64_t hk_res_pipes(const struct hk_res *r, unsigned slot)
{
	return r->slot[slot].pipes ? r->slot[slot].pipes->addr_64 : 0;
}

/* Steers the frames of the rank to @slot. If the rank was restarted, its old slot may not be free
 * yet, so this removes the old slot's rule. */
static void steer_to(struct hk_res *r, unsigned slot, uint32_t job_key, uint32_t endpoint)
{
	for (unsigned i = 0; i < r->slots; i++)
		if (i != slot && r->slot[i].job_key == job_key && r->slot[i].endpoint == endpoint)
			hk_steering_remove(r->one, i);
	r->slot[slot].job_key = job_key;
	r->slot[slot].endpoint = endpoint;
	hk_steering_add(r->one, slot, endpoint, r->slot[slot].mac);
}

/* The pools exist since the start, and hk_res_slot_reclaim() has refilled them. Only the switch
 * must learn the rank's address. */
int hk_res_slot_assign(struct hk_res *r, unsigned slot, uint32_t generation, uint32_t job_key,
		       uint32_t endpoint, struct hk_error *err)
{
	struct hk_switch_slot s = {
		.job_key = job_key,
		.endpoint = endpoint,
		.tx_pool = r->slot[slot].tx,
		.share = r->rx_buffers,
	};

	(void)generation;
	memcpy(r->slot[slot].mac, r->info.mac, sizeof(r->info.mac));
	if (!r->sw)
		return 0;
	s.pipes = r->slot[slot].pipes->addr;
	int rc = hk_switch_slot_add(r->sw, slot, &s, err);

	if (rc == 0 && r->one)
		steer_to(r, slot, job_key, endpoint);
	return rc;
}

void hk_res_slot_mac(const struct hk_res *r, unsigned slot, uint8_t mac[6])
{
	memcpy(mac, r->slot[slot].mac, sizeof(r->slot[slot].mac));
}

bool hk_res_slot_is_corrupt(const struct hk_res *r, unsigned slot)
{
	return r->sw && hk_switch_slot_is_corrupt(r->sw, slot);
}

int hk_res_slot_reclaim(struct hk_res *r, unsigned slot, uint32_t generation, struct hk_error *err)
{
	(void)generation;
	if (r->one)
		hk_steering_remove(r->one, slot);
	int rc = r->sw ? hk_switch_slot_remove(r->sw, slot, err) : 0;

	if (rc == 0 && r->slot[slot].rx)
		rc = hk_pool_reset(r->slot[slot].rx, err);
	return rc ? rc : hk_pool_reset(r->slot[slot].tx, err);
}

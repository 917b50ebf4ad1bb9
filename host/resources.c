/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/resources.c: the daemon's memory, pools and wires, of DPDK.
 *
 * Each slot has a receive pool, a transmit pool and a piece of memory for its fabric, all made at start:
 * ranks that come and go allocate nothing. A wire is a memif with a queue pair for each pair of slots
 * of the two nodes; a queue takes its buffers from the pool of the slot that it leads to.
 */
#include "host/resources.h"
#include "fabric/fabric.h"
#include "host/poller.h"
#include "port/port.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_memzone.h>

/* What DPDK itself and the caches of two pools (1 MB each) take. */
#define BASE_MB      24
#define POOLS_MB     3
#define MBUF_BYTES   384u /* of each buffer beside its frame: mbuf, note, headroom */
#define TX_SLACK     2048u
#define WIRE_OPEN_MS 2000
#define ATTACH_MS    1000

struct slot {
	struct rte_mempool *rx, *tx;
	const struct rte_memzone *fabric;
};

struct hk_res {
	struct hk_rundir rundir;
	struct hk_res_info info;
	char port[256];
	uint32_t key;
	uint64_t node_id;
	unsigned slots;
	struct slot slot[HK_CTL_MAX_SLOTS];
};

/* ---- memory --------------------------------------------------------------------------------- */

static unsigned memory_needed(const struct hk_res_config *cfg, unsigned frame_max)
{
	uint64_t buffers = (uint64_t)cfg->rx_buffers + cfg->tx_buffers + TX_SLACK;

	return BASE_MB + cfg->slots * (cfg->slot_memory_mb + POOLS_MB +
				       (unsigned)((buffers * (frame_max + MBUF_BYTES)) >> 20));
}

static int start_dpdk(const struct hk_res_config *cfg, unsigned frame_max, struct hk_error *err)
{
	unsigned need = memory_needed(cfg, frame_max);
	struct hk_eal_config eal = {
		.role = HK_EAL_PRIMARY,
		.shared = cfg->rundir->shared,
		.huge_dir = cfg->huge_dir,
		.lcore = HK_LCORE_DAEMON,
		.memory_mb = cfg->memory_mb ? cfg->memory_mb : need,
	};

	return hk_eal_init(&eal, err);
}

static int make_slot(struct hk_res *r, const struct hk_res_config *cfg, unsigned i,
		     struct hk_error *err)
{
	struct slot *s = &r->slot[i];
	char name[32], rx[32], tx[32];

	hk_res_pool_names(r, i, rx, tx);
	int rc = hk_pool_create(rx, cfg->rx_buffers, r->info.frame_max, &s->rx, err);

	if (rc == 0)
		rc = hk_fabric_tx_pool(tx, cfg->tx_buffers, r->info.frame_max, &s->tx, err);
	if (rc)
		return rc;
	snprintf(name, sizeof(name), "hk_fabric_%u", i);
	s->fabric = rte_memzone_reserve_aligned(name, (size_t)cfg->slot_memory_mb << 20,
						SOCKET_ID_ANY, 0, RTE_CACHE_LINE_SIZE);
	if (!s->fabric)
		return hk_error_set(err, -ENOMEM,
				    "no memory for the fabric of slot %u (%u MB)\nfix: raise "
				    "hikyakud's memory, or lower its slots",
				    i, cfg->slot_memory_mb);
	return 0;
}

/* A MAC address of this node's own: locally administered, from its id. */
static void make_mac(uint64_t node_id, uint8_t mac[6])
{
	mac[0] = 2;
	for (int i = 1; i < 6; i++)
		mac[i] = (uint8_t)(node_id >> (8 * i));
}

int hk_res_open(const struct hk_res_config *cfg, struct hk_res **res, struct hk_error *err)
{
	unsigned frame_max = hk_port_wire_frame_max(cfg->port);

	*res = NULL;
	if (!frame_max)
		return hk_error_set(err, -EOPNOTSUPP,
				    "port %s is no set of wires, and only these can be shared by "
				    "several ranks so far\nfix: give memif:dir=DIRECTORY, or let "
				    "each rank poll a port of its own (btl_hikyaku_host inline)",
				    cfg->port);
	int rc = start_dpdk(cfg, frame_max, err);

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
	snprintf(r->info.huge_dir, sizeof(r->info.huge_dir), "%s",
		 cfg->huge_dir ? cfg->huge_dir : "");
	snprintf(r->port, sizeof(r->port), "%s", cfg->port);
	r->key = cfg->job_key;
	r->node_id = cfg->node_id;
	r->slots = cfg->slots;
	for (unsigned i = 0; rc == 0 && i < cfg->slots; i++)
		rc = make_slot(r, cfg, i, err);
	if (rc) {
		hk_res_close(r);
		return rc;
	}
	*res = r;
	return 0;
}

void hk_res_close(struct hk_res *r)
{
	/* Pools are not freed: ranks may still use them. What is left is this process's memory. */
	hk_eal_end();
	free(r);
}

const struct hk_res_info *hk_res_info(const struct hk_res *r)
{
	return &r->info;
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
	*address = r->slot[slot].fabric->addr_64;
	*len = r->slot[slot].fabric->len;
}

int hk_res_slot_give(struct hk_res *r, unsigned slot, uint32_t generation, struct hk_error *err)
{
	(void)r;
	(void)slot;
	(void)generation;
	(void)err;
	return 0; /* made at start, mended when the last owner left */
}

int hk_res_slot_reclaim(struct hk_res *r, unsigned slot, uint32_t generation, struct hk_error *err)
{
	(void)generation;
	int rc = hk_pool_reset(r->slot[slot].rx, err);

	return rc ? rc : hk_pool_reset(r->slot[slot].tx, err);
}

/* ---- wires ---------------------------------------------------------------------------------- */

static uint32_t fold(uint64_t id)
{
	return (uint32_t)(id ^ id >> 32);
}

static int wire_spec(const struct hk_res *r, const struct hk_res_wire *w, char spec[512],
		     bool *server, struct hk_error *err)
{
	return hk_port_wire_spec(r->port, r->key, fold(r->node_id), fold(w->node_id), spec, 512,
				 server, err);
}

static void socket_of(const char *spec, char path[128])
{
	const char *at = strstr(spec, "socket=");
	size_t n;

	at = at ? at + strlen("socket=") : spec;
	n = strcspn(at, ",;");
	snprintf(path, 128, "%.*s", (int)HK_MIN(n, (size_t)127), at);
}

int hk_res_wire_plan(struct hk_res *r, struct hk_res_wire *w, struct hk_error *err)
{
	char spec[512];

	w->queues = r->slots * w->slots;
	return wire_spec(r, w, spec, &w->server, err);
}

/* The slot here that queue @k of the wire leads to: see mpi/host.c. */
static unsigned slot_of(const struct hk_res *r, const struct hk_res_wire *w, unsigned k)
{
	return r->node_id < w->node_id ? k / w->slots : k % r->slots;
}

int hk_res_wire_open(struct hk_res *r, struct hk_res_wire *w, struct hk_error *err)
{
	char spec[512], path[128];
	int rc = wire_spec(r, w, spec, &w->server, err);

	if (rc)
		return rc;
	socket_of(spec, path);
	if (w->server)
		rc = hk_rundir_note(&r->rundir, path, err);
	else if (access(path, F_OK) != 0)
		return -EAGAIN;
	struct rte_mempool **pool = calloc(w->queues, sizeof(*pool));

	if (rc || !pool) {
		free(pool);
		return rc ? rc : hk_error_set(err, -ENOMEM, "no memory for a wire");
	}
	for (unsigned k = 0; k < w->queues; k++)
		pool[k] = r->slot[slot_of(r, w, k)].rx;
	struct hk_port_queues q = {.count = w->queues, .pool = pool};
	struct hk_port *port;

	rc = hk_port_open_queues(spec, &q, WIRE_OPEN_MS, &port, err);
	free(pool);
	if (rc) /* the other daemon may have just died: asked again until the rank's time is over */
		return rc == -ETIMEDOUT ? -EAGAIN : rc;
	w->port = port;
	w->port_id = port->id;
	return 0;
}

bool hk_res_wire_up(struct hk_res *r, struct hk_res_wire *w)
{
	struct hk_error err;

	(void)r;
	/* the first time it also lets secondaries in */
	if (!w->up)
		w->up = hk_port_wait_link(w->port, 0, &err) == 0;
	return w->up && hk_port_link(w->port);
}

void hk_res_wire_close(struct hk_res *r, struct hk_res_wire *w)
{
	(void)r;
	hk_port_close(w->port);
	w->port = NULL;
}

void hk_res_wire_stats(struct hk_res *r, const struct hk_res_wire *w, FILE *out)
{
	const struct hk_port *port = w->port;
	struct rte_eth_stats s;

	(void)r;
	if (!port || rte_eth_stats_get(port->id, &s) != 0)
		memset(&s, 0, sizeof(s));
	fprintf(out,
		"\"rx_frames\": %" PRIu64 ", \"rx_bytes\": %" PRIu64 ", \"tx_frames\": %" PRIu64
		", \"tx_bytes\": %" PRIu64,
		s.ipackets, s.ibytes, s.opackets, s.obytes);
}

/* ---- poller --------------------------------------------------------------------------------- */

int hk_res_join(const char *shared, const char *huge_dir, struct hk_error *err)
{
	struct hk_eal_config eal = {
		.role = HK_EAL_SECONDARY,
		.shared = shared,
		.huge_dir = huge_dir,
		.lcore = HK_LCORE_POLLER,
	};
	int rc = hk_eal_init(&eal, err);

	if (rc)
		return rc;
	if (hk_fabric_serve_init() != 0)
		return hk_error_set(err, -ENOSYS,
				    "this kernel has no membarrier(2)\nfix: run without a poller");
	return 0;
}

void hk_res_leave(void)
{
	hk_eal_end();
}

int hk_res_attach(uint16_t id, void **port, struct hk_error *err)
{
	struct hk_port *p = NULL;
	int rc = hk_port_attach(id, ATTACH_MS, &p, err);

	*port = p;
	return rc;
}

void hk_res_detach(void *port)
{
	hk_port_detach(port);
}

/* The ports that it uses are attached: its owner hears of a wire only then. */
enum hk_served hk_res_serve(void *fabric)
{
	switch (hk_fabric_serve(fabric)) {
	case HK_SERVE_BUSY:
		return HK_SERVED_BUSY;
	case HK_SERVE_IDLE:
		return HK_SERVED_IDLE;
	default:
		return HK_SERVED_PRESENT;
	}
}

bool hk_res_can_serve(void)
{
	return true;
}

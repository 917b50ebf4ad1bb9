/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/worker.c: the worker of a domain, opened as the parameters say.
 */
#include "libfabric/provider.h"
#include "base/launcher.h"
#include "hostd/hosted.h"
#include "port/auto.h"
#include "port/port.h"
#include "worker/calls.h"
#include "worker/ports.h"
#include "worker/private.h"
#include "worker/wires.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PARAMS (&hk_fi_params)

#define EAGER_SOCKETS (64u << 10) /* a round trip costs more there: openmpi/btl/module.c */
#define EAGER         (16u << 10)

#define PORT         "FI_HIKYAKU_PORT"
#define HOSTED_PEERS 4096u /* a slot of hikyakud has its memory from the start */
#define HOSTED_KEY   1u    /* of jobs without one: hikyakud needs a key */

/* A number that the launcher has set; else @without. */
static unsigned number(const char *text, unsigned without)
{
	unsigned long n = text ? strtoul(text, NULL, 10) : without;

	return n <= UINT32_MAX ? (unsigned)n : without;
}

/* A name says of what kind all ports are. So of those of auto we take the last, which is not
 * optional. */
static void keep_last(struct hk_ports *p)
{
	memmove(p->spec[0], p->spec[p->count - 1], sizeof(p->spec[0]));
	p->optional[0] = false;
	p->count = 1;
}

static int read_ports(struct hk_ports *p, struct hk_error *err)
{
	const struct hk_auto_config cfg = {PARAMS->if_include, PARAMS->if_exclude,
					   number(hk_launcher_local_rank(), 0)};
	char chosen[2 * HK_PORT_SPEC_MAX];
	int rc;

	if (PARAMS->port && *PARAMS->port && strcmp(PARAMS->port, "auto") != 0)
		return hk_ports_read(p, PARAMS->port, PORT, err);
	rc = hk_port_auto(&cfg, chosen, sizeof(chosen), err);
	if (rc == 0)
		rc = hk_ports_read(p, chosen, PORT, err);
	if (rc == 0)
		keep_last(p);
	return rc;
}

static void on_lost(void *arg, hk_peer peer, enum hk_disconnect_reason why, const char *text)
{
	struct hk_fi_domain *d = arg;

	(void)why;
	hk_fi_warn("%s", text);
	hk_fi_receive_lost(d, peer == HK_PEER_NONE ? HK_FI_NO_PEER : hk_fi_peer_of(d, peer));
	hk_fi_send_lost(d, peer);
}

static void on_path_down(void *arg, hk_peer peer, unsigned port, const char *text)
{
	(void)arg, (void)peer, (void)port;
	hk_fi_warn("%s", text);
}

static void configure(struct hk_fi_domain *d, struct hk_worker_config *cfg)
{
	hk_worker_config_default(cfg);
	cfg->engine.key = (uint32_t)PARAMS->key;
	cfg->engine.endpoint = d->name.endpoint;
	cfg->engine.epoch = HK_FI_EPOCH;
	cfg->engine.peer_timeout = (uint64_t)PARAMS->peer_timeout_ms * HK_MSEC;
	cfg->tx_buffers = (unsigned)PARAMS->tx_buffers;
	cfg->rx_backlog = (unsigned)PARAMS->rx_backlog;
	cfg->regions = HK_FI_REGIONS;
	cfg->lost = on_lost;
	cfg->path_down = on_path_down;
	cfg->lost_arg = d;
}

static void note(const char *text)
{
	hk_fi_say(FI_LOG_INFO, "%s", text);
}

/* Attaches to hikyakud, if the user wants that. Jobs may have no key of their own. Then the
 * launcher's process tells their daemons apart. */
static int attach(struct hk_fi_domain *d, const struct hk_ports *p, struct hk_worker_config *cfg,
		  struct hk_error *err)
{
	static _Atomic bool attached; /* DPDK joins one memory in the life of a process */
	const uint32_t key = cfg->engine.key ? cfg->engine.key : HOSTED_KEY;
	const struct hk_hosted_config hosted = {
		.mode = PARAMS->mode && *PARAMS->mode ? PARAMS->mode : NULL,
		.ports = p->count,
		.mode_parameter = "FI_HIKYAKU_MODE",
		.port_parameter = PORT,
		.note = note,
		.request =
			{
				.job_key = key,
				.job_daemon = cfg->engine.key ? 0 : (uint32_t)hk_launcher_process(),
				.endpoint = d->name.endpoint,
				.local_rank = number(hk_launcher_local_rank(), 0),
				.local_ranks = number(hk_launcher_local_size(), 1),
				.port = p->spec[0],
				.huge_dir = getenv("HIKYAKU_HUGE_DIR"),
				.rx_buffers = (unsigned)PARAMS->rx_buffers,
				.tx_buffers = (unsigned)PARAMS->tx_buffers,
				.timeout_ms = (unsigned)PARAMS->connect_timeout_ms,
			},
	};
	if (atomic_load(&attached) && hosted.mode && strcmp(hosted.mode, "inline") != 0)
		return hk_error_set(err, -EBUSY,
				    "this process has opened a domain in mode %s before, and it "
				    "can open one; fix: set FI_HIKYAKU_MODE to inline",
				    hosted.mode);
	int rc = hk_hosted_open(&hosted, &d->hosted, err);

	if (rc || !d->hosted)
		return rc;
	atomic_store(&attached, true);
	cfg->engine.key = key;
	return 0;
}

/* With hikyakud, which has the port. */
static int open_hosted(struct hk_fi_domain *d, const char *spec, struct hk_worker_config *cfg,
		       struct hk_error *err)
{
	const struct hk_ctl_welcome *l = hk_hosted_lease(d->hosted);
	const struct hk_hosted_node node = hk_hosted_node(d->hosted);
	int rc = hk_hosted_start_dpdk(d->hosted, NULL, false, err);

	const bool wires = l->port_kind == HK_CTL_PORT_WIRES;

	d->name.kind |= wires ? HK_FI_NAME_WIRE : 0;
	hk_ports_fit(cfg, l->frame_max, wires, l->link_mbps, l->classes);
	cfg->engine.max_peers = HOSTED_PEERS;
	d->name.frame_max = (uint16_t)l->frame_max;
	memcpy(d->name.address, l->mac, sizeof(l->mac));
	hk_fi_name_set_hosted(&d->name, hk_hosted_mode(d->hosted), &node);
	if (rc == 0)
		rc = hk_hosted_memory(d->hosted, cfg, err);
	if (rc == 0)
		rc = hk_worker_open(cfg, &d->worker, err);
	if (rc == 0)
		rc = hk_hosted_share(d->hosted, d->worker, PARAMS->progress_thread && !d->is_auto,
				     err);
	if (rc == 0 && wires)
		rc = hk_calls_open(spec, cfg->engine.key, d->name.endpoint, sizeof(d->name),
				   &d->calls, err);
	return rc;
}

void hk_fi_wires_init(struct hk_fi_domain *d, const struct hk_worker_config *cfg)
{
	*d->wires = (struct hk_wires){
		.worker = d->worker,
		.key = cfg->engine.key,
		.endpoint = d->name.endpoint,
		.buffers = (unsigned)PARAMS->rx_buffers,
		.timeout_ms = PARAMS->connect_timeout_ms,
	};
}

static int open_wires(struct hk_fi_domain *d, const struct hk_ports *p,
		      const struct hk_worker_config *cfg, struct hk_error *err)
{
	d->name.kind |= HK_FI_NAME_WIRE;
	d->name.frame_max = (uint16_t)cfg->frame_max;
	d->wires = calloc(1, sizeof(*d->wires));
	if (!d->wires)
		return hk_error_set(err, -ENOMEM, "no memory");
	hk_fi_wires_init(d, cfg);
	d->wires->count = p->count;
	memcpy(d->wires->spec, p->spec, sizeof(d->wires->spec));
	return hk_calls_open(p->spec[0], cfg->engine.key, d->name.endpoint, sizeof(d->name),
			     &d->calls, err);
}

/* The ports are of one kind, and a name has room for their addresses. */
static int check_ports(const struct hk_ports *p, struct hk_port *const *port, struct hk_error *err)
{
	unsigned most = p->wire_set         ? HK_FI_NAME_PORTS
			: port[0]->info.ip6 ? HK_FI_NAME_IP6S
					    : HK_FI_NAME_MACS;

	for (unsigned i = 1; !p->wire_set && i < p->count; i++)
		if (port[i]->info.datagrams != port[0]->info.datagrams ||
		    port[i]->info.ip6 != port[0]->info.ip6)
			return hk_error_set(err, -EINVAL,
					    PORT ": %s and %s are of two kinds, which reach "
						 "different peers; fix: name ports of one kind",
					    p->spec[0], p->spec[i]);
	if (p->count > most)
		return hk_error_set(err, -E2BIG,
				    PORT " names %u ports, and the name of an endpoint has room "
					 "for %u such as %s; fix: name fewer",
				    p->count, most, p->spec[0]);
	return 0;
}

/* Notes the worker's addresses in the name. */
static void set_addresses(struct hk_fi_domain *d, unsigned count)
{
	struct hk_peer_addr own;

	for (unsigned i = 0; i < count; i++) {
		(void)hk_worker_address(d->worker, i, &own);
		if (!d->name.frame_max || own.frame_max < d->name.frame_max)
			d->name.frame_max = own.frame_max;
		for (size_t k = 0; k < sizeof(own.ip6); k++)
			if (own.ip6[k])
				d->name.kind |= HK_FI_NAME_IP6;
		if (d->name.kind & HK_FI_NAME_IP6)
			memcpy(d->name.address, own.ip6, sizeof(own.ip6));
		else
			memcpy(d->name.address + sizeof(own.mac) * i, own.mac, sizeof(own.mac));
	}
}

/* Starts what the ports need of DPDK, and for wires to processes of this node its drivers. Returns
 * whether these are there in *@node_wires. */
static int start_dpdk(const struct hk_fi_domain *d, const struct hk_ports *p, bool *node_wires,
		      struct hk_error *err)
{
	struct hk_eal_config eal = {.lazy_buffers = true},
			     with = {.lazy_buffers = true, .devices = 1};

	*node_wires = !p->wire_set && hk_fi_node_wires_wanted(d);
	if (*node_wires && hk_ports_start_dpdk(p, &with, err) == 0)
		return 0;
	if (*node_wires)
		hk_fi_say(FI_LOG_INFO, "without wires to processes of this node: %s", err->text);
	*node_wires = false;
	return hk_ports_start_dpdk(p, &eal, err);
}

/* In mode inline. */
static int open_ports(struct hk_fi_domain *d, struct hk_ports *p, struct hk_worker_config *cfg,
		      struct hk_error *err)
{
	const struct hk_ports_config how = {
		.buffers = (unsigned)PARAMS->rx_buffers,
		.processes = number(hk_launcher_local_size(), 1),
		.timeout_ms = PARAMS->connect_timeout_ms,
		.note = note,
	};
	struct hk_port *port[HK_PATHS_MAX] = {NULL};
	unsigned taken = 0;
	bool shared, node_wires;
	int rc = start_dpdk(d, p, &node_wires, err);

	if (rc == 0)
		rc = hk_ports_open(p, &how, cfg, port, &shared, err);
	if (rc == 0)
		rc = check_ports(p, port, err);
	for (unsigned i = 0; rc == 0 && i < p->count && port[i]; i++)
		rc = hk_port_wait_link(port[i], PARAMS->connect_timeout_ms, err);
	if (rc == 0)
		rc = hk_worker_open(cfg, &d->worker, err);
	if (rc == 0)
		rc = hk_ports_add(p, d->worker, port, &taken, err);
	for (unsigned i = taken; rc && i < HK_PATHS_MAX; i++)
		hk_port_close(port[i]);
	if (rc)
		return rc;
	d->name.more = (uint8_t)((p->count - 1) & 3);
	if (p->wire_set)
		return open_wires(d, p, cfg, err);
	set_addresses(d, p->count);
	if (node_wires)
		hk_fi_node_wires_open(d, cfg);
	return 0;
}

int hk_fi_worker_open(struct hk_fi_domain *d, struct hk_error *err)
{
	struct hk_worker_config cfg;
	struct hk_ports ports;
	const uint8_t *key;
	uint8_t protection = 0;
	int rc;

	if (getrandom(&d->name.endpoint, sizeof(d->name.endpoint), 0) != sizeof(d->name.endpoint))
		return hk_error_set(err, -EIO, "getrandom: %s", strerror(errno));
	configure(d, &cfg);
	rc = read_ports(&ports, err);
	if (rc == 0)
		rc = hk_ports_protection(&ports, PARAMS->protection, "FI_HIKYAKU_PROTECTION",
					 &protection, err);
	if (rc)
		return rc;
	cfg.engine.protection = protection;
	hk_ports_text(&ports, d->port, sizeof(d->port));
	rc = attach(d, &ports, &cfg, err);
	if (rc)
		return rc;
	d->name.version = HK_FI_NAME_VERSION;
	d->name.kind = protection;
	d->name.key_check = hk_fi_key_check(cfg.engine.key);
	rc = d->hosted ? open_hosted(d, ports.spec[0], &cfg, err)
		       : open_ports(d, &ports, &cfg, err);
	if (rc)
		return rc;
	key = hk_worker_public_key(d->worker);
	if (key)
		memcpy(d->name.public_key, key, sizeof(d->name.public_key));
	d->payload = hk_worker_frame_payload(d->worker);
	d->eager = PARAMS->eager > 0                        ? (size_t)PARAMS->eager
		   : strncmp(ports.spec[0], "udp:", 4) == 0 ? EAGER_SOCKETS
							    : EAGER;
	d->eager = HK_MIN(d->eager, d->payload * HK_FRAGS_MAX - HK_FI_PREFIX_MAX);
	rc = hk_fi_keys_open(d);
	if (rc == 0 && PARAMS->progress_thread && !d->is_auto && !d->hosted)
		rc = hk_worker_progress_thread_start(d->worker, 2000, 500, err);
	return rc;
}

void hk_fi_worker_close(struct hk_fi_domain *d)
{
	struct hk_error err;

	if (d->hosted && hk_hosted_unshare(d->hosted, &err) != 0)
		hk_fi_warn("%s", err.text);
	hk_worker_close(d->worker, (unsigned)PARAMS->linger_ms);
	hk_fi_keys_close(d);
	hk_fi_peers_close(d);
	hk_fi_node_wires_close(d);
	hk_hosted_close(d->hosted);
}

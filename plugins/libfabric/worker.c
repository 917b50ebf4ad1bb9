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
#include "worker/private.h"
#include "worker/wires.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PARAMS (&hk_fi_params)

_Static_assert(sizeof((struct hk_fi_domain){0}.port) == HK_PORT_SPEC_MAX, "a port spec fits");

#define EAGER_SOCKETS (64u << 10) /* a round trip costs more there: openmpi/btl/module.c */
#define EAGER         (16u << 10)

#define HOSTED_PEERS 4096u /* a slot of hikyakud has its memory from the start */
#define HOSTED_KEY   1u    /* of jobs without one: hikyakud needs a key */

/* A number that the launcher has set; else @without. */
static unsigned number(const char *text, unsigned without)
{
	unsigned long n = text ? strtoul(text, NULL, 10) : without;

	return n <= UINT32_MAX ? (unsigned)n : without;
}

static int choose_port(char *list, size_t len, struct hk_error *err)
{
	const struct hk_auto_config cfg = {PARAMS->if_include, PARAMS->if_exclude,
					   number(hk_launcher_local_rank(), 0)};

	if (PARAMS->port && *PARAMS->port && strcmp(PARAMS->port, "auto") != 0) {
		snprintf(list, len, "%s", PARAMS->port);
		return 0;
	}
	return hk_port_auto(&cfg, list, len, err);
}

/* One port: an optional one before it is left out. */
static int one_port(const char *list, char *spec, struct hk_error *err)
{
	char all[HK_PATHS_MAX][HK_PORT_SPEC_MAX];
	int n = hk_port_list_split(list, all, HK_PATHS_MAX, err), chosen = -1;

	for (int i = 0; i < n; i++)
		if (all[i][strlen(all[i]) - 1] != '?') {
			if (chosen >= 0)
				return hk_error_set(err, -EINVAL,
						    "FI_HIKYAKU_PORT names several ports, and a "
						    "domain has one; fix: name one");
			chosen = i;
		}
	if (n < 0)
		return n;
	if (chosen < 0)
		return hk_error_set(err, -EINVAL, "FI_HIKYAKU_PORT: '%s' names no port", list);
	snprintf(spec, HK_PORT_SPEC_MAX, "%s", all[chosen]);
	return 0;
}

static int choose_protection(const char *spec, uint8_t *protection, struct hk_error *err)
{
	const char *name = PARAMS->protection;

	if (!name || !*name || strcmp(name, "auto") == 0)
		name = hk_port_spec_is_private(spec) ? "off" : "auth";
	if (hk_protection_by_name(name, protection) == 0)
		return 0;
	return hk_error_set(err, -EINVAL,
			    "FI_HIKYAKU_PROTECTION: there is no protection \"%s\"; fix: auto, "
			    "off, crc, auth or seal",
			    name);
}

static void on_lost(void *arg, hk_peer peer, enum hk_disconnect_reason why, const char *text)
{
	struct hk_fi_domain *d = arg;

	(void)why;
	hk_fi_warn("%s", text);
	hk_fi_receive_lost(d, peer == HK_PEER_NONE ? HK_FI_NO_PEER : hk_fi_peer_of(d, peer));
	hk_fi_send_lost(d, peer);
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
	cfg->lost_arg = d;
}

static void note(const char *text)
{
	hk_fi_say(FI_LOG_INFO, "%s", text);
}

/* Attaches to hikyakud, if the user wants that. Jobs may have no key of their own. Then the
 * launcher's process tells their daemons apart. */
static int attach(struct hk_fi_domain *d, const char *spec, struct hk_worker_config *cfg,
		  struct hk_error *err)
{
	static _Atomic bool attached; /* DPDK joins one memory in the life of a process */
	const uint32_t key = cfg->engine.key ? cfg->engine.key : HOSTED_KEY;
	const struct hk_hosted_config hosted = {
		.mode = PARAMS->mode && *PARAMS->mode ? PARAMS->mode : NULL,
		.ports = 1,
		.mode_parameter = "FI_HIKYAKU_MODE",
		.port_parameter = "FI_HIKYAKU_PORT",
		.note = note,
		.request =
			{
				.job_key = key,
				.job_daemon = cfg->engine.key ? 0 : (uint32_t)hk_launcher_process(),
				.endpoint = d->name.endpoint,
				.local_rank = number(hk_launcher_local_rank(), 0),
				.local_ranks = number(hk_launcher_local_size(), 1),
				.port = spec,
				.huge_dir = getenv("HIKYAKU_HUGE_DIR"),
				.rx_buffers = (unsigned)PARAMS->rx_buffers,
				.tx_buffers = (unsigned)PARAMS->tx_buffers,
				.timeout_ms = (unsigned)PARAMS->connect_timeout_ms,
			},
	};
	int rc = hk_hosted_open(&hosted, &d->hosted, err);

	if (rc || !d->hosted)
		return rc;
	cfg->engine.key = key;
	if (!atomic_exchange(&attached, true))
		return 0;
	hk_hosted_close(d->hosted);
	d->hosted = NULL;
	return hk_error_set(err, -EBUSY,
			    "this process has opened a domain in mode %s before, and with hikyakud "
			    "it can open one; fix: set FI_HIKYAKU_MODE to inline",
			    PARAMS->mode);
}

/* With hikyakud, which has the port. */
static int open_hosted(struct hk_fi_domain *d, const char *spec, struct hk_worker_config *cfg,
		       struct hk_error *err)
{
	const struct hk_ctl_welcome *l = hk_hosted_lease(d->hosted);
	const struct hk_hosted_node node = hk_hosted_node(d->hosted);
	int rc = hk_hosted_start_dpdk(d->hosted, NULL, false, err);

	if (l->port_kind == HK_CTL_PORT_WIRES) {
		cfg->engine.target_delay = HK_SEC;
		d->name.kind |= HK_FI_NAME_WIRE;
	}
	cfg->engine.link_mbps = l->link_mbps;
	cfg->engine.classes = l->classes;
	cfg->engine.max_peers = HOSTED_PEERS;
	cfg->frame_max = l->frame_max;
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
	if (rc == 0 && l->port_kind == HK_CTL_PORT_WIRES)
		rc = hk_calls_open(spec, cfg->engine.key, d->name.endpoint, sizeof(d->name),
				   &d->calls, err);
	return rc;
}

static int open_wires(struct hk_fi_domain *d, const char *spec, struct hk_worker_config *cfg,
		      struct hk_error *err)
{
	struct hk_eal_config eal = {.lazy_buffers = true};
	int rc = hk_port_wire_set_check(spec, err);

	cfg->engine.target_delay = HK_SEC; /* nobody else's frames are in its queue */
	cfg->frame_max = hk_port_wire_frame_max(spec);
	d->name.kind |= HK_FI_NAME_WIRE;
	d->name.frame_max = (uint16_t)cfg->frame_max;
	if (rc == 0)
		rc = hk_port_spec_eal(spec, &eal, err);
	if (rc == 0)
		rc = hk_eal_init(&eal, err);
	if (rc == 0)
		rc = hk_worker_open(cfg, &d->worker, err);
	if (rc)
		return rc;
	d->wires = calloc(1, sizeof(*d->wires));
	if (!d->wires)
		return hk_error_set(err, -ENOMEM, "no memory");
	*d->wires = (struct hk_wires){
		.worker = d->worker,
		.count = 1,
		.key = cfg->engine.key,
		.endpoint = d->name.endpoint,
		.buffers = (unsigned)PARAMS->rx_buffers,
		.timeout_ms = PARAMS->connect_timeout_ms,
	};
	snprintf(d->wires->spec[0], sizeof(d->wires->spec[0]), "%s", spec);
	return hk_calls_open(spec, cfg->engine.key, d->name.endpoint, sizeof(d->name), &d->calls,
			     err);
}

static int open_port(struct hk_fi_domain *d, const char *spec, struct hk_worker_config *cfg,
		     struct hk_error *err)
{
	struct hk_peer_addr own;
	int rc = hk_worker_open_port_spec(cfg, spec, PARAMS->connect_timeout_ms, &d->worker, err);

	if (rc)
		return rc;
	(void)hk_worker_address(d->worker, 0, &own);
	d->name.frame_max = own.frame_max;
	for (size_t i = 0; i < sizeof(own.ip6); i++)
		if (own.ip6[i])
			d->name.kind |= HK_FI_NAME_IP6;
	if (d->name.kind & HK_FI_NAME_IP6)
		memcpy(d->name.address, own.ip6, sizeof(own.ip6));
	else
		memcpy(d->name.address, own.mac, sizeof(own.mac));
	return 0;
}

int hk_fi_worker_open(struct hk_fi_domain *d, struct hk_error *err)
{
	char list[2 * HK_PORT_SPEC_MAX], *spec = d->port;
	struct hk_worker_config cfg;
	const uint8_t *key;
	uint8_t protection = 0;
	int rc;

	if (getrandom(&d->name.endpoint, sizeof(d->name.endpoint), 0) != sizeof(d->name.endpoint))
		return hk_error_set(err, -EIO, "getrandom: %s", strerror(errno));
	configure(d, &cfg);
	rc = choose_port(list, sizeof(list), err);
	if (rc == 0)
		rc = one_port(list, spec, err);
	if (rc == 0)
		rc = choose_protection(spec, &protection, err);
	if (rc)
		return rc;
	cfg.engine.protection = protection;
	rc = attach(d, spec, &cfg, err);
	if (rc)
		return rc;
	d->name.version = HK_FI_NAME_VERSION;
	d->name.kind = protection;
	d->name.key_check = hk_fi_key_check(cfg.engine.key);
	rc = d->hosted                        ? open_hosted(d, spec, &cfg, err)
	     : hk_port_spec_is_wire_set(spec) ? open_wires(d, spec, &cfg, err)
					      : open_port(d, spec, &cfg, err);
	if (rc)
		return rc;
	key = hk_worker_public_key(d->worker);
	if (key)
		memcpy(d->name.public_key, key, sizeof(d->name.public_key));
	d->payload = hk_worker_frame_payload(d->worker);
	d->eager = PARAMS->eager > 0               ? (size_t)PARAMS->eager
		   : strncmp(spec, "udp:", 4) == 0 ? EAGER_SOCKETS
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
	if (d->worker)
		hk_worker_close(d->worker, (unsigned)PARAMS->linger_ms);
	d->worker = NULL;
	hk_fi_keys_close(d);
	hk_fi_peers_close(d);
	hk_calls_close(d->calls);
	d->calls = NULL;
	hk_wires_end(d->wires);
	free(d->wires);
	d->wires = NULL;
	hk_hosted_close(d->hosted);
	d->hosted = NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/module.c: the one module of this BTL: what it opens at the start, and in which order,
 * and closes at the end.
 */
#include "openmpi/btl/btl_hikyaku.h"

#include "opal/util/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PARAMS (&mca_btl_hikyaku_component.param)

/* ---- start --------------------------------------------------------------------------------- */

static uint32_t mix32(uint64_t x)
{
	x ^= x >> 33;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	return (uint32_t)(x ^ (x >> 32));
}

static void identify(void)
{
	opal_process_name_t me = opal_proc_local_get()->proc_name;
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	/* all jobs of one mpirun share the upper half of the job id, and so the key */
	hk_btl.key = PARAMS->key ? PARAMS->key : mix32((me.jobid >> 16) + UINT64_C(0x48696b79));
	hk_btl.endpoint = hk_btl_endpoint_of(me);
	/* later after every restart: steps of 8 ms, wrapping after a year */
	hk_btl.epoch = (uint32_t)(((uint64_t)t.tv_sec * HK_SEC + (uint64_t)t.tv_nsec) >> 23);
	hk_btl.epoch += hk_btl.epoch == 0;
}

/* A peer needs memory when it is first used. A slot of hikyakud has its memory from the start. */
#define MAX_PEERS        65536u
#define MAX_PEERS_SHARED 4096u

static void engine_config(struct hk_engine_config *c)
{
	const struct hk_btl_params *p = PARAMS;

	c->key = hk_btl.key;
	c->endpoint = hk_btl.endpoint;
	c->epoch = hk_btl.epoch;
	c->max_peers = p->max_peers ? p->max_peers : hk_btl.daemon ? MAX_PEERS_SHARED : MAX_PEERS;
	c->window = (uint16_t)p->window;
	c->window_bytes = p->window_bytes;
	c->protection = hk_btl.protection;
	c->ack_every = (uint16_t)HK_MIN(p->ack_every, 0xffffu);
	c->ack_delay = p->ack_delay_us * HK_USEC;
	c->min_rto = p->min_rto_us * HK_USEC;
	c->max_rto = p->max_rto_us * HK_USEC;
	c->initial_rto = HK_MAX(c->min_rto, 20 * HK_MSEC);
	c->peer_timeout = p->peer_timeout_ms * HK_MSEC;
	c->keepalive = p->keepalive_ms * HK_MSEC;
	c->target_delay = p->target_delay_us * HK_USEC;
}

/* @port: one for each path; NULLs with hikyakud, and for sets of wires. */
static bool has_sockets(struct hk_port *const *port)
{
	for (unsigned i = 0; i < hk_btl.ports.count; i++)
		if (port[i] && port[i]->info.system_calls)
			return true;
	return false;
}

/* Limits of messages. @port: as above. */
static void set_limits(struct hk_port *const *port)
{
	mca_btl_base_module_t *m = &hk_btl.super;
	size_t one = hk_worker_frame_payload(hk_btl.worker);
	size_t frames = PARAMS->eager_frames;

	if (frames == 0) {
		/* A longer message costs a round trip more. At 32 KiB that is 10 of 26 us on UDP
		 * sockets. On other ports it costs less than eager messages do, in bandwidth. */
		size_t bytes = has_sockets(port) ? 64u << 10 : 16u << 10;

		frames = (bytes + 64 /* ob1's header */ + one - 1) / one;
	}
	size_t eager = one * HK_MIN(frames, (size_t)HK_WIRE_MAX_FRAGS);

	hk_btl.payload = one;
	/* The user's values count, as far as frames allow. Fragments have one frame: larger ones,
	 * up to 16 frames, were slower. */
	m->btl_max_send_size = m->btl_max_send_size
				       ? HK_MIN(m->btl_max_send_size, one * HK_WIRE_MAX_FRAGS)
				       : one;
	m->btl_eager_limit = m->btl_eager_limit
				     ? HK_MIN(m->btl_eager_limit, one * HK_WIRE_MAX_FRAGS)
				     : eager;
	m->btl_rndv_eager_limit = m->btl_rndv_eager_limit
					  ? HK_MIN(m->btl_rndv_eager_limit, m->btl_eager_limit)
					  : HK_MIN(one, m->btl_eager_limit);
}

static int start_dpdk(struct hk_error *err)
{
	if (hk_btl.daemon)
		return hk_hosted_start_dpdk(hk_btl.daemon, PARAMS->eal_args, PARAMS->verbose >= 20,
					    err);
	const struct hk_btl_params *p = PARAMS;
	struct hk_eal_config eal = {
		.memory_mb = p->memory_mb,
		.hugepages = p->hugepages,
		.lazy_buffers = true,
		.extra_args = p->eal_args,
		.verbose = p->verbose >= 20,
	};

	return hk_ports_start_dpdk(&hk_btl.ports, &eal, err);
}

/* Opens the ports, unless they are the polling process's, or sets of wires: these are opened peer
 * by peer, in add_procs. */
static int open_ports(struct hk_worker_config *cfg, struct hk_port **port, struct hk_error *err)
{
	const struct hk_ports_config how = {
		.buffers = PARAMS->rx_buffers,
		.pool = hk_btl.rx_pool,
		.processes = opal_process_info.num_local_peers + 1u,
		.timeout_ms = (int)PARAMS->connect_timeout_ms,
		.link_mbps = PARAMS->link_mbps,
		.note = hk_btl_note,
	};

	if (hk_btl.ports.wire_set)
		hk_btl.super.btl_flags |= MCA_BTL_FLAGS_SINGLE_ADD_PROCS;
	if (!hk_btl.daemon)
		return hk_ports_open(&hk_btl.ports, &how, cfg, port, &hk_btl.shares_port, err);
	const struct hk_ctl_welcome *l = hk_hosted_lease(hk_btl.daemon);

	hk_ports_fit(cfg, l->frame_max, hk_btl.ports.wire_set,
		     how.link_mbps ? how.link_mbps : l->link_mbps, l->classes);
	return 0;
}

/* Nobody has promised that an optional port works. */
static void path_down(void *arg, hk_peer peer, unsigned port, const char *text)
{
	(void)arg;
	(void)peer;
	if (!hk_btl.ports.wire_set && hk_btl.ports.optional[port])
		opal_output_verbose(1, mca_btl_hikyaku_component.output, "hikyaku: %s", text);
	else
		hk_btl_error("%s", text);
}

static void configure(struct hk_worker_config *cfg)
{
	hk_worker_config_default(cfg);
	engine_config(&cfg->engine);
	cfg->tx_buffers = PARAMS->tx_buffers;
	cfg->rx_backlog = PARAMS->rx_backlog;
	cfg->backlog_bytes = (size_t)PARAMS->backlog_kb << 10;
	cfg->frame_max = PARAMS->frame_max;
	cfg->wakeup_after = PARAMS->wakeup_after_us * HK_USEC;
	cfg->stripe_min = PARAMS->stripe_min;
	cfg->lost = hk_btl_lost;
	cfg->path_down = path_down;
	cfg->stranger = hk_btl_stranger;
}

/* @port: [HK_PATHS_MAX], all NULL. */
static int open_worker(struct hk_port **port, struct hk_error *err)
{
	struct hk_worker_config cfg;
	unsigned taken = 0;
	int rc;

	configure(&cfg);
	rc = open_ports(&cfg, port, err);
	if (rc == 0 && hk_btl.daemon)
		rc = hk_hosted_memory(hk_btl.daemon, &cfg, err);
	if (rc == 0)
		rc = hk_worker_open(&cfg, &hk_btl.worker, err);
	if (rc == 0)
		rc = hk_ports_add(&hk_btl.ports, hk_btl.worker, port, &taken, err);
	for (unsigned i = 0; rc == 0 && i < HK_MAX(taken, 1u); i++)
		rc = hk_btl_tag_init(port[i] ? port[i]->info.mac : (const uint8_t[6]){0}, err);
	if (rc) {
		for (unsigned i = taken; i < hk_btl.ports.count; i++)
			hk_port_close(port[i]);
		hk_worker_close(hk_btl.worker, 0);
		hk_btl.worker = NULL;
	} else {
		hk_btl_tag_register(*port && !hk_btl.shares_port ? (*port)->info.mac : NULL);
	}
	return rc;
}

static void init_lock(void)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&hk_btl.lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

/* Permits captures of this rank's frames. The rank also runs if this fails. */
static void open_tap(void)
{
	struct hk_error err;
	char who[64];

	if (!PARAMS->capture)
		return;
	snprintf(who, sizeof(who), "rank %u of job %08x", opal_proc_local_get()->proc_name.vpid,
		 hk_btl.key);
	if (hk_tap_open(who, hk_btl.daemon ? hk_hosted_lease(hk_btl.daemon)->shared : NULL, &err) !=
	    0)
		opal_output_verbose(1, mca_btl_hikyaku_component.output, "hikyaku: %s", err.text);
	else
		hk_btl_stats_start();
}

/* Can ranks of this node reach our memory? Only where something else carries their messages, and
 * there are such ranks. */
static bool open_same_node(void)
{
	const struct hk_same_node_name self = {hk_btl.key, hk_btl.endpoint, hk_btl.epoch};
	struct hk_error err = {""};

	if (opal_process_info.num_local_peers == 0 || PARAMS->same_node)
		return false;
	if (hk_same_node_open(&self, &err) == 0)
		return true;
	hk_btl_error("%s", err.text);
	return false;
}

int hk_btl_module_init(struct hk_error *err)
{
	struct hk_port *port[HK_PATHS_MAX] = {NULL};
	int rc;

	unsigned endpoints = PARAMS->max_peers ? PARAMS->max_peers : MAX_PEERS;

	hk_btl.by_peer = calloc(endpoints, sizeof(*hk_btl.by_peer));
	if (!hk_btl.by_peer)
		return hk_error_set(err, -ENOMEM, "no memory for %u endpoints", endpoints);
	identify();
	rc = hk_btl_port_list_read(err);
	if (rc == 0)
		rc = hk_ports_protection(&hk_btl.ports, PARAMS->protection,
					 "btl_hikyaku_protection", &hk_btl.protection, err);
	if (rc == 0)
		rc = hk_btl_mode_choose(err);
	if (rc == 0)
		rc = start_dpdk(err);
	if (rc == 0)
		rc = hk_btl_pool_open(err);
	if (rc == 0)
		rc = open_worker(port, err);
	if (rc) {
		hk_btl_pool_close();
		hk_btl_mode_leave();
		return rc;
	}
	memcpy(hk_btl.port, port, sizeof(port));
	open_tap();
	OBJ_CONSTRUCT(&hk_btl.endpoints, opal_list_t);
	init_lock();
	set_limits(port);
	hk_btl_send_init();
	hk_btl_recv_init(hk_btl.worker);
	hk_btl_rma_init();
	hk_btl_onesided_init();
	hk_btl.same_node = open_same_node();
	if (hk_btl.daemon)
		rc = hk_hosted_share(hk_btl.daemon, hk_btl.worker, PARAMS->progress_thread, err);
	else if (PARAMS->progress_thread)
		rc = hk_worker_progress_thread_start(hk_btl.worker, PARAMS->progress_idle_us,
						     PARAMS->progress_period_us, err);
	if (rc == 0 && hk_btl_publish(port) != OPAL_SUCCESS)
		rc = hk_error_set(err, -EIO, "cannot publish this rank's address");
	if (rc) {
		hk_same_node_close();
		hk_btl.same_node = false;
		hk_btl_mode_unshare();
		hk_btl_stats_stop();
		hk_worker_close(hk_btl.worker, 0);
		hk_btl.worker = NULL;
		hk_tap_close();
		hk_btl_mode_leave();
		hk_btl_pool_close();
	}
	return rc;
}

static int register_error(struct mca_btl_base_module_t *btl, mca_btl_base_module_error_cb_fn_t cb)
{
	(void)btl;
	hk_btl.error_cb = cb;
	return OPAL_SUCCESS;
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Tells the user once a node what slowed the ports. */
static void advise(void)
{
	char text[400];

	for (unsigned i = 0; i < HK_PATHS_MAX && opal_process_info.my_local_rank == 0; i++)
		if (hk_btl.port[i] && hk_port_advice(hk_btl.port[i], text, sizeof(text)))
			hk_btl_error("%s", text);
}

static int finalize(struct mca_btl_base_module_t *btl)
{
	unsigned left;

	(void)btl;
	hk_btl_finish_pending(true);
	if (PARAMS->verbose >= 5)
		hk_btl_print_counters();
	advise();
	hk_btl_mode_unshare();
	hk_btl_stats_stop();
	hk_pools_leave(); /* an MPI process cannot start MPI again */
	left = hk_worker_close(hk_btl.worker, PARAMS->linger_ms);
	hk_btl.worker = NULL;
	hk_tap_close();
	hk_btl_mode_leave();
	hk_wires_end(&hk_btl.wires);
	hk_btl_pool_close();
	if (left)
		opal_output_verbose(1, mca_btl_hikyaku_component.output,
				    "hikyaku: left with %u packets unacknowledged", left);
	for (opal_list_item_t *i; (i = opal_list_remove_first(&hk_btl.endpoints));)
		OBJ_RELEASE(i);
	OBJ_DESTRUCT(&hk_btl.endpoints);
	hk_btl_send_fini();
	hk_btl_recv_fini();
	hk_btl_rma_fini();
	hk_btl_onesided_fini();
	hk_same_node_close();
	free(hk_btl.by_peer);
	return OPAL_SUCCESS;
}

struct hk_btl_module hk_btl = {
	.super =
		{
			.btl_component = &mca_btl_hikyaku_component.super,
			.btl_add_procs = hk_btl_add_procs,
			.btl_del_procs = hk_btl_del_procs,
			.btl_finalize = finalize,
			.btl_alloc = hk_btl_alloc,
			.btl_free = hk_btl_free,
			.btl_prepare_src = hk_btl_prepare_src,
			.btl_send = hk_btl_send,
			.btl_sendi = hk_btl_sendi,
			.btl_put = hk_btl_put,
			.btl_get = hk_btl_get,
			.btl_atomic_op = hk_btl_atomic_op,
			.btl_atomic_fop = hk_btl_atomic_fop,
			.btl_atomic_cswap = hk_btl_atomic_cswap,
			.btl_register_mem = hk_btl_register_mem,
			.btl_deregister_mem = hk_btl_deregister_mem,
			.btl_dump = mca_btl_base_dump,
			.btl_register_error = register_error,
		},
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/fake_resources.c: implements hostd/resources.h without DPDK (fake_resources.h).
 */
#include "tests/unit/hostd/fake_resources.h"
#include "hostd/resources.h"
#include "tests/support/await.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

struct hk_res {
	struct hk_res_config cfg;
	struct hk_res_info info;
	struct fake_memory *mem;
	char dir[128];
};

struct wire {     /* hk_res_wire.port */
	int fd;   /* listening, or connected */
	int peer; /* -1, or accepted */
	char path[128];
};

int hk_res_open(const struct hk_res_config *cfg, struct hk_res **res, struct hk_error *err)
{
	struct hk_res *r = calloc(1, sizeof(*r));

	*res = NULL;
	if (!r)
		return hk_error_set(err, -ENOMEM, "no memory");
	r->cfg = *cfg;
	int rc = 0;
	if (strncmp(cfg->port, "fake:", 5) != 0 || strcmp(cfg->port, "fake:broken") == 0) {
		rc = hk_error_set(err, -ENOENT,
				  "there are no huge pages for port %s; fix: echo 512 > "
				  "/proc/sys/vm/nr_hugepages",
				  cfg->port);
	} else if (!(r->mem = fake_map(cfg->rundir->shared, true))) {
		rc = hk_error_set(err, -EIO, "cannot create the fake memory: %s", strerror(errno));
	}
	if (rc) {
		free(r);
		return rc;
	}
	snprintf(r->dir, sizeof(r->dir), "%s", cfg->port + 5);
	r->info = (struct hk_res_info){.port_kind = HK_CTL_PORT_WIRES,
				       .frame_max = 9216,
				       .mac = {2, 0, 0, 0, 0, 1},
				       .huge_dir = "/dev/hugepages",
				       .runtime_dir = "/run"};
	if (hk_ctl_mode_has_pipes(cfg->mode))
		r->info.eager = (uint16_t)(cfg->eager_queues ? cfg->eager_queues : HK_EAGER_QUEUES);
	*res = r;
	return 0;
}

void hk_res_close(struct hk_res *r)
{
	char path[300];

	fake_path(r->cfg.rundir->shared, "/fake_memory", path);
	unlink(path);
	fake_path(r->cfg.rundir->shared, "", path);
	rmdir(path);
	munmap(r->mem, sizeof(*r->mem));
	free(r);
}

const struct hk_res_info *hk_res_info(const struct hk_res *r)
{
	return &r->info;
}

void hk_res_pool_names(const struct hk_res *r, unsigned slot, char rx[32], char tx[32])
{
	(void)r;
	snprintf(rx, 32, "rx%u", slot);
	snprintf(tx, 32, "tx%u", slot);
}

void hk_res_memory(const struct hk_res *r, unsigned slot, uint64_t *address, uint64_t *len)
{
	*address = (uint64_t)(uintptr_t)&r->mem->worker[slot];
	*len = sizeof(r->mem->worker[slot]);
}

uint64_t hk_res_pipes(const struct hk_res *r, unsigned slot)
{
	return hk_ctl_mode_has_pipes(r->cfg.mode) ? (uint64_t)(uintptr_t)&r->mem->worker[slot] : 0;
}

void hk_res_slot_mac(const struct hk_res *r, unsigned slot, uint8_t mac[6])
{
	(void)slot;
	memcpy(mac, r->info.mac, sizeof(r->info.mac));
}

void hk_res_steering(const struct hk_res *r, struct hk_res_steering *out)
{
	(void)r;
	*out = (struct hk_res_steering){
		.driver = "fake",
		.method = "software",
		.text = "software",
		.queues = 1,
		.better = {{.method = "mac",
			    .text = "hardware rule by MAC",
			    .why = "it is not real"}},
	};
}

uint64_t hk_res_capabilities(const struct hk_res *r)
{
	(void)r;
	return 0;
}

enum hk_ctl_mode hk_res_default_mode(const char *spec)
{
	(void)spec;
	return HK_CTL_HYBRID;
}

int hk_res_ask_port(const char *spec, struct hk_res_steering *out, struct hk_error *err)
{
	(void)err;
	(void)spec;
	hk_res_steering(NULL, out);
	return 0;
}

bool hk_res_slot_is_corrupt(const struct hk_res *r, unsigned slot)
{
	(void)r;
	(void)slot;
	return false;
}

int hk_res_slot_assign(struct hk_res *r, unsigned slot, uint32_t generation, uint32_t job_key,
		       uint32_t endpoint, struct hk_error *err)
{
	(void)job_key;
	(void)endpoint;
	(void)err;
	if (atomic_load(&r->mem->given[slot]) != 0) /* the daemon must not assign a slot twice */
		abort();
	atomic_store(&r->mem->given[slot], generation);
	memset(&r->mem->worker[slot], 0, sizeof(r->mem->worker[slot]));
	return 0;
}

int hk_res_slot_reclaim(struct hk_res *r, unsigned slot, uint32_t generation, struct hk_error *err)
{
	(void)err;
	/* the daemon must not reclaim a free slot, or one that the poller is in */
	if (atomic_load(&r->mem->given[slot]) != generation ||
	    (atomic_load(&r->mem->worker[slot].inside) &&
	     atomic_load(&r->mem->worker[slot].mode) == FAKE_OK))
		abort();
	atomic_store(&r->mem->given[slot], 0);
	atomic_fetch_add(&r->mem->reclaimed[slot], 1);
	return 0;
}

/* ---- wires --------------------------------------------------------------------------------- */

int hk_res_wire_plan(struct hk_res *r, struct hk_res_wire *w, struct hk_error *err)
{
	(void)err;
	w->server = r->cfg.node_id < w->node_id;
	w->eager = r->info.eager;
	w->queues = w->eager + (hk_ctl_mode_has_queues(r->cfg.mode) ? r->cfg.slots * w->slots : 0);
	return 0;
}

int hk_res_wire_open(struct hk_res *r, struct hk_res_wire *w, struct hk_error *err)
{
	static uint16_t next_port;
	struct wire *x = calloc(1, sizeof(*x));

	if (!x)
		return hk_error_set(err, -ENOMEM, "no memory");
	x->peer = -1;
	snprintf(x->path, sizeof(x->path), "%.60s/w-%016" PRIx64 "-%016" PRIx64, r->dir,
		 HK_MIN(r->cfg.node_id, w->node_id), HK_MAX(r->cfg.node_id, w->node_id));
	if (w->server) {
		int rc = hk_rundir_note(r->cfg.rundir, x->path, err);
		x->fd = rc ? rc : hk_ctl_listen(x->path, err);
	} else {
		x->fd = hk_ctl_connect(x->path, hk_clock_ms(), err);
		if (x->fd == -ENOENT || x->fd == -ECONNREFUSED)
			x->fd = -EAGAIN;
	}
	if (x->fd < 0) {
		int rc = x->fd;
		free(x);
		return rc;
	}
	w->port_id = next_port++;
	w->pipe = (uint16_t)(100 +
			     w->port_id % 100); /* differs from port_id, so that a mix-up fails */
	w->port = x;
	return 0;
}

bool hk_res_wire_up(struct hk_res *r, struct hk_res_wire *w)
{
	struct wire *x = w->port;
	char c;
	(void)r;

	if (w->server && x->peer < 0)
		x->peer = accept4(x->fd, NULL, NULL, SOCK_CLOEXEC);
	int fd = w->server ? x->peer : x->fd;
	return fd >= 0 && recv(fd, &c, 1, MSG_DONTWAIT) != 0;
}

void hk_res_wire_close(struct hk_res *r, struct hk_res_wire *w)
{
	struct wire *x = w->port;

	if (atomic_load(&r->mem->attached[w->port_id]) != 0)
		abort(); /* a real driver would free the queues that the poller polls */
	close(x->fd);
	if (x->peer >= 0)
		close(x->peer);
	if (w->server)
		unlink(x->path);
	free(x);
	w->port = NULL;
}

void hk_res_wire_counters(const struct hk_res_wire *w, struct hk_port_counters *n)
{
	*n = (struct hk_port_counters){.rx_frames = w->queues};
}

/* ---- counters ------------------------------------------------------------------------------ */

/* The rank's progress stands for sent packets, the poller's polls for the rx backlog. */
int hk_res_rank_counters(uint64_t memory, uint64_t len, uint64_t worker, struct hk_res_rank *n)
{
	const struct fake_worker *f = (const void *)(uintptr_t)worker;

	*n = (struct hk_res_rank){0};
	if (worker != memory || len < sizeof(*f))
		return -EFAULT;
	n->engine.tx_packets = atomic_load(&f->ticks);
	n->worker.proxy_backlogged = atomic_load(&f->polls);
	return 0;
}

bool hk_res_port_counters(const struct hk_res *r, struct hk_port_counters *n)
{
	*n = (struct hk_port_counters){.rx_missed = 3};
	return hk_ctl_mode_has_pipes(r->cfg.mode);
}

bool hk_res_switch_counters(const struct hk_res *r, struct hk_switch_counters *n)
{
	*n = (struct hk_switch_counters){.rx_frames = 7};
	return hk_ctl_mode_has_pipes(r->cfg.mode);
}

bool hk_res_pipe_levels(const struct hk_res *r, unsigned slot, struct hk_pipe_levels *n)
{
	*n = (struct hk_pipe_levels){.to_rank_frames = slot};
	return hk_ctl_mode_has_pipes(r->cfg.mode);
}

/* ---- poller -------------------------------------------------------------------------------- */

struct fake_wakeup fake_wakeup = {.fd = -1};

void hk_res_prepare_wait(void)
{
	atomic_store(&fake_wakeup.waiting, 1);
}

bool hk_res_waiting(void)
{
	return atomic_load(&fake_wakeup.waiting);
}

bool hk_res_requested(void)
{
	return atomic_load(&fake_wakeup.requested);
}

bool hk_res_finish_wait(void)
{
	eventfd_t n;

	atomic_store(&fake_wakeup.waiting, 0);
	bool signalled = eventfd_read(fake_wakeup.fd, &n) == 0;

	return atomic_exchange(&fake_wakeup.requested, 0) || signalled;
}

int hk_res_join(const char *shared, const char *huge_dir, int *wakeup_fd, struct hk_error *err)
{
	if (getenv("FAKE_JOIN_FAILS"))
		return hk_error_set(err, -EPERM, "the fake secondary may not start; fix: let it");
	*wakeup_fd = fake_wakeup.fd = eventfd(0, EFD_NONBLOCK |
							 EFD_CLOEXEC); /* no process signals it */
	return huge_dir && fake_map(shared, false)
		       ? 0
		       : hk_error_set(err, -ENOENT, "the poller finds no memory %s", shared);
}

int (*fake_attach)(uint16_t id, void **port);

/* The memory records which ports the poller uses. */
int hk_res_attach(uint16_t id, void **port, struct hk_error *err)
{
	struct fake_memory *m = (void *)(uintptr_t)FAKE_ADDRESS;
	(void)err;

	if (fake_attach)
		return fake_attach(id, port);
	*port = &m->attached[id];
	atomic_fetch_add(&m->attached[id], 1);
	return 0;
}

void hk_res_detach(void *port)
{
	atomic_fetch_sub((_Atomic uint32_t *)port, 1);
}

void hk_res_leave(void)
{
	munmap((void *)(uintptr_t)FAKE_ADDRESS, sizeof(struct fake_memory));
}

enum hk_proxied hk_res_proxy_poll(void *worker)
{
	struct fake_worker *f = worker;

	atomic_store(&f->inside, 1);
	while (atomic_load(&f->stay))
		pause_1ms(); /* a second of CPU time would count as a hang */
	switch (atomic_load(&f->mode)) {
	case FAKE_CRASH:
		raise(SIGSEGV);
		break;
	case FAKE_SPIN:
		for (;;)
			;
	}
	uint32_t ticks = atomic_load(&f->ticks);
	bool not_polling = ticks == atomic_exchange(&f->seen, ticks);
	if (not_polling)
		atomic_fetch_add(&f->polls, 1);
	atomic_store(&f->inside, 0);
	return not_polling ? HK_PROXIED_BUSY : HK_PROXIED_POLLING;
}

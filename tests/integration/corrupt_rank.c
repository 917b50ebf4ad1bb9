/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/integration/corrupt_rank.c: a rank that overwrites its worker's memory with garbage.
 *
 *     corrupt_rank DAEMON SEED SECONDS
 *
 * It attaches to the administrator's hikyakud of that name, and opens a worker in the memory of its
 * slot. It lets the poller in, prints READY, and overwrites that memory. It writes random bytes,
 * zeros and ones, flips bits, and changes pointers and counters by a little. Between two writes it
 * repairs the lock and the time of its last poll. So the poller takes it for a rank that is not
 * polling, and enters its memory.
 *
 * Status 0: hikyakud has cut the rank off, and the reason is on stdout. Status 3: it was still
 * attached after SECONDS. Status 1: it could not start.
 */
#include "worker/internal.h"
#include "hostd/client.h"
#include "port/port.h"
#include "tests/support/hk_test.h"

#define TIMEOUT_MS 10000

static int open_worker(const struct hk_ctl_welcome *l, struct hk_worker **w, struct hk_error *err)
{
	struct hk_worker_config cfg;

	hk_worker_config_default(&cfg);
	cfg.engine.key = 1;
	cfg.engine.endpoint = 1;
	cfg.engine.epoch = 1;
	cfg.frame_max = l->frame_max;
	cfg.memory = (void *)(uintptr_t)l->memory;
	cfg.memory_len = l->memory_len;
	int rc = hk_pool_find(l->tx_pool, &cfg.tx_pool, err);

	if (rc == 0)
		rc = hk_worker_open(&cfg, w, err);
	return rc ? rc : hk_worker_share(*w, err);
}

/* ---- garbage --------------------------------------------------------------------------------- */

/* An address: mostly within struct hk_worker, at times anywhere in the slot's memory. */
static uint8_t *somewhere(struct hk_rng *r, const struct hk_ctl_welcome *l, size_t len)
{
	uint64_t range = hk_rng_chance(r, 700000) ? sizeof(struct hk_worker) : l->memory_len;

	return (uint8_t *)(uintptr_t)l->memory + hk_rng_below(r, range - len);
}

static void corrupt(struct hk_rng *r, const struct hk_ctl_welcome *l)
{
	size_t len = (size_t)hk_rng_range(r, 1, 256);
	uint8_t *p = somewhere(r, l, len);
	uint64_t *word = (uint64_t *)((uintptr_t)somewhere(r, l, 16) & ~UINT64_C(7));

	switch (hk_rng_below(r, 5)) {
	case 0:
		for (size_t i = 0; i < len; i++)
			p[i] = (uint8_t)hk_rng_next(r);
		break;
	case 1:
		*p ^= (uint8_t)(1u << hk_rng_below(r, 8));
		break;
	case 2:
		memset(p, hk_rng_chance(r, 500000) ? 0xff : 0, len);
		break;
	case 3: /* a pointer into our own memory */
		*word = l->memory + hk_rng_below(r, l->memory_len);
		break;
	default: /* a counter or link that is off by a little */
		*word += hk_rng_below(r, 65) - 32;
		break;
	}
}

/* Makes the poller take this rank for one that is not polling. */
static void pretend_absence(struct hk_worker *w)
{
	atomic_store(&w->app_polled_at, 0);
	atomic_store(&w->lock.owner_in, 0);
	w->lock.processes = true;
}

int main(int argc, char **argv)
{
	struct hk_error err = {""};
	struct hk_worker *w = NULL;
	struct hk_hostd_client *host = NULL;

	if (argc != 4) {
		fprintf(stderr, "usage: corrupt_rank DAEMON SEED SECONDS\n");
		return 1;
	}
	struct hk_rng r = {strtoull(argv[2], NULL, 0)};
	struct hk_hostd_request req = {
		.job_key = 0x5c000000 | (uint32_t)(r.state & 0xffffff),
		.endpoint = 1,
		.local_ranks = 1,
		.name = argv[1],
		.timeout_ms = TIMEOUT_MS,
	};
	int rc = hk_hostd_client_connect(&req, &host, &err);
	const struct hk_ctl_welcome *l = rc ? NULL : hk_hostd_client_lease(host);

	if (rc == 0) {
		const struct hk_eal_config eal = {
			.role = HK_EAL_SECONDARY,
			.shared = l->shared,
			.huge_dir = l->huge_dir[0] ? l->huge_dir : NULL,
			.lcore = l->lcore,
		};
		rc = hk_eal_init(&eal, &err);
	}
	if (rc == 0)
		rc = open_worker(l, &w, &err);
	if (rc == 0)
		rc = hk_hostd_client_ready(host, w, TIMEOUT_MS, &err);
	if (rc == 0)
		rc = hk_hostd_client_watch(host, NULL, NULL, &err);
	if (rc) {
		fprintf(stderr, "corrupt_rank: %s\n", err.text);
		return 1;
	}
	printf("READY\n");
	fflush(stdout);

	int64_t end = hk_clock_ms() + 1000 * atoll(argv[3]);

	while (!hk_hostd_client_lost(host) && hk_clock_ms() < end) {
		corrupt(&r, l);
		pretend_absence(w);
		usleep(100); /* the poller enters a few thousand times a second */
	}
	if (!hk_hostd_client_lost(host))
		_exit(3);
	printf("CUT OFF: %s\n", hk_hostd_client_lost_text(host));
	fflush(stdout);
	_exit(0); /* exit handlers would work on garbage */
}

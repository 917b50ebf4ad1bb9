/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/integration/scribbler.c: a rank that writes garbage over its own fabric, for as long as it is let.
 *
 *     scribbler DAEMON SEED SECONDS
 *
 * It attaches to the administrator's hikyakud of that name, builds a fabric in the memory that it is lent, lets the
 * poller in, says READY, and scribbles: noise, flipped bits, zeros and ones, pointers that lie a
 * little beside what they meant. In between it puts the lock and the time of its last look in order, so that
 * the poller believes in an absent rank, and comes in. What must happen to it: it is cut off (status 0,
 * and what it was told on stdout). Status 3: it was let be until the time was over. 1: could not start.
 */
#include "fabric/internal.h"
#include "host/client.h"
#include "port/port.h"
#include "tests/unit/hk_test.h"

#define TIMEOUT_MS 10000

static int build_fabric(const struct hk_ctl_welcome *l, struct hk_fabric **f, struct hk_error *err)
{
	struct hk_fabric_config cfg;

	hk_fabric_config_default(&cfg);
	cfg.engine.key = 1;
	cfg.engine.endpoint = 1;
	cfg.engine.epoch = 1;
	cfg.frame_max = l->frame_max;
	cfg.memory = (void *)(uintptr_t)l->memory;
	cfg.memory_len = l->memory_len;
	int rc = hk_pool_find(l->tx_pool, &cfg.tx_pool, err);

	if (rc == 0)
		rc = hk_fabric_open(&cfg, f, err);
	return rc ? rc : hk_fabric_share(*f, err);
}

/* ---- garbage --------------------------------------------------------------------------------- */

/* Mostly in the fabric itself and what lies behind it, seldom anywhere in the slot's memory. */
static uint8_t *somewhere(struct hk_rng *r, const struct hk_ctl_welcome *l, size_t len)
{
	uint64_t room = hk_rng_chance(r, 700000) ? sizeof(struct hk_fabric) : l->memory_len;

	return (uint8_t *)(uintptr_t)l->memory + hk_rng_below(r, room - len);
}

static void scribble(struct hk_rng *r, const struct hk_ctl_welcome *l)
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
	case 3: /* somewhere into our own memory */
		*word = l->memory + hk_rng_below(r, l->memory_len);
		break;
	default: /* counters and links off by a little */
		*word += hk_rng_below(r, 65) - 32;
		break;
	}
}

static void look_absent(struct hk_fabric *f)
{
	atomic_store(&f->app_at, 0);
	atomic_store(&f->lock.owner_in, 0);
	f->lock.processes = true;
}

int main(int argc, char **argv)
{
	struct hk_error err = {""};
	struct hk_fabric *f = NULL;
	struct hk_host *host = NULL;

	if (argc != 4) {
		fprintf(stderr, "usage: scribbler DAEMON SEED SECONDS\n");
		return 1;
	}
	struct hk_rng r = {strtoull(argv[2], NULL, 0)};
	struct hk_host_request req = {
		.job_key = 0x5c000000 | (uint32_t)(r.state & 0xffffff),
		.endpoint = 1,
		.local_ranks = 1,
		.name = argv[1],
		.timeout_ms = TIMEOUT_MS,
	};
	int rc = hk_host_connect(&req, &host, &err);
	const struct hk_ctl_welcome *l = rc ? NULL : hk_host_lease(host);

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
		rc = build_fabric(l, &f, &err);
	if (rc == 0)
		rc = hk_host_ready(host, f, TIMEOUT_MS, &err);
	if (rc == 0)
		rc = hk_host_watch(host, NULL, NULL, &err);
	if (rc) {
		fprintf(stderr, "scribbler: %s\n", err.text);
		return 1;
	}
	printf("READY\n");
	fflush(stdout);

	int64_t end = hk_ctl_now_ms() + 1000 * atoll(argv[3]);

	while (!hk_host_lost(host) && hk_ctl_now_ms() < end) {
		scribble(&r, l);
		look_absent(f);
		usleep(100); /* the poller looks a few thousand times a second */
	}
	if (!hk_host_lost(host))
		_exit(3);
	printf("CUT OFF: %s\n", hk_host_lost_text(host));
	fflush(stdout);
	_exit(0); /* what it would clean up is garbage */
}

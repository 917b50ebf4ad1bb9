/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/attach_bench.c: the time that a rank takes to attach to hikyakud, step by step, without
 * MPI.
 *
 * It does what the BTL does until the poller may poll the rank's worker (openmpi/btl/mode.c):
 *
 *   slot     asks for a slot, and starts the job's daemon if none runs
 *   dpdk     joins DPDK's memory
 *   worker   opens the worker there
 *   ready    tells the daemon that the worker is ready
 *
 * Then it leaves as a rank does. It prints one JSON object a line, in milliseconds:
 *
 *     {"metric":"attach_ms","size":0,"value":212.4}        all steps
 *     {"metric":"attach_slot_ms",...}                      one step; also attach_dpdk_ms,
 *                                                          attach_worker_ms, attach_ready_ms
 */
#include "worker/private.h"
#include "hikyaku/worker.h"
#include "hostd/client.h"
#include "port/port.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_MS 20000
/* The BTL's default (btl_hikyaku_max_peers). The worker's memory grows with it. */
#define MAX_PEERS 4096

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int build_worker(const struct hk_ctl_welcome *l, struct hk_worker **worker,
			struct hk_error *err)
{
	struct hk_worker_config cfg;

	hk_worker_config_default(&cfg);
	cfg.engine.key = 1;
	cfg.engine.endpoint = 1;
	cfg.engine.epoch = 1;
	cfg.engine.max_peers = MAX_PEERS;
	cfg.frame_max = l->frame_max;
	cfg.memory = (void *)(uintptr_t)l->memory;
	cfg.memory_len = l->memory_len;
	int rc = hk_pool_find(l->tx_pool, &cfg.tx_pool, err);

	if (rc == 0)
		rc = hk_worker_open(&cfg, worker, err);
	return rc ? rc : hk_worker_share(*worker, err);
}

static int attach(const struct hk_hostd_request *req, struct hk_error *err)
{
	enum { START, SLOT, DPDK, WORKER, READY, STEPS };
	static const char *const name[STEPS] = {"", "slot_", "dpdk_", "worker_", "ready_"};
	struct hk_worker *worker = NULL;
	struct hk_hostd_client *client;
	double t[STEPS];

	t[START] = now_ms();
	int rc = hk_hostd_client_connect(req, &client, err);
	if (rc)
		return rc;
	t[SLOT] = now_ms();
	const struct hk_ctl_welcome *l = hk_hostd_client_lease(client);
	const struct hk_eal_config eal = {
		.role = HK_EAL_SECONDARY,
		.shared = l->shared,
		.huge_dir = l->huge_dir[0] ? l->huge_dir : NULL,
		.lcore = l->lcore,
	};
	rc = hk_eal_init(&eal, err);
	t[DPDK] = now_ms();
	if (rc == 0)
		rc = build_worker(l, &worker, err);
	t[WORKER] = now_ms();
	if (rc == 0)
		rc = hk_hostd_client_ready(client, worker, TIMEOUT_MS, err);
	t[READY] = now_ms();
	if (rc == 0)
		rc = hk_hostd_client_leave(client, TIMEOUT_MS, err);
	if (worker)
		hk_worker_close(worker, 0);
	hk_eal_end();
	hk_hostd_client_close(client);
	for (int i = 0; rc == 0 && i < STEPS; i++)
		printf("{\"metric\":\"attach_%sms\",\"size\":0,\"value\":%.3f}\n", name[i],
		       i == START ? t[READY] - t[START] : t[i] - t[i - 1]);
	return rc;
}

int main(int argc, char **argv)
{
	struct hk_error err = {""};
	struct hk_hostd_request req = {
		.job_key = 0x62656e63,
		.endpoint = 1,
		.local_ranks = 1,
		.huge_dir = getenv("HIKYAKU_HUGE_DIR"),
		.timeout_ms = TIMEOUT_MS,
	};

	if (argc != 4 || !hk_ctl_mode_by_name(argv[3])) {
		fprintf(stderr,
			"usage: attach_bench PORT-SPEC HIKYAKUD hybrid|daemon|split\n"
			"  attaches to the administrator's hikyakud if one runs on this node, else "
			"starts one in that mode\n");
		return 2;
	}
	req.port = argv[1];
	req.program = argv[2];
	req.mode = hk_ctl_mode_by_name(argv[3]);
	if (attach(&req, &err) != 0) {
		fprintf(stderr, "attach_bench: %s\n", err.text);
		return 1;
	}
	return 0;
}

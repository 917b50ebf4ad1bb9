/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/attach_bench.c: how long a rank takes to attach to hikyakud, step by step, without MPI.
 *
 * It does what the BTL does from its start until the poller may serve the slot (mpi/host.c): asks for
 * a slot (and starts the job's daemon if none runs), joins DPDK's memory, builds the fabric there,
 * says that it is ready. Then it leaves as a rank does. One JSON object a line, milliseconds:
 *
 *     {"metric":"attach_ms","size":0,"value":212.4}        all of it
 *     {"metric":"attach_slot_ms", …} attach_dpdk_ms, attach_fabric_ms, attach_ready_ms: the steps
 */
#include "fabric/fabric.h"
#include "host/client.h"
#include "port/port.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_MS 20000
/* As the BTL's default (btl_hikyaku_max_peers): it is what the fabric's memory grows with. */
#define MAX_PEERS 4096

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int build_fabric(const struct hk_ctl_welcome *l, struct hk_fabric **fabric,
			struct hk_error *err)
{
	struct hk_fabric_config cfg;

	hk_fabric_config_default(&cfg);
	cfg.engine.key = 1;
	cfg.engine.endpoint = 1;
	cfg.engine.epoch = 1;
	cfg.engine.max_peers = MAX_PEERS;
	cfg.frame_max = l->frame_max;
	cfg.memory = (void *)(uintptr_t)l->memory;
	cfg.memory_len = l->memory_len;
	int rc = hk_pool_find(l->tx_pool, &cfg.tx_pool, err);

	if (rc == 0)
		rc = hk_fabric_open(&cfg, fabric, err);
	return rc ? rc : hk_fabric_share(*fabric, err);
}

static int attach(const struct hk_host_request *req, struct hk_error *err)
{
	enum { START, SLOT, DPDK, FABRIC, READY, STEPS };
	static const char *const name[STEPS] = {"", "slot_", "dpdk_", "fabric_", "ready_"};
	struct hk_fabric *fabric = NULL;
	struct hk_host *host;
	double t[STEPS];

	t[START] = now_ms();
	int rc = hk_host_connect(req, &host, err);
	if (rc)
		return rc;
	t[SLOT] = now_ms();
	const struct hk_ctl_welcome *l = hk_host_lease(host);
	const struct hk_eal_config eal = {
		.role = HK_EAL_SECONDARY,
		.shared = l->shared,
		.huge_dir = l->huge_dir[0] ? l->huge_dir : NULL,
		.lcore = l->lcore,
	};
	rc = hk_eal_init(&eal, err);
	t[DPDK] = now_ms();
	if (rc == 0)
		rc = build_fabric(l, &fabric, err);
	t[FABRIC] = now_ms();
	if (rc == 0)
		rc = hk_host_ready(host, fabric, TIMEOUT_MS, err);
	t[READY] = now_ms();
	if (rc == 0)
		rc = hk_host_goodbye(host, TIMEOUT_MS, err);
	if (fabric)
		hk_fabric_close(fabric, 0);
	hk_eal_end();
	hk_host_close(host);
	for (int i = 0; rc == 0 && i < STEPS; i++)
		printf("{\"metric\":\"attach_%sms\",\"size\":0,\"value\":%.3f}\n", name[i],
		       i == START ? t[READY] - t[START] : t[i] - t[i - 1]);
	return rc;
}

int main(int argc, char **argv)
{
	struct hk_error err = {""};
	struct hk_host_request req = {
		.job_key = 0x62656e63,
		.endpoint = 1,
		.local_ranks = 1,
		.huge_dir = getenv("HIKYAKU_HUGE_DIR"),
		.timeout_ms = TIMEOUT_MS,
	};

	if (argc != 4 || !hk_ctl_mode_of(argv[3])) {
		fprintf(stderr,
			"usage: attach_bench PORT-SPEC HIKYAKUD hybrid|daemon|split\n"
			"  attaches to the administrator's hikyakud if one runs on this node, else "
			"starts one in that mode\n");
		return 2;
	}
	req.port = argv[1];
	req.program = argv[2];
	req.mode = hk_ctl_mode_of(argv[3]);
	if (attach(&req, &err) != 0) {
		fprintf(stderr, "attach_bench: %s\n", err.text);
		return 1;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/resources_poller.c: the poller's side of the daemon's memory.
 */
#include "worker/private.h"
#include "hikyaku/worker.h"
#include "hostd/poller.h"
#include "hostd/resources_parts.h"
#include "port/wakeup.h"

#include <errno.h>

_Static_assert(HK_RES_NOT_POLLING_NS == HK_WORKER_NOT_POLLING, "resources.h knows no worker");
_Static_assert(HK_RES_SETTLE_NS == HK_WAKEUP_SETTLE, "resources.h knows no wakeup");

#define ATTACH_MS 1000

int hk_res_join(const char *shared, const char *huge_dir, int *wakeup_fd, struct hk_error *err)
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
	if (hk_worker_proxy_init() != 0)
		return hk_error_set(err, -ENOSYS,
				    "this kernel has no membarrier(2); fix: run without a poller");
	hk_res_open_tap("poller", shared);
	return hk_wakeup_listen(HK_WAKEUP_POLLER, wakeup_fd, err);
}

void hk_res_prepare_wait(void)
{
	hk_wakeup_prepare_wait(HK_WAKEUP_POLLER);
}

bool hk_res_waiting(void)
{
	return hk_wakeup_waiting(HK_WAKEUP_POLLER);
}

bool hk_res_requested(void)
{
	return hk_wakeup_requested(HK_WAKEUP_POLLER);
}

bool hk_res_finish_wait(void)
{
	return hk_wakeup_finish_wait(HK_WAKEUP_POLLER);
}

void hk_res_leave(void)
{
	hk_tap_close();
	hk_eal_end();
}

int hk_res_attach(uint16_t id, void **port, struct hk_error *err)
{
	struct hk_port *p = NULL;
	int rc = hk_port_attach(id, ATTACH_MS, &p, err);

	if (rc == 0) /* a port without wakeup is polled every max_sleep_ns */
		(void)hk_wakeup_listen_wire(p);
	*port = p;
	return rc;
}

void hk_res_detach(void *port)
{
	hk_port_detach(port);
}

/* The switch may share a rank's core. A rank counts as polling for so long after the switch got the
 * core. */
#define EXCUSED_US 300

/* The ports of the worker are attached. The daemon tells a rank of a wire when the poller has begun
 * to attach it. The poller finishes that before it polls any worker again. */
enum hk_proxied hk_res_proxy_poll(void *worker)
{
	uint64_t most = hk_eal_tsc_hz() / 1000000 * EXCUSED_US;

	switch (hk_worker_proxy_poll(worker,
				     hk_wakeup_core_lost(HK_WAKEUP_SWITCH, rte_rdtsc(), most))) {
	case HK_PROXY_BUSY:
		return HK_PROXIED_BUSY;
	case HK_PROXY_IDLE:
		return HK_PROXIED_IDLE;
	case HK_PROXY_UNACKED:
		return HK_PROXIED_UNACKED;
	default:
		return HK_PROXIED_POLLING;
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/resources_poller.c: the polling process's side of the daemon's memory.
 */
#include "fabric/fabric.h"
#include "host/poller.h"
#include "host/resources_parts.h"
#include "port/bell.h"

#include <errno.h>

_Static_assert(HK_RES_ABSENT_NS == HK_FABRIC_ABSENT, "two names of one thing");
_Static_assert(HK_RES_SETTLE_NS == HK_BELL_SETTLE, "two names of one thing");

#define ATTACH_MS 1000

int hk_res_join(const char *shared, const char *huge_dir, int *bell, struct hk_error *err)
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
				    "this kernel has no membarrier(2); fix: run without a poller");
	hk_res_open_tap("poller", shared);
	return hk_bell_listen(HK_BELL_POLLER, bell, err);
}

void hk_res_lie_down(void)
{
	hk_bell_lie_down(HK_BELL_POLLER);
}

bool hk_res_lies(void)
{
	return hk_bell_lies(HK_BELL_POLLER);
}

bool hk_res_asked(void)
{
	return hk_bell_asked(HK_BELL_POLLER);
}

bool hk_res_get_up(void)
{
	return hk_bell_get_up(HK_BELL_POLLER);
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

	if (rc == 0) /* one without a bell is looked at by the clock */
		(void)hk_bell_listen_wire(p);
	*port = p;
	return rc;
}

void hk_res_detach(void *port)
{
	hk_port_detach(port);
}

/* An owner that shares its core with the switch is not away because that had it, for so long. */
#define EXCUSED_US 300

/* The ports that it uses are attached: its owner hears of a wire when the poller sets out to, which it does before it
 * looks at any fabric again. */
enum hk_served hk_res_serve(void *fabric)
{
	uint64_t most = rte_get_tsc_hz() / 1000000 * EXCUSED_US;

	switch (hk_fabric_serve(fabric, hk_bell_core_lost(HK_BELL_SWITCH, rte_rdtsc(), most))) {
	case HK_SERVE_BUSY:
		return HK_SERVED_BUSY;
	case HK_SERVE_IDLE:
		return HK_SERVED_IDLE;
	case HK_SERVE_OWED:
		return HK_SERVED_OWED;
	default:
		return HK_SERVED_PRESENT;
	}
}

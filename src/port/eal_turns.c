/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/eal_turns.c: the secondaries of one memory finish their starts one after another.
 *
 * rte_eal_init() creates files in the runtime directory, and locks each a moment later. At its end
 * it removes all files whose lock it gets, since a killed process leaves its files
 * (eal_clean_runtime_dir()). Of two secondaries that start at the same moment, the first may get
 * the lock of a file that the second has just created. The second then fails ("Cannot initialize
 * local memory map"), and EAL cannot start again in the same process.
 *
 * So a secondary takes a lock of ours before EAL creates files, and keeps it until the start has
 * ended. EAL calls us in time, when it looks for virtual devices. Before that it reads the cores
 * and the drivers, which takes most of the time of a start and needs no lock.
 */
#include "port/internal.h"

#include <errno.h>
#include <sys/file.h>
#include <unistd.h>

#include <rte_bus_vdev.h>

#define TURN_MS 5000 /* the limit of the wait: the process whose turn it is may be stopped */

static int lock = -1;

/* The lock is on the primary's `config`. EAL locks that by fcntl(), which is another kind. */
static void wait_for_turn(void *shared)
{
	int64_t deadline = hk_clock_ms() + TURN_MS;
	bool alive;

	lock = hk_eal_open_config(shared, &alive);
	while (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0 && hk_clock_ms() < deadline)
		hk_pause_1ms();
}

int hk_eal_turn_begin(const char *shared, struct hk_error *err)
{
	return rte_vdev_add_custom_scan(wait_for_turn, (void *)(uintptr_t)shared) == 0
		       ? 0
		       : hk_error_set(err, -ENOMEM, "no memory to start DPDK");
}

void hk_eal_turn_end(const char *shared)
{
	(void)rte_vdev_remove_custom_scan(wait_for_turn, (void *)(uintptr_t)shared);
	if (lock >= 0)
		close(lock);
	lock = -1;
}

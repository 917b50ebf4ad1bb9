/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/integration/quick_start.c: loaded by LD_PRELOAD, makes DPDK start in 100 ms less.
 *
 * Where the processor does not tell the rate of its clock, rte_eal_init() measures it. It sleeps
 * for 100 ms, and divides the cycles by the time that passed (DPDK's get_tsc_freq()). Here it
 * sleeps for 5 ms, and finds the same rate. Only drivers of real NICs use it: we measure our own,
 * and hk_eal_tsc_hz() returns that (port/port.h). Tests start more than a thousand processes with
 * DPDK.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#define MEASURED_NS 100000000
#define ENOUGH_NS   5000000
#define EXPORT      __attribute__((visibility("default")))

EXPORT int nanosleep(const struct timespec *asked, struct timespec *left)
{
	struct timespec t = *asked;
	Dl_info caller;

	if (t.tv_sec == 0 && t.tv_nsec == MEASURED_NS &&
	    dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, "librte_eal"))
		t.tv_nsec = ENOUGH_NS;
	errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &t, left);
	return errno ? -1 : 0;
}

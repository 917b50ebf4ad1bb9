/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/fake_resources.h: a memory that daemon, poller and test share, instead of
 * DPDK's.
 *
 * It is a file in $XDG_RUNTIME_DIR/dpdk/SHARED, DPDK's directory. So the tests also cover the code
 * that removes DPDK's files. All processes map it at one address. Ports are `fake:DIR`: their wires
 * are UNIX sockets in DIR. `fake:broken` does not start.
 */
#ifndef HK_TESTS_UNIT_HOSTD_FAKE_RESOURCES_H
#define HK_TESTS_UNIT_HOSTD_FAKE_RESOURCES_H

#include "hostd/control.h"

#include <stdatomic.h>

#define FAKE_ADDRESS UINT64_C(0x200000000000)

enum fake_mode {
	FAKE_OK,
	FAKE_CRASH, /* the poller dies in the worker */
	FAKE_SPIN   /* the poller never returns from the worker */
};

struct fake_worker { /* of one slot */
	_Atomic uint32_t mode;
	_Atomic uint32_t ticks, seen; /* the rank's progress; the poller's copy of it */
	_Atomic uint32_t inside;      /* 1 while the poller is in it */
	_Atomic uint32_t stay;        /* 1: the poller stays inside */
	_Atomic uint64_t polls;       /* those that found the rank not polling */
	char pad[4096 - 32];
};

struct fake_memory {
	_Atomic uint32_t given[HK_CTL_MAX_SLOTS]; /* generation of the owner; 0: free */
	_Atomic uint32_t reclaimed[HK_CTL_MAX_SLOTS];
	_Atomic uint32_t attached[HK_CTL_MAX_NODES]; /* by port: 1 while the poller uses it */
	_Alignas(4096) struct fake_worker worker[HK_CTL_MAX_SLOTS];
};

/* The poller's wakeup. A test that runs the poller's loop itself signals it. */
struct fake_wakeup {
	int fd; /* eventfd */
	_Atomic uint32_t waiting, requested;
};
extern struct fake_wakeup fake_wakeup;

/* Replaces the fake's attach in a test that runs the poller's part itself; NULL: does not. */
extern int (*fake_attach)(uint16_t id, void **port);

/* Maps the memory of the daemon @shared; @create: creates it first. */
struct fake_memory *fake_map(const char *shared, bool create);

/* Path of @file in the daemon's directory. */
void fake_path(const char *shared, const char *file, char out[300]);

#endif

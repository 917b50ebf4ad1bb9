/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/fake_resources.h: a memory that daemon, poller and test share, in place of DPDK's.
 *
 * It is a file below $XDG_RUNTIME_DIR/dpdk/SHARED, where DPDK has its own: so what removes those
 * leftovers is tested too. It is mapped at one address everywhere. Ports are `fake:DIR`: wires are
 * UNIX sockets in DIR; `fake:broken` fails to start.
 */
#ifndef HK_FAKE_RESOURCES_H
#define HK_FAKE_RESOURCES_H

#include "host/control.h"

#include <stdatomic.h>

#define FAKE_ADDRESS UINT64_C(0x200000000000)

enum fake_mode {
	FAKE_OK,
	FAKE_CRASH, /* the poller dies in it */
	FAKE_SPIN   /* the poller never comes back */
};

struct fake_fabric { /* of one slot */
	_Atomic uint32_t mode;
	_Atomic uint32_t ticks, seen; /* the owner's progress; the poller's note of it */
	_Atomic uint32_t inside;      /* 1 while the poller serves */
	_Atomic uint32_t hold;        /* 1: the poller stays inside */
	_Atomic uint64_t served;
	char pad[4096 - 32];
};

struct fake_memory {
	_Atomic uint32_t given[HK_CTL_MAX_SLOTS]; /* generation of the owner; 0: none */
	_Atomic uint32_t reclaimed[HK_CTL_MAX_SLOTS];
	_Atomic uint32_t attached[HK_CTL_MAX_NODES]; /* by port: how often the poller has it */
	_Alignas(4096) struct fake_fabric fabric[HK_CTL_MAX_SLOTS];
};

/* The poller's bell: of the process, rung by a test that runs the poller's loop itself. */
struct fake_bell {
	int fd; /* eventfd */
	_Atomic uint32_t lies, asked;
};
extern struct fake_bell fake_bell;

/* Attaches in the place of the fake, in a test that runs the poller's part itself. */
extern int (*fake_attach)(uint16_t id, void **port);

/* Maps what the daemon with this shared memory has made. */
struct fake_memory *fake_map(const char *shared, bool create);

/* Path of @file there. */
void fake_path(const char *shared, const char *file, char out[300]);

#endif

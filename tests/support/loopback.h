/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/loopback.h: a port that receives its own frames.
 *
 * It is DPDK's net_ring. It copies nothing: a sent buffer is received as it is, until the test
 * takes it out of the ring.
 */
#ifndef HK_TEST_LOOPBACK_H
#define HK_TEST_LOOPBACK_H

#include "port/port.h"
#include "tests/support/hk_test.h"

/* Starts DPDK with @memory_mb, once, and opens a new port with @buffers receive buffers. */
static inline struct hk_port *loopback_open(unsigned memory_mb, unsigned buffers)
{
	static unsigned rings;
	struct hk_port *port;
	char spec[64];

	CHECK_OK(hk_eal_init(&(struct hk_eal_config){.memory_mb = memory_mb}, ERR));
	snprintf(spec, sizeof(spec), "vdev:net_ring%u", rings++);
	CHECK_OK(hk_port_open(spec, buffers, NULL, 1000, &port, ERR));
	return port;
}

#endif

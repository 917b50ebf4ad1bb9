/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/sim_nic.h: a NIC that steers, for machines without one.
 *
 * It stands between a program and DPDK's driver of some device with several queues (net_af_packet with
 * qpairs=N): it takes rte_flow's calls, which that driver does not have, checks patterns as hardware
 * does, keeps rules, and after the device's start moves each received frame to the queue that a rule
 * names, or to queue 0. So rules are real and so are frames; only the chip is simulated.
 *
 * Linked into a test, or loaded by LD_PRELOAD into hikyakud. The environment says what it can do:
 *
 *   HK_SIM_NIC=WORD,…    endpoint      RAW after an ETH with a type
 *                        endpoint-abs  RAW items alone, at absolute offsets
 *                        mac           ETH with a destination
 *                        mac-type      ETH with a destination and a type
 *                        udp           ETH, IPV4, UDP destination port
 *                        lies          validates all that, and makes none
 *                        sticky        does not flush
 *                        leftover      there is a rule from before: all to queue 2
 *                        one-mac       takes in frames to one address alone
 *   HK_SIM_NIC_RULES=N   room for N rules; 64
 *
 * Without HK_SIM_NIC it is not there.
 */
#ifndef SIM_NIC_H
#define SIM_NIC_H

#include <stdint.h>

/* Rules in force, those of all ports; and how many were ever made. */
unsigned sim_nic_rules(void);
unsigned sim_nic_made(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/sim_nic.h: a NIC that steers, for machines without one.
 *
 * It replaces functions of DPDK in a program that uses a device with several queues, such as
 * net_af_packet with qpairs=N. It implements rte_flow, which that driver does not have: it checks
 * patterns as hardware does, and stores rules. Once the device has started, it moves each received
 * frame to the queue of its rule, or to queue 0. So rules and frames are real; only the chip is
 * simulated.
 *
 * It is linked into a test, or loaded into hikyakud by LD_PRELOAD. The environment sets its
 * abilities:
 *
 *   HK_SIM_NIC=WORD,…    endpoint      accepts RAW after an ETH with a type
 *                        endpoint-abs  accepts RAW items alone, at absolute offsets
 *                        mac           accepts ETH with a destination
 *                        mac-type      accepts ETH with a destination and a type
 *                        udp           accepts ETH, IPV4, UDP destination port
 *                        lies          validates all these, and creates none
 *                        sticky        does not flush
 *                        leftover      has an old rule: all frames to queue 2
 *                        one-mac       accepts frames to one address only
 *   HK_SIM_NIC_RULES=N   limit of rules; 64
 *
 * Without HK_SIM_NIC it is off.
 */
#ifndef HK_PORT_SIM_NIC_H
#define HK_PORT_SIM_NIC_H

#include <stdint.h>

/* Return the rules in force, of all ports, and the rules created so far. */
unsigned sim_nic_rules(void);
unsigned sim_nic_made(void);

#endif

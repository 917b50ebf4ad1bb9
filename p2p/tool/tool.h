/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/tool/tool.h: hk_p2p, the program that runs beside the devices (in the lab's guest, or on a machine
 * with real ones): `hk_p2p COMMAND [OPTION…]`.
 *
 *   main.c      chooses the command; what commands share
 *   forward.c   frames from one NIC to the other by way of a pop, and whether their bytes landed there
 *   measure.c   DMA's throughput and latency, beside loads (load.c)
 *   nvme.c      blocks of an SSD to the network, past main memory
 *   pops.c      says what a pop is, or why it cannot be
 */
#ifndef HK_P2P_TOOL_H
#define HK_P2P_TOOL_H

#include "base/common.h"
#include "base/error.h"

#define HK_P2P_NICS 4
#define HK_P2P_LINK_MS                                                                             \
	20000 /* for a link to come up; an emulator on a busy machine takes more than 5000 */

/* Starts DPDK with the PCI devices @nics and @mb of huge pages. */
int hk_p2p_eal(char *const *nics, unsigned n, unsigned mb, struct hk_error *err);

/* A decimal number, the whole of @text. */
bool hk_p2p_number(const char *text, uint64_t *out);

/* Commands: exit statuses 0, 1 it failed (a sentence on stderr), 2 usage, 3 bytes did not land. */
int hk_p2p_forward(int argc, char **argv);
int hk_p2p_measure(int argc, char **argv);
int hk_p2p_nvme(int argc, char **argv);
int hk_p2p_pops(int argc, char **argv);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/tool.h: hk_devmem, the program that runs beside the devices, in the lab's guest or on
 * a machine with real ones: `hk_devmem COMMAND [OPTION…]`.
 *
 *   main.c      chooses the command; shared functions
 *   forward.c   sends frames from one NIC to the other through a pop, and checks that they arrive
 *   measure*.c  throughput and latency of DMA, under loads (load.c, train.c)
 *   peer.c      the other end of a measured NIC's cable (probe.c)
 *   nvme.c      sends blocks of an SSD to the network, without main memory
 *   pops.c      describes a pop, or says why it cannot be opened
 */
#ifndef HK_TOOL_TOOL_H
#define HK_TOOL_TOOL_H

#include "base/common.h"
#include "hikyaku/error.h"

#include <signal.h>

#define HK_DEVMEM_NICS 4
#define HK_DEVMEM_LINK_MS                                                                          \
	20000 /* longest wait for a link; an emulator on a busy machine needs more than 5000 */

/* Starts DPDK with the PCI devices @nics and @mb MB of huge pages. */
int hk_devmem_eal(char *const *nics, unsigned n, unsigned mb, struct hk_error *err);

/* After this call SIGINT and SIGTERM only set hk_devmem_stop. Commands then stop their devices
 * before they free memory: devices write to bus addresses, whatever uses them by then. */
void hk_devmem_on_signals(void);
extern volatile sig_atomic_t hk_devmem_stop;

/* Parses a decimal number, which must be all of @text. */
bool hk_devmem_number(const char *text, uint64_t *out);

/* The commands. Exit statuses: 0; 1 failure, with a sentence on stderr; 2 wrong usage; 3 bytes did
 * not reach the memory. */
int hk_devmem_forward(int argc, char **argv);
int hk_devmem_measure(int argc, char **argv);
int hk_devmem_nvme(int argc, char **argv);
int hk_devmem_peer(int argc, char **argv);
int hk_devmem_pops(int argc, char **argv);

#endif

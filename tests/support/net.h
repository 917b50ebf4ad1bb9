/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/net.h: network namespaces and links of a test.
 *
 * A namespace of ours has no name, and its links belong to it. So everything vanishes with the
 * processes in it, however they end.
 */
#ifndef HK_TEST_NET_H
#define HK_TEST_NET_H

#include <stdbool.h>

/* Moves this thread to a new network namespace. Returns false without the right to. */
bool net_own(void);

/* Moves the process to a network namespace with a wire from nic0, which has the address
 * 10.9.9.1/24, to far0. Without the right to, the test is skipped. */
void net_wire(void);

/* Runs a command line. Fails unless its exit status is 0. */
void shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Opens a packet socket on interface @name that sends frames. */
int net_packet_socket(const char *name);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/veth_rig.h: a wire for packet sockets, in a namespace of this process alone.
 */
#ifndef HK_VETH_RIG_H
#define HK_VETH_RIG_H

/* Moves this process into a new network namespace with interfaces h0 … h7, which a bridge connects. Once
 * for a process; later calls do nothing. Needs root, or user namespaces; fails the test without. */
void veth_rig_make(void);

/* Runs `ip ARGUMENTS`; fails the test if it fails. */
void veth_rig_ip(const char *arguments);

#endif

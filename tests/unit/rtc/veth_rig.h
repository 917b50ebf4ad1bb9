/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/veth_rig.h: interfaces for packet sockets, in a namespace of this process.
 */
#ifndef HK_RTC_VETH_RIG_H
#define HK_RTC_VETH_RIG_H

/* Moves this process into a new network namespace with interfaces h0 … h7 on a bridge. Later calls
 * do nothing. Needs root or user namespaces; otherwise the test fails. */
void veth_rig_make(void);

#endif

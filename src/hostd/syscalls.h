/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/syscalls.h: hikyakud and its poller give up system calls that they never need (seccomp(2)).
 *
 * Both follow what ranks write to shared memory, and the poller follows what the network sends. So
 * somebody who finds a fault in them must not gain a way into other processes of this user.
 */
#ifndef HK_HOSTD_SYSCALLS_H
#define HK_HOSTD_SYSCALLS_H

#include "hikyaku/error.h"

#include <stdbool.h>

/* From now on, system calls that look into other processes, change namespaces, mount, load code
 * into the kernel or set clocks fail with EPERM. Without @programs, so do those that execute a
 * program or load BPF. This holds for all threads, and is for good: children inherit it. Call it
 * behind hk_capabilities_drop(). Returns 0 or a negative errno. */
int hk_syscalls_forbid(bool programs, struct hk_error *err);

#endif

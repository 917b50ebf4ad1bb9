/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/join.h: joins the job of a launcher (mpirun, srun). Internal to rtc/.
 *
 * hk_rtc_open() calls, in this order: hk_rtc_join_begin(), hk_rtc_backend_choose()
 * (rtc/backend_choice.h), the backend's open(), hk_rtc_join_exchange(), the backend's peer() for
 * each other node, hk_rtc_join_end(). With a `peers_file` it uses rtc/peers.h instead.
 *
 * It uses PMIx (pmix.org, version 3 or later). Both launchers offer PMIx also to programs without
 * MPI. A program that uses MPI may call this before or after MPI_Init(). Threads: one of a process
 * at a time.
 */
#ifndef HK_RTC_JOIN_H
#define HK_RTC_JOIN_H

#include "rtc/backend.h"

/* Size of what a node publishes, with its NUL: an address and what it says beside. */
#define HK_RTC_ENTRY_MAX (HK_RTC_ADDRESS_MAX + 80)

struct hk_rtc_join;

/* Asks the launcher for this node's identity: sets node, nodes and key of @cfg (a key other than 0
 * stays). -ENOENT: there is no launcher. */
int hk_rtc_join_begin(struct hk_rtc_config *cfg, struct hk_rtc_join **join, struct hk_error *err);

/* This node's number among the nodes of the job on this machine. */
unsigned hk_rtc_join_local_rank(const struct hk_rtc_join *join);

/* Publishes @own, this node's entry, and reads the entries of all nodes into @entry [cfg->nodes].
 * Waits until @deadline_ms of CLOCK_MONOTONIC; -ETIMEDOUT names the missing nodes. */
int hk_rtc_join_exchange(struct hk_rtc_join *join, const char *own, char (*entry)[HK_RTC_ENTRY_MAX],
			 int64_t deadline_ms, struct hk_error *err);

/* Waits until all nodes have called it, without use of the processor. Returns as the former does.
 */
int hk_rtc_join_fence(struct hk_rtc_join *join, int64_t deadline_ms, struct hk_error *err);

/* Frees @join, which may be NULL. The process leaves PMIx when it exits. */
void hk_rtc_join_end(struct hk_rtc_join *join);

#endif

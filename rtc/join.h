/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/join.h: who else is in the job, as the launcher (mpirun, srun) tells it. Internal to rtc/.
 *
 * hk_rtc_open() calls, in this order: hk_rtc_join_begin(), hk_rtc_place() (rtc/place.h), the backend's
 * open(), hk_rtc_join_exchange(), the backend's peer() for each other node, hk_rtc_join_end(). With a
 * `peers_file` none of it: then rtc/peers.h.
 *
 * By PMIx (pmix.org, version 3 or later), which both launchers offer to programs that are not MPI's as
 * well; in a program that also uses MPI, before or after MPI_Init(). One thread of a process at a time.
 */
#ifndef HK_RTC_JOIN_H
#define HK_RTC_JOIN_H

#include "rtc/backend.h"

struct hk_rtc_join;

/* Asks the launcher who we are: fills in node, nodes and key of @cfg (a key that is not 0 stays).
 * -ENOENT: there is no launcher. */
int hk_rtc_join_begin(struct hk_rtc_config *cfg, struct hk_rtc_join **join, struct hk_error *err);

/* This node's number among those of the job on this machine. */
unsigned hk_rtc_join_local_rank(const struct hk_rtc_join *join);

/* Tells all nodes @own, the backend's address, and learns theirs: @address has room for cfg->nodes.
 * Waits for the nodes of the job until @deadline_ms of CLOCK_MONOTONIC; -ETIMEDOUT names the missing. */
int hk_rtc_join_exchange(struct hk_rtc_join *join, const char *own,
			 char (*address)[HK_RTC_ADDRESS_MAX], int64_t deadline_ms,
			 struct hk_error *err);

/* Frees @join; NULL is allowed. The launcher is told that we leave when the process exits. */
void hk_rtc_join_end(struct hk_rtc_join *join);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/kernel.h: loads and attaches the eBPF programs of one job on one node, and reads their
 * state.
 *
 * Nothing is pinned: programs and maps exist until this process ends for whatever reason. So do
 * attachments, except filters of clsact, which then lead nowhere (sdn/tagger/attach.h). Needs
 * CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN, and Linux 6.1. Threads: one at a time.
 */
#ifndef HK_TAGGER_KERNEL_H
#define HK_TAGGER_KERNEL_H

#include "base/common.h"
#include "hikyaku/error.h"
#include "sdn/tagger/attach.h"
#include "sdn/tagger/connections.h"
#include "sdn/tagger/shared.h"

struct hk_tagger_kernel;

/* Suppresses libbpf's messages, unless HIKYAKU_TAG_DEBUG is set. */
void hk_tagger_kernel_quiet(void);

/* Loads the programs for @job, to attach to interfaces by @way (tcx or clsact). The caller owns
 * *@out and closes it. */
int hk_tagger_kernel_open(struct hk_tagger_kernel **out, unsigned job, enum hk_tagger_attach way,
			  struct hk_error *err);
void hk_tagger_kernel_close(struct hk_tagger_kernel *k);

/* Attaches the programs for sockets. Processes of this cgroup get tags on the sockets that they
 * make from now on. */
int hk_tagger_kernel_attach_cgroup(struct hk_tagger_kernel *k, int cgroup_fd, struct hk_error *err);

/* Tags packets that leave through this interface. With @restore, tagged frames that come in for a
 * rank of this node get @mac, the interface's own address. */
int hk_tagger_kernel_attach_link(struct hk_tagger_kernel *k, unsigned ifindex, const char *name,
				 uint64_t mac, bool restore, struct hk_error *err);

/* Adds and removes a rank: process @pid is @rank and writes its function to @slot. */
int hk_tagger_kernel_add(struct hk_tagger_kernel *k, uint32_t slot, uint32_t rank, uint32_t pid);
void hk_tagger_kernel_remove(struct hk_tagger_kernel *k, uint32_t slot, uint32_t rank,
			     uint32_t pid);

/* Returns the map that ranks map: an array of HK_TAGGER_SLOTS struct hk_tagger_slot. Owned by
 * @k. */
int hk_tagger_kernel_slots_fd(const struct hk_tagger_kernel *k);

/* Returns the function that @slot's rank reports. */
uint32_t hk_tagger_kernel_function(const struct hk_tagger_kernel *k, uint32_t slot);

/* Reads the counters since the start, summed over all CPUs. */
void hk_tagger_kernel_counts(const struct hk_tagger_kernel *k,
			     struct hk_tagger_sum sums[HK_TAGGER_COUNTS]);

/* Calls @each for every socket of a rank that exists at this moment. Returns 0 or a negative
 * errno. */
int hk_tagger_kernel_connections(const struct hk_tagger_kernel *k,
				 void (*each)(void *arg, const struct hk_tagger_connection *c),
				 void *arg, struct hk_error *err);

/* Makes the kernel measure the run time of all eBPF programs of this machine until @k is closed.
 * Measuring costs some 50 ns for each run. */
int hk_tagger_kernel_measure(struct hk_tagger_kernel *k, struct hk_error *err);

/* The number of runs of the programs for packets, and their total time in ns; 0 unless measured. */
struct hk_tagger_kernel_cost {
	uint64_t runs, ns;
};
struct hk_tagger_kernel_cost hk_tagger_kernel_cost(const struct hk_tagger_kernel *k, bool ingress);

#endif

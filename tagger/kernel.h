/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger/kernel.h: the eBPF programs of one job on one node: loaded, attached, asked.
 *
 * Nothing is pinned: programs and maps live as long as this process, however it ends; and so do attachments
 * but for filters of clsact, which lead nowhere from then on (tagger/attach.h).
 * Needs CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN, and Linux 6.1.
 * Threads: one at a time.
 */
#ifndef HK_TAGGER_KERNEL_H
#define HK_TAGGER_KERNEL_H

#include "base/common.h"
#include "base/error.h"
#include "tagger/attach.h"
#include "tagger/shared.h"

struct hk_kernel;

/* What libbpf has to say is told only if HIKYAKU_TAG_DEBUG is set. */
void hk_kernel_quiet(void);

/* Loads the programs for @job, to be attached to interfaces by @way (tcx or clsact). The caller owns *@out, and
 * closes it. */
int hk_kernel_open(struct hk_kernel **out, unsigned job, enum hk_attach way, struct hk_error *err);
void hk_kernel_close(struct hk_kernel *k);

/* Sockets that processes of this cgroup make from now on are looked at. */
int hk_kernel_attach_cgroup(struct hk_kernel *k, int cgroup_fd, struct hk_error *err);

/* Packets that leave by this interface are tagged; with @restore, tagged frames that come in for a rank
 * of this node get @mac, the interface's own address. */
int hk_kernel_attach_link(struct hk_kernel *k, unsigned ifindex, const char *name, uint64_t mac,
			  bool restore, struct hk_error *err);

/* Process @pid is @rank and writes its function to @slot; and it is no longer. */
int hk_kernel_add(struct hk_kernel *k, uint32_t slot, uint32_t rank, uint32_t pid);
void hk_kernel_remove(struct hk_kernel *k, uint32_t slot, uint32_t rank, uint32_t pid);

/* The map that ranks map; an array of HK_TAGGER_SLOTS struct hk_tagger_slot. Owned by @k. */
int hk_kernel_slots_fd(const struct hk_kernel *k);

/* What @slot's rank does, as it says. */
uint32_t hk_kernel_function(const struct hk_kernel *k, uint32_t slot);

/* Counters since the start, over all CPUs. */
void hk_kernel_counts(const struct hk_kernel *k, struct hk_tagger_sum sums[HK_TAGGER_COUNTS]);

/* Calls @each for every socket of a rank there is at this moment. Returns 0 or a negative errno. */
int hk_kernel_connections(const struct hk_kernel *k,
			  void (*each)(void *arg, const struct hk_tagger_line *line), void *arg);

/* Has the kernel measure how long eBPF programs run, all of this machine's, as long as @k is open. That
 * itself costs some 50 ns a run. */
int hk_kernel_measure(struct hk_kernel *k, struct hk_error *err);

/* How often the programs for packets ran and how long they took, in ns: 0 unless it is measured. */
struct hk_kernel_cost {
	uint64_t runs, ns;
};
struct hk_kernel_cost hk_kernel_cost(const struct hk_kernel *k, bool ingress);

#endif

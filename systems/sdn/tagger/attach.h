/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/attach.h: two ways to attach a program to an interface's packets.
 *
 * DESIGN NOTES
 *
 * tcx (Linux 6.6): a descriptor of this process is the attachment. The kernel removes it when the
 * process ends for whatever reason.
 *
 * clsact (Linux 4.5; tc-bpf(8)): a filter of the queueing discipline "clsact", which outlives its
 * process. The filter's number is ours (a priority, and a handle for each job), so that the filters
 * of others are neither listed nor touched. The discipline is not removed either, because others
 * may have begun to use it. A filter runs only a jump (tagger.bpf.c), which leads nowhere once its
 * holder has ended. Such a *stale* filter does nothing to packets, and the next holder removes it.
 *
 * A live holder has bound the name of an abstract socket, one for each job. Those names belong to
 * the network namespace, as filters do, and end with their process.
 *
 * Threads: no state.
 */
#ifndef HK_TAGGER_ATTACH_H
#define HK_TAGGER_ATTACH_H

#include "base/common.h"
#include "hikyaku/error.h"

enum hk_tagger_attach {
	HK_TAGGER_ATTACH_AUTO,
	HK_TAGGER_ATTACH_TCX,
	HK_TAGGER_ATTACH_CLSACT,
	HK_TAGGER_ATTACH_WAYS
};

/* Returns "auto", "tcx" or "clsact". */
const char *hk_tagger_attach_name(enum hk_tagger_attach way);

/* Returns the way with this name, or HK_TAGGER_ATTACH_WAYS. */
enum hk_tagger_attach hk_tagger_attach_parse(const char *name);

/* Returns the way that the kernel supports at interface @ifindex: tcx if possible, else clsact.
 * Without CAP_NET_ADMIN the kernel does not answer, and its release decides. */
enum hk_tagger_attach hk_tagger_attach_probe(unsigned ifindex);

/* Returns the end of a message if the kernel requires a privilege. */
const char *hk_tagger_attach_privilege(void);

/* Claims @job for this process in this network namespace. Returns a descriptor that holds the
 * claim, or a negative errno. -EBUSY: another process of any user holds it; the error names that
 * process. */
int hk_tagger_attach_claim(unsigned job, struct hk_error *err);

/* Attach program @fd to interface @ifindex for @job, to packets that come in (@ingress) or leave.
 * hk_tagger_attach_tcx() returns the descriptor of the attachment. hk_tagger_attach_clsact()
 * returns 0, and the caller must call hk_tagger_attach_remove(); call it for packets that leave
 * first. @name is the interface's name, for errors. */
int hk_tagger_attach_tcx(int fd, unsigned ifindex, bool ingress, const char *name,
			 struct hk_error *err);
int hk_tagger_attach_clsact(int fd, unsigned ifindex, unsigned job, bool ingress, const char *name,
			    struct hk_error *err);

/* Removes the filter of @job from the interface, if there is one. */
void hk_tagger_attach_remove(unsigned ifindex, unsigned job, bool ingress);

/* Calls @each for every stale filter on any interface of this network namespace. Needs no
 * privilege. */
typedef void hk_tagger_attach_each(void *arg, const char *name, unsigned ifindex, unsigned job,
				   bool ingress);
void hk_tagger_attach_stale(hk_tagger_attach_each *each, void *arg);

/* Removes the stale filters, and those of @job, which the caller has claimed. */
void hk_tagger_attach_sweep(unsigned job);

#endif

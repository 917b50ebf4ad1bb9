/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger/attach.h: the two ways to have a program see an interface's packets.
 *
 * tcx (Linux 6.6): a descriptor of ours is the attachment; it goes with its process, however that ends.
 *
 * clsact (Linux 4.5; tc-bpf(8)): a filter of the queueing discipline "clsact", which outlives its
 * process. Its number is of our own (a priority, and a handle for each job), so that other people's filters
 * are neither asked nor touched, and neither is the discipline: whoever made it, it stays, since others
 * may have begun to use it. What a filter runs is only a jump (tagger.bpf.c): it leads nowhere as soon as its
 * holder has ended. Such a stale one does nothing to packets, and the next holder removes it.
 *
 * Which holder lives is told by an abstract socket's name, one for each job. Those names belong to the
 * network namespace, as filters do, and end with their process.
 *
 * Threads: no state.
 */
#ifndef HK_TAGGER_ATTACH_H
#define HK_TAGGER_ATTACH_H

#include "base/common.h"
#include "base/error.h"

enum hk_attach { HK_ATTACH_AUTO, HK_ATTACH_TCX, HK_ATTACH_CLSACT, HK_ATTACH_WAYS };

/* "auto", "tcx", "clsact". */
const char *hk_attach_name(enum hk_attach way);

/* The way that this name means, or HK_ATTACH_WAYS. */
enum hk_attach hk_attach_parse(const char *name);

/* What the kernel has, asked at interface @ifindex: tcx if it knows it, else clsact. Without CAP_NET_ADMIN
 * the kernel does not say, and its release tells. */
enum hk_attach hk_attach_probe(unsigned ifindex);

/* Claims @job for this process in this network namespace. Returns a descriptor, which is the claim, or a
 * negative errno: -EBUSY if another process has it, whoever's it is; the error names that. */
int hk_attach_claim(unsigned job, struct hk_error *err);

/* Attaches program @fd to interface @ifindex for @job, to packets that come in or leave. tcx: returns the
 * descriptor that holds it. clsact: returns 0, and the caller owes hk_attach_remove(); what leaves comes before
 * what comes in. The interface's @name is for errors. */
int hk_attach_tcx(int fd, unsigned ifindex, bool ingress, const char *name, struct hk_error *err);
int hk_attach_clsact(int fd, unsigned ifindex, unsigned job, bool ingress, const char *name,
		     struct hk_error *err);

/* Removes the filter of @job there, if it has one. */
void hk_attach_remove(unsigned ifindex, unsigned job, bool ingress);

/* Calls @each for every filter of ours, on any interface of this network namespace, whose holder has
 * ended. Needs no privilege. */
typedef void hk_attach_each(void *arg, const char *name, unsigned ifindex, unsigned job,
			    bool ingress);
void hk_attach_stale(hk_attach_each *each, void *arg);

/* Removes these, and those of @job, which the caller has claimed. */
void hk_attach_sweep(unsigned job);

#endif

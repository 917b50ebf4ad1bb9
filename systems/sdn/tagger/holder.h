/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/holder.h: the holder, the process that keeps the tagger of one job attached on one
 * node.
 *
 * It loads and attaches the programs, makes the job's cgroup, registers ranks and answers requests.
 * It ends when the last process of the job has ended. Its attachments are removed with it (for
 * filters see sdn/tagger/attach.h).
 */
#ifndef HK_TAGGER_HOLDER_H
#define HK_TAGGER_HOLDER_H

#include "hikyaku/error.h"
#include "sdn/tagger/attach.h"
#include "sdn/tagger/node.h"

#include <stdbool.h>

#define HK_TAGGER_HOLDER_LINKS 16

struct hk_tagger_holder_options {
	unsigned job; /* 0: the lowest free number on this node */
	char *link[HK_TAGGER_HOLDER_LINKS];
	unsigned links; /* interfaces named in `link`; 0: all Ethernet interfaces that are up */
	const char *registrar; /* address of the registrar (sdn/registrar/registrar.h), or NULL */
	bool measure;          /* measure the run time of the programs */
	enum hk_tagger_attach attach; /* the way to attach to interfaces */
	bool restore; /* write the interface's address into tagged frames that come in */
};

/* The holder's report to the process that starts it. */
struct hk_tagger_holder_ready {
	int rc; /* 0, or a negative errno: there is no holder */
	unsigned job;
	char cgroup[HK_TAGGER_PATH]; /* path of the cgroup to enter */
	char socket[128];
	struct hk_error err;
};

/* Sets the tagger up, writes a struct hk_tagger_holder_ready to @ready, and waits for a byte from
 * @go: the command has entered the cgroup. End of file means that it will not. Then it serves until
 * the cgroup is empty or SIGTERM, SIGINT or SIGHUP arrives, and removes everything. It closes both
 * descriptors. Returns an exit status. */
int hk_tagger_holder_run(const struct hk_tagger_holder_options *o, int ready, int go);

#endif

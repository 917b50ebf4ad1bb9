/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger/holder.h: the process that holds the tagger of one job on one node.
 *
 * It loads and attaches the programs, makes the job's cgroup, keeps the register of ranks, answers
 * questions, and ends when the last process of the job has. What it attached lives and dies with it
 * (filters: tagger/attach.h).
 */
#ifndef HK_TAGGER_HOLDER_H
#define HK_TAGGER_HOLDER_H

#include "base/error.h"
#include "tagger/attach.h"
#include "tagger/place.h"

#include <stdbool.h>

#define HK_HOLDER_LINKS 16

struct hk_holder_options {
	unsigned job; /* 0: the lowest that is free on this node */
	char *link[HK_HOLDER_LINKS];
	unsigned links;        /* 0: all Ethernet interfaces that are up */
	const char *registrar; /* who is told of ranks (host/registrar.h), or NULL */
	bool measure;          /* how long the programs take */
	enum hk_attach attach; /* how to interfaces */
	bool restore;          /* give tagged frames that come in their address back */
};

/* What the one who starts it needs to know. */
struct hk_holder_ready {
	int rc; /* 0, or why there is no holder */
	unsigned job;
	char cgroup[HK_PLACE_PATH]; /* to enter */
	char socket[128];
	struct hk_error err;
};

/* Sets everything up, writes a struct hk_holder_ready to @ready, waits for a byte from @go (somebody
 * has entered the cgroup; end of file: nobody will), and serves until the cgroup is empty or
 * SIGTERM, SIGINT or SIGHUP comes. Then everything is removed. Closes both. Returns an exit status. */
int hk_holder_run(const struct hk_holder_options *o, int ready, int go);

#endif

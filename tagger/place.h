/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger/place.h: what the node offers: its interfaces, and a cgroup for the job.
 *
 * Threads: no state.
 */
#ifndef HK_TAGGER_PLACE_H
#define HK_TAGGER_PLACE_H

#include "base/common.h"
#include "base/error.h"

#include <sys/types.h>

#define HK_PLACE_LINKS 64
#define HK_PLACE_PATH  768

struct hk_place_link {
	char name[16];
	unsigned ifindex;
	uint64_t mac;
};

/* The Ethernet interfaces of this network namespace: those in @names (@count of them), or if that is 0
 * all that are up. Refuses a node that has an address within the tags' prefix, on whatever interface.
 * Returns how many there are, or a negative errno. */
int hk_place_links(char *const names[], unsigned count, struct hk_place_link out[HK_PLACE_LINKS],
		   struct hk_error *err);

struct hk_place_cgroup {
	char path[HK_PLACE_PATH]; /* where it lies in the file system */
	char name[HK_PLACE_PATH]; /* as /proc/PID/cgroup says it */
	int fd;                   /* of the directory */
	int events;               /* of its cgroup.events */
};

/* Makes a cgroup below this process's own one. Empty at first. */
int hk_place_make_cgroup(const char *name, struct hk_place_cgroup *out, struct hk_error *err);

/* Moves this process there. @path is hk_place_cgroup's. */
int hk_place_enter(const char *path, struct hk_error *err);

/* Are there processes in it? */
bool hk_place_populated(const struct hk_place_cgroup *c);

/* Is @pid in it? */
bool hk_place_has(const struct hk_place_cgroup *c, pid_t pid);

/* Moves whoever is still in it to the parent, and removes it. */
void hk_place_remove_cgroup(struct hk_place_cgroup *c);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/node.h: the node's interfaces, and a cgroup for the job.
 *
 * Threads: no state.
 */
#ifndef HK_TAGGER_NODE_H
#define HK_TAGGER_NODE_H

#include "base/common.h"
#include "hikyaku/error.h"

#include <sys/types.h>

#define HK_TAGGER_LINKS 64
#define HK_TAGGER_PATH  768

struct hk_tagger_link {
	char name[16];
	unsigned ifindex;
	uint64_t mac;
};

/* Lists the Ethernet interfaces of this network namespace: the @count interfaces in @names, or all
 * that are up if @count is 0. Refuses a node with any interface whose address is within the tags'
 * prefix. Returns their number, or a negative errno. */
int hk_tagger_links_find(char *const names[], unsigned count,
			 struct hk_tagger_link out[HK_TAGGER_LINKS], struct hk_error *err);

struct hk_tagger_cgroup {
	char path[HK_TAGGER_PATH]; /* path in the file system */
	char name[HK_TAGGER_PATH]; /* name in /proc/PID/cgroup */
	int fd;                    /* descriptor of the directory */
	int events;                /* descriptor of its cgroup.events */
};

/* Makes an empty cgroup below this process's own. */
int hk_tagger_cgroup_make(const char *name, struct hk_tagger_cgroup *out, struct hk_error *err);

/* Moves this process into the cgroup at @path. */
int hk_tagger_cgroup_enter(const char *path, struct hk_error *err);

/* Whether the cgroup has processes. */
bool hk_tagger_cgroup_populated(const struct hk_tagger_cgroup *c);

/* Whether @pid is in the cgroup. */
bool hk_tagger_cgroup_has(const struct hk_tagger_cgroup *c, pid_t pid);

#define HK_TAGGER_CGROUP_REMOVE_MS 10000

/* Moves the remaining processes to the parent, and removes the cgroup. Waits for processes that are
 * just ending. False: some still are after HK_TAGGER_CGROUP_REMOVE_MS, and the cgroup stays. */
bool hk_tagger_cgroup_remove(struct hk_tagger_cgroup *c);

#endif

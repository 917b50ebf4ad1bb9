/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/node_set.h: the set of wires between a user's processes of one node.
 *
 * It is a directory of the user (base/private_dir.h), so nobody else can reach these wires. A node
 * is a network namespace here. So two containers, or two nodes of a lab, reach each other by their
 * network alone, even if they share directories.
 *
 * Errors: 0, or a negative errno with a sentence. Threads: one.
 */
#ifndef HK_WORKER_NODE_SET_H
#define HK_WORKER_NODE_SET_H

#include "hikyaku/error.h"
#include "port/port.h"

#pragma GCC visibility push(default)

/* A wire adds up to 40 bytes to the path, and that of a socket has 107. */
#define HK_NODE_SET_PATH 65

struct hk_node_set {
	char spec[HK_PORT_SPEC_MAX]; /* memif:dir=… */
	char path[HK_NODE_SET_PATH]; /* of the directory; empty: there is none of ours */
};

/* Makes the directory, and removes sockets of processes that have ended. @base: a directory of this
 * user for it, which the user names by @setting; NULL: that of this user's run-time files. The
 * wires have frames of @frame_max bytes. The last process that leaves removes the directory,
 * perhaps just now. So if the caller's own socket finds none there, the caller begins again. */
int hk_node_set_open(const char *base, const char *setting, unsigned frame_max,
		     struct hk_node_set *out, struct hk_error *err);

/* Removes the directory, unless others are in it. */
void hk_node_set_close(const struct hk_node_set *set);

#pragma GCC visibility pop

#endif

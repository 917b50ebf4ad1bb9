/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/source.h: a process whose frames are captured, as seen from here (port/tap_ring.h).
 *
 * Threads: one.
 */
#ifndef HK_CAPTURE_SOURCE_H
#define HK_CAPTURE_SOURCE_H

#include "base/error.h"
#include "capture/reader.h"

#include <sys/types.h>

/* Where a process listens. */
struct hk_source_name {
	pid_t pid;
	char name[92];   /* of its abstract socket, without the zero */
	char shared[64]; /* of the memory that it shares with a hikyakud; "": none */
};

struct hk_source {
	struct hk_source_name at;
	uid_t uid;
	char who[sizeof(((struct hk_tap_msg *)0)->text)];
	int fd;        /* the connection; -1: closed */
	bool said_end; /* it left in good order */
	size_t mapped;
	struct hk_reader reader;
	/* the caller's */
	uint64_t start_ns;
	struct {
		uint32_t interface;
		uint64_t written;
	} port[HK_TAP_PORTS];
	struct hk_captured next; /* looked at, not taken yet */
	bool has_next;
};

struct hk_source_config {
	uint64_t size; /* of the ring: a power of two from HK_TAP_SIZE_MIN to _MAX */
	uint32_t snaplen;
	bool pipes;
};

/* Who listens in this network namespace: how many, at most @max. Anybody may listen under any name:
 * hk_source_open() looks who it is. */
unsigned hk_source_list(struct hk_source_name *at, unsigned max);

/* Begins to capture. Waits at most two seconds. -ENOENT: the process has ended; -EPERM: it is another
 * user's, or not the one whose name it has; else a negative errno. To be closed when it ends. */
int hk_source_open(const struct hk_source_name *at, const struct hk_source_config *cfg,
		   struct hk_source **source, struct hk_error *err);

/* Has it left, or died? Makes a system call. All that it has written can be read then. */
bool hk_source_ended(struct hk_source *s);

/* Asks it to stop, and waits, for a second at most, until it has: nothing more will be written. */
void hk_source_stop(struct hk_source *s);

void hk_source_close(struct hk_source *s);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/source.h: the capture's side of a captured process (port/tap_ring.h).
 *
 * Threads: one.
 */
#ifndef HK_CAPTURE_SOURCE_H
#define HK_CAPTURE_SOURCE_H

#include "hikyaku/error.h"
#include "capture/reader.h"

#include <sys/types.h>

/* The socket of a process. */
struct hk_source_name {
	pid_t pid;
	char name[92];   /* of its abstract socket, without the leading zero */
	char shared[64]; /* name of a hikyakud's memory that it uses; "": none */
};

struct hk_source {
	struct hk_source_name at;
	uid_t uid;
	char who[sizeof(((struct hk_tap_msg *)0)->text)];
	int fd;        /* the connection; -1: closed */
	bool said_end; /* it has sent HK_TAP_END */
	size_t mapped;
	struct hk_reader reader;
	/* used by the caller alone */
	uint64_t start_ns;
	struct {
		uint32_t interface;
		uint64_t written;
	} port[HK_TAP_PORTS];
	struct hk_captured next; /* peeked at, not taken yet */
	bool has_next;
};

struct hk_source_config {
	uint64_t size; /* bytes of the ring: a power of two from HK_TAP_SIZE_MIN to _MAX */
	uint32_t snaplen;
	bool pipes;
};

/* Lists at most @max sockets of this network namespace and returns their number. Any process may
 * use any name; hk_source_open() checks the process. */
unsigned hk_source_list(struct hk_source_name *at, unsigned max);

/* Starts a capture. Waits at most two seconds. Returns 0 or a negative errno; on success the caller
 * closes *@source. -ENOENT: the process has ended. -EPERM: it belongs to another user, or is not
 * the process of that name. */
int hk_source_open(const struct hk_source_name *at, const struct hk_source_config *cfg,
		   struct hk_source **source, struct hk_error *err);

/* True if the process has left or died. Then the ring has all its frames. Makes a system call. */
bool hk_source_ended(struct hk_source *s);

/* Asks the process to stop, and waits at most a second. It writes no more frames afterwards. */
void hk_source_stop(struct hk_source *s);

void hk_source_close(struct hk_source *s);

#endif

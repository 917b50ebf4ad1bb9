/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/backend.h: what carries messages. Internal to rtc/.
 *
 * A backend moves *buffers*. A buffer has room for its own headers, struct hk_msg_hdr (wire/msg.h) and
 * the payload, in this order; `hdr` points to the second, and the payload follows it. Buffers are
 * numbered from 0 to buffers - 1, so that a message needs 4 bytes to name one; the table at
 * `struct hk_rtc_backend.buf` finds them. Who takes a buffer (alloc, rx) gives it back (free, tx).
 *
 * One thread, but for worker threads that read and write payloads of buffers which the core has handed
 * them through a ring.
 */
#ifndef HK_RTC_BACKEND_H
#define HK_RTC_BACKEND_H

#include "base/common.h"
#include "base/error.h"
#include "rtc/rtc.h"
#include "wire/msg.h"

#define HK_RTC_ADDRESS_MAX 96 /* bytes of an address text, with its end */

struct hk_rtc_buf {
	uint8_t *hdr;   /* where struct hk_msg_hdr lies */
	uint32_t len;   /* bytes from there: header and payload; rx: as received, with padding */
	uint32_t index; /* its number */
	uint16_t dst;   /* tx: the node it goes to */
	void *priv;     /* the backend's */
};

struct hk_rtc_backend {
	const struct hk_rtc_backend_ops *ops;
	struct hk_rtc_buf *
		*buf; /* [buffers] by number; backends may fill entries when a buffer appears */
	unsigned buffers;
	unsigned payload_max;
	/* How many messages the core takes in at once, at most HK_RTC_BURST; 0: that. Where a look costs a system call,
	 * many. On a polled wire fewer: a client's window then travels as several bursts, and both ends work at the same
	 * time instead of in turn (docs/perf-notes.md). */
	unsigned burst;
	uint64_t tx_full, no_buffer;
	uint64_t stray;   /* frames that are no messages of ours at all */
	uint64_t cut_off; /* connections ended: strangers, and who broke the rules */
	char address[HK_RTC_ADDRESS_MAX]; /* of this node: lasting, printable, no spaces */
};

struct hk_rtc_backend_ops {
	const char *name;
	/* Opens @cfg->address (see rtc/rtc.h) with @option, the text after ':' of the backend's name or "". Must not
	 * wait for peers. Allocates *@b, whose first member is struct hk_rtc_backend. */
	int (*open)(const struct hk_rtc_config *cfg, const char *option, struct hk_rtc_backend **b,
		    struct hk_error *err);
	/* Learns where @node is; called for each node but our own before connect(). -EINVAL: not an address. */
	int (*peer)(struct hk_rtc_backend *b, uint16_t node, const char *address,
		    struct hk_error *err);
	/* Makes what must be made between peers (links, connections) by @deadline_ms of CLOCK_MONOTONIC, and
	 * names who was missing. Nodes may come later (peers_file): those are no error. NULL: nothing. */
	int (*connect)(struct hk_rtc_backend *b, int64_t deadline_ms, struct hk_error *err);
	void (*close)(struct hk_rtc_backend *b);

	/* Up to @n received messages. They are as they came: unchecked. */
	unsigned (*rx)(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n);
	/* Sends all @n and takes them back; those that find no room are dropped and counted (tx_full). */
	void (*tx)(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n);
	/* The same, but the buffers stay the caller's: what may have to be sent again. */
	void (*tx_copy)(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n);
	/* Takes up to @n free buffers, `hdr` set; fewer when there are no more (counted: no_buffer). The
	 * core keeps some of them at hand, so this is called once for many messages. */
	unsigned (*alloc)(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n);
	void (*free)(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n);
};

extern const struct hk_rtc_backend_ops hk_rtc_dpdk, hk_rtc_af_xdp, hk_rtc_raw, hk_rtc_udp,
	hk_rtc_tcp;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/backend.h: the interface of backends, which carry messages. Internal to rtc/.
 *
 * A backend moves *buffers*. A buffer holds the backend's own headers, struct hk_msg_hdr
 * (wire/msg.h), the payload and the trailer, if messages have one; `hdr` points to the struct.
 * Buffers have numbers from 0 to buffers - 1, so that a message names its buffer in 4 bytes. The
 * table `buf` of struct hk_rtc_backend maps numbers to buffers. The node owns a buffer from alloc
 * or rx until free or tx.
 *
 * Threads: one. Handler threads read and write only the payloads of buffers that the core submitted
 * to them through a ring.
 */
#ifndef HK_RTC_BACKEND_H
#define HK_RTC_BACKEND_H

#include "base/common.h"
#include "hikyaku/error.h"
#include "hikyaku/rtc.h"
#include "wire/msg.h"

#define HK_RTC_ADDRESS_MAX 96 /* size of an address text in bytes, with its NUL */

struct hk_rtc_protect; /* rtc/protect.h */

struct hk_rtc_buf {
	uint8_t *hdr;   /* struct hk_msg_hdr */
	uint32_t len;   /* bytes of header, payload and trailer; rx: with Ethernet padding */
	uint32_t index; /* buffer number */
	uint16_t dst;   /* tx: destination node */
	void *priv;     /* owned by the backend */
};

struct hk_rtc_backend {
	const struct hk_rtc_backend_ops *ops;
	/* [buffers] by number; a backend may fill in an entry when its buffer first appears */
	struct hk_rtc_buf **buf;
	unsigned buffers;
	unsigned payload_max;
	unsigned trailer; /* bytes behind the payload: hk_rtc_trailer_len() */
	/* NULL: messages are not protected. The owner sets it between open() and peer(). Only tcp's
	 * greeting uses it; the node signs and judges messages. */
	struct hk_rtc_protect *protect;
	/* Messages that the core receives at once, at most HK_RTC_BURST; 0: HK_RTC_BURST. A backend
	 * whose poll costs a system call takes many. A polled wire takes fewer: a client's window
	 * then travels as several bursts. So both ends work at the same time instead of in turn
	 * (docs/notes/2026-11.md). */
	unsigned burst;
	uint64_t tx_full, no_buffer;
	uint64_t stray;   /* frames without a message of rtc */
	uint64_t cut_off; /* connections closed because the peer broke the protocol */
	/* this node's permanent address; printable, without spaces */
	char address[HK_RTC_ADDRESS_MAX];
};

struct hk_rtc_backend_ops {
	const char *name;
	/* Opens @cfg->address (hikyaku/rtc.h). @option: the text after ':' of the backend's name,
	 * or "". Does not wait for peers. Allocates *@b; its first member is struct hk_rtc_backend.
	 */
	int (*open)(const struct hk_rtc_config *cfg, const char *option, struct hk_rtc_backend **b,
		    struct hk_error *err);
	/* Sets the address of @node. Called once for every other node, before connect(). -EINVAL:
	 * invalid address. */
	int (*peer)(struct hk_rtc_backend *b, uint16_t node, const char *address,
		    struct hk_error *err);
	/* Sets up links and connections to peers by @deadline_ms of CLOCK_MONOTONIC; the error
	 * names a missing node. With a peers_file nodes may come later, so missing ones are not an
	 * error. NULL: nothing to do. */
	int (*connect)(struct hk_rtc_backend *b, int64_t deadline_ms, struct hk_error *err);
	void (*close)(struct hk_rtc_backend *b);

	/* Receives up to @n messages. They are unchecked. */
	unsigned (*rx)(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n);
	/* Sends all @n messages and frees their buffers. Messages for which the port or socket has
	 * no space are dropped and counted (tx_full). */
	void (*tx)(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n);
	/* Like tx, but the caller keeps the buffers, to send them again later. */
	void (*tx_copy)(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n);
	/* Allocates up to @n buffers and sets their `hdr`. Returns the number; missing buffers are
	 * counted (no_buffer). The core keeps spare buffers, so one call serves many messages. */
	unsigned (*alloc)(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n);
	void (*free)(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n);
};

/* Bytes that a message of @cfg has behind its payload. */
static inline unsigned hk_rtc_trailer_len(const struct hk_rtc_config *cfg)
{
	return cfg->protection >= HK_RTC_PROTECTION_AUTH ? HK_MSG_TRAILER_LEN : 0;
}

extern const struct hk_rtc_backend_ops hk_rtc_backend_dpdk, hk_rtc_backend_af_xdp,
	hk_rtc_backend_raw, hk_rtc_backend_udp, hk_rtc_backend_tcp;

#endif

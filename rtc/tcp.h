/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/tcp.h: inside the tcp backend.
 *
 *   tcp.c       buffers, receiving and sending on connections that are up
 *   tcp_link.c  how connections come to be: listening, connecting, the greeting
 *
 * One connection for each pair of nodes. The lower one connects, so two never connect to each other at
 * once, and tries again as long as it lives; so a node that comes back is found. Both then say who they
 * are (struct hk_tcp_hello). Whoever says it wrongly or not at all, or frames messages wrongly, is cut
 * off, and nobody else notices.
 */
#ifndef HK_RTC_TCP_H
#define HK_RTC_TCP_H

#include "rtc/inet.h"
#include "rtc/slab.h"

#define HK_TCP_BURST     HK_RTC_BURST
#define HK_TCP_STRANGERS 64 /* connections that have not said who they are */

/* The first 32 bytes each way; little-endian. */
struct __attribute__((packed)) hk_tcp_hello {
	uint8_t magic[4]; /* "HKrt" */
	uint16_t version; /* HK_TCP_VERSION */
	uint16_t src, dst;
	uint16_t zero;
	uint32_t key;
	uint64_t incarnation; /* of the backend that says so: a later one is larger */
	uint32_t takes;       /* bytes of the longest message, with its header */
	uint32_t zero2;
};
_Static_assert(sizeof(struct hk_tcp_hello) == 32, "32 bytes on the wire");
#define HK_TCP_VERSION 1

enum hk_tcp_state {
	HK_TCP_DOWN,
	HK_TCP_CONNECTING, /* until the kernel says that it is connected */
	HK_TCP_GREETING,   /* until the other has said who it is */
	HK_TCP_UP,
};

struct hk_tcp_conn {
	int fd; /* -1: DOWN */
	enum hk_tcp_state state;
	uint16_t node;
	unsigned place; /* UP: its place in up[] */
	bool waits;     /* it is in waiting[] */
	uint32_t takes; /* UP: the longest message that the other takes */
	uint64_t incarnation;
	struct sockaddr_in at;

	int64_t when_ms; /* DOWN: when to try again; on the way: when to give up */
	unsigned pause_ms;
	const char *why; /* what went wrong last */

	uint8_t *in, *out; /* the bytes that wait are at … fill - 1 */
	uint32_t in_at, in_fill, out_at, out_fill;
	uint32_t expect; /* bytes of the message at in_at, as far as is known */
	uint32_t last;   /* bytes of the last message: how many to ask for, without batch */
};

struct hk_tcp_stranger {
	int fd; /* -1: free */
	unsigned got;
	int64_t until_ms;
	uint32_t ip;
	struct hk_tcp_hello hello;
};

struct hk_tcp {
	struct hk_rtc_backend base;
	struct hk_rtc_slab slab;
	struct hk_rtc_inet here;
	uint16_t node, nodes;
	uint32_t key;
	bool late; /* nodes may come late: a peers_file, no launcher */
	bool batch;
	uint64_t incarnation;
	uint32_t longest; /* message, with its header */

	int listener, epoll;
	int64_t now_ms, tick_ms;
	unsigned round;
	unsigned known;           /* peers whose address we have */
	struct hk_tcp_conn *conn; /* [nodes] */
	struct hk_tcp_conn **up;  /* [ups], to be looked through when they are few */
	unsigned ups;
	uint16_t *waiting; /* ring [nodes]: connections with whole messages in `in` */
	unsigned waiting_at, waitings;
	unsigned strangers;
	struct hk_tcp_stranger stranger[HK_TCP_STRANGERS];

	uint8_t *memory; /* of all in and out */
	size_t bytes;
	uint32_t in_size, out_size;
};

/* ---- tcp_link.c ---- */

int hk_tcp_listen(struct hk_tcp *t, struct hk_error *err);
int hk_tcp_connect_all(struct hk_tcp *t, int64_t deadline_ms, struct hk_error *err);
void hk_tcp_close_links(struct hk_tcp *t);

/* Ends a connection. @cut: since the other broke the rules. */
void hk_tcp_down(struct hk_tcp *t, struct hk_tcp_conn *c, const char *why, bool cut);

/* Begins connections that are due and gives up what takes too long. Once a tick is enough. */
void hk_tcp_timers(struct hk_tcp *t);

/* One event of the epoll: all but receiving on a connection that is up. NULL, or the connection that has
 * something to receive. */
struct hk_tcp_conn *hk_tcp_event(struct hk_tcp *t, uint64_t tag);

/* Has the epoll tell when there is room to send. */
void hk_tcp_want_out(struct hk_tcp *t, struct hk_tcp_conn *c, bool want);

/* ---- tcp.c ---- */

void hk_tcp_flush(struct hk_tcp *t, struct hk_tcp_conn *c);
int64_t hk_tcp_clock(bool coarse); /* ms */

#endif

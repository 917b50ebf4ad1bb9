/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/tcp.h: the tcp backend. Internal to it.
 *
 *   tcp.c       receiving and sending on established connections
 *   tcp_link.c  listening, connecting, greeting, closing of connections
 *   tcp_hello.c the bytes of a greeting
 *   tcp_open.c  opening and closing the backend
 *
 * Each pair of nodes has one connection. The node with the lower number connects, so that two nodes
 * never connect to each other at once. It retries as long as it lives, so that it finds a node that
 * restarts. Both ends then send a greeting (tcp_hello.h). A node closes a connection
 * without a valid greeting, or with wrong framing (`cut_off`). Other connections are not affected.
 */
#ifndef HK_RTC_TCP_H
#define HK_RTC_TCP_H

#include "rtc/inet.h"
#include "rtc/slab.h"
#include "rtc/tcp_hello.h"

#define HK_RTC_TCP_PAUSE_MS 10 /* first pause between connection attempts, doubled each time */
#define HK_RTC_TCP_INCOMING 64 /* accepted connections without a complete greeting */

enum hk_rtc_tcp_state {
	HK_RTC_TCP_DOWN,
	HK_RTC_TCP_CONNECTING, /* until the kernel reports the connection */
	HK_RTC_TCP_GREETING,   /* until the peer's greeting arrives */
	HK_RTC_TCP_UP,
};

struct hk_rtc_tcp_conn {
	int fd; /* -1: DOWN */
	enum hk_rtc_tcp_state state;
	uint16_t node;
	unsigned up_index; /* UP: index in up[] */
	bool queued;       /* whether it is in ready[] */
	uint32_t peer_max; /* UP: longest message that the peer takes, in bytes */
	uint64_t incarnation;
	uint8_t nonce[HK_RTC_NONCE_LEN]; /* GREETING: ours, with protection */
	struct sockaddr_in addr;

	int64_t next_ms; /* DOWN: time of the next attempt; otherwise: time limit */
	unsigned pause_ms;
	const char *reason; /* last failure */

	uint8_t *in, *out; /* pending bytes, from …_start to …_end - 1 */
	uint32_t in_start, in_end, out_start, out_end;
	uint32_t expect; /* length in bytes of the message at in_start, as far as known */
	uint32_t last;   /* length of the last message: without batch, the bytes to ask for */
};

struct hk_rtc_tcp_incoming {
	int fd; /* -1: free */
	unsigned got;
	int64_t until_ms;
	uint32_t ip;
	bool answered;                   /* with protection: `nonce` is sent */
	uint8_t nonce[HK_RTC_NONCE_LEN]; /* ours */
	struct hk_rtc_tcp_greeting greeting;
};

struct hk_rtc_tcp {
	struct hk_rtc_backend base;
	struct hk_rtc_slab slab;
	struct hk_rtc_inet here;
	uint16_t node, nodes;
	struct hk_rtc_tcp_expected expected; /* in greetings */
	bool peers_late;                     /* nodes may come late: a peers_file, no launcher */
	bool batch;
	uint64_t incarnation;
	uint32_t longest; /* longest message in bytes, with its header and trailer */

	int listener, epoll;
	int64_t now_ms, tick_ms;
	unsigned round;
	unsigned peers;               /* number of peers with a known address */
	struct hk_rtc_tcp_conn *conn; /* [nodes] */
	struct hk_rtc_tcp_conn **up;  /* [up_count] established connections */
	unsigned up_count;
	uint16_t *ready; /* ring [nodes]: connections with complete messages in `in` */
	unsigned ready_head, ready_count;
	unsigned incoming_count;
	struct hk_rtc_tcp_incoming incoming[HK_RTC_TCP_INCOMING];

	uint8_t *memory; /* memory of all `in` and `out` */
	size_t bytes;
	uint32_t in_size, out_size;
};

/* ---- tcp_link.c ------------------------------------------------------------------------------ */

int hk_rtc_tcp_listen(struct hk_rtc_tcp *t, struct hk_error *err);
int hk_rtc_tcp_connect_all(struct hk_rtc_tcp *t, int64_t deadline_ms, struct hk_error *err);
void hk_rtc_tcp_close_links(struct hk_rtc_tcp *t);

/* Closes a connection. @cut: because the peer broke the protocol. */
void hk_rtc_tcp_down(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c, const char *why, bool cut);

/* Starts due connection attempts, and closes those that take too long. Once a tick is enough. */
void hk_rtc_tcp_timers(struct hk_rtc_tcp *t);

/* Handles one event of the epoll, except reception on an established connection. Returns a
 * connection that has data to receive, or NULL. */
struct hk_rtc_tcp_conn *hk_rtc_tcp_event(struct hk_rtc_tcp *t, uint64_t tag);

/* Sets whether the epoll reports space to send. */
void hk_rtc_tcp_want_out(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c, bool want);

/* ---- tcp_open.c: see struct hk_rtc_backend_ops ---- */

int hk_rtc_tcp_open(const struct hk_rtc_config *cfg, const char *option, struct hk_rtc_backend **b,
		    struct hk_error *err);
int hk_rtc_tcp_peer(struct hk_rtc_backend *b, uint16_t node, const char *address,
		    struct hk_error *err);
int hk_rtc_tcp_connect(struct hk_rtc_backend *b, int64_t deadline_ms, struct hk_error *err);
void hk_rtc_tcp_close(struct hk_rtc_backend *b);

/* ---- tcp.c ----------------------------------------------------------------------------------- */

void hk_rtc_tcp_flush(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c);
int64_t hk_rtc_tcp_clock(bool coarse); /* ms */

#endif

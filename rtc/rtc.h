/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/rtc.h: run to completion. Messages are handled on the core that receives them.
 *
 * A *node* owns a port (or a socket) and one core. That core receives a burst, hands it to the
 * handlers of the messages' types, and sends what they answered, before it looks for more: no
 * queue between stages, no copy, the data stays in the first-level cache (Yamamoto,
 * Kawashima, Matsuo, 2022). A message fits one frame. There is no connection and no order, and
 * each type of message says how much delivery it needs (enum hk_rtc_class).
 *
 * The same program runs over five *backends*, chosen by name:
 *
 *   dpdk     a port spec (port/port.h): memif, a NIC
 *   af_xdp   an interface, past the kernel's stack
 *   raw      an interface, packet socket with a memory-mapped ring (packet(7))
 *   udp      the kernel's UDP, many messages a system call
 *   tcp      the kernel's TCP, no delay; `tcp:batch=1` sends many messages a system call
 *
 * Who else is there comes from the launcher (mpirun, srun: PMIx) or from a file of addresses.
 *
 * Threads: all calls are for the thread that opened the node, but hk_rtc_stop(), which any thread
 * and any signal handler may call. Handlers may call everything but hk_rtc_close(), hk_rtc_poll() and
 * hk_rtc_run(). With workers, on_message of a type that has a budget or says HK_RTC_DEFER also runs on worker
 * threads, several at once; there it calls nothing of this header, and what it shares is its own to protect.
 *
 * Memory: payloads belong to the library. A handler may read and change them until it returns, and
 * keeps no pointer. After the first hk_rtc_poll() nothing is allocated.
 *
 * Errors: 0 or a negative errno, where an hk_error is given with a sentence that names the thing
 * and the fix. What comes from the network is counted, never an error. What is handed in (configuration, types, payloads,
 * texts) is copied, but for `arg`.
 */
#ifndef HK_RTC_H
#define HK_RTC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The calls of this header, and nothing else, are what libhk_rtc.so shows. */
#pragma GCC visibility push(default)

struct hk_error; /* base/error.h */
struct hk_rtc;

#define HK_RTC_MAX_NODES 1024
#define HK_RTC_MAX_TYPES 240 /* types 0 to 239 are the application's */
#define HK_RTC_BURST     32

/* ---- messages ------------------------------------------------------------------------------- */

enum hk_rtc_verdict {
	HK_RTC_DROP = 0, /* done with it: what a handler that says nothing means */
	HK_RTC_REPLY,    /* send it back, with the payload as it is now and `len` bytes of it */
	HK_RTC_DEFER, /* have a worker core handle it; without workers: again, when nothing comes */
};

struct hk_msg {
	void *data;    /* payload, aligned to 2 at least, to 32 on dpdk and af_xdp */
	uint16_t len;  /* bytes of it */
	uint16_t room; /* bytes that fit: how long an answer may be */
	uint16_t src;  /* node that sent it */
	uint8_t type;
	uint8_t verdict; /* HK_RTC_DROP when the handler is called; it sets another */
	uint32_t number; /* as hk_rtc_send() gave it to the sender; of an answer: of the question */
	uint32_t buf;    /* the library's */
};

/* Handles @n messages of one type, 1 to HK_RTC_BURST. */
typedef void (*hk_rtc_fn)(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n);

enum hk_rtc_class {
	HK_RTC_BEST_EFFORT, /* may be lost, come twice or late */
	HK_RTC_LATEST, /* latest wins: older than one that came already from that node: dropped */
	/* Sent again until answered; handled once, answers are repeated. What a handler drops is answered
	 * too, with no payload: the sender shall know that it came. Per destination at most 256 numbers and in all 1024
	 * questions (or a quarter of `buffers`) are open; as many answers are kept. */
	HK_RTC_RETRY,
};

struct hk_rtc_type {
	const char *name; /* in statistics and errors */
	enum hk_rtc_class class;
	hk_rtc_fn on_message; /* NULL: this node expects none (they are counted) */
	hk_rtc_fn on_answer;  /* what others replied with; NULL: answers are dropped */
	/* HK_RTC_RETRY: @dst did not answer @number in all tries, or left; NULL: only counted */
	void (*on_given_up)(struct hk_rtc *rtc, void *arg, uint16_t dst, uint32_t number);
	void *arg;
	/* What one message may cost, in ns, at most 50 000 000; 0: no limit. It is measured, by burst; a type whose handlers
	 * cost more is handed to the worker cores until it costs less, so that receiving goes on. Without
	 * workers it is noted in the statistics, and what comes meanwhile waits in the port. */
	uint32_t budget_ns;
	uint32_t timeout_us; /* HK_RTC_RETRY: before the first retry, doubled each time; 0: 1000 */
	unsigned tries;      /* HK_RTC_RETRY: sendings in all; 0: 10 */
};

/* ---- a node --------------------------------------------------------------------------------- */

enum hk_rtc_topology {
	HK_RTC_ALL,         /* every other member */
	HK_RTC_RING,        /* the members before and after */
	HK_RTC_RANDOM,      /* `degree` others, drawn by `seed`, the same at both ends */
	HK_RTC_EXPONENTIAL, /* those 1, 2, 4, … places further */
	HK_RTC_FILE,        /* lines "node neighbour neighbour …" of `topology_file` */
};

struct hk_rtc_config {
	/* "dpdk", "af_xdp", "raw", "udp", "tcp", "tcp:batch=1"; NULL: HIKYAKU_RTC_BACKEND in the environment */
	const char *backend;
	/* Where: dpdk a port spec; af_xdp and raw an interface; udp and tcp an IP address or interface,
	 * with ":PORT" if not any. `{rank}` and `{local_rank}` are filled in. NULL: udp and tcp take what the peers_file
	 * says of this node, if there is one; else HIKYAKU_RTC_ADDRESS_DPDK (or _AF_XDP, _RAW, _UDP, _TCP) in
	 * the environment. */
	const char *address;
	/* Who: from the launcher, if `peers_file` is NULL; else a file with a line "NODE ADDRESS" for each
	 * node, ADDRESS as hk_rtc_address() prints it, and then `node`, `nodes` and `key` count. */
	const char *peers_file;
	uint16_t node, nodes; /* nodes 0: as many as the file has */
	uint32_t key;         /* of the job; 0 with a launcher: made from its job id */
	enum hk_rtc_topology topology;
	const char *topology_file;
	unsigned degree;       /* HK_RTC_RANDOM; 0: 2 */
	uint64_t seed;         /* of all that is drawn here */
	unsigned buffers;      /* frames in the hands of handlers and waiting; 0: 4096 */
	unsigned payload_max;  /* 0: what fits the backend's frame */
	unsigned workers;      /* worker threads for deferred messages; 0: none */
	const int *worker_cpu; /* [workers], or NULL: not pinned */
	unsigned
		alive_ms; /* between signs of life, at most 10000; 0: 100. Silent for ten: not a member */
	unsigned
		timeout_ms; /* for peers and links at the start, handlers on workers at the end; 0: 10000 */
	/* @node came (@joined) or is gone: it left, or was silent. Called by who polls, between messages. */
	void (*on_member)(struct hk_rtc *rtc, void *arg, uint16_t node, bool joined);
	void *arg;
};

/* Fills @cfg with what is usual. Always begin with it: fields may be added. */
void hk_rtc_defaults(struct hk_rtc_config *cfg);

/* Opens backend and address, and finds the others. With a launcher all nodes of the job must call it;
 * it returns when all have, and all are members then (of which on_member is not told). With a peers_file they become
 * members as they come, while hk_rtc_poll() is called. Waits at most timeout_ms, and names whom it waited for. */
int hk_rtc_open(const struct hk_rtc_config *cfg, struct hk_rtc **rtc, struct hk_error *err);

/* Says goodbye to the members and gives back everything, also what lies in the system (XDP program,
 * sockets). Handlers that run on workers are waited for, timeout_ms at most; -ETIMEDOUT: one of them has not
 * returned, and what it may still touch (this node's memory and port) stays, until another hk_rtc_close() or the
 * process ends. NULL is allowed. */
int hk_rtc_close(struct hk_rtc *rtc);

/* This node's address, as other nodes' `peers_file` wants it; valid until hk_rtc_close(). */
const char *hk_rtc_address(const struct hk_rtc *rtc);

/* Before the first hk_rtc_poll() (else -EBUSY). -EINVAL: not a type, no name, a class that does not exist, a budget that
 * cannot be; -EEXIST: registered already; -ENOMEM. */
int hk_rtc_register(struct hk_rtc *rtc, uint8_t type, const struct hk_rtc_type *t,
		    struct hk_error *err);

/* One round: receives a burst, handles it, sends what was answered, runs timers that are due. Returns
 * how many messages it was. Never sleeps. */
unsigned hk_rtc_poll(struct hk_rtc *rtc);

/* Polls until hk_rtc_stop(). One stop is for ever: a node that was stopped does not run again, but hk_rtc_poll() still
 * works, so that last words can be sent. */
void hk_rtc_run(struct hk_rtc *rtc);
void hk_rtc_stop(struct hk_rtc *rtc);

/* Polls until all nodes of the job are members, timeout_ms of the configuration at most. -ETIMEDOUT names those that
 * are not; -ECANCELED: hk_rtc_stop() was called. */
int hk_rtc_wait_all(struct hk_rtc *rtc, struct hk_error *err);

/* ---- sending -------------------------------------------------------------------------------- */

/* Sends a copy of @len bytes; they leave at the end of the round, or when a burst is full, or by
 * hk_rtc_flush(). *@number, if not NULL, identifies the message to on_answer and on_given_up.
 * -EAGAIN: no buffer, or too many questions open; -EMSGSIZE: longer than hk_rtc_payload_max();
 * -ENOTCONN: @dst is not a member; -EINVAL: type not registered, or @dst is this node. */
int hk_rtc_send(struct hk_rtc *rtc, uint16_t dst, uint8_t type, const void *data, size_t len,
		uint32_t *number);

/* The same without the copy: where to write up to hk_rtc_payload_max() bytes, then how many it
 * became. Between the two no other message is begun: a second hk_rtc_begin() gives the same place. NULL: no buffer.
 * hk_rtc_end() returns as hk_rtc_send(), -EAGAIN also if none was begun; after an error it is still begun. */
void *hk_rtc_begin(struct hk_rtc *rtc);
int hk_rtc_end(struct hk_rtc *rtc, uint16_t dst, uint8_t type, size_t len, uint32_t *number);

/* Sends what has gathered. */
void hk_rtc_flush(struct hk_rtc *rtc);
size_t hk_rtc_payload_max(const struct hk_rtc *rtc);

/* ---- time ------------------------------------------------------------------------------------ */

typedef void (*hk_rtc_timer_fn)(struct hk_rtc *rtc, void *arg);

uint64_t hk_rtc_now(const struct hk_rtc *rtc); /* ns, monotonic; cheap */

/* Calls @fn once after @first_ns and then each @period_ns (0: only once). Returns an id for
 * hk_rtc_cancel(), or -ENOSPC: 256 timers run. */
int hk_rtc_timer(struct hk_rtc *rtc, uint64_t first_ns, uint64_t period_ns, hk_rtc_timer_fn fn,
		 void *arg);
/* Nothing happens if it is over, or was cancelled. */
void hk_rtc_cancel(struct hk_rtc *rtc, int timer);

/* ---- who is there ---------------------------------------------------------------------------- */

uint16_t hk_rtc_node(const struct hk_rtc *rtc);
uint16_t hk_rtc_nodes(const struct hk_rtc *rtc); /* of the job, members or not */
bool hk_rtc_is_member(const struct hk_rtc *rtc, uint16_t node);
unsigned hk_rtc_members(const struct hk_rtc *rtc); /* this node included */

/* The members that the topology makes this node's neighbours, in ascending order; computed anew when
 * members come and go. Valid until the next hk_rtc_poll(). */
const uint16_t *hk_rtc_neighbours(const struct hk_rtc *rtc, unsigned *count);

/* One of them, drawn by the seed. -1: there is none. */
int hk_rtc_pick(struct hk_rtc *rtc);

/* ---- seeing it ------------------------------------------------------------------------------- */

struct hk_rtc_type_stats {
	uint64_t messages, answers; /* handed to handlers */
	uint64_t replied, sent, retries, given_up;
	uint64_t stale, repeated; /* dropped: older than the latest; asked again */
	uint64_t deferred, bursts_over_budget;
	uint64_t defer_full; /* dropped: to be deferred, and no room; retried ones come again */
	uint64_t handler_ns; /* in handlers, on the receiving core */
	uint64_t worker_ns;  /* in handlers, on worker cores */
	uint32_t recent_ns;  /* what a message costs, smoothed */
};

struct hk_rtc_stats {
	uint64_t rx_messages, tx_messages, tx_bytes, rx_bytes;
	uint64_t tx_full; /* not sent for want of room in port or socket */
	uint64_t no_buffer;
	uint64_t bad; /* refused by hk_msg_parse() */
	uint64_t other_job, not_for_us, unknown_type, not_member;
	uint64_t joined, left, lost; /* members */
	uint64_t rounds, empty_rounds;
	uint64_t stray;   /* frames that are no messages at all: the kernel's, others' */
	uint64_t cut_off; /* tcp: connections of strangers, and of nodes that broke the framing */
};

void hk_rtc_stats(const struct hk_rtc *rtc, struct hk_rtc_stats *out);
/* False: the type is not registered. */
bool hk_rtc_type_stats(const struct hk_rtc *rtc, uint8_t type, struct hk_rtc_type_stats *out);

/* Both as one line of JSON; returns its length, or -ENOSPC if @size is too small for it. */
int hk_rtc_stats_json(const struct hk_rtc *rtc, char *out, size_t size);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hikyaku/rtc.h: run to completion: the core that receives a message also handles it.
 *
 * A *node* owns one port (or socket) and one core. That core receives a burst, calls the handlers
 * of its message types, and sends their replies. Only then does it poll again. There are no queues
 * between stages and no copies, so the data stays in the first-level cache (Yamamoto, Kawashima,
 * Matsuo, 2022). A message fits one frame. There are no connections, and messages may overtake each
 * other. Each message type names the delivery class that it needs (enum hk_rtc_class).
 *
 * The same program runs over five *backends*, chosen by name:
 *
 *   dpdk     a port spec (port/port.h): memif, a NIC
 *   af_xdp   an interface; bypasses the kernel's network stack
 *   raw      an interface; packet socket with a memory-mapped ring (packet(7))
 *   udp      the kernel's UDP; a system call moves many messages
 *   tcp      the kernel's TCP without delay; `tcp:batch=1` sends many messages in a system call
 *
 * A node learns of the other nodes from the launcher (mpirun, srun: PMIx) or from a file of
 * addresses.
 *
 * Threads: only the thread that opened the node may call these functions. The exception is
 * hk_rtc_stop(), which any thread and any signal handler may call. Handlers may call everything
 * except hk_rtc_close(), hk_rtc_poll() and hk_rtc_run(). If the configuration asks for handler
 * threads (`threads`), they also run on_message, several at once. They do so for types that have a
 * budget or return HK_RTC_DEFER. On a handler thread, on_message must not call any function of this
 * header, and must protect the data that it shares.
 *
 * Memory: the library owns payloads. A handler may read and change them until it returns, and must
 * not keep a pointer to them. The library allocates no memory after the first hk_rtc_poll(). It
 * copies every argument (configuration, types, payloads, texts) except `arg`.
 *
 * Errors: functions return 0 or a negative errno. A struct hk_error receives a sentence that names
 * the cause and the fix. Faults in received data are counted, and are never errors.
 */
#ifndef HIKYAKU_RTC_H
#define HIKYAKU_RTC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* libhk_rtc.so exports the functions of this header and no others. */
#pragma GCC visibility push(default)

struct hk_error; /* hikyaku/error.h */
struct hk_rtc;

#define HK_RTC_MAX_NODES 1024
#define HK_RTC_MAX_TYPES 240 /* the application's types are 0 to 239 */
#define HK_RTC_BURST     32

/* ---- messages -------------------------------------------------------------------------------- */

/* The library's next step with a message, after its handler has returned. */
enum hk_rtc_action {
	HK_RTC_DONE = 0, /* free the message, without a reply (HK_RTC_RETRY: with an empty one); the
			  * default */
	HK_RTC_REPLY,    /* send the payload back as it is now, `len` bytes */
	/* handle it on a handler thread, or, without any, again when no message arrives */
	HK_RTC_DEFER,
};

struct hk_msg {
	void *data;         /* payload; aligned to 2 bytes, on dpdk and af_xdp to 32 */
	uint16_t len;       /* length of the payload in bytes */
	uint16_t reply_max; /* longest possible reply, in bytes */
	uint16_t src;       /* sending node */
	uint8_t type;
	uint8_t action;  /* enum hk_rtc_action; set by the handler */
	uint32_t number; /* number from hk_rtc_send(); a reply has its request's */
	uint32_t buf;    /* internal: buffer index */
};

/* Handles @n messages of one type, 1 to HK_RTC_BURST. */
typedef void (*hk_rtc_fn)(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n);

enum hk_rtc_class {
	HK_RTC_BEST_EFFORT, /* may be lost, duplicated or late */
	HK_RTC_LATEST, /* a message older than one that arrived from the same node is dropped */
	/* A message is a request: it is resent until it is answered, and handled once. A repeated
	 * request gets the stored reply. If the action is HK_RTC_DONE, the library answers
	 * without a payload, so that the sender knows that it arrived. The numbers of open
	 * requests to one node span at most 256. A node has at most 1024 open requests, or
	 * `buffers` / 4 if that is less, and stores as many replies. */
	HK_RTC_RETRY,
};

struct hk_rtc_type {
	const char *name; /* name in statistics and errors */
	enum hk_rtc_class class;
	hk_rtc_fn on_message; /* NULL: the node counts and drops such messages */
	hk_rtc_fn on_reply;   /* handler of replies; NULL: they are dropped */
	/* HK_RTC_RETRY: @dst left or did not answer @number in all tries. NULL: only counted. */
	void (*on_given_up)(struct hk_rtc *rtc, void *arg, uint16_t dst, uint32_t number);
	void *arg;
	/* Time that one message may cost, in ns, at most 50 000 000; 0: no limit. The library
	 * measures the cost of each burst. While a type costs more than its budget, handler threads
	 * handle it, so that the core keeps receiving. Without handler threads the overrun is only
	 * counted, and messages wait in the port meanwhile. */
	uint32_t budget_ns;
	/* HK_RTC_RETRY: time to the first retry in µs, doubled each time; 0: 1000 */
	uint32_t timeout_us;
	unsigned tries; /* HK_RTC_RETRY: transmissions in total; 0: 10 */
};

/* ---- a node ---------------------------------------------------------------------------------- */

enum hk_rtc_topology {
	HK_RTC_ALL,         /* every other member */
	HK_RTC_RING,        /* the previous and the next member */
	HK_RTC_RANDOM,      /* `degree` others, drawn by `seed`, the same at both ends */
	HK_RTC_EXPONENTIAL, /* the members 1, 2, 4, … positions further on */
	HK_RTC_FILE,        /* lines "NODE NEIGHBOUR…" of `topology_file` */
};

/* The defence against forged, changed and replayed messages. All nodes of a job have the same.
 */
enum hk_rtc_protection {
	/* HIKYAKU_RTC_PROTECTION in the environment: off, auth or seal. Without it: auth with a
	 * launcher or a secret; off without either, and on memif wires without a secret. */
	HK_RTC_PROTECTION_AUTO,
	HK_RTC_PROTECTION_OFF,
	HK_RTC_PROTECTION_AUTH, /* a counter and a tag in each message, 24 bytes */
	HK_RTC_PROTECTION_SEAL, /* the same, and payloads are encrypted; headers are not */
};

struct hk_rtc_config {
	/* "dpdk", "af_xdp", "raw", "udp", "tcp" or "tcp:batch=1". NULL: HIKYAKU_RTC_BACKEND in the
	 * environment. */
	const char *backend;
	/* Local address. dpdk: a port spec. af_xdp, raw: an interface. udp, tcp: an IP address or
	 * an interface, with ":PORT" to fix the port. The library fills in `{rank}` and
	 * `{local_rank}`. NULL: udp and tcp use this node's line of the peers_file, if there is
	 * one. Otherwise it is HIKYAKU_RTC_ADDRESS_DPDK (or _AF_XDP, _RAW, _UDP, _TCP) in the
	 * environment. */
	const char *address;
	/* File of addresses; NULL: the launcher knows the nodes. Each line is "NODE ADDRESS", with
	 * ADDRESS as hk_rtc_address() returns it. Only with a file do `node` and `nodes`
	 * count. */
	const char *peers_file;
	uint16_t node, nodes; /* nodes 0: as many as the file has */
	uint32_t key;         /* job key; 0 with a launcher: made from its job id */
	enum hk_rtc_topology topology;
	const char *topology_file;
	unsigned degree;       /* number of neighbours for HK_RTC_RANDOM; 0: 2 */
	uint64_t seed;         /* seed of all random choices */
	unsigned buffers;      /* number of frame buffers; 0: 4096 */
	unsigned payload_max;  /* longest payload in bytes; 0: what fits the backend's frame */
	unsigned threads;      /* number of handler threads; 0: none */
	const int *thread_cpu; /* [threads] their CPUs, or NULL: not pinned */
	/* Interval of alive messages in ms, at most 10000; 0: 100. A node that is silent for ten
	 * intervals is no longer a member. */
	unsigned alive_ms;
	/* Limit in ms for connecting at the start, and for handler threads at the end; 0: 10000. */
	unsigned timeout_ms;
	/* The polling thread calls it between messages. @joined: @node joined; otherwise it left or
	 * was silent for too long. */
	void (*on_member)(struct hk_rtc *rtc, void *arg, uint16_t node, bool joined);
	void *arg;
	enum hk_rtc_protection protection;
	/* File with the secret of the job, 64 hexadecimal digits, which nobody else can read. All
	 * nodes have the same. With a launcher it is not needed. NULL: HIKYAKU_RTC_SECRET in the
	 * environment. */
	const char *secret_file;
};

/* Fills @cfg with defaults. Call it first: later releases may add fields. */
void hk_rtc_defaults(struct hk_rtc_config *cfg);

/* Opens the backend and finds the other nodes. With a launcher every node of the job must call it.
 * It returns when all have called it; then all are members, without calls of on_member. With a
 * peers_file nodes become members later, while hk_rtc_poll() runs. It waits at most timeout_ms, and
 * the error names the missing nodes. */
int hk_rtc_open(const struct hk_rtc_config *cfg, struct hk_rtc **rtc, struct hk_error *err);

/* Tells the members that this node leaves, and releases everything, including system resources (XDP
 * program, sockets). It waits up to timeout_ms for handler threads. -ETIMEDOUT: a handler has not
 * returned; then this node's memory and port remain until another hk_rtc_close() or the end of the
 * process. @rtc may be NULL. */
int hk_rtc_close(struct hk_rtc *rtc);

/* This node's address in the form of a peers_file; valid until hk_rtc_close(). */
const char *hk_rtc_address(const struct hk_rtc *rtc);

/* The protection that is used: the configured one, or the one that AUTO chose. */
enum hk_rtc_protection hk_rtc_protection(const struct hk_rtc *rtc);

/* Registers a message type; only before the first hk_rtc_poll(), else -EBUSY. -EINVAL: invalid
 * type, name, class or budget; -EEXIST: registered already; -ENOMEM. */
int hk_rtc_register(struct hk_rtc *rtc, uint8_t type, const struct hk_rtc_type *t,
		    struct hk_error *err);

/* One round: receives a burst, handles it, sends the replies, runs due timers. Returns the number
 * of messages. Never sleeps. */
unsigned hk_rtc_poll(struct hk_rtc *rtc);

/* hk_rtc_run() polls until hk_rtc_stop(). A stop is permanent: later calls of hk_rtc_run() return
 * at once. hk_rtc_poll() still works, so that a program can send its last messages. */
void hk_rtc_run(struct hk_rtc *rtc);
void hk_rtc_stop(struct hk_rtc *rtc);

/* Polls until all nodes of the job are members, at most timeout_ms of the configuration.
 * -ETIMEDOUT: the error names the missing nodes. -ECANCELED: hk_rtc_stop() was called. */
int hk_rtc_wait_all(struct hk_rtc *rtc, struct hk_error *err);

/* ---- sending --------------------------------------------------------------------------------- */

/* Sends a copy of @len bytes at the end of the round, when a burst is full, or at hk_rtc_flush().
 * *@number, if not NULL, identifies the message to on_reply and on_given_up. Returns 0, or an
 * error, here with the text that strerror() has for it; then nothing was sent:
 *
 *   -EAGAIN    Resource temporarily unavailable: no free buffer, or too many open requests. Call
 *              hk_rtc_poll(), then send again.
 *
 *   -EMSGSIZE  Message too long: longer than hk_rtc_payload_max(). Send it in parts.
 *
 *   -ENOTCONN  Transport endpoint is not connected: @dst is not a member: it has left, is silent,
 *              or has not joined. Wait with hk_rtc_wait_all(), or for on_member.
 *
 *   -EINVAL    Invalid argument: the type is not registered, or @dst is this node.
 */
int hk_rtc_send(struct hk_rtc *rtc, uint16_t dst, uint8_t type, const void *data, size_t len,
		uint32_t *number);

/* The same without a copy. hk_rtc_begin() returns memory for hk_rtc_payload_max() bytes, or NULL if
 * no buffer is free. The caller writes @len bytes there and calls hk_rtc_end(). Only one message
 * can be begun: a second hk_rtc_begin() returns the same memory. hk_rtc_end() returns the errors of
 * hk_rtc_send(), and -EAGAIN if no message was begun. After an error the message is still begun. */
void *hk_rtc_begin(struct hk_rtc *rtc);
int hk_rtc_end(struct hk_rtc *rtc, uint16_t dst, uint8_t type, size_t len, uint32_t *number);

/* Sends queued messages now. */
void hk_rtc_flush(struct hk_rtc *rtc);
size_t hk_rtc_payload_max(const struct hk_rtc *rtc);

/* ---- time ------------------------------------------------------------------------------------ */

typedef void (*hk_rtc_timer_fn)(struct hk_rtc *rtc, void *arg);

uint64_t hk_rtc_now(const struct hk_rtc *rtc); /* monotonic time in ns; cheap */

/* Calls @fn after @first_ns, then every @period_ns (0: once only). Returns an id for
 * hk_rtc_cancel(). -ENOSPC: 256 timers run already. */
int hk_rtc_timer(struct hk_rtc *rtc, uint64_t first_ns, uint64_t period_ns, hk_rtc_timer_fn fn,
		 void *arg);
/* Cancels a timer. No effect if it has ended or was cancelled. */
void hk_rtc_cancel(struct hk_rtc *rtc, int timer);

/* ---- membership ------------------------------------------------------------------------------ */

uint16_t hk_rtc_node(const struct hk_rtc *rtc);
uint16_t hk_rtc_nodes(const struct hk_rtc *rtc); /* number of nodes of the job, members or not */
bool hk_rtc_is_member(const struct hk_rtc *rtc, uint16_t node);
unsigned hk_rtc_members(const struct hk_rtc *rtc); /* number of members, this node included */

/* This node's neighbours among the members, by the topology, in ascending order. The list follows
 * membership and is valid until the next hk_rtc_poll(). */
const uint16_t *hk_rtc_neighbours(const struct hk_rtc *rtc, unsigned *count);

/* A neighbour drawn at random; -1: there are none. */
int hk_rtc_pick(struct hk_rtc *rtc);

/* ---- statistics ------------------------------------------------------------------------------ */

struct hk_rtc_type_stats {
	uint64_t messages, replies; /* number handed to handlers */
	uint64_t replied, sent, retries, given_up;
	uint64_t stale, repeated; /* dropped: older than the latest; answered before */
	uint64_t deferred, bursts_over_budget;
	uint64_t defer_full; /* dropped: no handler thread had space; requests are resent */
	uint64_t handler_ns; /* time in handlers on the receiving core, in ns */
	uint64_t thread_ns;  /* time in handlers on handler threads, in ns */
	uint32_t recent_ns;  /* smoothed cost of a message in ns */
};

struct hk_rtc_stats {
	uint64_t rx_messages, tx_messages, tx_bytes, rx_bytes;
	uint64_t tx_full; /* not sent: port or socket was full */
	uint64_t no_buffer;
	uint64_t bad; /* refused by hk_msg_parse() */
	uint64_t other_job, not_for_us, unknown_type, not_member;
	uint64_t joined, left, lost; /* membership changes */
	uint64_t rounds, empty_rounds;
	uint64_t stray;   /* frames without a message: the kernel's or other programs' */
	uint64_t cut_off; /* tcp: connections closed for a wrong greeting or framing */
	/* dropped messages: without a right tag, or of another protection; received before */
	uint64_t forged, replayed;
};

void hk_rtc_stats(const struct hk_rtc *rtc, struct hk_rtc_stats *out);
/* Returns false if the type is not registered. */
bool hk_rtc_type_stats(const struct hk_rtc *rtc, uint8_t type, struct hk_rtc_type_stats *out);

/* Writes both as one line of JSON. Returns its length, or -ENOSPC if @size is too small. */
int hk_rtc_stats_json(const struct hk_rtc *rtc, char *out, size_t size);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif

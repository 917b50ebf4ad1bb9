/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hikyaku/worker.h: an endpoint on the network that sends reliable messages to its peers.
 *
 * A worker joins one protocol engine to one or more ports. Its user adds peers, fills frame buffers
 * and sends them as *active messages*. A small number in each message names the handler that runs
 * at the receiver. A message consists of 1 to HK_FRAGS_MAX buffers. It arrives exactly once,
 * complete, and in the order in which its sender sent.
 *
 *   hk_worker_open_port_spec()                     once; or hk_worker_open(), hk_worker_add_port()
 *   hk_worker_peer_add()                           once for each peer
 *   hk_worker_alloc(), fill, hk_worker_send()      any number of times
 *   hk_worker_progress()                           as often as possible: it receives
 *   hk_worker_close()
 *
 * examples/hello is a complete program. hikyaku/rma.h adds puts and gets, hikyaku/notify.h puts
 * that notify, hikyaku/mcast.h multicast.
 *
 * Addresses. The worker knows no name service. Its user carries endpoint, epoch, frame size and MAC
 * of each worker to the others (Open MPI's modex does, or a file).
 *
 * Buffers. hk_worker_alloc() returns a buffer for one frame's payload, in memory from which the
 * port sends. hk_worker_send() takes the buffer over, also when it fails. So the caller copies a
 * message once on the way in, and the handler copies it once on the way out. The handler must not
 * keep a pointer to the bytes that it is shown.
 *
 * Order. The engine below delivers in any order, and ob1 could reorder. But Open MPI 4.1 unpacks
 * derived types wrongly when fragments arrive out of order and split an element.
 *
 * Bulk port. A peer may have a second port for bulk: puts, gets, and messages sent by
 * hk_worker_sendv_bulk(). Both ports share one sequence of packet numbers, so order and
 * exactly-once hold across them. An acknowledgement leaves by the port on which its packet came.
 *
 * Paths. Several ports may reach one peer. Puts, gets and bulk messages are then spread over them
 * frame by frame, by the shortest queue. Frames lost on one path are retransmitted on another, and
 * a path on which nothing arrives is paused. A worker that shares its memory with hikyakud's poller
 * has one path a peer.
 *
 * Threads. One application thread at a time may call a worker; several threads lock around it. The
 * progress thread (hk_worker_progress_thread_start()) excludes itself. It acknowledges and stores
 * what arrives while the application does not poll, and it never calls a handler. Handlers and the
 * callbacks `lost` and `path_down` run inside hk_worker_progress(), on its caller's thread, the
 * callbacks also inside hk_worker_report_lost(). They may send.
 *
 * Errors. Calls return 0 or a negative errno, and fill in the struct hk_error if there is one.
 */
#ifndef HIKYAKU_WORKER_H
#define HIKYAKU_WORKER_H

#include "hikyaku/counters.h"
#include "hikyaku/error.h"
#include "hikyaku/protocol.h"

#include <stddef.h>

#pragma GCC visibility push(default)

struct hk_worker;
struct hk_port;
struct rte_mbuf;
struct rte_mempool;

/* A frame buffer: DPDK's packet buffer for hk_worker_frame_payload() bytes. */
typedef struct rte_mbuf hk_buf;

/* Buffers of one message, at most. */
#define HK_FRAGS_MAX 16

/* Offset of the payload in a frame buffer. The payload starts on a cache line; the headers stand
 * before it. */
#define HK_BUF_PAYLOAD_AT 128

/* The payload of @b. A packet buffer begins with the address of its data (asserted in tx.c). */
static inline void *hk_buf_data(hk_buf *b)
{
	return *(char **)b + HK_BUF_PAYLOAD_AT;
}

struct hk_iov {
	const void *base;
	size_t len; /* bytes */
};

/* A message from @peer has arrived. @iov points into receive buffers and is valid until the handler
 * returns. */
typedef void (*hk_am_fn)(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov,
			 unsigned count);

/* The connection to @peer has ended; HK_PEER_NONE: to all peers, because the worker is broken.
 * @text is one sentence with the peer's name and the reason; it is valid until the return. */
typedef void (*hk_lost_fn)(void *arg, hk_peer peer, enum hk_disconnect_reason why,
			   const char *text);

/* A path to @peer is paused, and the other paths carry its traffic. Called once for each path.
 * @port: index of its local port. @text names path and peer, and is valid until the return. */
typedef void (*hk_path_fn)(void *arg, hk_peer peer, unsigned port, const char *text);

/* A frame came from an endpoint that has not been added. The callback adds it if it knows its
 * address, and returns whether it did. Without it, and in the progress thread, the frame is dropped
 * and its sender sends it again. Only with a protection that has keys. */
typedef bool (*hk_stranger_fn)(void *arg, uint32_t endpoint, uint32_t epoch);

#define HK_KEY_LEN   32 /* bytes of a public key, and of a job's key */
#define HK_PATHS_MAX HK_PATHS

struct hk_worker_config {
	struct hk_engine_config engine; /* rx_budget is set from `rx_backlog` */

	unsigned tx_buffers;  /* frames that may wait to be sent or acknowledged */
	unsigned rx_backlog;  /* frames stored while the application does not poll */
	size_t backlog_bytes; /* bytes of small messages stored beside those frames */
	unsigned regions;     /* regions of memory that peers reach (rma.h): 1 to HK_REGIONS_MAX */
	unsigned frame_max;   /* bytes of the largest frame; every port must carry it */
	hk_lost_fn lost;
	hk_path_fn path_down;
	void *lost_arg;    /* argument of all callbacks */
	size_t stripe_min; /* bytes; shorter puts and gets use the first path alone */

	/* Frames with HK_PROTECTION_AUTH or HK_PROTECTION_SEAL. The worker draws a pair of keys for
	 * itself, and its peers' addresses bring theirs. */
	const uint8_t *job_key;  /* HK_KEY_LEN bytes that all of a job have beside; NULL: none */
	hk_stranger_fn stranger; /* or NULL */

	/* Memory of a worker that hikyakud's poller shares; NULL: private memory. Both map it at
	 * the same address. It is zeroed and has at least hk_worker_size() bytes. The pool is one
	 * of hk_worker_tx_pool(). */
	void *memory;
	size_t memory_len; /* bytes */
	struct rte_mempool *tx_pool;

	/* Nanoseconds after which the poller of a silent peer with packets in flight is woken; 0:
	 * never. Only for a shared worker on ports with wakeups (port/wakeup.h). */
	uint64_t wakeup_after;
};

void hk_worker_config_default(struct hk_worker_config *cfg);

/* ---- opening and closing --------------------------------------------------------------------- */

/* Opens a worker. hk_eal_init() must have started DPDK. @cfg is copied; what it points to must
 * outlive the worker. Errors: -EINVAL, a field is out of range; -EMSGSIZE, frames are too small;
 * -ENOMEM. */
int hk_worker_open(const struct hk_worker_config *cfg, struct hk_worker **worker,
		   struct hk_error *err);

/* Starts DPDK in this process if nobody has, opens a worker and gives it the port that @spec names
 * (docs/ports.md lists port specs). cfg->frame_max 0: as large as the port carries. Waits at most
 * @timeout_ms for what the port needs, such as the other end of a memif. */
int hk_worker_open_port_spec(const struct hk_worker_config *cfg, const char *spec, int timeout_ms,
			     struct hk_worker **worker, struct hk_error *err);

/* Waits at most @linger_ms until everything sent is acknowledged, sends BYE to all peers, and
 * frees the worker with the ports that it owns. Handlers and `lost` are not called any more.
 * Operations that have not completed never do; their memory is the caller's again. Returns how many
 * packets were not acknowledged. NULL is allowed. */
unsigned hk_worker_close(struct hk_worker *w, unsigned linger_ms);

/* Gives @port to the worker, which closes it later. Returns the port's index. On an error the
 * caller keeps the port. Errors: -ENOSPC, too many ports; -EMSGSIZE, the port's frames are smaller
 * than the worker's; -ENOMEM. */
int hk_worker_add_port(struct hk_worker *w, struct hk_port *port, struct hk_error *err);

/* Bytes of payload in the largest frame. */
size_t hk_worker_frame_payload(const struct hk_worker *w);

/* ---- peers ----------------------------------------------------------------------------------- */

#define HK_IP6_LEN 18 /* bytes of an IPv6 address and a UDP port, in network byte order */

struct hk_path_addr {
	uint16_t port;           /* index of the local port */
	uint16_t frame_max;      /* bytes of the largest frame of the peer's port */
	uint8_t mac[6];          /* of the peer's port */
	uint8_t ip6[HK_IP6_LEN]; /* of the peer's port if it is a UDP port of IPv6; else 0 */
};

struct hk_peer_addr {
	uint32_t endpoint;  /* see struct hk_engine_config */
	uint32_t epoch;     /* see struct hk_engine_config */
	uint8_t mac[6];     /* of the peer's port */
	uint16_t port;      /* index of the local port that reaches the peer */
	uint16_t bulk;      /* index of the local port for bulk, plus 1; 0: the same port, or all */
	uint16_t frame_max; /* bytes of the largest frame of the peer's port */
	const char *name;   /* for messages, such as "rank 3 on node1"; copied */
	uint8_t public_key[HK_KEY_LEN]; /* of frames with keys; others: any */
	uint8_t ip6[HK_IP6_LEN];        /* of the peer's port, as in struct hk_path_addr */
	unsigned more; /* further paths, at most HK_PATHS_MAX - 1; `bulk` is one of all */
	struct hk_path_addr path[HK_PATHS_MAX - 1];
};

/* The address of this worker by its port @port, as peers need it; `name` is NULL and `port` is 0.
 * -EINVAL: there is no such port. */
int hk_worker_address(const struct hk_worker *w, unsigned port, struct hk_peer_addr *addr);

/* Adds a peer, or the next incarnation of one: then *peer is its old index. @addr is copied.
 * Errors: -EINVAL, no such port; -EMSGSIZE, the peer's frames are smaller than ours; -ENOMEM.
 * -EAFNOSUPPORT: one of the two ports is of IPv6, and the other is not. -ENOSPC: the table is full,
 * or the endpoint belongs to another peer. */
int hk_worker_peer_add(struct hk_worker *w, const struct hk_peer_addr *addr, hk_peer *peer,
		       struct hk_error *err);

/* Sends the frames to @peer with @tag (docs/tag.md) as destination address. The network must
 * restore the real address, or the receiver's port must accept every address. */
void hk_worker_peer_tag(struct hk_worker *w, hk_peer peer, uint64_t tag);

/* Sets the MPI function (enum hk_tag_function) of what is sent to a tagged peer from now on. A
 * resend keeps its message's function; frames that only acknowledge have none. */
void hk_worker_peer_function(struct hk_worker *w, hk_peer peer, unsigned function);

/* The name that the peer was added with, until it is added again. A passive peer has the name "a
 * peer not yet added". */
const char *hk_worker_peer_name(const struct hk_worker *w, hk_peer peer);

/* How many paths reach @peer, paused ones included. */
unsigned hk_worker_peer_paths(const struct hk_worker *w, hk_peer peer);

/* ---- sending --------------------------------------------------------------------------------- */

/* A frame buffer, which belongs to the caller until it is sent or freed. NULL while all buffers
 * wait for acknowledgements: call hk_worker_progress(), then try again. */
hk_buf *hk_worker_alloc(struct hk_worker *w);
void hk_worker_free(struct hk_worker *w, hk_buf *b);

/* Puts the @len bytes at @data behind the first @at bytes of @b. The call that sends @b reads them,
 * and copies them only after it has transmitted: so leave them unchanged until it has returned. All
 * of them must fit (hk_worker_frame_payload()). */
void hk_worker_lend(struct hk_worker *w, hk_buf *b, size_t at, const void *data, size_t len);

/* Sends one message of @count buffers (1 to HK_FRAGS_MAX) with @len[i] bytes in each. Returns 0 if
 * it was sent, and 1 if it waits in the send queue until the peer's window has space. Then prepare
 * no more messages for this peer (hk_worker_backlog()). -ENOTCONN: the peer is disconnected; the
 * buffers are freed all the same. */
int hk_worker_sendv(struct hk_worker *w, hk_peer peer, uint8_t am, hk_buf *const *bufs,
		    const size_t *len, unsigned count);

/* The same by the peer's port for bulk. */
int hk_worker_sendv_bulk(struct hk_worker *w, hk_peer peer, uint8_t am, hk_buf *const *bufs,
			 const size_t *len, unsigned count);

static inline int hk_worker_send(struct hk_worker *w, hk_peer peer, uint8_t am, hk_buf *b,
				 size_t len)
{
	return hk_worker_sendv(w, peer, am, &b, &len, 1);
}

#define HK_SHORT_MAX 256 /* bytes of a short message, at most */

/* Copies @header and @data into one message of at most HK_SHORT_MAX bytes, and sends it. It is the
 * fastest way for them. Returns as hk_worker_sendv(); and -EAGAIN if few frame buffers are left
 * (hk_worker_tx_low()) or more than a quarter of all wait for @peer. */
int hk_worker_send_short(struct hk_worker *w, hk_peer peer, uint8_t am, const void *header,
			 size_t header_len, const void *data, size_t len);

/* How many buffers wait in the send queue of @peer. */
unsigned hk_worker_backlog(const struct hk_worker *w, hk_peer peer);

/* Frame buffers that hk_worker_alloc() can still give. */
unsigned hk_worker_tx_available(const struct hk_worker *w);

/* Are few frame buffers left? Then take no new work. True at the latest when one message of
 * HK_FRAGS_MAX buffers is left. */
bool hk_worker_tx_low(const struct hk_worker *w);

/* The worker's clock in nanoseconds, from the time stamp counter. */
uint64_t hk_worker_now(const struct hk_worker *w);

/* ---- receiving ------------------------------------------------------------------------------- */

/* Sets the handler of @am, which is at most 252; NULL removes it. The others are the worker's. */
void hk_worker_set_am(struct hk_worker *w, uint8_t am, hk_am_fn fn, void *arg);

/* Receives, delivers, acknowledges, resends. Returns 0 if there was nothing to do: no frame, no
 * stored message, no completion. */
unsigned hk_worker_progress(struct hk_worker *w);

/* Calls `lost` and `path_down` for what has ended and was not reported yet. For an application
 * whose call was answered by -ENOTCONN: the progress thread may have learnt why. */
void hk_worker_report_lost(struct hk_worker *w);

/* Starts the progress thread. If nobody has called hk_worker_progress() for @idle_us, the thread
 * polls the ports every @period_us. It ends with the worker. -ENOSYS: the kernel lacks
 * membarrier(2); other values: pthread_create() failed. */
int hk_worker_progress_thread_start(struct hk_worker *w, unsigned idle_us, unsigned period_us,
				    struct hk_error *err);

/* ---- statistics ------------------------------------------------------------------------------ */

struct hk_worker_counters {
	HK_WORKER_COUNTERS(HK_COUNTER_FIELD)
	struct hk_path_counters path[HK_PATHS_MAX]; /* of peers with several paths */
};

/* Valid until the worker is closed; the values change while it works. */
const struct hk_worker_counters *hk_worker_counters(const struct hk_worker *w);

#pragma GCC visibility pop

#endif

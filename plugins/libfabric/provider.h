/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/provider.h: the objects of the libfabric provider "hikyaku", and what its files offer
 * each other. libfabric's manual pages are the contract of everything that an application calls;
 * fi_hikyaku(7) says where this provider differs.
 *
 * Objects. A domain has one worker (hikyaku/worker.h), with the port that the parameters name. Its
 * endpoints share the worker, and each has a number in it, which is a part of its name. Completion
 * queues, counters and address vectors belong to the domain too.
 *
 * Threads. With FI_THREAD_DOMAIN the application excludes itself, and the provider takes no lock.
 * With all other models the domain has a lock, which every call takes.
 *
 * Progress. Reading a completion queue or a counter polls the worker. The progress thread of the
 * worker acknowledges what arrives meanwhile, and serves puts and gets. With FI_PROGRESS_AUTO a
 * thread of the domain, in its place, does all that a poll does.
 */
#ifndef HK_FI_PROVIDER_H
#define HK_FI_PROVIDER_H

#include "base/clock.h"
#include "base/common.h"
#include "hikyaku/error.h"
#include "hikyaku/rma.h"
#include "libfabric/compat.h"
#include "libfabric/iov.h"
#include "libfabric/keys.h"
#include "libfabric/match.h"
#include "libfabric/message.h"
#include "libfabric/name.h"
#include "libfabric/pool.h"
#include "libfabric/refuse.h"
#include "worker/idle.h"

#include <pthread.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#define HK_FI_ENDPOINTS  64   /* of a domain */
#define HK_FI_REGIONS    4096 /* of a domain, and one for each long message under way */
#define HK_FI_IOV        4    /* pieces of a buffer */
#define HK_FI_INJECT     1024 /* bytes */
#define HK_FI_ATOMIC_MAX 4096 /* bytes of values of an atomic operation, if a frame has as many */
#define HK_FI_BINDINGS   9    /* of an endpoint: an AV, two queues, and six counters at most */
#define HK_FI_MULTI_RECV 64   /* FI_OPT_MIN_MULTI_RECV of a new endpoint */

#define HK_FI_ACCESS   (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define HK_FI_RMA_CAPS (FI_RMA | FI_ATOMIC | HK_FI_ACCESS)
#define HK_FI_CAPS                                                                                 \
	(HK_FI_RMA_CAPS | FI_MSG | FI_TAGGED | FI_SEND | FI_RECV | FI_MULTI_RECV |                 \
	 FI_DIRECTED_RECV | FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_RMA_EVENT)
#define HK_FI_TX_CAPS (FI_MSG | FI_TAGGED | FI_SEND | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE)
#define HK_FI_RX_CAPS                                                                              \
	(FI_RMA | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MSG | FI_TAGGED | FI_RECV |    \
	 FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_RMA_EVENT)
#define HK_FI_OP_FLAGS                                                                             \
	(FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |                   \
	 FI_DELIVERY_COMPLETE | FI_MULTI_RECV)
/* of messages, and of atomic operations, which are messages */
#define HK_FI_ORDER                                                                                \
	(FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR |          \
	 FI_ORDER_ATOMIC_WAW)

extern struct fi_provider hk_fi_provider;

/* ---- what libfabric offers a provider (provider.c) ------------------------------------------- */

/* The functions of the libfabric that has loaded us, which the process may have linked, or loaded
 * where we do not see its symbols. */
struct hk_fi_libfabric {
	uint32_t (*version)(void);
	struct fi_info *(*dupinfo)(const struct fi_info *);
	void (*freeinfo)(struct fi_info *);
	int (*param_define)(const struct fi_provider *, const char *, enum fi_param_type,
			    const char *, ...);
	int (*param_get)(struct fi_provider *, const char *, void *);
	int (*log_enabled)(const struct fi_provider *, enum fi_log_level, enum fi_log_subsys);
	void (*log)(const struct fi_provider *, enum fi_log_level, enum fi_log_subsys, const char *,
		    int, const char *, ...);
	char *(*tostr)(const void *, enum fi_type);
};
extern struct hk_fi_libfabric hk_fi_libfabric;

/* The user's parameters, FI_HIKYAKU_… in the environment. */
struct hk_fi_params {
	char *port, *node_wires, *mode, *protection, *if_include, *if_exclude;
	int key, progress_thread, yield, connect_timeout_ms, peer_timeout_ms, linger_ms;
	int tx_buffers, rx_buffers, rx_backlog, eager;
};
extern struct hk_fi_params hk_fi_params;

/* A line to the user, with FI_LOG_LEVEL at @level or above. */
__attribute__((format(printf, 2, 3))) void hk_fi_say(enum fi_log_level level, const char *format,
						     ...);
#define hk_fi_warn(...) hk_fi_say(FI_LOG_WARN, __VA_ARGS__)

/* A line to the user of a domain that cannot be opened: in the log, or on stderr if that is off.
 * The MPI says only that opening the domain failed. */
void hk_fi_fail(const char *text);

/* -EINVAL: a variable FI_HIKYAKU_… is misspelt, or its value is of another type. */
int hk_fi_params_check(struct hk_error *err);

/* The names of flags, for such a line; valid until the next call. */
const char *hk_fi_text(const void *value, enum fi_type type);

int hk_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		  const struct fi_info *hints, struct fi_info **info);
int hk_fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
/* Can a domain, or an endpoint, be as @info wants? 0, or -FI_ENODATA after a warning. */
int hk_fi_check(const struct fi_info *info);

/* ---- objects --------------------------------------------------------------------------------- */

struct hk_fi_ep;

/* Another worker, or our own: peers.c. */
struct hk_fi_peer {
	uint32_t endpoint;          /* 0: it has sent, and nobody has told us its name */
	hk_peer peer;               /* HK_PEER_NONE: its wire is not up, or it is our own worker */
	struct hk_wires_peer *wire; /* until it is up, else NULL */
	struct hk_fi_name name;     /* until then */
	bool connecting;            /* its wire, or hikyakud's to its node, is not up yet */
	bool called;                /* it knows that we want a wire */
	bool by_ports;              /* without the wire of its node, which does not come up */
	bool failed;                /* there will be no wire */
	uint64_t wanted;            /* since when a send waits for the wire; 0: none does */
};
#define HK_FI_SELF    0u /* the place of our own worker */
#define HK_FI_PEERS   (1u << 20)
#define HK_FI_NO_PEER UINT32_MAX

struct hk_fi_domain {
	struct fid_domain fid;
	struct hk_fi_fabric *fabric;
	struct hk_worker *worker;
	struct hk_hosted *hosted;       /* by hikyakud; NULL: mode inline */
	struct hk_wires *wires;         /* point-to-point wires of its own; NULL: none */
	struct hk_node_set *node_wires; /* they lead to this node's processes; NULL: to all peers */
	struct hk_calls *calls;         /* by those who want a wire */
	char port[256];                 /* the list of its ports */
	struct hk_fi_peer *peer;
	uint32_t peers, peer_room;
	uint32_t *by_worker; /* the places in `peer`, by hk_peer */
	uint32_t by_worker_room;
	uint32_t connecting;         /* peers whose wire is not up */
	uint32_t first;              /* of these, to be looked at in the next step */
	uint64_t next_step;          /* of these, by the worker's clock */
	unsigned idle;               /* polls in a row that found nothing */
	struct hk_idle pause;        /* of a waiting program that shares its core */
	uint64_t sleep_ns;           /* in place of a yield; 0: yield */
	unsigned polls;              /* modulo 2^32 */
	struct hk_fi_name name;      /* `number` is 0 */
	bool local;                  /* FI_LOCAL_COMM: it sends within a node, too */
	bool basic;                  /* FI_MR_BASIC: our keys, and addresses in place of offsets */
	struct hk_fi_key *directory; /* of our keys */
	struct hk_fi_known *known;   /* keys of peers */
	uint32_t known_room;
	bool safe; /* every call takes `lock` */
	pthread_mutex_t lock;
	bool is_auto, auto_runs, auto_stop; /* FI_PROGRESS_AUTO; its thread runs, and shall end */
	pthread_t auto_thread;
	pthread_cond_t auto_end;
	size_t payload, eager; /* bytes of a frame, and of the longest message sent eagerly */
	struct hk_fi_ep *ep[HK_FI_ENDPOINTS];
	struct hk_fi_pending **pending, *pending_free; /* by the lower bits of their id */
	uint32_t pendings, pending_room;
	struct hk_fi_waiting *waiting, **waiting_last; /* short messages that found no buffer */
	struct hk_fi_mr *counted;                      /* regions with a counter of changes */
	struct hk_fi_pool recvs, rmas;
	int objects; /* AVs, CQs, counters and endpoints that are open */
};

struct hk_fi_address {
	uint32_t peer;  /* its place in the domain; HK_FI_NO_PEER: removed */
	uint8_t number; /* of the endpoint there */
	uint32_t next;  /* further addresses of this peer, or UINT32_MAX */
	struct hk_fi_name name;
};

struct hk_fi_av {
	struct fid_av fid;
	struct hk_fi_domain *domain;
	struct hk_fi_address *address; /* by fi_addr_t */
	uint32_t count, room;
	uint32_t *by_peer; /* the first address of each peer, or UINT32_MAX */
	uint32_t peers;
	int users; /* bindings of endpoints */
};

struct hk_fi_event {
	struct fi_cq_tagged_entry at; /* the longest format; the others are its beginnings */
	fi_addr_t source;
	size_t olen;  /* of an error: bytes that did not fit */
	int error;    /* 0, or one of FI_E… */
	hk_peer peer; /* of an error with a peer, or HK_PEER_NONE */
};

/* A descriptor on which threads sleep until a queue or counter changes: wait.c. */
struct hk_fi_wait {
	int fd, event, timer; /* -1: there is none */
	bool armed;           /* a thread may sleep, or is about to */
	bool changed;         /* since the last read */
};

struct hk_fi_cq {
	struct fid_cq fid;
	struct hk_fi_domain *domain;
	size_t entry; /* bytes, by its format */
	struct hk_fi_event *ring;
	uint32_t room, head, tail; /* room: a power of two */
	bool woken;                /* fi_cq_signal() */
	struct hk_fi_wait wait;
	int users;
	char text[160]; /* of the newest error */
};

struct hk_fi_cntr {
	struct fid_cntr fid;
	struct hk_fi_domain *domain;
	uint64_t value, errors;
	struct hk_fi_wait wait;
	int users;
};

/* A message that has arrived, without its bytes. */
struct hk_fi_arrival {
	struct hk_match_item item; /* tag and source */
	hk_peer peer;              /* HK_PEER_NONE: our own worker */
	uint64_t data, flags;      /* flags: FI_TAGGED or FI_MSG, FI_REMOTE_CQ_DATA */
	uint32_t id;
	bool answer;
	hk_region region; /* of a long message, else HK_REGION_NONE */
	uint64_t len;     /* bytes of the message */
};

/* The queues of one kind of message: untagged, tagged. */
#define HK_FI_MATCHERS 2
struct hk_fi_matcher {
	struct hk_match_list posted, unexpected, claimed;
};

struct hk_fi_ep {
	struct fid_ep fid;
	struct hk_fi_domain *domain;
	uint8_t number;
	bool enabled;
	uint64_t caps;
	uint64_t tx_flags, rx_flags; /* op_flags of calls without flags */
	struct hk_fi_av *av;
	struct hk_fi_cq *tx_cq, *rx_cq;
	bool tx_selective, rx_selective;
	struct hk_fi_cntr *tx_cntr, *rx_cntr, *read_cntr, *write_cntr;
	struct hk_fi_cntr *remote_read_cntr, *remote_write_cntr;
	int *used[HK_FI_BINDINGS]; /* `users` of what is bound to it */
	unsigned uses;
	uint32_t under_way; /* gets into receives, writes and reads */
	size_t min_multi_recv;
	struct hk_fi_matcher matcher[HK_FI_MATCHERS];
};

static inline void hk_fi_lock(struct hk_fi_domain *d)
{
	if (d->safe)
		pthread_mutex_lock(&d->lock);
}

static inline void hk_fi_unlock(struct hk_fi_domain *d)
{
	if (d->safe)
		pthread_mutex_unlock(&d->lock);
}

/* An endpoint of a peer, in the matchers. */
static inline uint32_t hk_fi_source(uint32_t peer, uint8_t number)
{
	return peer << 8 | number;
}

/* ---- fabrics (domain.c) and their event queues (eq.c) ------------------------------------------
 */

/* Counts the objects of a fabric, which does not close while there are some. */
void hk_fi_fabric_count(struct fid_fabric *fabric, int change);
int hk_fi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
		  void *context);
/* May the application sleep? 0, or -FI_EAGAIN: there is an event. */
int hk_fi_eq_trywait(struct fid *eq);

/* ---- domains (domain.c) --------------------------------------------------------------------- */

/* Opens the worker of @d, by the parameters. */
int hk_fi_worker_open(struct hk_fi_domain *d, struct hk_error *err);
void hk_fi_worker_close(struct hk_fi_domain *d);

/* The thread of a domain with FI_PROGRESS_AUTO (auto.c). */
int hk_fi_auto_start(struct hk_fi_domain *d, struct hk_error *err);
void hk_fi_auto_stop(struct hk_fi_domain *d);

/* ---- peers.c */

int hk_fi_peers_open(struct hk_fi_domain *d);
void hk_fi_peers_close(struct hk_fi_domain *d);

/* The place of the worker with @name, which is added if it is new. */
int hk_fi_peer_find(struct hk_fi_domain *d, const struct hk_fi_name *name, uint32_t *index);

/* The place of a worker that has sent before anybody told us its name. HK_FI_NO_PEER: no memory. */
uint32_t hk_fi_peer_of_stranger(struct hk_fi_domain *d, hk_peer peer);
static inline uint32_t hk_fi_peer_of(struct hk_fi_domain *d, hk_peer peer)
{
	return HK_LIKELY(peer < d->by_worker_room && d->by_worker[peer] != HK_FI_NO_PEER)
		       ? d->by_worker[peer]
		       : hk_fi_peer_of_stranger(d, peer);
}

/* Prepares the domain's wires (worker.c). The caller adds their sets. */
void hk_fi_wires_init(struct hk_fi_domain *d, const struct hk_worker_config *cfg);

/* Wires to the processes of this node (node_wires.c): does the domain want them? Opens them;
 * without them the ports carry all. */
bool hk_fi_node_wires_wanted(const struct hk_fi_domain *d);
void hk_fi_node_wires_open(struct hk_fi_domain *d, const struct hk_worker_config *cfg);
void hk_fi_node_wires_close(struct hk_fi_domain *d);
/* Wires wake no sleeper. So a program that wants to sleep has none, unless it has peers already. */
void hk_fi_node_wires_drop(struct hk_fi_domain *d);

/* Looks at the wires that are not up, and for calls. */
void hk_fi_peers_step(struct hk_fi_domain *d);

/* For a send to @p, whose wire is not up: -FI_EAGAIN, or that it will not come. */
int hk_fi_peer_wait(struct hk_fi_domain *d, struct hk_fi_peer *p);

/* Polls; the caller has the lock. */
void hk_fi_progress(struct hk_fi_domain *d);

/* After polls, without the lock: other processes of this core get their turn, if the user wants
 * that and nothing has come for a while. */
void hk_fi_yield(struct hk_fi_domain *d);

/* Makes an object of @d, of @size bytes, which begins with its fid. NULL: no memory. */
void *hk_fi_object_open(struct hk_fi_domain *d, size_t size, size_t fclass, struct fi_ops *ops,
			void *context);
/* Frees it. Returns 0. */
int hk_fi_object_close(struct hk_fi_domain *d, void *object);

/* ---- waiting (wait.c) -------------------------------------------------------------------------
 */

/* FI_WAIT_UNSPEC: a descriptor if the port can wake, else none. Returns 0, or a negative code. */
int hk_fi_wait_open(struct hk_fi_domain *d, struct hk_fi_wait *w, enum fi_wait_obj obj);
void hk_fi_wait_close(struct hk_fi_domain *d, struct hk_fi_wait *w);

/* Waits until something may have changed, at most until @end of hk_clock_ns() or, with UINT64_MAX,
 * without end. False: the time is up. */
bool hk_fi_wait_until(struct hk_fi_domain *d, struct hk_fi_wait *w, uint64_t end);
int hk_fi_wait_control(const struct hk_fi_wait *w, int command, void *arg);
int hk_fi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);

/* The time at which a call with that timeout in milliseconds ends, for hk_fi_wait_until(). */
static inline uint64_t hk_fi_wait_end_of(int timeout)
{
	return timeout < 0 ? UINT64_MAX : hk_clock_ns() + (uint64_t)timeout * HK_MSEC;
}

/* The queue or counter of @w has changed. */
void hk_fi_wait_signal(struct hk_fi_wait *w);
static inline void hk_fi_changed(struct hk_fi_wait *w)
{
	if (HK_UNLIKELY(w->armed) && !w->changed)
		hk_fi_wait_signal(w);
	w->changed = true;
}

/* The application has read it; @more: not all. */
void hk_fi_wait_disarm(struct hk_fi_domain *d, struct hk_fi_wait *w);
static inline void hk_fi_wait_end(struct hk_fi_domain *d, struct hk_fi_wait *w, bool more)
{
	w->changed = more;
	if (HK_UNLIKELY(w->armed))
		hk_fi_wait_disarm(d, w);
}

/* ---- queues (cq.c, cntr.c, av.c) ------------------------------------------------------------- */

int hk_fi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
		  void *context);
int hk_fi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
		    void *context);
int hk_fi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
		  void *context);

/* A place for the next event of @cq, which the caller fills in whole; NULL: no memory. */
struct hk_fi_event *hk_fi_cq_grow(struct hk_fi_cq *cq);
static inline struct hk_fi_event *hk_fi_cq_next(struct hk_fi_cq *cq)
{
	if (HK_UNLIKELY(cq->tail - cq->head == cq->room) && !hk_fi_cq_grow(cq))
		return NULL;
	return &cq->ring[cq->tail++ & (cq->room - 1)];
}

/* Reports the end of an operation to the counter that there is, and returns the event that the
 * caller fills in whole. NULL: there is no queue, or it takes no success that is not @wanted. */
static inline struct hk_fi_event *hk_fi_report(struct hk_fi_cq *cq, struct hk_fi_cntr *c,
					       bool wanted, int error)
{
	if (HK_UNLIKELY(c != NULL)) {
		error ? c->errors++ : c->value++;
		hk_fi_changed(&c->wait);
	}
	if (!cq || !(wanted || error))
		return NULL;
	hk_fi_changed(&cq->wait);
	return hk_fi_cq_next(cq);
}

static inline const struct hk_fi_address *hk_fi_find(const struct hk_fi_av *av, fi_addr_t at)
{
	return HK_LIKELY(at < av->count) && HK_LIKELY(av->address[at].peer != HK_FI_NO_PEER)
		       ? &av->address[at]
		       : NULL;
}
/* The address of that endpoint, or FI_ADDR_NOTAVAIL. */
fi_addr_t hk_fi_av_reverse(const struct hk_fi_av *av, uint32_t source);

/* ---- endpoints, memory, and messages --------------------------------------------------------- */

int hk_fi_endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			void *context);
static inline struct hk_fi_ep *hk_fi_ep_of(struct fid_ep *fid)
{
	return container_of(fid, struct hk_fi_ep, fid);
}
/* The endpoint for which a peer's message is, or NULL. */
static inline struct hk_fi_ep *hk_fi_ep_at(const struct hk_fi_domain *d, uint8_t number)
{
	return HK_LIKELY(number < HK_FI_ENDPOINTS) ? d->ep[number] : NULL;
}

extern struct fi_ops_mr hk_fi_mr_ops; /* mr.c */
extern struct fi_ops_rma hk_fi_rma_ops;
extern struct fi_ops_atomic hk_fi_atomic_ops;
extern struct fi_ops_msg hk_fi_msg_ops;
extern struct fi_ops_tagged hk_fi_tagged_ops; /* these four: calls.c */

/* The @len bytes at @addr, as peers say it, of our region with @key (mr.c). NULL: there is no such
 * region, it is shorter, or it does not give all of @rights. */
char *hk_fi_mr_at(const struct hk_fi_domain *d, uint64_t key, uint64_t addr, size_t len,
		  unsigned rights);
/* Counts an operation of an endpoint on the memory with @key, by way of our endpoint @number
 * (mr.c). @changes: the memory, maybe. */
void hk_fi_count(struct hk_fi_domain *d, uint8_t number, uint64_t key, bool reads, bool changes);

/* Of a call by which an application injects: its success has no completion. */
#define HK_FI_SILENT (UINT64_C(1) << 60)

/* Sends or receives a message (send.c, receive.c); writes or reads a peer's memory (rma.c). @flags:
 * FI_TAGGED or FI_MSG, or FI_WRITE or FI_READ, and those of the call. */
ssize_t hk_fi_send(struct fid_ep *fid, const struct fi_msg_tagged *m, uint64_t flags);
ssize_t hk_fi_receive(struct fid_ep *fid, const struct fi_msg_tagged *m, uint64_t flags);
ssize_t hk_fi_rma(struct fid_ep *fid, const struct fi_msg_rma *m, uint64_t flags);

/* The same for atomic operations (atomic.c). Flags: FI_READ with FI_FETCH_ATOMIC or
 * FI_COMPARE_ATOMIC, or FI_WRITE, and those of the call. */
ssize_t hk_fi_atomic(struct fid_ep *fid, const struct fi_msg_atomic *m,
		     const struct fi_ioc *compare, size_t compares, const struct fi_ioc *result,
		     size_t results, uint64_t flags);
/* How many elements does one operation take? @kind: FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC or 0.
 * Returns 0, or -FI_EOPNOTSUPP if there is no such operation. */
int hk_fi_atomic_query(const struct hk_fi_domain *d, uint64_t kind, unsigned type, unsigned op,
		       size_t *count);
void hk_fi_on_atomic(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned count);

ssize_t hk_fi_cancel(fid_t fid, void *context);

/* A message for @ep has arrived: its bytes are in the pieces, unless it is long. Returns 0 or
 * -ENOMEM; then it is lost. */
int hk_fi_arrived(struct hk_fi_ep *ep, const struct hk_fi_arrival *a, const struct hk_iov *piece,
		  unsigned pieces);
/* A write to the endpoint @number is complete, and has data for it. */
void hk_fi_written(struct hk_fi_domain *d, uint8_t number, uint32_t source, uint64_t kind,
		   uint64_t data);

/* Ends receives from a peer that is lost, or from all: HK_FI_NO_PEER. */
void hk_fi_receive_lost(struct hk_fi_domain *d, uint32_t peer);
/* The queues of @ep; frees what it has posted and stored. */
void hk_fi_receive_open(struct hk_fi_ep *ep);
void hk_fi_receive_close(struct hk_fi_ep *ep);

/* Sends @p and the @len bytes of @iov in as many frames as they need, at most HK_FRAGS_MAX. Returns
 * as hk_worker_send_short() (send.c). */
int hk_fi_transmit(struct hk_fi_domain *d, hk_peer peer, uint8_t am, const struct hk_fi_prefix *p,
		   const struct iovec *iov, size_t count, size_t len);

/* The active messages of a domain (arrive.c). */
void hk_fi_handlers(struct hk_fi_domain *d);
/* Tells the sender of @a, if it waits for that, how its message ended: 0 or one of FI_E…. */
void hk_fi_answer(struct hk_fi_domain *d, const struct hk_fi_arrival *a, int error);
/* Sends a message of one frame to a peer. It waits if there is no buffer, so it is not refused. */
void hk_fi_tell(struct hk_fi_domain *d, hk_peer peer, uint8_t am, const struct hk_fi_prefix *p,
		const void *more, size_t len);
/* Sends those that wait. */
void hk_fi_tell_waiting(struct hk_fi_domain *d);
void hk_fi_tell_close(struct hk_fi_domain *d);
/* Operations with this peer, or with all (HK_PEER_NONE), end (operation.c). worker.c calls it. */
void hk_fi_send_lost(struct hk_fi_domain *d, hk_peer peer);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/btl_hikyaku.h: the Open MPI byte transfer layer (BTL) over a worker.
 *
 * ob1, Open MPI's point-to-point layer, matches messages and calls a BTL to move bytes. This BTL
 * offers send, get, put and atomic operations. Eager messages have one to sixteen frames. The
 * receiver gets long contiguous messages from the sender's buffer. Other long messages arrive as
 * fragments of one frame each; ob1 unpacks them from the receive buffer into the user's buffer.
 *
 *   component.c   open, init, modex out, progress, close
 *   params.c      MCA parameters and performance variables
 *   modex.c       checks on the modex of other ranks
 *   module.c      the start and the end
 *   endpoints.c   modex in, endpoints, lost peers
 *   wires.c       the own port that reaches each peer
 *   mode.c        the modes with hikyakud
 *   send.c        descriptors and the four ways to send
 *   recv.c        from the worker to ob1's callbacks
 *   rma.c         registration and get
 *   stats.c       the counters of this rank, for `hikyaku stats`
 *   tag.c         tags: destination addresses that name job, MPI function and ranks
 *   service.c     the worker for other libraries of this process (hikyaku/service.h)
 *   mcast.c       multicasts, for Bcast (coll/)
 *   onesided.c    put and atomic operations
 *   rpc.c         procedures that ranks call of each other, for osc/
 *   same_node.c        the same between ranks of one node (same_node.h)
 *
 * The interface is that of opal/mca/btl/btl.h of Open MPI 4.1 and 5.0 (openmpi/version.h), which
 * documents everything that this file does not.
 *
 * Threads: with MPI_THREAD_MULTIPLE every entry takes one recursive lock (handlers re-enter);
 * without, none. A progress call that finds the lock taken returns at once.
 */
#ifndef HK_BTL_HIKYAKU_H
#define HK_BTL_HIKYAKU_H

#include "opal_config.h"
#include "opal/class/opal_free_list.h"
#include "opal/class/opal_list.h"
#include "opal/mca/btl/btl.h"
#include "opal/mca/btl/base/base.h"
#include "opal/util/proc.h"

#include "hikyaku/service.h"
#include "worker/atomic.h"
#include "worker/idle.h"
#include "worker/ports.h"
#include "worker/private.h"
#include "hostd/hosted.h"
#include "openmpi/btl/modex.h"
#include "openmpi/btl/same_node.h"
#include "port/port.h"
#include "wire/tag.h"
#include "worker/wires.h"

#include <pthread.h>

struct mca_btl_base_endpoint_t;
typedef struct mca_btl_base_endpoint_t mca_btl_base_endpoint_t;
typedef mca_btl_base_endpoint_t hk_endpoint;

struct mca_btl_base_endpoint_t {
	opal_list_item_t super;
	opal_proc_t *proc;
	hk_peer peer;
	bool same_node; /* on our node, for one-sided operations alone: not a peer of the worker */
	bool self;      /* this process, for one-sided operations alone: not a peer of the worker */
	struct hk_same_node_name same_node_name;
	opal_list_t pending; /* sent descriptors with a pending completion: see send.c */
	bool has_pending;    /* in the module's list of endpoints with pending completions */
	hk_endpoint *next_pending;
};
OBJ_CLASS_DECLARATION(mca_btl_base_endpoint_t);

/* A process to add: its modex, and the worker's txqs that reach it. */
struct hk_candidate {
	opal_proc_t *proc;
	size_t index; /* in the caller's arrays */
	struct hk_modex m;
	int txq;          /* -1: the process is unreachable */
	int bulk;         /* txq for bulk; -1: the same */
	unsigned first;   /* the port of the process that `txq` leads to */
	unsigned further; /* further paths, equivalent to `txq` */
	struct hk_path_addr path[HK_PATHS_MAX - 1];
};

struct hk_btl_params {
	char *port;                    /* port spec, or several; NULL, "" or "auto": port/auto.h */
	char *if_include, *if_exclude; /* for auto */
	char *pool;                    /* pop spec of its receive buffers; NULL: the port's own */
	char *mode;                    /* polling mode: inline, hybrid, split, daemon, auto */
	char *daemon;                  /* name of the administrator's hikyakud to use */
	char *daemon_program;
	char *huge_dir;
	char *eal_args;     /* more arguments for DPDK */
	unsigned memory_mb; /* for buffers */
	bool hugepages;
	unsigned frame_max;    /* 0: what the port carries */
	unsigned eager_frames; /* frames of the longest eager message */
	unsigned tx_buffers, rx_buffers, rx_backlog, backlog_kb;
	unsigned eager_queues;
	unsigned max_peers;
	unsigned window, window_bytes;
	unsigned stripe_min; /* bytes of the shortest transfer that is striped over several ports */
	unsigned key;        /* 0: made from the job's id */
	char *protection;    /* of frames: auto, off, crc, auth or seal */
	unsigned tag;        /* the job's number in tags; 0: none */
	char *registrar;     /* HOST:PORT (sdn/registrar/registrar.h) */
	unsigned peer_timeout_ms, keepalive_ms;
	unsigned min_rto_us, max_rto_us, ack_delay_us, ack_every, target_delay_us, wakeup_after_us;
	unsigned link_mbps;
	unsigned connect_timeout_ms, linger_ms;
	bool progress_thread;
	unsigned progress_idle_us, progress_period_us;
	bool capture;   /* permit captures of this rank's frames */
	bool same_node; /* also serve ranks of this node */
	bool announce;  /* say at the job's start by what its ranks talk */
	int verbose;
};

struct hk_btl_component {
	mca_btl_base_component_3_0_0_t super;
	struct hk_btl_params param;
	int output; /* opal_output stream */
};

/* In by_peer: ob1 has deleted the endpoint and expects no further callbacks for it. */
#define HK_DELETED ((hk_endpoint *)-1)

struct hk_btl_module {
	mca_btl_base_module_t super;
	struct hk_worker *worker;
	bool threads; /* MPI_THREAD_MULTIPLE: lock */
	pthread_mutex_t lock;
	struct hk_hosted *daemon; /* by this node's hikyakud; NULL: mode inline */
	bool same_node;           /* ranks of our node reach our memory: same_node.c */
	bool tag;                 /* destination addresses are tags */
	bool shares_port;         /* ranks of this node use the same one, and claim their frames */
	bool registered;          /* the network's controller knows our address */
	struct hk_ports ports;    /* with hikyakud one */
	struct hk_modex self;     /* what we have published */
	struct hk_port *port[HK_PATHS_MAX]; /* the worker's; NULL with hikyakud, and for sets */
	struct rte_mempool *rx_pool;        /* of a wire set: that of the first wire */
	struct hk_wires wires;
	uint32_t key, endpoint, epoch;
	uint8_t protection;                   /* enum hk_protection of all frames */
	size_t payload;                       /* bytes of one frame */
	opal_free_list_t frags, long_frags;   /* descriptors: see send.c */
	opal_free_list_t pieces;              /* parts of messages of several frames: see recv.c */
	opal_free_list_t registrations, gets; /* see rma.c */
	opal_free_list_t onesided;            /* see onesided.c */
	opal_list_t endpoints;
	hk_endpoint **by_peer; /* [max_peers] */
	hk_endpoint *pending;  /* list of endpoints with pending completions */
	mca_btl_base_module_error_cb_fn_t error_cb;
};

extern struct hk_btl_component mca_btl_hikyaku_component;
extern struct hk_btl_module hk_btl;
extern const struct hk_service hk_btl_service;

static inline void hk_btl_lock(void)
{
	if (hk_btl.threads)
		pthread_mutex_lock(&hk_btl.lock);
}

static inline void hk_btl_unlock(void)
{
	if (hk_btl.threads)
		pthread_mutex_unlock(&hk_btl.lock);
}

/* Prints an error that the user must see: "hikyaku: rank 3 on node1: …". */
void hk_btl_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Adds to @text, which may be an error of libhikyaku, the MCA parameters of the fields of its
 * configuration that it names. (params.c) */
void hk_btl_add_parameters(char *text, size_t size);

/* ---- announce.c */

/* Rank 0 prints by what the job's ranks talk, unless btl_hikyaku_announce is 0. Called when Open
 * MPI adds processes, since all ranks have started their BTLs by then: a rank that cannot ends the
 * job before. Only the first call prints. */
void hk_btl_announce(void);

/* Rank 0 names each btl_hikyaku_… of its environment that no component knows, since Open MPI
 * ignores it. Call it when all parameters are registered. */
void hk_btl_announce_unknown_parameters(void);

/* The ranks of this rank's job. */
uint32_t hk_btl_job_size(void);
bool hk_btl_job_is_on_one_node(void);

/* Prints @text, the reason why this rank does not use Hikyaku. If no other BTL reaches the other
 * nodes, it ends the job. Else one rank of each node prints it again when the process ends. */
void hk_btl_announce_failure(const char *text);

/* ---- component.c */
int hk_btl_publish(struct hk_port *const *port);

/* ---- params.c */
int hk_btl_register(void);
void hk_btl_counters_register(void);
void hk_btl_print_counters(void);
void hk_btl_counters_register(void);

/* ---- port_list.c */
bool hk_btl_port_is_auto(void);
/* Fills hk_btl.ports. */
int hk_btl_port_list_read(struct hk_error *err);

/* ---- module.c */
int hk_btl_module_init(struct hk_error *err);

/* ---- endpoints.c */
uint32_t hk_btl_endpoint_of(opal_process_name_t name);
#define HK_BTL_RANK_MASK 0xfffffu

/* A frame came from this endpoint (hk_stranger_fn). */
bool hk_btl_stranger(void *arg, uint32_t endpoint, uint32_t epoch);

/* Reads the modex of @proc. False if it has none, or an unusable one. */
bool hk_btl_read_modex(const opal_proc_t *proc, struct hk_modex *m);
int hk_btl_add_procs(struct mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
		     hk_endpoint **endpoints, opal_bitmap_t *reachable);
int hk_btl_del_procs(struct mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
		     hk_endpoint **endpoints);
void hk_btl_lost(void *arg, hk_peer peer, enum hk_disconnect_reason why, const char *text);
/* Translates @rc, a worker call's negative errno, for ob1. The caller holds the lock. If the peer
 * is lost, the reason is printed first, which ends the job: ob1 would end it with an error that
 * names none. */
int hk_btl_refused(int rc);

/* ---- wires.c */
void hk_btl_open_txqs(struct hk_candidate *list, size_t n);

/* ---- mode.c */
/* Tells a user who wants to know more. */
void hk_btl_note(const char *text);
int hk_btl_mode_choose(struct hk_error *err);
uint32_t hk_btl_mode_current(void); /* enum hk_ctl_mode; 0: inline */
void hk_btl_mode_txqs(struct hk_candidate *list, size_t n);
void hk_btl_mode_unshare(void);
void hk_btl_mode_leave(void);

/* ---- stats.c: after the tap is open; before the worker is closed */
void hk_btl_stats_start(void);
void hk_btl_stats_stop(void);

/* ---- tag.c */
int hk_btl_tag_init(const uint8_t mac[6], struct hk_error *err);
void hk_btl_tag_register(const uint8_t *mac);
uint32_t hk_btl_known_job(void);
void hk_btl_tag_peer(const hk_endpoint *ep, const struct hk_modex *m);
void hk_btl_tag_note(hk_endpoint *ep, mca_btl_base_tag_t am, const void *header);

/* pool.c: receive buffers in memory that the user chose. Open it before the ports, and close it
 * after them. */
int hk_btl_pool_open(struct hk_error *err);
void hk_btl_pool_close(void);

/* ---- send.c */
void hk_btl_send_init(void);
void hk_btl_send_fini(void);
void hk_btl_finish_pending(bool all);
void hk_btl_drop_pending(hk_endpoint *ep);
mca_btl_base_descriptor_t *hk_btl_alloc(struct mca_btl_base_module_t *btl, hk_endpoint *ep,
					uint8_t order, size_t size, uint32_t flags);
int hk_btl_free(struct mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *des);
mca_btl_base_descriptor_t *hk_btl_prepare_src(struct mca_btl_base_module_t *btl, hk_endpoint *ep,
					      struct opal_convertor_t *convertor, uint8_t order,
					      size_t reserve, size_t *size, uint32_t flags);
int hk_btl_send(struct mca_btl_base_module_t *btl, hk_endpoint *ep, mca_btl_base_descriptor_t *des,
		mca_btl_base_tag_t tag);
int hk_btl_sendi(struct mca_btl_base_module_t *btl, hk_endpoint *ep,
		 struct opal_convertor_t *convertor, void *header, size_t header_size,
		 size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
		 mca_btl_base_descriptor_t **descriptor);

/* ---- rma.c */
/* The handle by which a peer reaches registered memory. It travels in the headers of ob1 and
 * osc/rdma. A remote address minus `base` is the offset in the region. The owner checks the
 * region's number and the offset. */
struct mca_btl_base_registration_handle_t {
	uint64_t base;
	uint32_t region;
	uint32_t zero;
};
_Static_assert(sizeof(struct mca_btl_base_registration_handle_t) <= MCA_BTL_REG_HANDLE_MAX_SIZE,
	       "ob1 keeps a copy of this size");

void hk_btl_rma_init(void);
void hk_btl_rma_fini(void);
struct mca_btl_base_registration_handle_t *hk_btl_register_mem(struct mca_btl_base_module_t *btl,
							       hk_endpoint *ep, void *base,
							       size_t size, uint32_t flags);
int hk_btl_deregister_mem(struct mca_btl_base_module_t *btl,
			  struct mca_btl_base_registration_handle_t *handle);
int hk_btl_get(struct mca_btl_base_module_t *btl, hk_endpoint *ep, void *to, uint64_t from,
	       struct mca_btl_base_registration_handle_t *local,
	       struct mca_btl_base_registration_handle_t *remote, size_t size, int flags, int order,
	       mca_btl_base_rdma_completion_fn_t done, void *context, void *data);

/* ---- onesided.c */
/* True if the address is in our own memory, or in memory shared with us (then there is no handle).
 */
static inline bool hk_btl_is_here(const hk_endpoint *ep,
				  const struct mca_btl_base_registration_handle_t *remote)
{
	return !ep || !remote || ep->self;
}

/* Prints that the rank of @ep has done @what, and ends the job: osc components take every end of an
 * operation for success. */
void hk_btl_onesided_failed(const hk_endpoint *ep, const char *what);
#define HK_BTL_DIED "of this node has died"

void hk_btl_onesided_init(void);
void hk_btl_onesided_fini(void);
int hk_btl_put(struct mca_btl_base_module_t *btl, hk_endpoint *ep, void *from, uint64_t to,
	       struct mca_btl_base_registration_handle_t *local,
	       struct mca_btl_base_registration_handle_t *remote, size_t size, int flags, int order,
	       mca_btl_base_rdma_completion_fn_t done, void *context, void *data);
int hk_btl_atomic_op(struct mca_btl_base_module_t *btl, hk_endpoint *ep, uint64_t at,
		     struct mca_btl_base_registration_handle_t *remote, mca_btl_base_atomic_op_t op,
		     uint64_t operand, int flags, int order, mca_btl_base_rdma_completion_fn_t done,
		     void *context, void *data);
int hk_btl_atomic_fop(struct mca_btl_base_module_t *btl, hk_endpoint *ep, void *local, uint64_t at,
		      struct mca_btl_base_registration_handle_t *handle,
		      struct mca_btl_base_registration_handle_t *remote,
		      mca_btl_base_atomic_op_t op, uint64_t operand, int flags, int order,
		      mca_btl_base_rdma_completion_fn_t done, void *context, void *data);
int hk_btl_atomic_cswap(struct mca_btl_base_module_t *btl, hk_endpoint *ep, void *local,
			uint64_t at, struct mca_btl_base_registration_handle_t *handle,
			struct mca_btl_base_registration_handle_t *remote, uint64_t compare,
			uint64_t value, int flags, int order,
			mca_btl_base_rdma_completion_fn_t done, void *context, void *data);

int hk_btl_get_same_node(hk_endpoint *ep, void *to, uint64_t from,
			 struct mca_btl_base_registration_handle_t *local,
			 struct mca_btl_base_registration_handle_t *remote, size_t size,
			 mca_btl_base_rdma_completion_fn_t done, void *context, void *data);

/* ---- recv.c */
void hk_btl_recv_init(struct hk_worker *f);
void hk_btl_recv_fini(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/btl_hikyaku.h: the Open MPI byte-transfer layer (BTL) over the fabric.
 *
 * ob1, Open MPI's point-to-point layer, matches messages and calls a BTL to move bytes. This one
 * offers send, get, put and atomic operations: eager messages are one to sixteen frames; long contiguous messages the
 * receiver gets from the sender's buffer; other long messages come as fragments of one frame each,
 * which ob1 unpacks from the receive buffer to their place in the user's buffer.
 *
 *   component.c   open, init, modex out, progress, close
 *   params.c      MCA parameters and performance variables
 *   modex.c       what of another's modex is believed
 *   module.c      the start and the end
 *   endpoints.c   modex in, endpoints, lost peers
 *   wires.c       through which port of ours each peer is reached
 *   host.c        the polling process, where one is used
 *   send.c        descriptors and the four ways to send
 *   recv.c        from the fabric to ob1's callbacks
 *   rma.c         registration and get
 *   stats.c       what this rank counts, for `hikyaku stats`
 *   tag.c         tags: destination addresses that tell what a frame is part of
 *   service.c     the fabric for others of this process (service.h)
 *   mcast.c       multicasts, for Bcast (coll/)
 *   onesided.c    put and atomic operations
 *   near.c        the same between ranks of one node (near.h)
 *   idle.c        when a rank that waits sleeps (idle.h)
 *   relock.c      a lock that osc/rdma would wait for for ever
 *
 * The interface is that of opal/mca/btl/btl.h of Open MPI 4.1; where this file is silent, that
 * one speaks.
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

#include "fabric/atomic.h"
#include "host/client.h"
#include "mpi/modex.h"
#include "mpi/near.h"
#include "port/port.h"
#include "wire/tag.h"

#include <pthread.h>

struct mca_btl_base_endpoint_t;
typedef struct mca_btl_base_endpoint_t mca_btl_base_endpoint_t;
typedef mca_btl_base_endpoint_t hk_endpoint;

struct mca_btl_base_endpoint_t {
	opal_list_item_t super;
	opal_proc_t *proc;
	hk_peer peer;
	bool near; /* of our node, for one-sided operations alone: no peer of the fabric's */
	bool self; /* … ourselves: likewise */
	struct hk_near_name near_name;
	opal_list_t owed; /* descriptors sent whose callback waits: see send.c */
	bool owing;       /* in the module's list of endpoints with such */
	hk_endpoint *next_owing;
	struct {
		uint64_t at; /* address there of a lock that we hold; 0: none */
		bool looked;
	} relock; /* see relock.c */
};
OBJ_CLASS_DECLARATION(mca_btl_base_endpoint_t);

/* One process being added: what it published, and by which of the fabric's ports it is reached. */
struct hk_candidate {
	opal_proc_t *proc;
	size_t index; /* in the caller's arrays */
	struct hk_modex m;
	struct hk_port *wire[HK_RAILS_MAX]; /* of a wire set, opened for it */
	int lane;                           /* -1: by none */
	int bulk;                           /* … and the one for bulk; -1: the same */
	unsigned first;                     /* its port that `lane` leads to */
	unsigned more;                      /* further rails, all as good as `lane` */
	struct hk_rail_addr rail[HK_RAILS_MAX - 1];
};

struct hk_btl_params {
	char *port;   /* port spec, or several */
	char *pool;   /* pop spec of its receive buffers; NULL: the port's own */
	char *host;   /* who polls: inline, hybrid, split, daemon, auto */
	char *daemon; /* name of the administrator's hikyakud to use */
	char *daemon_program;
	char *huge_dir;
	char *eal_args;     /* more arguments for DPDK */
	unsigned memory_mb; /* for buffers */
	bool hugepages;
	unsigned frame_max;    /* 0: what the port carries */
	unsigned eager_frames; /* frames of the longest eager message */
	unsigned tx_buffers, rx_buffers, rx_keep, keep_kb;
	unsigned eager_queues;
	unsigned max_peers;
	unsigned window, window_bytes;
	unsigned stripe_min; /* bytes of the shortest transfer that is spread over several ports */
	unsigned key;        /* 0: made from the job's id */
	bool crc;
	unsigned tag;    /* the job's number in tags; 0: none */
	char *registrar; /* who is told of the rank's address, and gives groups (host/registrar.h) */
	unsigned peer_timeout_ms, keepalive_ms;
	unsigned min_rto_us, max_rto_us, ack_delay_us, ack_every, target_delay_us, ring_after_us;
	unsigned connect_timeout_ms, linger_ms;
	bool async;
	unsigned async_idle_us, async_period_us;
	bool capture;   /* let who may capture the frames */
	bool same_node; /* also serve ranks of this node */
	int verbose;
};

struct hk_btl_component {
	mca_btl_base_component_3_0_0_t super;
	struct hk_btl_params param;
	int output; /* opal_output stream */
};

/* In by_peer: ob1 has deleted it, and does not want to hear of it any more. */
#define HK_DELETED ((hk_endpoint *)-1)

struct hk_btl_module {
	mca_btl_base_module_t super;
	struct hk_fabric *fabric;
	bool threads; /* MPI_THREAD_MULTIPLE: lock */
	pthread_mutex_t lock;
	struct hk_host *host; /* the polling process of this node; NULL: the rank polls alone */
	bool near;            /* ranks of our node reach our memory: near.c */
	bool wire_set;
	bool tag;                                  /* destination addresses are tags … */
	bool registered;                           /* … and the network's controller knows ours */
	char rail[HK_RAILS_MAX][HK_PORT_SPEC_MAX]; /* the ports, or wire sets … */
	unsigned rails;                            /* … how many; with hikyakud 1 */
	struct rte_mempool *rx_pool;               /* of a wire set; the first wire's */
	struct hk_port *rx_owner;                  /* that wire */
	struct hk_port *pool_owner;                /* … if that wire failed and is in no fabric */
	uint32_t key, endpoint, epoch;
	size_t payload;                       /* bytes of one frame */
	opal_free_list_t frags, long_frags;   /* descriptors: see send.c */
	opal_free_list_t pieces;              /* for messages of several frames: see recv.c */
	opal_free_list_t registrations, gets; /* see rma.c */
	opal_free_list_t onesided;            /* see onesided.c */
	opal_list_t endpoints;
	hk_endpoint **by_peer; /* [max_peers] */
	hk_endpoint *owing;    /* endpoints that owe callbacks */
	mca_btl_base_module_error_cb_fn_t error_cb;
};

extern struct hk_btl_component mca_btl_hikyaku_component;
extern struct hk_btl_module hk_btl;

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

/* An error a user must see: "hikyaku: rank 3 on node1: …". */
void hk_btl_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- component.c */
int hk_btl_publish(struct hk_port *const *port);

/* ---- params.c */
int hk_btl_register(void);
void hk_btl_print_counters(void);

/* ---- module.c */
int hk_btl_module_init(struct hk_error *err);

/* ---- endpoints.c */
uint32_t hk_btl_endpoint_of(opal_process_name_t name);
/* Reads what @proc published. False if it published nothing, or nothing we can use. */
bool hk_btl_read_modex(const opal_proc_t *proc, struct hk_modex *m);
int hk_btl_add_procs(struct mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
		     hk_endpoint **endpoints, opal_bitmap_t *reachable);
int hk_btl_del_procs(struct mca_btl_base_module_t *btl, size_t nprocs, opal_proc_t **procs,
		     hk_endpoint **endpoints);
void hk_btl_lost(void *arg, hk_peer peer, enum hk_verdict why, const char *text);

/* ---- wires.c */
void hk_btl_open_lanes(struct hk_candidate *list, size_t n);

/* ---- host.c */
int hk_btl_host_choose(struct hk_error *err);
uint32_t hk_btl_host_mode(void); /* enum hk_ctl_mode; 0: inline */
int hk_btl_host_join(struct hk_error *err);
int hk_btl_host_memory(struct hk_fabric_config *cfg, struct hk_error *err);
int hk_btl_host_share(struct hk_error *err);
void hk_btl_host_lanes(struct hk_candidate *list, size_t n);
void hk_btl_host_unshare(void);
void hk_btl_host_leave(void);

/* ---- stats.c: after the tap is open; before the fabric is closed */
void hk_btl_stats_start(void);
void hk_btl_stats_stop(void);

/* ---- tag.c */
int hk_btl_tag_init(const uint8_t mac[6], struct hk_error *err);
void hk_btl_tag_register(const uint8_t *mac);
uint32_t hk_btl_known_job(void);
void hk_btl_tag_peer(const hk_endpoint *ep, const struct hk_modex *m);
void hk_btl_tag_note(hk_endpoint *ep, mca_btl_base_tag_t am, const void *header);

/* pool.c: receive buffers in memory of the user's choice. Opened before the ports, closed after them. */
int hk_btl_pool_open(struct hk_error *err);
void hk_btl_pool_close(void);

/* ---- send.c */
void hk_btl_send_init(void);
void hk_btl_send_fini(void);
void hk_btl_pay_owed(bool all);
void hk_btl_disown(hk_endpoint *ep);
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
/* What a peer needs to reach registered memory. It travels in the headers of ob1 and osc/rdma. The address in
 * it only says how far into the region a remote address lies; what counts is the id, which the owner checks. */
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
/* Is the address one of ours? Of ourselves, or of memory that is shared with us: then there is no handle. */
static inline bool hk_btl_is_here(const hk_endpoint *ep,
				  const struct mca_btl_base_registration_handle_t *remote)
{
	return !ep || !remote || ep->self;
}

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

int hk_btl_get_near(hk_endpoint *ep, void *to, uint64_t from,
		    struct mca_btl_base_registration_handle_t *local,
		    struct mca_btl_base_registration_handle_t *remote, size_t size,
		    mca_btl_base_rdma_completion_fn_t done, void *context, void *data);

/* ---- relock.c */
void hk_btl_relock_got(hk_endpoint *ep, uint64_t at, size_t size);
uint64_t hk_btl_relock_seen(hk_endpoint *ep, uint64_t at, const struct hk_wire_atomic *w,
			    uint64_t old);

/* ---- recv.c */
void hk_btl_recv_init(struct hk_fabric *f);
void hk_btl_recv_fini(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/osc/osc_hikyaku.h: MPI's one-sided communication over a worker.
 *
 * Open MPI's osc/rdma makes it of puts, gets and atomic operations alone. A rank that wants a lock
 * then asks for it over and over, and a lock that several want has no order. Here the owner of a
 * window's memory queues requests for its lock and grants each one once; and it carries out
 * accumulations itself. Both are calls of a procedure (openmpi/btl/rpc.h), which the worker runs
 * also while the owner computes. Long contiguous data goes by puts and gets.
 *
 *   component.c   what Open MPI loads
 *   window.c      windows: begin and end, attached memory
 *   target.c      a window as its owner and the ranks of its node see it
 *   data.c        calls that write or read its memory
 *   state.c       its lock and counters, in memory that these share
 *   locks.c       the order of locks
 *   epochs.c      lock, unlock, flush, fence, post, start, complete, wait
 *   calls.c       calls of ours in flight
 *   transfer.c    put, get, accumulate and their relatives
 *   runs.c        the memory that a datatype names
 *   request.c     requests of rput and its relatives
 *
 * The interface is ompi/mca/osc/osc.h, the same in Open MPI 4.1 and 5.0.
 *
 * Threads: with MPI_THREAD_MULTIPLE any thread calls. Counters of a window are atomic, and each
 * call has its own memory.
 */
#ifndef HK_OSC_HIKYAKU_H
#define HK_OSC_HIKYAKU_H

#include "openmpi/osc/target.h"

#include "ompi_config.h"
#include "ompi/communicator/communicator.h"
#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/osc/base/base.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/op/op.h"
#include "ompi/request/request.h"
#include "ompi/win/win.h"

#include "opal/class/opal_free_list.h"
#include "opal/mca/btl/btl.h"

/* How this rank accesses the window (w), or the memory of one rank (r). */
enum hk_osc_access {
	HK_OSC_NONE,
	HK_OSC_FENCE,    /* w: between two fences */
	HK_OSC_START,    /* w: from start to complete; r: it belongs to the group */
	HK_OSC_LOCK_ALL, /* w: from lock_all to unlock_all */
	HK_OSC_LOCKED,   /* r: from lock to unlock */
};

/* Another rank's lock. The first call for data asks for it. So an epoch takes one round trip. A
 * state in which this rank wants the lock is what that call says. */
enum hk_osc_lock_state {
	HK_OSC_FREE = HK_OSC_NO_LOCK, /* also with MPI_MODE_NOCHECK */
	HK_OSC_WANTS_SHARED = HK_OSC_SHARED,
	HK_OSC_WANTS_EXCLUSIVE = HK_OSC_EXCLUSIVE,
	HK_OSC_ASKED, /* a call in flight asks for it */
	HK_OSC_HELD,
};

/* Another rank's memory, as this rank knows it. */
struct hk_osc_peer {
	struct mca_btl_base_endpoint_t *ep; /* NULL: this rank itself */
	struct hk_osc_target *here; /* this rank's own, or one of this node; NULL: calls alone */
	uint64_t size;
	uint32_t disp_unit;
	hk_region procedure;
	mca_btl_base_registration_handle_t *memory; /* for long puts and gets; NULL: none */
	uint64_t base;                              /* address there */
	_Atomic uint32_t in_flight;                 /* operations */
	_Atomic uint32_t gets;                      /* of these, that read by the BTL's get */
	uint8_t access;                             /* enum hk_osc_access */
	_Atomic uint8_t lock;                       /* enum hk_osc_lock_state */
};

struct hk_osc_module {
	ompi_osc_base_module_t super;
	const struct hk_btl_rpc *rpc;
	ompi_communicator_t *comm; /* our own */
	int rank, size;
	int flavor;
	struct mca_btl_base_registration_handle_t *registered;
	char *handles;                            /* of all ranks */
	struct mca_btl_base_endpoint_t **callers; /* of all ranks */
	struct hk_osc_peer *peer;
	struct hk_osc_target target;
	_Atomic uint32_t calls; /* of ours in flight */
	_Atomic int error;      /* of an operation, reported by the next synchronization */
	enum hk_osc_access access;
	ompi_group_t *started, *exposed; /* by start and post, or NULL */
};

struct hk_osc_component {
	ompi_osc_base_component_t super;
	int priority;
	bool lock_first; /* MPI_Win_lock waits for the lock */
};

extern struct hk_osc_component mca_osc_hikyaku_component;
extern const ompi_osc_base_module_t hk_osc_functions;

static inline struct hk_osc_module *hk_osc_of(struct ompi_win_t *win)
{
	return (struct hk_osc_module *)win->w_osc_module;
}

/* ---- window.c */
int hk_osc_open(struct ompi_win_t *win, void **base, size_t size, int disp_unit,
		struct ompi_communicator_t *comm, int flavor, const struct hk_btl_rpc *rpc);
int hk_osc_win_free(struct ompi_win_t *win);
int hk_osc_win_attach(struct ompi_win_t *win, void *base, size_t size);
int hk_osc_win_detach(struct ompi_win_t *win, const void *base);
int hk_osc_shared_query(struct ompi_win_t *win, int rank, size_t *size, int *disp_unit, void *base);
/* The endpoint of rank @rank of @comm by the module of @rpc. NULL: it has none. */
struct mca_btl_base_endpoint_t *hk_osc_endpoint(const struct hk_btl_rpc *rpc,
						ompi_communicator_t *comm, int rank);

/* ---- calls.c */

/* Memory of a call that receives a result. */
struct hk_osc_local {
	char *at;
	size_t len;
};

#define HK_OSC_RUNS_MAX 64

struct hk_osc_request;

/* A call in flight, of calls.c's pool. */
typedef struct hk_osc_call {
	opal_free_list_item_t super;
	struct hk_btl_call call;
	struct hk_osc_module *m;
	int target;
	struct hk_osc_request *request; /* that waits for it, or NULL */
	uint8_t wanted;    /* the state of the lock before it; HK_OSC_FREE: it does not ask */
	size_t room;       /* bytes for arguments or result */
	const void *more;  /* the last bytes of its arguments: the origin's memory */
	uint32_t more_len; /* their number */
	unsigned locals;
	struct hk_osc_local local[HK_OSC_RUNS_MAX]; /* where the result goes */
	char bytes[] __attribute__((aligned(16)));
} hk_osc_call;
OBJ_CLASS_DECLARATION(hk_osc_call);

/* The pool of calls that carry at most rpc->max() bytes. Before the first window, and at the end.
 */
int hk_osc_calls_open(const struct hk_btl_rpc *rpc);
void hk_osc_calls_close(void);

/* A call with space for @room bytes, at most rpc->max(). Waits while too many are in flight. NULL:
 * no memory. */
struct hk_osc_call *hk_osc_call_new(struct hk_osc_module *m, int target, size_t room,
				    struct hk_osc_request *request);

/* Calls @target with @len bytes of arguments, which are in c->bytes and at c->more. */
int hk_osc_call_send(struct hk_osc_call *c, uint64_t operand, size_t len);

/* Calls without arguments. */
int hk_osc_tell(struct hk_osc_module *m, int target, enum hk_osc_kind kind);

/* An operation to @target begins, or has ended with @status of hk_osc_call. */
void hk_osc_begins(struct hk_osc_module *m, int target, struct hk_osc_request *request);
void hk_osc_ended(struct hk_osc_module *m, int target, struct hk_osc_request *request, int status);

/* Returns when this rank holds the lock of @target that it wants, or is asking for, if any. */
int hk_osc_lock_hold(struct hk_osc_module *m, int target);

/* Waits for operations to @target, or to all ranks with -1. Returns their first error. */
int hk_osc_wait(struct hk_osc_module *m, int target);

/* ---- epochs.c */

/* May this rank access @target's memory now? Takes a lock that needs no call. */
int hk_osc_access(struct hk_osc_module *m, int target);

int hk_osc_fence(int assert, struct ompi_win_t *win);
int hk_osc_start(struct ompi_group_t *group, int assert, struct ompi_win_t *win);
int hk_osc_complete(struct ompi_win_t *win);
int hk_osc_post(struct ompi_group_t *group, int assert, struct ompi_win_t *win);
int hk_osc_win_wait(struct ompi_win_t *win);
int hk_osc_test(struct ompi_win_t *win, int *flag);
int hk_osc_lock(int type, int target, int assert, struct ompi_win_t *win);
int hk_osc_unlock(int target, struct ompi_win_t *win);
int hk_osc_lock_all(int assert, struct ompi_win_t *win);
int hk_osc_unlock_all(struct ompi_win_t *win);
int hk_osc_sync(struct ompi_win_t *win);
int hk_osc_flush(int target, struct ompi_win_t *win);
int hk_osc_flush_all(struct ompi_win_t *win);

/* ---- transfer.c */
int hk_osc_put(const void *from, int from_count, struct ompi_datatype_t *from_type, int target,
	       ptrdiff_t disp, int count, struct ompi_datatype_t *type, struct ompi_win_t *win);
int hk_osc_get(void *to, int to_count, struct ompi_datatype_t *to_type, int target, ptrdiff_t disp,
	       int count, struct ompi_datatype_t *type, struct ompi_win_t *win);
int hk_osc_accumulate(const void *from, int from_count, struct ompi_datatype_t *from_type,
		      int target, ptrdiff_t disp, int count, struct ompi_datatype_t *type,
		      struct ompi_op_t *op, struct ompi_win_t *win);
int hk_osc_get_accumulate(const void *from, int from_count, struct ompi_datatype_t *from_type,
			  void *to, int to_count, struct ompi_datatype_t *to_type, int target,
			  ptrdiff_t disp, int count, struct ompi_datatype_t *type,
			  struct ompi_op_t *op, struct ompi_win_t *win);
int hk_osc_fetch_and_op(const void *from, void *to, struct ompi_datatype_t *type, int target,
			ptrdiff_t disp, struct ompi_op_t *op, struct ompi_win_t *win);
int hk_osc_compare_and_swap(const void *from, const void *compare, void *to,
			    struct ompi_datatype_t *type, int target, ptrdiff_t disp,
			    struct ompi_win_t *win);
int hk_osc_rput(const void *from, int from_count, struct ompi_datatype_t *from_type, int target,
		ptrdiff_t disp, int count, struct ompi_datatype_t *type, struct ompi_win_t *win,
		struct ompi_request_t **request);
int hk_osc_rget(void *to, int to_count, struct ompi_datatype_t *to_type, int target, ptrdiff_t disp,
		int count, struct ompi_datatype_t *type, struct ompi_win_t *win,
		struct ompi_request_t **request);
int hk_osc_raccumulate(const void *from, int from_count, struct ompi_datatype_t *from_type,
		       int target, ptrdiff_t disp, int count, struct ompi_datatype_t *type,
		       struct ompi_op_t *op, struct ompi_win_t *win,
		       struct ompi_request_t **request);
int hk_osc_rget_accumulate(const void *from, int from_count, struct ompi_datatype_t *from_type,
			   void *to, int to_count, struct ompi_datatype_t *to_type, int target,
			   ptrdiff_t disp, int count, struct ompi_datatype_t *type,
			   struct ompi_op_t *op, struct ompi_win_t *win,
			   struct ompi_request_t **request);

/* ---- request.c */

/* The request of an rput and so on. It ends when `parts` operations have ended. */
typedef struct hk_osc_request {
	ompi_request_t super;
	_Atomic int parts; /* operations in flight, and one while they are started */
} hk_osc_request;
OBJ_CLASS_DECLARATION(hk_osc_request);

struct hk_osc_request *hk_osc_request_new(struct ompi_win_t *win);
void hk_osc_request_free(struct hk_osc_request *r);
void hk_osc_request_part_ended(struct hk_osc_request *r, int error);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/coll/coll_hikyaku.h: MPI_Bcast by multicast, a coll component of Open MPI.
 *
 * docs/bcast.md has the protocol. The root sends each piece once, to the group of the communicator.
 * Its queries to the receivers, their answers, and lost pieces go by ob1, which is reliable.
 * Where multicast is impossible, or not worth it, the next lower component does the Bcast.
 *
 *   component.c   parameters, performance variables, selection
 *   decide.c      whether a communicator uses multicast: all its ranks decide alike
 *   publish.c     the data that a rank publishes at its start
 *   module.c      one Bcast: its transfers, its datatype
 *   root.c        the root's side of one transfer
 *   receive.c     a receiver's side
 *
 * Errors: a communicator multicasts only if all its ranks have allocated all memory. A later
 * failure ends the job with a message. The other ranks are in the same transfer, and would wait
 * forever for a rank that returned an error.
 *
 * Threads: ob1's rules for collectives: one at a time on a communicator. The handler of pieces runs
 * in the BTL's progress thread too.
 */
#ifndef HK_COLL_HIKYAKU_H
#define HK_COLL_HIKYAKU_H

#include "base/clock.h"
#include "ompi_config.h"
#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/proc/proc.h"

#include "openmpi/btl/coll_tags.h"
#include "openmpi/btl/mcast.h"
#include "openmpi/version.h"

#include <stdatomic.h>

#if HK_OMPI5
#define HK_CONVERTOR_DEVICE  CONVERTOR_ACCELERATOR
#define HK_COLL_BASE_VERSION MCA_COLL_BASE_VERSION_2_4_0
#else
#define HK_CONVERTOR_DEVICE  CONVERTOR_CUDA
#define HK_COLL_BASE_VERSION MCA_COLL_BASE_VERSION_2_0_0
#endif

#define HK_COLL_BURST_MAX 512u /* pieces between two queries */
#define HK_COLL_BURST_MIN 8u
#define HK_COLL_WORDS     (HK_COLL_BURST_MAX / 64)
#define HK_COLL_BURSTS    2u /* that may be unanswered */
/* Pieces of one transfer. A longer Bcast is several, which bounds what it needs of memory. */
#define HK_COLL_TRANSFER 4096u

struct hk_coll_params {
	int priority;
	unsigned min_bytes;
	unsigned min_ranks, max_ranks;
	unsigned burst_kb; /* what is sent before receivers are queried */
	unsigned grace_us; /* for a piece that others have overtaken */
	unsigned tail_us;  /* without any piece, for pieces that a query has overtaken */
	int verbose;
};

/* Of this process, since its start: MPI_T performance variables. Several threads count. */
struct hk_coll_counters {
	_Atomic unsigned long long bcasts;   /* by multicast, as root or receiver */
	_Atomic unsigned long long pieces;   /* sent by multicast, for the first time */
	_Atomic unsigned long long again;    /* multicast again, as several receivers missed them */
	_Atomic unsigned long long repaired; /* sent to one receiver that missed them */
	_Atomic unsigned long long duplicates; /* pieces that had arrived before */
	/* Bcasts done by the next lower component, by reason */
	_Atomic unsigned long long small, ranks, unreachable, no_group, lossy;
};

struct hk_coll_component {
	mca_coll_base_component_t super;
	struct hk_coll_params param;
	struct hk_coll_counters n;
	int output;
};

extern struct hk_coll_component mca_coll_hikyaku_component;
#define HK_COLL_PARAMS (&mca_coll_hikyaku_component.param)
/* Counts @k more of a field of struct hk_coll_counters. */
#define HK_COLL_COUNT(field, k)                                                                    \
	((void)atomic_fetch_add_explicit(&mca_coll_hikyaku_component.n.field, (k),                 \
					 memory_order_relaxed))

enum hk_coll_state {
	HK_COLL_UNDECIDED,
	HK_COLL_MULTICAST,
	HK_COLL_RANKS, /* from here on the reason against multicast */
	HK_COLL_UNREACHABLE,
	HK_COLL_NO_GROUP,
	HK_COLL_LOSSY,
};

struct hk_coll_module {
	mca_coll_base_module_t super;
	const struct hk_btl_mcast *btl;
	/* of the next lower component, for Bcasts without multicast */
	mca_coll_base_module_bcast_fn_t previous_bcast;
	mca_coll_base_module_t *previous_module;
	enum hk_coll_state state;
	uint32_t group;
	bool group_ours;                /* this rank has requested the group */
	uint32_t number;                /* of the last transfer */
	uint8_t key[HK_KEY_LEN];        /* of its frames, drawn by the first rank */
	size_t piece_size;              /* bytes */
	uint32_t burst, burst_max;      /* pieces; follows loss */
	bool lossy;                     /* found as root: announced with the next Bcast */
	struct hk_btl_mcast_peer *peer; /* by rank */
	void *scratch;                  /* hk_coll_scratch_size() bytes: what ob1 receives into */
	char *staging;                  /* a transfer, for datatypes with gaps */
	_Atomic uint64_t received[HK_COLL_TRANSFER / 64]; /* as receiver: a bit for each piece */
};
OBJ_CLASS_DECLARATION(hk_coll_module);
typedef struct hk_coll_module hk_coll_module;

/* One transfer of a Bcast. */
struct hk_coll_call {
	hk_coll_module *m;
	struct ompi_communicator_t *comm;
	int root, me, ranks;
	size_t total; /* bytes, packed */
	uint32_t pieces;
	char *data; /* all of them in a row: of the user's buffer, or m->staging */
};

/* ---- messages between root and receivers: structs as they are, because both sides are of one
 * build and one kind of machine */

enum hk_coll_message {
	/* up: the receiver is in this transfer of `count` pieces, and listens. With number 0,
	   before the first transfer: the rank has the memory for multicasts. */
	HK_COLL_READY = 1,
	HK_COLL_NO_MEMORY, /* up, with number 0: the rank lacks the memory for multicasts */
	HK_COLL_QUERY,     /* down: which of pieces [first, first + count) are missing? */
	HK_COLL_REPORT,    /* up: the answer; `count` pieces are missing, listed by a bitmap */
	HK_COLL_PIECE,     /* down: piece `first`, which follows */
};

struct hk_coll_header {
	uint8_t type;  /* enum hk_coll_message */
	uint8_t lossy; /* QUERY: after this Bcast no more multicasts */
	uint16_t zero;
	uint32_t number; /* of the transfer */
	uint32_t first, count;
};

struct hk_coll_report {
	struct hk_coll_header header;
	uint64_t missing[HK_COLL_WORDS]; /* bit i: piece first + i. As many words as
					    needed; none if no piece is missing */
};

static inline size_t hk_coll_len(const struct hk_coll_call *c, uint32_t piece)
{
	size_t at = (size_t)piece * c->m->piece_size;

	return HK_MIN(c->m->piece_size, c->total - at);
}

/* ---- publish.c */
/* Publishes to all processes of the job that this one has the component, and the parameters on
 * which the decision depends. Call it before processes exchange their modex. */
void hk_coll_publish(void);
/* True if @proc has the component with the same parameters. May wait for its modex. */
bool hk_coll_alike(const ompi_proc_t *proc);

/* ---- component.c */
void hk_coll_log(const struct hk_coll_module *m, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- module.c */
mca_coll_base_module_t *hk_coll_query(struct ompi_communicator_t *comm, int *priority);

/* ---- decide.c */
/* The first long Bcast of a communicator: sets m->state, and all that a transfer needs. All
 * ranks set the same state, unless an error is returned. The error is of ob1 or of the next lower
 * component's Bcast. Other ranks may not see it, so the caller ends the job. */
int hk_coll_decide(hk_coll_module *m, struct ompi_communicator_t *comm);
/* Frees what transfers needed. */
void hk_coll_forget(hk_coll_module *m);

/* ---- root.c, receive.c: after an error, pending requests use m->scratch, so the caller ends the
 * job */
size_t hk_coll_scratch_size(int ranks, size_t piece_size);
int hk_coll_root(const struct hk_coll_call *c);
/* Sets @lossy if the root wants no more multicasts. */
int hk_coll_receive(const struct hk_coll_call *c, bool *lossy);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/coll/coll_hikyaku.h: MPI_Bcast by multicast, a coll component of Open MPI.
 *
 * docs/bcast.md has the protocol. The root sends each piece once, to the group of the communicator; what it
 * asks of the receivers, what they answer, and pieces that got lost go by ob1, from one rank to another, and so
 * arrive. Where a multicast cannot be, or is not worth it, the component that was there before does the Bcast.
 *
 *   component.c   parameters, performance variables, who gets a module
 *   decide.c      one communicator: whether to multicast, which all its ranks decide alike
 *   publish.c     what a rank tells all others when it starts
 *   module.c      one Bcast: its transfers, its datatype
 *   root.c        the root's side of one transfer
 *   receive.c     a receiver's
 *   tags.h        ob1's tags
 *
 * Errors: all memory is there before a communicator multicasts, or none of its ranks does. What fails later ends the job,
 * with a text: the others are within the same transfer, and would wait for ever for who returns an error.
 *
 * Threads: ob1's rules for collectives: one at a time on a communicator. The handler of pieces runs in the BTL's
 * helper thread as well.
 */
#ifndef HK_COLL_HIKYAKU_H
#define HK_COLL_HIKYAKU_H

#include "ompi_config.h"
#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/proc/proc.h"

#include "mpi/coll/tags.h"
#include "mpi/mcast.h"

#include <stdatomic.h>
#include <time.h>

#define HK_COLL_BURST_MAX 512u /* pieces between two questions */
#define HK_COLL_BURST_MIN 8u
#define HK_COLL_WORDS     (HK_COLL_BURST_MAX / 64)
#define HK_COLL_BURSTS    2u /* that may be unanswered */
/* Pieces of one transfer. A longer Bcast is several, which bounds what it needs of memory. */
#define HK_COLL_TRANSFER 4096u

struct hk_coll_params {
	int priority;
	unsigned min_bytes;
	unsigned min_ranks, max_ranks;
	unsigned burst_kb; /* what is sent before receivers are asked */
	unsigned grace_us; /* for a piece that others have overtaken */
	unsigned tail_us;  /* without any piece, for what a question has overtaken */
	int verbose;
};

/* Of this process, since its start: MPI_T performance variables. Several threads count. */
struct hk_coll_counters {
	_Atomic unsigned long long bcasts; /* by multicast, as root or receiver */
	_Atomic unsigned long long pieces; /* sent by multicast, for the first time … */
	_Atomic unsigned long long again;  /* … and again, since several receivers missed them */
	_Atomic unsigned long long repaired;   /* sent to one receiver that missed them */
	_Atomic unsigned long long duplicates; /* pieces that came and were there */
	/* Bcasts left to who did them before, and why */
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
	HK_COLL_RANKS, /* and from here on why not */
	HK_COLL_UNREACHABLE,
	HK_COLL_NO_GROUP,
	HK_COLL_LOSSY,
};

struct hk_coll_module {
	mca_coll_base_module_t super;
	const struct hk_btl_mcast *btl;
	mca_coll_base_module_bcast_fn_t
		before; /* who did the Bcast before us, and does it in our place */
	mca_coll_base_module_t *before_module;
	enum hk_coll_state state;
	uint32_t group;
	bool group_ours;                /* we asked for it */
	uint32_t number;                /* of the last transfer */
	size_t each;                    /* bytes of a piece */
	uint32_t burst, burst_max;      /* pieces; follows loss */
	bool lossy;                     /* found as root: tell the others with the next Bcast */
	struct hk_btl_mcast_peer *peer; /* by rank */
	void *room;                     /* hk_coll_room() bytes: what ob1 receives into */
	char *staging;                  /* a transfer, for datatypes with gaps */
	_Atomic uint64_t have[HK_COLL_TRANSFER / 64]; /* as receiver: a bit for each piece */
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

/* ---- what they say to each other: structs as they are, between builds of one version on one kind of machine */

enum hk_coll_says {
	/* up: I am in this transfer of `count` pieces, and listen. Number 0, before the first: I could multicast … */
	HK_COLL_READY = 1,
	HK_COLL_UNABLE, /* … and I could not, for want of memory */
	HK_COLL_ASK,    /* down: what of pieces [first, first + count) have you? */
	HK_COLL_HAVE, /* up: its answer; `count` is how many are missing, and which, a bitmap tells */
	HK_COLL_PIECE, /* down: piece `first`, which follows */
};

struct hk_coll_head {
	uint8_t says;
	uint8_t lossy; /* ASK: after this Bcast no more multicasts */
	uint16_t zero;
	uint32_t number; /* of the transfer */
	uint32_t first, count;
};

struct hk_coll_have {
	struct hk_coll_head head;
	uint64_t missing
		[HK_COLL_WORDS]; /* bit i: piece first + i. As many words as are needed; none if none is */
};

static inline size_t hk_coll_len(const struct hk_coll_call *c, uint32_t piece)
{
	size_t at = (size_t)piece * c->m->each;

	return HK_MIN(c->m->each, c->total - at);
}

static inline uint64_t hk_coll_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* ---- publish.c */
/* Tells all processes of the job, before they exchange such things, that this one has the component, and how it is
 * set: what the decision depends on. */
void hk_coll_publish(void);
/* Has @proc the component, set alike? May wait for what it published. */
bool hk_coll_alike(const ompi_proc_t *proc);

/* ---- component.c */
void hk_coll_say(const struct hk_coll_module *m, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- module.c */
mca_coll_base_module_t *hk_coll_query(struct ompi_communicator_t *comm, int *priority);

/* ---- decide.c */
/* The first long Bcast of a communicator: sets m->state, and all that a transfer needs. Every rank that comes as far as
 * to speak with the others comes to the same state. An error is of ob1, or of the Bcast before ours, and then the others may
 * not know: the job has to end. */
int hk_coll_decide(hk_coll_module *m, struct ompi_communicator_t *comm);
/* Frees what transfers needed. */
void hk_coll_forget(hk_coll_module *m);

/* ---- root.c, receive.c: after an error requests are left that use m->room: the job has to end */
size_t hk_coll_room(int ranks, size_t each);
int hk_coll_root(const struct hk_coll_call *c);
/* Sets @lossy if the root wants no more multicasts. */
int hk_coll_receive(const struct hk_coll_call *c, bool *lossy);

#endif

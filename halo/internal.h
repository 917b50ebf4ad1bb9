/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/internal.h: the library's data structures, and which file does what.
 *
 *   comm.c          the library's own communicator
 *   edges.c         edges to neighbours, and what can be wrong with them
 *   setup.c         both ends of a neighbour compare what they exchange, and choose a path
 *   exchange.c      put, wait, ready, wait_some
 *   flatten.c       MPI types to blocks of memory
 *   cart.c, csr.c   the edges of grids and of sparse matrices
 *   path_mpi.c      persistent requests, and copies to oneself
 *   path_fabric.c   puts through the fabric of the BTL
 *   path_libfabric.c  writes through libfabric
 *   report.c        errors and HK_HALO_REPORT
 *
 * Between two ranks there is one message each way, the edges' halves one after the other. A *path* carries it.
 */
#ifndef HK_HALO_INTERNAL_H
#define HK_HALO_INTERNAL_H

#include "halo/halo.h"

#include "base/error.h"
#include "fabric/layout.h"

#include <time.h>

/* What one edge sends or receives. */
struct hk_half {
	int edge, peer, tag, order; /* order: among those of the same direction */
	char *base;
	int count;
	MPI_Datatype type;
	uint64_t bytes;
};

/* A list of blocks that grows. */
struct hk_blocks {
	struct hk_block *block;
	size_t count, room;
	uint64_t len;
};

/* One message to or from a neighbour. */
struct hk_message {
	struct hk_half *half;
	int halves;
	uint64_t bytes;
	struct hk_blocks blocks; /* of a path that moves bytes by itself */
};

/* Bytes of what a path tells the other end. */
#define HK_HALO_ADDRESS 160

enum hk_path_id { HK_PATH_FABRIC, HK_PATH_LIBFABRIC, HK_PATH_MPI, HK_PATH_SELF, HK_PATHS };

struct hk_neighbour {
	int rank;
	enum hk_path_id id;
	const struct hk_path *path;
	void *state; /* the path's */
	struct hk_message out, in;
	int flat;           /* 0: both messages are known as blocks */
	bool arrived, sent; /* in this exchange */
	char why[160];      /* … this path */
	/* HK_HALO_REPORT */
	uint64_t exchanges;
	double sum, min, max; /* seconds from put to arrival */
};

struct hk_halo {
	MPI_Comm comm; /* the library's */
	struct hk_halo_comm *joined;
	int tag; /* of handshakes; the next, of exchanges */
	int rank, size, edges;
	struct hk_half *out, *in; /* sorted by peer, tag, order */
	int outs, ins;
	int *neighbour_of; /* edge → index of the neighbour it receives from; -1: none */
	bool *told;        /* by wait_some, in this exchange */
	struct hk_neighbour *neighbour;
	int neighbours;
	bool under_way, polls_fabric, report;
	int failed; /* for good: what the exchange's functions return from then on, with `said` */
	struct hk_error said;
	uint32_t number; /* of the exchange, from 1 */
	double timeout, started, setup_time;
};

/*
 * One way to carry messages. `offer` writes what the other end must know, or leaves the path out and says why in
 * nb->why. `open` reads the other's, makes this end, and writes what the other must know of that: 0, or a
 * negative errno and why. If both ends could, `connect` reads it; else `close` undoes it, and MPI carries.
 */
struct hk_path {
	const char *name;
	bool (*offer)(struct hk_halo *h, struct hk_neighbour *nb, char *address);
	int (*open)(struct hk_halo *h, struct hk_neighbour *nb, const char *theirs, char *mine);
	int (*connect)(struct hk_halo *h, struct hk_neighbour *nb, const char *theirs);
	int (*put)(struct hk_halo *h, struct hk_neighbour *nb);
	/* Looks once; sets nb->arrived and nb->sent. Negative: the neighbour is lost. */
	int (*poll)(struct hk_halo *h, struct hk_neighbour *nb);
	void (*close)(struct hk_halo *h, struct hk_neighbour *nb);
};

extern const struct hk_path hk_path_mpi, hk_path_self, hk_path_fabric, hk_path_libfabric;

/* ---- flatten.c */
/* Adds the blocks of @count elements of @type at @base. -ENOTSUP: of a kind whose layout only MPI knows. */
int hk_flatten(struct hk_blocks *b, char *base, int count, MPI_Datatype type);
int hk_message_flatten(struct hk_message *m);
int hk_blocks_add(struct hk_blocks *b, char *base, uint64_t len);

static inline struct hk_layout hk_layout_of(const struct hk_blocks *b)
{
	return (struct hk_layout){b->block, b->count, b->len};
}

/* ---- comm.c */
/* *@comm: the library's own beside @theirs (itself, if it is that), with the same error handler; *@tag: the first of two
 * that are this set-up's. Collective. NULL: there is no memory. */
struct hk_halo_comm *hk_halo_comm_join(MPI_Comm theirs, MPI_Comm *comm, int *tag);
void hk_halo_comm_leave(struct hk_halo_comm *c);
/* 0, or what is wrong with an inter-communicator. */
int hk_halo_one_group(MPI_Comm comm);

/* ---- edges.c */
int hk_edges_take(struct hk_halo *h, int n, const struct hk_halo_edge *edges);
int hk_edges_neighbours(struct hk_halo *h, const int *theirs);
int hk_edges_overlap(const struct hk_halo *h);

/* ---- path_fabric.c */
void hk_fabric_poll(bool all);

/* ---- setup.c */
int hk_halo_verdict(MPI_Comm comm, int rc);
__attribute__((format(printf, 3, 4))) int hk_halo_refuse(MPI_Comm comm, hk_halo *h, const char *fmt,
							 ...);

/* ---- report.c */
extern _Thread_local struct hk_error hk_halo_said;
#define hk_halo_fail(rc, ...) hk_error_set(&hk_halo_said, rc, __VA_ARGS__)
void hk_halo_print(const struct hk_halo *h);
/* What hk_halo_wrong() was told for this call, or NULL: valid until the next call of this. */
const char *hk_halo_wrong_take(void);

static inline double hk_halo_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif

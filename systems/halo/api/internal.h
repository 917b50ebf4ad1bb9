/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/internal.h: the library's data structures, and what each file does.
 *
 *   comm.c                  the library's own communicator
 *   edges.c                 checks the caller's edges and groups them by neighbour
 *   handshake.c             two neighbours compare their edges and choose a transport
 *   setup.c                 set-up, its errors on all ranks, and the end of an exchange
 *   exchange.c              put, wait, ready, wait_some
 *   flatten.c               MPI types to blocks of memory
 *   cart.c, csr.c           the edges of grids and of sparse matrices
 *   transport_mpi.c         persistent requests, and copies within a rank
 *   transport_shared.c      copies through memory that two ranks of a node share
 *   transport_worker.c      puts by the worker of the BTL
 *   transport_libfabric.c   writes through libfabric
 *   report.c                errors and HK_HALO_REPORT
 *   fortran.c               the functions that hk_halo.f90 calls
 *
 * Between two ranks there is one message each way: the halves of the edges, one after the other. A
 * *transport* carries it.
 */
#ifndef HK_HALO_INTERNAL_H
#define HK_HALO_INTERNAL_H

#include "base/clock.h"
#include "hikyaku/halo.h"

#include "hikyaku/error.h"
#include "hikyaku/layout.h"

/* The data that one edge sends or receives. */
struct hk_halo_half {
	int edge, peer, tag;
	int order; /* number of this half among those of its direction */
	char *base;
	int count; /* elements */
	MPI_Datatype type;
	uint64_t bytes;
};

/* A list of blocks that grows. */
struct hk_halo_blocks {
	struct hk_block *block;
	size_t count, capacity;
	uint64_t len;
};

/* One message to or from a neighbour. */
struct hk_halo_message {
	struct hk_halo_half *half;
	int halves;
	uint64_t bytes;
	struct hk_halo_blocks blocks; /* its memory, for the transports other than mpi */
};

/* Bytes that a transport may send to the other end. */
#define HK_HALO_ADDRESS 160

enum hk_transport_id {
	HK_TRANSPORT_SHARED,
	HK_TRANSPORT_WORKER,
	HK_TRANSPORT_LIBFABRIC,
	HK_TRANSPORT_MPI,
	HK_TRANSPORT_SELF,
	HK_TRANSPORTS
};

struct hk_halo_neighbour {
	int rank;
	enum hk_transport_id id;
	const struct hk_transport *transport;
	void *state;  /* of the transport */
	void *shared; /* of the transport "shared", between its offer and the choice */
	struct hk_halo_message out, in;
	int flat;      /* 0: both messages have blocks; else the negative errno */
	bool arrived;  /* the message of this exchange from the neighbour */
	bool sent;     /* the send buffers of this exchange belong to the caller again */
	char why[160]; /* the reason for the transport */
	/* for HK_HALO_REPORT */
	uint64_t exchanges;
	double sum, min, max; /* time from put to arrival, seconds */
};

struct hk_halo {
	MPI_Comm comm; /* the library's own */
	struct hk_halo_comm *joined;
	int tag; /* MPI tag of handshakes; tag + 1 is that of exchanges */
	int rank, size, edges;
	struct hk_halo_half *out, *in; /* sorted by peer, tag, order */
	int outs, ins;
	int *neighbour_of; /* by edge: index of the neighbour it receives from; -1: none */
	bool *reported;    /* by edge: wait_some has returned it in this exchange */
	struct hk_halo_neighbour *neighbour;
	int neighbours;
	bool under_way, polls_worker, report;
	int failed;            /* negative errno that all calls return from now on; 0: none */
	struct hk_error error; /* the text that belongs to it */
	uint32_t number;       /* number of the exchange, from 1 */
	double timeout;        /* seconds; 0: none */
	double started;        /* time of the put, seconds */
	double setup_time;     /* seconds */
};

/*
 * A transport carries the messages between two ranks. Both ends call its functions in this order:
 *
 * 1. `offer` writes this end's address. False: the transport cannot be used; nb->why has the
 *    reason. Both ends then know both addresses. `matches`, which may be NULL, says whether these
 *    reach each other, and is the same at both ends. If another transport is chosen, `retract`,
 *    which may be NULL, frees what the offer has made.
 * 2. `open` reads the other end's address, allocates this end and writes what the other end needs
 *    to reach it. Returns 0, or a negative errno with the reason in nb->why.
 * 3. If `open` succeeded at both ends, `connect` reads what the other end wrote. Otherwise `close`
 *    frees this end, and the messages go by MPI.
 */
struct hk_transport {
	const char *name;
	bool (*offer)(struct hk_halo *h, struct hk_halo_neighbour *nb, char *address);
	bool (*matches)(const char *one, const char *other);
	void (*retract)(struct hk_halo_neighbour *nb);
	int (*open)(struct hk_halo *h, struct hk_halo_neighbour *nb, const char *theirs,
		    char *mine);
	int (*connect)(struct hk_halo *h, struct hk_halo_neighbour *nb, const char *theirs);
	int (*put)(struct hk_halo *h, struct hk_halo_neighbour *nb);
	/* Polls once; sets nb->arrived and nb->sent. Negative: the neighbour is disconnected. */
	int (*poll)(struct hk_halo *h, struct hk_halo_neighbour *nb);
	void (*close)(struct hk_halo *h, struct hk_halo_neighbour *nb);
};

extern const struct hk_transport hk_transport_mpi, hk_transport_self, hk_transport_shared,
	hk_transport_worker, hk_transport_libfabric;

/* ---- flatten.c */
/* Finds the blocks of @m. -ENOTSUP: only MPI knows the layout of a type. */
int hk_halo_message_flatten(struct hk_halo_message *m);
int hk_halo_blocks_add(struct hk_halo_blocks *b, char *base, uint64_t len);

static inline struct hk_layout hk_halo_blocks_layout(const struct hk_halo_blocks *b)
{
	return (struct hk_layout){b->block, b->count, b->len};
}

/* ---- comm.c */
/* Collective. *@comm becomes the library's own communicator for @theirs, with the same error
 * handler; it is @theirs itself if that is one of the library's. *@tag becomes the first of two MPI
 * tags for this set-up. NULL: out of memory. */
struct hk_halo_comm *hk_halo_comm_join(MPI_Comm theirs, MPI_Comm *comm, int *tag);
void hk_halo_comm_leave(struct hk_halo_comm *c);
/* Is that rank on the node of this one? */
bool hk_halo_comm_same_node(const struct hk_halo_comm *c, int rank);
/* 0, or -EINVAL if @comm is an inter-communicator. */
int hk_halo_comm_check(MPI_Comm comm);

/* ---- edges.c */
/* Checks and copies the caller's edges. 0 or a negative errno. */
int hk_halo_edges_copy(struct hk_halo *h, int n, const struct hk_halo_edge *edges);
/* Groups them by neighbour. @theirs[rank]: the number of halves that rank has with this one. */
int hk_halo_edges_group(struct hk_halo *h, const int *theirs);
/* -EINVAL if two edges use the same byte and at least one of them receives. */
int hk_halo_edges_check_overlap(const struct hk_halo *h);

/* ---- handshake.c */
/* Agrees with all neighbours on what is exchanged and on the transport. @wanted: HK_HALO_TRANSPORT.
 * @theirs: as for hk_halo_edges_group(). Returns 0 or the negative errno of this rank. */
int hk_halo_handshake(struct hk_halo *h, const char *wanted, const int *theirs);
/* Aborts the job. */
void hk_halo_no_memory(const struct hk_halo *h);

/* ---- transport_worker.c */
/* Polls the worker; with @all everything that MPI polls. */
void hk_halo_poll_worker(bool all);

/* ---- setup.c */
/* Collective: returns the @rc of the first rank whose @rc is not 0, with its error text; or 0. */
int hk_halo_agree(MPI_Comm comm, int rc);
/* For a builder whose arguments are wrong on this rank: takes part in a set-up that fails on all
 * ranks with this text. */
__attribute__((format(printf, 3, 4))) int hk_halo_refuse(MPI_Comm comm, hk_halo *h, const char *fmt,
							 ...);

/* ---- report.c */
extern _Thread_local struct hk_error hk_halo_last_error;
#define hk_halo_fail(rc, ...) hk_error_set(&hk_halo_last_error, rc, __VA_ARGS__)
void hk_halo_print(const struct hk_halo *h);
/* The text that hk_halo_refuse_next() left for this call, or NULL. Valid until the next call of
 * this function. */
const char *hk_halo_refusal_take(void);

#endif

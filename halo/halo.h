/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/halo.h: the neighbour exchange of a solver, done by one-sided writes.
 *
 * A solver on a partitioned grid or matrix sends the same pieces of memory to the same neighbours in every
 * step, and receives the same. MPI matches each of these messages anew, and asks the receiver before it sends a
 * long one. Here the exchange is described once; from then on the data is written straight to the
 * neighbours' memory, and a counter tells them that it has come. (After Noguchi, Fujii and Tanaka, "faster
 * neighbour communication by replacing code with RDMA"; they watched the last word of the data instead.)
 *
 *   struct hk_halo_edge edge[] = {{left, 0, &x[1], 1, column, &x[0], 1, column}, …};
 *   hk_halo_setup(comm, 2, edge, &h);
 *   for (…) {
 *           hk_halo_put(h);     was: MPI_Irecv and MPI_Isend for each edge
 *           compute();          on what is not exchanged
 *           hk_halo_wait(h);    was: MPI_Waitall
 *   }
 *   hk_halo_free(&h);
 *
 * Results are those of MPI_Isend and MPI_Irecv with the same arguments, bit by bit, whatever path is taken:
 *
 *   fabric     puts through the Ethernet fabric of Hikyaku's BTL, if this process has loaded it and it
 *              reaches the neighbour
 *   libfabric  writes with remote completion data, on networks that libfabric reaches; if asked for
 *   mpi        persistent requests: always works
 *   self       a copy, for a neighbour that is the rank itself
 *
 * The environment variable HK_HALO_BACKEND (auto, fabric, libfabric, mpi) says which to try before mpi; auto is
 * fabric.
 * HK_HALO_REPORT=1 has each rank print at hk_halo_free() what it exchanged with whom, by which path, why by
 * this one, and how long it took. HK_HALO_TIMEOUT=SECONDS ends a wait; without it one goes on for as long
 * as the neighbour lives, and names it to stderr after a minute.
 *
 * Errors. Functions return 0 (or what they say) or a negative errno; hk_halo_error() then has the sentence.
 * hk_halo_setup(), hk_halo_cart() and hk_halo_csr() fail on all ranks or on none. An exchange that failed is under
 * way still: one may wait again, after -ETIMEDOUT, or free it. After any other error of an exchange, all calls give that
 * error again, until hk_halo_free(). MPI's own errors go to the communicator's error
 * handler.
 *
 * Memory. Edges, types and the communicator may be freed after set-up. From hk_halo_put() to the return of hk_halo_wait() the
 * receive buffers may not be touched and the send buffers not be changed; at other times they are the
 * application's, and are not looked at: a buffer that is freed between two exchanges harms nothing until the next.
 *
 * Threads. One thread at a time a handle; different handles at once with MPI_THREAD_MULTIPLE. All ranks of a
 * communicator put as often as each other, as with matching sends and receives. A wait may last
 * until each neighbour has put, also if nothing comes from it (as MPI_Send may, too).
 */
#ifndef HK_HALO_H
#define HK_HALO_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HK_HALO_API __attribute__((visibility("default")))

typedef struct hk_halo *hk_halo;

/* What one neighbour is sent, and what comes from it. Either half may be empty: count 0. The n-th half with
 * bytes that a rank sends to a peer with a tag belongs to the n-th that the peer receives from the rank
 * with this tag; it must have as many bytes. Types need not be committed. @peer may be MPI_PROC_NULL (nothing happens) or the rank itself. */
struct hk_halo_edge {
	int peer, tag;
	const void *send;
	int send_count;
	MPI_Datatype send_type;
	void *recv;
	int recv_count;
	MPI_Datatype recv_type;
};

/* Collective over @comm: describes the exchange and connects the neighbours. Several edges to one neighbour
 * become one message. Refused, with the ranks and the edge named: halves that do not match, receive
 * buffers that overlap each other or a send buffer (not seen in types whose layout MPI alone knows: distributed arrays,
 * pairs with holes), null addresses. */
HK_HALO_API int hk_halo_setup(MPI_Comm comm, int n, const struct hk_halo_edge *edges, hk_halo *h);

/* Starts an exchange: sends, and lets receive. -EBUSY if one is under way. */
HK_HALO_API int hk_halo_put(hk_halo h);

/* Ends the exchange: all has come, and send buffers may be changed. -ENOTCONN: a neighbour is lost; -ETIMEDOUT. 0 at
 * once if none is under way. */
HK_HALO_API int hk_halo_wait(hk_halo h);

/* Has what edge @i (its index at set-up) receives come? 1 or 0: after 1 it may be read, while others are still on
 * their way; 1 also if it receives nothing, or no exchange is under way. -EINVAL: no such edge. Never waits, but
 * polls. */
HK_HALO_API int hk_halo_ready(hk_halo h, int i);

/* Waits until edges have come of which it has not told in this exchange; writes their indices to @which, which has
 * room for all edges, and returns how many: 0 when all that receive have been told. Errors as hk_halo_wait(), which is
 * needed after it. */
HK_HALO_API int hk_halo_wait_some(hk_halo h, int *which);

/* Collective: ends an exchange that is under way, and frees everything, also where that failed: it returns what the wait
 * did, and nothing comes to the receive buffers any more. (A message that the neighbour does not take, and MPI does not take
 * back, may be read from the send buffer later; stderr says so. The library's communicator is left to MPI_Finalize
 * then.) *@h becomes NULL; NULL is nothing. Before MPI_Finalize (else -EINVAL, and nothing is freed). */
HK_HALO_API int hk_halo_free(hk_halo *h);

/* What went wrong last in this thread, and how to mend it. Valid until the thread's next call. */
HK_HALO_API const char *hk_halo_error(void);

/* The path to @peer: "fabric", "libfabric", "mpi", "self"; NULL if it is no neighbour. *@why (may be NULL): the reason.
 * Both texts are valid until hk_halo_free(). */
HK_HALO_API const char *hk_halo_path(hk_halo h, int peer, const char **why);

/* For a wrapper of another language whose caller gave something wrong on this rank, so that all fail and none waits: this
 * thread's next hk_halo_setup(), hk_halo_cart(), hk_halo_csr() or hk_halo_csr_setup() is refused on all ranks with the
 * sentence @what (up to 399 bytes, copied) and -EINVAL; its arguments but the communicator or plan are not looked at. */
HK_HALO_API void hk_halo_wrong(const char *what);

/* ---- builders: the edges of grids and matrices ------------------------------------------------------- */

enum hk_halo_stencil {
	HK_HALO_STAR, /* neighbours across faces: all that a 5- or 7-point stencil reads */
	HK_HALO_BOX,  /* across edges and corners too: 9 and 27 points */
};

/* Collective: the exchange of a grid that is cut into boxes, one a rank of @cart (MPI_Cart_create, up to
 * HK_HALO_DIMS dimensions, periodic or not). In each dimension d a rank has @interior[d] cells of its own and @width[d]
 * ghosts on either side (0: none are exchanged), so that a field has interior + 2 * width elements; @order is
 * MPI_ORDER_C (the last dimension is the fastest) or MPI_ORDER_FORTRAN. All @fields travel in one message a neighbour.
 * A rank has at least @width[d] cells; ranks that are side by side have as many in the other dimensions. The arrays
 * are not kept, what is in @field is the application's as with edges. */
#define HK_HALO_DIMS 4
HK_HALO_API int hk_halo_cart(MPI_Comm cart, const int *interior, const int *width,
			     enum hk_halo_stencil stencil, int order, int fields,
			     void *const *field, MPI_Datatype element, hk_halo *h);

/* Who needs which elements of a vector that is distributed as the rows of a sparse matrix. */
typedef struct hk_halo_csr_plan *hk_halo_csr_plan;

/* Collective: rows are numbered from rank to rank; this one has @rows of them, and entries in @entries columns (global
 * numbers, as in the column array of CSR). A column that is another rank's row is a *ghost*. @local[k] becomes
 * where the vector has entry k's element: 0 to rows - 1 are the rank's own, ghosts follow, ordered by global
 * number. *@ghosts: how many. Neither array is kept. */
HK_HALO_API int hk_halo_csr(MPI_Comm comm, int rows, long long entries, const long long *column,
			    int *local, int *ghosts, hk_halo_csr_plan *plan);

/* Collective: the exchange for @fields vectors, each of rows + ghosts elements: a rank's own are sent to
 * those who need them, ghosts come. The plan may serve for several. */
HK_HALO_API int hk_halo_csr_setup(hk_halo_csr_plan plan, int fields, void *const *vector,
				  MPI_Datatype element, hk_halo *h);

/* Collective. Exchanges that were made of the plan go on. */
HK_HALO_API void hk_halo_csr_free(hk_halo_csr_plan *plan);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hikyaku/halo.h: the neighbour exchange of a solver, by one-sided writes.
 *
 * A solver on a partitioned grid or matrix sends the same pieces of memory to the same neighbours
 * in every step. MPI matches each of these messages again, and asks the receiver before it sends a
 * long one. This library learns the exchange once, at set-up. From then on each rank writes its
 * data straight to the neighbours' memory, and a counter tells them that all of it has arrived.
 * (After Noguchi, Fujii and Tanaka, "faster neighbour communication by replacing code with RDMA".
 * They polled the last word of the data instead.)
 *
 *   struct hk_halo_edge edge[] = {{left, 0, &x[1], 1, column, &x[0], 1, column}, …};
 *   hk_halo_setup(comm, 2, edge, &h);
 *   for (…) {
 *           hk_halo_put(h);     was: MPI_Irecv and MPI_Isend for each edge
 *           compute();          on the data that is not exchanged
 *           hk_halo_wait(h);    was: MPI_Waitall
 *   }
 *   hk_halo_free(&h);
 *
 * Results are those of MPI_Isend and MPI_Irecv with the same arguments, bit by bit. A *transport*
 * carries the bytes between two ranks:
 *
 *   shared      copies through shared memory, between ranks of one node
 *   worker      puts by the worker of Hikyaku's BTL, if Open MPI loaded it and it reaches the peer
 *   libfabric   writes with remote completion data; only on request
 *   mpi         persistent requests; always possible
 *   self        a copy, where the neighbour is the rank itself
 *
 * Environment variables:
 *
 *   HK_HALO_TRANSPORT=NAME    the transport to try before mpi: shared, worker, libfabric, mpi,
 *                             or auto (the default: shared and worker)
 *   HK_HALO_REPORT=1          at hk_halo_free() each rank prints, for each neighbour, the bytes
 *                             exchanged, the transport, the reason for it, and the times
 *   HK_HALO_TIMEOUT=SECONDS   a wait fails after this time. Without it a wait lasts as long as the
 *                             neighbour lives, and names the neighbour on stderr after a minute
 *
 * Errors. Functions return 0 (or the value that is documented) or a negative errno; then
 * hk_halo_error() returns the text. hk_halo_setup(), hk_halo_cart() and hk_halo_csr() fail on all
 * ranks or on none. An exchange that failed is still under way. After -ETIMEDOUT the caller may
 * wait again or free the handle. After any other error every call on the handle returns that error
 * again, until hk_halo_free(). MPI's own errors go to the communicator's error handler.
 *
 * Memory. The caller may free edges, types and the communicator after set-up. From hk_halo_put() to
 * the return of hk_halo_wait() the caller must not touch the receive buffers nor change the send
 * buffers. At other times the library does not access them: a buffer freed between two exchanges
 * matters only if another exchange follows.
 *
 * Threads. One thread at a time may use a handle. Several threads may use different handles at the
 * same time with MPI_THREAD_MULTIPLE. All ranks of a communicator put equally often, as with
 * matching sends and receives. A wait may last until each neighbour has put, even if the neighbour
 * sends nothing (as MPI_Send may, too).
 */
#ifndef HIKYAKU_HALO_H
#define HIKYAKU_HALO_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HK_HALO_API __attribute__((visibility("default")))

typedef struct hk_halo *hk_halo;

/* The data to and from one neighbour. Either half may be empty: count 0. The n-th nonempty half
 * that a rank sends with a tag belongs to the n-th that the peer receives with it. Both must have
 * the same number of bytes. Types need not be committed. */
struct hk_halo_edge {
	int peer; /* a rank of the communicator, this rank itself, or MPI_PROC_NULL: no exchange */
	int tag;  /* 0 or more */
	const void *send;
	int send_count; /* elements */
	MPI_Datatype send_type;
	void *recv;
	int recv_count; /* elements */
	MPI_Datatype recv_type;
};

/* Collective over @comm: describes the exchange and connects the neighbours. Several edges to one
 * neighbour become one message. It fails if halves do not match, if an address is null, or if a
 * receive buffer overlaps another buffer. The message names ranks and edge. (It does not see an
 * overlap in types whose layout only MPI knows: distributed arrays, pairs with holes.) */
HK_HALO_API int hk_halo_setup(MPI_Comm comm, int n, const struct hk_halo_edge *edges, hk_halo *h);

/* Starts an exchange: sends to the neighbours, and allows them to write. -EBUSY: an exchange is
 * under way. */
HK_HALO_API int hk_halo_put(hk_halo h);

/* Ends the exchange: all data has arrived, and the caller may change the send buffers. Returns 0 at
 * once if no exchange is under way. -ENOTCONN: a neighbour is disconnected; -ETIMEDOUT. */
HK_HALO_API int hk_halo_wait(hk_halo h);

/* Has the data that edge @i (its index at set-up) receives arrived? Polls once and does not wait.
 * 1: the caller may read it, although data of other edges may be missing. 1 also if the edge
 * receives nothing, or if no exchange is under way. 0: not yet. -EINVAL: there is no such edge. */
HK_HALO_API int hk_halo_ready(hk_halo h, int i);

/* Waits until data of at least one edge has arrived that this call has not yet reported in this
 * exchange. Writes the indices of those edges to @which and returns their number. 0: every edge
 * that receives was reported. @which has one element for each edge of the set-up. Errors as in
 * hk_halo_wait(), which the caller must still call. */
HK_HALO_API int hk_halo_wait_some(hk_halo h, int *which);

/* Collective: ends an exchange that is under way and frees everything, even if the exchange failed.
 * Returns the result of that wait; nothing writes to the receive buffers any longer. *@h becomes
 * NULL; *@h may be NULL. It must be called before MPI_Finalize, otherwise it returns -EINVAL and
 * frees nothing.
 * After a failure MPI may be unable to cancel a message that the neighbour does not receive. Then
 * MPI may read the send buffer later, stderr reports it, and MPI_Finalize frees the library's
 * communicator. */
HK_HALO_API int hk_halo_free(hk_halo *h);

/* This thread's last error and how to fix it. Valid until the thread's next call. */
HK_HALO_API const char *hk_halo_error(void);

/* The transport to @peer: "worker", "libfabric", "mpi" or "self"; NULL if @peer is not a neighbour.
 * *@why, if @why is not NULL, becomes the reason. Both texts are valid until hk_halo_free(). */
HK_HALO_API const char *hk_halo_transport(hk_halo h, int peer, const char **why);

/* Makes the next collective call fail on all ranks, so that none waits. A wrapper in another
 * language calls it when its own caller passed a wrong argument on this rank. This thread's next
 * hk_halo_setup(), hk_halo_cart(), hk_halo_csr() or hk_halo_csr_setup() returns -EINVAL with the
 * text @message (up to 399 bytes, copied). It reads no argument except the communicator or plan. */
HK_HALO_API void hk_halo_refuse_next(const char *message);

/* ---- builders: the edges of grids and matrices ----------------------------------------------- */

enum hk_halo_stencil {
	HK_HALO_STAR, /* neighbours across faces: enough for a 5- or 7-point stencil */
	HK_HALO_BOX,  /* neighbours across edges and corners too: 9 and 27 points */
};

/* Collective: the exchange of a grid that is cut into boxes, one for each rank. MPI_Cart_create
 * made @cart, with at most HK_HALO_DIMS dimensions, periodic or not.
 *
 * In each dimension d a rank has @interior[d] cells of its own and @width[d] ghosts on either side
 * (0: no exchange in d). So a field has interior + 2 * width elements. @order is MPI_ORDER_C (the
 * last dimension varies fastest) or MPI_ORDER_FORTRAN. A rank has at least @width[d] cells; ranks
 * that are side by side have the same number of cells in the other dimensions.
 *
 * One message to each neighbour carries all @fields. The call keeps none of the arrays; the memory
 * of the fields belongs to the caller, as with edges. */
#define HK_HALO_DIMS 4
HK_HALO_API int hk_halo_cart(MPI_Comm cart, const int *interior, const int *width,
			     enum hk_halo_stencil stencil, int order, int fields,
			     void *const *field, MPI_Datatype element, hk_halo *h);

/* The elements of a vector that each rank needs from the others, where the ranks hold the rows of a
 * sparse matrix. */
typedef struct hk_halo_csr_plan *hk_halo_csr_plan;

/* Collective: finds the ghosts of this rank. Rows are numbered from rank to rank; this rank has
 * @rows of them. They have @entries nonzero elements, with the global column numbers @column (the
 * column array of CSR). A column that is another rank's row is a *ghost*. *@ghosts becomes the
 * number of ghosts. @local[k] becomes the place of element k's column in this rank's vector. Places
 * 0 to rows - 1 are the rank's own; the ghosts follow in the order of their global numbers. The
 * plan keeps neither array. */
HK_HALO_API int hk_halo_csr(MPI_Comm comm, int rows, long long entries, const long long *column,
			    int *local, int *ghosts, hk_halo_csr_plan *plan);

/* Collective: the exchange for @fields vectors of rows + ghosts elements each. Each rank sends its
 * elements to the ranks that need them and receives its ghosts. One plan may be used for several
 * exchanges. */
HK_HALO_API int hk_halo_csr_setup(hk_halo_csr_plan plan, int fields, void *const *vector,
				  MPI_Datatype element, hk_halo *h);

/* Collective. Exchanges that were made from the plan stay valid. */
HK_HALO_API void hk_halo_csr_free(hk_halo_csr_plan *plan);

#ifdef __cplusplus
}
#endif

#endif

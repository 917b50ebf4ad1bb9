/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/cart.c: the edges of a grid that is cut into boxes.
 *
 * DESIGN NOTES
 *
 * Data moves in directions: vectors of -1, 0 and 1, not all 0. The data that a rank sends in
 * direction v reaches the neighbour there from direction -v. Both ends use the number of v as the
 * edge's tag. So a rank can tell its left neighbour from its right one even if both are the same
 * rank. That is so on a ring of two ranks, and of one.
 */
#include "halo/api/internal.h"

#include <errno.h>
#include <stdlib.h>

struct grid {
	int n; /* dimensions */
	int dims[HK_HALO_DIMS], periods[HK_HALO_DIMS], coords[HK_HALO_DIMS];
	const int *interior, *width;
	int order;
	MPI_Comm cart;
	MPI_Datatype element;
};

/* @v becomes direction @k of 3^n. False if no data moves in that direction. */
static bool direction(const struct grid *g, enum hk_halo_stencil stencil, int k, int *v)
{
	int moves = 0;

	for (int d = 0; d < g->n; d++, k /= 3) {
		v[d] = k % 3 - 1;
		moves += v[d] != 0;
		if (v[d] && g->width[d] == 0)
			return false;
	}
	return moves == 1 || (moves > 1 && stencil == HK_HALO_BOX);
}

/* The rank at @sign * @v from this one; MPI_PROC_NULL beyond the border. */
static int rank_at(const struct grid *g, const int *v, int sign)
{
	int at[HK_HALO_DIMS], rank;

	for (int d = 0; d < g->n; d++) {
		at[d] = g->coords[d] + sign * v[d];
		if ((at[d] < 0 || at[d] >= g->dims[d]) && !g->periods[d])
			return MPI_PROC_NULL;
	}
	MPI_Cart_rank(g->cart, at, &rank);
	return rank;
}

/* The cells that a rank sends in direction @v: its outermost own cells. Or, with @recv, those that
 * it receives: the ghosts on the side from which they come. */
static MPI_Datatype part(const struct grid *g, const int *v, bool recv)
{
	int size[HK_HALO_DIMS], sub[HK_HALO_DIMS], start[HK_HALO_DIMS];
	MPI_Datatype t;

	for (int d = 0; d < g->n; d++) {
		int w = g->width[d], n = g->interior[d];

		size[d] = n + 2 * w;
		sub[d] = v[d] ? w : n;
		start[d] = v[d] == 0 ? w : v[d] > 0 ? (recv ? 0 : n) : (recv ? w + n : w);
	}
	MPI_Type_create_subarray(g->n, size, sub, start, g->order, g->element, &t);
	MPI_Type_commit(&t);
	return t;
}

static int edges_of(const struct grid *g, enum hk_halo_stencil stencil, int fields,
		    void *const *field, struct hk_halo_edge *e)
{
	int all = 1, n = 0, v[HK_HALO_DIMS];

	for (int d = 0; d < g->n; d++)
		all *= 3;
	for (int k = 0; k < all; k++) {
		if (!direction(g, stencil, k, v))
			continue;
		int to = rank_at(g, v, 1), from = rank_at(g, v, -1);
		MPI_Datatype send = part(g, v, false), recv = part(g, v, true);

		for (int f = 0; f < fields; f++) {
			int tag = f * all + k;

			e[n++] = (struct hk_halo_edge){.peer = to,
						       .tag = tag,
						       .send = field[f],
						       .send_count = 1,
						       .send_type = send,
						       .recv_type = recv};
			e[n++] = (struct hk_halo_edge){.peer = from,
						       .tag = tag,
						       .send_type = send,
						       .recv = field[f],
						       .recv_count = 1,
						       .recv_type = recv};
		}
		if (fields == 0) {
			MPI_Type_free(&send);
			MPI_Type_free(&recv);
		}
	}
	return n;
}

/* Returns the error in this rank's arguments, or NULL. */
static const char *wrong(const struct grid *g, int order, int fields, void *const *field)
{
	if (order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN)
		return "the order is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN";
	if (fields < 1 || !field)
		return "the number of fields is less than 1";
	for (int f = 0; f < fields; f++)
		if (!field[f])
			return "a field has no address";
	for (int d = 0; d < g->n; d++)
		if (g->width[d] < 0 || g->interior[d] < 1 || g->interior[d] < g->width[d])
			return "a dimension has fewer cells than ghosts, or a negative width";
	return NULL;
}

int hk_halo_cart(MPI_Comm cart, const int *interior, const int *width, enum hk_halo_stencil stencil,
		 int order, int fields, void *const *field, MPI_Datatype element, hk_halo *h)
{
	struct grid g = {.interior = interior,
			 .width = width,
			 .order = order,
			 .cart = cart,
			 .element = element};
	int topo, all = 1, rank, rc;
	const char *refusal = hk_halo_refusal_take();

	*h = NULL;
	MPI_Topo_test(cart, &topo);
	if (topo != MPI_CART)
		return hk_halo_fail(
			-EINVAL,
			"the communicator has no Cartesian topology; fix: MPI_Cart_create()");
	MPI_Cartdim_get(cart, &g.n);
	if (g.n < 1 || g.n > HK_HALO_DIMS)
		return hk_halo_fail(-EINVAL, "the grid has %d dimensions; fix: 1 to %d", g.n,
				    HK_HALO_DIMS);
	MPI_Cart_get(cart, g.n, g.dims, g.periods, g.coords);
	MPI_Comm_rank(cart, &rank);
	if (refusal)
		return hk_halo_refuse(cart, h, "rank %d: %s", rank, refusal);
	for (int d = 0; d < g.n; d++)
		all *= 3;
	const char *no = wrong(&g, order, fields, field);
	size_t most = 2 * (size_t)all * (size_t)(fields > 0 ? fields : 1);
	struct hk_halo_edge *e = no ? NULL : malloc(most * sizeof(*e));

	if (!e)
		return hk_halo_refuse(cart, h, "rank %d: %s; fix: see hk_halo_cart() in halo.h",
				      rank, no ? no : "no memory for edges");
	int n = edges_of(&g, stencil, fields, field, e);

	rc = hk_halo_setup(cart, n, e, h);
	for (int k = 0; k < n; k += 2 * fields) {
		MPI_Type_free(&e[k].send_type);
		MPI_Type_free(&e[k].recv_type);
	}
	free(e);
	return rc;
}

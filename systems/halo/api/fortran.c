/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/fortran.c: the functions that hk_halo.f90 calls. They take Fortran's integers in place
 * of MPI's handles.
 */
#include "halo/api/internal.h"

#include <errno.h>
#include <stdlib.h>

/* type(hk_edge) of hk_halo.f90 */
struct hk_halo_edge_f {
	int peer, tag;
	void *send;
	int send_count, send_type;
	void *recv;
	int recv_count, recv_type;
};

HK_HALO_API int hk_halo_setup_f(int comm, int n, const struct hk_halo_edge_f *edges, hk_halo *h);
HK_HALO_API int hk_halo_cart_f(int cart, const int *interior, const int *width, int stencil,
			       int fields, void *const *field, int element, hk_halo *h);
HK_HALO_API int hk_halo_csr_f(int comm, int rows, long long entries, const long long *column,
			      int *local, int *ghosts, hk_halo_csr_plan *plan);
HK_HALO_API int hk_halo_csr_setup_f(hk_halo_csr_plan plan, int fields, void *const *vector,
				    int element, hk_halo *h);
HK_HALO_API int hk_halo_cart_dims_f(int cart);
HK_HALO_API int hk_halo_wait_some_f(hk_halo h, int len, int *which);
HK_HALO_API int hk_halo_error_f(char *text, int len);

int hk_halo_setup_f(int comm, int n, const struct hk_halo_edge_f *edges, hk_halo *h)
{
	MPI_Comm c = MPI_Comm_f2c(comm);
	struct hk_halo_edge *e = n > 0 ? malloc((size_t)n * sizeof(*e)) : NULL;

	if (n > 0 && !e)
		return hk_halo_refuse(c, h, "out of memory for %d edges; fix: use fewer", n);
	for (int k = 0; k < n; k++)
		e[k] = (struct hk_halo_edge){edges[k].peer,
					     edges[k].tag,
					     edges[k].send,
					     edges[k].send_count,
					     MPI_Type_f2c(edges[k].send_type),
					     edges[k].recv,
					     edges[k].recv_count,
					     MPI_Type_f2c(edges[k].recv_type)};
	int rc = hk_halo_setup(c, n, e, h);

	free(e);
	return rc;
}

int hk_halo_cart_f(int cart, const int *interior, const int *width, int stencil, int fields,
		   void *const *field, int element, hk_halo *h)
{
	return hk_halo_cart(MPI_Comm_f2c(cart), interior, width, (enum hk_halo_stencil)stencil,
			    MPI_ORDER_FORTRAN, fields, field, MPI_Type_f2c(element), h);
}

/* In Fortran, columns and places count from 1. */
int hk_halo_csr_f(int comm, int rows, long long entries, const long long *column, int *local,
		  int *ghosts, hk_halo_csr_plan *plan)
{
	long long *c = malloc(((size_t)(entries > 0 ? entries : 0) + 1) * sizeof(*c));
	int rc;

	if (!c) {
		hk_halo_refuse_next(
			"out of memory for the columns of a matrix; fix: use more ranks");
		return hk_halo_csr(MPI_Comm_f2c(comm), 0, 0, NULL, local, ghosts, plan);
	}
	for (long long k = 0; k < entries; k++)
		c[k] = column[k] - 1;
	rc = hk_halo_csr(MPI_Comm_f2c(comm), rows, entries, c, local, ghosts, plan);
	for (long long k = 0; rc == 0 && k < entries; k++)
		local[k]++;
	free(c);
	return rc;
}

int hk_halo_csr_setup_f(hk_halo_csr_plan plan, int fields, void *const *vector, int element,
			hk_halo *h)
{
	return hk_halo_csr_setup(plan, fields, vector, MPI_Type_f2c(element), h);
}

/* The number of dimensions. 0 without a Cartesian topology, which hk_halo_cart() refuses. */
int hk_halo_cart_dims_f(int cart)
{
	MPI_Comm c = MPI_Comm_f2c(cart);
	int topo, dims = 0;

	MPI_Topo_test(c, &topo);
	if (topo == MPI_CART)
		MPI_Cartdim_get(c, &dims);
	return dims;
}

/* In Fortran, edges count from 1. */
int hk_halo_wait_some_f(hk_halo h, int len, int *which)
{
	if (len < h->edges)
		return hk_halo_fail(
			-EINVAL,
			"the array has %d elements for %d edges; fix: give it one for each edge",
			len, h->edges);
	int n = hk_halo_wait_some(h, which);

	for (int k = 0; k < n; k++)
		which[k]++;
	return n;
}

/* Writes the error to @text and pads it with blanks, as Fortran's strings are. */
int hk_halo_error_f(char *text, int len)
{
	const char *error = hk_halo_error();
	int n = 0;

	for (; n < len && error[n]; n++)
		text[n] = error[n];
	for (int k = n; k < len; k++)
		text[k] = ' ';
	return n;
}

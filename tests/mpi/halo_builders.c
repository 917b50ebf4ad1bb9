/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/halo_builders.c: exchanges of random grids and matrices, compared with a plain search.
 *
 * The value of an element depends on its field and its global number, so each ghost can be checked
 * by itself. Elements that no rank owns, or that the stencil does not read, must not change.
 */
#include "common.h"

#include "hikyaku/halo.h"

#define FIELDS 3
#define NONE   (-1.0)

static double value(int field, long long number, int round)
{
	return (double)(number * 8 + field) + 0.125 * round;
}

/* ---- grids ----------------------------------------------------------------------------------- */

struct grid {
	int n, dims[HK_HALO_DIMS], periods[HK_HALO_DIMS], at[HK_HALO_DIMS];
	int interior[HK_HALO_DIMS], width[HK_HALO_DIMS];
	int start[HK_HALO_DIMS], total[HK_HALO_DIMS]; /* global */
	int order, fields;
	enum hk_halo_stencil stencil;
	long long elements;
};

/* All ranks draw the same; each takes its box. */
static void grid_draw(struct hkt_rng *r, struct grid *g, MPI_Comm *cart)
{
	memset(g, 0, sizeof(*g));
	g->n = 1 + (int)hkt_below(r, HK_HALO_DIMS);
	MPI_Dims_create(hkt_size, g->n, g->dims);
	for (int d = 0; d < g->n; d++)
		g->periods[d] = (int)hkt_below(r, 2);
	MPI_Cart_create(MPI_COMM_WORLD, g->n, g->dims, g->periods, 0, cart);
	MPI_Cart_get(*cart, g->n, g->dims, g->periods, g->at);
	g->elements = 1;
	for (int d = 0; d < g->n; d++) {
		g->width[d] = (int)hkt_below(r, 3);
		for (int c = 0; c < g->dims[d]; c++) {
			int cells = 1 + g->width[d] + (int)hkt_below(r, 4);

			if (c == g->at[d]) {
				g->interior[d] = cells;
				g->start[d] = g->total[d];
			}
			g->total[d] += cells;
		}
		g->elements *= g->interior[d] + 2 * g->width[d];
	}
	g->order = hkt_below(r, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
	g->stencil = hkt_below(r, 2) ? HK_HALO_BOX : HK_HALO_STAR;
	g->fields = 1 + (int)hkt_below(r, FIELDS);
}

/* The global number of element @i of a field, or -1. *@ghosts becomes the number of dimensions in
 * which it is a ghost. */
static long long grid_number(const struct grid *g, long long i, int *ghosts)
{
	long long number = 0;
	int at[HK_HALO_DIMS];
	bool outside = false;

	for (int k = 0; k < g->n; k++) {
		int d = g->order == MPI_ORDER_C ? g->n - 1 - k : k;
		int size = g->interior[d] + 2 * g->width[d];

		at[d] = (int)(i % size);
		i /= size;
	}
	*ghosts = 0;
	for (int d = 0; d < g->n; d++) {
		int x = g->start[d] + at[d] - g->width[d];

		*ghosts += at[d] < g->width[d] || at[d] >= g->width[d] + g->interior[d];
		if (x < 0 || x >= g->total[d])
			outside |= !g->periods[d];
		number = number * g->total[d] + (x + g->total[d]) % g->total[d];
	}
	return outside ? -1 : number;
}

static void grid(uint64_t seed, int round)
{
	struct hkt_rng r = {hkt_key(seed, 1, (uint64_t)round, 0)};
	double *field[FIELDS];
	struct grid g;
	MPI_Comm cart;
	hk_halo h;
	int ghosts;

	hkt_at("grid %d", round);
	grid_draw(&r, &g, &cart);
	for (int f = 0; f < g.fields; f++)
		field[f] = hkt_alloc(sizeof(double) * (size_t)g.elements);
	HKT_CHECK(hk_halo_cart(cart, g.interior, g.width, g.stencil, g.order, g.fields,
			       (void *const *)field, MPI_DOUBLE, &h) == 0,
		  "grid %d: %s", round, hk_halo_error());
	for (int x = 0; x < 3; x++) {
		for (int f = 0; f < g.fields; f++)
			for (long long i = 0; i < g.elements; i++) {
				long long number = grid_number(&g, i, &ghosts);

				field[f][i] = ghosts ? NONE : value(f, number, x);
			}
		HKT_CHECK(hk_halo_put(h) == 0 && hk_halo_wait(h) == 0, "%s", hk_halo_error());
		for (int f = 0; f < g.fields; f++)
			for (long long i = 0; i < g.elements; i++) {
				long long number = grid_number(&g, i, &ghosts);
				bool comes = number >= 0 &&
					     (ghosts <= 1 || g.stencil == HK_HALO_BOX);
				double want = comes ? value(f, number, x) : NONE;

				HKT_CHECK(field[f][i] == want,
					  "grid %d, field %d, element %lld (number %lld, %d "
					  "ghosts): %g, not %g",
					  round, f, i, number, ghosts, field[f][i], want);
			}
	}
	HKT_CHECK(hk_halo_free(&h) == 0, "%s", hk_halo_error());
	for (int f = 0; f < g.fields; f++)
		free(field[f]);
	MPI_Comm_free(&cart);
}

/* ---- matrices -------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
	long long x = *(const long long *)a, y = *(const long long *)b;

	return x < y ? -1 : x > y;
}

static void matrix(uint64_t seed, int round)
{
	struct hkt_rng all = {hkt_key(seed, 2, (uint64_t)round, 0)},
		       r = {hkt_key(seed, 3, (uint64_t)round, (uint64_t)hkt_rank)};
	int rows = 0, first = 0, total = 0, ghosts, fields = 1 + (int)hkt_below(&all, FIELDS),
	    fewer = 0;
	double *x[FIELDS];
	hk_halo_csr_plan plan;
	hk_halo h;

	hkt_at("matrix %d", round);
	for (int k = 0; k < hkt_size; k++) {
		int n = hkt_below(&all, 5) ? (int)hkt_below(&all, 200) : 0;

		if (k == hkt_rank) {
			rows = n;
			first = total;
		}
		total += n;
	}
	long long entries = total ? (long long)hkt_below(&r, 600) : 0;
	long long *column = hkt_alloc(sizeof(*column) * (size_t)entries),
		  *sorted = hkt_alloc(sizeof(*sorted) * (size_t)entries);
	int *local = hkt_alloc(sizeof(*local) * (size_t)entries);

	for (long long k = 0; k < entries; k++)
		sorted[k] = column[k] = (long long)hkt_below(&r, (uint64_t)total);
	HKT_CHECK(hk_halo_csr(MPI_COMM_WORLD, rows, entries, column, local, &ghosts, &plan) == 0,
		  "%s", hk_halo_error());
	/* a plain search: the number of columns of other ranks */
	qsort(sorted, (size_t)entries, sizeof(*sorted), by_number);
	for (long long k = 0; k < entries; k++)
		fewer += (sorted[k] < first || sorted[k] >= first + rows) &&
			 (k == 0 || sorted[k] != sorted[k - 1]);
	HKT_CHECK(ghosts == fewer, "matrix %d: %d ghosts, not %d", round, ghosts, fewer);
	for (int f = 0; f < fields; f++)
		x[f] = hkt_alloc(sizeof(double) * (size_t)(rows + ghosts));
	HKT_CHECK(hk_halo_csr_setup(plan, fields, (void *const *)x, MPI_DOUBLE, &h) == 0, "%s",
		  hk_halo_error());
	hk_halo_csr_free(&plan);
	for (int t = 0; t < 3; t++) {
		for (int f = 0; f < fields; f++)
			for (int k = 0; k < rows + ghosts; k++)
				x[f][k] = k < rows ? value(f, first + k, t) : NONE;
		HKT_CHECK(hk_halo_put(h) == 0 && hk_halo_wait(h) == 0, "%s", hk_halo_error());
		for (int f = 0; f < fields; f++)
			for (long long k = 0; k < entries; k++)
				HKT_CHECK(local[k] < rows + ghosts &&
						  x[f][local[k]] == value(f, column[k], t),
					  "matrix %d, entry %lld, column %lld: %g, not %g", round,
					  k, column[k], x[f][local[k]], value(f, column[k], t));
	}
	HKT_CHECK(hk_halo_free(&h) == 0, "%s", hk_halo_error());
	for (int f = 0; f < fields; f++)
		free(x[f]);
	free(column);
	free(sorted);
	free(local);
}

/* ---- wrong arguments ------------------------------------------------------------------------- */

static void wrong(void)
{
	int period = 0, n = 4, few = 1, width = 2, ghosts, local;
	long long column = hkt_rank == hkt_size - 1 ? hkt_size : 0; /* one row a rank */
	double room[8];
	void *field = room;
	hk_halo_csr_plan plan;
	MPI_Comm cart;
	hk_halo h;

	HKT_CHECK(hk_halo_cart(MPI_COMM_WORLD, &n, &width, HK_HALO_STAR, MPI_ORDER_C, 1, &field,
			       MPI_DOUBLE, &h) != 0 &&
			  strstr(hk_halo_error(), "no Cartesian topology"),
		  "%s", hk_halo_error());
	MPI_Cart_create(MPI_COMM_WORLD, 1, &hkt_size, &period, 0, &cart);
	HKT_CHECK(hk_halo_cart(cart, hkt_rank ? &n : &few, &width, HK_HALO_STAR, MPI_ORDER_C, 1,
			       &field, MPI_DOUBLE, &h) != 0 &&
			  strstr(hk_halo_error(), "rank 0: a dimension has fewer"),
		  "%s", hk_halo_error());
	MPI_Comm_free(&cart);
	HKT_CHECK(hk_halo_csr(MPI_COMM_WORLD, 1, 1, &column, &local, &ghosts, &plan) != 0 &&
			  !plan && strstr(hk_halo_error(), "entry in a column without a row"),
		  "%s", hk_halo_error());
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "halo_builders", MPI_THREAD_SINGLE);
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 30;

	for (int k = 0; k < rounds; k++) {
		grid(hkt_opt.seed, k);
		matrix(hkt_opt.seed, k);
	}
	wrong();
	return hkt_finish();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/spmv/problem.c: the matrix and its partition.
 */
#include "problem.h"

#include <metis.h>
#include <stdlib.h>
#include <string.h>

/* The columns of original row @row, ascending. Returns their number. */
static int row_of(int n, long long row, long long *column)
{
	int x = (int)(row % n), y = (int)(row / n % n), z = (int)(row / n / n), k = 0;

	for (int dz = -1; dz <= 1; dz++)
		for (int dy = -1; dy <= 1; dy++)
			for (int dx = -1; dx <= 1; dx++) {
				int i = x + dx, j = y + dy, l = z + dz;

				if (i >= 0 && j >= 0 && l >= 0 && i < n && j < n && l < n)
					column[k++] = ((long long)l * n + j) * n + i;
			}
	return k;
}

static double value_of(long long row, long long column)
{
	return row == column ? 26.0 : -1.0;
}

void matrix_serial(int n, const double *x, double *y)
{
	long long rows = (long long)n * n * n, column[27];

	for (long long r = 0; r < rows; r++) {
		int k = row_of(n, r, column);

		y[r] = 0;
		for (int i = 0; i < k; i++)
			y[r] += value_of(r, column[i]) * x[column[i]];
	}
}

/* part[row] by METIS, which minimises the edges between parts. */
static const char *by_metis(int n, int parts, idx_t *part)
{
	idx_t rows = (idx_t)n * n * n, one = 1, k = parts, cut;
	idx_t *start = malloc(((size_t)rows + 1) * sizeof(*start)),
	      *to = malloc((size_t)rows * 26 * sizeof(*to));
	const char *why = NULL;

	if (!start || !to) {
		why = "no memory for METIS";
	} else {
		start[0] = 0;
		for (idx_t r = 0; r < rows; r++) {
			long long column[27];
			int c = row_of(n, r, column);

			start[r + 1] = start[r];
			for (int i = 0; i < c; i++)
				if (column[i] != r)
					to[start[r + 1]++] = (idx_t)column[i];
		}
		if (METIS_PartGraphKway(&rows, &one, start, to, NULL, NULL, NULL, &k, NULL, NULL,
					NULL, &cut, part) != METIS_OK)
			why = "METIS failed";
	}
	free(start);
	free(to);
	return why;
}

/* number[row]: the new number of each row. Part 0 has the first numbers, part 1 the next, and so
 * on. */
static void number_by_part(long long rows, int parts, const idx_t *part, long long *number,
			   long long *first)
{
	memset(first, 0, ((size_t)parts + 1) * sizeof(*first));
	for (long long r = 0; r < rows; r++)
		first[part[r] + 1]++;
	for (int p = 0; p < parts; p++)
		first[p + 1] += first[p];
	for (long long r = 0; r < rows; r++)
		number[r] = first[part[r]]++;
	for (int p = parts; p > 0; p--)
		first[p] = first[p - 1];
	first[0] = 0;
}

static struct matrix *fill(int n, int rank, const long long *number, const long long *first,
			   const idx_t *part)
{
	long long all = (long long)n * n * n, k = 0;
	struct matrix *m = calloc(1, sizeof(*m));
	size_t rows = (size_t)(first[rank + 1] - first[rank]);

	if (!m)
		return NULL;
	*m = (struct matrix){.n = n, .rows = (int)rows, .first = first[rank]};
	m->original = malloc((rows + 1) * sizeof(*m->original));
	m->start = malloc((rows + 1) * sizeof(*m->start));
	m->column = malloc((rows * 27 + 1) * sizeof(*m->column));
	m->value = malloc((rows * 27 + 1) * sizeof(*m->value));
	if (!m->original || !m->start || !m->column || !m->value) {
		matrix_free(m);
		return NULL;
	}
	m->start[0] = 0;
	for (long long r = 0; r < all; r++) {
		if (part[r] != rank)
			continue;
		long long column[27];
		int c = row_of(n, r, column);

		m->original[k] = r;
		m->start[k + 1] = m->start[k] + c;
		for (int i = 0; i < c; i++) {
			m->column[m->start[k] + i] = number[column[i]];
			m->value[m->start[k] + i] = value_of(r, column[i]);
		}
		k++;
	}
	return m;
}

static const char *too_large(int n)
{
	return n > MATRIX_EDGE_MAX ? "the cube is larger than 430 points along an edge" : NULL;
}

/* The part of each row. */
static const char *partition(int n, int parts, int metis, idx_t *part)
{
	long long all = (long long)n * n * n;

	if (metis && parts > 1)
		return by_metis(n, parts, part);
	for (long long r = 0; r < all; r++)
		part[r] = (idx_t)(r * parts / all);
	return NULL;
}

/* Rows of @n^3 whose columns other parts need, by the part that has the row and by the other. */
static void count_ghosts(int n, int parts, const idx_t *part, long long *elements)
{
	long long all = (long long)n * n * n, column[27];

	memset(elements, 0, (size_t)parts * (size_t)parts * sizeof(*elements));
	for (long long r = 0; r < all; r++) {
		int c = row_of(n, r, column), others = 0;
		idx_t other[27];

		/* the pattern is symmetric: the rows that need this element are its columns */
		for (int i = 0, k; i < c; i++) {
			idx_t p = part[column[i]];

			for (k = 0; k < others && other[k] != p; k++)
				;
			if (p == part[r] || k < others)
				continue;
			other[others++] = p;
			elements[(size_t)part[r] * (size_t)parts + (size_t)p]++;
		}
	}
}

const char *matrix_messages(int n, int parts, int metis, long long *elements)
{
	const char *why = too_large(n);
	idx_t *part = why ? NULL : malloc((size_t)n * (size_t)n * (size_t)n * sizeof(*part));

	if (!why)
		why = part ? partition(n, parts, metis, part) : "no memory for the partition";
	if (!why)
		count_ghosts(n, parts, part, elements);
	free(part);
	return why;
}

struct matrix *matrix_make(MPI_Comm comm, int n, int metis, const char **why)
{
	long long all = (long long)n * n * n;

	*why = too_large(n);
	if (*why)
		return NULL;
	idx_t *part = malloc((size_t)all * sizeof(*part));
	long long *number = malloc((size_t)all * sizeof(*number)), *first;
	struct matrix *m = NULL;
	int rank, size, bad, any;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	first = malloc(((size_t)size + 1) * sizeof(*first));
	*why = part && number && first ? NULL : "no memory for the partition";
	if (!*why && (rank == 0 || !metis))
		*why = partition(n, size, metis, part);
	bad = *why != NULL;
	MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, comm);
	if (!any) {
		if (metis)
			MPI_Bcast(part, (int)((size_t)all * sizeof(*part)), MPI_BYTE, 0, comm);
		number_by_part(all, size, part, number, first);
		m = fill(n, rank, number, first, part);
		*why = m ? NULL : "no memory for the matrix";
	} else if (!*why) {
		*why = "another rank failed";
	}
	free(part);
	free(number);
	free(first);
	return m;
}

void matrix_free(struct matrix *m)
{
	if (!m)
		return;
	free(m->original);
	free(m->start);
	free(m->column);
	free(m->value);
	free(m);
}

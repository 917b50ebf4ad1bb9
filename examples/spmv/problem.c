/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/spmv/problem.c: the matrix and its partition.
 */
#include "market.h"
#include "problem.h"

#include <metis.h>
#include <stdbool.h>
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

_Static_assert(sizeof(idx_t) == sizeof(int), "METIS with numbers of 32 bits");

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
static const char *by_metis(idx_t rows, idx_t *start, idx_t *to, int parts, idx_t *part)
{
	idx_t one = 1, k = parts, cut;
	bool ok = METIS_PartGraphKway(&rows, &one, start, to, NULL, NULL, NULL, &k, NULL, NULL,
				      NULL, &cut, part) == METIS_OK;

	free(start);
	free(to);
	return ok ? NULL : "METIS failed";
}

static const char *cube_by_metis(int n, int parts, idx_t *part)
{
	idx_t rows = (idx_t)n * n * n;
	idx_t *start = malloc(((size_t)rows + 1) * sizeof(*start)),
	      *to = malloc((size_t)rows * 26 * sizeof(*to));

	if (!start || !to) {
		free(start);
		free(to);
		return "no memory for METIS";
	}
	start[0] = 0;
	for (idx_t r = 0; r < rows; r++) {
		long long column[27];
		int c = row_of(n, r, column);

		start[r + 1] = start[r];
		for (int i = 0; i < c; i++)
			if (column[i] != r)
				to[start[r + 1]++] = (idx_t)column[i];
	}
	return by_metis(rows, start, to, parts, part);
}

static const char *file_by_metis(const struct market *file, int parts, idx_t *part)
{
	int *start, *to;

	if (market_graph(file, &start, &to) != 0)
		return "no memory for METIS";
	return by_metis(file->rows, start, to, parts, part);
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

/* The whole matrix: a file's, or the one of the cube with an edge of @n points. */
struct source {
	const struct market *file; /* NULL: the cube */
	int n;
};

static long long rows_of(const struct source *s)
{
	return s->file ? s->file->rows : (long long)s->n * s->n * s->n;
}

/* The number of entries of an original row. Of the cube, @column gets their columns. */
static int entries_of(const struct source *s, long long row, long long *column)
{
	return s->file ? s->file->start[row + 1] - s->file->start[row] : row_of(s->n, row, column);
}

static struct matrix *fill(const struct source *s, int rank, const long long *number,
			   const long long *first, const idx_t *part)
{
	long long all = rows_of(s), k = 0, column[27];
	size_t entries = 0;
	struct matrix *m = calloc(1, sizeof(*m));
	size_t rows = (size_t)(first[rank + 1] - first[rank]);

	if (!m)
		return NULL;
	*m = (struct matrix){.n = s->n, .rows = (int)rows, .first = first[rank]};
	for (long long r = 0; r < all; r++)
		if (part[r] == rank)
			entries += (size_t)entries_of(s, r, column);
	m->original = malloc((rows + 1) * sizeof(*m->original));
	m->start = malloc((rows + 1) * sizeof(*m->start));
	m->column = malloc((entries + 1) * sizeof(*m->column));
	m->value = malloc((entries + 1) * sizeof(*m->value));
	if (!m->original || !m->start || !m->column || !m->value) {
		matrix_free(m);
		return NULL;
	}
	m->start[0] = 0;
	for (long long r = 0; r < all; r++) {
		if (part[r] != rank)
			continue;
		int c = entries_of(s, r, column), at = s->file ? s->file->start[r] : 0;

		m->original[k] = r;
		m->start[k + 1] = m->start[k] + c;
		for (int i = 0; i < c; i++) {
			long long of = s->file ? s->file->column[at + i] : column[i];

			m->column[m->start[k] + i] = number[of];
			m->value[m->start[k] + i] = s->file ? s->file->value[at + i]
							    : value_of(r, of);
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
static const char *partition(const struct source *s, int parts, int metis, idx_t *part)
{
	long long all = rows_of(s);

	if (metis && parts > 1)
		return s->file ? file_by_metis(s->file, parts, part)
			       : cube_by_metis(s->n, parts, part);
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
		why = part ? partition(&(struct source){.n = n}, parts, metis, part)
			   : "no memory for the partition";
	if (!why)
		count_ghosts(n, parts, part, elements);
	free(part);
	return why;
}

static struct matrix *cut(MPI_Comm comm, const struct source *s, int metis, const char **why)
{
	long long all = rows_of(s);
	idx_t *part = malloc((size_t)all * sizeof(*part));
	long long *number = malloc((size_t)all * sizeof(*number)), *first;
	struct matrix *m = NULL;
	int rank, size, bad, any;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	first = malloc(((size_t)size + 1) * sizeof(*first));
	*why = part && number && first ? NULL : "no memory for the partition";
	if (!*why && (rank == 0 || !metis))
		*why = partition(s, size, metis, part);
	bad = *why != NULL;
	MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, comm);
	if (!any) {
		if (metis)
			MPI_Bcast(part, (int)((size_t)all * sizeof(*part)), MPI_BYTE, 0, comm);
		number_by_part(all, size, part, number, first);
		m = fill(s, rank, number, first, part);
		*why = m ? NULL : "no memory for the matrix";
	} else if (!*why) {
		*why = "another rank failed";
	}
	free(part);
	free(number);
	free(first);
	return m;
}

struct matrix *matrix_make(MPI_Comm comm, int n, int metis, const char **why)
{
	*why = too_large(n);
	return *why ? NULL : cut(comm, &(struct source){.n = n}, metis, why);
}

struct matrix *matrix_read(MPI_Comm comm, const char *path, int metis, const char **why)
{
	static char text[512];
	struct market file;
	struct matrix *m = NULL;
	int bad = market_read(path, &file, text, sizeof(text)), any;

	*why = bad ? text : "another rank cannot read the file";
	MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MIN, comm);
	if (!any)
		m = cut(comm, &(struct source){.file = &file}, metis, why);
	if (!bad)
		market_free(&file);
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/spmv/market.c: see market.h.
 */
#include "market.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LINE        1025          /* the format's limit, and the end of a line */
#define ENTRIES_MAX (INT_MAX / 4) /* of a file; its graph has up to four times as many */

struct entry {
	int row, column;
	double value;
};

struct reader {
	FILE *in;
	char line[LINE + 1];
	unsigned long number; /* of the line */
	int pattern, symmetric;
};

/* The next line that is not empty or a comment. */
static int next_line(struct reader *r)
{
	while (fgets(r->line, sizeof(r->line), r->in)) {
		const char *c = r->line;

		r->number++;
		/* a line beyond the format's limit, or with a zero in it */
		if (!strchr(c, '\n') && !feof(r->in))
			return 0;
		while (isspace((unsigned char)*c))
			c++;
		if (*c && *c != '%')
			return 1;
	}
	return 0;
}

/* %%MatrixMarket matrix coordinate TYPE SYMMETRY */
static const char *read_head(struct reader *r)
{
	char type[16], symmetry[16], object[16], format[16], more[2];

	r->number = 1;
	if (!fgets(r->line, sizeof(r->line), r->in) ||
	    strncasecmp(r->line, "%%MatrixMarket ", 15) != 0 ||
	    sscanf(r->line + 15, "%15s %15s %15s %15s %1s", object, format, type, symmetry, more) !=
		    4)
		return "does not begin with '%%MatrixMarket matrix coordinate TYPE SYMMETRY'";
	r->pattern = strcasecmp(type, "pattern") == 0;
	r->symmetric = strcasecmp(symmetry, "symmetric") == 0;
	if (strcasecmp(object, "matrix") != 0 || strcasecmp(format, "coordinate") != 0 ||
	    (!r->pattern && strcasecmp(type, "real") != 0 && strcasecmp(type, "integer") != 0) ||
	    (!r->symmetric && strcasecmp(symmetry, "general") != 0))
		return "is not a matrix of coordinates, real, integer or pattern, general or "
		       "symmetric";
	return NULL;
}

/* Reads a number from @low to @high, and moves @c behind it. */
static int read_int(char **c, long low, long high, int *value)
{
	char *end;

	errno = 0;
	long v = strtol(*c, &end, 10);

	if (errno || end == *c || v < low || v > high || (*end && !isspace((unsigned char)*end)))
		return 0;
	*c = end;
	*value = (int)v;
	return 1;
}

static int at_end(const char *c)
{
	while (isspace((unsigned char)*c))
		c++;
	return *c == 0;
}

static const char *read_sizes(struct reader *r, int *rows, int *entries)
{
	char *c = r->line;
	int columns;

	if (!next_line(r) || !read_int(&c, 1, MARKET_ROWS_MAX, rows) ||
	    !read_int(&c, 1, MARKET_ROWS_MAX, &columns) || !read_int(&c, 0, ENTRIES_MAX, entries) ||
	    !at_end(c))
		return "has no sizes 'ROWS COLUMNS ENTRIES' that this program can hold";
	return *rows == columns ? NULL : "is not square";
}

static const char *read_entry(struct reader *r, int rows, struct entry *e)
{
	char *c = r->line, *end;

	if (!next_line(r))
		return "has fewer entries than its sizes say";
	if (!read_int(&c, 1, rows, &e->row) || !read_int(&c, 1, rows, &e->column))
		return "has an entry outside the matrix";
	if (r->symmetric && e->column > e->row)
		return "is symmetric, and has an entry above the diagonal";
	e->value = 1;
	if (!r->pattern) {
		e->value = strtod(c, &end);
		if (end == c || !isfinite(e->value))
			return "has an entry without a finite value";
		c = end;
	}
	e->row--;
	e->column--;
	return at_end(c) ? NULL : "has more than an entry on a line";
}

static int by_place(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	return (x->column > y->column) - (x->column < y->column);
}

static const char *fill(struct market *m, struct entry *entry, int entries)
{
	qsort(entry, (size_t)entries, sizeof(*entry), by_place);
	m->start = calloc((size_t)m->rows + 1, sizeof(*m->start));
	m->column = malloc(((size_t)entries + 1) * sizeof(*m->column));
	m->value = malloc(((size_t)entries + 1) * sizeof(*m->value));
	if (!m->start || !m->column || !m->value)
		return "needs more memory";
	for (int k = 0; k < entries; k++) {
		if (k && by_place(&entry[k - 1], &entry[k]) == 0)
			return "has two entries at one place";
		m->start[entry[k].row + 1]++;
		m->column[k] = entry[k].column;
		m->value[k] = entry[k].value;
	}
	for (int r = 0; r < m->rows; r++)
		m->start[r + 1] += m->start[r];
	return NULL;
}

/* @entry: grows with the file, since its sizes may lie. */
static const char *read_entries(struct reader *r, struct market *m, struct entry **entry)
{
	int entries, n = 0, capacity = 0;
	const char *why = read_sizes(r, &m->rows, &entries);

	for (int k = 0; !why && k < entries; k++) {
		if (n + 2 > capacity) {
			capacity = capacity ? (capacity < INT_MAX / 2 ? 2 * capacity : INT_MAX)
					    : 1024;
			struct entry *more = realloc(*entry, (size_t)capacity * sizeof(**entry));

			if (!more)
				return "needs more memory";
			*entry = more;
		}
		struct entry *e = &(*entry)[n];

		why = read_entry(r, m->rows, e);
		if (why)
			break;
		n++;
		if (r->symmetric && e->row != e->column)
			(*entry)[n++] = (struct entry){e->column, e->row, e->value};
	}
	if (!why && next_line(r))
		why = "has more entries than its sizes say";
	return why ? why : fill(m, *entry, n);
}

int market_read(const char *path, struct market *m, char *why, unsigned long len)
{
	struct reader r = {.in = fopen(path, "r")};
	struct entry *entry = NULL;

	memset(m, 0, sizeof(*m));
	if (!r.in) {
		snprintf(why, len, "%s cannot be read: %s; fix: check its name", path,
			 strerror(errno));
		return -1;
	}
	const char *wrong = read_head(&r);

	if (!wrong)
		wrong = read_entries(&r, m, &entry);
	fclose(r.in);
	free(entry);
	if (!wrong)
		return 0;
	snprintf(why, len, "%s, line %lu: the file %s; fix: give a matrix that docs/halo.md allows",
		 path, r.number, wrong);
	market_free(m);
	return -1;
}

void market_free(struct market *m)
{
	free(m->start);
	free(m->column);
	free(m->value);
	memset(m, 0, sizeof(*m));
}

static int ascending(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

int market_graph(const struct market *m, int **start, int **to)
{
	size_t rows = (size_t)m->rows, entries = (size_t)m->start[m->rows];
	int *s = calloc(rows + 1, sizeof(*s)), *t = malloc((2 * entries + 1) * sizeof(*t));
	int *at = malloc((rows + 1) * sizeof(*at)), n = 0;

	*start = s;
	*to = t;
	if (!s || !t || !at) {
		free(s);
		free(t);
		free(at);
		return -1;
	}
	for (int r = 0; r < m->rows; r++)
		for (int k = m->start[r]; k < m->start[r + 1]; k++)
			if (m->column[k] != r) {
				s[r + 1]++;
				s[m->column[k] + 1]++;
			}
	for (size_t r = 0; r < rows; r++)
		s[r + 1] += s[r];
	memcpy(at, s, (rows + 1) * sizeof(*at));
	for (int r = 0; r < m->rows; r++)
		for (int k = m->start[r]; k < m->start[r + 1]; k++)
			if (m->column[k] != r) {
				t[at[r]++] = m->column[k];
				t[at[m->column[k]]++] = r;
			}
	/* an entry and its mirror image are one edge */
	for (int r = 0; r < m->rows; r++) {
		int first = s[r], end = at[r];

		qsort(t + first, (size_t)(end - first), sizeof(*t), ascending);
		s[r] = n;
		for (int k = first; k < end; k++)
			if (n == s[r] || t[n - 1] != t[k])
				t[n++] = t[k];
	}
	s[m->rows] = n;
	free(at);
	return 0;
}

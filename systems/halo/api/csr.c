/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/csr.c: the elements of a vector that each rank needs from the others, where the ranks
 * hold the rows of a sparse matrix.
 *
 * Each rank lists the columns in which it has entries and which are not its own rows: its ghosts.
 * It requests them from their owners, and each owner sends the elements that were requested. Ghosts
 * are ordered by global number, so those of one owner are adjacent.
 */
#include "halo/api/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct hk_halo_csr_plan {
	MPI_Comm comm; /* the library's own */
	struct hk_halo_comm *joined;
	int rank, size, rows, ghosts;
	long long *first; /* by rank: number of its first row; first[size]: rows of the matrix */
	long long *ghost; /* global numbers */
	int *from, *to;   /* by rank: elements received, elements sent */
	int *send;        /* local indices of the elements sent, those for rank 0 first */
};

static int by_number(const void *a, const void *b)
{
	long long x = *(const long long *)a, y = *(const long long *)b;

	return x < y ? -1 : x > y;
}

static bool mine(const struct hk_halo_csr_plan *p, long long c)
{
	return c >= p->first[p->rank] && c < p->first[p->rank + 1];
}

/* The rank that has row @c. */
static int owner(const struct hk_halo_csr_plan *p, long long c)
{
	int low = 0, high = p->size;

	while (high - low > 1) {
		int mid = low + (high - low) / 2;

		if (p->first[mid] <= c)
			low = mid;
		else
			high = mid;
	}
	return low;
}

/* Lists the ghosts in @column: sorted, each once. Returns NULL, or the error. */
static const char *list_ghosts(struct hk_halo_csr_plan *p, long long entries,
			       const long long *column)
{
	long long n = 0, most = 0;

	for (long long k = 0; k < entries; k++) {
		if (column[k] < 0 || column[k] >= p->first[p->size])
			return "has an entry in a column without a row";
		most += !mine(p, column[k]);
	}
	p->ghost = malloc(((size_t)most + 1) * sizeof(*p->ghost));
	if (!p->ghost)
		return "is out of memory for ghosts";
	for (long long k = 0; k < entries; k++)
		if (!mine(p, column[k]) && (n == 0 || p->ghost[n - 1] != column[k]))
			p->ghost[n++] = column[k];
	qsort(p->ghost, (size_t)n, sizeof(*p->ghost), by_number);
	long long ghosts = 0;

	for (long long k = 0; k < n; k++)
		if (ghosts == 0 || p->ghost[ghosts - 1] != p->ghost[k])
			p->ghost[ghosts++] = p->ghost[k];
	if (p->rows + ghosts > INT32_MAX)
		return "has more elements than an int can count";
	p->ghosts = (int)ghosts;
	return NULL;
}

static int place(const struct hk_halo_csr_plan *p, long long c)
{
	if (mine(p, c))
		return (int)(c - p->first[p->rank]);
	const long long *g = bsearch(&c, p->ghost, (size_t)p->ghosts, sizeof(c), by_number);

	return p->rows + (int)(g - p->ghost);
}

/* Collective: requests the ghosts from their owners. */
static int request_ghosts(struct hk_halo_csr_plan *p)
{
	int *at = calloc(2 * (size_t)p->size, sizeof(*at)), *to_at = at ? at + p->size : NULL;
	long long total = 0;
	bool ok = at != NULL;
	long long *asked = NULL;

	for (int k = 0; ok && k < p->ghosts; k++)
		p->from[owner(p, p->ghost[k])]++;
	MPI_Alltoall(p->from, 1, MPI_INT, p->to, 1, MPI_INT, p->comm);
	for (int r = 0; ok && r < p->size; r++) {
		at[r] = r ? at[r - 1] + p->from[r - 1] : 0;
		to_at[r] = (int)total;
		total += p->to[r];
	}
	bool few = total <= INT32_MAX;

	if (ok && few) {
		p->send = malloc(((size_t)total + 1) * sizeof(*p->send));
		asked = malloc(((size_t)total + 1) * sizeof(*asked));
	}
	int rc = 0;

	if (!few)
		rc = hk_halo_fail(-EOVERFLOW,
				  "rank %d has to send %lld elements, more than an int can count; "
				  "fix: use more "
				  "ranks",
				  p->rank, total);
	else if (!p->send || !asked)
		rc = hk_halo_fail(-ENOMEM,
				  "rank %d: out of memory for the %lld elements that it sends; "
				  "fix: use more ranks",
				  p->rank, total);
	rc = hk_halo_agree(p->comm, rc);
	if (rc)
		goto out;
	MPI_Alltoallv(p->ghost, p->from, at, MPI_LONG_LONG, asked, p->to, to_at, MPI_LONG_LONG,
		      p->comm);
	for (int k = 0; k < total; k++) /* the requesting rank has checked that the row is ours */
		p->send[k] = (int)(asked[k] - p->first[p->rank]);
out:
	free(at);
	free(asked);
	return rc;
}

void hk_halo_csr_free(hk_halo_csr_plan *plan)
{
	struct hk_halo_csr_plan *p = *plan;

	*plan = NULL;
	if (!p)
		return;
	hk_halo_comm_leave(p->joined);
	free(p->first);
	free(p->ghost);
	free(p->from);
	free(p->to);
	free(p->send);
	free(p);
}

static struct hk_halo_csr_plan *plan_new(MPI_Comm comm)
{
	struct hk_halo_csr_plan *p = calloc(1, sizeof(*p));
	size_t n;

	if (!p)
		return NULL;
	MPI_Comm_rank(comm, &p->rank);
	MPI_Comm_size(comm, &p->size);
	n = (size_t)p->size;
	p->first = calloc(n + 1, sizeof(*p->first));
	p->from = calloc(n, sizeof(*p->from));
	p->to = calloc(n, sizeof(*p->to));
	if (p->first && p->from && p->to)
		return p;
	free(p->first);
	free(p->from);
	free(p->to);
	free(p);
	return NULL;
}

int hk_halo_csr(MPI_Comm comm, int rows, long long entries, const long long *column, int *local,
		int *ghosts, hk_halo_csr_plan *plan)
{
	*plan = NULL;
	*ghosts = 0;
	int rc = hk_halo_comm_check(comm), tag;

	if (rc)
		return rc;
	struct hk_halo_csr_plan *p = plan_new(comm);
	const char *refusal = hk_halo_refusal_take(), *no = refusal;
	long long n = rows;

	if (p)
		p->joined = hk_halo_comm_join(comm, &p->comm, &tag);
	if (!p || !p->joined) {
		fprintf(stderr, "hk_halo_csr: no memory\n");
		MPI_Abort(comm, 1);
		return -ENOMEM;
	}
	p->rows = rows;
	if (!no && (rows < 0 || entries < 0))
		no = "has a negative number of rows or entries";
	n = no ? 0 : n;
	MPI_Allgather(&n, 1, MPI_LONG_LONG, p->first + 1, 1, MPI_LONG_LONG, p->comm);
	for (int r = 0; r < p->size; r++)
		p->first[r + 1] += p->first[r];
	if (!no)
		no = list_ghosts(p, entries, column);
	if (no)
		p->ghosts = 0;
	if (refusal)
		rc = hk_halo_fail(-EINVAL, "rank %d: %s", p->rank, refusal);
	else if (no)
		rc = hk_halo_fail(
			-EINVAL,
			"rank %d of the matrix %s; fix: number rows and columns from 0, from "
			"rank to rank",
			p->rank, no);
	rc = hk_halo_agree(p->comm, rc);

	if (rc == 0)
		rc = request_ghosts(p);
	if (rc) {
		hk_halo_csr_free(&p);
		return rc;
	}
	for (long long k = 0; k < entries; k++)
		local[k] = place(p, column[k]);
	*ghosts = p->ghosts;
	*plan = p;
	return 0;
}

/* A type of the elements with these indices; adjacent ones become one block. @run and @length have
 * @n elements. */
static MPI_Datatype type_of(const int *index, int n, MPI_Datatype element, int *run, int *length)
{
	MPI_Datatype t;
	int runs = 0;

	for (int k = 0; k < n; k++) {
		if (runs && run[runs - 1] + length[runs - 1] == index[k]) {
			length[runs - 1]++;
		} else {
			run[runs] = index[k];
			length[runs++] = 1;
		}
	}
	MPI_Type_indexed(runs, length, run, element, &t);
	MPI_Type_commit(&t);
	return t;
}

int hk_halo_csr_setup(hk_halo_csr_plan p, int fields, void *const *vector, MPI_Datatype element,
		      hk_halo *h)
{
	const char *refusal = hk_halo_refusal_take();

	if (refusal)
		return hk_halo_refuse(p->comm, h, "rank %d: %s", p->rank, refusal);
	struct hk_halo_edge *e = calloc(2 * (size_t)p->size * (size_t)HK_MAX(fields, 1),
					sizeof(*e));
	int n = 0, sent = 0, come = p->rows, rc, most = 0;
	MPI_Aint lb, extent;

	for (int r = 0; r < p->size; r++)
		most = HK_MAX(most, p->to[r]);
	int *run = malloc(2 * ((size_t)most + 1) * sizeof(*run)),
	    *length = run ? run + most + 1 : NULL;

	if (!e || !run || fields < 1 || !vector) {
		free(e);
		free(run);
		return hk_halo_refuse(p->comm, h, "rank %d gives %d vectors; fix: 1 or more",
				      p->rank, fields);
	}
	for (int f = 0; f < fields; f++)
		if (!vector[f] && p->rows + p->ghosts > 0) {
			free(e);
			free(run);
			return hk_halo_refuse(
				p->comm, h,
				"rank %d, vector %d has no address; fix: give each vector "
				"rows + ghosts elements",
				p->rank, f);
		}
	MPI_Type_get_extent(element, &lb, &extent);
	for (int r = 0; r < p->size; r++) {
		MPI_Datatype t = MPI_DATATYPE_NULL;

		if (p->to[r])
			t = type_of(p->send + sent, p->to[r], element, run, length);
		for (int f = 0; f < fields && (p->to[r] || p->from[r]); f++)
			e[n++] = (struct hk_halo_edge){
				r,          f,
				vector[f],  p->to[r] > 0,
				t,          (char *)vector[f] + come * extent,
				p->from[r], element};
		sent += p->to[r];
		come += p->from[r];
	}
	free(run);
	rc = hk_halo_setup(p->comm, n, e, h);
	for (int k = 0; k < n; k += fields)
		if (e[k].send_count)
			MPI_Type_free(&e[k].send_type);
	free(e);
	return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/coll_reduce.c: collectives that compute, blocking and nonblocking.
 *
 * Reduce, allreduce, scan, exscan and the two reduce-scatters, in place and not, every rank as
 * root. Operations: sum, maximum, xor, and composition of affine maps x -> ax + b. The composition
 * is associative but not commutative, so it finds ranks that are combined in a wrong order. Each
 * rank computes the expected result from all ranks' inputs, with exact arithmetic.
 */
#include "coll.h"
#include "common.h"

static MPI_Comm comm;
static int me, np;

/* One element for all operations: 64 bits; to COMPOSE they are a map (a, b) modulo 2^32. */
typedef uint64_t el;

enum op_kind { SUM, MAX, XOR, COMPOSE, OPS };
static const char *const op_name[OPS] = {"sum", "max", "xor", "compose"};
static MPI_Op op[OPS];

static el combine(enum op_kind k, el x, el y)
{
	switch (k) {
	case SUM:
		return x + y;
	case MAX:
		return x > y ? x : y;
	case XOR:
		return x ^ y;
	default: {
		uint32_t a = (uint32_t)(x >> 32), b = (uint32_t)x;
		uint32_t c = (uint32_t)(y >> 32), d = (uint32_t)y;
		return (el)(a * c) << 32 | (uint32_t)(a * d + b);
	}
	}
}

/* The MPI operation: b becomes a op b, where a comes from the lower ranks. */
static void compose(void *in, void *inout, int *len, MPI_Datatype *type)
{
	el *x = in, *y = inout;
	(void)type;
	for (int i = 0; i < *len; i++)
		y[i] = combine(COMPOSE, x[i], y[i]);
}

static el input(int rank, int i, int n)
{
	return hkt_mix(hkt_key((uint64_t)rank, (uint64_t)n, 0, 0) + (uint64_t)i) | UINT64_C(1)
											   << 32;
}

/* The result over ranks first … last at index @i of vectors of @n. */
static el expected(enum op_kind k, int first, int last, int i, int n)
{
	el x = input(first, i, n);
	for (int r = first + 1; r <= last; r++)
		x = combine(k, x, input(r, i, n));
	return x;
}

static el *vector(int n)
{
	el *v = hkt_alloc((size_t)n * sizeof(el));
	memset(v, 0x77, (size_t)n * sizeof(el));
	return v;
}

static el *inputs(int n)
{
	el *v = vector(n);
	for (int i = 0; i < n; i++)
		v[i] = input(me, i, n);
	return v;
}

/* @v holds the results at indices @at … @at + @len of a vector of @n, over ranks 0 … @last. */
static void verify(const el *v, enum op_kind k, int last, int at, int len, int n, const char *what)
{
	hkt_count(1);
	for (int i = 0; i < len; i++) {
		el want = expected(k, 0, last, at + i, n);
		if (v[i] != want)
			hkt_fail("%s %s%s: rank %d of %d in its communicator, count %d, index %d: "
				 "expected %#llx, found %#llx",
				 what, op_name[k], nonblocking ? " nonblocking" : "", me, np, n,
				 at + i, (unsigned long long)want, (unsigned long long)v[i]);
	}
}

static void reduce(enum op_kind k, int n, int root, bool in_place)
{
	el *in = inputs(n), *out = vector(n);
	bool here = in_place && me == root;

	COLL(MPI_Reduce, MPI_Ireduce, here ? MPI_IN_PLACE : (void *)in, here ? in : out, n,
	     MPI_UINT64_T, op[k], root, comm);
	if (me == root)
		verify(here ? in : out, k, np - 1, 0, n, n,
		       in_place ? "reduce in place" : "reduce");
	free(in);
	free(out);
}

static void allreduce(enum op_kind k, int n, bool in_place)
{
	el *in = inputs(n), *out = vector(n);

	COLL(MPI_Allreduce, MPI_Iallreduce, in_place ? MPI_IN_PLACE : (void *)in,
	     in_place ? in : out, n, MPI_UINT64_T, op[k], comm);
	verify(in_place ? in : out, k, np - 1, 0, n, n,
	       in_place ? "allreduce in place" : "allreduce");
	free(in);
	free(out);
}

static void scans(enum op_kind k, int n, bool in_place)
{
	el *in = inputs(n), *out = vector(n);

	COLL(MPI_Scan, MPI_Iscan, in_place ? MPI_IN_PLACE : (void *)in, in_place ? in : out, n,
	     MPI_UINT64_T, op[k], comm);
	verify(in_place ? in : out, k, me, 0, n, n, in_place ? "scan in place" : "scan");
	free(in);
	in = inputs(n);
	COLL(MPI_Exscan, MPI_Iexscan, in_place ? MPI_IN_PLACE : (void *)in, in_place ? in : out, n,
	     MPI_UINT64_T, op[k], comm);
	if (me > 0) /* rank 0's result is undefined */
		verify(in_place ? in : out, k, me - 1, 0, n, n,
		       in_place ? "exscan in place" : "exscan");
	free(in);
	free(out);
}

/* Equal blocks of @n, then blocks of n + r, with an empty one for each third rank. */
static void reduce_scatters(enum op_kind k, int n, bool in_place)
{
	int total = n * np;
	el *in = inputs(total), *out = vector(n);

	COLL(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block,
	     in_place ? MPI_IN_PLACE : (void *)in, in_place ? in : out, n, MPI_UINT64_T, op[k],
	     comm);
	verify(in_place ? in : out, k, np - 1, me * n, n, total,
	       in_place ? "reduce_scatter_block in place" : "reduce_scatter_block");
	free(in);
	free(out);

	int *counts = hkt_alloc((size_t)np * sizeof(int)), mine = 0;
	total = 0;
	for (int r = 0; r < np; r++) {
		counts[r] = r % 3 == 2 ? 0 : n + r;
		if (r < me)
			mine += counts[r];
		total += counts[r];
	}
	in = inputs(total);
	out = vector(counts[me]);
	COLL(MPI_Reduce_scatter, MPI_Ireduce_scatter, in_place ? MPI_IN_PLACE : (void *)in,
	     in_place ? in : out, counts, MPI_UINT64_T, op[k], comm);
	verify(in_place ? in : out, k, np - 1, mine, counts[me], total,
	       in_place ? "reduce_scatter in place" : "reduce_scatter");
	free(counts);
	free(in);
	free(out);
}

static void all_with_count(enum op_kind k, int n)
{
	for (int root = 0; root < np; root++) {
		reduce(k, n, root, false);
		reduce(k, n, root, true);
	}
	for (int in_place = 0; in_place < 2; in_place++) {
		allreduce(k, n, in_place);
		scans(k, n, in_place);
		reduce_scatters(k, n, in_place);
	}
}

/* Location and logical operations, local reduction. */
static void odd_ones(void)
{
	struct {
		double value;
		int at;
	} in, out;

	in.value = (double)((hkt_rank * 7 + 3) % hkt_size);
	in.at = hkt_rank;
	hkt_at("MAXLOC");
	MPI_Allreduce(&in, &out, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
	int at = 0;
	for (int r = 1; r < hkt_size; r++) {
		if ((r * 7 + 3) % hkt_size > (at * 7 + 3) % hkt_size)
			at = r;
	}
	HKT_CHECK(out.at == at, "MAXLOC: expected rank %d, found %d", at, out.at);

	el a[3] = {1, 2, 3}, b[3] = {10, 20, 30};
	MPI_Reduce_local(a, b, 3, MPI_UINT64_T, op[COMPOSE]);
	for (int i = 0; i < 3; i++)
		HKT_CHECK(b[i] == combine(COMPOSE, (el)i + 1, (el)(i + 1) * 10),
			  "Reduce_local: index %d: found %llu", i, (unsigned long long)b[i]);
}

int main(int argc, char **argv)
{
	static const int counts[] = {0, 1, 2, 3, 7, 31, 129, 181, 183, 509, 1025, 4099, 16387};

	hkt_init(&argc, &argv, "coll_reduce", MPI_THREAD_SINGLE);
	op[SUM] = MPI_SUM;
	op[MAX] = MPI_MAX;
	op[XOR] = MPI_BXOR;
	MPI_Op_create(compose, 0, &op[COMPOSE]);
	for (int reverse = 0; reverse < 2; reverse++) {
		MPI_Comm_split(MPI_COMM_WORLD, 0, reverse ? -hkt_rank : hkt_rank, &comm);
		MPI_Comm_rank(comm, &me);
		MPI_Comm_size(comm, &np);
		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
			for (int k = 0; k < OPS; k++) {
				nonblocking = false;
				all_with_count((enum op_kind)k, counts[i]);
				nonblocking = true;
				all_with_count((enum op_kind)k, counts[i]);
			}
		}
		MPI_Comm_free(&comm);
	}
	odd_ones();
	MPI_Op_free(&op[COMPOSE]);
	return hkt_finish();
}

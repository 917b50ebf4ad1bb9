/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/flatten.c: converts an MPI type to a list of memory blocks, in the order of MPI_Pack.
 *
 * It decodes the type into the types from which it was made (MPI-3.1, 4.1.13, "Decoding a
 * Datatype"). It returns -ENOTSUP for distributed arrays and for pairs with holes (MPI_DOUBLE_INT),
 * whose layout only MPI knows.
 */
#include "halo/api/internal.h"

#include <errno.h>
#include <stdlib.h>

int hk_halo_blocks_add(struct hk_halo_blocks *b, char *base, uint64_t len)
{
	struct hk_block *last = b->count ? &b->block[b->count - 1] : NULL;

	if (len == 0)
		return 0;
	if (last && last->base + last->len == base) {
		last->len += len;
		b->len += len;
		return 0;
	}
	if (b->count == b->capacity) {
		size_t capacity = b->capacity ? 2 * b->capacity : 4;
		struct hk_block *more = realloc(b->block, capacity * sizeof(*more));

		if (!more)
			return -ENOMEM;
		b->block = more;
		b->capacity = capacity;
	}
	b->block[b->count++] = (struct hk_block){base, b->len, len};
	b->len += len;
	return 0;
}

static MPI_Aint extent_of(MPI_Datatype t)
{
	MPI_Aint lb, extent;

	MPI_Type_get_extent(t, &lb, &extent);
	return extent;
}

/* Is the type not made from others, and must it not be freed? This includes the types of
 * MPI_Type_create_f90_real(), _complex() and _integer(). */
static bool is_basic(int combiner)
{
	return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
	       combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

/* The size in bytes of a basic type without holes; 0 for any other type. */
static int plain_size(MPI_Datatype t)
{
	MPI_Aint lb, extent, true_lb, true_extent;
	int size, ni, na, nd, combiner;

	MPI_Type_get_envelope(t, &ni, &na, &nd, &combiner);
	if (!is_basic(combiner))
		return 0;
	MPI_Type_size(t, &size);
	MPI_Type_get_extent(t, &lb, &extent);
	MPI_Type_get_true_extent(t, &true_lb, &true_extent);
	return size == extent && size == true_extent && true_lb == 0 ? size : 0;
}

static int basic(struct hk_halo_blocks *b, char *base, int64_t count, MPI_Datatype t)
{
	int size, plain = plain_size(t);

	if (plain)
		return hk_halo_blocks_add(b, base, (uint64_t)count * (uint64_t)plain);
	MPI_Type_size(t, &size);
	return size == 0 ? 0 : -ENOTSUP; /* a pair with a hole */
}

/* How a type was made. */
struct contents {
	int combiner, ni, na, nd;
	int plain; /* plain_size(d[0]); most types have a basic one here */
	int *i;
	MPI_Aint *a;
	MPI_Datatype *d;
};

static int contents_get(MPI_Datatype t, struct contents *c)
{
	MPI_Type_get_envelope(t, &c->ni, &c->na, &c->nd, &c->combiner);
	if (is_basic(c->combiner))
		return 0;
	c->i = malloc(sizeof(*c->i) * (size_t)(c->ni + 1));
	c->a = malloc(sizeof(*c->a) * (size_t)(c->na + 1));
	c->d = malloc(sizeof(*c->d) * (size_t)(c->nd + 1));
	if (!c->i || !c->a || !c->d) {
		c->nd = 0;
		return -ENOMEM;
	}
	MPI_Type_get_contents(t, c->ni, c->na, c->nd, c->i, c->a, c->d);
	c->plain = c->nd > 0 ? plain_size(c->d[0]) : 0;
	return 0;
}

static void contents_free(struct contents *c)
{
	for (int k = 0; k < c->nd; k++) {
		int ni, na, nd, combiner;

		MPI_Type_get_envelope(c->d[k], &ni, &na, &nd, &combiner);
		if (!is_basic(combiner))
			MPI_Type_free(&c->d[k]);
	}
	free(c->i);
	free(c->a);
	free(c->d);
}

static int flatten(struct hk_halo_blocks *b, char *base, int64_t count, MPI_Datatype t);

/* Adds @count elements of the type from which @c is made. */
static inline int parts(struct hk_halo_blocks *b, char *base, int64_t count,
			const struct contents *c)
{
	return c->plain ? hk_halo_blocks_add(b, base, (uint64_t)count * (uint64_t)c->plain)
			: flatten(b, base, count, c->d[0]);
}

/* MPI_Type_create_subarray: adds dimension @k, where the last one varies fastest. @row: the bytes
 * of the whole array in dimensions @k and later. */
static int subarray(struct hk_halo_blocks *b, char *base, const struct contents *c, int k,
		    MPI_Aint row)
{
	int n = c->i[0], rc = 0;
	bool fortran = c->i[1 + 3 * n] == MPI_ORDER_FORTRAN;
	int dim = fortran ? n - 1 - k : k;
	int size = c->i[1 + dim], sub = c->i[1 + n + dim], start = c->i[1 + 2 * n + dim];
	MPI_Aint step = row / size;

	base += start * step;
	if (k == n - 1)
		return parts(b, base, sub, c);
	for (int j = 0; rc == 0 && j < sub; j++)
		rc = subarray(b, base + j * step, c, k + 1, step);
	return rc;
}

/* Adds one element of the type that @c describes. */
static int element(struct hk_halo_blocks *b, char *base, const struct contents *c)
{
	const int *i = c->i;
	const MPI_Aint *a = c->a;
	MPI_Aint ext = c->nd ? extent_of(c->d[0]) : 0;
	int rc = 0;

	switch (c->combiner) {
	case MPI_COMBINER_DUP:
	case MPI_COMBINER_RESIZED:
		return parts(b, base, 1, c);
	case MPI_COMBINER_CONTIGUOUS:
		return parts(b, base, i[0], c);
	case MPI_COMBINER_VECTOR:
	case MPI_COMBINER_HVECTOR: {
		MPI_Aint stride = c->combiner == MPI_COMBINER_VECTOR ? i[2] * ext : a[0];

		for (int k = 0; rc == 0 && k < i[0]; k++)
			rc = parts(b, base + k * stride, i[1], c);
		return rc;
	}
	case MPI_COMBINER_INDEXED:
		for (int k = 0; rc == 0 && k < i[0]; k++)
			rc = parts(b, base + i[1 + i[0] + k] * ext, i[1 + k], c);
		return rc;
	case MPI_COMBINER_HINDEXED:
		for (int k = 0; rc == 0 && k < i[0]; k++)
			rc = parts(b, base + a[k], i[1 + k], c);
		return rc;
	case MPI_COMBINER_INDEXED_BLOCK:
		for (int k = 0; rc == 0 && k < i[0]; k++)
			rc = parts(b, base + i[2 + k] * ext, i[1], c);
		return rc;
	case MPI_COMBINER_HINDEXED_BLOCK:
		for (int k = 0; rc == 0 && k < i[0]; k++)
			rc = parts(b, base + a[k], i[1], c);
		return rc;
	case MPI_COMBINER_STRUCT:
		for (int k = 0; rc == 0 && k < i[0]; k++)
			rc = flatten(b, base + a[k], i[1 + k], c->d[k]);
		return rc;
	case MPI_COMBINER_SUBARRAY: {
		MPI_Aint array = ext;

		for (int k = 0; k < i[0]; k++)
			array *= i[1 + k];
		return subarray(b, base, c, 0, array);
	}
	default:
		return -ENOTSUP;
	}
}

/* Are the last @len bytes added those from @base on, in one block? */
static bool ends_with(const struct hk_halo_blocks *b, const char *base, uint64_t len)
{
	const struct hk_block *last = &b->block[b->count - 1];

	return last->len >= len && last->base + last->len == base + len;
}

static int flatten(struct hk_halo_blocks *b, char *base, int64_t count, MPI_Datatype t)
{
	struct contents c = {0};
	MPI_Aint extent = extent_of(t);
	int rc = contents_get(t, &c);

	if (rc == 0 && is_basic(c.combiner))
		return basic(b, base, count, t);
	for (int64_t k = 0; rc == 0 && k < count; k++) {
		uint64_t before = b->len;

		rc = element(b, base + k * extent, &c);
		if (rc == 0 && extent > 0 && b->len - before == (uint64_t)extent &&
		    ends_with(b, base + k * extent, (uint64_t)extent)) {
			/* This element has no gaps, so the others have none either. */
			rc = hk_halo_blocks_add(b, base + (k + 1) * extent,
						(uint64_t)(count - k - 1) * (uint64_t)extent);
			break;
		}
	}
	contents_free(&c);
	return rc;
}

int hk_halo_message_flatten(struct hk_halo_message *m)
{
	int rc = 0;

	if (m->blocks.count || m->bytes == 0)
		return 0;
	for (int k = 0; rc == 0 && k < m->halves; k++)
		rc = flatten(&m->blocks, m->half[k].base, m->half[k].count, m->half[k].type);
	/* A transport sizes its memory by one of the two and copies by the other. */
	return rc == 0 && m->blocks.len != m->bytes ? -ENOTSUP : rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/datatypes.c: derived datatypes on one or both sides.
 *
 * Each side describes the message by a layout. The test defines its meaning without MPI. `walk`
 * lists the offsets of the bytes of one element, in the order of the type map. The sender
 * fills its whole memory with one pattern. The receiver checks that byte k of the message is where
 * its own layout puts it, and that the bytes in between are unchanged.
 */
#include "common.h"

#define GAP      0x3C
#define EL_BYTES 720  /* every layout carries so many bytes an element, so that any two match */
#define SPAN     8192 /* and no layout reaches further than this from its start */

typedef size_t (*walk_fn)(size_t *offset); /* writes EL_BYTES offsets, returns the extent */

struct layout {
	const char *name;
	void (*make)(MPI_Datatype *t);
	walk_fn walk;
};

/* ---- the layouts: MPI's description, then the plain one -------------------------------------- */

static void make_contiguous(MPI_Datatype *t)
{
	MPI_Type_contiguous(EL_BYTES, MPI_BYTE, t);
}

static size_t walk_contiguous(size_t *o)
{
	for (size_t i = 0; i < EL_BYTES; i++)
		o[i] = i;
	return EL_BYTES;
}

/* 24 blocks of 30 bytes every 47 */
static void make_vector(MPI_Datatype *t)
{
	MPI_Type_vector(24, 30, 47, MPI_BYTE, t);
}

static size_t walk_vector(size_t *o)
{
	for (size_t b = 0; b < 24; b++) {
		for (size_t i = 0; i < 30; i++)
			*o++ = b * 47 + i;
	}
	return 23 * 47 + 30;
}

/* 90 doubles, one in three, as a column of a matrix */
static void make_column(MPI_Datatype *t)
{
	MPI_Type_vector(90, 1, 3, MPI_DOUBLE, t);
}

static size_t walk_column(size_t *o)
{
	for (size_t b = 0; b < 90; b++) {
		for (size_t i = 0; i < 8; i++)
			*o++ = b * 24 + i;
	}
	return 89 * 24 + 8;
}

/* blocks of 1, 2, … 8 units of 20 bytes, in falling order of address */
static void make_indexed(MPI_Datatype *t)
{
	MPI_Datatype unit;
	int len[8], at[8];
	for (int i = 0; i < 8; i++) {
		len[i] = i + 1;
		at[i] = (7 - i) * 10;
	}
	MPI_Type_contiguous(20, MPI_BYTE, &unit);
	MPI_Type_indexed(8, len, at, unit, t);
	MPI_Type_free(&unit);
}

static size_t walk_indexed(size_t *o)
{
	for (size_t b = 0; b < 8; b++) {
		for (size_t i = 0; i < (b + 1) * 20; i++)
			*o++ = (7 - b) * 200 + i;
	}
	return 71 * 20; /* block 0 is the highest: 70 units away, 1 long */
}

/* an int, a double with padding before it, 51 chars, shorts, …, resized to 1003 bytes */
static void make_struct(MPI_Datatype *t)
{
	int len[4] = {1, 1, 51, 4};
	MPI_Aint at[4] = {0, 8, 17, 70};
	MPI_Datatype type[4] = {MPI_INT, MPI_DOUBLE, MPI_CHAR, MPI_SHORT};
	MPI_Datatype one, padded;

	/* 4 + 8 + 51 + 8 = 71 bytes; ten of them and ten more bytes make 720 */
	MPI_Type_create_struct(4, len, at, type, &one);
	MPI_Type_create_resized(one, 0, 99, &padded);
	int len2[2] = {10, 10};
	MPI_Aint at2[2] = {0, 990};
	MPI_Datatype type2[2] = {padded, MPI_BYTE}, whole;
	MPI_Type_create_struct(2, len2, at2, type2, &whole);
	MPI_Type_create_resized(whole, 0, 1003, t);
	MPI_Type_free(&one);
	MPI_Type_free(&padded);
	MPI_Type_free(&whole);
}

static size_t walk_struct(size_t *o)
{
	static const size_t len[4] = {4, 8, 51, 8}, at[4] = {0, 8, 17, 70};
	for (size_t e = 0; e < 10; e++) {
		for (size_t f = 0; f < 4; f++) {
			for (size_t i = 0; i < len[f]; i++)
				*o++ = e * 99 + at[f] + i;
		}
	}
	for (size_t i = 0; i < 10; i++)
		*o++ = 990 + i;
	return 1003;
}

/* the box [1..4]×[2..5]×[3..47] of a 6×8×50 array of bytes */
static void make_subarray(MPI_Datatype *t)
{
	int whole[3] = {6, 8, 50}, part[3] = {4, 4, 45}, start[3] = {1, 2, 3};
	MPI_Type_create_subarray(3, whole, part, start, MPI_ORDER_C, MPI_BYTE, t);
}

static size_t walk_subarray(size_t *o)
{
	for (size_t x = 1; x < 5; x++) {
		for (size_t y = 2; y < 6; y++) {
			for (size_t z = 3; z < 48; z++)
				*o++ = (x * 8 + y) * 50 + z;
		}
	}
	return 6 * 8 * 50;
}

/* a vector of a vector: 9 rows of 5 pairs of longs; elements overlap like a comb (extent 16) */
static void make_nested(MPI_Datatype *t)
{
	MPI_Datatype pair, row;
	MPI_Type_vector(2, 1, 2, MPI_LONG, &pair);     /* at 0 and 16 */
	MPI_Type_create_hvector(5, 1, 40, pair, &row); /* every 40 bytes */
	MPI_Type_create_hvector(9, 1, 400, row, t);
	MPI_Type_free(&pair);
	MPI_Type_free(&row);
}

static size_t walk_nested(size_t *o)
{
	for (size_t r = 0; r < 9; r++) {
		for (size_t p = 0; p < 5; p++) {
			for (size_t l = 0; l < 2; l++) {
				for (size_t i = 0; i < 8; i++)
					*o++ = r * 400 + p * 40 + l * 16 + i;
			}
		}
	}
	return 8 * 400 + 4 * 40 + 24;
}

/* single bytes, every second one, and an extent that leaves a hole: the finest there is */
static void make_sparse(MPI_Datatype *t)
{
	MPI_Datatype v;
	MPI_Type_vector(EL_BYTES, 1, 2, MPI_BYTE, &v);
	MPI_Type_create_resized(v, 0, 1501, t);
	MPI_Type_free(&v);
}

static size_t walk_sparse(size_t *o)
{
	for (size_t i = 0; i < EL_BYTES; i++)
		o[i] = 2 * i;
	return 1501;
}

static const struct layout layouts[] = {
	{"contiguous", make_contiguous, walk_contiguous},
	{"vector", make_vector, walk_vector},
	{"column", make_column, walk_column},
	{"indexed", make_indexed, walk_indexed},
	{"struct", make_struct, walk_struct},
	{"subarray", make_subarray, walk_subarray},
	{"nested", make_nested, walk_nested},
	{"sparse", make_sparse, walk_sparse},
};
#define LAYOUTS (int)(sizeof(layouts) / sizeof(layouts[0]))

static size_t offsets[LAYOUTS][EL_BYTES], extent[LAYOUTS];
static MPI_Datatype type[LAYOUTS];

/* ---- messages -------------------------------------------------------------------------------- */

static size_t memory_for(int l, int count)
{
	return (size_t)count * extent[l] + SPAN;
}

/* Byte k of the message, given that the sender's memory holds the pattern of @key. */
static uint8_t sent_byte(int l, uint64_t key, size_t k)
{
	return hkt_byte(key, k / EL_BYTES * extent[l] + offsets[l][k % EL_BYTES]);
}

static void check_memory(const uint8_t *mem, int l, int count, int sent_as, uint64_t key, int peer)
{
	size_t room = memory_for(l, count), bytes = (size_t)count * EL_BYTES;
	uint8_t *want = hkt_alloc(room);

	memset(want, GAP, room);
	for (size_t k = 0; k < bytes; k++)
		want[k / EL_BYTES * extent[l] + offsets[l][k % EL_BYTES]] = sent_byte(sent_as, key,
										      k);
	hkt_count(1);
	for (size_t i = 0; i < room; i++) {
		if (mem[i] != want[i])
			hkt_fail("%s to %s: peer %d, size %zu, offset %zu in memory: expected "
				 "0x%02x, found 0x%02x",
				 layouts[sent_as].name, layouts[l].name, peer, bytes, i, want[i],
				 mem[i]);
	}
	free(want);
}

/* Every rank sends @count elements to its neighbour as layout @a; they arrive as layout @b. */
static void exchange(int a, int b, int count)
{
	int to = (hkt_rank + 1) % hkt_size, from = (hkt_rank - 1 + hkt_size) % hkt_size, got, el;
	uint64_t tag = (uint64_t)(a * LAYOUTS + b);
	uint8_t *out = hkt_alloc(memory_for(a, count)), *in = hkt_alloc(memory_for(b, count));
	MPI_Status st;

	hkt_at("%s to %s, %d elements", layouts[a].name, layouts[b].name, count);
	hkt_fill(out, memory_for(a, count),
		 hkt_key((uint64_t)hkt_rank, (uint64_t)to, tag, (uint64_t)count));
	memset(in, GAP, memory_for(b, count));
	MPI_Sendrecv(out, count, type[a], to, (int)tag, in, count, type[b], from, (int)tag,
		     MPI_COMM_WORLD, &st);
	MPI_Get_count(&st, type[b], &got);
	MPI_Get_elements(&st, MPI_BYTE, &el);
	HKT_CHECK(got == count, "%s to %s: peer %d: expected %d elements, found %d",
		  layouts[a].name, layouts[b].name, from, count, got);
	check_memory(in, b, count, a,
		     hkt_key((uint64_t)from, (uint64_t)hkt_rank, tag, (uint64_t)count), from);
	free(out);
	free(in);
}

/* Fewer elements arrive than were asked for; the rest of the memory stays as it was. */
static void short_message(int b, int count)
{
	int to = (hkt_rank + 1) % hkt_size, from = (hkt_rank - 1 + hkt_size) % hkt_size, got;
	int sent = count / 2;
	uint8_t *out = hkt_alloc(memory_for(0, sent)), *in = hkt_alloc(memory_for(b, count));
	MPI_Status st;

	hkt_at("short message to %s, %d of %d elements", layouts[b].name, sent, count);
	hkt_fill(out, memory_for(0, sent), hkt_key((uint64_t)hkt_rank, (uint64_t)to, 7, 7));
	memset(in, GAP, memory_for(b, count));
	MPI_Sendrecv(out, sent, type[0], to, 900, in, count, type[b], from, 900, MPI_COMM_WORLD,
		     &st);
	MPI_Get_count(&st, type[b], &got);
	HKT_CHECK(got == sent, "short message: peer %d: expected %d elements, found %d", from, sent,
		  got);
	check_memory(in, b, sent, 0, hkt_key((uint64_t)from, (uint64_t)hkt_rank, 7, 7), from);
	hkt_verify_value(in + memory_for(b, sent), memory_for(b, count) - memory_for(b, sent), GAP,
			 from, "behind a short message");
	free(out);
	free(in);
}

/* Packed on one rank, sent as MPI_PACKED, unpacked on the other in several steps. */
static void packed(int a, int b, int count)
{
	int to = (hkt_rank + 1) % hkt_size, from = (hkt_rank - 1 + hkt_size) % hkt_size;
	uint8_t *out = hkt_alloc(memory_for(a, count)), *in = hkt_alloc(memory_for(b, count));
	uint64_t tag = (uint64_t)(500 + a * LAYOUTS + b);
	int room, pos = 0, arrived;
	MPI_Status st;

	hkt_at("pack %s, unpack %s, %d elements", layouts[a].name, layouts[b].name, count);
	hkt_fill(out, memory_for(a, count),
		 hkt_key((uint64_t)hkt_rank, (uint64_t)to, tag, (uint64_t)count));
	memset(in, GAP, memory_for(b, count));
	MPI_Pack_size(count, type[a], MPI_COMM_WORLD, &room);
	uint8_t *p = hkt_alloc((size_t)room), *q = hkt_alloc((size_t)room);
	for (int e = 0; e < count; e++)
		MPI_Pack(out + (size_t)e * extent[a], 1, type[a], p, room, &pos, MPI_COMM_WORLD);
	MPI_Sendrecv(p, pos, MPI_PACKED, to, (int)tag, q, room, MPI_PACKED, from, (int)tag,
		     MPI_COMM_WORLD, &st);
	MPI_Get_count(&st, MPI_PACKED, &arrived);
	HKT_CHECK(arrived == count * EL_BYTES, "packed: peer %d: expected size %d, found %d", from,
		  count * EL_BYTES, arrived);
	pos = 0;
	MPI_Unpack(q, arrived, &pos, in, count, type[b], MPI_COMM_WORLD);
	check_memory(in, b, count, a,
		     hkt_key((uint64_t)from, (uint64_t)hkt_rank, tag, (uint64_t)count), from);
	free(p);
	free(q);
	free(out);
	free(in);
}

/* A type without bytes, and elements of which there are none. */
static void nothing(void)
{
	int to = (hkt_rank + 1) % hkt_size, from = (hkt_rank - 1 + hkt_size) % hkt_size, got = -1;
	MPI_Datatype empty;
	MPI_Status st;
	uint8_t mem[64];

	hkt_at("zero-size type");
	memset(mem, GAP, sizeof(mem));
	MPI_Type_contiguous(0, MPI_INT, &empty);
	MPI_Type_commit(&empty);
	MPI_Sendrecv(mem, 5, empty, to, 901, mem, 5, empty, from, 901, MPI_COMM_WORLD, &st);
	MPI_Get_elements(&st, MPI_INT, &got);
	HKT_CHECK(got == 0, "zero-size type: peer %d: expected 0 elements, found %d", from, got);
	hkt_verify_value(mem, sizeof(mem), GAP, from, "zero-size type");
	MPI_Type_free(&empty);
}

int main(int argc, char **argv)
{
	static const int counts[] = {0, 1, 2, 3, 11, 12, 23, 91, 92, 365};

	hkt_init(&argc, &argv, "datatypes", MPI_THREAD_SINGLE);
	for (int l = 0; l < LAYOUTS; l++) {
		MPI_Aint lb, ext;
		int bytes;
		layouts[l].make(&type[l]);
		MPI_Type_commit(&type[l]);
		extent[l] = layouts[l].walk(offsets[l]);
		MPI_Type_get_extent(type[l], &lb, &ext);
		MPI_Type_size(type[l], &bytes);
		HKT_CHECK(lb == 0 && (size_t)ext == extent[l] && bytes == EL_BYTES,
			  "%s: extent %ld, size %d, lower bound %ld; the test means %zu, %d, 0",
			  layouts[l].name, (long)ext, bytes, (long)lb, extent[l], EL_BYTES);
	}
	for (int a = 0; a < LAYOUTS; a++) {
		for (int b = 0; b < LAYOUTS; b++) {
			for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
				exchange(a, b, counts[c]);
			packed(a, b, 1 + (a + b) % 13);
		}
		short_message(a, 9);
		short_message(a, 190);
	}
	/* big ones: 1 MiB and more of payload, on one side and on both */
	exchange(0, 1, 1457);
	exchange(1, 0, 1457);
	exchange(7, 5, 1457);
	exchange(4, 3, 5827);
	nothing();
	for (int l = 0; l < LAYOUTS; l++)
		MPI_Type_free(&type[l]);
	return hkt_finish();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/digest.c: one number for a mixed workload, to compare transports.
 *
 * Point to point, derived types, persistent requests and collectives with integers and floating
 * point, drawn from the seed. Everything received goes into a digest in an order that does not
 * depend on timing, rank by rank, and rank 0 prints `DIGEST <16 hex digits>`. Equal seed, equal
 * number of ranks, equal rounds: equal digest, whatever carries the messages. Contents are checked
 * on the way as in the other programs, so that a difference is found where it arises.
 */
#include "common.h"

#define EXCHANGES 40

static struct hkt_digest digest;

/* All ranks know the size of every message, from the seed. */
static size_t size_of(int round, int src, int dst, int i)
{
	struct hkt_rng r = {hkt_key((uint64_t)round, (uint64_t)src, (uint64_t)dst, (uint64_t)i)};
	uint64_t kind = hkt_below(&r, 20);

	if (kind == 0)
		return hkt_below(&r, 500000);
	return kind < 10 ? hkt_below(&r, 3000) : hkt_sizes[hkt_below(&r, (uint64_t)hkt_nsizes - 6)];
}

static void point_to_point(int round)
{
	int n = hkt_size * EXCHANGES;
	MPI_Request *r = hkt_alloc((size_t)n * 2 * sizeof(*r));
	uint8_t **in = hkt_alloc((size_t)n * sizeof(*in)),
		**out = hkt_alloc((size_t)n * sizeof(*out));

	for (int peer = 0; peer < hkt_size; peer++) {
		for (int i = 0; i < EXCHANGES; i++) {
			int k = peer * EXCHANGES + i;
			size_t size = size_of(round, peer, hkt_rank, i);
			in[k] = hkt_alloc(size);
			MPI_Irecv(in[k], (int)size, MPI_BYTE, peer, i, MPI_COMM_WORLD, &r[k]);
		}
	}
	for (int peer = 0; peer < hkt_size; peer++) {
		for (int i = 0; i < EXCHANGES; i++) {
			int k = peer * EXCHANGES + i;
			size_t size = size_of(round, hkt_rank, peer, i);
			out[k] = hkt_alloc(size);
			hkt_fill(out[k], size, size_of(round, hkt_rank, peer, i) * 31 + (size_t)k);
			MPI_Isend(out[k], (int)size, MPI_BYTE, peer, i, MPI_COMM_WORLD, &r[n + k]);
		}
	}
	hkt_at("round %d: point to point", round);
	MPI_Waitall(2 * n, r, MPI_STATUSES_IGNORE);
	for (int peer = 0; peer < hkt_size; peer++) {
		for (int i = 0; i < EXCHANGES; i++) {
			int k = peer * EXCHANGES + i;
			size_t size = size_of(round, peer, hkt_rank, i);
			hkt_verify(in[k], size, size * 31 + (size_t)(hkt_rank * EXCHANGES + i),
				   peer, "digest point to point");
			hkt_digest_add(&digest, in[k], size);
			free(in[k]);
			free(out[k]);
		}
	}
	free(r);
	free(in);
	free(out);
}

/* A column of a matrix goes round the ring, by persistent requests. */
static void columns(int round)
{
	enum { ROWS = 701, COLS = 5 };
	static double out[ROWS][COLS], in[ROWS][COLS];
	int to = (hkt_rank + 1) % hkt_size, from = (hkt_rank - 1 + hkt_size) % hkt_size;
	MPI_Datatype column;
	MPI_Request r[2];

	for (int i = 0; i < ROWS; i++) {
		for (int j = 0; j < COLS; j++) {
			out[i][j] = (double)(hkt_rank + 1) / (i + j + round + 1);
			in[i][j] = 0;
		}
	}
	MPI_Type_vector(ROWS, 1, COLS, MPI_DOUBLE, &column);
	MPI_Type_commit(&column);
	MPI_Recv_init(&in[0][1], 1, column, from, 7, MPI_COMM_WORLD, &r[0]);
	MPI_Send_init(&out[0][3], 1, column, to, 7, MPI_COMM_WORLD, &r[1]);
	for (int k = 0; k < 5; k++) {
		hkt_at("round %d: column %d", round, k);
		MPI_Startall(2, r);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		hkt_digest_add(&digest, in, sizeof(in));
		for (int i = 0; i < ROWS; i++)
			out[i][3] = in[i][1] * 1.25 + 1;
	}
	MPI_Request_free(&r[0]);
	MPI_Request_free(&r[1]);
	MPI_Type_free(&column);
}

/* Sums of doubles depend on the order, which Open MPI fixes by count and size, not by transport. */
static void collectives(int round)
{
	static const int counts[] = {1, 3, 127, 511, 1023, 4099, 20001};

	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		int n = counts[c], root = (round + (int)c) % hkt_size;
		double *v = hkt_alloc((size_t)n * sizeof(*v));
		double *w = hkt_alloc((size_t)(n * hkt_size) * sizeof(*w));
		double *x = hkt_alloc((size_t)(n * hkt_size) * sizeof(*x));
		for (int i = 0; i < n; i++)
			v[i] = (double)((hkt_rank + 2) * (i + 1) % 1009) / 7;
		hkt_at("round %d: allreduce of %d", round, n);
		MPI_Allreduce(v, w, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		hkt_digest_add(&digest, w, (size_t)n * sizeof(*w));
		hkt_at("round %d: bcast of %d", round, n);
		MPI_Bcast(v, n, MPI_DOUBLE, root, MPI_COMM_WORLD);
		hkt_at("round %d: allgather of %d", round, n);
		MPI_Allgather(v, n, MPI_DOUBLE, w, n, MPI_DOUBLE, MPI_COMM_WORLD);
		hkt_digest_add(&digest, w, (size_t)(n * hkt_size) * sizeof(*w));
		for (int i = 0; i < n * hkt_size; i++)
			w[i] += hkt_rank + i % 13;
		hkt_at("round %d: alltoall of %d", round, n);
		MPI_Alltoall(w, n, MPI_DOUBLE, x, n, MPI_DOUBLE, MPI_COMM_WORLD);
		hkt_digest_add(&digest, x, (size_t)(n * hkt_size) * sizeof(*x));
		hkt_at("round %d: scan of %d", round, n);
		MPI_Scan(x, w, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		hkt_digest_add(&digest, w, (size_t)n * sizeof(*w));
		free(v);
		free(w);
		free(x);
	}
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "digest", MPI_THREAD_SINGLE);
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 5;

	digest.h = 0;
	for (int round = 0; round < rounds; round++) {
		point_to_point(round);
		columns(round);
		collectives(round);
	}
	uint64_t mine = digest.h, *all = hkt_alloc((size_t)hkt_size * sizeof(*all));
	hkt_at("gather of the digests");
	MPI_Gather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	if (hkt_rank == 0) {
		struct hkt_digest whole = {0};
		hkt_digest_add(&whole, all, (size_t)hkt_size * sizeof(*all));
		printf("DIGEST %016llx\n", (unsigned long long)whole.h);
	}
	free(all);
	return hkt_finish();
}

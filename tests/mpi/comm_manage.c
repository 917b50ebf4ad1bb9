/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/comm_manage.c: communicators that are made and freed.
 *
 * Loops of dup, idup, split and create_group with traffic on each new communicator. Communicators
 * are freed in another order. Messages of one tag are in flight on several communicators, which MPI
 * must not confuse. Cartesian shifts in one to three dimensions.
 */
#include "common.h"

static void ring(MPI_Comm comm, size_t size, int id)
{
	int rank, n;
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &n);
	int to = (rank + 1) % n, from = (rank - 1 + n) % n;
	uint8_t *out = hkt_alloc(size), *in = hkt_alloc(size);

	hkt_fill(out, size, hkt_key((uint64_t)rank, (uint64_t)to, (uint64_t)id, size));
	MPI_Sendrecv(out, (int)size, MPI_BYTE, to, 1, in, (int)size, MPI_BYTE, from, 1, comm,
		     MPI_STATUS_IGNORE);
	hkt_verify(in, size, hkt_key((uint64_t)from, (uint64_t)rank, (uint64_t)id, size), from,
		   "ring on a new communicator");
	free(out);
	free(in);
}

static void check_sum(MPI_Comm comm, const char *what)
{
	int rank, n, sum = -1;
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &n);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
	HKT_CHECK(sum == n * (n - 1) / 2, "%s: allreduce of ranks: expected %d, found %d", what,
		  n * (n - 1) / 2, sum);
}

static void dup_and_split(int round)
{
	MPI_Comm dup, idup, split;
	MPI_Request r;
	size_t size = hkt_few_sizes[round % (hkt_nfew - 4)];

	hkt_at("round %d: dup", round);
	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	hkt_at("round %d: idup", round);
	MPI_Comm_idup(MPI_COMM_WORLD, &idup, &r);
	ring(dup, size, 3 * round);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	hkt_at("round %d: split", round);
	int colour = (hkt_rank + round) % 3 == 2 ? MPI_UNDEFINED : (hkt_rank + round) % 3;
	MPI_Comm_split(dup, colour, -hkt_rank, &split);
	HKT_CHECK((split == MPI_COMM_NULL) == (colour == MPI_UNDEFINED), "split: colour %d",
		  colour);
	if (split != MPI_COMM_NULL) {
		check_sum(split, "split");
		ring(split, size, 3 * round + 1);
	}
	MPI_Comm_free(round % 2 ? &dup : &idup);
	check_sum(round % 2 ? idup : dup, "the other duplicate");
	MPI_Comm_free(round % 2 ? &idup : &dup);
	if (split != MPI_COMM_NULL)
		MPI_Comm_free(&split);
}

/* Only the members of the group take part in create_group. */
static void groups(int round)
{
	MPI_Group world, sub;
	MPI_Comm comm;
	int range[1][3] = {{round % hkt_size, hkt_size - 1, 1}};

	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_range_incl(world, 1, range, &sub);
	if (hkt_rank >= range[0][0]) {
		hkt_at("round %d: create_group", round);
		MPI_Comm_create_group(MPI_COMM_WORLD, sub, 100 + round, &comm);
		check_sum(comm, "create_group");
		MPI_Comm_free(&comm);
	}
	MPI_Group_free(&sub);
	MPI_Group_free(&world);
}

/* Equal source, tag and size on eight communicators; received in the opposite order. */
static void separate_contexts(void)
{
	enum { COMMS = 8, SIZE = 5001 };
	static uint8_t out[COMMS][SIZE], in[SIZE];
	MPI_Comm comm[COMMS];
	MPI_Request r[COMMS];
	int to = (hkt_rank + 1) % hkt_size, from = (hkt_rank - 1 + hkt_size) % hkt_size;

	for (int c = 0; c < COMMS; c++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comm[c]);
		hkt_fill(out[c], SIZE, hkt_key((uint64_t)hkt_rank, (uint64_t)to, 50, (uint64_t)c));
		MPI_Isend(out[c], SIZE, MPI_BYTE, to, 9, comm[c], &r[c]);
	}
	for (int c = COMMS - 1; c >= 0; c--) {
		hkt_at("separate contexts: receive on communicator %d", c);
		MPI_Recv(in, SIZE, MPI_BYTE, from, 9, comm[c], MPI_STATUS_IGNORE);
		hkt_verify(in, SIZE, hkt_key((uint64_t)from, (uint64_t)hkt_rank, 50, (uint64_t)c),
			   from, "separate contexts");
	}
	MPI_Waitall(COMMS, r, MPI_STATUSES_IGNORE);
	for (int c = 0; c < COMMS; c++)
		MPI_Comm_free(&comm[c]);
}

static void grids(void)
{
	for (int nd = 1; nd <= 3; nd++) {
		int dims[3] = {0, 0, 0}, periods[3] = {1, 0, 1}, coords[3];
		MPI_Comm grid;
		hkt_at("Cart_create with %d dimensions", nd);
		MPI_Dims_create(hkt_size, nd, dims);
		MPI_Cart_create(MPI_COMM_WORLD, nd, dims, periods, 1, &grid);
		int rank;
		MPI_Comm_rank(grid, &rank);
		MPI_Cart_coords(grid, rank, nd, coords);
		for (int d = 0; d < nd; d++) {
			int below, above, got = -1, want;
			MPI_Cart_shift(grid, d, 1, &below, &above);
			MPI_Sendrecv(&coords[d], 1, MPI_INT, above, d, &got, 1, MPI_INT, below, d,
				     grid, MPI_STATUS_IGNORE);
			want = below == MPI_PROC_NULL ? -1 : (coords[d] - 1 + dims[d]) % dims[d];
			HKT_CHECK(got == want, "shift along %d of %d: expected %d, found %d", d, nd,
				  want, got);
		}
		int keep[3] = {1, 0, 0};
		MPI_Comm line;
		MPI_Cart_sub(grid, keep, &line);
		check_sum(line, "Cart_sub");
		MPI_Comm_free(&line);
		MPI_Comm_free(&grid);
	}
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "comm_manage", MPI_THREAD_SINGLE);
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 60;

	for (int i = 0; i < rounds; i++) {
		dup_and_split(i);
		groups(i);
	}
	separate_contexts();
	grids();
	return hkt_finish();
}

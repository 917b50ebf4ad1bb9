/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/dynamic.c: processes that join a running job.
 *
 *     --mode spawn     the job starts one more process of this program and exchanges messages with
 * it
 *     --mode connect   two halves of the job connect by a port name (MPI_Open_port, accept,
 * connect)
 *
 * The child of spawn finds its parent and needs no option. There is only one child. In Open MPI
 * 4.1.4 of Debian, children on one node do not find each other, over any network ("PML add procs
 * failed").
 */
#include "common.h"

#define CHILDREN 1

static void exchange(MPI_Comm inter, int me, int peer, int id)
{
	uint8_t *out = hkt_alloc(HKT_MAX_SIZE), *in = hkt_alloc(HKT_MAX_SIZE);

	for (int i = 0; i < hkt_nfew; i++) {
		size_t size = hkt_few_sizes[i];
		hkt_at("exchange %d with rank %d of the other side, size %zu", id, peer, size);
		/* both sides name the message by sender's id and size, not by world ranks */
		hkt_fill(out, size, hkt_key((uint64_t)id, (uint64_t)me, (uint64_t)peer, size));
		MPI_Sendrecv(out, (int)size, MPI_BYTE, peer, i, in, (int)size, MPI_BYTE, peer, i,
			     inter, MPI_STATUS_IGNORE);
		hkt_verify(in, size,
			   hkt_key((uint64_t)(1 - id), (uint64_t)peer, (uint64_t)me, size), peer,
			   "dynamic exchange");
	}
	free(out);
	free(in);
}

/* Each pair of ranks across the two sides exchanges; then all reduce over the merged world. */
static void talk(MPI_Comm inter, int id)
{
	MPI_Comm all;
	int me, mine, theirs, rank, sum, size;

	MPI_Comm_rank(inter, &me);
	MPI_Comm_size(inter, &mine);
	MPI_Comm_remote_size(inter, &theirs);
	if (me < theirs && me < mine)
		exchange(inter, me, me, id);
	hkt_at("merge");
	MPI_Intercomm_merge(inter, id, &all);
	MPI_Comm_rank(all, &rank);
	MPI_Comm_size(all, &size);
	hkt_at("allreduce over %d merged ranks", size);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
	HKT_CHECK(size == mine + theirs && sum == size * (size - 1) / 2,
		  "merged: size %d of %d + %d, sum %d", size, mine, theirs, sum);
	MPI_Comm_free(&all);
	hkt_at("disconnect");
	MPI_Comm_disconnect(&inter);
}

static void spawn(char *program)
{
	MPI_Comm inter;
	int errors[CHILDREN];

	hkt_at("Comm_spawn");
	MPI_Comm_spawn(program, MPI_ARGV_NULL, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
		       errors);
	talk(inter, 0);
}

static void connect_accept(void)
{
	char name[MPI_MAX_PORT_NAME] = "";
	int first = hkt_size / 2, half = hkt_rank >= first;
	MPI_Comm local, inter;

	MPI_Comm_split(MPI_COMM_WORLD, half, hkt_rank, &local);
	if (hkt_rank == 0)
		MPI_Open_port(MPI_INFO_NULL, name);
	hkt_at("bcast of the port name");
	MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, MPI_COMM_WORLD);
	hkt_at(half ? "Comm_connect" : "Comm_accept");
	if (half)
		MPI_Comm_connect(name, MPI_INFO_NULL, 0, local, &inter);
	else
		MPI_Comm_accept(name, MPI_INFO_NULL, 0, local, &inter);
	talk(inter, half);
	if (hkt_rank == 0)
		MPI_Close_port(name);
	MPI_Comm_free(&local);
}

int main(int argc, char **argv)
{
	MPI_Comm parent;

	hkt_init(&argc, &argv, "dynamic", MPI_THREAD_SINGLE);
	MPI_Comm_get_parent(&parent);
	if (parent != MPI_COMM_NULL) {
		talk(parent, 1);
		hkt_at("child: MPI_Finalize");
		MPI_Finalize();
		return 0;
	}
	const char *mode = hkt_opt.mode ? hkt_opt.mode : "spawn";
	if (!strcmp(mode, "spawn"))
		spawn(argv[0]);
	else if (strcmp(mode, "connect"))
		hkt_fail("unknown mode %s; known: spawn, connect", mode);
	else if (hkt_size < 2)
		return hkt_skip("connect needs at least 2 ranks");
	else
		connect_accept();
	return hkt_finish();
}

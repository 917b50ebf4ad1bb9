/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/halo_setup.c: a solver whose set-up finds its neighbours by receives from any source.
 * It is plain MPI; the promoter is under test.
 *
 * The set-up uses the tag of the exchange that follows, as miniFE and hypre do. Each pair of ranks
 * exchanges, and sometimes there is another set-up.
 *
 *     receive   the set-up receives from any source
 *     ahead     the set-up posts these receives before any rank sends
 *     probe     the set-up probes, and then receives from the source that it found
 */
#include "common.h"

#define SETUPS  4
#define STEPS   100
#define DOUBLES 200
#define TAG     99

static uint64_t seed;
static double out[DOUBLES], in[DOUBLES];
static int message; /* of each rank to each other, as many */

static uint64_t key_of(int src, int dst, int index)
{
	return hkt_key(seed, (uint64_t)src, (uint64_t)dst, (uint64_t)index);
}

static void send_to_all(int doubles)
{
	for (int dst = 0; dst < hkt_size; dst++) {
		if (dst == hkt_rank)
			continue;
		hkt_fill(out, 8 * (size_t)doubles, key_of(hkt_rank, dst, message));
		MPI_Send(out, doubles, MPI_DOUBLE, dst, TAG, MPI_COMM_WORLD);
	}
}

static void check(const MPI_Status *s, int doubles)
{
	int count;

	MPI_Get_count(s, MPI_DOUBLE, &count);
	HKT_CHECK(count == doubles, "%d doubles instead of %d of message %d from rank %d", count,
		  doubles, message, s->MPI_SOURCE);
	hkt_verify(in, 8 * (size_t)doubles, key_of(s->MPI_SOURCE, hkt_rank, message), s->MPI_SOURCE,
		   "message");
}

/* Receives one message from each other rank, in the order of arrival. */
static void set_up(bool probe, int doubles)
{
	MPI_Status s;

	send_to_all(doubles);
	for (int k = 0; k < hkt_size - 1; k++) {
		int source = MPI_ANY_SOURCE;

		if (probe) {
			MPI_Probe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &s);
			source = s.MPI_SOURCE;
		}
		MPI_Recv(in, DOUBLES, MPI_DOUBLE, source, TAG, MPI_COMM_WORLD, &s);
		check(&s, doubles);
	}
	message++;
	MPI_Barrier(MPI_COMM_WORLD); /* nobody's next message may be taken for one of this set-up */
}

static void exchange(int doubles)
{
	MPI_Status s;

	send_to_all(doubles);
	for (int src = 0; src < hkt_size; src++) {
		if (src == hkt_rank)
			continue;
		MPI_Recv(in, DOUBLES, MPI_DOUBLE, src, TAG, MPI_COMM_WORLD, &s);
		check(&s, doubles);
	}
	message++;
}

/* The receives are posted before anybody sends. */
static void set_up_ahead(int doubles)
{
	int others = hkt_size - 1;
	double *came = hkt_alloc(sizeof(in) * (size_t)others);
	MPI_Request *request = hkt_alloc((size_t)others * sizeof(*request));

	for (int k = 0; k < others; k++)
		MPI_Irecv(came + (ptrdiff_t)k * DOUBLES, DOUBLES, MPI_DOUBLE, MPI_ANY_SOURCE, TAG,
			  MPI_COMM_WORLD, &request[k]);
	MPI_Barrier(MPI_COMM_WORLD);
	send_to_all(doubles);
	for (int k = 0; k < others; k++) {
		MPI_Status s;

		MPI_Wait(&request[k], &s);
		memcpy(in, came + (ptrdiff_t)k * DOUBLES, sizeof(in));
		check(&s, doubles);
	}
	message++;
	free(request);
	free(came);
	MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "halo_setup", MPI_THREAD_SINGLE);
	seed = hkt_opt.seed;
	const char *mode = hkt_opt.mode ? hkt_opt.mode : "receive";
	bool ahead = strcmp(mode, "ahead") == 0, probe = strcmp(mode, "probe") == 0;

	for (int round = 0; round < SETUPS; round++) {
		hkt_at("set-up %d", round);
		if (ahead)
			set_up_ahead(3 + round);
		else
			set_up(probe, 3 + round);
		for (int step = 0; step < STEPS; step++) {
			hkt_at("step %d after set-up %d", step, round);
			exchange(DOUBLES - round);
		}
	}
	return hkt_finish();
}

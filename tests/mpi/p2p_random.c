/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/p2p_random.c: random traffic between all pairs, with phases of computing.
 *
 * All ranks draw the same schedule from the seed: in each round a list of messages (source,
 * destination, size, tag, communicator). Each rank posts its receives and sends in its own order.
 * It posts some receives late, so that messages arrive unexpected. Some ranks leave MPI for 50 to
 * 200 ms during a round.
 */
#include "common.h"

#define PER_ROUND 120
#define COMMS     3

struct message {
	int src, dst, tag, comm;
	size_t size;
};

static MPI_Comm comm[COMMS];

static size_t draw_size(struct hkt_rng *rng)
{
	uint64_t kind = hkt_below(rng, 100);

	if (kind < 30)
		return hkt_below(rng, 300);
	if (kind < 60)
		return hkt_sizes[hkt_below(rng, (uint64_t)hkt_nsizes - 2)];
	if (kind < 85)
		return hkt_below(rng, 20000);
	if (kind < 98)
		return hkt_below(rng, 200000);
	return hkt_below(rng, 2 * 1024 * 1024);
}

static void shuffle(int *v, int n, struct hkt_rng *rng)
{
	for (int i = n - 1; i > 0; i--) {
		int j = (int)hkt_below(rng, (uint64_t)i + 1), t = v[i];
		v[i] = v[j];
		v[j] = t;
	}
}

static void one_round(int round)
{
	struct hkt_rng shared = {hkt_key((uint64_t)round, 1, 2, 3)};
	struct hkt_rng own = {hkt_key((uint64_t)round, 4, 5, (uint64_t)hkt_rank)};
	static struct message m[PER_ROUND];
	static int order[PER_ROUND];
	static void *buf[2 * PER_ROUND];
	static MPI_Request r[2 * PER_ROUND]; /* receive i at i, send i at PER_ROUND + i */

	for (int i = 0; i < PER_ROUND; i++) {
		m[i].src = (int)hkt_below(&shared, (uint64_t)hkt_size);
		m[i].dst = (int)hkt_below(&shared, (uint64_t)hkt_size);
		m[i].comm = (int)hkt_below(&shared, COMMS);
		/* tags are unique in a round: order may then be shuffled on both sides */
		m[i].tag = i * 31 % 4096;
		m[i].size = draw_size(&shared);
		order[i] = i;
		r[i] = r[PER_ROUND + i] = MPI_REQUEST_NULL;
		buf[i] = buf[PER_ROUND + i] = NULL;
	}
	shuffle(order, PER_ROUND, &own);
	int late = (int)hkt_below(&own, PER_ROUND); /* receives after this one are posted late */

	for (int pass = 0; pass < 2; pass++) {
		for (int k = 0; k < PER_ROUND; k++) {
			int i = order[k];
			if (m[i].dst == hkt_rank && (k > late) == (pass == 1)) {
				buf[i] = hkt_alloc(m[i].size);
				MPI_Irecv(buf[i], (int)m[i].size, MPI_BYTE, m[i].src, m[i].tag,
					  comm[m[i].comm], &r[i]);
			}
			if (m[i].src == hkt_rank && pass == 0) {
				int s = PER_ROUND + i;
				buf[s] = hkt_alloc(m[i].size);
				hkt_fill(buf[s], m[i].size,
					 hkt_key((uint64_t)m[i].src, (uint64_t)m[i].dst,
						 (uint64_t)round, (uint64_t)i));
				MPI_Isend(buf[s], (int)m[i].size, MPI_BYTE, m[i].dst, m[i].tag,
					  comm[m[i].comm], &r[s]);
			}
		}
		if (hkt_below(&own, 4) == 0) {
			hkt_at("round %d: computing", round);
			hkt_compute(50 + (unsigned)hkt_below(&own, 150));
		}
	}
	hkt_at("round %d: wait for all", round);
	MPI_Waitall(2 * PER_ROUND, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < PER_ROUND; i++) {
		if (buf[i])
			hkt_verify(buf[i], m[i].size,
				   hkt_key((uint64_t)m[i].src, (uint64_t)m[i].dst, (uint64_t)round,
					   (uint64_t)i),
				   m[i].src, "random");
		free(buf[i]);
		free(buf[PER_ROUND + i]);
	}
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "p2p_random", MPI_THREAD_SINGLE);
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 20;

	for (int c = 0; c < COMMS; c++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comm[c]);
	for (int round = 0; round < rounds; round++)
		one_round(round);
	for (int c = 0; c < COMMS; c++)
		MPI_Comm_free(&comm[c]);
	return hkt_finish();
}

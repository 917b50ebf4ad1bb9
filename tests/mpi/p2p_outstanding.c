/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/p2p_outstanding.c: very many messages at once.
 *
 *  - storm: a thousand receives and sends in flight, completed in any order by Waitany, Waitsome,
 *    Testany, Testsome.
 *  - flood: a sender sends thousands of messages before the receiver posts the first receive.
 *  - order: messages of equal (source, tag, communicator) are received in the order of sending,
 * also when sizes alternate between the eager and the rendezvous protocol.
 */
#include "common.h"

#define STORM       1000
#define FLOOD_BYTES ((size_t)8 * 1024 * 1024) /* unexpected data a rank may have to keep */
#define FLOOD_MAX   20000
#define ORDER       400

static int to, from; /* ring neighbours at the current distance */

static size_t storm_size(int i)
{
	/* the largest sizes rarely: a thousand of them would only test the memory */
	return hkt_few_sizes[i % 50 == 49 ? hkt_nfew - 4 : i % (hkt_nfew - 6)];
}

enum completion { WAITANY, WAITSOME, TESTANY, TESTSOME, COMPLETIONS };
static const char *const completion_name[COMPLETIONS] = {"Waitany", "Waitsome", "Testany",
							 "Testsome"};

static void storm(enum completion how)
{
	static MPI_Request r[2 * STORM];
	static void *bufs[2 * STORM];
	static int done[2 * STORM];
	static int order[STORM];
	const char *what = completion_name[how];
	struct hkt_rng rng = {hkt_key(1, (uint64_t)hkt_rank, how, 0)};

	memset(done, 0, sizeof(done));
	for (int i = 0; i < STORM; i++) { /* receives are posted in one order … */
		bufs[i] = hkt_alloc(storm_size(i));
		MPI_Irecv(bufs[i], (int)storm_size(i), MPI_BYTE, from, i, MPI_COMM_WORLD, &r[i]);
		order[i] = i;
	}
	for (int i = STORM - 1; i > 0; i--) { /* … and the sends start in another */
		int j = (int)hkt_below(&rng, (uint64_t)i + 1), t = order[i];
		order[i] = order[j];
		order[j] = t;
	}
	for (int k = 0; k < STORM; k++) {
		int i = order[k];
		bufs[STORM + i] = hkt_alloc(storm_size(i));
		hkt_fill(bufs[STORM + i], storm_size(i),
			 hkt_key((uint64_t)hkt_rank, (uint64_t)to, (uint64_t)i, how));
		MPI_Isend(bufs[STORM + i], (int)storm_size(i), MPI_BYTE, to, i, MPI_COMM_WORLD,
			  &r[STORM + i]);
	}
	for (int left = 2 * STORM; left > 0;) {
		static int index[2 * STORM];
		int n = 1, flag = 1;
		hkt_at("storm: %s with %d left", what, left);
		if (how == WAITANY)
			MPI_Waitany(2 * STORM, r, index, MPI_STATUS_IGNORE);
		else if (how == WAITSOME)
			MPI_Waitsome(2 * STORM, r, &n, index, MPI_STATUSES_IGNORE);
		else if (how == TESTANY)
			MPI_Testany(2 * STORM, r, index, &flag, MPI_STATUS_IGNORE);
		else
			MPI_Testsome(2 * STORM, r, &n, index, MPI_STATUSES_IGNORE);
		for (int k = 0; flag && k < n; k++) {
			int i = index[k];
			HKT_CHECK(i >= 0 && i < 2 * STORM && !done[i],
				  "%s: request %d completed twice or is unknown", what, i);
			done[i] = 1;
			left--;
			if (i < STORM)
				hkt_verify(bufs[i], storm_size(i),
					   hkt_key((uint64_t)from, (uint64_t)hkt_rank, (uint64_t)i,
						   how),
					   from, what);
			free(bufs[i]);
		}
	}
}

/* Each rank sends all messages to its neighbour before it posts its own receives. A last empty
 * message with another tag proves that they were sent before they were received. */
static void flood(size_t size)
{
	int n = (int)(FLOOD_BYTES / (size + 64));
	n = n > FLOOD_MAX ? FLOOD_MAX : n;
	MPI_Request *r = hkt_alloc((size_t)n * sizeof(*r));
	uint8_t *out = hkt_alloc((size_t)n * size), *in = hkt_alloc(size);

	for (int i = 0; i < n; i++) {
		uint8_t *p = out + (size_t)i * size;
		hkt_at("flood: send %d of %d, size %zu", i, n, size);
		hkt_fill(p, size, hkt_key((uint64_t)hkt_rank, (uint64_t)to, (uint64_t)i, size));
		MPI_Isend(p, (int)size, MPI_BYTE, to, 10, MPI_COMM_WORLD, &r[i]);
	}
	hkt_at("flood: word to the neighbour, size %zu", size);
	MPI_Sendrecv(NULL, 0, MPI_BYTE, to, 11, NULL, 0, MPI_BYTE, from, 11, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	for (int i = 0; i < n; i++) {
		MPI_Status st;
		int count;
		hkt_at("flood: receive %d of %d, size %zu", i, n, size);
		MPI_Recv(in, (int)size, MPI_BYTE, from, 10, MPI_COMM_WORLD, &st);
		MPI_Get_count(&st, MPI_BYTE, &count);
		HKT_CHECK(count == (int)size,
			  "flood: peer %d, message %d: expected size %zu, found %d", from, i, size,
			  count);
		hkt_verify(in, size, hkt_key((uint64_t)from, (uint64_t)hkt_rank, (uint64_t)i, size),
			   from, "flood");
	}
	hkt_at("flood: wait for the sends, size %zu", size);
	MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
	free(r);
	free(out);
	free(in);
}

/* Two tags on two communicators. Within each of the four streams, sequence numbers must be in
 * order, although successive sizes differ by orders of magnitude. */
static void ordering(void)
{
	static MPI_Request r[4 * ORDER];
	static uint8_t *bufs[4 * ORDER];
	MPI_Comm comm[2] = {MPI_COMM_WORLD, MPI_COMM_NULL};

	hkt_at("order: dup");
	MPI_Comm_dup(MPI_COMM_WORLD, &comm[1]);
	for (int i = 0; i < 4 * ORDER; i++) {
		int stream = i % 4, seq = i / 4;
		size_t size = storm_size(seq * 3 + stream) | 8; /* room for the number itself */
		bufs[i] = hkt_alloc(size);
		hkt_fill(bufs[i], size, hkt_key((uint64_t)hkt_rank, (uint64_t)to, (uint64_t)i, 99));
		MPI_Isend(bufs[i], (int)size, MPI_BYTE, to, 20 + stream % 2, comm[stream / 2],
			  &r[i]);
	}
	uint8_t *in = hkt_alloc(HKT_MAX_SIZE);
	for (int stream = 3; stream >= 0; stream--) {
		for (int seq = 0; seq < ORDER; seq++) {
			MPI_Status st;
			int count, i = seq * 4 + stream;
			size_t size = storm_size(seq * 3 + stream) | 8;
			hkt_at("order: receive %d of stream %d", seq, stream);
			/* wildcards where only one tag or one source is left */
			int source = seq % 2 && hkt_size == 2 ? MPI_ANY_SOURCE : from;
			MPI_Recv(in, (int)HKT_MAX_SIZE, MPI_BYTE, source, 20 + stream % 2,
				 comm[stream / 2], &st);
			MPI_Get_count(&st, MPI_BYTE, &count);
			HKT_CHECK(
				count == (int)size,
				"order: peer %d, stream %d, number %d: expected size %zu, found %d",
				from, stream, seq, size, count);
			hkt_verify(in, size,
				   hkt_key((uint64_t)from, (uint64_t)hkt_rank, (uint64_t)i, 99),
				   from, "order");
		}
	}
	hkt_at("order: wait for the sends");
	MPI_Waitall(4 * ORDER, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < 4 * ORDER; i++)
		free(bufs[i]);
	free(in);
	MPI_Comm_free(&comm[1]);
}

int main(int argc, char **argv)
{
	static const size_t flood_sizes[] = {0, 8, 257, 1453, 4097, 8193, 65537};

	hkt_init(&argc, &argv, "p2p_outstanding", MPI_THREAD_SINGLE);
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 1;
	for (int k = 0; k < rounds; k++) {
		int d = k % (hkt_size > 1 ? hkt_size - 1 : 1) + 1;
		to = (hkt_rank + d) % hkt_size;
		from = (hkt_rank - d % hkt_size + hkt_size) % hkt_size;
		for (int h = 0; h < COMPLETIONS; h++)
			storm((enum completion)h);
		for (size_t i = 0; i < sizeof(flood_sizes) / sizeof(flood_sizes[0]); i++)
			flood(flood_sizes[i]);
		ordering();
	}
	return hkt_finish();
}

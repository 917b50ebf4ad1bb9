/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/halo_tags.c: many tags from one rank to another. It is plain MPI; the promoter is under
 * test. Two ranks.
 *
 *     repeat    Forty tags are used again and again.
 *     order     The same. Then messages of these and of new tags, with other sizes, are sent in any
 *               order. Some are received by tag, the others of any tag, in the order of sending.
 *     late      A message is received after thousands of another tag.
 *     seldom    A message of one tag follows thousands of another, again and again. All are
 *               received at once.
 *     held      As late, and others wait to be sent when the channel ends. Their places become free
 *               while the sender computes.
 *     sequence  Each message has a tag of its own, except those of one tag.
 *     crowded   Receives of more tags than are watched are posted, while earlier messages are
 *               received of any tag.
 *     ended     The same, after a probe has ended the channel of one of these messages. The first
 *               one is received by its tag.
 *     ending    Thousands of tags are used in turn. Then all channels end at once, by a probe and
 *               with the communicator.
 */
#include "common.h"

#define TAGS     40
#define ROUNDS   8
#define DOUBLES  64
#define SENT     300 /* in any order */
#define SEQUENCE 5000
#define POSTED   16400
#define ENDING   2000

enum { U = 1, T, V, BACK, MANY = 100 };

static MPI_Comm comm;
static uint64_t seed;
static double buf[DOUBLES];

static uint64_t key_of(int src, int tag, int index)
{
	return hkt_key(seed, (uint64_t)src, (uint64_t)tag, (uint64_t)index);
}

static void send_one(int tag, int index, int doubles)
{
	hkt_fill(buf, 8 * (size_t)doubles, key_of(hkt_rank, tag, index));
	MPI_Send(buf, doubles, MPI_DOUBLE, 1 - hkt_rank, tag, comm);
}

static void receive_one(int of, int tag, int index, int doubles)
{
	MPI_Status s;
	int count;

	MPI_Recv(buf, DOUBLES, MPI_DOUBLE, 1 - hkt_rank, of, comm, &s);
	MPI_Get_count(&s, MPI_DOUBLE, &count);
	HKT_CHECK(s.MPI_TAG == tag && count == doubles,
		  "%d doubles of tag %d instead of %d of tag %d", count, s.MPI_TAG, doubles, tag);
	hkt_verify(buf, 8 * (size_t)doubles, key_of(1 - hkt_rank, tag, index), 1 - hkt_rank,
		   "message");
}

/* A message each way, so that neither rank is ahead. */
static void step(int tag, int index)
{
	if (hkt_rank == 0) {
		send_one(tag, index, DOUBLES);
		receive_one(tag, tag, index, DOUBLES);
	} else {
		receive_one(tag, tag, index, DOUBLES);
		send_one(tag, index, DOUBLES);
	}
}

static void repeat(int tags, int rounds)
{
	for (int k = 0; k < rounds; k++)
		for (int t = 0; t < tags; t++)
			step(MANY + t, k);
}

static void order(void)
{
	static double out[SENT][DOUBLES];
	static struct {
		int tag, index, doubles;
		bool received;
	} m[SENT];
	int used[2 * TAGS] = {0};
	MPI_Request q[SENT];

	repeat(TAGS, ROUNDS);
	for (int t = 0; t < TAGS; t++)
		used[t] = ROUNDS;
	for (int k = 0; k < SENT; k++) { /* the same at both ends */
		uint64_t r = hkt_key(seed, 77, (uint64_t)k, 0);
		int t = (int)(r % 11 == 0 ? TAGS + r / 11 % TAGS : r / 11 % (TAGS / 4));

		m[k].tag = MANY + t;
		m[k].index = used[t]++;
		m[k].doubles = r / 1000 % 40 == 0 ? 3 : DOUBLES;
		m[k].received = false;
	}
	MPI_Barrier(comm);
	for (int k = 0; hkt_rank == 0 && k < SENT; k++) {
		hkt_fill(out[k], 8 * (size_t)m[k].doubles, key_of(0, m[k].tag, m[k].index));
		MPI_Isend(out[k], m[k].doubles, MPI_DOUBLE, 1, m[k].tag, comm, &q[k]);
	}
	if (hkt_rank == 0)
		MPI_Waitall(SENT, q, MPI_STATUSES_IGNORE);
	for (int left = SENT; hkt_rank == 1 && left > 0; left--) {
		uint64_t r = hkt_key(seed, 78, (uint64_t)left, 0);
		int first = 0, k;

		while (m[first].received)
			first++;
		k = first;
		if (r % 3 == 0) { /* some other, of which it is the first of its tag */
			int named = m[r / 3 % SENT].tag;

			for (k = 0; k < SENT && (m[k].received || m[k].tag != named);)
				k++;
			if (k == SENT)
				k = first;
			receive_one(m[k].tag, m[k].tag, m[k].index, m[k].doubles);
		} else {
			receive_one(MPI_ANY_TAG, m[k].tag, m[k].index, m[k].doubles);
		}
		m[k].received = true;
	}
	MPI_Barrier(comm);
}

static void late(void)
{
	double mine[DOUBLES];
	MPI_Request q = MPI_REQUEST_NULL;

	repeat(2, 2 * ROUNDS);
	hkt_fill(mine, sizeof(mine), key_of(0, MANY, 2 * ROUNDS));
	if (hkt_rank == 0)
		MPI_Isend(mine, DOUBLES, MPI_DOUBLE, 1, MANY, comm, &q);
	for (int k = 0; k < SEQUENCE; k++)
		step(MANY + 1, 2 * ROUNDS + k);
	if (hkt_rank == 0) {
		send_one(T, 0, DOUBLES);
	} else {
		receive_one(MPI_ANY_TAG, MANY, 2 * ROUNDS, DOUBLES);
		receive_one(MPI_ANY_TAG, T, 0, DOUBLES);
	}
	MPI_Wait(&q, MPI_STATUS_IGNORE);
}

static void seldom(void)
{
	int k = 2 * ROUNDS;

	repeat(2, 2 * ROUNDS);
	for (int round = 0; round < 6; round++) {
		step(MANY, 2 * ROUNDS + round);
		for (int i = 0; i < 1500; i++)
			step(MANY + 1, k++);
	}
}

/* The log has 1024 messages. From the second tag on, its older half is checked every 256 messages.
 */
static void held(void)
{
	enum {
		WAITS = 9,
		AFTER = 2,
		LOOK = 1 + 2 * 512,
		SENT_BY_THEN = 3 * 2 * ROUNDS + WAITS + AFTER
	};
	static double out[WAITS + AFTER][DOUBLES];
	MPI_Request q[WAITS + AFTER];
	int k = 2 * ROUNDS;

	repeat(3, 2 * ROUNDS);
	for (int i = 0; hkt_rank == 0 && i < WAITS + AFTER; i++) {
		int tag = i < WAITS ? MANY : MANY + 2, index = k + (i < WAITS ? i : i - WAITS);

		hkt_fill(out[i], sizeof(out[i]), key_of(0, tag, index));
		MPI_Isend(out[i], DOUBLES, MPI_DOUBLE, 1, tag, comm, &q[i]);
	}
	for (int i = SENT_BY_THEN; i < LOOK; i++)
		step(MANY + 1, k++);
	if (hkt_rank == 0) {
		hkt_compute(200); /* meanwhile the progress thread reads that all puts except the
				     last were taken */
	} else {
		hkt_compute(20);
		for (int i = 0; i < WAITS - 1; i++)
			receive_one(MANY, MANY, 2 * ROUNDS + i, DOUBLES);
	}
	for (int i = 0; i < 600; i++)
		step(MANY + 1, k++);
	if (hkt_rank == 1) {
		receive_one(MPI_ANY_TAG, MANY, 2 * ROUNDS + WAITS - 1, DOUBLES);
		for (int i = 0; i < AFTER; i++)
			receive_one(MPI_ANY_TAG, MANY + 2, 2 * ROUNDS + i, DOUBLES);
	} else {
		MPI_Waitall(WAITS + AFTER, q, MPI_STATUSES_IGNORE);
	}
}

static void sequence(void)
{
	for (int k = 0; k < SEQUENCE; k++) {
		step(U, k);
		step(MANY + k, 0);
	}
	if (hkt_rank == 0) {
		send_one(V, 0, DOUBLES);
		send_one(U, SEQUENCE, DOUBLES);
	} else {
		receive_one(MPI_ANY_TAG, V, 0, DOUBLES);
		receive_one(MPI_ANY_TAG, U, SEQUENCE, DOUBLES);
	}
}

static void crowd(bool probed)
{
	static double in[POSTED], out[3][DOUBLES];
	static MPI_Request q[POSTED], p[3];
	static const int tag[3] = {T, U, V};
	int there;

	for (int k = 0; k < 3 * ROUNDS; k++)
		step(U, k);
	for (int k = 0; hkt_rank == 0 && k < 3; k++) {
		hkt_fill(out[k], sizeof(out[k]), key_of(0, tag[k], k == 1 ? 3 * ROUNDS : 0));
		MPI_Isend(out[k], DOUBLES, MPI_DOUBLE, 1, tag[k], comm, &p[k]);
	}
	MPI_Barrier(comm);
	if (hkt_rank == 1 && probed)
		MPI_Iprobe(0, U, comm, &there, MPI_STATUS_IGNORE);
	for (int k = 0; hkt_rank == 1 && k < POSTED; k++)
		MPI_Irecv(&in[k], 1, MPI_DOUBLE, 0, MANY + k, comm, &q[k]);
	for (int k = 0; hkt_rank == 1 && k < 3; k++)
		receive_one(probed && k == 0 ? T : MPI_ANY_TAG, tag[k], k == 1 ? 3 * ROUNDS : 0,
			    DOUBLES);
	if (hkt_rank == 0)
		MPI_Waitall(3, p, MPI_STATUSES_IGNORE);
	for (int k = 0; hkt_rank == 0 && k < POSTED; k++)
		MPI_Send(&(double){k}, 1, MPI_DOUBLE, 1, MANY + k, comm);
	for (int k = 0; hkt_rank == 1 && k < POSTED; k++) {
		MPI_Wait(&q[k], MPI_STATUS_IGNORE);
		HKT_CHECK(in[k] == k, "%g instead of %d", in[k], k);
	}
	for (int k = 0; k < 3 * ROUNDS; k++)
		step(U, 3 * ROUNDS + 1 + k);
}

static void crowded(void)
{
	crowd(false);
}

static void ended(void)
{
	crowd(true);
}

/* The report to the other rank when all channels end must not need more memory than the channels.
 */
static void ending(void)
{
	long before;
	int flag;

	repeat(ENDING, 7);
	MPI_Barrier(comm);
	before = hkt_peak_kib();
	MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
	HKT_CHECK(!flag, "a message that nobody has sent");
	MPI_Barrier(comm);
	MPI_Comm_free(&comm);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	repeat(ENDING, 7);
	MPI_Comm_free(&comm);
	long more = hkt_peak_kib() - before;

	HKT_CHECK(more < 40 << 10, "%ld KiB more to end %d channels", more, ENDING);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *mode;
		void (*run)(void);
	} all[] = {{"order", order}, {"late", late},         {"seldom", seldom},
		   {"held", held},   {"sequence", sequence}, {"crowded", crowded},
		   {"ended", ended}, {"ending", ending}};

	hkt_init(&argc, &argv, "halo_tags", MPI_THREAD_SINGLE);
	seed = hkt_opt.seed;
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 1;
	const char *mode = hkt_opt.mode ? hkt_opt.mode : "repeat";

	HKT_CHECK(hkt_size == 2, "two ranks");
	for (int round = 0; round < rounds; round++, seed++) {
		hkt_at("%s, round %d", mode, round);
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		if (strcmp(mode, "repeat") == 0)
			repeat(TAGS, 25 * ROUNDS);
		for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
			if (strcmp(mode, all[k].mode) == 0)
				all[k].run();
		MPI_Comm_free(&comm);
	}
	return hkt_finish();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/halo_overtaken.c: messages that overtake others, where some go by puts and some by MPI.
 * It is plain MPI; the promoter is under test. Two ranks; rank 1 receives.
 *
 *     any      Tag 1 repeats. Then rank 0 sends tags 2, 1, 3, and rank 1 receives from any source
 *              and of any tag. Before that it may have posted or completed receives of tag 2 from
 *              any source, or sent itself a message that matches one of them.
 *     cancel   Rank 1 posts receives far ahead. It has the last messages when it cancels receives
 *              of earlier ones. Those were sent, so no receive may end cancelled.
 *     refused  MPI refuses some sends, also as halves of a Sendrecv. They are not messages, so the
 *              next receive gets the next message.
 */
#include "common.h"

#define REPEATS 24
#define LONG    30000 /* doubles: no eager message */
#define SHORT   8

enum { U = 1, T, V, BACK };
enum { COMPLETED = 1, POSTED = 2, PERSISTENT = 4, OWN = 8, LONG_T = 16, VARIANTS = 32 };
enum ask { SOURCE_AND_TAG, TAG_ALONE, PROBED, MATCHED, FREED, ASKS };

static MPI_Comm comm;
static uint64_t seed;
static double buf[LONG];

static uint64_t key_of(int src, int tag, int index)
{
	return hkt_key(seed, (uint64_t)src, (uint64_t)tag, (uint64_t)index);
}

static void send_now(int dst, int tag, int index, int doubles)
{
	hkt_fill(buf, 8 * (size_t)doubles, key_of(hkt_rank, tag, index));
	MPI_Send(buf, doubles, MPI_DOUBLE, dst, tag, comm);
}

static void check(const double *got, const MPI_Status *s, int src, int tag, int index, int doubles)
{
	int count;

	MPI_Get_count(s, MPI_DOUBLE, &count);
	HKT_CHECK(s->MPI_SOURCE == src && s->MPI_TAG == tag && count == doubles,
		  "%d doubles of tag %d from %d instead of %d of tag %d from %d", count, s->MPI_TAG,
		  s->MPI_SOURCE, doubles, tag, src);
	hkt_verify(got, 8 * (size_t)doubles, key_of(src, tag, index), src, "message");
}

static void receive(int src, int from, int tag, int of, int index, int doubles)
{
	MPI_Status s;

	MPI_Recv(buf, LONG, MPI_DOUBLE, from, of, comm, &s);
	check(buf, &s, src, tag, index, doubles);
}

/* ---- any ------------------------------------------------------------------------------------- */

/* Afterwards tag 1 goes by puts. With COMPLETED, some messages of tag 2 are received from any
 * source meanwhile. */
static int repeat(int variant)
{
	int others = 0;

	for (int k = 0; k < REPEATS; k++) {
		bool other = (variant & COMPLETED) && k % 5 == 0;

		if (hkt_rank == 0) {
			if (other)
				send_now(1, T, others, SHORT);
			send_now(1, U, k, SHORT);
			receive(1, 1, BACK, BACK, k, SHORT);
		} else {
			if (other)
				receive(0, MPI_ANY_SOURCE, T, T, others, SHORT);
			receive(0, 0, U, U, k, SHORT);
			send_now(0, BACK, k, SHORT);
		}
		others += other;
	}
	return others;
}

static void receive_any(enum ask ask, int src, int tag, int index, int doubles)
{
	int from = ask == TAG_ALONE ? src : MPI_ANY_SOURCE;
	MPI_Message message;
	MPI_Status s;

	if (ask == MATCHED) {
		MPI_Mprobe(from, MPI_ANY_TAG, comm, &message, &s);
		MPI_Mrecv(buf, LONG, MPI_DOUBLE, &message, &s);
		check(buf, &s, src, tag, index, doubles);
		return;
	}
	if (ask == PROBED) {
		MPI_Probe(from, MPI_ANY_TAG, comm, &s);
		HKT_CHECK(s.MPI_SOURCE == src && s.MPI_TAG == tag,
			  "tag %d from %d was probed, not %d from %d", s.MPI_TAG, s.MPI_SOURCE, tag,
			  src);
	}
	receive(src, from, tag, MPI_ANY_TAG, index, doubles);
}

static void send_three(int others, int doubles)
{
	static double first[LONG], second[SHORT], third[SHORT];
	MPI_Request q[3];

	hkt_fill(first, 8 * (size_t)doubles, key_of(0, T, others));
	hkt_fill(second, sizeof(second), key_of(0, U, REPEATS));
	hkt_fill(third, sizeof(third), key_of(0, V, 0));
	MPI_Isend(first, doubles, MPI_DOUBLE, 1, T, comm, &q[0]);
	MPI_Isend(second, SHORT, MPI_DOUBLE, 1, U, comm, &q[1]);
	MPI_Isend(third, SHORT, MPI_DOUBLE, 1, V, comm, &q[2]);
	MPI_Barrier(comm);
	MPI_Waitall(3, q, MPI_STATUSES_IGNORE);
}

static void any(int variant, enum ask ask)
{
	static double posted[LONG], mine[SHORT];
	MPI_Request q = MPI_REQUEST_NULL, own = MPI_REQUEST_NULL;
	MPI_Status s;
	int doubles = variant & LONG_T ? LONG : SHORT;
	bool takes_own = (variant & POSTED) && (variant & OWN);

	hkt_at("receives of any tag, variant %d, asked by %d", variant, ask);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	int others = repeat(variant);

	if (hkt_rank == 1 && (variant & POSTED)) {
		if (variant & PERSISTENT) {
			MPI_Recv_init(posted, LONG, MPI_DOUBLE, MPI_ANY_SOURCE, T, comm, &q);
			MPI_Start(&q);
		} else {
			MPI_Irecv(posted, LONG, MPI_DOUBLE, MPI_ANY_SOURCE, T, comm, &q);
		}
		if (variant & OWN) {
			hkt_fill(mine, sizeof(mine), key_of(1, T, 0));
			MPI_Isend(mine, SHORT, MPI_DOUBLE, 1, T, comm, &own);
		}
		if (ask == FREED)
			MPI_Request_free(&q);
	}
	MPI_Barrier(comm);
	if (hkt_rank == 0) {
		send_three(others, doubles);
	} else {
		MPI_Barrier(comm);
		if (!(variant & POSTED) || takes_own)
			receive_any(ask, 0, T, others, doubles);
		receive_any(ask, 0, U, REPEATS, SHORT);
		receive_any(ask, 0, V, 0, SHORT);
		MPI_Wait(&own, MPI_STATUS_IGNORE);
		if (q != MPI_REQUEST_NULL) {
			MPI_Wait(&q, &s);
			check(posted, &s, takes_own, T, takes_own ? 0 : others,
			      takes_own ? SHORT : doubles);
		}
		if (q != MPI_REQUEST_NULL)
			MPI_Request_free(&q);
	}
	MPI_Barrier(comm);
	MPI_Comm_free(&comm);
}

/* ---- cancel ---------------------------------------------------------------------------------- */

#define AHEAD 120 /* posted before any is sent */
#define ALL   (AHEAD + 6)
#define FIRST 12
#define LARGE 1900 /* doubles: an eager message still, so that soon no more may leave */

static double block[2][ALL][LARGE];

/* More messages than fit the window, so that some wait in Open MPI while later ones go by puts. */
static void send_ahead(void)
{
	MPI_Request q[ALL];

	for (int k = 0; k < ALL; k++)
		hkt_fill(block[0][k], sizeof(block[0][k]), key_of(0, U, k));
	for (int k = 0; k < FIRST; k++)
		MPI_Send(block[0][k], LARGE, MPI_DOUBLE, 1, U, comm);
	receive(1, 1, BACK, BACK, 0, SHORT);
	for (int k = FIRST; k < ALL; k++)
		MPI_Isend(block[0][k], LARGE, MPI_DOUBLE, 1, U, comm, &q[k]);
	MPI_Waitall(ALL - FIRST, q + FIRST, MPI_STATUSES_IGNORE);
}

static void receive_last(void)
{
	MPI_Request q[ALL];
	MPI_Status s;
	int cancelled;

	for (int k = 0; k < AHEAD; k++)
		MPI_Irecv(block[1][k], LARGE, MPI_DOUBLE, 0, U, comm, &q[k]);
	MPI_Barrier(comm);
	for (int k = 0; k < FIRST; k++)
		MPI_Wait(&q[k], MPI_STATUS_IGNORE);
	for (int k = AHEAD; k < ALL; k++)
		MPI_Irecv(block[1][k], LARGE, MPI_DOUBLE, 0, U, comm, &q[k]);
	send_now(0, BACK, 0, SHORT);
	hkt_compute(2);
	for (int k = AHEAD + 2; k < ALL; k++) /* those that go by puts */
		MPI_Wait(&q[k], MPI_STATUS_IGNORE);
	for (int k = AHEAD + 1; k >= FIRST; k--)
		MPI_Cancel(&q[k]);
	for (int k = FIRST; k < AHEAD + 2; k++) {
		MPI_Wait(&q[k], &s);
		MPI_Test_cancelled(&s, &cancelled);
		HKT_CHECK(!cancelled, "receive %d was cancelled, though its message was sent", k);
	}
	for (int k = 0; k < ALL; k++)
		hkt_verify(block[1][k], sizeof(block[1][k]), key_of(0, U, k), 0, "message");
}

/* Nothing was sent for the first receive; the following ones get the next messages. */
static void receive_none(void)
{
	MPI_Request q;
	MPI_Status s;
	int cancelled;

	MPI_Irecv(buf, LONG, MPI_DOUBLE, 0, U, comm, &q);
	MPI_Cancel(&q);
	MPI_Wait(&q, &s);
	MPI_Test_cancelled(&s, &cancelled);
	HKT_CHECK(cancelled, "a receive without message was not cancelled");
}

static void cancel(void)
{
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	if (hkt_rank == 0) {
		MPI_Barrier(comm);
		send_ahead();
	} else {
		receive_last();
	}
	MPI_Barrier(comm);
	if (hkt_rank == 1)
		receive_none();
	MPI_Barrier(comm);
	if (hkt_rank == 0) {
		send_now(1, U, ALL, SHORT);
		send_now(1, V, 0, SHORT);
	} else {
		receive(0, MPI_ANY_SOURCE, U, MPI_ANY_TAG, ALL, SHORT);
		receive(0, MPI_ANY_SOURCE, V, MPI_ANY_TAG, 0, SHORT);
	}
	MPI_Comm_free(&comm);
}

/* ---- refused --------------------------------------------------------------------------------- */

/* MPI checks both halves before it starts either, so no receive may wait for a message that no rank
 * sends. */
static void refused_halves(MPI_Datatype type)
{
	struct {
		const void *out;
		int count;
		MPI_Datatype type;
		int dest, tag;
	} bad[] = {{buf, 1, type, hkt_size, U},
		   {buf, 1, type, 1, -1},
		   {NULL, 1, type, 1, U},
		   {buf, -1, type, 1, U},
		   {buf, 1, MPI_DATATYPE_NULL, 1, U},
		   {NULL, 1, MPI_DOUBLE, MPI_PROC_NULL, U}};
	static double in[SHORT];

	for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++)
		HKT_CHECK(MPI_Sendrecv(bad[k].out, bad[k].count, bad[k].type, bad[k].dest,
				       bad[k].tag, in, SHORT, MPI_DOUBLE, 1, BACK, comm,
				       MPI_STATUS_IGNORE) != MPI_SUCCESS,
			  "MPI_Sendrecv, bad half %zu", k);
	for (int k = 0; k < 2; k++)
		HKT_CHECK(MPI_Sendrecv_replace(in, SHORT, MPI_DOUBLE, bad[k].dest, bad[k].tag, 1,
					       BACK, comm, MPI_STATUS_IGNORE) != MPI_SUCCESS,
			  "MPI_Sendrecv_replace, bad half %d", k);
}

/* Of several requests none is started if one cannot be. */
static void refused_start(void)
{
	MPI_Request q[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};

	if (hkt_rank != 0)
		return;
	MPI_Send_init(buf, SHORT, MPI_DOUBLE, 1, U, comm, &q[0]);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	HKT_CHECK(MPI_Startall(2, q) != MPI_SUCCESS, "MPI_Startall");
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	MPI_Request_free(&q[0]);
}

/* The channel goes by puts here. */
static void refused_by_puts(MPI_Datatype type)
{
	MPI_Message message;
	MPI_Request q;
	MPI_Status s;

	if (hkt_rank == 0) {
		HKT_CHECK(MPI_Send(NULL, 1, type, 1, U, comm) != MPI_SUCCESS, "MPI_Send");
		HKT_CHECK(MPI_Isend(NULL, 1, type, 1, U, comm, &q) != MPI_SUCCESS, "MPI_Isend");
		send_now(1, U, REPEATS, SHORT);
		MPI_Barrier(comm);
		return;
	}
	HKT_CHECK(MPI_Recv(NULL, 1, type, 0, U, comm, &s) != MPI_SUCCESS, "MPI_Recv");
	MPI_Mprobe(0, U, comm, &message, &s);
	HKT_CHECK(MPI_Mrecv(buf, -1, MPI_DOUBLE, &message, &s) != MPI_SUCCESS, "a count");
	HKT_CHECK(MPI_Mrecv(buf, SHORT, MPI_DATATYPE_NULL, &message, &s) != MPI_SUCCESS, "a type");
	HKT_CHECK(MPI_Mrecv(NULL, SHORT, MPI_DOUBLE, &message, &s) != MPI_SUCCESS, "no buffer");
	HKT_CHECK(MPI_Imrecv(NULL, 1, type, &message, &q) != MPI_SUCCESS, "no buffer of a type");
	HKT_CHECK(MPI_Mrecv(buf, SHORT, MPI_DOUBLE, &message, &s) == MPI_SUCCESS, "MPI_Mrecv");
	check(buf, &s, 0, U, REPEATS, SHORT);
	MPI_Barrier(comm);
}

static void refused(void)
{
	MPI_Datatype type;
	MPI_Request q;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Type_contiguous(SHORT, MPI_DOUBLE, &type);
	MPI_Type_commit(&type);
	if (hkt_rank == 0) { /* no address */
		HKT_CHECK(MPI_Send(NULL, 1, type, 1, U, comm) != MPI_SUCCESS, "MPI_Send");
		HKT_CHECK(MPI_Isend(NULL, 1, type, 1, U, comm, &q) != MPI_SUCCESS, "MPI_Isend");
		HKT_CHECK(MPI_Irecv(NULL, 1, type, 1, BACK, comm, &q) != MPI_SUCCESS, "MPI_Irecv");
		refused_halves(type);
	}
	repeat(0);
	repeat(0);
	refused_start();
	refused_by_puts(type);
	repeat(0);
	MPI_Type_free(&type);
	MPI_Barrier(comm);
	MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "halo_overtaken", MPI_THREAD_SINGLE);
	seed = hkt_opt.seed;
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 1;

	HKT_CHECK(hkt_size == 2 && hkt_opt.mode, "two ranks, and --mode any, cancel or refused");
	for (int round = 0; round < rounds; round++) {
		if (strcmp(hkt_opt.mode, "cancel") == 0) {
			hkt_at("cancel, round %d", round);
			cancel();
			continue;
		}
		if (strcmp(hkt_opt.mode, "refused") == 0) {
			hkt_at("refused, round %d", round);
			refused();
			continue;
		}
		for (int variant = 0; variant < VARIANTS; variant++)
			for (int ask = 0; ask < ASKS; ask++)
				any(variant, (enum ask)ask);
	}
	return hkt_finish();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/halo_edges.c: rare calls while messages go by puts. It is plain MPI; the promoter is
 * under test. Two ranks; rank 0 sends.
 *
 *     again    A channel ends before its last message is received. Then its messages repeat.
 *     once     A receive from any source ends a channel, whose messages repeat as before.
 *     freed    The program frees communicators before the objects that it made from them: a
 *              persistent request, a receive that it then cancels, a probed message, a receive
 *              whose message was too long. The next communicator may have the same address.
 *     unused   Channels end between the agreement on puts and the first put. They keep no memory.
 *     large    Sendrecv_replace of more than 2 GiB, all in one MiB of memory, and a receive with
 *              space for more than 2 GiB.
 *     flood    Blocking sends, far ahead of the receives.
 */
#include "common.h"

#include <unistd.h>

#define DOUBLES 64
#define FLOOD   2000
#define PIECE   8000 /* doubles of each */

enum { U = 1, T, BACK };

static MPI_Comm comm;
static uint64_t seed;
static double buf[PIECE];
static int sent; /* of tag U in @comm */

static void fill(int index, int doubles)
{
	hkt_fill(buf, 8 * (size_t)doubles, hkt_key(seed, U, (uint64_t)index, 0));
}

static void verify(int index, int doubles)
{
	hkt_verify(buf, 8 * (size_t)doubles, hkt_key(seed, U, (uint64_t)index, 0), 0, "message");
}

static void start_anew(void)
{
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	sent = 0;
}

/* Each message is answered, so that neither rank is ahead. */
static void repeat(int times)
{
	for (; times > 0; times--, sent++) {
		fill(sent, DOUBLES);
		if (hkt_rank == 0) {
			MPI_Send(buf, DOUBLES, MPI_DOUBLE, 1, U, comm);
			MPI_Recv(NULL, 0, MPI_BYTE, 1, BACK, comm, MPI_STATUS_IGNORE);
		} else {
			memset(buf, 0, sizeof(buf));
			MPI_Recv(buf, DOUBLES, MPI_DOUBLE, 0, U, comm, MPI_STATUS_IGNORE);
			verify(sent, DOUBLES);
			MPI_Send(NULL, 0, MPI_BYTE, 0, BACK, comm);
		}
	}
}

static void again(void)
{
	repeat(13);
	fill(sent, DOUBLES);
	if (hkt_rank == 0) {
		MPI_Send(buf, DOUBLES, MPI_DOUBLE, 1, U, comm);
	} else {
		MPI_Status s;

		memset(buf, 0, sizeof(buf));
		MPI_Probe(MPI_ANY_SOURCE, U, comm, &s); /* which ends the channel */
		MPI_Recv(buf, DOUBLES, MPI_DOUBLE, 0, U, comm, MPI_STATUS_IGNORE);
		verify(sent, DOUBLES);
	}
	sent++;
	repeat(100);
}

static void once(void)
{
	repeat(13);
	fill(sent, DOUBLES);
	if (hkt_rank == 0) {
		MPI_Send(buf, DOUBLES, MPI_DOUBLE, 1, U, comm);
	} else {
		memset(buf, 0, sizeof(buf));
		MPI_Recv(buf, DOUBLES, MPI_DOUBLE, MPI_ANY_SOURCE, U, comm, MPI_STATUS_IGNORE);
		verify(sent, DOUBLES);
	}
	sent++;
	repeat(24);
}

/* ---- unused ---------------------------------------------------------------------------------- */

#define UNUSED 12        /* tags; each two are used once more than those before until they end */
#define LONG   (6 << 20) /* bytes, so that memory for some of them is given back to the kernel */

static long mapped_mb(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long pages;

	HKT_CHECK(f && fscanf(f, "%ld", &pages) == 1, "no /proc/self/statm");
	fclose(f);
	return pages * sysconf(_SC_PAGESIZE) >> 20;
}

static void step_long(char *room, int tag, int index, int source)
{
	if (hkt_rank == 0) {
		memset(room, index + tag, LONG);
		MPI_Send(room, LONG, MPI_BYTE, 1, tag, comm);
		MPI_Recv(NULL, 0, MPI_BYTE, 1, BACK, comm, MPI_STATUS_IGNORE);
	} else {
		MPI_Recv(room, LONG, MPI_BYTE, source, tag, comm, MPI_STATUS_IGNORE);
		hkt_verify_value(room, LONG, (uint8_t)(index + tag), 0, "message");
		MPI_Send(NULL, 0, MPI_BYTE, 0, BACK, comm);
	}
}

static void unused(void)
{
	char *room = hkt_alloc(LONG);
	long before = 0;

	for (int tag = T; tag <= BACK + UNUSED; tag++) {
		int source = tag & 1 ? 0 : MPI_ANY_SOURCE, index = 0, flag;

		if (tag == BACK)
			continue;
		while (index < 1 + tag / 2)
			step_long(room, tag, index++, 0);
		if (hkt_rank == 1)
			MPI_Iprobe(0, tag, comm, &flag, MPI_STATUS_IGNORE); /* ends it */
		MPI_Barrier(comm);
		while (index < 5 + tag / 2)
			step_long(room, tag, index++, source);
		if (tag == T)
			before = mapped_mb();
	}
	long more = mapped_mb() - before;

	HKT_CHECK(more < LONG >> 20, "%ld MiB are kept for what has ended", more);
	free(room);
}

/* ---- freed ----------------------------------------------------------------------------------- */

/* One end counts a message or a receive that the other end does not count. */
static void free_with_request(bool persistent)
{
	MPI_Request q;

	if (hkt_rank == 0 && persistent)
		MPI_Send_init(buf, DOUBLES, MPI_DOUBLE, 1, U, comm, &q);
	if (hkt_rank == 1)
		MPI_Irecv(buf, DOUBLES, MPI_DOUBLE, 0, U, comm, &q);
	MPI_Barrier(comm);
	MPI_Comm_free(&comm);
	if (hkt_rank == 0 && persistent) {
		fill(0, DOUBLES);
		MPI_Start(&q);
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		MPI_Request_free(&q);
	} else if (hkt_rank == 1) {
		if (!persistent)
			MPI_Cancel(&q);
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		if (persistent)
			verify(0, DOUBLES);
	}
}

/* For an error of a message that goes by MPI, Open MPI 4.1 reads the freed communicator. On a busy
 * machine a channel may be set up only after some dozens of messages. And a probe that is earlier
 * than its message ends the channel. */
#define UNTIL_PUTS 150

static void free_with_message(void)
{
	MPI_Message message = MPI_MESSAGE_NULL;

	repeat(UNTIL_PUTS);
	fill(sent, DOUBLES);
	if (hkt_rank == 0)
		MPI_Send(buf, DOUBLES, MPI_DOUBLE, 1, U, comm);
	MPI_Barrier(MPI_COMM_WORLD);
	if (hkt_rank == 1)
		MPI_Mprobe(0, U, comm, &message, MPI_STATUS_IGNORE);
	MPI_Comm_free(&comm);
	if (hkt_rank == 1) {
		int rc;

		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		rc = MPI_Mrecv(buf, DOUBLES / 2, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
		HKT_CHECK(rc == MPI_ERR_TRUNCATE, "%d instead of a truncated message", rc);
	}
}

/* The error handler of the communicator on which it was received applies. */
static void free_with_error(void)
{
	MPI_Request q;

	repeat(UNTIL_PUTS);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	if (hkt_rank == 1)
		MPI_Irecv(buf, DOUBLES / 2, MPI_DOUBLE, 0, U, comm, &q);
	else
		MPI_Send(buf, DOUBLES, MPI_DOUBLE, 1, U, comm);
	MPI_Comm_free(&comm);
	if (hkt_rank == 1) {
		int rc = MPI_Wait(&q, MPI_STATUS_IGNORE);

		HKT_CHECK(rc == MPI_ERR_TRUNCATE, "%d instead of a truncated message", rc);
	}
}

static void freed(void)
{
	for (int k = 0; k < 5; k++) {
		hkt_at("freed, %d", k);
		if (k % 4 == 3)
			free_with_error();
		else if (k % 4 == 2)
			free_with_message();
		else
			free_with_request(k % 4 == 0);
		start_anew();
		repeat(20);
	}
}

/* ---- large ----------------------------------------------------------------------------------- */

/* All its blocks have the same address. */
static MPI_Datatype folded(void)
{
	MPI_Datatype block, type;

	MPI_Type_contiguous(1 << 20, MPI_BYTE, &block);
	MPI_Type_create_hvector(2049, 1, 0, block, &type);
	MPI_Type_commit(&type);
	MPI_Type_free(&block);
	return type;
}

static void large(void)
{
	MPI_Datatype type = folded();
	char *place = hkt_alloc(1 << 20);
	MPI_Request q;

	hkt_fill(place, 1 << 20, hkt_key(seed, T, (uint64_t)hkt_rank, 0));
	if (hkt_rank == 0)
		MPI_Sendrecv_replace(place, 1, type, 1, T, MPI_PROC_NULL, T, comm,
				     MPI_STATUS_IGNORE);
	else
		MPI_Recv(place, 1, type, 0, T, comm, MPI_STATUS_IGNORE);
	hkt_verify(place, 1 << 20, hkt_key(seed, T, 0, 0), 0, "all blocks at one place");
	MPI_Type_free(&type);
	free(place);
	repeat(13);
	fill(sent, 3);
	if (hkt_rank == 1) {
		double *room = malloc((size_t)300 << 23); /* few of its pages are used */

		HKT_CHECK(room, "no memory");
		MPI_Irecv(room, 300 << 20, MPI_DOUBLE, 0, U, comm, &q);
		MPI_Barrier(comm);
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		memcpy(buf, room, 3 * sizeof(buf[0]));
		free(room);
		verify(sent, 3);
	} else {
		MPI_Barrier(comm);
		MPI_Send(buf, 3, MPI_DOUBLE, 1, U, comm); /* ends the channel */
	}
}

/* ---- flood ----------------------------------------------------------------------------------- */

static void flood(void)
{
	long before = 0;

	for (int k = 0; k < FLOOD; k++) {
		if (k == FLOOD / 10 && hkt_rank == 1)
			hkt_compute(700); /* meanwhile all others could be copied */
		if (k == FLOOD / 10)
			before = hkt_peak_kib();
		fill(k, PIECE);
		if (hkt_rank == 0) {
			MPI_Send(buf, PIECE, MPI_DOUBLE, 1, U, comm);
		} else {
			memset(buf, 0, sizeof(buf));
			MPI_Recv(buf, PIECE, MPI_DOUBLE, 0, U, comm, MPI_STATUS_IGNORE);
			verify(k, PIECE);
		}
	}
	long more = hkt_peak_kib() - before;

	HKT_CHECK(hkt_rank == 1 || more < 48 << 10, "%ld KiB are kept of what is sent", more);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *mode;
		void (*run)(void);
	} all[] = {{"again", again}, {"once", once},   {"unused", unused},
		   {"freed", freed}, {"large", large}, {"flood", flood}};

	hkt_init(&argc, &argv, "halo_edges", MPI_THREAD_SINGLE);
	seed = hkt_opt.seed;
	HKT_CHECK(hkt_size == 2 && hkt_opt.mode, "two ranks, and --mode");
	start_anew();
	for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
		if (strcmp(hkt_opt.mode, all[k].mode) == 0)
			all[k].run();
	MPI_Comm_free(&comm);
	return hkt_finish();
}

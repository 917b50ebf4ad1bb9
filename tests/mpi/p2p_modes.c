/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/p2p_modes.c: every send mode against every receive, at every size.
 *
 * Ranks pair up by distance (1, 2, … ranks away in a ring). In each pair's turn both sides send
 * and receive at once. Nonblocking sends use the four modes standard, buffered, synchronous and
 * ready; blocking ones alternate. Guard bytes around the receive buffer catch a write out of
 * bounds.
 */
#include "common.h"

#define GUARD       64
#define GUARD_VALUE 0xA5

enum mode { STANDARD, BUFFERED, SYNCHRONOUS, READY, MODES };
static const char *const mode_name[MODES] = {"standard", "buffered", "synchronous", "ready"};

static uint8_t *send_buf, *recv_buf; /* recv_buf has a guard on both sides */
static void *bsend_buf;
#define BSEND_BYTES ((int)HKT_MAX_SIZE + MPI_BSEND_OVERHEAD)

static void isend(enum mode m, const void *buf, int n, int to, int tag, MPI_Request *r)
{
	switch (m) {
	case BUFFERED:
		MPI_Ibsend(buf, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, r);
		break;
	case SYNCHRONOUS:
		MPI_Issend(buf, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, r);
		break;
	case READY:
		MPI_Irsend(buf, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, r);
		break;
	default:
		MPI_Isend(buf, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, r);
		break;
	}
}

static void send(enum mode m, const void *buf, int n, int to, int tag)
{
	switch (m) {
	case BUFFERED:
		MPI_Bsend(buf, n, MPI_BYTE, to, tag, MPI_COMM_WORLD);
		break;
	case SYNCHRONOUS:
		MPI_Ssend(buf, n, MPI_BYTE, to, tag, MPI_COMM_WORLD);
		break;
	case READY:
		MPI_Rsend(buf, n, MPI_BYTE, to, tag, MPI_COMM_WORLD);
		break;
	default:
		MPI_Send(buf, n, MPI_BYTE, to, tag, MPI_COMM_WORLD);
		break;
	}
}

static void check_received(size_t size, uint64_t key, int from, const MPI_Status *st, int tag,
			   const char *what)
{
	int count = -1;

	MPI_Get_count(st, MPI_BYTE, &count);
	HKT_CHECK(count == (int)size && st->MPI_SOURCE == from && st->MPI_TAG == tag,
		  "%s: peer %d, size %zu, tag %d: status has count %d, source %d, tag %d", what,
		  from, size, tag, count, st->MPI_SOURCE, st->MPI_TAG);
	hkt_verify(recv_buf + GUARD, size, key, from, what);
	hkt_verify_value(recv_buf, GUARD, GUARD_VALUE, from, "guard before the buffer");
	hkt_verify_value(recv_buf + GUARD + size, GUARD, GUARD_VALUE, from,
			 "guard behind the buffer");
}

static void prepare(enum mode m, size_t size, int to, int tag)
{
	/* The peer has the last message, but its buffer may become free only after more progress
	 * here. Detaching waits for that. */
	if (m == BUFFERED) {
		void *buf;
		int bytes;
		MPI_Buffer_detach(&buf, &bytes);
		MPI_Buffer_attach(bsend_buf, BSEND_BYTES);
	}
	memset(recv_buf, GUARD_VALUE, size + 2 * GUARD);
	hkt_fill(send_buf, size, hkt_key((uint64_t)hkt_rank, (uint64_t)to, (uint64_t)tag, size));
}

/* Both directions at once. Ready sends need a posted receive, which the receiver announces by an
 * empty message. */
static void nonblocking(enum mode m, size_t size, int to, int from, int tag)
{
	MPI_Request r[2];
	MPI_Status st[2];

	hkt_at("nonblocking %s, size %zu, to %d, from %d", mode_name[m], size, to, from);
	prepare(m, size, to, tag);
	MPI_Irecv(recv_buf + GUARD, (int)size, MPI_BYTE, from, tag, MPI_COMM_WORLD, &r[0]);
	if (m == READY)
		MPI_Sendrecv(NULL, 0, MPI_BYTE, from, tag + 1, NULL, 0, MPI_BYTE, to, tag + 1,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	isend(m, send_buf, (int)size, to, tag, &r[1]);
	MPI_Waitall(2, r, st);
	check_received(size, hkt_key((uint64_t)from, (uint64_t)hkt_rank, (uint64_t)tag, size), from,
		       &st[0], tag, mode_name[m]);
}

/* One side sends first. In a ring of odd length, two neighbours may both send first. That does not
 * deadlock as long as one rank of the ring receives first, as rank 0 does. */
static void blocking(enum mode m, size_t size, int to, int from, int tag)
{
	MPI_Status st;
	bool recv_first = hkt_rank % 2 == 0;
	uint64_t key = hkt_key((uint64_t)from, (uint64_t)hkt_rank, (uint64_t)tag, size);

	hkt_at("blocking %s, size %zu, to %d, from %d", mode_name[m], size, to, from);
	prepare(m, size, to, tag);
	if (m == READY) { /* posted receive first, so it cannot block in the receive itself */
		MPI_Request r;
		MPI_Irecv(recv_buf + GUARD, (int)size, MPI_BYTE, from, tag, MPI_COMM_WORLD, &r);
		MPI_Sendrecv(NULL, 0, MPI_BYTE, from, tag + 1, NULL, 0, MPI_BYTE, to, tag + 1,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		send(m, send_buf, (int)size, to, tag);
		MPI_Wait(&r, &st);
	} else if (recv_first) {
		MPI_Recv(recv_buf + GUARD, (int)size, MPI_BYTE, from, tag, MPI_COMM_WORLD, &st);
		send(m, send_buf, (int)size, to, tag);
	} else {
		send(m, send_buf, (int)size, to, tag);
		MPI_Recv(recv_buf + GUARD, (int)size, MPI_BYTE, from, tag, MPI_COMM_WORLD, &st);
	}
	check_received(size, key, from, &st, tag, mode_name[m]);
}

/* Blocking turns need a ring in which one rank receives first and one sends first. With an even
 * distance all ranks of a cycle may have the same parity, which deadlocks by MPI's rules. */
static bool blocking_is_safe(int distance)
{
	int parity[2] = {0, 0};
	int rank = hkt_rank;

	do {
		parity[rank % 2]++;
		rank = (rank + distance) % hkt_size;
	} while (rank != hkt_rank);
	return parity[0] > 0 && parity[1] > 0;
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "p2p_modes", MPI_THREAD_SINGLE);
	int bytes = BSEND_BYTES;
	bsend_buf = hkt_alloc((size_t)bytes);

	send_buf = hkt_alloc(HKT_MAX_SIZE);
	recv_buf = hkt_alloc(HKT_MAX_SIZE + 2 * GUARD);
	MPI_Buffer_attach(bsend_buf, bytes);

	int distances = hkt_size > 3 ? 3 : hkt_size - 1;
	for (int d = 1; d <= distances; d++) {
		int to = (hkt_rank + d) % hkt_size, from = (hkt_rank - d + hkt_size) % hkt_size;
		for (int m = 0; m < MODES; m++) {
			/* the whole list once; the other distances and modes take the borders */
			bool whole = d == 1 && (m == STANDARD || m == SYNCHRONOUS);
			const size_t *sizes = whole ? hkt_sizes : hkt_few_sizes;
			int n = whole ? hkt_nsizes : hkt_nfew;
			for (int i = 0; i < n; i++) {
				nonblocking((enum mode)m, sizes[i], to, from, 4 * m);
				if (blocking_is_safe(d))
					blocking((enum mode)m, sizes[i], to, from, 4 * m + 2);
			}
		}
	}
	hkt_at("MPI_Buffer_detach");
	MPI_Buffer_detach(&bsend_buf, &bytes);
	free(bsend_buf);
	free(send_buf);
	free(recv_buf);
	return hkt_finish();
}

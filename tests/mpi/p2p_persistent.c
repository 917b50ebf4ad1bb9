/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/p2p_persistent.c: persistent requests, started many times.
 *
 * Every pair of ranks has, for each size, one persistent send in each mode and the receives for
 * them. Each round starts them together with new content, the sends in reverse order. Some
 * rounds start only some of them, and one receive is freed while inactive and made again.
 */
#include "common.h"

enum mode { STANDARD, BUFFERED, SYNCHRONOUS, READY, MODES };
static const char *const mode_name[MODES] = {"persistent standard", "persistent buffered",
					     "persistent synchronous", "persistent ready"};

static const size_t sizes[] = {0, 1, 8, 257, 1453, 2049, 4095, 8193, 16385, 65537, 262147};
#define SIZES    (int)(sizeof(sizes) / sizeof(sizes[0]))
#define CHANNELS (SIZES * MODES)

/* Open MPI 4.1 sends stale data when a persistent buffered send of rendezvous size starts again.
 * Its convertor stays on the first round's copy. That happens over TCP and shared memory. So
 * buffered channels stay small. */
#define BUFFERED_MAX 1024

static int to, from;
static uint8_t *out[CHANNELS], *in[CHANNELS];
static MPI_Request req[2 * CHANNELS]; /* receives, then sends */

static size_t channel_size(int c)
{
	size_t size = sizes[c / MODES];
	return c % MODES == BUFFERED ? size % BUFFERED_MAX : size;
}

static void make_receive(int c)
{
	MPI_Recv_init(in[c], (int)channel_size(c), MPI_BYTE, from, c, MPI_COMM_WORLD, &req[c]);
}

static void make_send(int c)
{
	int n = (int)channel_size(c);
	MPI_Request *r = &req[CHANNELS + c];

	switch ((enum mode)(c % MODES)) {
	case BUFFERED:
		MPI_Bsend_init(out[c], n, MPI_BYTE, to, c, MPI_COMM_WORLD, r);
		break;
	case SYNCHRONOUS:
		MPI_Ssend_init(out[c], n, MPI_BYTE, to, c, MPI_COMM_WORLD, r);
		break;
	case READY:
		MPI_Rsend_init(out[c], n, MPI_BYTE, to, c, MPI_COMM_WORLD, r);
		break;
	default:
		MPI_Send_init(out[c], n, MPI_BYTE, to, c, MPI_COMM_WORLD, r);
		break;
	}
}

static uint64_t key(int src, int dst, int c, int round)
{
	return hkt_key((uint64_t)src, (uint64_t)dst, (uint64_t)c, (uint64_t)round);
}

/* Both sides know without a message which channels take part. */
static bool active(int c, int round)
{
	return round % 3 != 2 || hkt_mix((uint64_t)(c * 1000 + round)) % 2;
}

static void one_round(int round)
{
	if (round % 3 == 0)
		MPI_Startall(CHANNELS, req);
	else {
		for (int c = 0; c < CHANNELS; c++) {
			if (active(c, round))
				MPI_Start(&req[c]);
		}
	}
	/* a ready send needs its receive posted */
	hkt_at("round %d: neighbour's receives are started", round);
	MPI_Sendrecv(NULL, 0, MPI_BYTE, from, CHANNELS, NULL, 0, MPI_BYTE, to, CHANNELS,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int c = CHANNELS - 1; c >= 0; c--) {
		if (!active(c, round))
			continue;
		hkt_fill(out[c], channel_size(c), key(hkt_rank, to, c, round));
		MPI_Start(&req[CHANNELS + c]);
	}
	hkt_at("round %d: wait for all", round);
	MPI_Waitall(2 * CHANNELS, req, MPI_STATUSES_IGNORE); /* inactive ones complete at once */
	for (int c = 0; c < CHANNELS; c++) {
		if (active(c, round))
			hkt_verify(in[c], channel_size(c), key(from, hkt_rank, c, round), from,
				   mode_name[c % MODES]);
	}
	int again = round % CHANNELS;
	MPI_Request_free(&req[again]);
	make_receive(again);
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "p2p_persistent", MPI_THREAD_SINGLE);
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 60;
	int bytes = 0;

	to = (hkt_rank + 1) % hkt_size;
	from = (hkt_rank - 1 + hkt_size) % hkt_size;
	for (int i = 0; i < SIZES; i++) /* twice: the last round's room may be given back late */
		bytes += 2 * ((int)sizes[i] + MPI_BSEND_OVERHEAD);
	void *attached = hkt_alloc((size_t)bytes);
	MPI_Buffer_attach(attached, bytes);
	for (int c = 0; c < CHANNELS; c++) {
		out[c] = hkt_alloc(channel_size(c));
		in[c] = hkt_alloc(channel_size(c));
		make_receive(c);
		make_send(c);
	}
	for (int round = 0; round < rounds; round++)
		one_round(round);
	for (int i = 0; i < 2 * CHANNELS; i++)
		MPI_Request_free(&req[i]);
	hkt_at("MPI_Buffer_detach");
	MPI_Buffer_detach(&attached, &bytes);
	free(attached);
	for (int c = 0; c < CHANNELS; c++) {
		free(in[c]);
		free(out[c]);
	}
	return hkt_finish();
}

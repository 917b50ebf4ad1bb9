/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/hand_over.c: ranks that enter and leave MPI at random, with messages in flight.
 *
 * The progress proxy of a rank takes over and hands back tens of thousands of times here. That
 * happens at any moment of an exchange: between two frames of a message, with a full window, during
 * the get of a long message.
 *
 * Each rank sends to all others, and receives from all, in a seeded order. Between two steps it
 * computes for up to some hundred microseconds (sometimes for milliseconds), or polls MPI without
 * result. Each message carries its number. It must be the next one of its sender, with the right
 * length and content, and arrive once. No message may be left at the end.
 *
 *     --rounds N   thousands of messages that each rank sends to each other one (default 20)
 *     --mode MAX   longest message in bytes (default 40000)
 *
 * Both sides draw lengths and pauses from the seed, so the receiver knows the next message. It
 * posts a longer receive and checks the length that MPI reports.
 */
#include "common.h"

#include <time.h>

#define AHEAD 16 /* messages under way in each direction of each pair */

struct flow { /* of messages from or to one peer */
	int peer;
	uint64_t next;  /* number of the next to start */
	uint64_t ended; /* messages before this one have been checked, or are sent */
	MPI_Request request[AHEAD];
	uint8_t *data[AHEAD];
};

static uint64_t messages;
static size_t max_size;

static uint64_t key(int src, int dst, uint64_t number)
{
	return hkt_key((uint64_t)src, (uint64_t)dst, number, 0);
}

/* Mostly short ones; one in 64 is long. */
static size_t size_of(int src, int dst, uint64_t number)
{
	uint64_t r = key(src, dst, number) >> 8;
	size_t max = r % 64 == 0 ? max_size : r % 8 == 0 ? 3000 : 100;

	return (size_t)(hkt_mix(r) % ((max < max_size ? max : max_size) + 1));
}

/* ---- out and in ------------------------------------------------------------------------------ */

static void send_next(struct flow *f)
{
	unsigned at = (unsigned)(f->next % AHEAD);
	size_t size = size_of(hkt_rank, f->peer, f->next);

	hkt_fill(f->data[at], size, key(hkt_rank, f->peer, f->next));
	MPI_Isend(f->data[at], (int)size, MPI_BYTE, f->peer, 7, MPI_COMM_WORLD, &f->request[at]);
	f->next++;
}

static void receive_next(struct flow *f)
{
	unsigned at = (unsigned)(f->next % AHEAD);

	MPI_Irecv(f->data[at], (int)max_size + 1, MPI_BYTE, f->peer, 7, MPI_COMM_WORLD,
		  &f->request[at]);
	f->next++;
}

static void check(const struct flow *f, uint64_t number, MPI_Status *s)
{
	const uint8_t *data = f->data[number % AHEAD];
	size_t size = size_of(f->peer, hkt_rank, number);
	int count = -1;

	MPI_Get_count(s, MPI_BYTE, &count);
	HKT_CHECK((size_t)count == size, "message %llu of rank %d has %d bytes, not %zu",
		  (unsigned long long)number, f->peer, count, size);
	hkt_verify(data, size, key(f->peer, hkt_rank, number), f->peer, "message");
}

/* Completes requests in order. Messages of one pair must not overtake each other, so a later
 * receive never gets the data of an earlier message. */
static bool end_some(struct flow *f, bool incoming)
{
	bool some = false;

	while (f->ended < f->next) {
		MPI_Status s;
		int done = 0;

		MPI_Test(&f->request[f->ended % AHEAD], &done, &s);
		if (!done)
			break;
		if (incoming)
			check(f, f->ended, &s);
		f->ended++;
		some = true;
	}
	return some;
}

static bool go(struct flow *f, bool incoming)
{
	bool some = end_some(f, incoming);

	while (f->next < messages && f->next - f->ended < AHEAD) {
		if (incoming)
			receive_next(f);
		else
			send_next(f);
		some = true;
	}
	return some;
}

/* ---- the program ----------------------------------------------------------------------------- */

static void compute_us(unsigned us)
{
	struct timespec a, b;
	volatile uint64_t sink = 0;

	clock_gettime(CLOCK_MONOTONIC, &a);
	do {
		for (int i = 0; i < 20; i++)
			sink = hkt_mix(sink);
		clock_gettime(CLOCK_MONOTONIC, &b);
	} while ((b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000 < (long)us);
}

/* Around the time after which a rank counts as not polling (50 µs), below it, and far above it. */
static void be_away(struct hkt_rng *r)
{
	uint64_t kind = hkt_below(r, 1000);

	if (kind < 300)
		return;
	if (kind < 600)
		compute_us((unsigned)hkt_below(r, 45));
	else if (kind < 997)
		compute_us(40 + (unsigned)hkt_below(r, 120));
	else
		compute_us((unsigned)hkt_below(r, 5000));
}

static void flow_init(struct flow *f, int peer)
{
	*f = (struct flow){.peer = peer};
	for (int i = 0; i < AHEAD; i++)
		f->data[i] = hkt_alloc(max_size + 1);
}

static void flow_free(struct flow *f)
{
	for (int i = 0; i < AHEAD; i++)
		free(f->data[i]);
}

static void nothing_is_left(void)
{
	int flag = 0;

	hkt_at("final barrier");
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
	HKT_CHECK(!flag, "a message came that nobody had sent");
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "hand_over", MPI_THREAD_SINGLE);
	messages = 1000 * (uint64_t)(hkt_opt.rounds ? hkt_opt.rounds : 20);
	max_size = hkt_opt.mode ? (size_t)atol(hkt_opt.mode) : 40000;
	if (hkt_size < 2)
		return hkt_skip("needs at least 2 ranks");

	int peers = hkt_size - 1;
	struct flow *in = hkt_alloc((size_t)peers * sizeof(*in)),
		    *out = hkt_alloc((size_t)peers * sizeof(*out));
	struct hkt_rng r = {hkt_key((uint64_t)hkt_rank, 1, 2, 3)};
	uint64_t left = 2 * (uint64_t)peers * messages, ended;

	for (int i = 0; i < peers; i++) {
		flow_init(&in[i], (hkt_rank + 1 + i) % hkt_size);
		flow_init(&out[i], (hkt_rank + 1 + i) % hkt_size);
	}
	do {
		be_away(&r);
		unsigned looks = 1 + (unsigned)hkt_below(&r, 6);
		unsigned first = (unsigned)hkt_below(&r, 2 * (unsigned)peers);

		while (looks--)
			for (unsigned i = 0; i < 2 * (unsigned)peers; i++) {
				unsigned k = (first + i) % (2 * (unsigned)peers);
				go(k % 2 ? &in[k / 2] : &out[k / 2], k % 2);
			}
		ended = 0;
		for (int i = 0; i < peers; i++)
			ended += in[i].ended + out[i].ended;
		hkt_at("%llu of %llu messages have ended; the first peer: %llu in, %llu out",
		       (unsigned long long)ended, (unsigned long long)left,
		       (unsigned long long)in[0].ended, (unsigned long long)out[0].ended);
	} while (ended < left);
	nothing_is_left();
	for (int i = 0; i < peers; i++) {
		flow_free(&in[i]);
		flow_free(&out[i]);
	}
	free(in);
	free(out);
	return hkt_finish();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/halo_copies.c: implements bench/halo_copies.h with two rings in a shared file.
 */
#include "bench/halo_copies.h"

#include "base/common.h"
#include "examples/spmv/exchange_mpi.h"
#include "line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The values of a wire in the lab (port/memif.c). PAYLOAD: the bytes of a put in one frame. */
#define RING     256
#define FRAME    9216
#define PAYLOAD  9150
#define TX_BURST 8
#define RX_BURST 16
#define LIMIT_NS INT64_C(10000000000)

struct way {                                 /* from one rank to the other */
	_Alignas(128) _Atomic uint64_t head; /* frames written */
	_Alignas(128) _Atomic uint64_t tail; /* frames read */
	_Alignas(128) char frame[RING][FRAME];
};

static struct way *out_way, *in_way;
static uint64_t head, tail;
static char buffer[2 * RX_BURST][FRAME]; /* the buffers that were freed last are used first */

bool hk_copies_open(const char *file, int rank)
{
	int fd = open(file, O_RDWR | O_CLOEXEC);
	struct way *ways = MAP_FAILED;

	if (fd < 0)
		return false;
	if (ftruncate(fd, 2 * sizeof(*ways)) == 0)
		ways = mmap(NULL, 2 * sizeof(*ways), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (ways == MAP_FAILED)
		return false;
	out_way = &ways[rank];
	in_way = &ways[!rank];
	return true;
}

static size_t of_frame(size_t at, size_t bytes)
{
	return HK_MIN(bytes - at, (size_t)PAYLOAD);
}

static size_t send_some(const struct hk_layout *from, size_t at)
{
	static char gathered[PAYLOAD];
	uint64_t available = atomic_load_explicit(&out_way->tail, memory_order_acquire) + RING -
			     head;

	for (uint64_t k = 0; k < HK_MIN(available, (uint64_t)TX_BURST) && at < from->len; k++) {
		size_t len = of_frame(at, from->len);
		const char *piece = gathered;

		if (from->count == 1)
			piece = from->block[0].base + at;
		else
			hk_layout_gather(from, at, len, gathered);
		memcpy(out_way->frame[head % RING], piece, len);
		head++;
		at += len;
	}
	atomic_store_explicit(&out_way->head, head, memory_order_release);
	return at;
}

static size_t take_some(char *to, size_t at, size_t bytes)
{
	uint64_t there = atomic_load_explicit(&in_way->head, memory_order_acquire) - tail;
	size_t first = at, got = 0;

	for (; got < HK_MIN(there, (uint64_t)RX_BURST) && at < bytes; got++) {
		size_t len = of_frame(at, bytes);

		memcpy(buffer[got], in_way->frame[tail % RING], len);
		tail++;
		at += len;
	}
	atomic_store_explicit(&in_way->tail, tail, memory_order_release);
	for (size_t k = 0; k < got; k++, first += PAYLOAD)
		memcpy(to + first, buffer[k], of_frame(first, bytes));
	return at;
}

bool hk_copies_exchange(const struct hk_layout *out, void *in, size_t bytes)
{
	size_t sent = 0, came = 0;
	int64_t end = 0;

	for (uint32_t turns = 1; sent < out->len || came < bytes; turns++) {
		sent = send_some(out, sent);
		came = take_some(in, came, bytes);
		if ((turns & 0xffff) != 0)
			continue;
		end = end ? end : hk_line_clock() + LIMIT_NS;
		if (hk_line_clock() > end)
			return false;
	}
	return true;
}

/* ---- the exchange of a matrix -----------------------------------------------------------------
 */

struct copied {
	struct exchange *mpi; /* knows which rank needs which elements */
	struct hk_block *block;
	struct hk_layout out;
	double *in;
};

static void *plan(MPI_Comm comm, int rows, int entries, const long long *column, int *local,
		  int *ghosts)
{
	struct copied *c = calloc(1, sizeof(*c));

	if (!c)
		MPI_Abort(comm, 1);
	c->mpi = exchange_mpi.plan(comm, rows, entries, column, local, ghosts);
	return c;
}

static void connect_copied(void *arg, double *x)
{
	struct copied *c = arg;
	const struct exchange *e = c->mpi;

	exchange_mpi.connect(c->mpi, x);
	c->block = calloc((size_t)e->sends + 1, sizeof(*c->block));
	if (!c->block)
		MPI_Abort(e->comm, 1);
	for (int k = 0; k < e->sends; k++) {
		char *from = (char *)(x + e->send[k]);
		struct hk_block *last = &c->block[c->out.count ? c->out.count - 1 : 0];

		if (c->out.count && last->base + last->len == from)
			last->len += sizeof(double);
		else
			c->block[c->out.count++] = (struct hk_block){from, c->out.len,
								     sizeof(double)};
		c->out.len += sizeof(double);
	}
	c->out.block = c->block;
	c->in = x + e->rows;
}

static void start(void *arg)
{
	(void)arg;
}

static void finish(void *arg)
{
	const struct copied *c = arg;

	if (hk_copies_exchange(&c->out, c->in, sizeof(double) * (size_t)c->mpi->ghosts))
		return;
	fprintf(stderr, "halo_bench: the other rank has not copied for ten seconds\n");
	MPI_Abort(c->mpi->comm, 1);
}

static void close_copied(void *arg)
{
	struct copied *c = arg;

	exchange_mpi.close(c->mpi);
	free(c->block);
	free(c);
}

const struct exchange_kind exchange_copies = {"copies", plan,   connect_copied,
					      start,    finish, close_copied};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/halo_pair.c: see halo_pair.h.
 */
#include "bench/halo_copies.h"
#include "bench/halo_pair.h"
#include "bench/halo_ways.h"
#include "hikyaku/halo.h"

#include <stdlib.h>

struct pair {
	int rank, doubles;
	double *out, *in;
	MPI_Request request[2];
	hk_halo halo;
	struct hk_way *way;
};

struct pair *pair_new(int rank, int doubles)
{
	struct pair *p = bench_need(sizeof(*p));

	p->rank = rank;
	p->doubles = doubles;
	p->out = bench_need(sizeof(double) * (size_t)doubles);
	p->in = bench_need(sizeof(double) * (size_t)doubles);
	for (int k = 0; k < doubles; k++)
		p->out[k] = rank * 1e6 + k;
	return p;
}

void pair_open(struct pair *p, int method)
{
	static const enum hk_way_kind kind[METHODS] = {
		[NEIGHBOR] = HK_WAY_NEIGHBOR, [FENCE] = HK_WAY_FENCE, [LOCK] = HK_WAY_LOCK};
	int n = p->doubles, other = !p->rank, to[2] = {0};
	struct hk_halo_edge e = {other, 1, p->out, n, MPI_DOUBLE, p->in, n, MPI_DOUBLE};

	to[other] = n;
	if (method == PERSISTENT) {
		MPI_Recv_init(p->in, n, MPI_DOUBLE, other, 1, MPI_COMM_WORLD, &p->request[0]);
		MPI_Send_init(p->out, n, MPI_DOUBLE, other, 1, MPI_COMM_WORLD, &p->request[1]);
	} else if (method == NEIGHBOR || method == FENCE || method == LOCK) {
		p->way = hk_way_open(kind[method], MPI_COMM_WORLD, to, to, p->out, p->in);
	} else if (method == HALO && hk_halo_setup(MPI_COMM_WORLD, 1, &e, &p->halo) != 0) {
		bench_fail(hk_halo_error());
	}
}

void pair_start(struct pair *p, int method)
{
	int n = p->doubles, other = !p->rank;

	if (method == PLAIN_MPI) {
		MPI_Irecv(p->in, n, MPI_DOUBLE, other, 1, MPI_COMM_WORLD, &p->request[0]);
		MPI_Isend(p->out, n, MPI_DOUBLE, other, 1, MPI_COMM_WORLD, &p->request[1]);
	} else if (method == PERSISTENT) {
		MPI_Startall(2, p->request);
	} else if (method == HALO && hk_halo_put(p->halo) != 0) {
		bench_fail(hk_halo_error());
	}
}

static bool pair_copy(const struct pair *p)
{
	size_t bytes = sizeof(double) * (size_t)p->doubles;
	const struct hk_block all = {(char *)p->out, 0, bytes};

	return hk_copies_exchange(&(struct hk_layout){&all, 1, bytes}, p->in, bytes);
}

void pair_finish(struct pair *p, int method)
{
	if (method <= PERSISTENT)
		MPI_Waitall(2, p->request, MPI_STATUSES_IGNORE);
	else if (method <= LOCK && !hk_way_exchange(p->way))
		bench_fail("the other rank has not put for a minute");
	else if (method == HALO && hk_halo_wait(p->halo) != 0)
		bench_fail(hk_halo_error());
	else if (method == COPIES && !pair_copy(p))
		bench_fail("the other rank has not copied for ten seconds");
}

void pair_close(struct pair *p, int method)
{
	for (int k = 0; k < p->doubles; k++)
		if (p->in[k] != !p->rank * 1e6 + k)
			bench_fail("wrong data came");
	if (method == PERSISTENT) {
		MPI_Request_free(&p->request[0]);
		MPI_Request_free(&p->request[1]);
	} else if (method == HALO) {
		hk_halo_free(&p->halo);
	} else if (p->way) {
		hk_way_close(p->way);
	}
	free(p->out);
	free(p->in);
	free(p);
}

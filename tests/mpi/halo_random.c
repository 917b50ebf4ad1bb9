/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/halo_random.c: random exchange graphs by the halo library, compared bit by bit with
 * MPI.
 *
 * All ranks draw the same graphs. Messages go between random pairs, including a rank and itself;
 * several may have one tag. Sizes are random and may be 0, and the two ends have different layouts.
 * The library and Isend and Irecv do each exchange into two arenas, which must be equal afterwards,
 * gaps included. The program overwrites send buffers as soon as the library allows it.
 *
 * --mode NAME: each rank checks that this transport reaches the neighbours on other nodes.
 */
#include "common.h"

#include "hikyaku/halo.h"

#define MESSAGES  40
#define EXCHANGES 7
#define ARENA     ((size_t)3 << 20)

struct message {
	int src, dst, tag, count; /* of doubles */
};

struct end { /* of a message, at this rank */
	const struct message *m;
	size_t at; /* in its arena */
	MPI_Datatype type;
	int count;
};

static struct message msg[MESSAGES];
static int messages;
static char *send_arena, *halo_arena, *mpi_arena;

static int draw_count(struct hkt_rng *r)
{
	switch (hkt_below(r, 6)) {
	case 0:
		return 0;
	case 1:
		return 1 + (int)hkt_below(r, 3);
	case 2:
	case 3:
		return (int)hkt_below(r, 300);
	case 4:
		return (int)hkt_below(r, 3000);
	default:
		return (int)hkt_below(r, 12000);
	}
}

static void draw_graph(struct hkt_rng *r)
{
	messages = 1 + (int)hkt_below(r, MESSAGES);
	for (int k = 0; k < messages; k++)
		msg[k] = (struct message){(int)hkt_below(r, (uint64_t)hkt_size),
					  (int)hkt_below(r, (uint64_t)hkt_size),
					  (int)hkt_below(r, 3), draw_count(r)};
}

/* A type of @n doubles that spans at most 4 * n + 64 of them, drawn by @r. */
static MPI_Datatype draw_type(struct hkt_rng *r, int n, int *count)
{
	MPI_Datatype t, u;
	int *len = hkt_alloc(sizeof(int) * (size_t)(n + 1)),
	    *at = hkt_alloc(sizeof(int) * (size_t)(n + 1));
	int blocks = 0, done = 0, place = 0;

	*count = 1;
	while (done < n) { /* pieces with gaps */
		int left = n - done;
		int piece = 1 + (int)hkt_below(r, (uint64_t)(left < 40 ? left : 40));

		at[blocks] = place;
		len[blocks++] = piece;
		place += piece + (int)hkt_below(r, 3);
		done += piece;
	}
	switch (n == 0 ? 0 : hkt_below(r, 9)) {
	case 0:
		*count = n;
		MPI_Type_dup(MPI_DOUBLE, &t);
		break;
	case 1:
		MPI_Type_vector(n, 1, 1 + (int)hkt_below(r, 3), MPI_DOUBLE, &t);
		break;
	case 2:
		MPI_Type_indexed(blocks, len, at, MPI_DOUBLE, &t);
		break;
	case 3: { /* backwards, by bytes */
		MPI_Aint *disp = hkt_alloc(sizeof(MPI_Aint) * (size_t)blocks);

		for (int k = 0; k < blocks; k++)
			disp[k] = (MPI_Aint)sizeof(double) * at[blocks - 1 - k];
		for (int k = 0; k < blocks / 2; k++) {
			int l = len[k];

			len[k] = len[blocks - 1 - k];
			len[blocks - 1 - k] = l;
		}
		MPI_Type_create_hindexed(blocks, len, disp, MPI_DOUBLE, &t);
		free(disp);
		break;
	}
	case 4: { /* a plane of a cube of which the rest is not sent */
		int size[3] = {2, n, 2}, sub[3] = {1, n, 1}, start[3] = {1, 0, 1};

		MPI_Type_create_subarray(3, size, sub, start,
					 hkt_below(r, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN,
					 MPI_DOUBLE, &t);
		break;
	}
	case 5: { /* elements with holes, several of them */
		MPI_Type_create_resized(MPI_DOUBLE, 0, 24, &t);
		*count = n;
		break;
	}
	case 6: { /* a struct of a vector and what is left */
		int half = n / 2, l[2] = {1, n - half};
		MPI_Aint d[2] = {0, 16 * (half + 1)};

		MPI_Type_vector(half, 1, 2, MPI_DOUBLE, &u);
		MPI_Datatype parts[2] = {u, MPI_DOUBLE};

		MPI_Type_create_struct(2, l, d, parts, &t);
		MPI_Type_free(&u);
		break;
	}
	case 7: /* blocks of one length */
		MPI_Type_create_indexed_block(blocks, 1, at, MPI_DOUBLE, &u);
		MPI_Type_create_hvector(1, 1, 8, u, &t);
		MPI_Type_free(&u);
		if (blocks != n) { /* it has fewer elements: the plain one */
			MPI_Type_free(&t);
			MPI_Type_contiguous(n, MPI_DOUBLE, &t);
		}
		break;
	default: { /* a kind that only MPI knows */
		int gsize = n, distrib = MPI_DISTRIBUTE_BLOCK, darg = MPI_DISTRIBUTE_DFLT_DARG,
		    psize = 1;

		if (hkt_below(r, 3))
			MPI_Type_contiguous(n, MPI_DOUBLE, &t);
		else
			MPI_Type_create_darray(1, 0, 1, &gsize, &distrib, &darg, &psize,
					       MPI_ORDER_C, MPI_DOUBLE, &t);
		break;
	}
	}
	MPI_Type_commit(&t);
	free(len);
	free(at);
	return t;
}

/* This rank's ends: receives if @recv. Each has its own part of the arena. */
static int make_ends(struct hkt_rng *r, bool recv, struct end *e)
{
	size_t at = 0;
	int n = 0;

	for (int k = 0; k < messages; k++) {
		if ((recv ? msg[k].dst : msg[k].src) != hkt_rank)
			continue;
		e[n] = (struct end){.m = &msg[k], .at = at};
		e[n].type = draw_type(r, msg[k].count, &e[n].count);
		at += (4 * (size_t)msg[k].count + 64) * sizeof(double);
		HKT_CHECK(at <= ARENA, "the arena is too small");
		n++;
	}
	return n;
}

/* Makes edges from halves. Two halves of one peer and tag may share an edge if that keeps their
 * order. */
static int make_edges(struct hkt_rng *r, const struct end *s, int ns, const struct end *v, int nv,
		      struct hk_halo_edge *edge)
{
	int n = 0;

	for (int i = 0, k = 0; i < ns || k < nv; n++) {
		bool send = i < ns && (k == nv || hkt_below(r, 2));

		edge[n] = (struct hk_halo_edge){.send_type = MPI_DATATYPE_NULL,
						.recv_type = MPI_DATATYPE_NULL};
		if (send) {
			edge[n].peer = s[i].m->dst;
			edge[n].tag = s[i].m->tag;
			edge[n].send = send_arena + s[i].at;
			edge[n].send_count = s[i].count;
			edge[n].send_type = s[i].type;
			i++;
		}
		if (k < nv &&
		    (!send || (v[k].m->src == edge[n].peer && v[k].m->tag == edge[n].tag))) {
			edge[n].peer = v[k].m->src;
			edge[n].tag = v[k].m->tag;
			edge[n].recv = halo_arena + v[k].at;
			edge[n].recv_count = v[k].count;
			edge[n].recv_type = v[k].type;
			k++;
		}
	}
	if (hkt_below(r, 3) == 0) /* one to nobody */
		edge[n++] = (struct hk_halo_edge){.peer = MPI_PROC_NULL};
	for (int k = 0; k < n; k++) /* counts of nothing may have no type */
		if (!edge[k].recv_count && hkt_below(r, 2))
			edge[k].recv_type = MPI_DATATYPE_NULL;
	return n;
}

static void by_mpi(const struct end *s, int ns, const struct end *v, int nv)
{
	static MPI_Request q[2 * MESSAGES];
	int n = 0;

	for (int k = 0; k < nv; k++)
		MPI_Irecv(mpi_arena + v[k].at, v[k].count, v[k].type, v[k].m->src, v[k].m->tag,
			  MPI_COMM_WORLD, &q[n++]);
	for (int k = 0; k < ns; k++)
		MPI_Isend(send_arena + s[k].at, s[k].count, s[k].type, s[k].m->dst, s[k].m->tag,
			  MPI_COMM_WORLD, &q[n++]);
	MPI_Waitall(n, q, MPI_STATUSES_IGNORE);
}

/* Some ranks read the data of each edge as it arrives. */
static void partly(struct hkt_rng *r, hk_halo h, const struct hk_halo_edge *edge, int n)
{
	static int which[2 * MESSAGES + 1], told[2 * MESSAGES + 1];
	int some, total = 0, receive = 0;

	if (hkt_below(r, 2) == 0) {
		int i = (int)hkt_below(r, (uint64_t)n);

		while ((some = hk_halo_ready(h, i)) == 0)
			hkt_at("edge %d is not ready", i);
		HKT_CHECK(some == 1, "%s", hk_halo_error());
		return;
	}
	memset(told, 0, sizeof(told));
	while ((some = hk_halo_wait_some(h, which)) > 0)
		for (int k = 0; k < some; k++) {
			HKT_CHECK(which[k] >= 0 && which[k] < n && !told[which[k]]++,
				  "edge %d told twice", which[k]);
			total++;
		}
	HKT_CHECK(some == 0, "%s", hk_halo_error());
	for (int k = 0; k < n; k++)
		receive += edge[k].recv_count > 0;
	HKT_CHECK(total == receive, "%d edges were told of %d", total, receive);
}

static void check_transports(hk_halo h, const char *name)
{
	const char *why, *path;

	for (int peer = 0; peer < hkt_size; peer++)
		if (peer != hkt_rank && (path = hk_halo_transport(h, peer, &why)))
			HKT_CHECK(strcmp(path, name) == 0 || strstr(why, "only MPI knows"),
				  "rank %d is reached by %s: %s", peer, path, why);
}

static void graph(uint64_t seed, int round)
{
	struct hkt_rng all = {hkt_key(seed, 1, (uint64_t)round, 0)},
		       mine = {hkt_key(seed, 2, (uint64_t)round, (uint64_t)hkt_rank)};
	static struct end s[MESSAGES], v[MESSAGES];
	static struct hk_halo_edge edge[2 * MESSAGES + 1];
	hk_halo h;

	draw_graph(&all);
	int ns = make_ends(&mine, false, s), nv = make_ends(&mine, true, v);
	int n = make_edges(&mine, s, ns, v, nv, edge);

	hkt_at("set-up of graph %d", round);
	HKT_CHECK(hk_halo_setup(MPI_COMM_WORLD, n, edge, &h) == 0, "set-up: %s", hk_halo_error());
	if (hkt_opt.mode)
		check_transports(h, hkt_opt.mode);
	hkt_fill(halo_arena, ARENA, hkt_key(seed, 3, (uint64_t)round, 0));
	memcpy(mpi_arena, halo_arena, ARENA);
	for (int x = 0; x < EXCHANGES; x++) {
		uint64_t key = hkt_key(seed, 4 + (uint64_t)x, (uint64_t)round, (uint64_t)hkt_rank);

		hkt_at("exchange %d of graph %d", x, round);
		hkt_fill(send_arena, ARENA, key);
		by_mpi(s, ns, v, nv);
		if (hkt_below(&mine, 20) == 0)
			hkt_compute(5);
		HKT_CHECK(hk_halo_put(h) == 0, "put: %s", hk_halo_error());
		HKT_CHECK(hk_halo_put(h) != 0, "a second put");
		if (hkt_below(&mine, 20) == 0)
			hkt_compute(5);
		if (n && hkt_below(&mine, 3) == 0)
			partly(&mine, h, edge, n);
		HKT_CHECK(hk_halo_wait(h) == 0, "wait: %s", hk_halo_error());
		memset(send_arena, 0x55, ARENA);
		for (size_t i = 0; i < ARENA; i++)
			if (halo_arena[i] != mpi_arena[i])
				hkt_fail("graph %d, exchange %d, byte %zu: 0x%02x, by MPI 0x%02x",
					 round, x, i, halo_arena[i] & 0xff, mpi_arena[i] & 0xff);
		hkt_count(1);
	}
	if (hkt_below(&all, 2)) /* an exchange may be under way */
		HKT_CHECK(hk_halo_put(h) == 0, "put: %s", hk_halo_error());
	for (int k = 0; k < ns; k++)
		MPI_Type_free(&s[k].type);
	for (int k = 0; k < nv; k++)
		MPI_Type_free(&v[k].type);
	HKT_CHECK(hk_halo_free(&h) == 0 && !h, "free: %s", hk_halo_error());
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "halo_random", MPI_THREAD_SINGLE);
	send_arena = hkt_alloc(ARENA);
	halo_arena = hkt_alloc(ARENA);
	mpi_arena = hkt_alloc(ARENA);
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 25;

	for (int k = 0; k < rounds; k++)
		graph(hkt_opt.seed, k);
	return hkt_finish();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/edges.c: the caller's edges. It checks them, sorts them into one message for each
 * neighbour and direction, flattens their types, and finds bytes that two edges would write.
 */
#include "halo/api/internal.h"

#include <errno.h>
#include <stdlib.h>

/* ---- the caller's edges ------------------------------------------------------------------------
 */

/* MPI_Type_size() fails for types of more than 2 GiB. */
static bool size_of(const struct hk_halo_half *half, uint64_t *bytes)
{
	MPI_Count size = 0;

	if (half->count > 0)
		MPI_Type_size_x(half->type, &size);
	return size >= 0 && !__builtin_mul_overflow((uint64_t)half->count, (uint64_t)size, bytes);
}

static int half_check(const struct hk_halo *h, int edge, const char *what,
		      const struct hk_halo_half *half)
{
	const char *wrong = NULL;
	uint64_t bytes;

	if (half->count < 0)
		wrong = "a negative count";
	else if (half->count > 0 && half->type == MPI_DATATYPE_NULL)
		wrong = "no type";
	else if (!size_of(half, &bytes))
		wrong = "more bytes than 64 bits can count";
	else if (!half->base && bytes > 0)
		wrong = "no address";
	return wrong ? hk_halo_fail(
			       -EINVAL,
			       "rank %d, edge %d with rank %d, tag %d: it %s with %s; fix: give "
			       "each half an address, a count and a type, or count 0",
			       h->rank, edge, half->peer, half->tag, what, wrong)
		     : 0;
}

static int by_peer_and_tag(const void *a, const void *b)
{
	const struct hk_halo_half *x = a, *y = b;

	if (x->peer != y->peer)
		return x->peer < y->peer ? -1 : 1;
	if (x->tag != y->tag)
		return x->tag < y->tag ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int add_half(const struct hk_halo *h, struct hk_halo_half *list, int *n,
		    struct hk_halo_half half, const char *what)
{
	int rc = half_check(h, half.edge, what, &half);

	if (rc)
		return rc;
	(void)size_of(&half, &half.bytes);
	half.order = *n;
	if (half.bytes == 0)
		return 0;
	MPI_Type_dup(half.type, &half.type); /* the caller may free its own */
	MPI_Type_commit(&half.type);
	list[(*n)++] = half;
	return 0;
}

int hk_halo_edges_copy(struct hk_halo *h, int n, const struct hk_halo_edge *edges)
{
	if (n < 0 || (n > 0 && !edges))
		return hk_halo_fail(
			-EINVAL,
			"rank %d passes %d edges at %p; fix: pass 0 or more, with an address",
			h->rank, n, (const void *)edges);
	h->edges = n;
	h->out = calloc((size_t)n + 1, sizeof(*h->out));
	h->in = calloc((size_t)n + 1, sizeof(*h->in));
	h->neighbour_of = malloc(((size_t)n + 1) * sizeof(*h->neighbour_of));
	h->reported = calloc((size_t)n + 1, sizeof(*h->reported));
	if (!h->out || !h->in || !h->neighbour_of || !h->reported)
		return hk_halo_fail(-ENOMEM, "rank %d: out of memory for %d edges; fix: use fewer",
				    h->rank, n);
	for (int k = 0; k < n; k++) {
		const struct hk_halo_edge *e = &edges[k];
		int rc = 0;

		h->neighbour_of[k] = -1;
		if (e->peer == MPI_PROC_NULL)
			continue;
		if (e->peer < 0 || e->peer >= h->size || e->tag < 0)
			return hk_halo_fail(-EINVAL,
					    "rank %d, edge %d: its peer is rank %d of %d, its tag "
					    "%d; fix: give a "
					    "rank of the communicator and a tag of 0 or more",
					    h->rank, k, e->peer, h->size, e->tag);
		rc = add_half(h, h->out, &h->outs,
			      (struct hk_halo_half){k, e->peer, e->tag, 0,
						    (char *)(uintptr_t)e->send, e->send_count,
						    e->send_type, 0},
			      "sends");
		if (rc == 0)
			rc = add_half(h, h->in, &h->ins,
				      (struct hk_halo_half){k, e->peer, e->tag, 0, e->recv,
							    e->recv_count, e->recv_type, 0},
				      "receives");
		if (rc)
			return rc;
	}
	qsort(h->out, (size_t)h->outs, sizeof(*h->out), by_peer_and_tag);
	qsort(h->in, (size_t)h->ins, sizeof(*h->in), by_peer_and_tag);
	return 0;
}

/* ---- neighbours ------------------------------------------------------------------------------ */

static void message_take(struct hk_halo_message *m, struct hk_halo_half *list, int n, int *at,
			 int rank)
{
	m->half = &list[*at];
	while (*at < n && list[*at].peer == rank) {
		m->bytes += list[(*at)++].bytes;
		m->halves++;
	}
}

static int next_peer(const int *theirs, int size, int r)
{
	while (r < size && theirs[r] <= 0)
		r++;
	return r;
}

/* Neighbours are the ranks that this rank's edges name, and those whose edges name this rank. */
int hk_halo_edges_group(struct hk_halo *h, const int *theirs)
{
	size_t most = (size_t)(h->outs + h->ins) + 1;

	for (int r = 0; r < h->size; r++)
		most += theirs[r] > 0;
	h->neighbour = calloc(most, sizeof(*h->neighbour));
	if (!h->neighbour)
		return hk_halo_fail(
			-ENOMEM, "rank %d: out of memory for neighbours; fix: use fewer", h->rank);
	for (int o = 0, i = 0, r = 0;;) {
		struct hk_halo_neighbour *nb = &h->neighbour[h->neighbours];
		int to = o < h->outs ? h->out[o].peer : h->size;
		int from = i < h->ins ? h->in[i].peer : h->size;

		r = next_peer(theirs, h->size, r);
		nb->rank = HK_MIN(HK_MIN(to, from), r);
		if (nb->rank == h->size)
			return 0;
		r += nb->rank == r;
		nb->min = 1e9;
		message_take(&nb->out, h->out, h->outs, &o, nb->rank);
		message_take(&nb->in, h->in, h->ins, &i, nb->rank);
		for (int k = 0; k < nb->in.halves; k++)
			h->neighbour_of[nb->in.half[k].edge] = h->neighbours;
		h->neighbours++;
		int out_rc = hk_halo_message_flatten(&nb->out),
		    in_rc = hk_halo_message_flatten(&nb->in);

		nb->flat = out_rc ? out_rc : in_rc;
		if (out_rc == -ENOMEM || in_rc == -ENOMEM)
			return hk_halo_fail(-ENOMEM,
					    "rank %d: out of memory for the layouts of types; fix: "
					    "use simpler ones",
					    h->rank);
	}
}

/* ---- buffers that overlap -------------------------------------------------------------------- */

struct span {
	const char *base, *end;
	int edge, peer;
	bool recv;
};

static int by_base(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->base < y->base ? -1 : x->base > y->base;
}

/* Writes the blocks of @m to @s, each with the edge in which it begins. Returns their number.
 * *@sorted stays true if addresses increase; *@last is the latest address. */
static size_t spans_of(const struct hk_halo_message *m, bool recv, struct span *s, bool *sorted,
		       const char **last)
{
	uint64_t end = m->halves ? m->half[0].bytes : 0;
	int half = 0;

	for (size_t k = 0; k < m->blocks.count; k++) {
		const struct hk_block *b = &m->blocks.block[k];

		while (b->at >= end && half + 1 < m->halves)
			end += m->half[++half].bytes;
		s[k] = (struct span){b->base, b->base + b->len, m->half[half].edge,
				     m->half[half].peer, recv};
		*sorted = *sorted && b->base >= *last;
		*last = b->base;
	}
	return m->blocks.count;
}

static int overlap_error(const struct hk_halo *h, const struct span *a, const struct span *b)
{
	const struct span *r = a->recv ? a : b, *o = a->recv ? b : a;

	return hk_halo_fail(-EINVAL,
			    "rank %d: the data that edge %d receives from rank %d overlaps the "
			    "data that edge %d "
			    "%s rank %d; fix: give each byte to one edge",
			    h->rank, r->edge, r->peer, o->edge,
			    o->recv ? "receives from" : "sends to", o->peer);
}

int hk_halo_edges_check_overlap(const struct hk_halo *h)
{
	const char *last = NULL;
	bool sorted = true;
	size_t n = 0, at = 0;
	int rc = 0;

	for (int k = 0; k < h->neighbours; k++)
		n += h->neighbour[k].in.blocks.count + h->neighbour[k].out.blocks.count;
	struct span *s = malloc((n + 1) * sizeof(*s));

	if (!s)
		return hk_halo_fail(
			-ENOMEM,
			"rank %d: out of memory to compare buffers; fix: use simpler types",
			h->rank);
	for (int k = 0; k < h->neighbours; k++)
		at += spans_of(&h->neighbour[k].out, false, s + at, &sorted, &last);
	for (int k = 0; k < h->neighbours; k++)
		at += spans_of(&h->neighbour[k].in, true, s + at, &sorted, &last);
	if (!sorted)
		qsort(s, n, sizeof(*s), by_base);
	/* far[recv]: the span of that direction with the highest end so far. Sends may overlap. */
	const struct span *far[2] = {NULL, NULL};

	for (size_t k = 0; rc == 0 && k < n; k++) {
		for (int recv = 0; rc == 0 && recv < 2; recv++)
			if (far[recv] && (recv || s[k].recv) && far[recv]->end > s[k].base)
				rc = overlap_error(h, far[recv], &s[k]);
		if (!far[s[k].recv] || s[k].end > far[s[k].recv]->end)
			far[s[k].recv] = &s[k];
	}
	free(s);
	return rc;
}

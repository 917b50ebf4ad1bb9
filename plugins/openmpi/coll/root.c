/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/coll/root.c: the root of one transfer.
 *
 * When all receivers are ready, the root sends a *burst* of pieces to the group. It asks each
 * receiver by ob1 which pieces are missing, and meanwhile sends the next burst. It sends a piece
 * that several receivers miss to the group once more. If one receiver misses a piece, or the piece
 * is missed again, it goes to the receiver by ob1. So every Bcast ends, even if no multicast
 * arrives. Each receiver sends one answer for each query; ob1 delivers them in order.
 */
#include "openmpi/coll/coll_hikyaku.h"

#include "ompi/request/request.h"
#include "opal/runtime/opal_progress.h"

#define PORT_TIMEOUT_NS                                                                            \
	UINT64_C(1000000000) /* while the port accepts no piece; after it ob1 sends the pieces */
#define LOSS_SHRINK 20       /* one in so many lost: bursts are too long for the network */
#define LOSS_STOP   2        /* one in so many lost: multicasts do not help */

struct receiver {
	ompi_request_t *req; /* receives its next answer; NULL: no answer is pending */
	unsigned pending;    /* answers that it has still to send */
	struct hk_coll_report in;
	uint64_t missing[HK_COLL_BURSTS][HK_COLL_WORDS];
};

struct burst {
	uint32_t first, count; /* 0: not in use */
	unsigned pending;      /* answers */
	unsigned round;        /* how often its missing pieces were sent again */
};

struct root {
	const struct hk_coll_call *c;
	struct receiver *r; /* by rank; our own is not used */
	struct burst burst[HK_COLL_BURSTS];
	uint32_t next;                  /* the first piece that is not yet sent */
	uint32_t ended;                 /* pieces that all receivers have */
	uint64_t lost;                  /* pieces, summed over the receivers */
	struct hk_coll_header *message; /* a piece and its header */
};

static int post(struct root *o, int rank)
{
	struct receiver *r = &o->r[rank];

	return MCA_PML_CALL(
		irecv(&r->in, sizeof(r->in), MPI_BYTE, rank, HK_COLL_TAG_UP, o->c->comm, &r->req));
}

/* Counts one more pending answer of @rank. */
static int expect(struct root *o, int rank)
{
	return o->r[rank].pending++ == 0 ? post(o, rank) : OMPI_SUCCESS;
}

static int send_to(const struct root *o, int rank, const void *message, size_t len)
{
	return MCA_PML_CALL(send(message, len, MPI_BYTE, rank, HK_COLL_TAG_DOWN,
				 MCA_PML_BASE_SEND_STANDARD, o->c->comm));
}

static size_t words(uint32_t count)
{
	return (count + 63) / 64;
}

/* ---- answers -----------------------------------------------------------------------------------
 */

/* Checks an answer of @len bytes and records the missing pieces. */
static int handle_answer(struct root *o, int rank, size_t len)
{
	const struct hk_coll_report *in = &o->r[rank].in;
	const struct hk_coll_header *h = &in->header;
	struct burst *b = NULL;
	unsigned i;

	if (len < sizeof(*h) || h->number != o->c->m->number)
		return OMPI_ERR_BAD_PARAM;
	if (h->type == HK_COLL_READY)
		return h->count == o->c->pieces ? OMPI_SUCCESS : OMPI_ERR_BAD_PARAM;
	for (i = 0; i < HK_COLL_BURSTS; i++) {
		b = &o->burst[i];
		if (b->count && b->first == h->first && b->pending)
			break;
	}
	if (h->type != HK_COLL_REPORT || i == HK_COLL_BURSTS || h->count > b->count ||
	    len != sizeof(*h) + (h->count ? words(b->count) * sizeof(uint64_t) : 0))
		return OMPI_ERR_BAD_PARAM;
	memset(o->r[rank].missing[i], 0, sizeof(o->r[rank].missing[i]));
	if (h->count)
		memcpy(o->r[rank].missing[i], in->missing, len - sizeof(*h));
	if (b->round == 0)
		o->lost += h->count;
	b->pending--;
	return OMPI_SUCCESS;
}

/* Polls, and handles the answers that have arrived. */
static int progress(struct root *o)
{
	int rc = OMPI_SUCCESS;

	opal_progress();
	for (int rank = 0; rank < o->c->ranks && rc == OMPI_SUCCESS; rank++) {
		struct receiver *r = &o->r[rank];

		while (rc == OMPI_SUCCESS && r->req && REQUEST_COMPLETE(r->req)) {
			size_t len = r->req->req_status._ucount;

			rc = r->req->req_status.MPI_ERROR;
			ompi_request_free(&r->req);
			r->req = NULL;
			r->pending--;
			if (rc == OMPI_SUCCESS)
				rc = handle_answer(o, rank, len);
			if (rc == OMPI_SUCCESS && r->pending)
				rc = post(o, rank);
		}
	}
	return rc;
}

/* ---- bursts -------------------------------------------------------------------------------------
 */

/* Sends @count pieces to the group. Pieces that the port does not accept for a long time count as
 * lost. */
static int multicast(struct root *o, uint32_t first, uint32_t count)
{
	const struct hk_coll_call *c = o->c;
	const struct hk_coll_module *m = c->m;
	const struct hk_mcast_to to = {
		.channel = HK_CID(c->comm), .number = m->number, .key = m->key};
	uint64_t since = hk_clock_ns();
	int rc = OMPI_SUCCESS;

	for (uint32_t sent = 0; sent < count && rc == OMPI_SUCCESS;) {
		size_t at = (size_t)(first + sent) * m->piece_size;
		size_t len = HK_MIN((size_t)(count - sent) * m->piece_size, c->total - at);
		uint32_t n = m->btl->send(m->group, &to, first + sent, c->data + at, len,
					  m->piece_size);

		sent += n;
		if (sent == count)
			break;
		if (n)
			since = hk_clock_ns();
		else if (hk_clock_ns() - since > PORT_TIMEOUT_NS)
			break;
		rc = progress(o);
	}
	return rc;
}

static int query(struct root *o, struct burst *b, int rank)
{
	const struct hk_coll_header h = {.type = HK_COLL_QUERY,
					 .lossy = o->c->m->lossy,
					 .number = o->c->m->number,
					 .first = b->first,
					 .count = b->count};
	int rc = expect(o, rank);

	b->pending++;
	return rc == OMPI_SUCCESS ? send_to(o, rank, &h, sizeof(h)) : rc;
}

static int start(struct root *o, struct burst *b)
{
	uint32_t left = o->c->pieces - o->next;
	int rc;

	*b = (struct burst){.first = o->next, .count = HK_MIN(left, o->c->m->burst)};
	o->next += b->count;
	HK_COLL_COUNT(pieces, b->count);
	rc = multicast(o, b->first, b->count);
	for (int rank = 0; rank < o->c->ranks && rc == OMPI_SUCCESS; rank++)
		if (rank != o->c->me)
			rc = query(o, b, rank);
	return rc;
}

static bool misses(const struct root *o, int rank, size_t slot, uint32_t i)
{
	return o->r[rank].missing[slot][i / 64] >> (i % 64) & 1;
}

static bool misses_any(const struct root *o, int rank, size_t slot)
{
	uint64_t any = 0;

	for (size_t w = 0; w < HK_COLL_WORDS; w++)
		any |= o->r[rank].missing[slot][w];
	return any != 0;
}

/* Sends piece @i of the burst to one rank. */
static int send_piece(struct root *o, const struct burst *b, uint32_t i, int rank)
{
	const struct hk_coll_call *c = o->c;
	uint32_t piece = b->first + i;
	size_t len = hk_coll_len(c, piece);

	*o->message = (struct hk_coll_header){
		.type = HK_COLL_PIECE, .number = c->m->number, .first = piece, .count = 1};
	memcpy(o->message + 1, c->data + (size_t)piece * c->m->piece_size, len);
	HK_COLL_COUNT(repaired, 1);
	return send_to(o, rank, o->message, sizeof(*o->message) + len);
}

static int repair_piece(struct root *o, const struct burst *b, size_t slot, uint32_t i)
{
	int last = -1, n = 0, rc = OMPI_SUCCESS;

	for (int rank = 0; rank < o->c->ranks; rank++)
		if (rank != o->c->me && misses(o, rank, slot, i)) {
			last = rank;
			n++;
		}
	if (n > 1 && b->round == 0) {
		HK_COLL_COUNT(again, 1);
		return multicast(o, b->first + i, 1);
	}
	for (int rank = 0; n && rank <= last && rc == OMPI_SUCCESS; rank++)
		if (rank != o->c->me && misses(o, rank, slot, i))
			rc = send_piece(o, b, i, rank);
	return rc;
}

/* All receivers have answered: sends the missing pieces, and queries the receivers that missed some
 * again. */
static int finish_round(struct root *o, size_t slot)
{
	struct burst *b = &o->burst[slot];
	bool all = true;
	int rc = OMPI_SUCCESS;

	for (int rank = 0; rank < o->c->ranks && all; rank++)
		all = rank == o->c->me || !misses_any(o, rank, slot);
	if (all) {
		o->ended += b->count;
		b->count = 0;
		return OMPI_SUCCESS;
	}
	for (uint32_t i = 0; i < b->count && rc == OMPI_SUCCESS; i++)
		rc = repair_piece(o, b, slot, i);
	b->round++;
	for (int rank = 0; rank < o->c->ranks && rc == OMPI_SUCCESS; rank++)
		if (rank != o->c->me && misses_any(o, rank, slot))
			rc = query(o, b, rank);
	return rc;
}

static int run(struct root *o)
{
	const struct hk_coll_call *c = o->c;
	bool ready = false;
	int rc = OMPI_SUCCESS;

	for (int rank = 0; rank < c->ranks && rc == OMPI_SUCCESS; rank++)
		if (rank != c->me)
			rc = expect(o, rank);
	while (rc == OMPI_SUCCESS && !ready) {
		rc = progress(o);
		ready = true;
		for (int rank = 0; rank < c->ranks; rank++)
			ready &= o->r[rank].pending == 0;
	}
	while (rc == OMPI_SUCCESS && o->ended < c->pieces) {
		for (size_t i = 0; i < HK_COLL_BURSTS && rc == OMPI_SUCCESS; i++) {
			if (o->burst[i].count == 0 && o->next < c->pieces)
				rc = start(o, &o->burst[i]);
			else if (o->burst[i].count && o->burst[i].pending == 0)
				rc = finish_round(o, i);
		}
		if (rc == OMPI_SUCCESS && o->ended < c->pieces)
			rc = progress(o);
	}
	return rc;
}

/* Adapts the next Bcast to the losses of this one. */
static void adapt(const struct root *o)
{
	const struct hk_coll_call *c = o->c;
	uint64_t copies = (uint64_t)c->pieces * (unsigned)(c->ranks - 1);
	struct hk_coll_module *m = c->m;

	if (o->lost > copies / LOSS_SHRINK)
		m->burst = HK_MAX(m->burst / 2, HK_COLL_BURST_MIN);
	else
		m->burst = HK_MIN(m->burst + 1, m->burst_max);
	m->lossy = c->pieces >= HK_COLL_BURST_MIN && o->lost > copies / LOSS_STOP;
}

size_t hk_coll_scratch_size(int ranks, size_t piece_size)
{
	return (size_t)ranks * sizeof(struct receiver) + sizeof(struct hk_coll_header) + piece_size;
}

int hk_coll_root(const struct hk_coll_call *c)
{
	size_t receivers = (size_t)c->ranks * sizeof(struct receiver);
	struct root o = {.c = c, .r = c->m->scratch};
	int rc;

	memset(o.r, 0, receivers);
	o.message = (struct hk_coll_header *)((char *)o.r + receivers);
	rc = run(&o);
	if (rc == OMPI_SUCCESS)
		adapt(&o);
	return rc;
}

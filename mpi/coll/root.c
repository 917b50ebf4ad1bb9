/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/coll/root.c: the root of one transfer.
 *
 * When all receivers are there it sends a *burst* of pieces to the group, asks each receiver by ob1 which of them it
 * has, and sends the next burst meanwhile. What several receivers miss goes to the group once more; what one
 * misses, or is missed again, goes to that receiver by ob1, so that every Bcast ends even where no multicast gets
 * through. Each receiver owes as many answers as it was asked for, which ob1 brings in order.
 */
#include "mpi/coll/coll_hikyaku.h"

#include "ompi/request/request.h"
#include "opal/runtime/opal_progress.h"

#define STUCK                                                                                      \
	UINT64_C(1000000000) /* ns that the port may take no piece: then ob1 has to bring them */
#define CROWDED 20           /* one in so many lost: bursts are too long for the network */
#define IN_VAIN 2            /* one in so many lost: multicasts are no use */

struct receiver {
	ompi_request_t *req; /* for its next answer; NULL: it owes none */
	unsigned owes;
	struct hk_coll_have in;
	uint64_t missing[HK_COLL_BURSTS][HK_COLL_WORDS];
};

struct burst {
	uint32_t first, count; /* 0: not in use */
	unsigned waiting;      /* answers */
	unsigned round;        /* how often it was repaired */
};

struct root {
	const struct hk_coll_call *c;
	struct receiver *r; /* by rank; our own is not used */
	struct burst burst[HK_COLL_BURSTS];
	uint32_t next;                /* the first piece that was not sent */
	uint32_t ended;               /* pieces that everybody has */
	uint64_t lost;                /* of all receivers */
	struct hk_coll_head *message; /* room for a piece and its head */
};

static int post(struct root *o, int rank)
{
	struct receiver *r = &o->r[rank];

	return MCA_PML_CALL(
		irecv(&r->in, sizeof(r->in), MPI_BYTE, rank, HK_COLL_TAG_UP, o->c->comm, &r->req));
}

/* From now on @rank owes one answer more. */
static int expect(struct root *o, int rank)
{
	return o->r[rank].owes++ == 0 ? post(o, rank) : OMPI_SUCCESS;
}

static int tell(const struct root *o, int rank, const void *message, size_t len)
{
	return MCA_PML_CALL(send(message, len, MPI_BYTE, rank, HK_COLL_TAG_DOWN,
				 MCA_PML_BASE_SEND_STANDARD, o->c->comm));
}

static size_t words(uint32_t count)
{
	return (count + 63) / 64;
}

/* ---- answers ----------------------------------------------------------------------------------- */

/* Checks an answer of @len bytes and notes what it says. */
static int take(struct root *o, int rank, size_t len)
{
	const struct hk_coll_have *in = &o->r[rank].in;
	const struct hk_coll_head *h = &in->head;
	struct burst *b = NULL;
	unsigned i;

	if (len < sizeof(*h) || h->number != o->c->m->number)
		return OMPI_ERR_BAD_PARAM;
	if (h->says == HK_COLL_READY)
		return h->count == o->c->pieces ? OMPI_SUCCESS : OMPI_ERR_BAD_PARAM;
	for (i = 0; i < HK_COLL_BURSTS; i++) {
		b = &o->burst[i];
		if (b->count && b->first == h->first && b->waiting)
			break;
	}
	if (h->says != HK_COLL_HAVE || i == HK_COLL_BURSTS || h->count > b->count ||
	    len != sizeof(*h) + (h->count ? words(b->count) * sizeof(uint64_t) : 0))
		return OMPI_ERR_BAD_PARAM;
	memset(o->r[rank].missing[i], 0, sizeof(o->r[rank].missing[i]));
	if (h->count)
		memcpy(o->r[rank].missing[i], in->missing, len - sizeof(*h));
	if (b->round == 0)
		o->lost += h->count;
	b->waiting--;
	return OMPI_SUCCESS;
}

/* Polls, and takes what answers have come. */
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
			r->owes--;
			if (rc == OMPI_SUCCESS)
				rc = take(o, rank, len);
			if (rc == OMPI_SUCCESS && r->owes)
				rc = post(o, rank);
		}
	}
	return rc;
}

/* ---- bursts ------------------------------------------------------------------------------------- */

/* Sends @count pieces to the group. What the port does not take for long counts as lost. */
static int multicast(struct root *o, uint32_t first, uint32_t count)
{
	const struct hk_coll_call *c = o->c;
	const struct hk_coll_module *m = c->m;
	uint64_t since = hk_coll_now();
	int rc = OMPI_SUCCESS;

	for (uint32_t sent = 0; sent < count && rc == OMPI_SUCCESS;) {
		size_t at = (size_t)(first + sent) * m->each;
		size_t len = HK_MIN((size_t)(count - sent) * m->each, c->total - at);
		uint32_t n = m->btl->send(m->group, c->comm->c_contextid, m->number, first + sent,
					  c->data + at, len, m->each);

		sent += n;
		if (sent == count)
			break;
		if (n)
			since = hk_coll_now();
		else if (hk_coll_now() - since > STUCK)
			break;
		rc = progress(o);
	}
	return rc;
}

static int ask(struct root *o, struct burst *b, int rank)
{
	const struct hk_coll_head h = {.says = HK_COLL_ASK,
				       .lossy = o->c->m->lossy,
				       .number = o->c->m->number,
				       .first = b->first,
				       .count = b->count};
	int rc = expect(o, rank);

	b->waiting++;
	return rc == OMPI_SUCCESS ? tell(o, rank, &h, sizeof(h)) : rc;
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
			rc = ask(o, b, rank);
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

	*o->message = (struct hk_coll_head){
		.says = HK_COLL_PIECE, .number = c->m->number, .first = piece, .count = 1};
	memcpy(o->message + 1, c->data + (size_t)piece * c->m->each, len);
	HK_COLL_COUNT(repaired, 1);
	return tell(o, rank, o->message, sizeof(*o->message) + len);
}

static int repair_piece(struct root *o, const struct burst *b, size_t slot, uint32_t i)
{
	int who = -1, n = 0, rc = OMPI_SUCCESS;

	for (int rank = 0; rank < o->c->ranks; rank++)
		if (rank != o->c->me && misses(o, rank, slot, i)) {
			who = rank;
			n++;
		}
	if (n > 1 && b->round == 0) {
		HK_COLL_COUNT(again, 1);
		return multicast(o, b->first + i, 1);
	}
	for (int rank = 0; n && rank <= who && rc == OMPI_SUCCESS; rank++)
		if (rank != o->c->me && misses(o, rank, slot, i))
			rc = send_piece(o, b, i, rank);
	return rc;
}

/* Everybody has answered: sends what is missing, and asks those again who missed something. */
static int settle(struct root *o, size_t slot)
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
			rc = ask(o, b, rank);
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
			ready &= o->r[rank].owes == 0;
	}
	while (rc == OMPI_SUCCESS && o->ended < c->pieces) {
		for (size_t i = 0; i < HK_COLL_BURSTS && rc == OMPI_SUCCESS; i++) {
			if (o->burst[i].count == 0 && o->next < c->pieces)
				rc = start(o, &o->burst[i]);
			else if (o->burst[i].count && o->burst[i].waiting == 0)
				rc = settle(o, i);
		}
		if (rc == OMPI_SUCCESS && o->ended < c->pieces)
			rc = progress(o);
	}
	return rc;
}

/* The next Bcast is sent by what this one has shown of the network. */
static void learn(const struct root *o)
{
	const struct hk_coll_call *c = o->c;
	uint64_t copies = (uint64_t)c->pieces * (unsigned)(c->ranks - 1);
	struct hk_coll_module *m = c->m;

	if (o->lost > copies / CROWDED)
		m->burst = HK_MAX(m->burst / 2, HK_COLL_BURST_MIN);
	else
		m->burst = HK_MIN(m->burst + 1, m->burst_max);
	m->lossy = c->pieces >= HK_COLL_BURST_MIN && o->lost > copies / IN_VAIN;
}

size_t hk_coll_room(int ranks, size_t each)
{
	return (size_t)ranks * sizeof(struct receiver) + sizeof(struct hk_coll_head) + each;
}

int hk_coll_root(const struct hk_coll_call *c)
{
	size_t receivers = (size_t)c->ranks * sizeof(struct receiver);
	struct root o = {.c = c, .r = c->m->room};
	int rc;

	memset(o.r, 0, receivers);
	o.message = (struct hk_coll_head *)((char *)o.r + receivers);
	rc = run(&o);
	if (rc == OMPI_SUCCESS)
		learn(&o);
	return rc;
}

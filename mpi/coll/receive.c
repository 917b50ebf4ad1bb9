/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/coll/receive.c: a receiver of one transfer.
 *
 * It listens before it tells the root that it is there, so nothing comes before its time. Pieces are put where they
 * belong as they come, in any order and by any thread; a piece that comes twice at once is written twice, with the
 * same bytes. When the root asks for a burst it answers as soon as it has all of it, or calls what is missing lost: soon
 * if later pieces are there, since those of one root come by one way, in order but for accidents; of the end of a
 * burst, which the question may have overtaken by another way, after a longer time without any piece.
 */
#include "mpi/coll/coll_hikyaku.h"

#include "ompi/request/request.h"
#include "opal/runtime/opal_progress.h"

struct question {
	uint32_t first, count; /* 0: none */
	uint64_t at;
};

struct receiver {
	struct hk_mcast m;
	const struct hk_coll_call *c;
	_Atomic uint32_t there; /* how many came … */
	_Atomic uint32_t after; /* … and one more than the highest of them */
	struct question asked[HK_COLL_BURSTS];
	uint32_t open;    /* pieces of them */
	uint32_t settled; /* pieces that the root knows we have */
	uint32_t seen;    /* `there` as it was … */
	uint64_t seen_at; /* … first at this time */
	bool lossy;
	ompi_request_t *req;
	struct hk_coll_head *message; /* room for a piece and its head */
};

static bool have(const struct receiver *r, uint32_t piece)
{
	return atomic_load_explicit(&r->c->m->have[piece / 64], memory_order_acquire) >>
		       (piece % 64) &
	       1;
}

static bool place(struct receiver *r, uint32_t piece, const void *bytes, size_t len)
{
	const struct hk_coll_call *c = r->c;

	if (piece >= c->pieces || len != hk_coll_len(c, piece))
		return false;
	if (have(r, piece)) {
		HK_COLL_COUNT(duplicates, 1);
		return true;
	}
	memcpy(c->data + (size_t)piece * c->m->each, bytes, len);
	atomic_fetch_or_explicit(&c->m->have[piece / 64], UINT64_C(1) << (piece % 64),
				 memory_order_release);
	atomic_fetch_add_explicit(&r->there, 1, memory_order_relaxed);
	return true;
}

/* Whatever came under our transfer's name and cannot be is as good as lost. */
static void on_piece(struct hk_mcast *m, uint32_t piece, const void *bytes, size_t len)
{
	struct receiver *r = (struct receiver *)m;

	/* written by one thread at a time: the fabric's lock is around this */
	if (place(r, piece, bytes, len) &&
	    piece >= atomic_load_explicit(&r->after, memory_order_relaxed))
		atomic_store_explicit(&r->after, piece + 1, memory_order_relaxed);
}

static int answer(const struct receiver *r, const struct hk_coll_have *h, size_t words)
{
	return MCA_PML_CALL(send(h, sizeof(h->head) + words * sizeof(h->missing[0]), MPI_BYTE,
				 r->c->root, HK_COLL_TAG_UP, MCA_PML_BASE_SEND_STANDARD,
				 r->c->comm));
}

/* ---- what the root says ------------------------------------------------------------------------- */

static int post(struct receiver *r)
{
	return MCA_PML_CALL(irecv(r->message, sizeof(*r->message) + r->c->m->each, MPI_BYTE,
				  r->c->root, HK_COLL_TAG_DOWN, r->c->comm, &r->req));
}

static int take(struct receiver *r, size_t len)
{
	const struct hk_coll_head *h = r->message;
	const struct hk_coll_call *c = r->c;

	if (len < sizeof(*h) || h->number != c->m->number)
		return OMPI_ERR_BAD_PARAM;
	if (h->says == HK_COLL_PIECE)
		return place(r, h->first, h + 1, len - sizeof(*h)) ? OMPI_SUCCESS
								   : OMPI_ERR_BAD_PARAM;
	if (h->says != HK_COLL_ASK || h->count == 0 || h->count > HK_COLL_BURST_MAX ||
	    h->first >= c->pieces || h->count > c->pieces - h->first)
		return OMPI_ERR_BAD_PARAM;
	r->lossy |= h->lossy != 0;
	for (unsigned i = 0; i < HK_COLL_BURSTS; i++)
		if (r->asked[i].count == 0) {
			r->asked[i] = (struct question){h->first, h->count, hk_coll_now()};
			r->open += h->count;
			return OMPI_SUCCESS;
		}
	return OMPI_ERR_BAD_PARAM;
}

/* Polls, and takes what the root has said. A receive is posted while the root has more to say, and only then. */
static int progress(struct receiver *r)
{
	int rc = OMPI_SUCCESS;

	if (!r->req && r->settled + r->open < r->c->pieces)
		rc = post(r);
	opal_progress();
	if (rc == OMPI_SUCCESS && r->req && REQUEST_COMPLETE(r->req)) {
		size_t len = r->req->req_status._ucount;

		rc = r->req->req_status.MPI_ERROR;
		ompi_request_free(&r->req);
		r->req = NULL;
		if (rc == OMPI_SUCCESS)
			rc = take(r, len);
	}
	return rc;
}

/* ---- what we say -------------------------------------------------------------------------------- */

/* Answers a question, if all is there or it is time to. */
static int look(struct receiver *r, struct question *q, uint64_t now)
{
	struct hk_coll_have h = {
		.head = {.says = HK_COLL_HAVE, .number = r->c->m->number, .first = q->first}};
	uint32_t after = atomic_load_explicit(&r->after, memory_order_relaxed);
	uint64_t quiet = HK_MAX(q->at, r->seen_at);
	bool overtaken = now > q->at + HK_COLL_PARAMS->grace_us * UINT64_C(1000);
	bool late = now > quiet + HK_COLL_PARAMS->tail_us * UINT64_C(1000);
	uint32_t count = q->count;

	for (uint32_t i = 0; i < count; i++)
		if (!have(r, q->first + i)) {
			if (!(q->first + i < after ? overtaken : late))
				return OMPI_SUCCESS;
			h.missing[i / 64] |= UINT64_C(1) << (i % 64);
			h.head.count++;
		}
	q->count = 0;
	r->open -= count;
	if (h.head.count == 0)
		r->settled += count;
	return answer(r, &h, h.head.count ? (count + 63) / 64 : 0);
}

static int run(struct receiver *r)
{
	const struct hk_coll_have here = {
		.head = {.says = HK_COLL_READY, .number = r->c->m->number, .count = r->c->pieces}};
	int rc = answer(r, &here, 0);

	while (rc == OMPI_SUCCESS && r->settled < r->c->pieces) {
		rc = progress(r);
		if (r->open == 0)
			continue;
		uint64_t now = hk_coll_now();
		uint32_t there = atomic_load_explicit(&r->there, memory_order_relaxed);

		if (there != r->seen) {
			r->seen = there;
			r->seen_at = now;
		}
		for (unsigned i = 0; i < HK_COLL_BURSTS && rc == OMPI_SUCCESS; i++)
			if (r->asked[i].count)
				rc = look(r, &r->asked[i], now);
	}
	return rc;
}

int hk_coll_receive(const struct hk_coll_call *c, bool *lossy)
{
	const struct hk_btl_mcast_peer *root = &c->m->peer[c->root];
	struct receiver r = {
		.m = {.channel = c->comm->c_contextid,
		      .number = c->m->number,
		      .endpoint = root->endpoint,
		      .epoch = root->epoch,
		      .fn = on_piece},
		.c = c,
		.message = c->m->room,
	};
	int rc;

	for (size_t i = 0; i < HK_ARRAY_LEN(c->m->have); i++)
		atomic_store_explicit(&c->m->have[i], 0, memory_order_relaxed);
	c->m->btl->open(&r.m);
	rc = run(&r);
	c->m->btl->close(&r.m);
	*lossy |= r.lossy;
	return rc;
}

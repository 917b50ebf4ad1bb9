/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/coll/receive.c: a receiver of one transfer.
 *
 * A receiver listens before it reports to the root that it is ready, so no piece arrives too early.
 * Any thread writes pieces into place as they arrive, in any order. A piece that arrives twice at
 * the same time is written twice, with the same bytes.
 *
 * When the root asks about a burst, the receiver answers as soon as it has all pieces. Otherwise it
 * declares missing pieces lost after a time. The time is short if later pieces have arrived: those
 * of one root take one path, mostly in order. It is longer for the end of a burst, without any
 * later piece. The query, on another path, may have overtaken that end.
 */
#include "openmpi/coll/coll_hikyaku.h"

#include "ompi/request/request.h"
#include "opal/runtime/opal_progress.h"

struct query {
	uint32_t first, count; /* pieces; count 0: not in use */
	uint64_t at;           /* when it arrived, ns */
};

struct receiver {
	struct hk_mcast m;
	const struct hk_coll_call *c;
	_Atomic uint32_t arrived; /* pieces */
	_Atomic uint32_t end;     /* the highest piece that has arrived, plus one */
	struct query queries[HK_COLL_BURSTS];
	uint32_t queried;         /* pieces in `queries` */
	uint32_t confirmed;       /* pieces that we have reported as complete */
	uint32_t last_arrived;    /* an earlier value of `arrived` */
	uint64_t last_arrived_at; /* the time of that value, ns */
	bool lossy;
	ompi_request_t *req;
	struct hk_coll_header *message; /* a piece and its header */
};

static bool have(const struct receiver *r, uint32_t piece)
{
	return atomic_load_explicit(&r->c->m->received[piece / 64], memory_order_acquire) >>
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
	memcpy(c->data + (size_t)piece * c->m->piece_size, bytes, len);
	atomic_fetch_or_explicit(&c->m->received[piece / 64], UINT64_C(1) << (piece % 64),
				 memory_order_release);
	atomic_fetch_add_explicit(&r->arrived, 1, memory_order_relaxed);
	return true;
}

/* A piece with the number of our transfer and impossible values counts as lost. */
static void on_piece(struct hk_mcast *m, uint32_t piece, const void *bytes, size_t len)
{
	struct receiver *r = (struct receiver *)m;

	/* written by one thread at a time: the worker's lock is around this */
	if (place(r, piece, bytes, len) &&
	    piece >= atomic_load_explicit(&r->end, memory_order_relaxed))
		atomic_store_explicit(&r->end, piece + 1, memory_order_relaxed);
}

static int answer(const struct receiver *r, const struct hk_coll_report *h, size_t words)
{
	return MCA_PML_CALL(send(h, sizeof(h->header) + words * sizeof(h->missing[0]), MPI_BYTE,
				 r->c->root, HK_COLL_TAG_UP, MCA_PML_BASE_SEND_STANDARD,
				 r->c->comm));
}

/* ---- messages of the root -----------------------------------------------------------------------
 */

static int post(struct receiver *r)
{
	return MCA_PML_CALL(irecv(r->message, sizeof(*r->message) + r->c->m->piece_size, MPI_BYTE,
				  r->c->root, HK_COLL_TAG_DOWN, r->c->comm, &r->req));
}

static int handle_message(struct receiver *r, size_t len)
{
	const struct hk_coll_header *h = r->message;
	const struct hk_coll_call *c = r->c;

	if (len < sizeof(*h) || h->number != c->m->number)
		return OMPI_ERR_BAD_PARAM;
	if (h->type == HK_COLL_PIECE)
		return place(r, h->first, h + 1, len - sizeof(*h)) ? OMPI_SUCCESS
								   : OMPI_ERR_BAD_PARAM;
	if (h->type != HK_COLL_QUERY || h->count == 0 || h->count > HK_COLL_BURST_MAX ||
	    h->first >= c->pieces || h->count > c->pieces - h->first)
		return OMPI_ERR_BAD_PARAM;
	r->lossy |= h->lossy != 0;
	for (unsigned i = 0; i < HK_COLL_BURSTS; i++)
		if (r->queries[i].count == 0) {
			r->queries[i] = (struct query){h->first, h->count, hk_clock_ns()};
			r->queried += h->count;
			return OMPI_SUCCESS;
		}
	return OMPI_ERR_BAD_PARAM;
}

/* Polls, and handles messages of the root. A receive is posted only while further messages of the
 * root are due. */
static int progress(struct receiver *r)
{
	int rc = OMPI_SUCCESS;

	if (!r->req && r->confirmed + r->queried < r->c->pieces)
		rc = post(r);
	opal_progress();
	if (rc == OMPI_SUCCESS && r->req && REQUEST_COMPLETE(r->req)) {
		size_t len = r->req->req_status._ucount;

		rc = r->req->req_status.MPI_ERROR;
		ompi_request_free(&r->req);
		r->req = NULL;
		if (rc == OMPI_SUCCESS)
			rc = handle_message(r, len);
	}
	return rc;
}

/* ---- answers ------------------------------------------------------------------------------------
 */

/* Answers a query if all its pieces have arrived, or enough time has passed. */
static int answer_if_due(struct receiver *r, struct query *q, uint64_t now)
{
	struct hk_coll_report h = {
		.header = {.type = HK_COLL_REPORT, .number = r->c->m->number, .first = q->first}};
	uint32_t end = atomic_load_explicit(&r->end, memory_order_relaxed);
	uint64_t idle_since = HK_MAX(q->at, r->last_arrived_at);
	bool overtaken = now > q->at + HK_COLL_PARAMS->grace_us * UINT64_C(1000);
	bool late = now > idle_since + HK_COLL_PARAMS->tail_us * UINT64_C(1000);
	uint32_t count = q->count;

	for (uint32_t i = 0; i < count; i++)
		if (!have(r, q->first + i)) {
			if (!(q->first + i < end ? overtaken : late))
				return OMPI_SUCCESS;
			h.missing[i / 64] |= UINT64_C(1) << (i % 64);
			h.header.count++;
		}
	q->count = 0;
	r->queried -= count;
	if (h.header.count == 0)
		r->confirmed += count;
	return answer(r, &h, h.header.count ? (count + 63) / 64 : 0);
}

static int run(struct receiver *r)
{
	const struct hk_coll_report ready = {.header = {.type = HK_COLL_READY,
							.number = r->c->m->number,
							.count = r->c->pieces}};
	int rc = answer(r, &ready, 0);

	while (rc == OMPI_SUCCESS && r->confirmed < r->c->pieces) {
		rc = progress(r);
		if (r->queried == 0)
			continue;
		uint64_t now = hk_clock_ns();
		uint32_t arrived = atomic_load_explicit(&r->arrived, memory_order_relaxed);

		if (arrived != r->last_arrived) {
			r->last_arrived = arrived;
			r->last_arrived_at = now;
		}
		for (unsigned i = 0; i < HK_COLL_BURSTS && rc == OMPI_SUCCESS; i++)
			if (r->queries[i].count)
				rc = answer_if_due(r, &r->queries[i], now);
	}
	return rc;
}

int hk_coll_receive(const struct hk_coll_call *c, bool *lossy)
{
	const struct hk_btl_mcast_peer *root = &c->m->peer[c->root];
	struct receiver r = {
		.m = {.channel = HK_CID(c->comm),
		      .number = c->m->number,
		      .endpoint = root->endpoint,
		      .epoch = root->epoch,
		      .key = c->m->key,
		      .fn = on_piece},
		.c = c,
		.message = c->m->scratch,
	};
	int rc;

	for (size_t i = 0; i < HK_ARRAY_LEN(c->m->received); i++)
		atomic_store_explicit(&c->m->received[i], 0, memory_order_relaxed);
	c->m->btl->open(&r.m);
	rc = run(&r);
	c->m->btl->close(&r.m);
	*lossy |= r.lossy;
	return rc;
}

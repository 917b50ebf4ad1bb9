/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/halo_mixed.c: exchanges that repeat, and disturbances of them. It is plain MPI; the
 * promoter is under test.
 *
 * All ranks draw the same rounds. A round has a communicator of its own, and messages of several
 * tags between random pairs, including a rank and itself. They are sent again and again in one
 * order. Most keep their size; some change it at some step.
 *
 * Each rank draws how it does its end of a message: nonblocking, persistent, blocking or
 * synchronous; in time or late; with types that have gaps. In some steps it uses receives from any
 * source or tag, or probes. It cancels some receives, and frees some communicators during the last
 * step.
 *
 * The bytes of a message say which one it is, so a message out of order is found at once. Each
 * channel must deliver its next message, and a receive of any tag must get the one sent first.
 */
#include "common.h"

#define MESSAGES 12
#define STEPS    28
#define TAGS     4
#define LARGEST  5000 /* doubles */

enum how { NAMED, ANY_SOURCE_OR_TAG, ANY_TAG, ANY_SOURCE, PROBED, MATCHED, HOWS };

struct message {
	int src, dst, tag, doubles;
	bool strange; /* of another size in some steps */
};

struct end { /* at this rank, in this step */
	int message, bytes;
	double *buf;
	MPI_Datatype type;
	int count;
	bool gaps;
};

static struct message msg[MESSAGES];
static int messages, step, this_round;
static uint64_t seed;
static MPI_Comm comm;
static uint32_t next_in[64][TAGS]; /* messages received of each channel */
static MPI_Request persistent[2][MESSAGES];
static double *fixed[2][MESSAGES];

static int doubles_of(int m, int at)
{
	if (!msg[m].strange || hkt_key(seed, (uint64_t)this_round, (uint64_t)m, (uint64_t)at) % 3)
		return msg[m].doubles;
	return (int)(hkt_key(seed + 1, (uint64_t)this_round, (uint64_t)m, (uint64_t)at) % LARGEST);
}

/* The number in its channel of message @m at step @at. */
static uint32_t index_of(int m, int at)
{
	uint32_t before = 0, each = 0;

	for (int k = 0; k < messages; k++)
		if (msg[k].src == msg[m].src && msg[k].dst == msg[m].dst &&
		    msg[k].tag == msg[m].tag) {
			each++;
			before += k < m;
		}
	return (uint32_t)at * each + before;
}

static uint64_t key_of(int src, int dst, int tag, uint32_t index)
{
	return hkt_key(seed + 2 + (uint64_t)this_round, (uint64_t)src * 64 + (uint64_t)dst,
		       (uint64_t)tag, index);
}

static MPI_Datatype gaps(int doubles)
{
	MPI_Datatype t;

	MPI_Type_vector(doubles, 1, 2, MPI_DOUBLE, &t);
	MPI_Type_commit(&t);
	return t;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void fill(double *to, int m, int doubles, int stride)
{
	static double flat[LARGEST + 1];

	hkt_fill(flat, sizeof(double) * (size_t)doubles,
		 key_of(msg[m].src, msg[m].dst, msg[m].tag, index_of(m, step)));
	for (int k = 0; k < doubles; k++)
		to[k * stride] = flat[k];
}

static int send(struct hkt_rng *r, int m, MPI_Request *request, double **buf)
{
	int n = doubles_of(m, step), dst = msg[m].dst, tag = msg[m].tag, what;

	*buf = NULL;
	if (persistent[0][m] != MPI_REQUEST_NULL && n == msg[m].doubles) {
		fill(fixed[0][m], m, n, 1);
		*request = persistent[0][m];
		MPI_Start(request);
		return 1;
	}
	bool gap = m % 3 == 1;
	MPI_Datatype type = gap ? gaps(n) : MPI_DOUBLE;
	int count = gap ? 1 : n;

	*buf = hkt_alloc(2 * sizeof(double) * (size_t)n + 8);
	fill(*buf, m, n, gap ? 2 : 1);
	what = (int)hkt_below(r, 40);
	int sent = 1;

	if (what == 0 && step > 4 && dst != hkt_rank) {
		MPI_Issend(*buf, count, type, dst, tag, comm, request);
	} else if (what < 20 && n <= 60 && dst != hkt_rank) {
		MPI_Send(*buf, count, type, dst, tag, comm);
		memset(*buf, 0x77, sizeof(double) * (size_t)n);
		sent = 0;
	} else {
		MPI_Isend(*buf, count, type, dst, tag, comm, request);
	}
	if (gap)
		MPI_Type_free(&type);
	return sent;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void check(const struct end *e, const MPI_Status *status, int src, int tag)
{
	static double flat[LARGEST + 1];
	int n = e->bytes / 8, got;

	MPI_Get_count(status, MPI_BYTE, &got);
	HKT_CHECK(status->MPI_SOURCE == src && status->MPI_TAG == tag,
		  "status of %d, %d for %d, %d", status->MPI_SOURCE, status->MPI_TAG, src, tag);
	HKT_CHECK(got == e->bytes, "%d bytes from %d, tag %d, instead of %d", got, src, tag,
		  e->bytes);
	for (int k = 0; k < n; k++)
		flat[k] = e->buf[e->gaps ? 2 * k : k];
	hkt_verify(flat, (size_t)e->bytes, key_of(src, hkt_rank, tag, next_in[src][tag]++), src,
		   "message");
	hkt_verify_value(e->buf + (e->gaps ? 2 * n : n), 16, 0x3c, src, "room behind");
}

static void end_make(struct end *e, int m, int doubles, bool gap)
{
	e->message = m;
	e->bytes = 8 * doubles;
	e->gaps = gap;
	e->type = gap ? gaps(doubles) : MPI_DOUBLE;
	e->count = gap ? 1 : doubles;
	e->buf = hkt_alloc(8 * (size_t)(2 * doubles + 4));
	memset(e->buf, 0x3c, 8 * (size_t)(2 * doubles + 4));
}

static void end_drop(struct end *e)
{
	free(e->buf);
	if (e->gaps)
		MPI_Type_free(&e->type);
}

/* Posts the receives of this step that name their channels. They end together with the sends. */
static int post_named(struct hkt_rng *r, struct end *end, MPI_Request *request)
{
	int n = 0, order[MESSAGES];

	for (int m = 0; m < messages; m++)
		order[m] = m;
	for (int k = messages - 1; k > 0; k--) { /* channels in any order, each in its own */
		int other = (int)hkt_below(r, (uint64_t)k + 1), swap = order[k];

		order[k] = order[other];
		order[other] = swap;
	}
	for (int k = 0; k < messages; k++)
		for (int l = k + 1; l < messages; l++) {
			const struct message *a = &msg[order[k]], *b = &msg[order[l]];

			if (a->src == b->src && a->dst == b->dst && a->tag == b->tag &&
			    order[k] > order[l]) {
				int swap = order[k];

				order[k] = order[l];
				order[l] = swap;
			}
		}
	for (int k = 0; k < messages; k++) {
		int m = order[k], d = doubles_of(m, step);

		if (msg[m].dst != hkt_rank)
			continue;
		if (persistent[1][m] != MPI_REQUEST_NULL && d == msg[m].doubles) {
			end[n] = (struct end){m, 8 * d, fixed[1][m], MPI_DOUBLE, d, false};
			memset(fixed[1][m], 0x3c, 8 * (size_t)(d + 4));
			request[n] = persistent[1][m];
			MPI_Start(&request[n++]);
			continue;
		}
		end_make(&end[n], m, d, hkt_below(r, 3) == 0);
		int more = end[n].gaps ? 0 : (int)hkt_below(r, 2); /* room for more than comes */

		MPI_Irecv(end[n].buf, end[n].count + more, end[n].type, msg[m].src, msg[m].tag,
			  comm, &request[n]);
		n++;
	}
	return n;
}

/* The message of @src (and of @tag, unless any) that this rank must receive next: the oldest. */
static int first_of(const bool *got, int src, int tag)
{
	for (int m = 0; m < messages; m++)
		if (!got[m] && msg[m].dst == hkt_rank && msg[m].src == src &&
		    (tag == MPI_ANY_TAG || msg[m].tag == tag))
			return m;
	hkt_fail("a message from %d, tag %d, that nobody sent", src, tag);
}

static int largest(void)
{
	return LARGEST;
}

/* Receives all messages of this step by wildcards, or after probes. */
static void receive_all(struct hkt_rng *r, enum how how)
{
	bool got[MESSAGES] = {false};
	int n = 0;

	for (int m = 0; m < messages; m++)
		n += msg[m].dst == hkt_rank;
	for (int k = 0; k < n; k++) {
		int next = 0, src = MPI_ANY_SOURCE, tag = MPI_ANY_TAG;
		struct end e;
		MPI_Status s;

		while (got[next] || msg[next].dst != hkt_rank)
			next++;
		if (how != ANY_SOURCE_OR_TAG && how != ANY_SOURCE && hkt_below(r, 4))
			src = msg[next].src;
		if (how == ANY_SOURCE || (how >= PROBED && hkt_below(r, 2)))
			tag = msg[next].tag;
		if (how < PROBED) {
			MPI_Request q;

			end_make(&e, 0, largest(), false);
			MPI_Irecv(e.buf, e.count, e.type, src, tag, comm, &q);
			MPI_Wait(&q, &s);
		} else if (how == PROBED) {
			int there = 0, size;

			if (hkt_below(r, 2))
				MPI_Probe(src, tag, comm, &s);
			else
				while (!there)
					MPI_Iprobe(src, tag, comm, &there, &s);
			MPI_Get_count(&s, MPI_DOUBLE, &size);
			end_make(&e, 0, size, hkt_below(r, 2));
			MPI_Recv(e.buf, e.count, e.type, s.MPI_SOURCE, s.MPI_TAG, comm, &s);
		} else {
			MPI_Message message;
			int there = 0, size;

			if (hkt_below(r, 2))
				MPI_Mprobe(src, tag, comm, &message, &s);
			else
				while (!there)
					MPI_Improbe(src, tag, comm, &there, &message, &s);
			MPI_Get_count(&s, MPI_DOUBLE, &size);
			end_make(&e, 0, size, hkt_below(r, 2));
			MPI_Mrecv(e.buf, e.count, e.type, &message, &s);
		}
		int m = first_of(got, s.MPI_SOURCE, tag);

		got[m] = true;
		HKT_CHECK(s.MPI_TAG == msg[m].tag, "tag %d came before tag %d of %d", s.MPI_TAG,
			  msg[m].tag, msg[m].src);
		e.bytes = 8 * doubles_of(m, step);
		check(&e, &s, msg[m].src, msg[m].tag);
		end_drop(&e);
	}
}

/* ---- a round --------------------------------------------------------------------------------- */

/* Waits by one of MPI's functions. */
static void wait_all(struct hkt_rng *r, int n, MPI_Request *q, MPI_Status *s)
{
	static int index[3 * MESSAGES];
	static MPI_Status some[3 * MESSAGES];
	int left = n, done, k;

	switch (hkt_below(r, 4)) {
	case 0:
		MPI_Waitall(n, q, s);
		return;
	case 1:
		for (;; s[k] = some[0]) {
			MPI_Waitany(n, q, &k, &some[0]);
			if (k == MPI_UNDEFINED)
				return;
		}
	case 2:
		while (left > 0) {
			MPI_Waitsome(n, q, &done, index, some);
			if (done == MPI_UNDEFINED)
				return;
			for (k = 0; k < done; k++)
				s[index[k]] = some[k];
			left -= done;
		}
		return;
	default:
		for (k = 0; k < n; k++)
			for (done = 0; !done;)
				MPI_Test(&q[k], &done, &s[k]);
	}
}

static void one_step(struct hkt_rng *r, enum how how, bool free_it)
{
	struct end end[MESSAGES];
	MPI_Request q[2 * MESSAGES];
	MPI_Status s[2 * MESSAGES];
	double *sent[MESSAGES];
	int ins = 0, n = 0;
	bool late = hkt_below(r, 5) == 0;

	hkt_at("round %d, step %d, receives of kind %d", this_round, step, how);
	if (how == NAMED && !late)
		n = ins = post_named(r, end, q);
	if (hkt_below(r, 60) == 0)
		hkt_compute(3);
	/* late receives may need the sends' partners, so blocking sends are small */
	int first_send = how == NAMED && !late ? n : MESSAGES, at = first_send, sends = 0;

	for (int m = 0; m < messages; m++)
		if (msg[m].src == hkt_rank)
			at += send(r, m, &q[at], &sent[sends++]);
	if (how == NAMED && late) {
		hkt_compute(1);
		ins = post_named(r, end, q);
		for (int k = first_send; k < at; k++)
			q[ins + k - first_send] = q[k];
		at = ins + at - first_send;
	} else if (how != NAMED) {
		receive_all(r, how);
		for (int k = first_send; k < at; k++)
			q[k - first_send] = q[k];
		at -= first_send;
	}
	if (free_it)
		MPI_Comm_free(&comm);
	wait_all(r, at, q, s);
	for (int k = 0; k < ins; k++)
		for (int l = 0; l < ins; l++) /* in the order of channels */
			if (index_of(end[l].message, step) ==
				    next_in[msg[end[l].message].src][msg[end[l].message].tag] &&
			    end[l].buf) {
				const struct message *m = &msg[end[l].message];

				check(&end[l], &s[l], m->src, m->tag);
				if (end[l].buf != fixed[1][end[l].message])
					end_drop(&end[l]);
				end[l].buf = NULL;
			}
	for (int k = 0; k < sends; k++)
		free(sent[k]);
}

/* No rank sends with this tag now, so the receive ends cancelled. */
static void cancel(int src, int tag)
{
	MPI_Request q;
	MPI_Status s;
	double x;
	int cancelled;

	MPI_Irecv(&x, 1, MPI_DOUBLE, src, tag, comm, &q);
	MPI_Cancel(&q);
	MPI_Wait(&q, &s);
	MPI_Test_cancelled(&s, &cancelled);
	HKT_CHECK(cancelled, "a receive without message was not cancelled");
}

static void draw(struct hkt_rng *all)
{
	static const int sizes[] = {0, 1, 7, 50, 60, 300, 1000, 2100, LARGEST};
	int tags = 1 + (int)hkt_below(all, TAGS);

	messages = 1 + (int)hkt_below(all, MESSAGES);
	for (int m = 0; m < messages; m++)
		msg[m] = (struct message){(int)hkt_below(all, (uint64_t)hkt_size),
					  (int)hkt_below(all, (uint64_t)hkt_size),
					  (int)hkt_below(all, (uint64_t)tags),
					  sizes[hkt_below(all, 9)], hkt_below(all, 5) == 0};
	memset(next_in, 0, sizeof(next_in));
}

static void persist(struct hkt_rng *r)
{
	for (int m = 0; m < messages; m++)
		for (int in = 0; in < 2; in++) {
			persistent[in][m] = MPI_REQUEST_NULL;
			fixed[in][m] = hkt_alloc(8 * (size_t)(msg[m].doubles + 4));
			if (hkt_below(r, 4) || (in ? msg[m].dst : msg[m].src) != hkt_rank)
				continue;
			if (in)
				MPI_Recv_init(fixed[1][m], msg[m].doubles, MPI_DOUBLE, msg[m].src,
					      msg[m].tag, comm, &persistent[1][m]);
			else
				MPI_Send_init(fixed[0][m], msg[m].doubles, MPI_DOUBLE, msg[m].dst,
					      msg[m].tag, comm, &persistent[0][m]);
		}
}

static void ring(void)
{
	int right = (hkt_rank + 1) % hkt_size, left = (hkt_rank + hkt_size - 1) % hkt_size;
	uint64_t out[40], in[40];

	for (step = 0; step < STEPS; step++) {
		int n = step == STEPS / 2 ? 40 : 20 + 10 * (step % 2);
		MPI_Status s;

		hkt_at("ring, step %d", step);
		hkt_fill(out, sizeof(out), key_of(hkt_rank, right, 9, (uint32_t)step));
		if (step % 3) {
			MPI_Sendrecv(out, n, MPI_UINT64_T, right, 9, in, 40, MPI_UINT64_T, left, 9,
				     comm, &s);
		} else {
			memcpy(in, out, sizeof(in));
			MPI_Sendrecv_replace(in, n, MPI_UINT64_T, right, 9, left, 9, comm, &s);
		}
		hkt_verify(in, sizeof(*in) * (size_t)n, key_of(left, hkt_rank, 9, (uint32_t)step),
			   left, "ring");
	}
}

static void one_round(void)
{
	struct hkt_rng all = {hkt_key(seed, 1, (uint64_t)this_round, 0)},
		       mine = {hkt_key(seed, 2, (uint64_t)this_round, (uint64_t)hkt_rank)};
	int steps = STEPS + (int)hkt_below(&all, STEPS), any_from;

	draw(&all);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	ring();
	persist(&mine);
	enum how how = (enum how)hkt_below(&mine, HOWS);

	any_from = steps / 2 + (int)hkt_below(&all, (uint64_t)steps); /* or never */
	for (step = 0; step < steps; step++) {
		if (step == steps - 6 && hkt_below(&all, 2)) {
			MPI_Barrier(comm);
			if (hkt_below(&mine, 2))
				cancel((int)hkt_below(&mine, (uint64_t)hkt_size),
				       (int)hkt_below(&mine, TAGS));
			MPI_Barrier(comm);
		}
		bool any = step >= any_from && step % 2 == any_from % 2;

		one_step(&mine, any ? how : NAMED, step == steps - 1 && this_round % 2);
		if (any && comm != MPI_COMM_NULL) /* what comes next is of the next step */
			MPI_Barrier(comm);
	}
	for (int in = 0; in < 2; in++)
		for (int m = 0; m < messages; m++) {
			if (persistent[in][m] != MPI_REQUEST_NULL)
				MPI_Request_free(&persistent[in][m]);
			free(fixed[in][m]);
		}
	if (comm != MPI_COMM_NULL)
		MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "halo_mixed", MPI_THREAD_SINGLE);
	seed = hkt_opt.seed;
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 12;

	HKT_CHECK(hkt_size <= 64, "at most 64 ranks");
	for (this_round = 0; this_round < rounds; this_round++)
		one_round();
	return hkt_finish();
}

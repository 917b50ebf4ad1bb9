/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-ns3/host_tcp.c: see host_tcp.h.
 */
#include "sim-ns3/host_tcp.h"
#include "sim-ns3/program.h"

#include <stdlib.h>

#define HELLO 8 /* bytes that warm a connection up */

/* The messages of a connection are a list, oldest first. They are written, delivered and completed
 * in this order. */
struct conn {
	uint32_t from, to;
	uint32_t oldest;           /* not complete */
	uint32_t deliver;          /* the first that is not delivered */
	uint32_t write, last;      /* the first that is not written; the newest */
	uint64_t arrived, acked;   /* bytes that no message has yet */
	uint32_t hello, hello_ack; /* bytes of the warm-up that are missing */
	bool woken;                /* its event is in the queue */
};

static struct {
	struct hosts *hosts;
	struct conn *conn;
	uint32_t conns, cap;
	uint32_t *of; /* connection by from * hosts + to */
	struct hk_engine_counters *counters;
} tcp;

/* ---- what TCP says: bytes are counted now, and the scenario's code runs in host_wake() ---------
 */

static void wake(uint32_t c)
{
	struct events *q = &tcp.hosts->net->events;

	if (tcp.conn[c].woken)
		return;
	tcp.conn[c].woken = true;
	ns3_clock(q);
	events_add(q, q->now, EVENT_WAKE, c, 0);
}

static void arrived(uint32_t c, uint32_t bytes)
{
	struct conn *x = &tcp.conn[c];
	uint32_t hello = HK_MIN(bytes, x->hello);

	x->hello -= hello;
	x->arrived += bytes - hello;
	if (bytes > hello)
		wake(c);
}

static void acked(uint32_t c, uint32_t bytes)
{
	struct conn *x = &tcp.conn[c];
	uint32_t hello = HK_MIN(bytes, x->hello_ack);

	x->hello_ack -= hello;
	x->acked += bytes - hello;
	if (bytes > hello)
		wake(c);
}

static void segment(uint32_t c, bool again)
{
	struct host *x = &tcp.hosts->host[tcp.conn[c].from];

	if (again)
		x->n.resends++;
	else
		x->n.data++;
}

static void timeout(uint32_t c)
{
	tcp.counters[tcp.conn[c].from].loss_rto++;
}

const struct fabric_tcp tcp_hosts = {
	.arrived = arrived, .acked = acked, .segment = segment, .timeout = timeout};

/* ---- messages ----------------------------------------------------------------------------------
 */

static void write_more(struct hosts *h, uint32_t c)
{
	struct conn *x = &tcp.conn[c];

	while (x->write != MSG_NONE) {
		struct msg *m = &h->msg[x->write];

		m->sent += fabric_write(c, m->bytes - m->sent);
		if (m->sent < m->bytes)
			return;
		x->write = m->next;
	}
}

/* The scenario may send, so that messages and connections move. */
static void deliver(struct hosts *h, uint32_t c)
{
	for (;;) {
		struct conn *x = &tcp.conn[c];

		if (x->deliver == MSG_NONE || x->arrived < h->msg[x->deliver].bytes)
			return;
		struct msg *m = &h->msg[x->deliver];
		struct msg done = *m;

		x->arrived -= m->bytes;
		x->deliver = m->next;
		m->delivered = true;
		h->delivered(h->arg, &done);
	}
}

static void complete(struct hosts *h, uint32_t c)
{
	for (;;) {
		struct conn *x = &tcp.conn[c];
		uint32_t first = x->oldest;

		if (first == MSG_NONE || !h->msg[first].delivered || x->acked < h->msg[first].bytes)
			return;
		struct msg done = h->msg[first];

		x->acked -= done.bytes;
		x->oldest = done.next;
		h->msg[first].acked = h->msg[first].frames;
		msg_end_if_done(h, first);
		h->completed(h->arg, &done);
	}
}

void host_wake(struct hosts *h, uint32_t c)
{
	tcp.conn[c].woken = false;
	deliver(h, c);
	complete(h, c);
	write_more(h, c);
}

void host_send(struct hosts *h, uint32_t from, uint32_t to, uint32_t bytes, bool put, uint32_t tag)
{
	uint32_t c = tcp.of[from * h->count + to], m = msg_new(h);
	struct conn *x = &tcp.conn[c];

	h->msg[m] = (struct msg){.next = MSG_NONE,
				 .from = from,
				 .to = to,
				 .bytes = bytes,
				 .tag = tag,
				 .frames = 1,
				 .began = h->net->events.now,
				 .put = put};
	if (x->oldest == MSG_NONE)
		x->oldest = m;
	else
		h->msg[x->last].next = m;
	x->last = m;
	if (x->deliver == MSG_NONE)
		x->deliver = m;
	if (x->write == MSG_NONE)
		x->write = m;
	write_more(h, c);
}

/* ---- life --------------------------------------------------------------------------------------
 */

static void connect_one(uint32_t from, uint32_t to)
{
	uint32_t c = fabric_connect(from, to);

	tcp.conn = sim_grow(tcp.conn, c, &tcp.cap, sizeof(*tcp.conn));
	tcp.conn[c] = (struct conn){.from = from,
				    .to = to,
				    .oldest = MSG_NONE,
				    .deliver = MSG_NONE,
				    .write = MSG_NONE,
				    .hello = HELLO,
				    .hello_ack = HELLO};
	tcp.conns = c + 1;
	tcp.of[from * tcp.hosts->count + to] = c;
}

static void warm_up(struct events *q, uint64_t until)
{
	struct event ev;

	while (events_next(q, until, &ev))
		continue;
}

void tcp_hosts_connect(struct hosts *h, bool mesh)
{
	struct events *q = &h->net->events;
	uint64_t half = q->now + ns3_options.warm_up / 2;

	for (uint32_t from = 0; from < h->count; from++)
		for (uint32_t to = 0; to < h->count; to++)
			if (from != to && (mesh || !to || (!from && to == 1)))
				connect_one(from, to);
	warm_up(q, half);
	for (uint32_t c = 0; c < tcp.conns; c++)
		(void)fabric_write(c, HELLO);
	warm_up(q, half + ns3_options.warm_up / 2);
	for (uint32_t c = 0; c < tcp.conns; c++) {
		if (tcp.conn[c].hello || tcp.conn[c].hello_ack) {
			fprintf(stderr,
				"hikyaku-sim-ns3-tcp: hosts %u and %u did not connect; "
				"fix: this is a bug, please report the command\n",
				tcp.conn[c].from, tcp.conn[c].to);
			exit(1);
		}
	}
	for (uint32_t i = 0; i < h->count; i++)
		h->host[i].n = (struct host_stats){0};
}

void hosts_init(struct hosts *h, const struct host_config *c, struct net *net, uint32_t count)
{
	hosts_new(h, c, net, count);
	tcp.hosts = h;
	tcp.of = sim_alloc((size_t)count * count * sizeof(*tcp.of));
	tcp.counters = sim_alloc(count * sizeof(*tcp.counters));
}

void hosts_free(struct hosts *h)
{
	free(h->host);
	free(h->msg);
	free(tcp.conn);
	free(tcp.of);
	free(tcp.counters);
}

/* Connections were opened by tcp_hosts_connect(), which knows the scenario. */
void host_start(struct hosts *h, uint32_t id, uint32_t peers, bool receives)
{
	(void)peers;
	(void)receives;
	h->host[id].id = id;
}

/* Applications take no time here. */
void host_taken(struct hosts *h, uint32_t id, uint32_t first)
{
	(void)h;
	(void)id;
	(void)first;
}

const struct hk_engine_counters *host_counters(const struct hosts *h, uint32_t id)
{
	(void)h;
	return &tcp.counters[id];
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/exchange.c: ranks, one a host, exchange the messages of a list (messages.h) again and again,
 * as a solver does: exchange.
 *
 * DESIGN NOTES
 *
 * A rank starts its next exchange when all messages to it have arrived and it may change what it
 * has sent. So ranks keep step with their neighbours, and with no others.
 *
 * With --eager 0 each message is a put to the receiver's memory, as the halo library does it. The
 * data is copied into frames, as that of several blocks is, so a rank need not wait for
 * acknowledgements. But every frame of the puts of the exchange before must be acknowledged.
 *
 * Otherwise messages are those of MPI_Isend and MPI_Irecv, as Open MPI's ob1 has them over our BTL:
 *
 * - A message of up to --eager bytes is sent at once, and its sender is done.
 * - A longer one is asked for. The sender announces it. A receiver that has posted its receive, so
 *   which has started this exchange, requests the data. The sender then puts it, and the receiver
 *   tells the sender that it is done.
 *
 * The network is cold at first, so exchanges count from the WARM_UP-th on.
 */
#include "sim/messages.h"
#include "sim/scenarios.h"

#include <inttypes.h>
#include <stdlib.h>

#define WARM_UP 5

/* Bytes of ob1's headers: before the data of an eager message; and of each other message. */
#define MATCH    14
#define ANNOUNCE 104
#define REQUEST  48
#define DONE     32

enum phase { DATA, EAGER, ANNOUNCED, REQUESTED, FINISHED };

#define PHASES 5

struct exchange {
	/* by message: how often so far */
	uint32_t *announced, *requested, *arrived, *complete;
	/* by host */
	uint32_t *started; /* exchanges */
	uint32_t *missing; /* messages of this exchange, in and out */
	uint64_t *began;   /* ps: this exchange */
	/* messages by receiver */
	uint32_t *in, *first_in;
	uint32_t warm; /* hosts that have finished the warm-up */
};

static void send(struct run *r, uint32_t i, enum phase phase)
{
	const struct message *m = &r->o.messages->message[i];
	uint32_t tag = i * PHASES + phase;

	switch (phase) {
	case DATA:
		host_send(&r->hosts, m->from, m->to, m->bytes, true, tag);
		break;
	case EAGER:
		host_send(&r->hosts, m->from, m->to, m->bytes + MATCH, false, tag);
		break;
	case ANNOUNCED:
		host_send(&r->hosts, m->from, m->to, ANNOUNCE, false, tag);
		break;
	case REQUESTED:
		host_send(&r->hosts, m->to, m->from, REQUEST, false, tag);
		break;
	case FINISHED:
		host_send(&r->hosts, m->to, m->from, DONE, false, tag);
		break;
	}
}

/* The receiver of message @i asks for the data that was announced to it, once its receive is there.
 */
static void request(struct run *r, uint32_t i)
{
	struct exchange *x = r->state;

	if (x->requested[i] == x->announced[i] ||
	    x->requested[i] == x->started[r->o.messages->message[i].to])
		return;
	x->requested[i]++;
	send(r, i, REQUESTED);
}

/* How many exchanges a rank may be ahead of its complete messages. */
static uint32_t ahead(const struct run *r)
{
	return r->o.eager ? 0 : 1;
}

static void start(struct run *r, uint32_t host)
{
	const struct messages *l = r->o.messages;
	struct exchange *x = r->state;
	uint32_t number = ++x->started[host];

	x->began[host] = r->net.events.now;
	x->missing[host] = 0;
	for (uint32_t i = l->first[host]; i < l->first[host + 1]; i++)
		x->missing[host] += x->complete[i] + ahead(r) < number;
	for (uint32_t k = x->first_in[host]; k < x->first_in[host + 1]; k++) {
		x->missing[host] += x->arrived[x->in[k]] < number;
		request(r, x->in[k]);
	}
	for (uint32_t i = l->first[host]; i < l->first[host + 1]; i++) {
		if (!r->o.eager) {
			send(r, i, DATA);
		} else if (l->message[i].bytes > r->o.eager) {
			send(r, i, ANNOUNCED);
		} else {
			x->complete[i]++;
			x->missing[host]--;
			send(r, i, EAGER);
		}
	}
}

/* One of the messages of @host has arrived or is complete for the @number-th time. */
static void count_down(struct run *r, uint32_t host, uint32_t number)
{
	struct exchange *x = r->state;

	/* a neighbour may be ahead; start() counts its messages */
	if (number == x->started[host])
		x->missing[host]--;
}

/* Starts the next exchange of @host if this one is over. */
static void next(struct run *r, uint32_t host)
{
	struct exchange *x = r->state;

	if (x->missing[host] || !x->started[host])
		return;
	x->missing[host] = 1; /* so that this exchange is over once */
	r->left--;
	if (x->started[host] == WARM_UP && ++x->warm == r->o.net.hosts)
		run_measure(r);
	if (x->started[host] > WARM_UP) {
		run_sample(r, x->began[host]);
		r->flow[host].completed++;
	}
	/* as an event: the engine that delivers is in the midst of its turn */
	if (x->started[host] < WARM_UP + r->o.count)
		run_call_soon(r, 0, host, 0);
}

static void delivered(struct run *r, const struct msg *m)
{
	struct exchange *x = r->state;
	uint32_t i = m->tag / PHASES;
	const struct message *of = &r->o.messages->message[i];

	switch ((enum phase)(m->tag % PHASES)) {
	case ANNOUNCED:
		x->announced[i]++;
		request(r, i);
		return;
	case REQUESTED:
		send(r, i, DATA);
		return;
	case FINISHED:
		count_down(r, of->from, ++x->complete[i]);
		next(r, of->from);
		return;
	case DATA:
	case EAGER:
		break;
	}
	r->flow[of->to].bytes += of->bytes;
	count_down(r, of->to, ++x->arrived[i]);
	if (r->o.eager && m->tag % PHASES == DATA)
		send(r, i, FINISHED);
	next(r, of->to);
}

static void completed(struct run *r, const struct msg *m)
{
	struct exchange *x = r->state;
	uint32_t i = m->tag / PHASES;

	if (r->o.eager)
		return;
	count_down(r, m->from, ++x->complete[i] + ahead(r));
	next(r, m->from);
}

static void call(struct run *r, uint32_t host, uint32_t b)
{
	(void)b;
	start(r, host);
	next(r, host);
}

static void begin(struct run *r)
{
	const struct messages *l = r->o.messages;
	struct exchange *x = sim_alloc(sizeof(*x));
	size_t messages = l->count * sizeof(uint32_t), hosts = l->ranks * sizeof(uint32_t);

	*x = (struct exchange){
		.announced = sim_alloc(messages),
		.requested = sim_alloc(messages),
		.arrived = sim_alloc(messages),
		.complete = sim_alloc(messages),
		.started = sim_alloc(hosts),
		.missing = sim_alloc(hosts),
		.began = sim_alloc(l->ranks * sizeof(uint64_t)),
		.in = sim_alloc(messages),
		.first_in = sim_alloc(hosts + sizeof(uint32_t)),
	};
	r->state = x;
	for (uint32_t i = 0; i < l->count; i++)
		x->first_in[l->message[i].to + 1]++;
	for (uint32_t h = 0; h < l->ranks; h++)
		x->first_in[h + 1] += x->first_in[h];
	for (uint32_t i = 0; i < l->count; i++) {
		uint32_t to = l->message[i].to;

		x->in[x->first_in[to] + x->missing[to]++] = i;
	}
	r->left = (uint64_t)l->ranks * (WARM_UP + r->o.count);
	for (uint32_t h = 0; h < l->ranks; h++) {
		host_start(&r->hosts, h, l->ranks - 1, true);
		run_call_soon(r, SCENARIO_SPREAD, h, 0);
	}
}

static void end(struct run *r)
{
	struct exchange *x = r->state;

	free(x->announced);
	free(x->requested);
	free(x->arrived);
	free(x->complete);
	free(x->started);
	free(x->missing);
	free(x->began);
	free(x->in);
	free(x->first_in);
	messages_free(r->o.messages);
}

static void report(const struct run *r, FILE *out)
{
	const struct messages *l = r->o.messages;
	uint64_t most = 0, ideal = 0;
	uint32_t neighbours = 0;

	for (uint32_t h = 0; h < l->ranks; h++) {
		uint64_t bytes = 0, time = 0;

		for (uint32_t i = l->first[h]; i < l->first[h + 1]; i++) {
			bytes += l->message[i].bytes;
			time += run_ideal(r, 1, l->message[i].bytes, true);
		}
		most = HK_MAX(most, bytes);
		ideal = HK_MAX(ideal, time);
		neighbours = HK_MAX(neighbours, l->first[h + 1] - l->first[h]);
	}
	scenario_report_end(r, out, r->o.count * ideal);
	fprintf(out,
		"  \"exchange_us\": %.3f,\n  \"eager\": %u,\n  \"neighbours\": %u,\n"
		"  \"bytes\": %" PRIu64 ",\n",
		(double)(r->net.events.now - r->measured_from) / 1e6 / r->o.count, r->o.eager,
		neighbours, most);
}

static void defaults(struct sim_options *o)
{
	scenario_default_limits(o, o->messages->ranks, 1, 20, 100 * HK_SEC);
	o->flows = o->net.hosts;
	o->share_of = o->net.hosts;
}

const struct scenario scenario_exchange = {
	.name = "exchange",
	.min_hosts = 2,
	.defaults = defaults,
	.begin = begin,
	.call = call,
	.delivered = delivered,
	.completed = completed,
	.report = report,
	.end = end,
};

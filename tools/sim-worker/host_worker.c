/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-worker/host_worker.c: the hosts of tools/sim/host.h, each with a worker of src/worker.
 *
 * DESIGN NOTES
 *
 * tools/sim has an engine in each host, and a short model of what a worker does around it. Here the
 * worker itself does that: its pools, send queues, reorder queues, bundles and puts. The scenarios
 * and the network are the same. A host polls without a pause, which costs no virtual time.
 *
 * Each message begins with its number among those from its host to its receiver. Handlers check
 * that each arrives once, in order and with its length, and end the program otherwise.
 *
 * A put is delivered when its sender knows that it has arrived: workers have no other sign. A
 * message is complete when the engine has an acknowledgement of its last packet.
 */
#include "engine/internal.h"
#include "sim-worker/host_worker.h"
#include "sim-worker/port_sim.h"
#include "worker/internal.h"
#include "worker/private.h"
#include "worker/rx.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define AM          1 /* of every message */
#define EPOCH       1
#define REGION_SIZE ((size_t)1 << 30) /* the longest message */
#define IDLE_POLLS  (2 * HK_IDLE_CLOCK)

/* Each message begins with this. */
struct head {
	uint32_t msg;    /* its place in hosts.msg */
	uint32_t number; /* among those to this receiver */
};

/* Another host, as one sees it. */
struct other {
	hk_peer peer;               /* HK_PEER_NONE: nothing was sent to it */
	uint32_t next_out, next_in; /* numbers of the next message to it, and from it */
	uint32_t first, last;       /* messages to it that are not complete, by msg.next */
	uint32_t next;              /* host with such messages, in the list of all */
};

struct real {
	struct hk_worker *w;
	struct sim_nic *nic;
	struct other *other; /* by host */
	uint32_t incomplete; /* first of the hosts with messages that are not complete */
	bool again;          /* its turn must go on */
};

struct put {
	struct hk_op op;
	uint32_t msg;
};

static struct hosts *all;
static struct real *real;
static struct sim_nic *nics;
static struct hk_port port;
static char *memory; /* source and destination of all puts */
static hk_region region;

uint64_t sim_now_ns(void)
{
	return all->net->events.now / SIM_NS;
}

static _Noreturn void broken(const char *what, uint32_t from, uint32_t to)
{
	fprintf(stderr, "hikyaku-sim-worker: %s, from host %u to host %u\n", what, from, to);
	abort();
}

static void expect(int rc, const struct hk_error *err)
{
	if (rc < 0) {
		fprintf(stderr, "hikyaku-sim-worker: %s\n", err->text);
		exit(1);
	}
}

/* ---- delivery ------------------------------------------------------------------------------- */

static void complete(struct hosts *h, uint32_t m)
{
	h->msg[m].acked = h->msg[m].frames;
	msg_complete(h, m);
}

static void handler(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned n)
{
	uint32_t to = ((struct real *)arg)->nic->host;
	uint64_t len = 0;
	struct head head;

	(void)peer;
	(void)am;
	for (unsigned i = 0; i < n; i++)
		len += iov[i].len;
	if (iov[0].len < sizeof(head))
		broken("a message without a head", 0, to);
	memcpy(&head, iov[0].base, sizeof(head));
	if (head.msg >= all->msgs)
		broken("a message that nobody sent", 0, to);
	const struct msg *m = &all->msg[head.msg];
	struct other *o = &real[to].other[m->from];

	if (m->to != to || m->delivered || m->put)
		broken("a message twice, or at another host", m->from, to);
	if (head.number != o->next_in++)
		broken("messages out of order", m->from, to);
	if (len != m->bytes)
		broken("a message of another length", m->from, to);
	msg_deliver(all, head.msg);
}

static void put_done(void *arg, int status)
{
	struct put *p = arg;
	uint32_t m = p->msg;

	free(p);
	if (status != 0)
		return; /* `lost` has counted it */
	msg_deliver(all, m);
	complete(all, m);
}

static void lost(void *arg, hk_peer peer, enum hk_disconnect_reason why, const char *text)
{
	struct real *x = arg;

	(void)peer;
	(void)why;
	(void)text;
	all->host[x->nic->host].n.disconnects++;
}

/* Messages whose last packet is acknowledged are complete. */
static void find_complete(struct hosts *h, struct real *x)
{
	uint32_t *link = &x->incomplete;

	while (*link != MSG_NONE) {
		struct other *o = &x->other[*link];
		const struct hk_peer_rec *r = hk_rec(x->w->engine, o->peer);

		while (o->first != MSG_NONE) {
			struct msg *m = &h->msg[o->first];

			if (!m->arrived) {
				if (hk_worker_backlog(x->w, o->peer))
					break; /* some of it waits, or what was sent before it */
				m->arrived = 1;
				m->sent = r->tx_next;
			}
			if (hk_psn_before(r->tx_una, m->sent))
				break;
			uint32_t done = o->first;

			o->first = m->next;
			complete(h, done);
		}
		if (o->first == MSG_NONE)
			*link = o->next;
		else
			link = &o->next;
	}
}

/* ---- sending -------------------------------------------------------------------------------- */

static struct other *other(struct real *x, uint32_t to)
{
	struct other *o = &x->other[to];
	struct hk_error err;
	char name[32];

	if (o->peer != HK_PEER_NONE)
		return o;
	struct hk_peer_addr addr = {
		.endpoint = to, .epoch = EPOCH, .frame_max = port.info.frame_max, .name = name};

	snprintf(name, sizeof(name), "host %u", to);
	sim_mac(to, addr.mac);
	expect(hk_worker_peer_add(x->w, &addr, &o->peer, &err), &err);
	return o;
}

static void send_put(struct real *x, struct other *o, uint32_t m)
{
	struct put *p = sim_alloc(sizeof(*p));

	p->msg = m;
	if (hk_worker_put(x->w, o->peer, &p->op, memory, all->msg[m].bytes, region, 0, put_done,
			  p) != 0)
		free(p);
}

static void send_message(struct hosts *h, struct real *x, struct other *o, uint32_t m)
{
	uint32_t one = (uint32_t)hk_worker_frame_payload(x->w), left = h->msg[m].bytes, n = 0;
	struct head head = {m, o->next_out++};
	hk_buf *buf[HK_FRAGS_MAX];
	size_t len[HK_FRAGS_MAX];

	do {
		buf[n] = hk_worker_alloc(x->w);
		if (!buf[n])
			broken("no frame buffer, although some were free", x->nic->host, 0);
		len[n] = HK_MIN(one, left);
		left -= (uint32_t)len[n++];
	} while (left);
	memcpy(hk_buf_data(buf[0]), &head, sizeof(head));
	h->msg[m].next = MSG_NONE;
	h->msg[m].arrived = 0;
	if (o->first == MSG_NONE) {
		o->first = m;
		o->next = x->incomplete;
		x->incomplete = h->msg[m].to;
	} else {
		h->msg[o->last].next = m;
	}
	o->last = m;
	(void)hk_worker_sendv(x->w, o->peer, AM, buf, len, n);
}

/* Sends what waits, while there are frame buffers. */
static void send_waiting(struct hosts *h, struct host *x, struct real *y)
{
	while (x->waiting != MSG_NONE) {
		uint32_t m = x->waiting;

		if (!h->msg[m].put && hk_worker_tx_low(y->w))
			return;
		x->waiting = h->msg[m].next;
		if (h->msg[m].put)
			send_put(y, other(y, h->msg[m].to), m);
		else
			send_message(h, y, other(y, h->msg[m].to), m);
	}
}

/* ---- turns ---------------------------------------------------------------------------------- */

/* Polls until there is nothing to do, and notes when something is due again. */
static void turn(struct hosts *h, struct host *x)
{
	struct real *y = &real[x->id];

	y->again = true;
	if (x->busy)
		return;
	x->busy = true;
	y->w->polled_at = sim_now_ns(); /* it has polled all the time */
	do {
		y->again = false;
		send_waiting(h, x, y);
		for (unsigned idle = 0; idle < IDLE_POLLS;)
			idle = hk_worker_progress(y->w) ? 0 : idle + 1;
		find_complete(h, y);
	} while (y->again || (x->waiting != MSG_NONE && !hk_worker_tx_low(y->w)));
	x->busy = false;
	x->n.rx_held_max = HK_MAX(x->n.rx_held_max, rte_mempool_in_use_count(y->nic->pool));
	x->n.reordered = hk_worker_counters(y->w)->reordered;

	host_note_deadline(h, x);
}

void host_wake(struct hosts *h, uint32_t id)
{
	if (host_woken(h, &h->host[id]))
		turn(h, &h->host[id]);
}

void host_taken(struct hosts *h, uint32_t id, uint32_t first)
{
	(void)h;
	(void)id;
	(void)first; /* no application holds a message here */
}

static void arrived(void *arg, uint32_t host, uint32_t frame)
{
	struct hosts *h = arg;
	struct host *x = &h->host[host];

	if (!x->silent && !sim_nic_arrive(&nics[host], frame))
		x->n.rx_no_buffer++;
	frame_free(&h->net->frames, frame);
	if (!x->silent)
		turn(h, x);
}

static void nic_sent(void *arg, uint32_t host)
{
	struct hosts *h = arg;

	if (!nics[host].full)
		return;
	nics[host].full = false;
	turn(h, &h->host[host]);
}

void host_send(struct hosts *h, uint32_t from, uint32_t to, uint32_t bytes, bool put, uint32_t tag)
{
	struct host *x = &h->host[from];
	uint32_t m = msg_new(h);
	size_t longest = HK_FRAGS_MAX * hk_worker_frame_payload(real[from].w);

	if (!put && bytes < sizeof(struct head))
		bytes = sizeof(struct head);
	h->msg[m] = (struct msg){.next = MSG_NONE,
				 .from = from,
				 .to = to,
				 .bytes = bytes,
				 .tag = tag,
				 .frames = 1,
				 .began = h->net->events.now,
				 .put = put || bytes > longest};
	msg_wait(h, x, m);
	turn(h, x);
}

const struct hk_engine_counters *host_counters(const struct hosts *h, uint32_t id)
{
	return hk_engine_counters(h->host[id].engine);
}

/* ---- life ----------------------------------------------------------------------------------- */

unsigned sim_worker_memory_mb(const struct host_config *c, uint32_t hosts)
{
	/* and what each memory zone takes beside its pool */
	uint64_t each = hk_pool_bytes(c->pool, c->mtu + HK_ETH_HLEN) +
			hk_worker_tx_pool_bytes(c->tx_buffers, c->mtu + HK_ETH_HLEN) + (4u << 20);

	return (unsigned)(hosts * each / 4 * 5 >> 20) + 128;
}

void hosts_init(struct hosts *h, const struct host_config *c, struct net *net, uint32_t count)
{
	hosts_new(h, c, net, count);
	net->arrived = arrived;
	net->sent = nic_sent;
	net->arg = h;
	all = h;
	real = sim_alloc(count * sizeof(*real));
	nics = sim_alloc(count * sizeof(*nics));
	memory = mmap(NULL, REGION_SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		sim_no_memory();
	sim_port_open(&port, nics, count, (uint16_t)(c->mtu + HK_ETH_HLEN));
}

void host_start(struct hosts *h, uint32_t id, uint32_t peers, bool receives)
{
	struct host *x = &h->host[id];
	struct real *y = &real[id];
	struct hk_worker_config c;
	struct hk_error err;
	char name[32];

	(void)receives;
	host_new(x, id);
	hk_worker_config_default(&c);
	c.engine = h->c.engine;
	c.engine.endpoint = id;
	c.engine.epoch = EPOCH;
	c.engine.max_peers = HK_MAX(peers, 1u);
	c.rx_backlog = h->c.engine.rx_budget;
	c.tx_buffers = h->c.tx_buffers;
	c.frame_max = port.info.frame_max;
	c.lost = lost;
	c.lost_arg = y;
	*y = (struct real){.nic = &nics[id],
			   .incomplete = MSG_NONE,
			   .other = sim_alloc(h->count * sizeof(*y->other))};
	for (uint32_t i = 0; i < h->count; i++)
		y->other[i] = (struct other){
			.peer = HK_PEER_NONE, .first = MSG_NONE, .next = MSG_NONE};
	snprintf(name, sizeof(name), "host_%u", id);
	expect(hk_pool_create(name, h->c.pool, port.info.frame_max, &y->nic->pool, &err), &err);
	y->nic->hosts = h;
	y->nic->host = id;
	expect(hk_worker_open(&c, &y->w, &err), &err);
	expect(hk_worker_add_queue(y->w, &port, (uint16_t)id, &err), &err);
	hk_worker_set_am(y->w, AM, handler, y);
	x->engine = y->w->engine;
	hk_region mine = hk_worker_region_add(y->w, memory, REGION_SIZE, HK_REGION_WRITE,
					      HK_PEER_NONE);

	if (mine == HK_REGION_NONE || (region && region != mine))
		broken("regions have different ids", id, id);
	region = mine;
}

/* The workers stay until the program ends: closing one takes time, and its clock stands still. */
void hosts_free(struct hosts *h)
{
	free(h->host);
	free(h->msg);
}

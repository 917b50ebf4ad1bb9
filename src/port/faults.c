/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/faults.c: fault injection between hk_port_tx() and the driver.
 *
 * DESIGN NOTES
 *
 * Problem: lose, duplicate, reorder, corrupt and delay frames so that a test run can be repeated.
 *
 * Approach: each accepted frame draws exactly FATE_DRAWS numbers from a seeded generator. Its fate
 * depends only on the seed and on the number of frames before it, never on time or on the driver.
 *
 * Invariants:
 *  - A frame is accepted only while the outgoing queue has space for everything that it may
 *    become. That is itself, its duplicate, and a frame that it overtakes. Then it is dropped,
 *    queued, held until the next frame has passed (reorder), or held for its delay. The driver
 *    takes frames from the queue.
 *  - Each accepted frame is counted once: frames = dropped + (delivered - duplicated) + pending.
 *  - A frame whose bytes change, that leaves twice or that leaves later is a private copy; the
 *    original is freed at once. The reason: the sender may have a reference to the original and
 *    resend it. A delayed original would look as if the device still had it, and would change when
 *    the sender writes a new header.
 */
#include "port/internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <rte_lcore.h>
#include <rte_memzone.h>

#define OUT_LEN    512  /* limit of frames that wait for the driver */
#define DELAY_LEN  1024 /* limit of delayed frames; further ones are not delayed */
#define OUT_SPARE  3    /* frames that one can become: itself, its duplicate, an overtaken one */
#define FATE_DRAWS 6

struct delayed {
	struct rte_mbuf *m;
	uint64_t due; /* ns */
};

struct hk_faults {
	struct hk_faults_config cfg;
	struct hk_faults_counters sum; /* result of hk_faults_counters() */
	/* Thresholds on a 64-bit draw; the probability 1 is UINT64_MAX. */
	uint64_t drop, dup, reorder, corrupt, delay;
	bool needs_clock; /* frames may wait: read the clock, which is expensive for each frame */
	uint16_t queues;
	struct fault_queue { /* state of one queue; threads of different queues share nothing */
		uint64_t rng;
		struct hk_faults_counters count;
		struct rte_mbuf *out[OUT_LEN]; /* ring of out_count frames from out_head */
		unsigned out_head, out_count;
		struct delayed wait[DELAY_LEN]; /* ring; due times never decrease */
		unsigned wait_head, wait_count;
		struct rte_mbuf *swap; /* frame that leaves after the next one; NULL: none */
		uint64_t swap_due;     /* time when it leaves at the latest, ns */
		bool overtaken;        /* the last frame was reordered, so the next is not */
	} queue[];
};

/* ---- chance ---------------------------------------------------------------------------------- */

/* splitmix64 (Steele, Lea, Flood 2014): a Weyl sequence through a mixing function. */
static uint64_t draw(struct fault_queue *fq)
{
	uint64_t z = fq->rng += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint64_t threshold(double p)
{
	return p >= 1 ? UINT64_MAX : (uint64_t)(p * 0x1p64);
}

static bool drawn_below(uint64_t drawn, uint64_t limit)
{
	return drawn < limit || limit == UINT64_MAX;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static struct rte_mbuf *private_copy(struct hk_port *port, struct rte_mbuf *m)
{
	return rte_pktmbuf_copy(m, port->pool ? port->pool : m->pool, 0, UINT32_MAX);
}

static void out_push(struct fault_queue *fq, struct rte_mbuf *m)
{
	fq->out[(fq->out_head + fq->out_count++) % OUT_LEN] = m;
}

static void release_due(struct fault_queue *fq, uint64_t now)
{
	while (fq->wait_count && fq->out_count < OUT_LEN - OUT_SPARE &&
	       fq->wait[fq->wait_head].due <= now) {
		out_push(fq, fq->wait[fq->wait_head].m);
		fq->wait_head = (fq->wait_head + 1) % DELAY_LEN;
		fq->wait_count--;
	}
	if (fq->swap && fq->swap_due <= now && fq->out_count < OUT_LEN) {
		out_push(fq, fq->swap);
		fq->swap = NULL;
	}
}

static void drain(struct hk_port *port, struct fault_queue *fq, uint16_t queue)
{
	while (fq->out_count) {
		unsigned run = HK_MIN(fq->out_count, OUT_LEN - fq->out_head);
		uint16_t sent = rte_eth_tx_burst(port->id, queue, &fq->out[fq->out_head],
						 (uint16_t)run);
		fq->out_head = (fq->out_head + sent) % OUT_LEN;
		fq->out_count -= sent;
		if (sent < run)
			return;
	}
	fq->out_head = 0; /* the first cache line of the ring is likely in the cache */
}

/* Flips one bit of a private copy. */
static void flip_bit(struct rte_mbuf *m, uint64_t drawn)
{
	uint8_t *bytes = rte_pktmbuf_mtod(m, uint8_t *);
	uint32_t bits = (uint32_t)m->data_len * 8;
	if (bits)
		bytes[drawn % bits / 8] ^= (uint8_t)(1u << (drawn % 8));
}

/* Accepts @m, draws its fate and applies it. It never fails: if there is no buffer for a copy, it
 * drops the frame, as a device without buffers would. */
static void accept_frame(struct hk_port *port, struct fault_queue *fq, struct rte_mbuf *m,
			 uint64_t now)
{
	const struct hk_faults *f = port->faults;
	uint64_t d[FATE_DRAWS];
	for (int i = 0; i < FATE_DRAWS; i++)
		d[i] = draw(fq);
	fq->count.frames++;

	bool drop = drawn_below(d[0], f->drop), dup = drawn_below(d[1], f->dup);
	bool corrupt = drawn_below(d[2], f->corrupt), delay = drawn_below(d[3], f->delay);
	bool reorder = drawn_below(d[4], f->reorder) && !drop && !delay && !fq->overtaken;
	struct rte_mbuf *duplicate = NULL;

	fq->overtaken = reorder;
	if (drop)
		goto dropped;
	delay = delay && fq->wait_count < DELAY_LEN;
	if (dup) {
		duplicate = private_copy(port, m);
		dup = duplicate != NULL;
	}
	if (corrupt || delay || reorder) {
		struct rte_mbuf *mine = private_copy(port, m);
		if (!mine) {
			rte_pktmbuf_free(duplicate);
			goto dropped;
		}
		rte_pktmbuf_free(m);
		m = mine;
	}
	if (corrupt)
		flip_bit(m, d[5]);
	fq->count.corrupted += corrupt;
	fq->count.duplicated += dup;
	fq->count.delayed += delay;
	fq->count.reordered += reorder;

	if (delay) {
		fq->wait[(fq->wait_head + fq->wait_count++) % DELAY_LEN] = (struct delayed){
			m, now + f->cfg.delay_us * HK_USEC};
	} else if (reorder) {
		if (fq->swap) /* no frame has passed it, because copies failed since */
			out_push(fq, fq->swap);
		fq->swap = m;
		fq->swap_due = now + f->cfg.delay_us * HK_USEC;
	} else {
		out_push(fq, m);
		if (fq->swap) {
			out_push(fq, fq->swap);
			fq->swap = NULL;
		}
	}
	if (duplicate)
		out_push(fq, duplicate);
	return;
dropped:
	fq->count.dropped++;
	rte_pktmbuf_free(m);
}

/* ---- rx and tx ------------------------------------------------------------------------------- */

static bool is_stuck(const struct hk_faults *f, const struct fault_queue *fq)
{
	return f->cfg.stuck && fq->count.frames >= f->cfg.stuck;
}

uint16_t hk_faults_tx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	struct fault_queue *fq = &port->faults->queue[queue];
	uint64_t now = port->faults->needs_clock ? hk_clock_ns() : 0;
	uint16_t taken = 0;

	release_due(fq, now);
	drain(port, fq, queue);
	while (taken < n && fq->out_count + OUT_SPARE <= OUT_LEN && !is_stuck(port->faults, fq))
		accept_frame(port, fq, m[taken++], now);
	drain(port, fq, queue);
	return taken;
}

uint16_t hk_faults_rx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	struct fault_queue *fq = &port->faults->queue[queue];
	if (fq->wait_count || fq->swap)
		release_due(fq, hk_clock_ns());
	if (fq->out_count)
		drain(port, fq, queue);
	return rte_eth_rx_burst(port->id, queue, m, n);
}

unsigned hk_faults_pending(const struct hk_port *port)
{
	unsigned held = 0;
	for (uint16_t q = 0; port->faults && q < port->faults->queues; q++) {
		const struct fault_queue *fq = &port->faults->queue[q];
		held += fq->out_count + fq->wait_count + (fq->swap != NULL);
	}
	return held;
}

const struct hk_faults_counters *hk_faults_counters(const struct hk_port *port)
{
	struct hk_faults *f = port->faults;
	if (!f)
		return NULL;
	f->sum = (struct hk_faults_counters){0};
	for (uint16_t q = 0; q < f->queues; q++) {
		const struct hk_faults_counters *c = &f->queue[q].count;
		f->sum.frames += c->frames;
		f->sum.dropped += c->dropped;
		f->sum.duplicated += c->duplicated;
		f->sum.reordered += c->reordered;
		f->sum.corrupted += c->corrupted;
		f->sum.delayed += c->delayed;
	}
	return &f->sum;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static int parse_probability(const char *key, const char *value, double *out, struct hk_error *err)
{
	char *end;
	double p = strtod(value, &end);
	if (end == value || *end || !isfinite(p) || p < 0 || p > 1)
		return hk_error_set(err, -EINVAL,
				    "faults: %s=%s is not a probability; fix: give a number from "
				    "0 to 1",
				    key, value);
	*out = p;
	return 0;
}

int hk_faults_parse(const char *text, struct hk_faults_config *cfg, struct hk_error *err)
{
	char copy[256], *save = NULL;
	*cfg = (struct hk_faults_config){.delay_us = 200};
	if (strlen(text) >= sizeof(copy))
		return hk_error_set(err, -EINVAL,
				    "faults: longer than %zu characters; fix: "
				    "shorten it",
				    sizeof(copy) - 1);
	strcpy(copy, text);

	const struct {
		const char *name;
		double *p;
	} keys[] = {{"drop", &cfg->drop},
		    {"dup", &cfg->dup},
		    {"reorder", &cfg->reorder},
		    {"corrupt", &cfg->corrupt},
		    {"delay", &cfg->delay}};

	for (char *pair = strtok_r(copy, ",", &save); pair; pair = strtok_r(NULL, ",", &save)) {
		char *value = strchr(pair, '=');
		if (value)
			*value++ = '\0';
		size_t i = 0;
		while (i < HK_ARRAY_LEN(keys) && strcmp(keys[i].name, pair) != 0)
			i++;
		uint64_t v = 0;
		int rc = -EINVAL;
		if (value && i < HK_ARRAY_LEN(keys)) {
			rc = parse_probability(pair, value, keys[i].p, err);
		} else if (value && strcmp(pair, "delay_us") == 0) {
			rc = hk_spec_number("delay_us", value, 1, 10 * 1000 * 1000, &v, err);
			cfg->delay_us = (uint32_t)v;
		} else if (value && strcmp(pair, "stuck") == 0) {
			rc = hk_spec_number("stuck", value, 1, UINT64_MAX, &cfg->stuck, err);
		} else if (value && strcmp(pair, "seed") == 0) {
			rc = hk_spec_number("seed", value, 0, UINT64_MAX, &cfg->seed, err);
		} else {
			hk_error_set(err, -EINVAL,
				     "faults: \"%s\" is not understood; fix: use drop=, dup=, "
				     "reorder=, corrupt=, delay= (0 to 1 each), delay_us=, stuck=, "
				     "seed=",
				     pair);
		}
		if (rc)
			return rc;
	}
	return 0;
}

/* In a secondary the state lies in the shared memory, because another process (hikyakud's poller)
 * may use the process's queues. A process that is killed cannot give its zone back. So later
 * processes of the same logical core use it again. */
static struct hk_faults *state_new(const struct hk_port *port, size_t bytes)
{
	char name[RTE_MEMZONE_NAMESIZE];

	if (hk_eal_role() != HK_EAL_SECONDARY)
		return calloc(1, bytes);
	snprintf(name, sizeof(name), "hk_faults_%u_%u", port->id, rte_get_main_lcore());
	const struct rte_memzone *mz = rte_memzone_lookup(name);

	if (!mz)
		mz = rte_memzone_reserve(name, bytes, SOCKET_ID_ANY, 0);
	if (!mz || mz->len < bytes)
		return NULL;
	memset(mz->addr, 0, bytes);
	return mz->addr;
}

static void state_free(struct hk_faults *f)
{
	if (hk_eal_role() != HK_EAL_SECONDARY)
		free(f);
}

int hk_faults_attach(struct hk_port *port, const struct hk_faults_config *cfg, struct hk_error *err)
{
	uint16_t queues = port->info.queues;

	hk_faults_detach(port);
	struct hk_faults *f = state_new(port, sizeof(*f) + queues * sizeof(f->queue[0]));
	if (!f)
		return hk_error_set(err, -ENOMEM,
				    "port %s: no memory for faults of %u queues; fix: give DPDK "
				    "more memory",
				    port->info.spec, queues);
	f->cfg = *cfg;
	f->queues = queues;
	for (uint16_t q = 0; q < queues; q++)
		f->queue[q].rng = cfg->seed + q;
	f->drop = threshold(cfg->drop);
	f->dup = threshold(cfg->dup);
	f->reorder = threshold(cfg->reorder);
	f->corrupt = threshold(cfg->corrupt);
	f->delay = threshold(cfg->delay);
	f->needs_clock = f->delay || f->reorder;
	port->faults = f;
	port->wrapped = true;
	return 0;
}

void hk_faults_detach(struct hk_port *port)
{
	struct hk_faults *f = port->faults;
	if (!f)
		return;
	for (uint16_t q = 0; q < f->queues; q++) {
		struct fault_queue *fq = &f->queue[q];
		while (fq->out_count) {
			rte_pktmbuf_free(fq->out[fq->out_head]);
			fq->out_head = (fq->out_head + 1) % OUT_LEN;
			fq->out_count--;
		}
		while (fq->wait_count) {
			rte_pktmbuf_free(fq->wait[fq->wait_head].m);
			fq->wait_head = (fq->wait_head + 1) % DELAY_LEN;
			fq->wait_count--;
		}
		rte_pktmbuf_free(fq->swap);
	}
	port->faults = NULL;
	port->wrapped = port->info.priority != 0;
	state_free(f);
}

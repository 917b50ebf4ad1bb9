/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/faults.c: a bad network, on demand and repeatable.
 *
 * The wrapper sits between hk_port_tx() and the driver. The fate of a frame depends only on the
 * seed and on how many frames were sent before it, never on time or on what the driver accepts:
 * each frame draws exactly FATE_DRAWS numbers, once, when the wrapper accepts it. So a run is
 * repeated by its seed.
 *
 * A frame is *accepted* as long as the outgoing queue has room for all that it may become (itself,
 * its twin, and a frame that it lets go). From there on it is the wrapper's: dropped, or queued, or
 * held until the next frame has passed (reorder), or held until its time has come (delay). The
 * queue then drains into the driver as the driver takes it. Every accepted frame is accounted for
 * once: frames = dropped + (delivered - duplicated) + still held.
 *
 * The sender may keep a reference to what it sent, in order to send it again. Hence a frame whose
 * bytes change, that leaves twice or that leaves later is a private copy; the original is returned
 * at once. (A delayed original would make the sender believe that the device still holds it, and
 * would change under way when the sender writes a new header for a resend.)
 */
#include "port/internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OUT_LEN    512  /* frames that wait for the driver */
#define DELAY_LEN  1024 /* frames that wait for their time; a fuller line delays nothing more */
#define OUT_SPARE  3    /* what one frame can become: itself, its twin, the frame it overtook */
#define FATE_DRAWS 6

struct delayed {
	struct rte_mbuf *m;
	uint64_t due; /* ns */
};

struct hk_faults {
	struct hk_faults_config cfg;
	struct hk_faults_counters sum; /* filled when asked for */
	/* thresholds on a 64-bit draw; the probability 1 is UINT64_MAX */
	uint64_t drop, dup, reorder, corrupt, delay;
	bool holds; /* frames wait for a time: a system's clock is dear beside a frame */
	uint16_t queues;
	struct lane { /* one for each queue, so that a queue's thread shares nothing */
		uint64_t rng;
		struct hk_faults_counters count;
		struct rte_mbuf *out[OUT_LEN]; /* a ring: out_head … out_head + out_count */
		unsigned out_head, out_count;
		struct delayed wait[DELAY_LEN]; /* a ring too; due times never decrease */
		unsigned wait_head, wait_count;
		struct rte_mbuf *swap; /* leaves after the next frame */
		uint64_t swap_due;     /* … or then, if no other frame comes */
		bool overtaken;        /* the last frame was such a one, so this one is not */
	} lane[];
};

/* ---- chance ---------------------------------------------------------------------------------- */

/* splitmix64 (Steele, Lea, Flood 2014): a Weyl sequence through a mixing function. */
static uint64_t draw(struct lane *l)
{
	uint64_t z = l->rng += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint64_t threshold(double p)
{
	return p >= 1 ? UINT64_MAX : (uint64_t)(p * 0x1p64);
}

static bool hit(uint64_t drawn, uint64_t limit)
{
	return drawn < limit || limit == UINT64_MAX;
}

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * HK_SEC + (uint64_t)ts.tv_nsec;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static struct rte_mbuf *private_copy(struct hk_port *port, struct rte_mbuf *m)
{
	return rte_pktmbuf_copy(m, port->pool ? port->pool : m->pool, 0, UINT32_MAX);
}

static void out_push(struct lane *l, struct rte_mbuf *m)
{
	l->out[(l->out_head + l->out_count++) % OUT_LEN] = m;
}

static void release_due(struct lane *l, uint64_t now)
{
	while (l->wait_count && l->out_count < OUT_LEN - OUT_SPARE &&
	       l->wait[l->wait_head].due <= now) {
		out_push(l, l->wait[l->wait_head].m);
		l->wait_head = (l->wait_head + 1) % DELAY_LEN;
		l->wait_count--;
	}
	if (l->swap && l->swap_due <= now && l->out_count < OUT_LEN) {
		out_push(l, l->swap);
		l->swap = NULL;
	}
}

static void drain(struct hk_port *port, struct lane *l, uint16_t queue)
{
	while (l->out_count) {
		unsigned run = HK_MIN(l->out_count, OUT_LEN - l->out_head);
		uint16_t sent = rte_eth_tx_burst(port->id, queue, &l->out[l->out_head],
						 (uint16_t)run);
		l->out_head = (l->out_head + sent) % OUT_LEN;
		l->out_count -= sent;
		if (sent < run)
			return;
	}
	l->out_head = 0; /* the next frame finds the ring's first line in the cache */
}

/* Flips one bit of a copy that nobody else sees. */
static void flip(struct rte_mbuf *m, uint64_t drawn)
{
	uint8_t *bytes = rte_pktmbuf_mtod(m, uint8_t *);
	uint32_t bits = (uint32_t)m->data_len * 8;
	if (bits)
		bytes[drawn % bits / 8] ^= (uint8_t)(1u << (drawn % 8));
}

/* Takes @m and lets it meet its fate. Never fails: a frame that cannot be copied for want of
 * buffers is dropped, as a device without buffers would. */
static void take(struct hk_port *port, struct lane *l, struct rte_mbuf *m, uint64_t now)
{
	const struct hk_faults *f = port->faults;
	uint64_t d[FATE_DRAWS];
	for (int i = 0; i < FATE_DRAWS; i++)
		d[i] = draw(l);
	l->count.frames++;

	bool drop = hit(d[0], f->drop), dup = hit(d[1], f->dup);
	bool corrupt = hit(d[2], f->corrupt), delay = hit(d[3], f->delay);
	bool reorder = hit(d[4], f->reorder) && !drop && !delay && !l->overtaken;
	struct rte_mbuf *twin = NULL;

	l->overtaken = reorder;
	if (drop)
		goto dropped;
	delay = delay && l->wait_count < DELAY_LEN;
	if (dup) {
		twin = private_copy(port, m);
		dup = twin != NULL;
	}
	if (corrupt || delay || reorder) {
		struct rte_mbuf *mine = private_copy(port, m);
		if (!mine) {
			rte_pktmbuf_free(twin);
			goto dropped;
		}
		rte_pktmbuf_free(m);
		m = mine;
	}
	if (corrupt)
		flip(m, d[5]);
	l->count.corrupted += corrupt;
	l->count.duplicated += dup;
	l->count.delayed += delay;
	l->count.reordered += reorder;

	if (delay) {
		l->wait[(l->wait_head + l->wait_count++) % DELAY_LEN] = (struct delayed){
			m, now + f->cfg.delay_us * HK_USEC};
	} else if (reorder) {
		if (l->swap) /* only copies failed since: nothing has passed it */
			out_push(l, l->swap);
		l->swap = m;
		l->swap_due = now + f->cfg.delay_us * HK_USEC;
	} else {
		out_push(l, m);
		if (l->swap) {
			out_push(l, l->swap);
			l->swap = NULL;
		}
	}
	if (twin)
		out_push(l, twin);
	return;
dropped:
	l->count.dropped++;
	rte_pktmbuf_free(m);
}

/* ---- the faulty halves ----------------------------------------------------------------------- */

static bool is_stuck(const struct hk_faults *f, const struct lane *l)
{
	return f->cfg.stuck && l->count.frames >= f->cfg.stuck;
}

uint16_t hk_faults_tx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	struct lane *l = &port->faults->lane[queue];
	uint64_t now = port->faults->holds ? now_ns() : 0;
	uint16_t taken = 0;

	release_due(l, now);
	drain(port, l, queue);
	while (taken < n && l->out_count + OUT_SPARE <= OUT_LEN && !is_stuck(port->faults, l))
		take(port, l, m[taken++], now);
	drain(port, l, queue);
	return taken;
}

uint16_t hk_faults_rx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	struct lane *l = &port->faults->lane[queue];
	if (l->wait_count || l->swap)
		release_due(l, now_ns());
	if (l->out_count)
		drain(port, l, queue);
	return rte_eth_rx_burst(port->id, queue, m, n);
}

unsigned hk_faults_held(const struct hk_port *port)
{
	unsigned held = 0;
	for (uint16_t q = 0; port->faults && q < port->faults->queues; q++) {
		const struct lane *l = &port->faults->lane[q];
		held += l->out_count + l->wait_count + (l->swap != NULL);
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
		const struct hk_faults_counters *c = &f->lane[q].count;
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

int hk_faults_attach(struct hk_port *port, const struct hk_faults_config *cfg, struct hk_error *err)
{
	uint16_t queues = port->info.queues;
	struct hk_faults *f = calloc(1, sizeof(*f) + queues * sizeof(f->lane[0]));
	if (!f)
		return hk_error_set(err, -ENOMEM, "no memory for faults on port %s",
				    port->info.spec);
	f->cfg = *cfg;
	f->queues = queues;
	for (uint16_t q = 0; q < queues; q++)
		f->lane[q].rng = cfg->seed + q;
	f->drop = threshold(cfg->drop);
	f->dup = threshold(cfg->dup);
	f->reorder = threshold(cfg->reorder);
	f->corrupt = threshold(cfg->corrupt);
	f->delay = threshold(cfg->delay);
	f->holds = f->delay || f->reorder;
	hk_faults_detach(port);
	port->faults = f;
	port->detour = true;
	return 0;
}

void hk_faults_detach(struct hk_port *port)
{
	struct hk_faults *f = port->faults;
	if (!f)
		return;
	for (uint16_t q = 0; q < f->queues; q++) {
		struct lane *l = &f->lane[q];
		while (l->out_count) {
			rte_pktmbuf_free(l->out[l->out_head]);
			l->out_head = (l->out_head + 1) % OUT_LEN;
			l->out_count--;
		}
		while (l->wait_count) {
			rte_pktmbuf_free(l->wait[l->wait_head].m);
			l->wait_head = (l->wait_head + 1) % DELAY_LEN;
			l->wait_count--;
		}
		rte_pktmbuf_free(l->swap);
	}
	port->faults = NULL;
	port->detour = false;
	free(f);
}

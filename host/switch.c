/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/switch.c: the loop between ports and pipes. What it is for, and whom it trusts, stands in switch.h.
 */
#include "host/switch.h"
#include "host/pace.h"
#include "port/bell.h"
#include "wire/wire.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_launch.h>

#define BURST      32
#define SHADOWS    1024    /* mbufs that stand for ranks' frames while a driver copies them */
#define SPIN_US    100     /* after the last frame; then it sleeps */
#define SLEEP_NS   50000   /* … if some port cannot wake it; else until it is rung for, or for */
#define BEAT_NS    5000000 /* … so long, should nobody have rung */
#define VAIN       64      /* woken so often in a row for nothing it is slower to wake, … */
#define VAIN_OURS  16      /* … where a ring for it counts as so many of those that it hands on */
#define FRESH_US   50 /* after a frame to a wire, its other end looks by itself: less than SPIN_US */
#define WATCH_US   40 /* a rank that takes nothing for so long, or twice that, has left MPI */
#define CROWDED_US 15 /* … sooner where it has the core as soon as we sleep, and others compute */
#define DRAIN_EACH                                                                                 \
	64 /* looks at them between those at the bells, where nobody else is rung for by them */
#define LOOK_EACH 64 /* rounds between looks at commands and freed buffers */

enum command_kind { CMD_WIRE, CMD_SLOT_ADD, CMD_SLOT_REMOVE, CMD_STOP };

struct command {
	enum command_kind kind;
	unsigned index;
	const struct hk_switch_wire *wire;
	const struct hk_switch_slot *slot;
	struct hk_error *err;
	int rc;
	sem_t done;
};

struct slot {
	bool used, old; /* old: its rank is gone, and another has its address */
	struct hk_switch_slot s;
	struct hk_pipe_share *share;
	struct hk_pipe_end *end[HK_SWITCH_WIRES];
};

struct hk_switch {
	unsigned lcore;
	struct hk_switch_wire wire[HK_SWITCH_WIRES]; /* port NULL: none */
	unsigned wires;                              /* above the last one */
	struct slot slot[HK_CTL_MAX_SLOTS];
	unsigned slots; /* above the last one */
	unsigned last;  /* whose the last frame was: mostly the next one's too */
	struct rte_mempool *shadows;
	_Atomic(struct command *) command;
	_Atomic clockid_t cpu; /* of its thread; 0: that has not run yet */
	struct hk_patience patience;
	struct hk_last_words log;
	_Atomic bool bad[HK_CTL_MAX_SLOTS];
	bool stop;
	unsigned turns;
	/* sleeping: times are the TSC's */
	uint64_t now, busy_at, tx_at[HK_SWITCH_WIRES];
	uint64_t spin, fresh, watch, watch_crowded;
	int wait_fd[HK_SWITCH_WIRES]; /* of ports that are sockets */
	bool wakes
		[HK_SWITCH_WIRES]; /* what comes on this wire wakes us, by a ring or by the kernel */
	int bell;
	bool lies;  /* it is rung for */
	bool brief; /* its slice is */
	struct hk_pace pace;
	unsigned vain;
	/* a bit for each slot that was given frames: since watched_at, and in the period before */
	uint64_t given, given_before, watched_at;
	unsigned watches;
	bool hands_on; /* some wires have pairs that are not ours: who uses those is rung for by us */
	/* written by the thread, read by others */
	_Atomic uint64_t rx_frames, tx_frames, steered, misled, stray, tx_lost, rx_lost, sleeps,
		rung, rings;
	struct {
		_Atomic uint64_t rx_full, rx_share, tx_lost;
	} drops[HK_CTL_MAX_SLOTS];
};
_Static_assert(HK_CTL_MAX_SLOTS <= 64, "a bit for each slot");

static void count(_Atomic uint64_t *n, uint64_t more)
{
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + more,
			      memory_order_relaxed);
}

/* ---- from the ports -------------------------------------------------------------------------- */

/* The slot that the frame is for, or HK_CTL_MAX_SLOTS. Nothing but the address is looked at: the rest is
 * the rank's to check. */
static unsigned slot_of(struct hk_switch *sw, const struct rte_mbuf *m)
{
	uint32_t key, endpoint;

	if (!hk_wire_address(rte_pktmbuf_mtod(m, const void *), m->data_len, &key, &endpoint))
		return HK_CTL_MAX_SLOTS;
	for (unsigned i = 0, s = sw->last; i < sw->slots; i++, s = s + 1 < sw->slots ? s + 1 : 0) {
		const struct slot *slot = &sw->slot[s];

		if (slot->used && !slot->old && slot->s.endpoint == endpoint &&
		    slot->s.job_key == key) {
			sw->last = s;
			return s;
		}
	}
	return HK_CTL_MAX_SLOTS;
}

static void give(struct hk_switch *sw, unsigned slot, unsigned wire, struct rte_mbuf **m,
		 unsigned n)
{
	struct hk_pipe_end *end = slot < HK_CTL_MAX_SLOTS ? sw->slot[slot].end[wire] : NULL;

	if (!end || atomic_load_explicit(&sw->bad[slot], memory_order_relaxed)) {
		for (unsigned i = 0; i < n; i++)
			rte_pktmbuf_free_seg(m[i]);
		count(&sw->stray, n);
		return;
	}
	const struct hk_pipe_counters *c = hk_pipe_counters(end);
	uint64_t full = c->rx_full, share = c->rx_share;

	sw->given |= UINT64_C(1) << slot;
	if (hk_pipe_give(end, m, n) != 0)
		atomic_store_explicit(&sw->bad[slot], true, memory_order_relaxed);
	full = c->rx_full - full;
	share = c->rx_share - share;
	if (HK_UNLIKELY(full + share)) {
		count(&sw->drops[slot].rx_full, full);
		count(&sw->drops[slot].rx_share, share);
		count(&sw->rx_lost, full + share);
	}
}

/* Rules lead a slot's frames to queue slot + 1 (host/steering.h). But anybody can send what a rule takes: whose a
 * frame is stands in the frame, and the queue only says where to look first. */
static unsigned from_port(struct hk_switch *sw, unsigned wire, unsigned queue)
{
	struct rte_mbuf *m[BURST];
	struct hk_port *port = sw->wire[wire].port;
	bool steered = queue && port->info.steered;
	unsigned got = hk_port_rx(port, (uint16_t)queue, m, BURST);
	unsigned n = 0, first = 0, of = 0, right = 0;

	if (steered && queue <= sw->slots)
		sw->last = queue - 1;
	for (unsigned i = 0; i < got; i++) {
		if (m[i]->nb_segs == 1) {
			m[n++] = m[i];
		} else { /* longer than any frame of ours */
			rte_pktmbuf_free(m[i]);
			count(&sw->stray, 1);
		}
	}
	for (unsigned i = 0; i < n; i++) {
		unsigned slot = slot_of(sw, m[i]);

		right += slot + 1 == queue;
		if (i > first && slot != of) {
			give(sw, of, wire, m + first, i - first);
			first = i;
		}
		of = slot;
	}
	if (n) {
		give(sw, of, wire, m + first, n - first);
		count(&sw->rx_frames, n);
		if (steered) {
			count(&sw->steered, right);
			count(&sw->misled, n - right);
		}
	}
	return got;
}

/* ---- to the ports ---------------------------------------------------------------------------- */

/* An mbuf of ours for a rank's frame: it points to the frame if the driver copies at once, and holds a copy
 * otherwise. The rank's own mbuf no driver ever sees. */
static struct rte_mbuf *shadow(struct hk_switch *sw, const struct hk_switch_wire *wire,
			       const struct hk_pipe_frame *f)
{
	struct rte_mbuf *m;

	if (wire->port->info.copies_at_tx && !wire->port->faults) {
		m = rte_mbuf_raw_alloc(sw->shadows);
		if (m) {
			m->buf_addr = f->bytes;
			m->buf_len = f->len;
			m->data_off = 0;
		}
	} else {
		m = rte_pktmbuf_alloc(wire->copies);
		if (m && f->len > rte_pktmbuf_tailroom(m)) {
			rte_pktmbuf_free_seg(m);
			m = NULL;
		}
		if (m)
			memcpy(rte_pktmbuf_mtod(m, char *), f->bytes, f->len);
	}
	if (m)
		m->data_len = m->pkt_len = f->len;
	return m;
}

static unsigned from_slot(struct hk_switch *sw, unsigned slot, unsigned wire)
{
	struct hk_pipe_end *end = sw->slot[slot].end[wire];
	const struct hk_switch_wire *w = &sw->wire[wire];
	struct hk_pipe_frame f[BURST];
	struct rte_mbuf *m[BURST];
	int n = hk_pipe_take(end, f, BURST);
	unsigned k = 0;

	if (n == 0)
		return 0;
	if (n < 0) {
		atomic_store_explicit(&sw->bad[slot], true, memory_order_relaxed);
		return 0;
	}
	for (int i = 0; i < n; i++) {
		if (f[i].len < HK_ETH_HLEN || f[i].len > w->port->info.frame_max) {
			atomic_store_explicit(&sw->bad[slot], true, memory_order_relaxed);
			continue;
		}
		if ((m[k] = shadow(sw, w, &f[i])))
			k++;
	}
	unsigned sent = hk_port_tx(w->port, (uint16_t)(slot % w->queues), m, (uint16_t)k);

	/* what it does not take is lost; whoever sent it sends it again */
	for (unsigned i = sent; i < k; i++)
		rte_pktmbuf_free_seg(m[i]);
	hk_pipe_sent(end, (unsigned)n);
	/* It may sleep as we do. The last frame left after the time that was noted, and this one before now,
	 * however long others had the core meanwhile. */
	if (rte_rdtsc() - sw->tx_at[wire] > sw->fresh)
		(void)hk_bell_ring_wire(w->port->id, HK_BELL_SWITCH);
	sw->tx_at[wire] = sw->now;
	count(&sw->tx_frames, sent);
	if (HK_UNLIKELY(sent < (unsigned)n)) {
		count(&sw->drops[slot].tx_lost, (unsigned)n - sent);
		count(&sw->tx_lost, (unsigned)n - sent);
	}
	return (unsigned)n;
}

/* ---- commands -------------------------------------------------------------------------------- */

static int pipe_open(struct hk_switch *sw, unsigned slot, unsigned wire, struct hk_error *err)
{
	struct slot *s = &sw->slot[slot];

	return hk_pipe_open(&s->s.pipes[wire], s->s.tx_pool, s->share, &s->end[wire], err);
}

static void slot_remove(struct hk_switch *sw, unsigned slot)
{
	struct slot *s = &sw->slot[slot];

	for (unsigned w = 0; w < HK_SWITCH_WIRES; w++)
		hk_pipe_close(s->end[w]);
	hk_pipe_share_free(s->share);
	*s = (struct slot){.used = false};
	while (sw->slots && !sw->slot[sw->slots - 1].used)
		sw->slots--;
	sw->last = 0;
}

static int slot_add(struct hk_switch *sw, unsigned slot, const struct hk_switch_slot *what,
		    struct hk_error *err)
{
	int rc = 0;

	/* a rank that was started anew while the slot of its predecessor has yet to come back */
	for (unsigned s = 0; s < sw->slots; s++)
		if (sw->slot[s].s.endpoint == what->endpoint &&
		    sw->slot[s].s.job_key == what->job_key)
			sw->slot[s].old = true;
	atomic_store_explicit(&sw->drops[slot].rx_full, 0, memory_order_relaxed);
	atomic_store_explicit(&sw->drops[slot].rx_share, 0, memory_order_relaxed);
	atomic_store_explicit(&sw->drops[slot].tx_lost, 0, memory_order_relaxed);
	sw->slot[slot] = (struct slot){
		.used = true, .s = *what, .share = hk_pipe_share_new(what->share)};
	atomic_store_explicit(&sw->bad[slot], false, memory_order_relaxed);
	sw->slots = HK_MAX(sw->slots, slot + 1);
	for (unsigned w = 0; rc == 0 && w < sw->wires; w++)
		if (sw->wire[w].port)
			rc = pipe_open(sw, slot, w, err);
	if (rc)
		slot_remove(sw, slot);
	return rc;
}

static int wire_set(struct hk_switch *sw, unsigned index, const struct hk_switch_wire *wire,
		    struct hk_error *err)
{
	int rc = 0;

	struct hk_port *port = wire ? wire->port : NULL;

	hk_bell_unlisten_fd(sw->wait_fd[index]);
	sw->wait_fd[index] = port ? hk_port_wait_fd(port) : -1;
	sw->wakes[index] = port &&
			   (hk_bell_listen_fd(sw->wait_fd[index]) || hk_bell_listen_wire(port)) &&
			   !port->faults; /* they hold frames back until the next look */
	sw->tx_at[index] = 0;
	sw->wire[index] = wire ? *wire : (struct hk_switch_wire){0};
	for (unsigned s = 0; rc == 0 && s < sw->slots; s++) {
		struct slot *slot = &sw->slot[s];

		hk_pipe_close(slot->end[index]);
		slot->end[index] = NULL;
		if (wire && slot->used)
			rc = pipe_open(sw, s, index, err);
	}
	sw->wires = HK_MAX(sw->wires, index + 1);
	while (sw->wires && !sw->wire[sw->wires - 1].port)
		sw->wires--;
	sw->hands_on = false;
	for (unsigned w = 0; w < sw->wires; w++)
		sw->hands_on |= sw->wire[w].port &&
				sw->wire[w].port->info.queues > sw->wire[w].queues;
	return rc;
}

static void obey(struct hk_switch *sw, struct command *c)
{
	switch (c->kind) {
	case CMD_WIRE:
		c->rc = wire_set(sw, c->index, c->wire, c->err);
		break;
	case CMD_SLOT_ADD:
		c->rc = slot_add(sw, c->index, c->slot, c->err);
		break;
	case CMD_SLOT_REMOVE:
		slot_remove(sw, c->index);
		break;
	case CMD_STOP:
		sw->stop = true;
		break;
	}
	atomic_store_explicit(&sw->command, NULL, memory_order_release);
	sem_post(&c->done);
}

static int command(struct hk_switch *sw, struct command *c, struct hk_error *err)
{
	c->err = err;
	c->rc = 0;
	if (sem_init(&c->done, 0, 0) != 0)
		return hk_error_set(err, -errno, "no semaphore: %s", strerror(errno));
	atomic_store_explicit(&sw->command, c, memory_order_release);
	(void)hk_bell_wake(HK_BELL_SWITCH);
	if (!hk_patience_wait(&c->done, atomic_load(&sw->cpu), &sw->patience)) {
		char text[160];

		/* it may come to it yet, so nothing of it can be taken back */
		snprintf(text, sizeof(text),
			 "aborts: its switch did not move in %u ms, nor in %u ms of CPU time; fix: "
			 "give it a core (cpus)",
			 sw->patience.wall_ms, sw->patience.cpu_ms);
		sw->log.say(sw->log.arg, text);
		fprintf(stderr, "hikyakud: %s\n", text);
		abort();
	}
	sem_destroy(&c->done);
	return c->rc;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static unsigned round_(struct hk_switch *sw)
{
	unsigned frames = 0;

	for (unsigned w = 0; w < sw->wires; w++) {
		if (!sw->wire[w].port)
			continue;
		for (unsigned q = 0; q < sw->wire[w].queues; q++)
			frames += from_port(sw, w, q);
		for (unsigned s = 0; s < sw->slots; s++)
			if (sw->slot[s].end[w] &&
			    !atomic_load_explicit(&sw->bad[s], memory_order_relaxed))
				frames += from_slot(sw, s, w);
	}
	return frames;
}

static void settle(struct hk_switch *sw)
{
	for (unsigned s = 0; s < sw->slots; s++)
		if (sw->slot[s].share)
			hk_pipe_settle(sw->slot[s].share);
}

/* ---- sleeping -------------------------------------------------------------------------------- */

static bool has_taken(const struct hk_switch *sw, unsigned slot)
{
	for (unsigned w = 0; w < sw->wires; w++)
		if (sw->slot[slot].end[w] && !hk_pipe_empty(sw->slot[slot].end[w]))
			return false;
	return true;
}

/* Is there anybody who has not taken what it was given? */
static bool watches(struct hk_switch *sw)
{
	uint64_t left = sw->given | sw->given_before;

	for (unsigned s = 0; left && s < sw->slots; s++)
		if (left >> s & 1 && has_taken(sw, s))
			left &= ~(UINT64_C(1) << s);
	sw->given &= left;
	sw->given_before &= left;
	return left;
}

/* Who has left MPI does not take what it is given: the poller is to do so. And it is to hear what has been rung for it
 * on a wire meanwhile. */
static void watch(struct hk_switch *sw)
{
	uint64_t whom = sw->given | sw->given_before;
	bool wait = false;

	for (unsigned s = 0; s < sw->slots; s++) {
		if (!(whom >> s & 1))
			continue;
		for (unsigned w = 0; w < sw->wires; w++)
			wait |= sw->slot[s].end[w] && hk_pipe_waits(sw->slot[s].end[w]);
	}
	sw->given_before = sw->given;
	sw->given = 0;
	sw->watched_at = sw->now;
	/* a system call: where nothing is to be handed on, only so that a bell does not fill up */
	if (!sw->lies && (sw->hands_on || ++sw->watches % DRAIN_EACH == 0))
		(void)hk_bell_get_up(HK_BELL_SWITCH);
	/* an awake poller may look before the rank counts as away: it is to look once more */
	if (wait && hk_bell_ask(HK_BELL_POLLER))
		count(&sw->rings, 1);
}

static bool all_wake(const struct hk_switch *sw)
{
	for (unsigned w = 0; w < sw->wires; w++)
		if (sw->wire[w].port && !sw->wakes[w])
			return false;
	return true;
}

/* Was it rung for? */
static bool get_up(struct hk_switch *sw)
{
	bool rung = sw->lies && hk_bell_get_up(HK_BELL_SWITCH);

	if (rung)
		count(&sw->rung, 1);
	sw->lies = false;
	return rung;
}

static void slice(struct hk_switch *sw, bool brief)
{
	if (sw->brief != brief)
		hk_pace_slice(brief);
	sw->brief = brief;
}

static void yield(struct hk_switch *sw)
{
	uint64_t before = sw->now;

	slice(sw, false);
	sched_yield();
	sw->now = rte_rdtsc();
	hk_pace_yielded(&sw->pace, before, sw->now);
}

/* The first time it says that it is about to sleep, and comes back for one more round: ranks that put
 * something into a pipe before it said so rang for nobody. As long as it is still rung for, it need not
 * say so again. */
static void sleep_(struct hk_switch *sw, long beat_ns)
{
	const struct timespec nap = {.tv_nsec = SLEEP_NS}, beat = {.tv_nsec = beat_ns};
	struct pollfd p = {.fd = sw->bell, .events = POLLIN};

	if (!sw->lies && all_wake(sw)) {
		if (sw->vain >= VAIN)
			clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
		hk_bell_lie_down(HK_BELL_SWITCH);
		sw->lies = true;
		return;
	}
	count(&sw->sleeps, 1);
	slice(sw, true);
	if (!sw->lies) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	} else if (ppoll(&p, 1, &beat, NULL) > 0 || !hk_bell_lies(HK_BELL_SWITCH)) {
		sw->vain += get_up(sw) ? VAIN_OURS : 1;
	}
	sw->now = rte_rdtsc();
}

/* A round, and what is to be done before the next. */
static void turn(struct hk_switch *sw)
{
	unsigned frames = round_(sw);

	sw->now = rte_rdtsc();
	if (sw->turns++ % LOOK_EACH == 0 || !frames) {
		struct command *c = atomic_load_explicit(&sw->command, memory_order_acquire);

		if (c)
			obey(sw, c);
		settle(sw);
	}
	if (frames) {
		(void)get_up(sw);
		sw->vain = 0;
		sw->busy_at = sw->now;
	}
	bool crowded = hk_pace_crowded(&sw->pace, sw->now);

	if (sw->now - sw->watched_at > (crowded ? sw->watch_crowded : sw->watch))
		watch(sw);
	if (frames)
		return;
	/* who sends us more within FRESH_US does not ring */
	bool soon = watches(sw) || sw->now - sw->busy_at < sw->spin;

	if (crowded)
		sleep_(sw, soon ? CROWDED_US * 1000 : BEAT_NS);
	else if (soon)
		yield(sw);
	else
		sleep_(sw, BEAT_NS);
}

static int loop(void *arg)
{
	struct hk_switch *sw = arg;
	clockid_t cpu;

	if (pthread_getcpuclockid(pthread_self(), &cpu) == 0)
		atomic_store(&sw->cpu, cpu);
	prctl(PR_SET_NAME, "hk-switch");
	prctl(PR_SET_TIMERSLACK, 1000UL);
	while (!sw->stop)
		turn(sw);
	return 0;
}

/* ---- the main thread's side ------------------------------------------------------------------- */

/* All of it but its thread. */
static int make(const struct hk_last_words *log, struct hk_switch **out, struct hk_error *err)
{
	struct hk_switch *sw = calloc(1, sizeof(*sw));

	if (!sw)
		return hk_error_set(err, -ENOMEM, "no memory for the switch");
	sw->log = *log;
	sw->patience = (struct hk_patience){HK_SWITCH_CPU_MS, HK_SWITCH_WAIT_MS};
	for (unsigned w = 0; w < HK_SWITCH_WIRES; w++)
		sw->wait_fd[w] = -1;
	uint64_t us = rte_get_tsc_hz() / 1000000;

	hk_pace_init(&sw->pace, rte_get_tsc_hz());
	sw->now = sw->busy_at = rte_rdtsc();
	sw->spin = us * SPIN_US;
	sw->fresh = us * FRESH_US;
	sw->watch = us * WATCH_US;
	sw->watch_crowded = us * CROWDED_US;
	int rc = hk_bell_listen(HK_BELL_SWITCH, &sw->bell, err);

	if (rc) {
		free(sw);
		return rc;
	}
	sw->shadows = rte_pktmbuf_pool_create("hk_shadows", SHADOWS, 128, 0, 0, SOCKET_ID_ANY);
	if (!sw->shadows) {
		free(sw);
		return hk_error_set(err, -ENOMEM,
				    "no memory for the switch's buffers; fix: give "
				    "DPDK more memory");
	}
	*out = sw;
	return 0;
}

static void unmake(struct hk_switch *sw)
{
	rte_mempool_free(sw->shadows);
	free(sw);
}

int hk_switch_start(unsigned lcore, const struct hk_last_words *log, struct hk_switch **out,
		    struct hk_error *err)
{
	struct hk_switch *sw = NULL;
	int rc = make(log, &sw, err);

	*out = NULL;
	if (rc)
		return rc;
	sw->lcore = lcore;
	rc = rte_eal_remote_launch(loop, sw, lcore);
	if (rc) {
		unmake(sw);
		return hk_error_set(err, rc, "the switch does not start: %s", strerror(-rc));
	}
	*out = sw;
	return 0;
}

void hk_switch_stop(struct hk_switch *sw)
{
	struct command c = {.kind = CMD_STOP};
	struct hk_error err;

	if (!sw)
		return;
	(void)command(sw, &c, &err);
	rte_eal_wait_lcore(sw->lcore);
	unmake(sw);
}

int hk_switch_wire(struct hk_switch *sw, unsigned index, const struct hk_switch_wire *wire,
		   struct hk_error *err)
{
	struct command c = {.kind = CMD_WIRE, .index = index, .wire = wire};

	return command(sw, &c, err);
}

int hk_switch_slot_add(struct hk_switch *sw, unsigned slot, const struct hk_switch_slot *s,
		       struct hk_error *err)
{
	struct command c = {.kind = CMD_SLOT_ADD, .index = slot, .slot = s};

	return command(sw, &c, err);
}

int hk_switch_slot_remove(struct hk_switch *sw, unsigned slot, struct hk_error *err)
{
	struct command c = {.kind = CMD_SLOT_REMOVE, .index = slot};

	return command(sw, &c, err);
}

bool hk_switch_bad(const struct hk_switch *sw, unsigned slot)
{
	return atomic_load_explicit(&sw->bad[slot], memory_order_relaxed);
}

void hk_switch_counters(const struct hk_switch *sw, struct hk_switch_counters *n)
{
	*n = (struct hk_switch_counters){
		.rx_frames = sw->rx_frames,
		.tx_frames = sw->tx_frames,
		.steered = sw->steered,
		.misled = sw->misled,
		.stray = sw->stray,
		.tx_lost = sw->tx_lost,
		.rx_lost = sw->rx_lost,
		.sleeps = sw->sleeps,
		.rung = sw->rung,
		.rings = sw->rings,
	};
}

void hk_switch_drops(const struct hk_switch *sw, unsigned slot, struct hk_switch_drops *n)
{
	*n = (struct hk_switch_drops){
		.rx_full = sw->drops[slot].rx_full,
		.rx_share = sw->drops[slot].rx_share,
		.tx_lost = sw->drops[slot].tx_lost,
	};
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/tap.c: copies frames into the ring of a capture.
 *
 * `busy` is a lock on the ring: one thread at a time writes it, and the tap's thread does not unmap
 * it meanwhile. Only the tap's thread waits for the lock. A thread that moves frames never waits;
 * if the lock is taken, it only counts its frames.
 *
 * A sent frame must be copied before the driver gets it, but may be published only if the driver
 * accepts it. So records are written behind `head`, and published up to the last accepted frame.
 */
#include "port/tap.h"
#include "port/port.h"
#include "port/tap_internal.h"

#include <string.h>
#include <time.h>

_Atomic bool hk_tap_on;

#define CHUNK 64           /* frames that a capture sends at a time */
#define KNOWN HK_TAP_PORTS /* limit of ports in a capture */
#define SLOTS (2u * KNOWN) /* size of the hash table; a power of two */
#define NONE  HK_TAP_PORTS /* not a port's number */

static struct {
	_Atomic bool busy;
	_Atomic uint64_t missed; /* frames of threads that found the ring busy */
	struct hk_tap_ring *ring;
	char *bytes;
	uint64_t size, head;
	uint32_t snaplen, flags;
	unsigned known;
	struct {
		uintptr_t key;
		uint16_t number;
	} slot[SLOTS];
} tap;

static bool enter(void)
{
	return !atomic_exchange_explicit(&tap.busy, true, memory_order_acquire);
}

static void leave(void)
{
	atomic_store_explicit(&tap.busy, false, memory_order_release);
}

/* Waits until the ring is free. */
static void enter_wait(void)
{
	const struct timespec pause = {.tv_nsec = 50000};

	while (!enter())
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

void hk_tap_attach(struct hk_tap_ring *ring, uint64_t size, uint32_t snaplen, uint32_t flags)
{
	enter_wait();
	memset(ring, 0, sizeof(*ring));
	memset(tap.slot, 0, sizeof(tap.slot));
	tap.known = 0;
	tap.ring = ring;
	tap.bytes = (char *)(ring + 1);
	tap.size = size;
	tap.head = 0;
	tap.snaplen = snaplen;
	tap.flags = flags;
	atomic_store(&tap.missed, 0);
	leave();
	atomic_store(&hk_tap_on, true);
}

void hk_tap_detach(void)
{
	atomic_store(&hk_tap_on, false);
	enter_wait();
	if (tap.ring)
		atomic_fetch_add(&tap.ring->lost, atomic_exchange(&tap.missed, 0));
	tap.ring = NULL;
	leave();
}

/* ---- records -------------------------------------------------------------------------------- */

static void count(_Atomic uint64_t *n, uint64_t more)
{
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + more,
			      memory_order_relaxed);
}

/* Reserves a record for @bytes of content at *@at, and moves *@at behind it. NULL if the ring is
 * full, or if the reader's index is invalid. */
static struct hk_tap_record *reserve(uint64_t *at, uint64_t bytes, enum hk_tap_kind kind,
				     unsigned port)
{
	uint64_t tail = atomic_load_explicit(&tap.ring->tail, memory_order_acquire);
	uint64_t need = sizeof(struct hk_tap_record) + bytes;
	uint64_t where = *at & (tap.size - 1), used = *at - tail, skip = 0;

	need = (need + HK_TAP_ALIGN - 1) & ~(uint64_t)(HK_TAP_ALIGN - 1);
	if (tap.size - where < need)
		skip = tap.size - where;
	if (used > tap.size || tap.size - used < skip + need)
		return NULL;
	if (skip) {
		*(struct hk_tap_record *)(tap.bytes + where) = (struct hk_tap_record){
			.size = (uint32_t)skip, .kind = HK_TAP_SKIP};
		where = 0;
	}
	struct hk_tap_record *r = (struct hk_tap_record *)(tap.bytes + where);

	*r = (struct hk_tap_record){
		.size = (uint32_t)need, .kind = (uint16_t)kind, .port = (uint16_t)port};
	*at += skip + need;
	return r;
}

static void publish(uint64_t head)
{
	tap.head = head;
	atomic_store_explicit(&tap.ring->head, head, memory_order_release);
}

/* ---- ports ---------------------------------------------------------------------------------- */

/* Returns a key that is the same for every copy of the port's struct. */
static uintptr_t key_of(const struct hk_port *port)
{
	return port->pipe ? (uintptr_t)port->pipe : (uintptr_t)port->id + 1;
}

static unsigned slot_of(uintptr_t key)
{
	unsigned i = (unsigned)((key ^ key >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 40);

	for (i %= SLOTS; tap.slot[i].key && tap.slot[i].key != key; i = (i + 1) % SLOTS)
		;
	return i;
}

/* Copies a text that its owner may change meanwhile, and terminates the copy. */
static void copy_text(char *to, const char *from, size_t size)
{
	memcpy(to, from, size - 1);
	to[size - 1] = '\0';
}

/* Returns the port's number in this capture, after a record that describes a new port. NONE if the
 * ring or the table is full. */
static unsigned number_of(const struct hk_port *port)
{
	unsigned i = slot_of(key_of(port));
	uint64_t at = tap.head;

	if (HK_LIKELY(tap.slot[i].key))
		return tap.slot[i].number;
	struct hk_tap_record *r = tap.known < KNOWN ? reserve(&at, sizeof(struct hk_tap_port),
							      HK_TAP_PORT, tap.known)
						    : NULL;

	if (!r)
		return NONE;
	struct hk_tap_port *p = (struct hk_tap_port *)(r + 1);

	memset(p, 0, sizeof(*p));
	copy_text(p->name, port->info.spec, sizeof(p->name));
	copy_text(p->driver, port->info.driver, sizeof(p->driver));
	memcpy(p->mac, port->info.mac, sizeof(p->mac));
	p->frame_max = port->info.frame_max;
	p->link_mbps = port->info.link_mbps;
	r->cap = r->len = sizeof(*p);
	tap.slot[i].key = key_of(port);
	tap.slot[i].number = (uint16_t)tap.known;
	publish(at);
	return tap.known++;
}

void hk_tap_forget(const struct hk_port *port)
{
	if (HK_LIKELY(!atomic_load(&hk_tap_on)))
		return;
	enter_wait();
	unsigned i = slot_of(key_of(port));

	if (tap.slot[i].key) /* keep the slot in use, because others may lie behind it */
		tap.slot[i].key = UINTPTR_MAX;
	leave();
}

/* ---- frames --------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * HK_SEC + (uint64_t)t.tv_nsec;
}

struct burst {
	unsigned port; /* number in this capture */
	uint16_t queue;
	uint8_t direction;
	uint64_t ns, at; /* time of the burst; index behind its last record */
};

static bool wants(const struct hk_port *port)
{
	return tap.ring && (!port->pipe || tap.flags & HK_TAP_F_PIPES);
}

static bool copy(struct burst *b, const struct rte_mbuf *m)
{
	uint32_t cap = HK_MIN(m->pkt_len, tap.snaplen), done = 0;
	struct hk_tap_record *r = reserve(&b->at, cap, HK_TAP_FRAME, b->port);

	if (HK_UNLIKELY(!r))
		return false;
	r->ns = b->ns;
	r->queue = b->queue;
	r->direction = b->direction;
	r->len = m->pkt_len;
	for (const struct rte_mbuf *s = m; s && done < cap; s = s->next) {
		uint32_t n = HK_MIN(s->data_len, cap - done);

		memcpy((char *)(r + 1) + done, rte_pktmbuf_mtod(s, const char *), n);
		done += n;
	}
	r->cap = done;
	return true;
}

/* Adds frames of threads that found the ring busy to the ring's counter. */
static void count_missed(void)
{
	if (HK_UNLIKELY(atomic_load_explicit(&tap.missed, memory_order_relaxed)))
		count(&tap.ring->lost, atomic_exchange(&tap.missed, 0));
}

static bool begin(struct burst *b, const struct hk_port *port, uint16_t queue, uint8_t direction)
{
	count_missed();
	*b = (struct burst){
		.port = number_of(port), .queue = queue, .direction = direction, .ns = now_ns()};
	b->at = tap.head;
	return b->port != NONE;
}

static void end(const struct burst *b, unsigned seen, unsigned dropped)
{
	count(&tap.ring->port[b->port].seen, seen);
	if (dropped)
		count(&tap.ring->port[b->port].dropped, dropped);
}

uint16_t hk_tap_rx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	uint16_t got = hk_port_rx_driver(port, queue, m, n);
	struct burst b;

	if (got == 0)
		return 0;
	if (!enter()) {
		atomic_fetch_add(&tap.missed, got);
		return got;
	}
	if (wants(port)) {
		if (begin(&b, port, queue, HK_TAP_IN)) {
			unsigned dropped = 0;

			for (uint16_t i = 0; i < got; i++)
				dropped += !copy(&b, m[i]);
			publish(b.at);
			end(&b, got, dropped);
		} else {
			count(&tap.ring->lost, got);
		}
	}
	leave();
	return got;
}

/* Sends and captures at most CHUNK frames. */
static uint16_t send_some(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	uint64_t behind[CHUNK]; /* index behind each frame's record */
	bool copied[CHUNK];
	struct burst b;
	bool known = begin(&b, port, queue, HK_TAP_OUT);

	for (uint16_t i = 0; known && i < n; i++) {
		copied[i] = copy(&b, m[i]);
		behind[i] = b.at;
	}
	uint16_t sent = hk_port_tx_driver(port, queue, m, n);

	if (!known) {
		count(&tap.ring->lost, sent);
	} else if (sent) {
		unsigned dropped = 0;

		for (uint16_t i = 0; i < sent; i++)
			dropped += !copied[i];
		publish(behind[sent - 1]);
		end(&b, sent, dropped);
	}
	return sent;
}

uint16_t hk_tap_tx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	uint16_t sent = 0, some, took;

	if (n == 0 || !enter()) {
		sent = hk_port_tx_driver(port, queue, m, n);
		if (sent)
			atomic_fetch_add(&tap.missed, sent);
		return sent;
	}
	if (!wants(port)) {
		sent = hk_port_tx_driver(port, queue, m, n);
	} else {
		do {
			some = HK_MIN((uint16_t)(n - sent), (uint16_t)CHUNK);
			took = send_some(port, queue, m + sent, some);
			sent = (uint16_t)(sent + took);
		} while (took == some && sent < n);
	}
	leave();
	return sent;
}

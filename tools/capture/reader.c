/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/reader.c: implements reader.h.
 */
#include "capture/reader.h"

#include <errno.h>
#include <string.h>

#define RELEASE_EACH (UINT64_C(1) << 16) /* bytes between two updates of the writer's view */

void hk_reader_init(struct hk_reader *r, struct hk_tap_ring *ring, uint64_t size, uint32_t snaplen)
{
	*r = (struct hk_reader){
		.ring = ring, .bytes = (const char *)(ring + 1), .size = size, .snaplen = snaplen};
}

void hk_text_copy(char *to, const char *from, size_t size)
{
	size_t i = 0;

	for (; i + 1 < size; i++) {
		char c = *(const volatile char *)&from[i];

		if (c == '\0')
			break;
		to[i] = c;
		if (c < ' ' || c > '~')
			to[i] = '?';
	}
	memset(to + i, 0, size - i);
}

static void release(struct hk_reader *r)
{
	atomic_store_explicit(&r->ring->tail, r->tail, memory_order_release);
}

/* The bytes to read, or -EPROTO. Before it calls the ring empty, it releases all that was read. */
static int64_t available(struct hk_reader *r)
{
	if (r->head == r->tail) {
		release(r);
		r->head = atomic_load_explicit(&r->ring->head, memory_order_acquire);
	}
	uint64_t n = r->head - r->tail;

	return n > r->size || n % HK_TAP_ALIGN ? -EPROTO : (int64_t)n;
}

static void copy_port(struct hk_captured *c, const char *content)
{
	const struct hk_tap_port *p = (const void *)content;

	memcpy(&c->port, p, sizeof(c->port));
	hk_text_copy(c->port.name, p->name, sizeof(c->port.name));
	hk_text_copy(c->port.driver, p->driver, sizeof(c->port.driver));
}

static bool check(const struct hk_reader *r, const struct hk_tap_record *e, uint64_t most)
{
	uint64_t content = (uint64_t)e->size - sizeof(*e);

	if (e->size < sizeof(*e) || e->size % HK_TAP_ALIGN || e->size > most)
		return false;
	switch (e->kind) {
	case HK_TAP_SKIP: /* exactly to the end of the ring */
		return (r->tail & (r->size - 1)) + e->size == r->size;
	case HK_TAP_PORT:
		return content == sizeof(struct hk_tap_port) && e->port == r->ports &&
		       e->port < HK_TAP_PORTS;
	case HK_TAP_FRAME:
		return e->cap <= content && e->cap <= r->snaplen && e->cap <= e->len &&
		       e->port < r->ports &&
		       (e->direction == HK_TAP_IN || e->direction == HK_TAP_OUT);
	default:
		return false;
	}
}

int hk_reader_peek(struct hk_reader *r, struct hk_captured *c)
{
	for (;;) {
		int64_t n = available(r);

		if (n <= 0)
			return (int)n;
		uint64_t where = r->tail & (r->size - 1);

		memcpy(&c->r, r->bytes + where, sizeof(c->r));
		atomic_signal_fence(memory_order_seq_cst); /* check this copy, not the ring */
		if (!check(r, &c->r, HK_MIN((uint64_t)n, r->size - where)))
			return -EPROTO;
		c->bytes = r->bytes + where + sizeof(c->r);
		if (c->r.kind == HK_TAP_PORT)
			copy_port(c, c->bytes);
		if (c->r.kind != HK_TAP_SKIP)
			return 1;
		r->tail += c->r.size;
	}
}

void hk_reader_take(struct hk_reader *r, const struct hk_captured *c)
{
	uint64_t before = r->tail;

	r->ports += c->r.kind == HK_TAP_PORT;
	r->tail += c->r.size;
	if (before / RELEASE_EACH != r->tail / RELEASE_EACH)
		release(r);
}

void hk_reader_counters(const struct hk_reader *r, unsigned port, uint64_t *seen, uint64_t *dropped)
{
	*seen = atomic_load_explicit(&r->ring->port[port].seen, memory_order_relaxed);
	*dropped = atomic_load_explicit(&r->ring->port[port].dropped, memory_order_relaxed);
}

uint64_t hk_reader_dropped(const struct hk_reader *r)
{
	uint64_t sum = atomic_load_explicit(&r->ring->lost, memory_order_relaxed);

	for (unsigned i = 0; i < HK_TAP_PORTS; i++)
		sum += atomic_load_explicit(&r->ring->port[i].dropped, memory_order_relaxed);
	return sum;
}

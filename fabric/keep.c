/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/keep.c: what is kept for an application that is elsewhere, in the order in which it came.
 *
 * Small messages are copied together into one piece of memory and their receive buffers freed: so
 * tens of thousands fit, and their sender's credit does not shrink. What is larger, or finds no room
 * there, stays in its buffers, which count against the credit; and when these are as many as may be
 * kept, nothing more is taken. It all lies in a ring of entries, which may be shared memory.
 */
#include "fabric/internal.h"

#include <string.h>

#define ALIGN 16u

enum entry_kind { ENTRY_WRAP, ENTRY_COPY, ENTRY_BUFFERS, ENTRY_SERVED };

struct entry {
	uint32_t size; /* of the whole entry */
	uint32_t len;  /* COPY: of the message, which follows */
	hk_peer peer;
	uint8_t kind, am;
	uint16_t life; /* of the peer */
};
_Static_assert(sizeof(struct entry) == ALIGN, "messages start aligned");

#define IN_BUFFERS (sizeof(struct entry) + ALIGN) /* an entry of what stays in its buffers */
/* Without room for a burst nothing more is taken, and what comes all the same was sent in vain. */
#define BURST (2 * HK_RX_BURST * IN_BUFFERS)

static uint32_t entry_size(size_t len)
{
	return (uint32_t)((sizeof(struct entry) + len + ALIGN - 1) & ~(size_t)(ALIGN - 1));
}

/* Room that copies leave for entries of all buffers that may be kept: for only what stays in its buffers makes senders
 * slower, since it counts against their credit. */
static size_t reserve(const struct hk_fabric_config *cfg)
{
	return cfg->rx_keep * IN_BUFFERS + 2 * BURST;
}

size_t hk_keep_size(const struct hk_fabric_config *cfg)
{
	return HK_MAX((cfg->keep_bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1),
		      reserve(cfg) + 2 * BURST);
}

int hk_keep_open(struct hk_fabric *f)
{
	f->keep.size = hk_keep_size(&f->cfg);
	f->keep.bytes = hk_mem_take_dirty(f, f->keep.size); /* untouched until it is needed */
	return f->keep.bytes ? 0 : -1;
}

static size_t room(const struct hk_keep *k)
{
	return k->size - (size_t)(k->head - k->tail);
}

/* Where @at is, which is not before the tail nor behind the head. */
static size_t place(const struct hk_keep *k, uint64_t at)
{
	size_t o = k->tail_at + (size_t)(at - k->tail);

	return o < k->size ? o : o - k->size;
}

static struct entry *entry_at(const struct hk_keep *k, uint64_t at)
{
	return (struct entry *)(k->bytes + place(k, at));
}

/* The oldest entry goes. */
static void take_out(struct hk_keep *k, uint32_t size)
{
	k->tail_at = place(k, k->tail + size);
	k->tail += size;
}

/* A new entry of @size bytes in one piece; NULL if that leaves less than @spare. */
static struct entry *entry_new(struct hk_keep *k, uint32_t size, size_t spare)
{
	size_t at = place(k, k->head), to_end = k->size - at;
	size_t need = size <= to_end ? size : to_end + size;

	if (room(k) < need + spare)
		return NULL;
	if (size > to_end) {
		*(struct entry *)(k->bytes + at) = (struct entry){.size = (uint32_t)to_end,
								  .kind = ENTRY_WRAP};
		k->head += to_end;
		at = 0;
	}
	k->head += size;
	return (struct entry *)(k->bytes + at);
}

bool hk_can_keep(const struct hk_fabric *f)
{
	return f->kept_frames + HK_RX_BURST <= f->cfg.rx_keep && room(&f->keep) >= BURST &&
	       !hk_listed(f, HK_LIST_EARLY); /* what came before it found no room */
}

/* Keeps the message of @n buffers in @iov. True if it was copied: then the buffers are the caller's. */
bool hk_keep_copy(struct hk_fabric *f, hk_peer p, uint8_t am, const struct hk_iov *iov, unsigned n)
{
	size_t len = 0;

	for (unsigned i = 0; i < n; i++)
		len += iov[i].len;
	if (len > HK_KEEP_COPY_MAX)
		return false;
	uint32_t size = entry_size(len);
	struct entry *e = entry_new(&f->keep, size, reserve(&f->cfg));

	if (!e)
		return false;
	*e = (struct entry){size, (uint32_t)len, p, ENTRY_COPY, am, f->peer[p].life};
	char *to = (char *)(e + 1);

	for (unsigned i = 0; i < n; i++) {
		memcpy(to, iov[i].base, iov[i].len);
		to += iov[i].len;
	}
	f->n.async_kept++;
	return true;
}

/* Is there room for one more message in its buffers, beside what a burst brings? What waited for an earlier
 * one is let go only so far. */
bool hk_can_keep_early(const struct hk_fabric *f)
{
	return room(&f->keep) >= BURST + 2 * IN_BUFFERS;
}

/* Keeps a message, or a frame of a put, in its buffers. There is room: hk_can_keep() and hk_can_keep_early(). */
void hk_keep_buffers(struct hk_fabric *f, struct rte_mbuf *m)
{
	const struct hk_rx_note *note = hk_rx_note(m);
	uint32_t size = entry_size(sizeof(m));
	struct entry *e = entry_new(&f->keep, size, 0);

	*e = (struct entry){.size = size,
			    .peer = note->peer,
			    .kind = ENTRY_BUFFERS,
			    .am = note->am,
			    .life = f->peer[note->peer].life};
	memcpy(e + 1, &m, sizeof(m));
	f->kept_frames += note->count;
	f->n.async_kept++;
	hk_engine_rx_held(f->engine, note->peer, note->count);
}

static struct entry *first(struct hk_keep *k)
{
	if (k->head == k->tail)
		return NULL;
	struct entry *e = entry_at(k, k->tail);

	while (e->kind == ENTRY_WRAP || e->kind == ENTRY_SERVED) {
		take_out(k, e->size);
		if (k->head == k->tail)
			return NULL;
		e = entry_at(k, k->tail);
	}
	return e;
}

static void read_entry(struct hk_fabric *f, const struct entry *e, struct hk_kept *k)
{
	*k = (struct hk_kept){
		.peer = e->peer,
		.am = e->am,
		.earlier = e->life != f->peer[e->peer].life,
		.iov = {e + 1, e->len},
	};
	if (e->kind == ENTRY_BUFFERS) {
		memcpy(&k->m, e + 1, sizeof(k->m));
		f->kept_frames -= hk_rx_note(k->m)->count;
		hk_engine_rx_held(f->engine, k->peer, -(int)hk_rx_note(k->m)->count);
	}
}

/* Takes the oldest out. False if nothing is kept. */
bool hk_keep_next(struct hk_fabric *f, struct hk_kept *k)
{
	const struct entry *e = first(&f->keep);

	if (!e)
		return false;
	take_out(&f->keep, e->size); /* nobody writes there before the application has left again */
	read_entry(f, e, k);
	return true;
}

/* Gives back the room of what was taken out from among others, up to the first that was not. */
void hk_keep_trim(struct hk_fabric *f)
{
	(void)first(&f->keep);
}

/* Takes out the oldest that is the fabric's own from @at on, which moves behind it: what it overtakes is the
 * application's, and of that nothing depends on it. False if there is none. */
bool hk_keep_next_own(struct hk_fabric *f, uint64_t *at, struct hk_kept *k)
{
	while (*at != f->keep.head) {
		struct entry *e = entry_at(&f->keep, *at);
		struct rte_mbuf *m = NULL;

		*at += e->size;
		if (e->kind == ENTRY_BUFFERS)
			memcpy(&m, e + 1, sizeof(m));
		if ((e->kind != ENTRY_COPY && !m) || f->peer[e->peer].gone ||
		    (!hk_am_own(e->am) && !(m && hk_rx_note(m)->put)))
			continue;
		read_entry(f, e, k);
		e->kind = ENTRY_SERVED;
		return true;
	}
	return false;
}

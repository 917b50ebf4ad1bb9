/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/rx_backlog.c: what a progress proxy took in for an application that does not poll, in the
 * order of arrival.
 *
 * DESIGN NOTES
 *
 * Small messages are copied into one ring of entries, and their receive buffers are freed. So tens
 * of thousands fit, and their sender's credit does not shrink. Longer messages, and those that find
 * no space in the ring, stay in their receive buffers, which count against the credit. When as many
 * buffers are stored as cfg.rx_backlog allows, the engine refuses further packets.
 *
 * The ring may lie in shared memory.
 */
#include "worker/rx_backlog.h"
#include "worker/memory.h"
#include "worker/rx.h"

#include <string.h>

#define ALIGN 16u

enum entry_kind { ENTRY_WRAP, ENTRY_COPY, ENTRY_BUFFERS, ENTRY_REMOVED };

struct entry {
	uint32_t size; /* bytes of the whole entry */
	uint32_t len;  /* ENTRY_COPY: bytes of the message, which follows */
	hk_peer peer;
	uint8_t kind, am;
	uint16_t incarnation; /* incarnation of the peer */
};
_Static_assert(sizeof(struct entry) == ALIGN, "messages start aligned");

#define IN_BUFFERS (sizeof(struct entry) + ALIGN) /* bytes of an entry that refers to buffers */
/* Without this much space for a burst, packets are refused. Those that arrive all the same were
 * sent for nothing. */
#define BURST (2 * HK_RX_BURST * IN_BUFFERS)

static uint32_t entry_size(size_t len)
{
	return (uint32_t)((sizeof(struct entry) + len + ALIGN - 1) & ~(size_t)(ALIGN - 1));
}

/* Space that copies leave for entries of all buffers that may be stored. Buffers make senders
 * slower, since they count against the credit, and copies do not. */
static size_t reserve(const struct hk_worker_config *cfg)
{
	return cfg->rx_backlog * IN_BUFFERS + 2 * BURST;
}

size_t hk_rx_backlog_size(const struct hk_worker_config *cfg)
{
	return HK_MAX((cfg->backlog_bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1),
		      reserve(cfg) + 2 * BURST);
}

int hk_rx_backlog_open(struct hk_worker *w)
{
	w->rx_backlog.size = hk_rx_backlog_size(&w->cfg);
	w->rx_backlog.bytes = hk_mem_alloc_dirty(
		w, w->rx_backlog.size); /* not touched until it is needed */
	return w->rx_backlog.bytes ? 0 : -1;
}

static size_t available(const struct hk_rx_backlog *k)
{
	return k->size - (size_t)(k->head - k->tail);
}

/* The offset of position @at, which lies between tail and head. */
static size_t offset_of(const struct hk_rx_backlog *k, uint64_t at)
{
	size_t o = k->tail_at + (size_t)(at - k->tail);

	return o < k->size ? o : o - k->size;
}

static struct entry *entry_at(const struct hk_rx_backlog *k, uint64_t at)
{
	return (struct entry *)(k->bytes + offset_of(k, at));
}

/* Removes the oldest entry. */
static void remove_oldest(struct hk_rx_backlog *k, uint32_t size)
{
	k->tail_at = offset_of(k, k->tail + size);
	k->tail += size;
}

/* Adds an entry of @size contiguous bytes. NULL if that leaves less than @spare. */
static struct entry *entry_new(struct hk_rx_backlog *k, uint32_t size, size_t spare)
{
	size_t at = offset_of(k, k->head), to_end = k->size - at;
	size_t need = size <= to_end ? size : to_end + size;

	if (available(k) < need + spare)
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

bool hk_rx_backlog_fits(const struct hk_worker *w)
{
	return w->rx_backlog.frames + HK_RX_BURST <= w->cfg.rx_backlog &&
	       available(&w->rx_backlog) >= BURST &&
	       !hk_peers_listed(w, HK_LIST_REORDER); /* an earlier message found no space */
}

bool hk_rx_backlog_copy(struct hk_worker *w, hk_peer p, uint8_t am, const struct hk_iov *iov,
			unsigned n)
{
	size_t len = 0;

	for (unsigned i = 0; i < n; i++)
		len += iov[i].len;
	if (len > HK_RX_BACKLOG_COPY_MAX)
		return false;
	uint32_t size = entry_size(len);
	struct entry *e = entry_new(&w->rx_backlog, size, reserve(&w->cfg));

	if (!e)
		return false;
	*e = (struct entry){size, (uint32_t)len, p, ENTRY_COPY, am, w->peer[p].incarnation};
	char *to = (char *)(e + 1);

	for (unsigned i = 0; i < n; i++) {
		memcpy(to, iov[i].base, iov[i].len);
		to += iov[i].len;
	}
	w->n.proxy_backlogged++;
	return true;
}

bool hk_rx_backlog_fits_reordered(const struct hk_worker *w)
{
	return available(&w->rx_backlog) >= BURST + 2 * IN_BUFFERS;
}

void hk_rx_backlog_add_buffers(struct hk_worker *w, struct rte_mbuf *m)
{
	const struct hk_rx_note *note = hk_rx_note(m);
	uint32_t size = entry_size(sizeof(m));
	struct entry *e = entry_new(&w->rx_backlog, size, 0);

	*e = (struct entry){.size = size,
			    .peer = note->peer,
			    .kind = ENTRY_BUFFERS,
			    .am = note->am,
			    .incarnation = w->peer[note->peer].incarnation};
	memcpy(e + 1, &m, sizeof(m));
	w->rx_backlog.frames += note->count;
	w->n.proxy_backlogged++;
	hk_engine_rx_held(w->engine, note->peer, note->count);
}

static struct entry *first(struct hk_rx_backlog *k)
{
	if (k->head == k->tail)
		return NULL;
	struct entry *e = entry_at(k, k->tail);

	while (e->kind == ENTRY_WRAP || e->kind == ENTRY_REMOVED) {
		remove_oldest(k, e->size);
		if (k->head == k->tail)
			return NULL;
		e = entry_at(k, k->tail);
	}
	return e;
}

static void read_entry(struct hk_worker *w, const struct entry *e, struct hk_rx_backlog_entry *k)
{
	*k = (struct hk_rx_backlog_entry){
		.peer = e->peer,
		.am = e->am,
		.stale = e->incarnation != w->peer[e->peer].incarnation,
		.iov = {e + 1, e->len},
	};
	if (e->kind == ENTRY_BUFFERS) {
		memcpy(&k->m, e + 1, sizeof(k->m));
		w->rx_backlog.frames -= hk_rx_note(k->m)->count;
		hk_engine_rx_held(w->engine, k->peer, -(int)hk_rx_note(k->m)->count);
	}
}

bool hk_rx_backlog_next(struct hk_worker *w, struct hk_rx_backlog_entry *k)
{
	const struct entry *e = first(&w->rx_backlog);

	if (!e)
		return false;
	remove_oldest(&w->rx_backlog,
		      e->size); /* nobody writes there before the application stops polling */
	read_entry(w, e, k);
	return true;
}

void hk_rx_backlog_trim(struct hk_worker *w)
{
	(void)first(&w->rx_backlog);
}

bool hk_rx_backlog_next_own(struct hk_worker *w, uint64_t *at, struct hk_rx_backlog_entry *k)
{
	while (*at != w->rx_backlog.head) {
		struct entry *e = entry_at(&w->rx_backlog, *at);
		struct rte_mbuf *m = NULL;

		*at += e->size;
		if (e->kind == ENTRY_BUFFERS)
			memcpy(&m, e + 1, sizeof(m));
		if ((e->kind != ENTRY_COPY && !m) || w->peer[e->peer].ended_unseen ||
		    (!hk_am_own(e->am) && !(m && hk_rx_note(m)->put)))
			continue;
		read_entry(w, e, k);
		e->kind = ENTRY_REMOVED;
		return true;
	}
	return false;
}

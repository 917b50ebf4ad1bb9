/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/alloc.c: the allocator of alloc.h. Pieces are linked in the order of their offsets.
 * Free pieces are also in lists by size, and blocks in use are in a hash table.
 */
#include "devmem/pop/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_LOG 5
#define SECOND     (1u << SECOND_LOG)
#define FIRST      42u /* sizes in grains below 2^(FIRST + SECOND_LOG - 1) */
#define NO_PIECE   UINT32_MAX
#define NO_SLOT    SIZE_MAX

/* A piece of the range, in grains. Unused elements of the table are linked by `next`. */
struct piece {
	uint64_t at;
	uint64_t len : 63;
	uint64_t free : 1;
	uint32_t before, after; /* neighbours in the range */
	uint32_t prev, next;    /* in the list of its size, if free */
};

struct hk_alloc {
	uint64_t grains, used; /* grains of the range, and of blocks */
	uint64_t blocks, free_pieces;
	struct piece *pieces;
	uint32_t pieces_max, spare; /* spare: first of the list of unused elements */
	uint32_t first;             /* the piece at offset 0 */
	uint32_t *slots;            /* hash table of blocks in use: index of a piece, or NO_PIECE */
	size_t slots_max;           /* a power of two */
	uint64_t first_map;
	uint32_t second_map[FIRST];
	uint32_t lists[FIRST][SECOND];
};

/* ---- sizes to lists -------------------------------------------------------------------------- */

/* Finds the list for pieces of @n grains. */
static void list_of(uint64_t n, unsigned *f, unsigned *s)
{
	if (n < SECOND) {
		*f = 0;
		*s = (unsigned)n;
		return;
	}
	unsigned top = 63u - (unsigned)__builtin_clzll(n);
	*f = top - SECOND_LOG + 1;
	*s = (unsigned)(n >> (top - SECOND_LOG)) - SECOND;
}

/* Rounds @n up, so that every piece in the list of the result has at least @n grains. */
static uint64_t round_to_list(uint64_t n)
{
	if (n < SECOND)
		return n;
	unsigned top = 63u - (unsigned)__builtin_clzll(n);
	uint64_t step = UINT64_C(1) << (top - SECOND_LOG);
	return (n + step - 1) & ~(step - 1);
}

static void list_add(struct hk_alloc *a, uint32_t i)
{
	unsigned f, s;
	struct piece *p = &a->pieces[i];

	list_of(p->len, &f, &s);
	p->free = 1;
	p->prev = NO_PIECE;
	p->next = a->lists[f][s];
	if (p->next != NO_PIECE)
		a->pieces[p->next].prev = i;
	a->lists[f][s] = i;
	a->first_map |= UINT64_C(1) << f;
	a->second_map[f] |= 1u << s;
	a->free_pieces++;
}

static void list_remove(struct hk_alloc *a, uint32_t i)
{
	unsigned f, s;
	struct piece *p = &a->pieces[i];

	list_of(p->len, &f, &s);
	if (p->next != NO_PIECE)
		a->pieces[p->next].prev = p->prev;
	if (p->prev != NO_PIECE) {
		a->pieces[p->prev].next = p->next;
	} else {
		a->lists[f][s] = p->next;
		if (p->next == NO_PIECE) {
			a->second_map[f] &= ~(1u << s);
			if (!a->second_map[f])
				a->first_map &= ~(UINT64_C(1) << f);
		}
	}
	p->free = 0;
	a->free_pieces--;
}

/* Returns a free piece of at least @n grains, or NO_PIECE. */
static uint32_t list_find(const struct hk_alloc *a, uint64_t n)
{
	unsigned f, s;

	list_of(round_to_list(n), &f, &s);
	if (f >= FIRST)
		return NO_PIECE;
	uint32_t here = a->second_map[f] & (~0u << s);
	if (!here) {
		uint64_t above = f + 1 < 64 ? a->first_map & (~UINT64_C(0) << (f + 1)) : 0;
		if (!above)
			return NO_PIECE;
		f = (unsigned)__builtin_ctzll(above);
		here = a->second_map[f];
	}
	return a->lists[f][__builtin_ctz(here)];
}

/* ---- tables that grow ------------------------------------------------------------------------ */

/* Ensures two unused elements: a block may be cut out of the middle of a piece. */
static bool have_spare(struct hk_alloc *a)
{
	if (a->spare != NO_PIECE && a->pieces[a->spare].next != NO_PIECE)
		return true;
	uint32_t max = a->pieces_max ? a->pieces_max * 2 : 64;
	if (max <= a->pieces_max)
		return false;
	struct piece *more = realloc(a->pieces, (size_t)max * sizeof(*more));
	if (!more)
		return false;
	a->pieces = more;
	for (uint32_t i = max; i-- > a->pieces_max;) {
		more[i].next = a->spare;
		a->spare = i;
	}
	a->pieces_max = max;
	return true;
}

static uint32_t new_piece(struct hk_alloc *a, uint64_t at, uint64_t len)
{
	uint32_t i = a->spare;
	struct piece *p = &a->pieces[i];

	a->spare = p->next;
	*p = (struct piece){.at = at, .len = len, .before = NO_PIECE, .after = NO_PIECE};
	return i;
}

static size_t slot_of(const struct hk_alloc *a, uint64_t at)
{
	return (size_t)((at * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (a->slots_max - 1);
}

static void slot_put(struct hk_alloc *a, uint32_t i)
{
	size_t k = slot_of(a, a->pieces[i].at);
	while (a->slots[k] != NO_PIECE)
		k = (k + 1) & (a->slots_max - 1);
	a->slots[k] = i;
}

/* Ensures that the hash table is at most half full with one block more. */
static bool have_slot(struct hk_alloc *a)
{
	if ((a->blocks + 1) * 2 <= a->slots_max)
		return true;
	size_t max = a->slots_max ? a->slots_max * 2 : 64;
	uint32_t *old = a->slots, *more = malloc(max * sizeof(*more));
	size_t old_max = a->slots_max;
	if (!more)
		return false;
	memset(more, 0xff, max * sizeof(*more));
	a->slots = more;
	a->slots_max = max;
	for (size_t k = 0; k < old_max; k++) {
		if (old[k] != NO_PIECE)
			slot_put(a, old[k]);
	}
	free(old);
	return true;
}

static size_t slot_find(const struct hk_alloc *a, uint64_t offset)
{
	if (offset % HK_ALLOC_GRAIN || !a->slots_max)
		return NO_SLOT;
	uint64_t at = offset / HK_ALLOC_GRAIN;
	for (size_t k = slot_of(a, at); a->slots[k] != NO_PIECE; k = (k + 1) & (a->slots_max - 1)) {
		if (a->pieces[a->slots[k]].at == at)
			return k;
	}
	return NO_SLOT;
}

/* Removes the entry at @gap. Later entries whose search passes the gap move up, so that no search
 * ends too early. */
static void slot_clear(struct hk_alloc *a, size_t gap)
{
	size_t mask = a->slots_max - 1;

	for (size_t k = (gap + 1) & mask; a->slots[k] != NO_PIECE; k = (k + 1) & mask) {
		size_t home = slot_of(a, a->pieces[a->slots[k]].at);
		if (((k - home) & mask) >= ((k - gap) & mask)) {
			a->slots[gap] = a->slots[k];
			gap = k;
		}
	}
	a->slots[gap] = NO_PIECE;
}

/* ---- take and give --------------------------------------------------------------------------- */

struct hk_alloc *hk_alloc_new(uint64_t size)
{
	struct hk_alloc *a = calloc(1, sizeof(*a));

	if (!a || size < HK_ALLOC_GRAIN || size > HK_ALLOC_SIZE_MAX) {
		free(a);
		return NULL;
	}
	a->spare = NO_PIECE;
	memset(a->lists, 0xff, sizeof(a->lists));
	a->grains = size / HK_ALLOC_GRAIN;
	if (!have_spare(a)) {
		free(a);
		return NULL;
	}
	a->first = new_piece(a, 0, a->grains);
	list_add(a, a->first);
	return a;
}

void hk_alloc_delete(struct hk_alloc *a)
{
	if (!a)
		return;
	free(a->pieces);
	free(a->slots);
	free(a);
}

/* Cuts piece @i, which is in no list, after @len grains. The remainder becomes a free piece. */
static void cut(struct hk_alloc *a, uint32_t i, uint64_t len)
{
	uint32_t rest = new_piece(a, a->pieces[i].at + len, a->pieces[i].len - len);
	struct piece *p = &a->pieces[i], *r = &a->pieces[rest];

	p->len = len;
	r->before = i;
	r->after = p->after;
	p->after = rest;
	if (r->after != NO_PIECE)
		a->pieces[r->after].before = rest;
	list_add(a, rest);
}

uint64_t hk_alloc_take(struct hk_alloc *a, uint64_t size, uint64_t align)
{
	if (align == 0)
		align = HK_ALLOC_GRAIN;
	if (size == 0 || size > HK_ALLOC_SIZE_MAX || (align & (align - 1)) ||
	    align > HK_ALLOC_ALIGN_MAX || !have_spare(a) || !have_slot(a))
		return HK_ALLOC_NONE;
	uint64_t len = (size + HK_ALLOC_GRAIN - 1) / HK_ALLOC_GRAIN;
	uint64_t step = HK_MAX(align / HK_ALLOC_GRAIN, UINT64_C(1));

	uint32_t i = list_find(a, len + step - 1);
	if (i == NO_PIECE)
		i = list_find(a, len); /* a smaller piece may be aligned by chance */
	if (i == NO_PIECE)
		return HK_ALLOC_NONE;
	uint64_t skip = -a->pieces[i].at & (step - 1);
	if (a->pieces[i].len < skip + len)
		return HK_ALLOC_NONE;
	list_remove(a, i);
	if (skip) {
		/* The skipped part stays free. The piece before it is in use: two free pieces never
		 * touch. */
		uint64_t len_all = a->pieces[i].len;
		uint32_t body = new_piece(a, a->pieces[i].at + skip, len_all - skip);
		struct piece *p = &a->pieces[i], *b = &a->pieces[body];
		p->len = skip;
		b->before = i;
		b->after = p->after;
		p->after = body;
		if (b->after != NO_PIECE)
			a->pieces[b->after].before = body;
		list_add(a, i);
		i = body;
	}
	if (a->pieces[i].len > len)
		cut(a, i, len);
	slot_put(a, i);
	a->used += len;
	a->blocks++;
	return a->pieces[i].at * HK_ALLOC_GRAIN;
}

/* Joins @i with the piece after it. Both are in no list. */
static void join(struct hk_alloc *a, uint32_t i)
{
	struct piece *p = &a->pieces[i];
	uint32_t gone = p->after;
	struct piece *g = &a->pieces[gone];

	p->len += g->len;
	p->after = g->after;
	if (p->after != NO_PIECE)
		a->pieces[p->after].before = i;
	g->next = a->spare;
	a->spare = gone;
}

int hk_alloc_give(struct hk_alloc *a, uint64_t offset)
{
	size_t k = slot_find(a, offset);
	if (k == NO_SLOT)
		return -EINVAL;
	uint32_t i = a->slots[k];
	slot_clear(a, k);
	a->used -= a->pieces[i].len;
	a->blocks--;

	uint32_t after = a->pieces[i].after, before = a->pieces[i].before;
	if (after != NO_PIECE && a->pieces[after].free) {
		list_remove(a, after);
		join(a, i);
	}
	if (before != NO_PIECE && a->pieces[before].free) {
		list_remove(a, before);
		join(a, before);
		i = before;
	}
	list_add(a, i);
	return 0;
}

/* ---- queries --------------------------------------------------------------------------------- */

uint64_t hk_alloc_size(const struct hk_alloc *a, uint64_t offset)
{
	size_t k = slot_find(a, offset);
	return k == NO_SLOT ? 0 : a->pieces[a->slots[k]].len * HK_ALLOC_GRAIN;
}

void hk_alloc_usage(const struct hk_alloc *a, struct hk_alloc_usage *out)
{
	uint64_t largest = 0;

	if (a->first_map) {
		unsigned f = 63u - (unsigned)__builtin_clzll(a->first_map);
		unsigned s = 31u - (unsigned)__builtin_clz(a->second_map[f]);
		for (uint32_t i = a->lists[f][s]; i != NO_PIECE; i = a->pieces[i].next)
			largest = HK_MAX(largest, (uint64_t)a->pieces[i].len);
	}
	*out = (struct hk_alloc_usage){.used = a->used * HK_ALLOC_GRAIN,
				       .free = (a->grains - a->used) * HK_ALLOC_GRAIN,
				       .largest_free = largest * HK_ALLOC_GRAIN,
				       .blocks = a->blocks,
				       .free_pieces = a->free_pieces};
}

const char *hk_alloc_check(const struct hk_alloc *a)
{
	uint64_t at = 0, used = 0, blocks = 0, free_pieces = 0, listed = 0;
	uint32_t before = NO_PIECE;
	bool was_free = false;

	for (uint32_t i = a->first; i != NO_PIECE; i = a->pieces[i].after) {
		const struct piece *p = &a->pieces[i];
		if (p->at != at || p->len == 0 || p->before != before)
			return "pieces do not follow each other";
		if (p->free && was_free)
			return "two free pieces touch";
		if (!p->free && slot_find(a, at * HK_ALLOC_GRAIN) == NO_SLOT)
			return "a block is not in the table";
		used += p->free ? 0 : p->len;
		blocks += !p->free;
		free_pieces += p->free;
		at += p->len;
		was_free = p->free;
		before = i;
	}
	if (at != a->grains)
		return "pieces do not fill the range";
	if (used != a->used || blocks != a->blocks || free_pieces != a->free_pieces)
		return "counters are wrong";
	for (unsigned f = 0; f < FIRST; f++) {
		for (unsigned s = 0; s < SECOND; s++) {
			bool marked = a->second_map[f] & 1u << s;
			if (marked != (a->lists[f][s] != NO_PIECE))
				return "a list's mark is wrong";
			for (uint32_t i = a->lists[f][s]; i != NO_PIECE; i = a->pieces[i].next) {
				unsigned pf, ps;
				list_of(a->pieces[i].len, &pf, &ps);
				if (pf != f || ps != s || !a->pieces[i].free)
					return "a piece is in the wrong list";
				listed++;
			}
		}
	}
	return listed == free_pieces ? NULL : "a free piece is in no list";
}

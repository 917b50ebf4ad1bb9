/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/region.c: memory that peers reach, and what they do to it: puts are placed, gets are served
 * by a put of ours.
 *
 * An id is the number of a slot and its generation, so that one that is out of date finds nothing.
 */
#include "fabric/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_NONE UINT32_MAX

static void on_get(void *arg, hk_peer p, uint8_t am, const struct hk_iov *iov, unsigned count);

static unsigned serves(const struct hk_fabric *f)
{
	return HK_SERVES + f->cfg.engine.max_peers;
}

int hk_regions_open(struct hk_fabric *f)
{
	unsigned n = f->cfg.regions + HK_GETS_MAX;

	if (f->cfg.regions == 0 || f->cfg.regions > HK_REGIONS_MAX)
		return -EINVAL;
	f->regions = f->regions_left = n;
	f->region = calloc(n, sizeof(*f->region));
	f->serve = calloc(serves(f), sizeof(*f->serve));
	if (!f->region || !f->serve)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++)
		f->region[i].next_free = i + 1 < n ? i + 1 : SLOT_NONE;
	for (unsigned i = serves(f); i-- > 0;) {
		f->serve[i].item.next = f->serve_free;
		f->serve_free = &f->serve[i].item;
	}
	if (hk_atoms_open(f) != 0)
		return -ENOMEM;
	f->serves_left = HK_SERVES;
	f->am[HK_WIRE_AM_GET].fn = on_get;
	f->am[HK_WIRE_AM_GET].arg = f;
	return 0;
}

void hk_regions_close(struct hk_fabric *f)
{
	hk_atoms_close(f);
	hk_later_close(f);
	free(f->region);
	free(f->serve);
}

/* ---- the table ------------------------------------------------------------------------------- */

struct hk_region_slot *hk_region_find(const struct hk_fabric *f, hk_region r)
{
	uint32_t i = r & 0xffff;

	if (HK_UNLIKELY(i >= f->regions || !f->region[i].access ||
			f->region[i].generation != r >> 16))
		return NULL;
	return &f->region[i];
}

hk_region hk_region_new(struct hk_fabric *f, void *base, size_t len, unsigned access, hk_peer peer,
			struct hk_op *get)
{
	uint32_t i = f->region_free;

	/* the last are for gets, so that these go on; access 0 marks a free slot */
	if (HK_UNLIKELY(i == SLOT_NONE || !access || (!get && f->regions_left <= HK_GETS_MAX)))
		return HK_REGION_NONE;
	struct hk_region_slot *s = &f->region[i];
	uint16_t generation = (uint16_t)(s->generation + 1);

	generation += generation == 0; /* an id is never 0 */
	f->region_free = s->next_free;
	f->regions_left--;
	*s = (struct hk_region_slot){
		.base = base,
		.len = len,
		.peer = peer,
		.generation = generation,
		.access = (uint8_t)access,
		.get = get,
	};
	return (uint32_t)generation << 16 | i;
}

hk_region hk_fabric_region_add(struct hk_fabric *f, void *base, size_t len, unsigned access,
			       hk_peer peer)
{
	hk_biased_enter(&f->lock);
	hk_region r = hk_region_new(f, base, len, access, peer, NULL);

	hk_biased_leave(&f->lock);
	return r;
}

/* Refuses a get. From the reserve, for whoever asked waits for it. What waits of them is limited, as is what an
 * honest peer asks; and those on their way are, by its window. */
static void refuse_in(struct hk_fabric *f, hk_peer p, const void *bytes, size_t len, hk_buf *b)
{
	memcpy(hk_buf_data(b), bytes, len);
	if (hk_tx_message(f, p, HK_WIRE_AM_GET, &b, &len, 1, true) == 1) {
		hk_note(b)->refusal = true;
		f->peer[p].refusals_wait++;
	}
}

static void refuse(struct hk_fabric *f, hk_peer p, struct hk_wire_get g,
		   enum hk_wire_get_status status)
{
	char head[HK_WIRE_GET_LEN];
	hk_buf *b;

	if (HK_UNLIKELY(f->peer[p].refusals_wait == HK_GETS_MAX)) {
		f->n.get_excess++;
		return;
	}
	f->n.get_refused++;
	g.status = status;
	hk_wire_put_get(head, &g);
	if (HK_LIKELY((b = hk_later_buf(f, p)) != NULL))
		refuse_in(f, p, head, sizeof(head), b);
	else if (!hk_later_add(f, p, refuse_in, head, sizeof(head)))
		f->n.get_excess++;
}

/* The memory of @r is about to be taken away: what peers were getting from it ends here. Rare, since
 * who takes back memory knows by then that it was read. */
static void serves_cancel(struct hk_fabric *f, hk_region r)
{
	for (unsigned i = 0; i < serves(f); i++) {
		struct hk_op *op = &f->serve[i];

		if (!op->serves || op->local != r)
			continue;
		hk_put_unlend(f, op);
		if (op->sent < op->len)
			refuse(f, op->peer,
			       (struct hk_wire_get){.len = op->len, .to_region = op->remote},
			       HK_WIRE_GET_DENIED);
		op->len = op->sent;
	}
}

void hk_region_end(struct hk_fabric *f, hk_region r)
{
	struct hk_region_slot *s = hk_region_find(f, r);

	if (!s)
		return;
	if (HK_UNLIKELY(s->serving)) {
		hk_tx_reap(f); /* mostly they are acknowledged */
		if (s->serving)
			serves_cancel(f, r);
	}
	s->access = 0;
	s->get = NULL;
	s->inbox = NULL;
	s->next_free = f->region_free;
	f->region_free = r & 0xffff;
	f->regions_left++;
}

void hk_fabric_region_del(struct hk_fabric *f, hk_region r)
{
	hk_biased_enter(&f->lock);
	hk_region_end(f, r);
	hk_biased_leave(&f->lock);
}

uint64_t hk_fabric_region_arrived(const struct hk_fabric *f, hk_region r)
{
	const struct hk_region_slot *s = hk_region_find(f, r);

	return s ? s->arrived : 0;
}

/* May @p touch @len bytes at @offset of @s in this way? */
static bool allowed(const struct hk_region_slot *s, hk_peer p, unsigned access, uint64_t offset,
		    uint64_t len)
{
	return s && (s->access & access) == access && (s->peer == HK_PEER_NONE || s->peer == p) &&
	       offset <= s->len && len <= s->len - offset;
}

/* Where that lies, if @p may touch it in all the ways of @access; else NULL. */
char *hk_region_at(const struct hk_fabric *f, hk_peer p, hk_region r, unsigned access,
		   uint64_t offset, uint64_t len)
{
	const struct hk_region_slot *s = hk_region_find(f, r);

	/* an inbox has no memory of its own: where its bytes go hk_put_in() alone knows */
	return allowed(s, p, access, offset, len) && !s->inbox ? s->base + offset : NULL;
}

/* ---- what peers do --------------------------------------------------------------------------- */

void hk_put_in(struct hk_fabric *f, hk_peer p, const struct hk_frame *frame)
{
	const struct hk_wire_put *put = &frame->put;
	struct hk_region_slot *s = hk_region_find(f, put->region);
	uint16_t len = frame->payload_len;

	if (HK_UNLIKELY(!allowed(s, p, HK_REGION_WRITE, put->offset, len) ||
			(s->get && !s->get->asked) || (put->xfer != 0) != (s->inbox != NULL))) {
		f->n.put_refused++;
		return;
	}
	if (s->inbox) {
		if (HK_LIKELY(hk_inbox_in(s->inbox, put, frame->payload, len)))
			f->n.put_bytes_in += len;
		else
			f->n.put_refused++;
		return;
	}
	memcpy(s->base + put->offset, frame->payload, len);
	s->arrived += len;
	f->n.put_bytes_in += len;
	if (s->get && s->arrived >= s->len)
		hk_get_end(f, s->get, 0);
}

/* Returns a refusal, or 0. Each peer has one place of its own, and of the common ones as many as are left: so
 * those who have many wait first ("dynamic thresholds", Choudhury and Hahne 1998). */
static enum hk_wire_get_status serve(struct hk_fabric *f, hk_peer p, const struct hk_wire_get *g)
{
	struct hk_region_slot *s = hk_region_find(f, g->region);
	struct hk_op *op = (struct hk_op *)f->serve_free; /* there is one for all who may */
	struct hk_peer_tx *t = &f->peer[p];

	if (!allowed(s, p, HK_REGION_READ, g->offset, g->len))
		return HK_WIRE_GET_DENIED;
	if (t->serves && t->serves > f->serves_left)
		return HK_WIRE_GET_BUSY;
	f->serve_free = op->item.next;
	f->serves_left -= t->serves++ > 0;
	t->serves_wait++;
	f->serves_wait++;
	s->serving++;
	f->n.gets_served++;
	*op = (struct hk_op){
		.peer = p,
		.remote = g->to_region,
		.local = g->region,
		.serves = true,
		.base = s->base + g->offset,
		.len = g->len,
		.offset = g->to_offset,
	};
	hk_put_start(f, op);
	return 0;
}

/* All of it is sent, or its peer is gone. */
void hk_serve_sent(struct hk_fabric *f, const struct hk_op *op)
{
	f->peer[op->peer].serves_wait--;
	f->serves_wait--;
}

void hk_serve_end(struct hk_fabric *f, struct hk_op *op)
{
	struct hk_region_slot *s = hk_region_find(f, op->local);

	if (s)
		s->serving--;
	op->serves = false;
	f->serves_left += --f->peer[op->peer].serves > 0;
	op->item.next = f->serve_free;
	f->serve_free = &op->item;
}

/* Our get was refused. */
static void refused(struct hk_fabric *f, hk_peer p, const struct hk_wire_get *g)
{
	struct hk_region_slot *s = hk_region_find(f, g->to_region);

	/* one that was not asked, or answered already, waits for nothing */
	if (!s || !s->get || !s->get->asked || s->peer != p)
		return;
	if (g->status == HK_WIRE_GET_BUSY) {
		s->arrived = 0;
		hk_get_again(f, s->get);
	} else
		hk_get_end(f, s->get, -EACCES);
}

static void on_get(void *arg, hk_peer p, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	struct hk_fabric *f = arg;
	struct hk_wire_get g;

	(void)am;
	if (count != 1 || !hk_wire_parse_get(iov[0].base, iov[0].len, &g)) {
		f->n.get_refused++;
		return;
	}
	if (g.status != HK_WIRE_GET_REQUEST) {
		refused(f, p, &g);
		return;
	}
	if (HK_UNLIKELY(f->peer[p].serves_wait == HK_GETS_MAX)) {
		f->n.get_excess++; /* nobody honest asks for so much */
		return;
	}
	enum hk_wire_get_status no = serve(f, p, &g);

	if (no)
		refuse(f, p, g, no);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/atomic.c: operations that the owner of a region does and answers, ours and our peers'.
 *
 * Ours under way stand in a table; its slot and generation are the token that the answer brings back. A peer
 * has at most HK_ATOMS_MAX of them, so answers that wait for room in its window are never more; of all
 * together there are HK_ATOMS. What goes beyond waits at its peer.
 */
#include "fabric/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct hk_atom_slot {
	struct hk_atom *atom; /* NULL: free */
	uint16_t generation;
	uint16_t next_free;
};

#define SLOT_NONE UINT16_MAX
_Static_assert(HK_ATOMS < SLOT_NONE, "slots are numbered by 16 bits");

static void on_atomic(void *arg, hk_peer p, uint8_t am, const struct hk_iov *iov, unsigned count);

int hk_atoms_open(struct hk_fabric *f)
{
	f->atom = calloc(HK_ATOMS, sizeof(*f->atom));
	if (!f->atom)
		return -ENOMEM;
	for (unsigned i = 0; i < HK_ATOMS; i++)
		f->atom[i].next_free = i + 1u < HK_ATOMS ? (uint16_t)(i + 1) : SLOT_NONE;
	f->am[HK_WIRE_AM_ATOMIC].fn = on_atomic;
	f->am[HK_WIRE_AM_ATOMIC].arg = f;
	return 0;
}

void hk_atoms_close(struct hk_fabric *f)
{
	free(f->atom);
}

size_t hk_fabric_atomic_max(const struct hk_fabric *f)
{
	return f->frame_payload - HK_WIRE_ATOMIC_LEN;
}

/* ---- ours ------------------------------------------------------------------------------------ */

static uint32_t slot_take(struct hk_fabric *f, struct hk_atom *a)
{
	uint16_t i = f->atom_free;
	struct hk_atom_slot *s = &f->atom[i];

	f->atom_free = s->next_free;
	s->atom = a;
	s->generation++;
	s->generation += s->generation == 0; /* a token is never 0 */
	return (uint32_t)s->generation << 16 | i;
}

static struct hk_atom *slot_find(const struct hk_fabric *f, hk_peer p, uint32_t token)
{
	uint32_t i = token & 0xffff;

	if (HK_UNLIKELY(i >= HK_ATOMS || !f->atom[i].atom || f->atom[i].generation != token >> 16 ||
			f->atom[i].atom->op.peer != p))
		return NULL;
	return f->atom[i].atom;
}

/* All peers of an owner may ask it at once, and its answers come from one reserve, which acknowledgements and
 * resends use, too. As far as we know it has as many peers as we. */
static unsigned atoms_max(const struct hk_fabric *f)
{
	unsigned share = HK_FABRIC_TX_SLACK / 2 / (f->peers_added + 1);

	return HK_MAX(HK_MIN(share, (unsigned)HK_ATOMS_MAX), 1u);
}

/* Sends the request if there is room for one more; else false. */
static bool ask(struct hk_fabric *f, struct hk_atom *a)
{
	struct hk_peer_tx *t = &f->peer[a->op.peer];
	size_t len = HK_WIRE_ATOMIC_LEN;
	hk_buf *b;

	if (t->atoms_out >= atoms_max(f) || f->atom_free == SLOT_NONE || !(b = hk_tx_take(f)))
		return false;
	a->ask.token = slot_take(f, a);
	hk_wire_put_atomic(hk_buf_data(b), &a->ask);
	if (hk_wire_atomic_carries(&a->ask)) {
		memcpy((char *)hk_buf_data(b) + len, a->op.base, a->ask.len);
		len += a->ask.len;
	}
	t->atoms_out++;
	/* if the peer has just gone, its verdict ends this operation: see hk_atoms_forget() */
	(void)hk_tx_message(f, a->op.peer, HK_WIRE_AM_ATOMIC, &b, &len, 1, true);
	return true;
}

static void peer_atoms_go(struct hk_fabric *f, hk_peer p)
{
	struct hk_peer_tx *t = &f->peer[p];

	while (t->atoms_head && !t->gone) {
		struct hk_item *item = t->atoms_head, *next = item->next;

		if (!ask(f, (struct hk_atom *)item))
			break;
		t->atoms_head = next;
	}
}

/* Asks for what waited. */
void hk_atoms_go(struct hk_fabric *f)
{
	for (uint32_t *link = &f->list[HK_LIST_ATOMS]; *link != HK_PEER_NONE;) {
		hk_peer p = *link;

		peer_atoms_go(f, p);
		link = hk_list_step(f, HK_LIST_ATOMS, link, f->peer[p].atoms_head != NULL);
	}
}

/* The operation in slot @i has ended. */
static void end(struct hk_fabric *f, uint16_t i, int status)
{
	struct hk_atom_slot *s = &f->atom[i];
	struct hk_atom *a = s->atom;

	s->atom = NULL;
	s->next_free = f->atom_free;
	f->atom_free = i;
	f->peer[a->op.peer].atoms_out--;
	a->op.status = status;
	hk_op_done(f, &a->op);
}

static void answered(struct hk_fabric *f, hk_peer p, const struct hk_wire_atomic *w,
		     const void *data)
{
	struct hk_atom *a = slot_find(f, p, w->token);

	/* of none of ours, or not what was asked: nobody waits for it */
	if (HK_UNLIKELY(!a || a->ask.op != w->op || a->ask.len != w->len)) {
		f->n.atomic_refused++;
		return;
	}
	a->old = w->operand;
	if (hk_wire_atomic_carries(w))
		memcpy(a->op.base, data, w->len);
	end(f, w->token & 0xffff, w->status == HK_WIRE_ATOMIC_DONE ? 0 : -EACCES);
	if (HK_UNLIKELY(f->peer[p].atoms_head != NULL))
		peer_atoms_go(f, p);
}

int hk_fabric_atomic(struct hk_fabric *f, hk_peer p, struct hk_atom *a,
		     const struct hk_wire_atomic *what, void *data, hk_done_fn done, void *arg)
{
	struct hk_wire_atomic w = *what;
	uint8_t head[HK_WIRE_ATOMIC_LEN];
	struct hk_peer_tx *t = &f->peer[p];
	int rc = -ENOTCONN;

	w.status = HK_WIRE_ATOMIC_REQUEST;
	w.token = 1;
	hk_wire_put_atomic(head, &w);
	if (w.len > hk_fabric_atomic_max(f) ||
	    !hk_wire_parse_atomic(head, sizeof(head) + (hk_wire_atomic_carries(&w) ? w.len : 0),
				  &w))
		return -EINVAL;
	*a = (struct hk_atom){
		.op = {.peer = p, .base = data, .done = done, .arg = arg},
		.ask = w,
	};
	hk_biased_enter(&f->lock);
	if (HK_LIKELY(hk_peer_talks(f, p))) {
		hk_peer_settle(f, p);
		f->n.atomics++;
		if (t->atoms_head || !ask(f, a)) {
			hk_items_append(&t->atoms_head, &t->atoms_tail, &a->op.item);
			hk_list_add(f, HK_LIST_ATOMS, p);
		}
		rc = 0;
	}
	hk_biased_leave(&f->lock);
	return rc;
}

/* The peer is lost or gone: so are our operations on it. */
void hk_atoms_forget(struct hk_fabric *f, hk_peer p)
{
	struct hk_peer_tx *t = &f->peer[p];

	for (uint16_t i = 0; t->atoms_out && i < HK_ATOMS; i++)
		if (f->atom[i].atom && f->atom[i].atom->op.peer == p)
			end(f, i, -ENOTCONN);
	while (t->atoms_head) {
		struct hk_op *op = (struct hk_op *)t->atoms_head;

		t->atoms_head = op->item.next;
		op->status = -ENOTCONN;
		hk_op_done(f, op);
	}
}

/* ---- our peers' ------------------------------------------------------------------------------ */

/* One operation on the word of type @type at @at; gives what lay there. */
#define APPLY(type, at, w, old)                                                                    \
	do {                                                                                       \
		type *at_ = (type *)(at);                                                          \
		type operand_ = (type)(w)->operand, old_ = (type)(w)->compare;                     \
		switch ((w)->op) {                                                                 \
		case HK_ATOMIC_ADD:                                                                \
			old_ = __atomic_fetch_add(at_, operand_, __ATOMIC_SEQ_CST);                \
			break;                                                                     \
		case HK_ATOMIC_AND:                                                                \
			old_ = __atomic_fetch_and(at_, operand_, __ATOMIC_SEQ_CST);                \
			break;                                                                     \
		case HK_ATOMIC_OR:                                                                 \
			old_ = __atomic_fetch_or(at_, operand_, __ATOMIC_SEQ_CST);                 \
			break;                                                                     \
		case HK_ATOMIC_XOR:                                                                \
			old_ = __atomic_fetch_xor(at_, operand_, __ATOMIC_SEQ_CST);                \
			break;                                                                     \
		case HK_ATOMIC_SWAP:                                                               \
			old_ = __atomic_exchange_n(at_, operand_, __ATOMIC_SEQ_CST);               \
			break;                                                                     \
		default: /* CAS: gives old_ what lies there, if that is another value */           \
			(void)__atomic_compare_exchange_n(at_, &old_, operand_, false,             \
							  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);     \
		}                                                                                  \
		(old) = old_;                                                                      \
	} while (0)

uint64_t hk_atomic_apply(const struct hk_wire_atomic *w, void *at)
{
	uint64_t old;

	if (w->size == 8)
		APPLY(uint64_t, at, w, old);
	else
		APPLY(uint32_t, at, w, old);
	return old;
}

/* Does what a peer asks; false if it may not. @data: the bytes of a WRITE; @out: room for those of a READ. */
static bool apply(struct hk_fabric *f, hk_peer p, struct hk_wire_atomic *w, const void *data,
		  void *out)
{
	static const uint8_t rights[HK_ATOMIC_KINDS] = {
		[HK_ATOMIC_WRITE] = HK_REGION_WRITE, [HK_ATOMIC_READ] = HK_REGION_READ};
	unsigned need = rights[w->op] ? rights[w->op] : HK_REGION_READ | HK_REGION_WRITE;
	char *at;

	if (w->op == HK_ATOMIC_FENCE)
		return true;
	at = hk_region_at(f, p, w->region, need, w->offset, w->size ? w->size : w->len);
	if (HK_UNLIKELY(!at || (w->size && (uintptr_t)at % w->size)))
		return false;
	if (w->op == HK_ATOMIC_WRITE)
		memcpy(at, data, w->len);
	else if (w->op == HK_ATOMIC_READ)
		memcpy(out, at, w->len);
	else
		w->operand = hk_atomic_apply(w, at);
	return true;
}

/* Answers, in @b, where the bytes of a READ lie already. */
static void answer(struct hk_fabric *f, hk_peer p, struct hk_wire_atomic *w, bool done, hk_buf *b)
{
	size_t len = HK_WIRE_ATOMIC_LEN;

	w->status = done ? HK_WIRE_ATOMIC_DONE : HK_WIRE_ATOMIC_DENIED;
	if (w->op == HK_ATOMIC_CAS)
		hk_parked_count(f, p, w);
	else
		w->compare = 0;
	if (hk_wire_atomic_carries(w))
		len += w->len;
	hk_wire_put_atomic(hk_buf_data(b), w);
	if (HK_LIKELY(done))
		f->n.atomics_served++;
	else
		f->n.atomic_refused++;
	if (hk_tx_message(f, p, HK_WIRE_AM_ATOMIC, &b, &len, 1, true) == 1) {
		hk_note(b)->answer = true;
		f->peer[p].answers_wait++;
	}
}

/* Does it and answers, in @b. */
static void serve_in(struct hk_fabric *f, hk_peer p, struct hk_wire_atomic *w, const void *data,
		     hk_buf *b)
{
	bool done = apply(f, p, w, data, (char *)hk_buf_data(b) + HK_WIRE_ATOMIC_LEN);

	answer(f, p, w, done, b);
}

static void serve_later(struct hk_fabric *f, hk_peer p, const void *bytes, size_t len, hk_buf *b)
{
	struct hk_wire_atomic w;

	(void)hk_wire_parse_atomic(bytes, len, &w); /* it was good when it came */
	serve_in(f, p, &w, (const char *)bytes + HK_WIRE_ATOMIC_LEN, b);
}

/* From the reserve, for whoever asked waits; what waits of answers is limited, as is what an honest peer asks. */
static void serve(struct hk_fabric *f, hk_peer p, struct hk_wire_atomic *w,
		  const struct hk_iov *request)
{
	const char *data = (const char *)request->base + HK_WIRE_ATOMIC_LEN;
	hk_buf *b;

	if (HK_UNLIKELY(f->peer[p].answers_wait >= HK_ATOMS_MAX ||
			w->len > hk_fabric_atomic_max(f)))
		f->n.atomic_excess++; /* nobody honest asks for so much */
	else if (HK_LIKELY((b = hk_later_buf(f, p)) != NULL))
		serve_in(f, p, w, data, b);
	else if (!hk_later_add(f, p, serve_later, request->base, request->len))
		f->n.atomic_excess++;
}

bool hk_atomic_hit(struct hk_fabric *f, hk_peer p, struct hk_wire_atomic w, hk_buf *b)
{
	char *bytes = (char *)hk_buf_data(b) + HK_WIRE_ATOMIC_LEN; /* there are none */
	bool done = apply(f, p, &w, bytes, bytes);

	if (done && hk_atomic_missed(&w))
		return false;
	answer(f, p, &w, done, b);
	return true;
}

void hk_atomic_serve(struct hk_fabric *f, hk_peer p, struct hk_wire_atomic *w)
{
	uint8_t head[HK_WIRE_ATOMIC_LEN];

	hk_wire_put_atomic(head, w);
	serve(f, p, w, &(struct hk_iov){.base = head, .len = sizeof(head)});
}

static void on_atomic(void *arg, hk_peer p, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	struct hk_fabric *f = arg;
	struct hk_wire_atomic w;

	(void)am;
	if (HK_UNLIKELY(count != 1 || !hk_wire_parse_atomic(iov[0].base, iov[0].len, &w))) {
		f->n.atomic_refused++;
		return;
	}
	if (w.status == HK_WIRE_ATOMIC_REQUEST) {
		if (hk_parked_full(f) && f->parked.peer == p)
			hk_parked_end(f);
		if (w.op != HK_ATOMIC_CAS || !hk_park(f, p, &w))
			serve(f, p, &w, &iov[0]);
		hk_parked_try(f);
	} else {
		answered(f, p, &w, (const char *)iov[0].base + HK_WIRE_ATOMIC_LEN);
	}
}

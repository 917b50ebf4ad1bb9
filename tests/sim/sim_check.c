/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/sim/sim_check.c: checks of messages and of frames; see sim.h.
 *
 * Messages carry their number and a pattern, so each part identifies itself. The monitor reads each
 * frame as it leaves its node, before the network changes it.
 */
#include "tests/sim/sim_internal.h"

/* ---- messages ------------------------------------------------------------------------------ */

static uint8_t pattern(uint32_t msg, uint8_t part, unsigned i)
{
	return (uint8_t)(msg * 131 + part * 29 + i * 7 + (i >> 8));
}

/* Writes number, part, length, and a pattern of all three. */
void sim_fill(uint8_t *payload, uint32_t msg, uint8_t part, uint16_t len)
{
	memcpy(payload, &msg, 4);
	payload[4] = part;
	payload[5] = 0x5a;
	memcpy(payload + 6, &len, 2);
	for (unsigned i = SIM_MIN_LEN; i < len; i++)
		payload[i] = pattern(msg, part, i);
}

/* Returns which part of which message arrived. Checks every byte, the sender and the receiver. */
uint32_t sim_arrived(struct sim *s, unsigned node, const struct hk_rx *rx, uint8_t *part)
{
	const struct hk_frame *f = &rx->f;
	const struct sim_node *n = &s->nodes[node];
	uint32_t id = 0;
	uint16_t len = 0;

	CHECK_CMP(f->payload_len, >=, SIM_MIN_LEN);
	memcpy(&id, f->payload, 4);
	*part = f->payload[4];
	memcpy(&len, f->payload + 6, 2);
	CHECK_MSG(id < s->msgs_len, "node %u was handed garbage", node);
	const struct sim_msg *m = &s->msgs[id];
	CHECK_EQ(m->to, node);
	CHECK_MSG(m->dst_epoch == n->epoch,
		  "message %u, for another incarnation of node %u, was delivered", id, node);
	CHECK_EQ(m->src_epoch, f->h.src_epoch);
	CHECK_EQ(f->h.src, s->nodes[m->from].endpoint);
	CHECK_EQ(m->type, f->h.type);
	CHECK_CMP(*part, <, m->frags);
	CHECK_EQ(len, m->len);
	CHECK_EQ(f->payload_len, m->len);
	for (unsigned i = SIM_MIN_LEN; i < len; i++)
		CHECK_MSG(f->payload[i] == pattern(id, *part, i),
			  "message %u part %u is wrong at byte %u", id, *part, i);
	if (m->type == HK_WIRE_PUT) {
		CHECK_EQ(f->put.region, ~id);
		CHECK_EQ(f->put.xfer, id);
		CHECK_EQ(f->put.offset, (uint64_t)*part * m->len);
	} else {
		CHECK_EQ(f->h.frag, *part);
		CHECK_EQ(f->h.frags, m->frags);
	}
	return id;
}

/* Checks that the node has got every packet before rx->next, which the engine says have arrived. */
void sim_check_next(struct sim *s, unsigned node, const struct hk_rx *rx)
{
	const struct hk_wire_hdr *h = &rx->f.h;
	int from = sim_node_by_endpoint(s, h->src);
	struct sim_dir *d = sim_dir(s, from, node);
	const unsigned slots = HK_ARRAY_LEN(d->arrived);

	if (h->src_epoch != s->nodes[from].epoch)
		return; /* the record belongs to a later incarnation */
	d->arrived[h->psn % slots] = UINT64_C(1) + h->psn;
	for (uint32_t psn = rx->next - 1; psn != d->handed - 1; psn--)
		CHECK_MSG(d->arrived[psn % slots] == UINT64_C(1) + psn,
			  "node %u: said to have all of node %d before %u, but not %u", node, from,
			  rx->next, psn);
	d->handed = rx->next;
	if (rx->result == HK_RX_DELIVER)
		CHECK_EQ(rx->last, h->psn - h->frag + rx->count - 1u);
}

void sim_part_done(struct sim *s, unsigned node, uint32_t msg, uint8_t part)
{
	struct sim_msg *m = &s->msgs[msg];
	uint64_t all = m->frags == 64 ? UINT64_MAX : (UINT64_C(1) << m->frags) - 1;

	CHECK_MSG(!(m->arrived >> part & 1), "node %u: part %u of message %u comes twice", node,
		  part, msg);
	m->arrived |= UINT64_C(1) << part;
	m->done_at = s->now;
	s->stats.delivered_bytes += m->len;
	if (m->arrived != all)
		return;
	m->delivered = true;
	s->stats.delivered++;
	if (m->must)
		s->undelivered--;
}

/* Allows the loss of messages of an ended incarnation. Epoch 0: of any. */
void sim_give_up(struct sim *s, unsigned from, unsigned to, uint32_t src_epoch, uint32_t dst_epoch)
{
	for (uint32_t i = 0; i < s->msgs_len; i++) {
		struct sim_msg *m = &s->msgs[i];
		if (m->must && !m->delivered && m->from == from && m->to == to && m->dst_epoch &&
		    (src_epoch == 0 || m->src_epoch == src_epoch) &&
		    (dst_epoch == 0 || m->dst_epoch == dst_epoch)) {
			m->must = false;
			s->undelivered--;
		}
	}
}

bool sim_delivered(const struct sim *s, unsigned msg)
{
	return s->msgs[msg].delivered;
}

uint64_t sim_delivered_at(const struct sim *s, unsigned msg)
{
	return s->msgs[msg].done_at;
}

/* ---- the monitor --------------------------------------------------------------------------- */

static void check_packet(struct sim *s, unsigned from, unsigned to, struct sim_dir *d,
			 const struct hk_wire_hdr *h)
{
	unsigned slot = h->psn % HK_WIRE_WINDOW;
	bool first;

	if (!d->began) {
		d->began = true;
		d->next = d->handed = h->psn;
		/* before it has received a frame, a peer may send one window */
		uint32_t start = h->psn + s->c.engine.window;
		if (!d->reported || hk_psn_before(d->limit, start))
			d->limit = start;
	}
	CHECK_MSG(!hk_psn_before(d->next, h->psn), "%u->%u: packet %u follows %u", from, to, h->psn,
		  d->next - 1);
	first = h->psn == d->next;
	CHECK_MSG(first == !(h->flags & HK_WIRE_F_RESENT), "%u->%u: packet %u, %s, is flagged %x",
		  from, to, h->psn, first ? "new" : "sent before", h->flags);
	CHECK_MSG(hk_psn_before(h->psn, d->limit),
		  "%u->%u: packet %u is beyond the credit, which ends at %u", from, to, h->psn,
		  d->limit);
	CHECK_EQ((h->flags & HK_WIRE_F_BULK) != 0,
		 s->c.engine.link_mbps && h->len >= HK_LONG_FRAME);
	if (first && h->flags & HK_WIRE_F_BULK) {
		CHECK_MSG(hk_psn_before(d->bulk, d->granted),
			  "%u->%u: sent %u bytes of bulk, of which %u are granted", from, to,
			  d->bulk, d->granted);
		d->bulk += h->len;
	}
	if (first) {
		d->next++;
		if (h->frag) {
			unsigned before = (h->psn - 1) % HK_WIRE_WINDOW;
			CHECK_MSG(d->sent[before].psn == h->psn - 1 &&
					  d->sent[before].frag == h->frag - 1 &&
					  d->sent[before].frags == h->frags,
				  "%u->%u: fragment %u does not follow its predecessor", from, to,
				  h->frag);
		}
		d->sent[slot].psn = h->psn;
		d->sent[slot].len = h->len;
		d->sent[slot].type = h->type;
		d->sent[slot].am = h->am;
		d->sent[slot].frag = h->frag;
		d->sent[slot].frags = h->frags;
		return;
	}
	CHECK_MSG(d->sent[slot].psn == h->psn && d->sent[slot].len == h->len &&
			  d->sent[slot].type == h->type && d->sent[slot].am == h->am &&
			  d->sent[slot].frag == h->frag && d->sent[slot].frags == h->frags,
		  "%u->%u: packet %u is resent, but is not what it was", from, to, h->psn);
}

/* Checks the header's acknowledgement of packets of the other direction, @r. */
static void check_ack(struct sim *s, unsigned from, unsigned to, struct sim_dir *r,
		      const struct hk_frame *f)
{
	uint32_t edge = f->h.ack + f->h.credit;

	CHECK_MSG(f->h.credit <= s->c.engine.window, "%u->%u: credit %u", from, to, f->h.credit);
	if (r->reported) {
		CHECK_MSG(!hk_psn_before(f->h.ack, r->ack), "%u->%u: ack went back, %u to %u", from,
			  to, r->ack, f->h.ack);
		CHECK_MSG(!hk_psn_before(edge, r->edge), "%u->%u: credit taken back, %u to %u",
			  from, to, r->edge, edge);
	}
	if (r->began) {
		CHECK_MSG(!hk_psn_before(r->next, f->h.ack),
			  "%u->%u: acknowledges %u, which was never sent", from, to, f->h.ack - 1);
		for (unsigned i = 1; f->h.type == HK_WIRE_ACK && i < HK_WIRE_WINDOW; i++) {
			if (f->sack.bits[i / 64] >> i % 64 & 1)
				CHECK_MSG(hk_psn_before(f->h.ack + i, r->next),
					  "%u->%u: has packet %u, which was never sent", from, to,
					  f->h.ack + i);
		}
	}
	if (!(r->reported || r->began) || hk_psn_before(r->limit, edge))
		r->limit = edge;
	r->edge = edge;
	r->ack = f->h.ack;
	r->reported = true;
}

void sim_monitor(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f)
{
	struct sim_node *n = &s->nodes[from];
	struct sim_dir *d = sim_dir(s, from, to);
	static const char *const names[] = {"?", "data", "put", "ack", "reset", "bye"};

	SIM_LOG(s, "%u->%u %s psn %u ack %u window %u len %u%s%s%s%s", from, to, names[f->h.type],
		f->h.psn, f->h.ack, f->h.credit, f->h.len,
		f->h.flags & HK_WIRE_F_RESENT ? " resent" : "",
		f->h.flags & HK_WIRE_F_ACK_NOW ? " ack-now" : "",
		f->h.type == HK_WIRE_ACK && (f->sack.bits[0] | f->sack.bits[1] | f->sack.bits[2] |
					     f->sack.bits[3])
			? " gaps"
			: "",
		f->h.dst_epoch == s->nodes[to].epoch ? "" : " (to another incarnation)");
	CHECK_EQ(f->h.job, s->c.engine.key);
	CHECK_EQ(f->h.src, n->endpoint);
	CHECK_EQ(f->h.src_epoch, n->epoch);
	if (f->h.type == HK_WIRE_RESET || f->h.dst_epoch != s->nodes[to].epoch)
		return; /* not part of the conversation that is followed here */
	if (f->h.type == HK_WIRE_DATA || f->h.type == HK_WIRE_PUT)
		check_packet(s, from, to, d, &f->h);
	else if (d->began)
		CHECK_EQ(f->h.psn, d->next);
	struct sim_dir *r = sim_dir(s, to, from);

	if (f->h.flags & HK_WIRE_F_GRANT && hk_psn_before(r->granted, f->grant.granted))
		r->granted = f->grant.granted;
	check_ack(s, from, to, r, f);
}

/* ---- when it does not end ------------------------------------------------------------------ */

void sim_who_waits(const struct sim *s, char *text, size_t len)
{
	int at = 0;

#define ADD(...)                                                                                   \
	do {                                                                                       \
		if ((size_t)at < len)                                                              \
			at += snprintf(text + at, len - (size_t)at, __VA_ARGS__);                  \
	} while (0)
	text[0] = '\0';
	ADD("%u messages owed:", s->undelivered);
	unsigned shown = 0;
	for (uint32_t i = 0; i < s->msgs_len && shown < 6; i++) {
		const struct sim_msg *m = &s->msgs[i];
		if (m->must && !m->delivered) {
			ADD(" %u (%u->%u, %u of %u parts sent)", i, m->from, m->to, m->next,
			    m->frags);
			shown++;
		}
	}
	for (unsigned a = 0; a < s->c.nodes; a++) {
		for (unsigned b = 0; b < s->c.nodes; b++) {
			hk_peer p = hk_engine_peer_find(s->nodes[a].engine, s->nodes[b].endpoint);
			struct hk_peer_info info;
			if (a == b || p == HK_PEER_NONE)
				continue;
			hk_engine_peer_info(s->nodes[a].engine, p, &info);
			unsigned unacked = hk_engine_unacked(s->nodes[a].engine, p);
			if (unacked || s->nodes[a].queue[b].count)
				ADD("; node %u waits for node %u: %u unacked, %u flying, %u "
				    "queued, credit %u, cwnd %u, state %d",
				    a, b, unacked, info.in_flight, s->nodes[a].queue[b].count,
				    info.credit, info.cwnd, info.state);
		}
		if (s->nodes[a].live && !hk_engine_unacked(s->nodes[a].engine, HK_PEER_NONE))
			ADD("; node %u: %u tokens never reaped", a, s->nodes[a].live);
	}
#undef ADD
}

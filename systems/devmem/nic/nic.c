/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/nic/nic.c: the rounds of an emulated NIC.
 */
#include "devmem/nic/nic.h"

#include <errno.h>
#include <inttypes.h>

#include <rte_cycles.h>

/* ---- from peers to the wire ------------------------------------------------------------------ */

static int impossible(unsigned peer, const char *what, struct hk_error *err)
{
	return hk_error_set(err, -EPROTO,
			    "NIC %u has written a %s that cannot be; fix: start all NICs of the "
			    "router again",
			    peer, what);
}

/* Sends what a peer has moved here. */
static int send_from(struct hk_nic *nic, unsigned peer, struct hk_error *err)
{
	struct hk_nic_link *l = &nic->link[peer];
	const uint8_t *frame[HK_NIC_BURST];
	uint32_t length[HK_NIC_BURST];
	int waiting = hk_nic_receiver_waiting(&l->from);
	unsigned good = 0;
	uint64_t bytes = 0;

	if (HK_UNLIKELY(waiting < 0))
		return impossible(peer, "doorbell", err);
	if (waiting == 0)
		return 0;
	for (unsigned i = 0; i < (unsigned)waiting; i++) {
		frame[good] = hk_nic_receiver_frame(&l->from, i, &length[good]);
		if (HK_UNLIKELY(!frame[good])) {
			l->bad_descriptors++;
			continue;
		}
		bytes += length[good++];
	}
	hk_nic_wire_tx(&nic->wire, frame, length, good);
	hk_nic_receiver_release(&l->from, (unsigned)waiting);
	l->came += (unsigned)waiting;
	hk_nic_count(&nic->transfers, nic->o.id, HK_NIC_DESCRIPTOR, HK_NIC_READ, 1,
		     (unsigned)waiting * sizeof(struct hk_nic_descriptor));
	hk_nic_count(&nic->transfers, l->from_region, HK_NIC_PAYLOAD, HK_NIC_READ, good, bytes);
	hk_nic_count(&nic->transfers, peer, HK_NIC_DOORBELL, HK_NIC_WRITE, 1, 4);
	return waiting;
}

/* ---- from the wire to peers ------------------------------------------------------------------ */

/* Whether each link has space for a burst: 1 or 0; -EPROTO. */
static int have_space(struct hk_nic *nic, struct hk_error *err)
{
	for (unsigned i = 0; i < nic->o.nics; i++) {
		struct hk_nic_link *l = &nic->link[i];
		if (i == nic->o.id || HK_UNLIKELY(l->left))
			continue;
		if (HK_UNLIKELY(!hk_nic_sender_refresh(&l->to)))
			return impossible(i, "credit", err);
		if (!hk_nic_sender_has_space(&l->to))
			return 0;
	}
	return 1;
}

static inline void copy_frame(uint8_t *to, const struct rte_mbuf *m)
{
	if (HK_LIKELY(m->data_len == HK_LOAD_FRAME)) {
		memcpy(to, rte_pktmbuf_mtod(m, const void *), HK_LOAD_FRAME); /* in line */
		return;
	}
	for (; m; to += m->data_len, m = m->next)
		memcpy(to, rte_pktmbuf_mtod(m, const void *), m->data_len);
}

/* Frames to the wire on which they came. */
static void send_back(struct hk_nic *nic, struct hk_forward_port *p)
{
	uint8_t copy[HK_NIC_FRAME_MAX];

	for (unsigned i = 0; i < p->queued; i++) {
		const uint8_t *frame = copy;
		uint32_t length = p->out[i]->pkt_len;
		copy_frame(copy, p->out[i]);
		hk_nic_wire_tx(&nic->wire, &frame, &length, 1);
	}
}

/* Moves the frames that are queued for a NIC to it. There is space: ICMP messages and fragments,
 * which could be more than the burst, are not made. */
static void move_to(struct hk_nic *nic, unsigned peer)
{
	struct hk_forward_port *p = &nic->forward.port[peer];
	struct hk_nic_link *l = &nic->link[peer];
	uint64_t bytes = 0;

	if (peer == nic->o.id) {
		send_back(nic, p);
	} else if (HK_UNLIKELY(l->left)) {
		l->lost += p->queued;
	} else {
		for (unsigned i = 0; i < p->queued; i++) {
			copy_frame(hk_nic_sender_place(&l->to, p->out[i]->pkt_len), p->out[i]);
			bytes += p->out[i]->pkt_len;
		}
		hk_nic_sender_notify(&l->to);
		hk_nic_count(&nic->transfers, l->to_region, HK_NIC_PAYLOAD, HK_NIC_WRITE, p->queued,
			     bytes);
		hk_nic_count(&nic->transfers, peer, HK_NIC_DESCRIPTOR, HK_NIC_WRITE, 1,
			     p->queued * sizeof(struct hk_nic_descriptor));
		hk_nic_count(&nic->transfers, peer, HK_NIC_DOORBELL, HK_NIC_WRITE, 1, 4);
	}
	p->count.out_packets += p->queued;
	rte_pktmbuf_free_bulk(p->out, p->queued);
	p->queued = 0;
}

static void move_all(struct hk_nic *nic)
{
	for (unsigned i = 0; i < nic->o.nics; i++)
		if (nic->forward.port[i].queued)
			move_to(nic, i);
}

/* Whether all frames of this NIC have left its peers. */
static bool nothing_under_way(const struct hk_nic *nic)
{
	for (unsigned i = 0; i < nic->o.nics; i++) {
		const struct hk_nic_link *l = &nic->link[i];
		if (i != nic->o.id && !l->left &&
		    atomic_load_explicit(l->to.credit, memory_order_acquire) != l->to.sent)
			return false;
	}
	return nic->waiting == 0;
}

static unsigned receive(struct hk_nic *nic, struct hk_nic_pending *p)
{
	if (HK_UNLIKELY(nic->o.wire.single) && !nothing_under_way(nic))
		return 0;
	p->n = hk_nic_wire_rx(&nic->wire, p->m, HK_NIC_BURST);
	return p->n;
}

/* Wr, Rd, Bn: looks up in the NIC's own table. */
static int forward_own(struct hk_nic *nic, struct hk_error *err)
{
	struct hk_nic_pending *p = &nic->pending[0];
	int space = have_space(nic, err);

	if (space <= 0 || receive(nic, p) == 0)
		return HK_MIN(space, 0);
	hk_forward_burst(&nic->forward, nic->o.id, p->m, p->n);
	move_all(nic);
	return (int)p->n;
}

/* Pktpit: finishes the oldest burst whose next hops have come, and begins another. */
static int forward_asked(struct hk_nic *nic, struct hk_error *err)
{
	int moved = 0, space = have_space(nic, err);

	if (space < 0)
		return space;
	if (space && nic->waiting) {
		struct hk_nic_pending *p = &nic->pending[nic->first];
		int came = hk_nic_ask_poll(&nic->asker, &p->burst, &nic->transfers);
		if (came < 0)
			return hk_error_set(err, -EPROTO,
					    "the host has written a doorbell that cannot be; fix: "
					    "start all processes of the router again");
		if (came) {
			hk_forward_finish_cells(&nic->forward, nic->o.id, p->m, p->n, &p->burst);
			move_all(nic);
			nic->first = (nic->first + 1) % HK_NIC_PENDING;
			nic->waiting--;
			moved = (int)p->n;
		}
	}
	if (nic->waiting < HK_NIC_PENDING) {
		struct hk_nic_pending *p =
			&nic->pending[(nic->first + nic->waiting) % HK_NIC_PENDING];
		if (receive(nic, p)) {
			hk_forward_read(&nic->forward, nic->o.id, p->m, p->n, &p->burst);
			hk_nic_ask(&nic->asker, &p->burst, &nic->transfers);
			nic->waiting++;
			moved += (int)p->n;
		}
	}
	return moved;
}

/* Frames that have come to this NIC, from the wire and from peers. */
static uint64_t came(const struct hk_nic *nic)
{
	uint64_t n = nic->forward.port[nic->o.id].count.in_packets;

	for (unsigned i = 0; i < nic->o.nics; i++)
		n += nic->link[i].came;
	return n;
}

int hk_nic_round(struct hk_nic *nic, struct hk_error *err)
{
	uint64_t since = rte_rdtsc(), before = came(nic);
	int moved = nic->o.variant == HK_NIC_PKTPIT ? forward_asked(nic, err)
						    : forward_own(nic, err);

	for (unsigned i = 0; i < nic->o.nics && moved >= 0; i++) {
		int n = i == nic->o.id ? 0 : send_from(nic, i, err);
		moved = n < 0 ? n : moved + n;
	}
	if (moved > 0)
		hk_load_cost_add(&nic->cost, rte_rdtsc() - since, came(nic) - before);
	return moved;
}

/* ---- beside the rounds ----------------------------------------------------------------------- */

bool hk_nic_done(const struct hk_nic *nic)
{
	return hk_nic_wire_done(&nic->wire) && nothing_under_way(nic);
}

int hk_nic_check_peers(struct hk_nic *nic, struct hk_error *err)
{
	for (unsigned i = 0; i < nic->o.nics; i++) {
		struct hk_nic_link *l = &nic->link[i];
		if (i == nic->o.id || l->left)
			continue;
		enum hk_nic_owner owner = hk_nic_region_owner(&l->bar);
		if (owner == HK_NIC_DEAD)
			return hk_error_set(err, -EPIPE,
					    "NIC %u has died: no process owns %s; fix: start all "
					    "NICs of the router again",
					    i, l->bar.path);
		l->left = owner == HK_NIC_LEFT;
	}
	if (nic->o.variant == HK_NIC_PKTPIT && !hk_nic_wire_done(&nic->wire) &&
	    hk_nic_region_owner(&nic->host) != HK_NIC_LIVES)
		return hk_error_set(err, -EPIPE,
				    "the host's process has ended: no process owns %s; fix: start "
				    "all processes of the router again",
				    nic->host.path);
	return 0;
}

static void write_results(const struct hk_nic *nic, FILE *out)
{
	const struct hk_forward_counters *c = &nic->forward.port[nic->o.id].count;
	const char *comma = "";

	fprintf(out, ", \"results\": {");
	for (unsigned i = 0; i < HK_RESULTS; i++) {
		if (!c->result[i])
			continue;
		fprintf(out, "%s\"%s\": %" PRIu64, comma, hk_router_result_name(i), c->result[i]);
		comma = ", ";
	}
	fprintf(out, "}");
}

void hk_nic_stats(struct hk_nic *nic, FILE *out)
{
	uint64_t lost = 0, bad = 0;

	for (unsigned i = 0; i < nic->o.nics; i++) {
		lost += nic->link[i].lost;
		bad += nic->link[i].bad_descriptors;
	}
	fprintf(out, "{\"nic\": %u, \"variant\": \"%s\", ", nic->o.id,
		hk_nic_variant_name(nic->o.variant));
	hk_nic_wire_stats(&nic->wire, out);
	write_results(nic, out);
	fprintf(out,
		", \"lost\": %" PRIu64 ", \"bad_descriptors\": %" PRIu64 ", \"bad_hops\": %" PRIu64
		", ",
		lost, bad, nic->asker.bad_hops);
	hk_load_cost_end(&nic->cost, (double)hk_eal_tsc_hz(), out);
	fprintf(out, ", \"transfers\": ");
	hk_nic_transfers_write(&nic->transfers, out);
	fprintf(out, "}\n");
}

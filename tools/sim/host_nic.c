/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/host_nic.c: a host's frames on their way to its NICs.
 */
#include "sim/host.h"

#define NIC_MORE 256 /* frames that a worker keeps for a port whose ring is full */

uint32_t host_frame(struct hosts *h, const struct host *x, uint32_t to, size_t len, unsigned path)
{
	static const uint8_t mac[6] = {2};
	uint32_t i = frame_new(&h->net->frames);
	struct frame *f = &h->net->frames.frame[i];

	f->from = x->id;
	f->to = to;
	f->len = (uint16_t)len;
	f->path = (uint8_t)path;
	f->flow = (x->id * 0x9e3779b9u ^ to) + path;
	f->bulk = false;
	f->class = len < HK_WIRE_DATA_OVERHEAD + HK_LONG_FRAME; /* as port/priority.c has it */
	hk_wire_eth_encode(f->bytes, mac, mac);
	return i;
}

void host_frame_fill(const struct hosts *h, struct frame *f, uint32_t b)
{
	const struct tx_buf *buf = &h->buf[b];

	f->msg = buf->msg;
	f->payload = buf->payload;
	f->bulk = h->msg[buf->msg].put;
	if (f->bulk)
		hk_wire_put_encode(f->bytes + HK_WIRE_DATA_OVERHEAD,
				   &(struct hk_wire_put){.region = 1});
}

void host_transmit(struct hosts *h, struct host *x, uint32_t frame)
{
	uint32_t nic = net_nic(h->net, x->id, h->net->frames.frame[frame].path);

	if (h->net->port[nic].frames >= h->c.nic_ring + NIC_MORE) {
		x->n.tx_dropped++;
		frame_free(&h->net->frames, frame);
		return;
	}
	net_enqueue(h->net, nic, frame);
}

uint8_t host_nics_stuck(const struct hosts *h, struct host *x)
{
	unsigned mask = 0;

	for (unsigned i = 0; i < h->net->c.host_ports; i++)
		if (h->net->port[net_nic(h->net, x->id, i)].frames >= h->c.nic_ring + NIC_MORE / 2)
			mask |= 1u << i;
	x->nic_full |= mask != 0;
	return (uint8_t)mask;
}

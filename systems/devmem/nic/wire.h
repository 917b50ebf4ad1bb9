/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/nic/wire.h: the wire side of an emulated NIC: a port, or a load of its own.
 *
 * The load takes the place of a link partner, so that no third process shares the cores with the
 * NICs. It gives the NIC frames from templates, as fast as the NIC takes them or one at a time. It
 * takes the frames that the NIC sends, reads them, and measures their rate or delay.
 *
 * hk_nic_wire_rx() gives mbufs: the NIC's packet buffers. hk_nic_wire_tx() takes bytes, since they
 * lie in a region.
 */
#ifndef HK_NIC_WIRE_H
#define HK_NIC_WIRE_H

#include "devmem/nic/ring.h"
#include "devmem/router/load.h"
#include "port/port.h"

struct hk_nic_wire_options {
	const char *port;  /* NULL: a load */
	unsigned id;       /* of the NIC */
	unsigned wait_ms;  /* for the port's link */
	uint64_t frames;   /* that the load gives */
	uint64_t expect;   /* that the load takes; its rate or delays are measured */
	unsigned networks; /* of their destinations (hk_load_frames()) */
	unsigned prefixes; /* of a generated table, for their destinations; 0: networks */
	bool single;       /* one frame at a time, and its delay is measured */
	uint8_t mac[6];    /* of the NIC, their destination */
};

struct hk_nic_wire {
	struct hk_nic_wire_options o;
	struct hk_port *port;
	struct rte_mempool *pool;
	uint8_t (*frame)[HK_LOAD_FRAME]; /* templates; NULL with a port */
	uint64_t given, taken;           /* frames from and to the NIC */
	uint64_t tx_full;                /* frames that the port did not accept */
	struct hk_load_rates rates;
	struct hk_load_delays delays;
	uint8_t sink[HK_NIC_FRAME_MAX];
};

int hk_nic_wire_open(const struct hk_nic_wire_options *o, struct hk_nic_wire *w,
		     struct hk_error *err);
void hk_nic_wire_close(struct hk_nic_wire *w); /* all zeros is allowed */

unsigned hk_nic_wire_rx(struct hk_nic_wire *w, struct rte_mbuf **m, unsigned n);
void hk_nic_wire_tx(struct hk_nic_wire *w, const uint8_t *const *frame, const uint32_t *length,
		    unsigned n);

/* Whether a load has given and taken all its frames. A port is never done. */
static inline bool hk_nic_wire_done(const struct hk_nic_wire *w)
{
	return !w->port && w->given == w->o.frames && w->taken >= w->o.expect;
}

/* Writes the counters as fields of a JSON object. */
void hk_nic_wire_stats(struct hk_nic_wire *w, FILE *out);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/spec.h: a port spec, parsed. The grammar is on top of port/port.h and in docs/ports.md.
 *
 * Parsing is strict: an unknown key, a value out of range or a missing one is an error that names
 * it and says what would be right. Nothing here touches DPDK or the system.
 */
#ifndef HK_PORT_SPEC_H
#define HK_PORT_SPEC_H

#include "port/faults.h"

enum hk_spec_kind {
	HK_SPEC_MEMIF,     /* one wire */
	HK_SPEC_MEMIF_SET, /* a place for wires */
	HK_SPEC_AF_XDP,
	HK_SPEC_AF_PACKET,
	HK_SPEC_PCI,
	HK_SPEC_VDEV,
};

enum hk_spec_mode { HK_SPEC_MODE_AUTO, HK_SPEC_MODE_COPY };

struct hk_spec {
	enum hk_spec_kind kind;
	char text[256];   /* the whole spec, {rank} and {local_rank} filled in */
	char socket[108]; /* memif: path of the socket */
	char dir[108];    /* memif set: its directory */
	char iface[16];   /* af_xdp, af_packet */
	char device[200]; /* pci: the address; vdev: name and arguments, as DPDK takes them */
	bool server;
	unsigned id, frame, ring, queue, busy;
	unsigned force; /* af_xdp: also an interface of the default route */
	enum hk_spec_mode mode;
	bool faulty;
	struct hk_faults_config faults;
};

/* Parses @text into @spec. Returns 0, or -EINVAL with a sentence. */
int hk_spec_parse(const char *text, struct hk_spec *spec, struct hk_error *err);

/* Does @device begin with a PCI address, before arguments of DPDK's or the next word? */
bool hk_spec_is_pci_address(const char *device);

/* Parses the value of one number, which must be the whole of @text and within the range. @what
 * names it in the error. */
int hk_spec_number(const char *what, const char *text, uint64_t min, uint64_t max, uint64_t *out,
		   struct hk_error *err);

#endif

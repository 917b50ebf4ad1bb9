/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/spec.h: a parsed port spec. The comment in port/port.h and docs/ports.md have the grammar.
 *
 * Parsing is strict. An unknown key, a value out of range and a missing key are errors, which name
 * the key and say what is right. The functions use neither DPDK nor the system.
 */
#ifndef HK_PORT_SPEC_H
#define HK_PORT_SPEC_H

#include "port/faults.h"

#pragma GCC visibility push(default)

enum hk_spec_kind {
	HK_SPEC_MEMIF,     /* one wire */
	HK_SPEC_MEMIF_SET, /* a wire set */
	HK_SPEC_AF_XDP,
	HK_SPEC_AF_PACKET,
	HK_SPEC_UDP,
	HK_SPEC_PCI,
	HK_SPEC_VDEV,
};

enum hk_spec_mode { HK_SPEC_MODE_AUTO, HK_SPEC_MODE_COPY };

struct hk_spec {
	enum hk_spec_kind kind;
	char text[256];   /* the spec with {rank} and {local_rank} replaced */
	char socket[108]; /* memif: path of the socket */
	char dir[108];    /* wire set: directory of the sockets */
	char iface[16];   /* af_xdp, af_packet: name of the interface */
	char addr[64];    /* udp: IP address, or name of the interface */
	char device[200]; /* pci: address; vdev: name and arguments in DPDK's form */
	bool server;
	unsigned id, frame, ring, queue, busy; /* values of the keys; 0: not given */
	unsigned force;    /* af_xdp with take=all: 1: accept the default route's interface */
	unsigned udp_port; /* udp: 0: any free one */
	unsigned mtu;      /* udp: of the path; 0: the interface's */
	unsigned ip;       /* udp: 4 or 6; 0: 4, or else 6 */
	unsigned xdp;      /* udp: 1: by AF_XDP */
	unsigned priority; /* of small frames (port/priority.h); 0: no tags */
	enum hk_spec_mode mode;
	bool take_all; /* af_xdp: all frames, not only ours */
	bool faulty;   /* the spec has ;faults= */
	struct hk_faults_config faults;
};

/* Parses @text into @spec. Returns 0, or -EINVAL with a sentence. */
int hk_spec_parse(const char *text, struct hk_spec *spec, struct hk_error *err);

/* Whether the port is a socket of the kernel, without a device of DPDK. */
static inline bool hk_spec_is_socket(const struct hk_spec *s)
{
	return s->kind == HK_SPEC_UDP || s->kind == HK_SPEC_AF_XDP;
}

/* Returns whether the text up to the first comma or space of @device is a PCI address. */
bool hk_spec_is_pci_address(const char *device);

/* Parses @text, which must be one number within the range. @what names it in the error. */
int hk_spec_number(const char *what, const char *text, uint64_t min, uint64_t max, uint64_t *out,
		   struct hk_error *err);

#pragma GCC visibility pop

#endif

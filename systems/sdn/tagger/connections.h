/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/connections.h: the sockets that have a tag in their storage, by sock_diag(7).
 *
 * A BPF iterator would list them too, but a kernel that is locked down (kernel_lockdown(7),
 * "confidentiality") loads no program that reads the kernel's memory.
 */
#ifndef HK_TAGGER_CONNECTIONS_H
#define HK_TAGGER_CONNECTIONS_H

#include "hikyaku/error.h"
#include "sdn/tagger/shared.h"

struct hk_tagger_connection {
	struct hk_tagger_conn conn;
	uint8_t family;                   /* AF_INET or AF_INET6 */
	uint16_t local_port, remote_port; /* host order */
	uint32_t local[4], remote[4];     /* network order; IPv4 in the first word */
};

/* Calls @each for every TCP socket of this network namespace that has a value in @map_fd. That is a
 * map of type BPF_MAP_TYPE_SK_STORAGE, of struct hk_tagger_conn. Needs CAP_BPF. Returns 0 or a
 * negative errno. */
int hk_tagger_connections(int map_fd,
			  void (*each)(void *arg, const struct hk_tagger_connection *connection),
			  void *arg, struct hk_error *err);

#endif

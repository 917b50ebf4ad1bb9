/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/nic/lookup.h: Pktpit: a NIC without the full table asks a process of the host for next
 * hops.
 *
 * The NIC writes destination addresses, 4 or 16 bytes each, into rings in the host's memory. The
 * host looks them up in bursts, and writes a cell for each, in order, into the NIC's BAR. Nothing
 * else of a packet goes to the host. The doorbells are numbers of addresses and cells so far.
 *
 * Both sides check what the other writes. An impossible doorbell ends the process that reads it,
 * with an error that names the writer. A cell that names no port is counted and taken as no route.
 */
#ifndef HK_NIC_LOOKUP_H
#define HK_NIC_LOOKUP_H

#include "devmem/nic/transfers.h"
#include "devmem/router/forward.h"
#include "devmem/router/load.h"

/* A NIC's side. */
struct hk_nic_asker {
	struct hk_nic_addresses *addresses; /* in the host's region */
	const struct hk_nic_hops *hops;     /* in this NIC's BAR */
	unsigned nics, id;
	uint32_t asked[2], taken[2]; /* by family */
	uint64_t bad_hops;           /* cells that name no port */
};

/* Sends the destinations of @b to the host. The caller keeps at most HK_NIC_RING of each family
 * unanswered. */
void hk_nic_ask(struct hk_nic_asker *a, const struct hk_burst *b, struct hk_nic_transfers *t);

/* Takes the next hops of @b, which has the oldest unanswered destinations. Returns 1; 0: they have
 * not all come yet; -1: the host's doorbell is impossible. */
int hk_nic_ask_poll(struct hk_nic_asker *a, struct hk_burst *b, struct hk_nic_transfers *t);

/* The host's side, of all NICs. */
struct hk_nic_server {
	const struct hk_fib *fib;
	const struct hk_nic_host *host; /* this process's own region */
	struct hk_nic_hops *hops[HK_NICS];
	unsigned nics;
	uint32_t served[HK_NICS][2];
	uint64_t lookups;
	struct hk_load_cost cost; /* of the rounds that looked something up */
	struct hk_nic_transfers transfers;
};

/* Looks up at most a burst for each NIC and family. Returns the number of lookups, or -1 - NIC if
 * the doorbell of that NIC is impossible. */
int hk_nic_serve(struct hk_nic_server *s);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/mcast.h: the BTL's multicasts, for the coll component of the same build (coll/).
 *
 * It finds them through hikyaku/service.h; without the BTL it finds nothing and stands aside.
 * Functions may be called between MPI_Init and MPI_Finalize, and take the BTL's lock where threads
 * need one.
 */
#ifndef HK_MPI_MCAST_H
#define HK_MPI_MCAST_H

#include "hikyaku/mcast.h"

struct opal_proc_t;

/* A process that the network sends multicasts. */
struct hk_btl_mcast_peer {
	uint32_t endpoint, epoch;
	uint32_t rank;  /* in MPI_COMM_WORLD */
	size_t payload; /* bytes that a frame to it carries */
};

struct hk_btl_mcast {
	/* Has this rank tags, a port of its own, and a controller that knows it? */
	bool (*ready)(void);
	/* Who @proc is. False if a multicast of ours does not reach it. May wait for what it
	 * published. */
	bool (*peer)(const struct opal_proc_t *proc, struct hk_btl_mcast_peer *who);
	/* A group of these ranks of MPI_COMM_WORLD (sdn/registrar/registrar.h). Waits for the
	 * registrar, some seconds at the most. */
	int (*group)(const uint32_t *ranks, size_t n, uint32_t *group, struct hk_error *err);
	int (*drop)(uint32_t group, struct hk_error *err);

	void (*open)(struct hk_mcast *m);
	void (*close)(struct hk_mcast *m);
	/* As hk_worker_mcast(), to @group. @to: its tag is set by the call. */
	uint32_t (*send)(uint32_t group, const struct hk_mcast_to *to, uint32_t first,
			 const void *bytes, size_t len, size_t each);
};

extern const struct hk_btl_mcast hk_btl_mcast;

#endif

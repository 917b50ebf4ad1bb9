/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/mcast.h: the BTL's multicasts, for the coll component of the same build (coll/).
 *
 * Found at run time as service.h is: without the BTL the component finds nothing and stands aside. Functions may be
 * called between MPI_Init and MPI_Finalize, and take the BTL's lock where threads need one.
 */
#ifndef HK_MPI_MCAST_H
#define HK_MPI_MCAST_H

#include "fabric/mcast.h"

#include <dlfcn.h>

#define HK_BTL_MCAST        hk_btl_mcast_1
#define HK_BTL_MCAST_SYMBOL "hk_btl_mcast_1"

struct opal_proc_t;

/* A process that the network sends multicasts. */
struct hk_btl_mcast_peer {
	uint32_t endpoint, epoch;
	uint32_t rank;  /* in MPI_COMM_WORLD */
	size_t payload; /* bytes that a frame to it carries */
};

struct hk_btl_mcast {
	uint32_t listener_size; /* of struct hk_mcast: another build is told apart */
	/* Has this rank tags, a port of its own, and a controller that knows it? */
	bool (*ready)(void);
	/* Who @proc is. False if a multicast of ours does not reach it. May wait for what it published. */
	bool (*peer)(const struct opal_proc_t *proc, struct hk_btl_mcast_peer *who);
	/* A group of these ranks of MPI_COMM_WORLD (host/registrar.h). Waits for the registrar, some seconds at
	 * the most. */
	int (*group)(const uint32_t *ranks, size_t n, uint32_t *group, struct hk_error *err);
	int (*drop)(uint32_t group, struct hk_error *err);

	void (*open)(struct hk_mcast *m);
	void (*close)(struct hk_mcast *m);
	/* As hk_fabric_mcast(), to @group. */
	uint32_t (*send)(uint32_t group, uint32_t channel, uint32_t number, uint32_t first,
			 const void *bytes, size_t len, size_t each);
};

/* NULL if this process has not loaded the BTL. */
static inline const struct hk_btl_mcast *hk_btl_mcast_find(void)
{
	const struct hk_btl_mcast *s = dlsym(RTLD_DEFAULT, HK_BTL_MCAST_SYMBOL);

	return s && s->listener_size == sizeof(struct hk_mcast) ? s : NULL;
}

#endif

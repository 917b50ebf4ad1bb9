/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/service.h: the fabric that the BTL runs in this process, for others of the process: halo/ puts through
 * the same port and engine that MPI's messages use.
 *
 * The plug-in exports one symbol, whose name has the version of this page; hk_btl_service_find() looks it up at
 * run time. So a program that is linked to halo/ runs without the plug-in too, and one that is built
 * against another version of it finds nothing rather than something else.
 *
 * Functions may be called between MPI_Init and MPI_Finalize, by any thread that may call MPI. What they
 * take and give is that of fabric/notify.h; each takes the BTL's lock where threads need one.
 */
#ifndef HK_MPI_SERVICE_H
#define HK_MPI_SERVICE_H

#include "fabric/notify.h"

#include <dlfcn.h>

#define HK_BTL_SERVICE        hk_btl_service_3
#define HK_BTL_SERVICE_SYMBOL "hk_btl_service_3"

/*
 * A library that has to be in all processes of a program, as halo/interpose, exports this symbol: a char array, its name.
 * The BTL publishes the name under HK_BTL_EVERYWHERE_KEY with its own address, before MPI_Init is over. So each
 * process can see by Open MPI's modex, without one that lacks the library taking part, whether all have it, and the
 * BTL.
 */
#define HK_BTL_EVERYWHERE        hk_btl_everywhere_1
#define HK_BTL_EVERYWHERE_SYMBOL "hk_btl_everywhere_1"
#define HK_BTL_EVERYWHERE_KEY    "hikyaku.everywhere.1"

/* Names a process of this mpirun to the others. */
struct hk_btl_identity {
	uint32_t key, endpoint, epoch;
};

struct hk_btl_service {
	uint32_t op_size,
		inbox_size; /* of the structs that callers own: another build is told apart */

	/* Who we are. False if there is no fabric, or none any more. */
	bool (*identity)(struct hk_btl_identity *me);
	/* Whom Open MPI reaches by this fabric: known at the latest when a message of it was received.
	 * HK_PEER_NONE: nobody of that name. */
	hk_peer (*peer)(const struct hk_btl_identity *who);
	bool (*alive)(hk_peer peer); /* neither dead nor gone; false without a fabric */
	/* "rank 3 on node1"; valid as hk_fabric_peer_name() says. */
	const char *(*name)(hk_peer peer);
	unsigned (*rails)(hk_peer peer); /* the ports that it is reached by; 0 without a fabric */

	/* As hk_fabric_inbox_add() and its likes, and hk_fabric_put_notify(): only while identity() is true, but
	 * inbox_del, which then does nothing. */
	hk_region (*inbox_add)(struct hk_inbox *in, hk_peer peer, const struct hk_layout *to,
			       void *early, unsigned places);
	void (*inbox_del)(struct hk_inbox *in);
	void (*inbox_open)(struct hk_inbox *in);
	void (*inbox_take)(struct hk_inbox *in);
	int (*put)(hk_peer peer, struct hk_op *op, const struct hk_layout *from, hk_region remote,
		   uint32_t number, hk_done_fn done, void *arg);

	/* Polls the fabric; with @all, and where ranks share cores (mpi_yield_when_idle), everything that
	 * Open MPI polls, which is slower. Handlers of MPI's messages run in it. */
	void (*progress)(bool all);
};

/* NULL if this process has not loaded the plug-in. */
static inline const struct hk_btl_service *hk_btl_service_find(void)
{
	const struct hk_btl_service *s = dlsym(RTLD_DEFAULT, HK_BTL_SERVICE_SYMBOL);

	return s && s->op_size == sizeof(struct hk_op) && s->inbox_size == sizeof(struct hk_inbox)
		       ? s
		       : NULL;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/queue.h: a queue of an interface with its umem, and the sockets on it.
 *
 * The queue's own socket registers the memory and has the fill and completion rings. It receives
 * nothing. Each client gets a socket that shares the umem.
 */
#ifndef HK_HELPER_QUEUE_H
#define HK_HELPER_QUEUE_H

#include "helper/interface.h"
#include "port/helper.h"

#include <sys/types.h>

struct hk_queue {
	struct hk_interface *interface;
	uint32_t number;
	uid_t user;       /* of all clients */
	pid_t first;      /* process, for messages */
	unsigned clients; /* the caller counts them */
	uint32_t sharers; /* that the memory suffices for */
	uint32_t used;    /* of them; one that was killed keeps its share until the queue closes */
	uint32_t chunks, rx_ring;
	bool zero; /* zero-copy */
	int socket, memory;
	struct hk_umem_shared *shared;
	void *mapped;
	struct hk_xdp_queue frames; /* who gets them */
};

/* Makes the memory and the queue's socket, as @request of a client asks. -EAGAIN: another process
 * has an AF_XDP socket there, or had one until now. */
int hk_queue_open(struct hk_queue *q, struct hk_interface *i,
		  const struct hk_helper_request *request, struct hk_error *err);
void hk_queue_close(struct hk_queue *q);

/* Makes a socket for a client. Returns the descriptor. */
int hk_queue_socket(struct hk_queue *q, const struct hk_helper_request *request,
		    struct hk_error *err);

/* The client with @slot has gone: releases locks that it held. */
void hk_queue_release(struct hk_queue *q, uint32_t slot);

#endif

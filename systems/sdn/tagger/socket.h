/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/socket.h: requests and replies on hk-tagger's socket (SOCK_SEQPACKET, in its run
 * directory).
 *
 *   JOIN    a rank names itself. It gets a slot, and the map into which it writes its function.
 *           The connection is the lease: the rank leaves when it closes.
 *   STATUS  any process of the same user, and root. It gets a file descriptor with JSON in it.
 *
 * Each request has one reply, and both have a fixed layout. Both sides check everything that they
 * receive. Threads: no state.
 */
#ifndef HK_TAGGER_SOCKET_H
#define HK_TAGGER_SOCKET_H

#include "base/common.h"
#include "hikyaku/error.h"
#include "sdn/registrar/registrar.h"

#define HK_TAGGER_MAGIC   UINT32_C(0x47544b48) /* "HKTG" */
#define HK_TAGGER_VERSION 2
#define HK_TAGGER_SOCKET  "tagger"
#define HK_TAGGER_SOCKET_ENV                                                                       \
	"HIKYAKU_TAG_SOCKET" /* environment variable with the socket's path                        \
			      */

enum hk_tagger_request_kind { HK_TAGGER_JOIN = 1, HK_TAGGER_STATUS = 2 };

struct hk_tagger_request {
	uint32_t magic;
	uint16_t version, kind;
	uint32_t rank, ranks; /* JOIN: number in MPI_COMM_WORLD, and its size; STATUS: 0 */
	/* JOIN: that of the registrar. mpirun passes it to ranks, but not to hk-tagger. */
	char secret[HK_REGISTRAR_SECRET_MAX];
};

struct hk_tagger_reply {
	uint32_t magic;
	int32_t status; /* 0, or a negative errno; then `text` has the reason, and there is no
			   descriptor */
	uint32_t slot;  /* slot, for JOIN */
	char text[244];
};

/* Sends @reply, with @fd unless it is negative. */
int hk_tagger_reply_send(int sock, const struct hk_tagger_reply *reply, int fd);

/* Sends a request on @sock and waits for the reply, at most @timeout_ms. *@fd is -1 or belongs to
 * the caller, who closes it. */
int hk_tagger_call(int sock, const struct hk_tagger_request *request, int timeout_ms,
		   struct hk_tagger_reply *reply, int *fd, struct hk_error *err);

/* Connects to the socket at @path. Returns a close-on-exec descriptor, or a negative errno. */
int hk_tagger_connect(const char *path, struct hk_error *err);

#endif

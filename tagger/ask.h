/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger/ask.h: what is said over hk-tagger's socket (SOCK_SEQPACKET, in its run directory).
 *
 *   JOIN    a rank says who it is, and gets a slot, and the map that it writes its function to. The
 *           connection is the lease: when it closes, the rank is gone.
 *   STATUS  anybody of the same user, and root; gets a file descriptor with JSON in it.
 *
 * One question, one answer, of fixed layout. Whatever comes from the socket is checked.
 * Threads: no state.
 */
#ifndef HK_TAGGER_ASK_H
#define HK_TAGGER_ASK_H

#include "base/common.h"
#include "base/error.h"

#define HK_ASK_MAGIC   UINT32_C(0x47544b48) /* "HKTG" */
#define HK_ASK_VERSION 1
#define HK_ASK_SOCKET  "tagger"
#define HK_ASK_ENV     "HIKYAKU_TAG_SOCKET" /* tells ranks where it is */

enum hk_ask_kind { HK_ASK_JOIN = 1, HK_ASK_STATUS = 2 };

struct hk_ask {
	uint32_t magic;
	uint16_t version, kind;
	uint32_t rank, ranks; /* JOIN: in MPI_COMM_WORLD; others: 0 */
};

struct hk_answer {
	uint32_t magic;
	int32_t status; /* 0, or a negative errno: then text says why, and no descriptor comes along */
	uint32_t slot; /* JOIN */
	char text[244];
};

/* Sends @answer, with @fd unless it is negative. */
int hk_answer_send(int sock, const struct hk_answer *answer, int fd);

/* Asks @sock and waits for the answer, at most @timeout_ms. *@fd is the caller's to close, or -1. */
int hk_ask(int sock, const struct hk_ask *ask, int timeout_ms, struct hk_answer *answer, int *fd,
	   struct hk_error *err);

/* Connects to the socket at @path. Returns a descriptor that is closed on exec, or a negative errno. */
int hk_ask_connect(const char *path, struct hk_error *err);

#endif

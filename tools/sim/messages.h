/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/messages.h: the messages of one exchange between neighbours, from a file.
 *
 * The file is text: `ranks N`, and then a line `FROM TO BYTES` for each message. There is at most
 * one from a rank to another, and none to itself.
 */
#ifndef HK_SIM_MESSAGES_H
#define HK_SIM_MESSAGES_H

#include "hikyaku/error.h"

#include <stdint.h>

#define MESSAGES_RANKS 4096      /* at most */
#define MESSAGES_BYTES (1 << 30) /* that a rank sends, at most */

struct message {
	uint32_t from, to, bytes;
};

struct messages {
	uint32_t ranks, count;
	struct message *message; /* by from, then by to */
	uint32_t *first;         /* [ranks + 1]: index of the first message of each rank */
};

/* Reads @path. NULL: it cannot, or the file is wrong; @err says where. */
struct messages *messages_read(const char *path, struct hk_error *err);
void messages_free(struct messages *m);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/rtc_load.h: shared by the parts of rtc_load.
 *
 *   rtc_load.c          options; the receiver that is an rtc node
 *   rtc_load_send.c     the sender
 *   rtc_load_socket.c   the receiver that is a kernel socket
 *   rtc_load_receive.c  shared by both receivers: the work on a message, counts, CPU time
 */
#ifndef HK_BENCH_RTC_LOAD_H
#define HK_BENCH_RTC_LOAD_H

#include "base/common.h"
#include "examples/example.h"

/* Message types. The sender marks begin and end of the load; the receiver answers these requests,
 * whatever is lost otherwise. */
enum { LOAD = 1, MARK_BEGIN, MARK_END };

/* Payload of a request: 32 numbers, and the sender's time in ns. Payload of its answer: their sum,
 * and the same time. */
#define STAMP_AT     64
#define REQUEST_LEN  (STAMP_AT + 8)
#define ANSWER_STAMP 4
#define ANSWER_LEN   (ANSWER_STAMP + 8)

struct load_options {
	uint64_t rate;   /* messages a second; 0: as many as the sender can send */
	uint64_t window; /* most open requests; 0: no limit, so the sender never waits */
	uint64_t ms;     /* length of the load */
	uint64_t hold;   /* ns for which the receiver works on a message, in place of a sum */
	uint64_t repeat; /* additions of the numbers */
	uint64_t plain;  /* by a plain loop */
	uint64_t socket; /* the receiver is a kernel socket, and sleeps when nothing comes */
};

extern struct load_options load;

/* ---- receivers ------------------------------------------------------------------------------- */

/* Makes the answers of @n requests in place, and counts them. @payload [n]; @len [n]: their
 * lengths, and then those of the answers; 0: the message is not a request. */
void load_answer(void **payload, uint16_t *len, unsigned n);

/* A mark came, perhaps not for the first time. */
void load_mark(unsigned type);

/* Prints the counts as a line of JSON. @refused: answers that the port did not take. */
void load_print(uint64_t refused);

/* Answers on a kernel socket until the sender leaves. Returns the exit status. */
int load_by_socket(const struct hk_rtc_config *cfg);

/* ---- the sender ------------------------------------------------------------------------------ */

/* Sends the load to node 0, prints the result, and closes the node. Returns the exit status. */
int load_send(struct hk_rtc_config *cfg);

#endif

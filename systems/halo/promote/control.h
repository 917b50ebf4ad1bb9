/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/control.h: the messages between the two ends of a channel (control.c,
 * control_sender.c, control_receiver.c).
 *
 * DESIGN NOTES
 *
 * They are MPI messages on a communicator of the promoter.
 *
 *   sender                                  receiver
 *   PROPOSE schedule, identity         ->
 *                                      <-   ACCEPT first message, identity, notify targets
 *                                           or REFUSE reason
 *   COMMIT targets for reports         ->   receives from the first message on
 *                                           were undecided until here
 *   or WITHDRAW                        ->   that message has gone by MPI
 *   ASK_TAKEN                          ->
 *                                      <-   TAKEN puts of each size, perhaps more
 *                                           than the reports say
 *                                      <-   ASK: a wildcard receive needs the end
 *   END at message k                   ->   messages from k on come by MPI
 *                                      <-   FLUSH: a receive is to be cancelled
 *   an empty message in the program's  ->   all messages that were sent there
 *   communicator                            before it have been matched
 *
 * An end names the other by a number, which the other looks up in its own table (ends.h). A message
 * that names no end is ignored.
 */
#ifndef HK_HALO_CONTROL_H
#define HK_HALO_CONTROL_H

#include "halo/promote/channel.h"

/* ---- control.c */
void hk_control_open(void);
void hk_control_poll(void);
void hk_control_barrier(void); /* of all ranks */
void hk_control_close(void);
/* Removes an end from the table; 0: does nothing. */
void hk_control_forget_end(uint32_t number);

/* ---- control_sender.c */
void hk_control_propose(struct hk_sender *o);
/* COMMIT with the regions @taken, or WITHDRAW. */
void hk_control_commit(struct hk_sender *o, bool good, const hk_region *taken);
void hk_control_end(struct hk_sender *o, uint64_t end);
/* hk_sender_taken() follows if the channel is still promoted. */
void hk_control_ask_taken(const struct hk_sender *o);

/* ---- control_receiver.c */
void hk_control_ask_end(struct hk_receiver *n);
/* Returns when all that the sender has sent by MPI so far has met its receive, or waits for one. */
void hk_control_flush(struct hk_receiver *n);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/sender.h: the sender's end of a channel (sender.c, sender_state.c), and how it
 * reports the order of sending (send_order.c).
 */
#ifndef HK_HALO_SENDER_H
#define HK_HALO_SENDER_H

#include "halo/promote/channel.h"

/* MPI's mode of a send: standard or ready, which may be promoted, or another. */
enum hk_send_mode { HK_SEND_STANDARD, HK_SEND_OTHER };

/* ---- sender.c */
/* Sends a message by a put. @request NULL: a blocking send, complete on return; else *@request
 * becomes the request. False: the message is counted, and the caller sends it by MPI. */
bool hk_sender_send(struct hk_sender *o, const void *buf, int count, ompi_datatype_t *type,
		    enum hk_send_mode mode, struct hk_persistent *persistent, MPI_Request *request);
void hk_sender_poll(void);
/* Takes @o off the list of senders with a queue. */
void hk_sender_unqueue(struct hk_sender *o);

/* Why a promotion ends. */
#define HK_SENDER_OVERTOOK "messages overtook those of another tag"

/* ---- sender_state.c */
/* Ends the promotion: the next message goes by MPI, and so do the queued ones. @why NULL: the
 * program has ended. */
void hk_sender_end(struct hk_sender *o, const char *why);
void hk_sender_accepted(struct hk_sender *o, uint32_t remote_id, uint64_t start, hk_peer to,
			const hk_region *regions);
/* The receiver has taken the puts up to number[k] of each stream k. */
void hk_sender_taken(struct hk_sender *o, const uint32_t *number);
void hk_sender_refused(struct hk_sender *o, const char *why, bool for_ever);
/* Waits with the next proposal, each time for twice as many messages. */
void hk_sender_back_off(struct hk_sender *o);
void hk_sender_free(struct hk_sender *o);
/* May the channel be promoted? False while puts of the last promotion may not be taken. */
bool hk_sender_idle(struct hk_sender *o);
/* Copies the positions of the puts that may not be taken, at most HK_UNTAKEN_MAX. Returns their
 * number. */
uint32_t hk_sender_untaken(struct hk_sender *o, struct hk_put_position *untaken);
/* Is a put not acknowledged? */
bool hk_sender_in_flight(const struct hk_sender *o);
/* The position of the oldest message that is queued, or put and perhaps not taken; UINT64_MAX:
 * none. */
uint64_t hk_sender_oldest(struct hk_sender *o);

/* ---- send_order.c */
/* Encodes the order of sending since the oldest put in @untaken (@count of them, 1 or more), for
 * the end of a promotion. The pair has several tags. @send_order has HK_SEND_ORDER_MAX bytes.
 * pair->order_number becomes its number. Returns its length in bytes; 0: the receiver has it
 * already. */
size_t hk_send_order_report(const struct hk_sender *o, const struct hk_put_position *untaken,
			    uint32_t count, struct hk_send_order *send_order);

#endif

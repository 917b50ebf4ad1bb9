/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/receiver.h: the receiver's end of a channel (receiver.c), and the order of sending
 * that the sender reports to it (send_order.c).
 */
#ifndef HK_HALO_RECEIVER_H
#define HK_HALO_RECEIVER_H

#include "halo/promote/channel.h"

/* ---- receiver.c */
/* Receives a message by a put, or decides later: *@request becomes the request. False: the receive
 * is counted, and the caller receives by MPI. */
bool hk_receiver_receive(struct hk_receiver *n, void *buf, int count, ompi_datatype_t *type,
			 struct hk_persistent *persistent, MPI_Request *request);
void hk_receiver_poll(void);
void hk_receiver_free(struct hk_receiver *n);
/* Makes the notify targets of schedule @s; @regions become theirs. False: no memory or region. */
bool hk_receiver_accept(struct hk_receiver *n, const struct hk_schedule *s, hk_peer from,
			hk_region *regions);
/* The first receiver that is not plain. */
struct hk_receiver *hk_receiver_live(void);
/* The sender promotes. @taken: the regions for the reports of taken puts. */
void hk_receiver_committed(struct hk_receiver *n, const hk_region *taken);
/* The sender does not promote. */
void hk_receiver_withdrawn(struct hk_receiver *n);
/* The sender has ended the promotion: messages from @end on come by MPI. Copies @untaken; takes
 * over the reference to @send_order. */
void hk_receiver_ended(struct hk_receiver *n, uint64_t end, const struct hk_put_position *untaken,
		       uint32_t untaken_count, struct hk_send_order *send_order);
/* Makes @n plain again if all puts of its promotion have been received. */
void hk_receiver_check(struct hk_receiver *n);
/* Does a receive of @c still wait for a put? */
bool hk_receiver_any_waiting(const struct hk_comm *c);
/* Is a report of taken puts in flight? */
bool hk_receiver_reporting(void);

/* Is there a message that came by a put before its receive? */
static inline bool hk_receiver_has_unexpected(const struct hk_receiver *n)
{
	return n->state == HK_RECEIVER_ENDING && n->posted >= n->start && n->posted < n->end;
}

/* ---- send_order.c */
/* Copies @send_order, which has the number @number from now on. False: it is malformed. */
bool hk_send_order_reported(struct hk_receive_pair *p, uint32_t number,
			    const struct hk_send_order *send_order, size_t bytes);
/* A reference to the send order @number; NULL for 0. */
struct hk_send_order *hk_send_order_acquire(struct hk_receive_pair *p, uint32_t number);
/* Gives a reference back; NULL: does nothing. */
void hk_send_order_release(struct hk_send_order *send_order);
/* Makes a receiver for each tag of @n's send order, so that their messages are counted. */
void hk_send_order_count(struct hk_receiver *n);
/* The position of @n's next message, a put, among all messages of the peer. */
uint64_t hk_send_order_position(const struct hk_receiver *n);
/* Was a message of another tag sent before @n's next message and not received yet? */
bool hk_send_order_has_earlier(const struct hk_receiver *n);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/wildcard.h: receives and probes that do not name one channel (wildcard.c), and MPI's
 * receives among them until it is known which message they take (unmatched.c).
 */
#ifndef HK_HALO_WILDCARD_H
#define HK_HALO_WILDCARD_H

#include "halo/promote/channel.h"

/* ---- wildcard.c */
/* Waits until all channels that (peer, tag) may name have ended. They may be promoted again when no
 * such call is under way (hk_wildcard_inside) and the program made none between two proposals. */
void hk_wildcard_end_channels(struct hk_comm *c, int peer, int tag);
/* Counts a call if it is of the kind that was seen first. */
static inline bool hk_wildcard_is_repeat(struct hk_comm *c, int peer, int tag)
{
	struct hk_pattern *p = &c->pattern[0];

	if (c->patterns == 0 || p->peer != peer || p->tag != tag)
		return false;
	p->calls++;
	return true;
}
/* Calls under way that may make progress and then ask MPI alone. */
extern int hk_wildcard_inside;
/* Has the program named @n's channel by a wildcard since the last call of this, or does it now? */
bool hk_wildcard_recent(struct hk_receiver *n);
/* The channel whose unexpected message the receive takes; NULL: MPI's. *@first: an earlier message
 * of MPI is in flight. It goes to this receive or to an earlier one of MPI's, so the caller asks
 * again. */
struct hk_receiver *hk_wildcard_pick(struct hk_comm *c, int peer, int tag, bool *first);

/* Cancels a request of the program. False: MPI cancels it. */
bool hk_wildcard_cancel(ompi_request_t *request);
/* Makes the message of MPI_Mprobe from one that came by a put. */
MPI_Message hk_probed_take(struct hk_receiver *n);
/* Receives such a message; the arguments are valid. False: the message is MPI's. */
bool hk_probed_receive(MPI_Message *message, void *buf, int count, ompi_datatype_t *type,
		       MPI_Request *request);
void hk_probed_comm_freed(MPI_Comm comm);

/* ---- unmatched.c */
/* MPI has matched a message: counts it as received on its channel. */
void hk_unmatched_count(struct hk_comm *c, const MPI_Status *status);
/* MPI's @request, just posted or started, is a wildcard receive. */
void hk_unmatched_posted(struct hk_comm *c, ompi_request_t *request);
/* Counts the messages of all requests that were matched in the meantime. */
void hk_unmatched_update(void);
/* Is there a request that may still take a message of this channel? */
bool hk_unmatched_may_take(const struct hk_receiver *n);
/* The program frees @request, which is under way. True: the promoter frees it later; false: MPI
 * does. */
bool hk_unmatched_freed(ompi_request_t *request);
void hk_unmatched_forget(const struct hk_comm *c);

#endif

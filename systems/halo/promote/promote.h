/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/promote.h: the promoter, libhikyaku_halo.so. A program preloads it and stays as it
 * is. The promoter watches the program's MPI messages and promotes those that repeat: it sends them
 * by puts (docs/halo.md, "Programs that stay as they are").
 *
 *   calls.c             the MPI functions that send and receive (calls.h)
 *   probes.c            the MPI functions that probe
 *   persistent.c        the MPI functions that make, start, cancel and free requests
 *   start.c             MPI_Init and MPI_Finalize, and the work inside MPI's progress
 *   comm.c              communicators and their channels (channel.h)
 *   table.c             finds a channel by peer and tag (table.h)
 *   period.c            finds sizes that repeat (period.h)
 *   sender.c            the sender's end of a channel: its messages (sender.h)
 *   sender_state.c      the sender's end of a channel: how a promotion begins and ends
 *   receiver.c          the receiver's end of a channel (receiver.h)
 *   control.c           the messages between the two ends of a channel (control.h)
 *   control_sender.c    those that concern a sender of this rank
 *   control_receiver.c  those that concern a receiver of this rank
 *   ends.c              the numbers by which ranks name each other's ends (ends.h)
 *   send_log.c          the order in which messages to a rank were sent (send_log.h)
 *   send_order.c        how a sender reports that order to the receiver
 *   wildcard.c          receives and probes that do not name one channel (wildcard.h)
 *   unmatched.c         such receives, until it is known which message they take
 *   pending.c           the requests of promoted messages, and persistent requests (pending.h)
 *   report.c            HK_HALO_REPORT
 *
 * DESIGN NOTES
 *
 * A *channel* is (communicator, sender, receiver, tag). MPI matches its k-th message with the k-th
 * receive that names it. So both ends count, and can agree that the messages from number k on go by
 * puts. The sender finds that sizes repeat and proposes a schedule (control.h). From then on both
 * ends know the size of each message. Each size has a *stream*: a notify target at the receiver
 * (hikyaku/notify.h), and one without bytes at the sender. The latter counts the puts that the
 * receiver has taken.
 *
 * Threads. Only the thread that calls MPI. With MPI_THREAD_MULTIPLE nothing is promoted.
 */
#ifndef HK_HALO_PROMOTE_H
#define HK_HALO_PROMOTE_H

#include "halo/promote/channel.h"
#include "halo/promote/control.h"
#include "halo/promote/pending.h"
#include "halo/promote/receiver.h"
#include "halo/promote/sender.h"
#include "halo/promote/wildcard.h"

/* The functions of Open MPI that the promoter replaces. */
/* clang-format off */
#define HK_REAL_FUNCTIONS(X) \
	X(Init) X(Init_thread) X(Finalize) X(Send) X(Isend) X(Ssend) \
	X(Issend) X(Bsend) X(Ibsend) X(Rsend) X(Irsend) X(Recv) \
	X(Irecv) X(Sendrecv) X(Sendrecv_replace) X(Probe) X(Iprobe) X(Mprobe) \
	X(Improbe) X(Mrecv) X(Imrecv) X(Send_init) X(Ssend_init) X(Bsend_init) \
	X(Rsend_init) X(Recv_init) X(Start) X(Startall) X(Request_free) X(Cancel) \
	X(Comm_free) X(Comm_disconnect)
/* clang-format on */

/* Open MPI's own functions, for example hk_real.Send. */
struct hk_real {
#define HK_REAL_MEMBER(name) __typeof__(MPI_##name) *name;
	HK_REAL_FUNCTIONS(HK_REAL_MEMBER)
};

extern struct hk_real hk_real;

/* ---- start.c */
extern const struct hk_service *hk_service; /* NULL: everything goes by Open MPI */
extern const char *hk_service_why;
/* The promoter counts messages and may promote them. */
extern bool hk_promote_watching;
/* Pieces of work that progress must look at: puts, receives and control messages under way. */
extern int hk_promote_busy;
/* Does everything that needs no call of the program. MPI's progress calls it. */
int hk_promote_progress(void);
void hk_promote_start(void);
void hk_promote_stop(void);
/* Collective over @c: ends all its channels and frees it. */
void hk_promote_close_comm(struct hk_comm *c);
/* Prints the cause and aborts the job. */
__attribute__((noreturn)) void hk_promote_abort(const char *cause);

/* ---- report.c */
void hk_promote_report(void);
/* Adds a sender that is about to be freed to the report. */
void hk_promote_report_sender(const struct hk_sender *o);
/* Adds the messages without a sender of a communicator that is about to be freed. */
void hk_promote_report_comm(const struct hk_comm *c);

#endif

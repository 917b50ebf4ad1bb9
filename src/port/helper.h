/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/helper.h: how a process gets an AF_XDP socket from hikyaku-helper.
 *
 * DESIGN NOTES
 *
 * Problem. An AF_XDP socket needs capabilities that ranks should not have, and an XDP program that
 * must vanish when nobody needs it. Several ranks share an interface. So none of them can own what
 * belongs to all: the program, the memory of the queue, and its fill and completion rings.
 *
 * Approach. One small program does what needs rights, and owns what is shared. It listens at a name
 * of the network namespace. Its clients get descriptors (unix(7), SCM_RIGHTS): of a ready socket,
 * of the queue's rings, and of the memory. When a client's connection closes, its socket receives
 * nothing more. When the last client of an interface has gone, so has the program. It is attached
 * by a link that only the helper holds. So the kernel detaches it however the helper ends.
 *
 * Start. The system's administrator starts it by a systemd unit; else the first process that needs
 * it does. That one ends with its last client. It has the rights of the user who started it, or
 * those that the file has (setcap(8)). Which users may use which interface is written in a file of
 * the operator (src/helper/policy.h).
 *
 * The memory of a queue. The kernel gives a queue to one umem. All sockets of the queue share it
 * (XDP_SHARED_UMEM), and so all of them belong to one user. Chunks that nobody has lie in a list in
 * the same memory. Each process copies received frames out of their chunks, and frames that it
 * sends into chunks. So a process that is killed loses no more than what its rings hold.
 *
 * Messages have fixed sizes; the socket keeps their borders (SOCK_SEQPACKET). Both ends check each
 * field.
 */
#ifndef HK_PORT_HELPER_H
#define HK_PORT_HELPER_H

#include "base/common.h"
#include "hikyaku/error.h"

#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

#define HK_HELPER_NAME    "hikyaku-helper" /* abstract name of the socket, and of the program */
#define HK_HELPER_VERSION 2u
#define HK_HELPER_FDS     3 /* with the answer to HK_HELPER_OPEN, in this order: */
enum { HK_HELPER_FD_SOCKET, HK_HELPER_FD_QUEUE, HK_HELPER_FD_MEMORY };

#define HK_CHUNK           4096u /* bytes of a chunk: a page, the most that AF_XDP permits */
#define HK_CHUNK_HEAD      256u  /* XDP_PACKET_HEADROOM: where the kernel puts a received frame */
#define HK_CHUNK_DATA      (HK_CHUNK - HK_CHUNK_HEAD)
#define HK_XSK_FILL        2048u /* entries of the fill ring, and of the completion ring */
#define HK_XSK_RX          2048u /* of a process alone on a queue; */
#define HK_XSK_RX_SHARED   512u  /* of one of several */
#define HK_XSK_TX          512u
#define HK_XSK_SHARERS_MAX 64u /* processes on a queue */

enum hk_helper_op {
	HK_HELPER_OPEN = 1,  /* a socket on a queue. Answer: with HK_HELPER_FDS descriptors */
	HK_HELPER_CLAIM = 2, /* frames for an endpoint of a job go to this client's socket */
	/* So do datagrams of UDP for the address and port of the UDP socket that comes with the
	 * request. Only who has the socket can take them, and the helper keeps it open, so that
	 * nobody else gets its port. */
	HK_HELPER_CLAIM_DATAGRAMS = 3,
};

/* Which frames a socket gets. */
enum hk_helper_take {
	HK_HELPER_TAKE_OURS = 0, /* all of our EtherTypes that nobody has claimed */
	HK_HELPER_TAKE_CLAIMED,  /* those that it claims */
	HK_HELPER_TAKE_ALL,      /* all frames of the queue; the kernel gets none */
};

struct hk_helper_request {
	uint32_t version, op;
	/* HK_HELPER_OPEN */
	char iface[16];   /* terminated */
	uint32_t queue;   /* of the interface */
	uint32_t sharers; /* processes that will share the queue, this one included; 1 and more */
	uint32_t take;    /* enum hk_helper_take */
	uint32_t copy;    /* 1: never zero-copy */
	uint32_t busy;    /* SO_BUSY_POLL_BUDGET; 0: no busy polling */
	/* HK_HELPER_CLAIM */
	uint32_t job, endpoint;
};

struct hk_helper_reply {
	int32_t rc; /* 0, or a negative errno with a sentence. -EAGAIN: soon */
	char text[sizeof(((struct hk_error *)0)->text)];
	uint32_t slot;         /* of this client, from 1: holds the queue's locks by this number */
	uint32_t chunks;       /* of the memory */
	uint32_t rx_ring;      /* entries */
	uint32_t frame_max;    /* bytes of the largest frame */
	uint32_t native, zero; /* attached in the driver; zero-copy */
	uint8_t mac[6];        /* of the interface */
	uint8_t pad[2];
};

/* Behind the chunks, in the same memory. Clients trust each other: they are one user's. */
struct hk_umem_shared {
	/* first of the free chunks: number + 1, and a tag in the upper half */
	_Atomic uint64_t free;
	_Alignas(64) _Atomic uint32_t fill_lock;       /* slot of the client that writes the ring */
	_Alignas(64) _Atomic uint32_t completion_lock; /* slot of the one that reads it; 0: none */
	_Alignas(64) _Atomic uint32_t next[];          /* of each chunk: the next free one + 1 */
};

/* Writes the address at which the helper listens. Returns its length. */
static inline socklen_t hk_helper_address(struct sockaddr_un *at)
{
	*at = (struct sockaddr_un){.sun_family = AF_UNIX, .sun_path = "\0" HK_HELPER_NAME};
	return offsetof(struct sockaddr_un, sun_path) + sizeof(HK_HELPER_NAME);
}

/* Bytes of the memory of @chunks chunks. */
static inline size_t hk_umem_bytes(uint32_t chunks)
{
	return (size_t)chunks * HK_CHUNK + sizeof(struct hk_umem_shared) +
	       chunks * sizeof(uint32_t);
}

/* Chunks of a queue that @sharers processes share. Each can fill its receive ring and its transmit
 * ring while the fill ring is full, too. */
static inline uint32_t hk_umem_chunks(uint32_t sharers)
{
	uint32_t rx = sharers > 1 ? HK_XSK_RX_SHARED : HK_XSK_RX;

	return HK_XSK_FILL + sharers * (rx + 2 * HK_XSK_TX);
}

/* Connects to the helper of this network namespace, and starts one if there is none. Waits until
 * @deadline (hk_clock_ms()). Returns the connection or a negative errno with a sentence, which
 * begins with @who. */
int hk_helper_connect(const char *who, int64_t deadline, struct hk_error *err);

/* Returns whether a helper that we believe runs in this network namespace. It starts none. */
bool hk_helper_runs(void);

/* Sends @request, with the descriptor @with unless that is -1, and waits for the answer until
 * @deadline. @fd: HK_HELPER_FDS descriptors, which the caller closes; NULL: the answer has none.
 * Returns 0, or a negative errno with a sentence. -EAGAIN: the helper asks to try again.
 * -ECONNRESET: it has ended; another one can be started. */
int hk_helper_ask(int helper, const char *who, const struct hk_helper_request *request, int with,
		  struct hk_helper_reply *reply, int *fd, int64_t deadline, struct hk_error *err);

#endif

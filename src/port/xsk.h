/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/xsk.h: ports on an AF_XDP socket (af_xdp:…), beside the kernel's own traffic.
 *
 * DESIGN NOTES
 *
 * Problem. DPDK's driver takes an interface for itself and for one process. It attaches a program
 * that gives it all frames, and it needs many rights. Here a NIC also carries ssh, and several
 * ranks.
 *
 * Approach. hikyaku-helper (port/helper.h) hands out sockets. An XDP program leads our frames to
 * them, and leaves all others to the kernel. This file moves frames between the rings of a socket
 * (kernel: Documentation/networking/af_xdp.rst) and packet buffers.
 *
 * Each frame is copied, from its chunk to a buffer or back. A frame has at most 3840 bytes, which
 * are in the cache. In return chunks are in the rings alone. A buffer that the layers above keep
 * holds none back, and buffers may come from any pool. The memory that the kernel locks is small.
 *
 * Chunks. Each process has a few at hand. It takes them from a list in the queue's memory and gives
 * them back there, some at a time. The list has no lock (Treiber, Systems Programming: Coping with
 * Parallelism, 1986); a tag in its head makes an old value of the head invalid.
 *
 * The fill and completion rings belong to the queue, and each has one lock. A process that finds it
 * taken goes on without, and tries again at the next burst. The helper frees the lock of a process
 * that dies.
 *
 * To DPDK the port is a device that it has not made (port/number.h).
 */
#ifndef HK_PORT_XSK_H
#define HK_PORT_XSK_H

#include "port/helper.h"
#include "port/internal.h"

#define HK_XSK_HAND  256u /* chunks that a process keeps at hand */
#define HK_XSK_BATCH 64u  /* chunks that move between lists and rings at a time */

/* One side of a ring that the kernel shares. */
struct hk_xsk_ring {
	_Atomic uint32_t *producer, *consumer, *flags;
	void *entry; /* struct xdp_desc, or uint64_t */
	uint32_t size;
	void *mapped;
	size_t mapped_bytes;
};

struct hk_xsk {
	struct hk_xsk_ring rx, tx, fill, completion;
	char *memory; /* the chunks */
	struct hk_umem_shared *shared;
	uint32_t chunks, slot;
	struct rte_mempool *pool;
	int fd, helper;
	bool busy;   /* an empty poll asks the kernel to look at the NIC */
	bool unsent; /* the kernel has not taken all entries of the transmit ring */
	unsigned hand_count;
	uint32_t hand[HK_XSK_HAND];
};

/* Gets a socket on @p's interface. hk_xsk_close() gives it back. */
int hk_xsk_attach(struct hk_port_impl *p, enum hk_helper_take take, unsigned sharers,
		  int64_t deadline, struct hk_error *err);

/* Opens the port of @p's spec, with @buffers buffers or into @pool. */
int hk_xsk_open(struct hk_port_impl *p, unsigned buffers, struct rte_mempool *pool,
		enum hk_helper_take take, unsigned sharers, int64_t deadline, struct hk_error *err);
void hk_xsk_close(struct hk_port_impl *p);

/* Takes the frames for @endpoint of job @job, in a port that was opened with
 * HK_HELPER_TAKE_CLAIMED. */
int hk_xsk_claim(struct hk_port_impl *p, uint32_t job, uint32_t endpoint, struct hk_error *err);

/* Takes the datagrams for the address and port of @udp, a UDP socket, from the port's queue. */
int hk_xsk_claim_datagrams(struct hk_port_impl *p, int udp, struct hk_error *err);

/* The descriptor of the port's socket. */
int hk_xsk_fd(const struct hk_port_impl *p);

/* Whether the helper lives: without it no frame arrives. */
bool hk_xsk_alive(const struct hk_port_impl *p);

/* Bursts, in the form that rte_eth_fp_ops has. @queue: a struct hk_xsk. */
uint16_t hk_xsk_rx(void *queue, struct rte_mbuf **m, uint16_t n);
uint16_t hk_xsk_tx(void *queue, struct rte_mbuf **m, uint16_t n);

/* Writes frame @i of a burst, @m, to @to, which has HK_CHUNK_DATA bytes. Returns its length;
 * 0: it is lost. */
typedef uint32_t hk_xsk_write(void *arg, unsigned i, const struct rte_mbuf *m, char *to);

/* Makes @m of the received @frame. False: it is none of ours. */
typedef bool hk_xsk_read(void *arg, const char *frame, uint32_t len, struct rte_mbuf *m);

/* The same bursts, for frames that have another form in buffers than on the wire. */
uint16_t hk_xsk_receive(struct hk_xsk *x, struct rte_mbuf **m, uint16_t n, hk_xsk_read *read,
			void *arg);
uint16_t hk_xsk_send(struct hk_xsk *x, struct rte_mbuf **m, uint16_t n, hk_xsk_write *write,
		     void *arg);

/* Puts free chunks into the fill ring, as many as fit. */
void hk_xsk_fill(struct hk_xsk *x);

/* Gives all chunks at hand, and those of received frames, back to the list. */
void hk_xsk_return_chunks(struct hk_xsk *x);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/probe.h: the frames of `hk_devmem measure`, and of its counterpart `hk_devmem peer`.
 *
 * Every frame begins with struct hk_probe. Frames of data have the size that is measured. The
 * others have HK_PROBE_BYTES, so that the measured side need not read a frame of data to tell them
 * apart:
 *
 *   measured NIC                        peer
 *     start (run, size, whether to send)  ->       again and again, until
 *                                       <-  ready
 *     data                              <->
 *     stop                                ->       again and again, until
 *                                       <-  report: frames sent, received, and wrong
 *
 * A NIC and a cable keep the order of frames, so a report comes after the peer's last data. Its
 * counts include the measured side's. The peer stops by itself when the time of `start` has passed.
 * Numbers are little-endian.
 */
#ifndef HK_TOOL_PROBE_H
#define HK_TOOL_PROBE_H

#include "base/common.h"
#include "devmem/pop/pop.h"
#include "port/port.h"

#define HK_PROBE_BYTES     60u /* of a frame that is not data; the smallest frame of Ethernet */
#define HK_PROBE_MIN       64u /* bytes of a frame of data */
#define HK_PROBE_MAX       9000u
#define HK_PROBE_FRAME_MAX 9100u /* of a port; virtio's driver adds a header of its own to it */
#define HK_PROBE_BUFFER    9216u
#define HK_PROBE_BURST     16
#define HK_PROBE_BUFFERS   1024
#define HK_PROBE_MARK      UINT64_C(0x21554b414b494821)

enum hk_probe_kind {
	HK_PROBE_DATA,
	HK_PROBE_START,
	HK_PROBE_READY,
	HK_PROBE_STOP,
	HK_PROBE_REPORT
};

struct hk_probe {
	uint8_t to[6], from[6], type[2];
	uint64_t mark;
	uint32_t kind, run;
	uint64_t number; /* data: number of the frame; start: size of frames; report: frames sent */
	uint64_t first; /* start: how long the peer may send, ns; 0: not at all. report: received */
	uint64_t second; /* start: most frames/s, 0: any. report: frames with other content */
} __attribute__((packed));

_Static_assert(sizeof(struct hk_probe) <= HK_PROBE_BYTES, "fits the smallest frame");

/* Fills in all but the numbers. */
void hk_probe_fill(struct hk_probe *p, const uint8_t to[6], const uint8_t from[6],
		   enum hk_probe_kind kind, uint32_t run);

/* Converts between the order of the frame and of this machine. */
void hk_probe_swap(struct hk_probe *p);

/* Sends one frame of HK_PROBE_BYTES. @pop: the memory of @pool; NULL: main memory. False: there is
 * no buffer, or no space in the ring. */
bool hk_probe_send(struct hk_port *port, struct rte_mempool *pool, struct hk_pop *pop,
		   const struct hk_probe *p);

/* Sends up to @n frames of data (at most HK_PROBE_BURST) with @size bytes, numbered from p->number
 * on. Returns how many the port has taken. */
unsigned hk_probe_burst(struct hk_port *port, struct rte_mempool *pool, struct hk_pop *pop,
			struct hk_probe *p, unsigned n, unsigned size);

/* The frames that may be sent now, at most HK_PROBE_BURST, if @sent were sent in @ns. @rate:
 * frames/s; 0: without a limit. */
unsigned hk_probe_allowed(uint64_t rate, uint64_t ns, uint64_t sent);

/* Reads the header of a received frame, which has at least HK_PROBE_BYTES. False: not a frame of
 * ours. */
bool hk_probe_read(struct hk_pop *pop, struct rte_mbuf *frame, struct hk_probe *out);

#endif

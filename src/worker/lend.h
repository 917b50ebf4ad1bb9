/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/lend.h: frames whose payload lies in the caller's memory.
 *
 * DESIGN NOTES
 *
 * A port that copies at transmit (hk_port_info) can read the payload where it lies. Then a frame is
 * two mbufs. The frame buffer has the headers, and an mbuf in its private area points to the
 * caller's bytes. A tag behind them (protection `auth`) is a third one. There are two uses:
 *  - A frame of a put points to its source until it is acknowledged (put.c).
 *  - A message may be lent (hk_worker_lend()). Its bytes are copied to the frame buffers too, since
 *    they may have to be sent again. But that happens after the frames have left, while the network
 *    carries them.
 */
#ifndef HK_WORKER_LEND_H
#define HK_WORKER_LEND_H

#include "worker/internal.h"

#define HK_LEND_MIN 512 /* bytes; to copy fewer is cheaper than a second mbuf */

/* Appends @len bytes at @from to the headers in @b, without copying them. */
void hk_buf_attach(hk_buf *b, char *from, uint16_t len);

/* Appends the @len bytes of a trailer behind those. They lie in @b, where they would be if the
 * payload lay before them. */
void hk_buf_attach_trailer(hk_buf *b, uint16_t len);

/* Copies the appended bytes into @b itself, which is large enough. Not by the poller. */
void hk_buf_detach(hk_buf *b);

/* Makes @b one mbuf again, without the appended bytes. */
static inline void hk_buf_drop_source(hk_buf *b)
{
	b->next = NULL;
	b->nb_segs = 1;
}

#endif

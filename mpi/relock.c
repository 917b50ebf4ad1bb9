/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/relock.c: keeps osc/rdma of Open MPI 4.1.4 and before from waiting for itself.
 *
 * To look at what a peer has attached to a dynamic window, it takes the peer's region lock exclusively
 * (compare-and-swap of 0 with the highest bit), gets the number of regions, and, where that is new to it, takes the
 * same lock shared (fetch-and-add of 1): which it does until the highest bit is gone, so for ever
 * (github.com/open-mpi/ompi issue 10328; mended in 4.1.5). Who holds a lock exclusively may well have it
 * shared: to the holder that comes by this very way, the addition shows the lock without its own bit. What lies in
 * memory is the same as ever.
 *
 * The way is told by all of it: the swap that succeeded, on this word; a get of the 8 bytes that lie 16
 * behind it, as the number does; then the addition of 1 to the word, before the bit is taken away.
 */
#include "mpi/btl_hikyaku.h"

#include <mpi.h>

#define NEEDED (OMPI_MAJOR_VERSION == 4 && OMPI_MINOR_VERSION <= 1 && OMPI_RELEASE_VERSION <= 4)
#define HELD   (UINT64_C(1) << 63)
#define NUMBER 16 /* bytes from the lock to the number of regions */

void hk_btl_relock_got(hk_endpoint *ep, uint64_t at, size_t size)
{
	if (NEEDED && HK_UNLIKELY(ep->relock.at != 0) && size == 8 && at == ep->relock.at + NUMBER)
		ep->relock.looked = true;
}

uint64_t hk_btl_relock_seen(hk_endpoint *ep, uint64_t at, const struct hk_wire_atomic *w,
			    uint64_t old)
{
	if (!NEEDED || w->size != 8)
		return old;
	if (w->op == HK_ATOMIC_CAS && w->compare == 0 && w->operand == HELD && old == 0) {
		ep->relock.at = at;
		ep->relock.looked = false;
	} else if (w->op == HK_ATOMIC_ADD && at == ep->relock.at) {
		if (w->operand == HELD)
			ep->relock.at = 0;
		else if (w->operand == 1 && ep->relock.looked)
			return old & ~HELD;
	}
	return old;
}

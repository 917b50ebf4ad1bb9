/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/relock.c: keeps osc/rdma of Open MPI 4.1.4 and before from waiting for itself.
 *
 * DESIGN NOTES
 *
 * Problem. osc/rdma reads the regions that a peer has attached to a dynamic window. It first takes
 * the peer's region lock exclusively: a compare-and-swap of 0 with the highest bit. Then it gets
 * the number of regions. If that number is new, it takes the same lock shared, by a fetch-and-add
 * of 1 that it repeats until the highest bit is gone. It set that bit itself, so it waits for ever
 * (github.com/open-mpi/ompi issue 10328, fixed in 4.1.5).
 *
 * Approach. A rank that holds the lock exclusively may also have it shared. So the result of this
 * addition is shown to the holder without its own bit. The word in memory is not changed otherwise.
 *
 * Recognition. Three steps must match, in this order. A compare-and-swap has succeeded on this
 * word. A get has read the 8 bytes that lie 16 bytes after it. 1 is added before the bit is
 * cleared.
 */
#include "openmpi/btl/btl_hikyaku.h"

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

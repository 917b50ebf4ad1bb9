/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/pool.c: receive buffers in memory that the user chose (devmem/pop/pop.h). Only for a
 * rank that polls its own port.
 */
#include "openmpi/btl/btl_hikyaku.h"
#include "devmem/pop/pop.h"

#include "opal/util/output.h"

#include <errno.h>

#define PARAMS (&mca_btl_hikyaku_component.param)

/* of any port, headers included; beyond it are only memif wires that ask for more */
#define FRAME_MAX 9216u
#define RINGS     2048u /* buffers that a NIC's rings hold */

static struct hk_pop *pop;

int hk_btl_pool_open(struct hk_error *err)
{
	unsigned frame = FRAME_MAX;

	for (unsigned i = 0; i < hk_btl.ports.count; i++)
		frame = HK_MAX(hk_port_wire_frame_max(hk_btl.ports.spec[i]), frame);
	if (!PARAMS->pool || !*PARAMS->pool)
		return 0;
	if (hk_btl.daemon)
		return hk_error_set(
			err, -ENOTSUP,
			"btl_hikyaku_pool=%s: a polling process shares its buffers with ranks, and "
			"these cannot be shared; fix: --mca btl_hikyaku_mode inline",
			PARAMS->pool);
	int rc = hk_pop_open(PARAMS->pool, &pop, err);
	if (!rc)
		rc = hk_pop_map_for_ports(pop, err);
	if (!rc)
		rc = hk_pop_mempool(pop, "hk_btl_pool", PARAMS->rx_buffers + RINGS, frame,
				    &hk_btl.rx_pool, err);
	if (rc) {
		hk_pop_close(pop);
		pop = NULL;
		return rc;
	}
	opal_output_verbose(1, mca_btl_hikyaku_component.output,
			    "hikyaku: %u receive buffers of %u bytes in %s",
			    PARAMS->rx_buffers + RINGS, frame, PARAMS->pool);
	return 0;
}

void hk_btl_pool_close(void)
{
	if (!pop)
		return;
	hk_pop_mempool_free(pop, hk_btl.rx_pool);
	hk_btl.rx_pool = NULL;
	hk_pop_close(pop);
	pop = NULL;
}

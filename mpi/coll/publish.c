/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/coll/publish.c: what a rank tells all others when it starts, out of band (Open MPI's modex): that it has this
 * component, and the parameters by which it decides. A rank that was started without it, or set otherwise, would do a Bcast
 * by other messages than the rest, and all would wait for each other.
 */
#include "mpi/coll/coll_hikyaku.h"

#include "opal/mca/pmix/pmix.h"

#include <stdlib.h>

#define VERSION 1u

struct published {
	uint32_t version;
	uint32_t min_bytes, min_ranks, max_ranks;
};

static struct published ours(void)
{
	const struct hk_coll_params *p = HK_COLL_PARAMS;

	return (struct published){VERSION, p->min_bytes, p->min_ranks, p->max_ranks};
}

void hk_coll_publish(void)
{
	const struct published p = ours();
	int rc;

	if (!opal_pmix.put) /* ompi_info */
		return;
	OPAL_MODEX_SEND(rc, OPAL_PMIX_GLOBAL, &mca_coll_hikyaku_component.super.collm_version, &p,
			sizeof(p));
	if (rc != OPAL_SUCCESS)
		hk_coll_say(NULL,
			    "cannot tell the others of this component: they do without it, too");
}

bool hk_coll_alike(const ompi_proc_t *proc)
{
	const struct published mine = ours();
	struct published *p = NULL;
	size_t len = 0;
	bool alike;
	int rc;

	OPAL_MODEX_RECV(rc, &mca_coll_hikyaku_component.super.collm_version, &proc->super.proc_name,
			(void **)&p, &len);
	alike = rc == OPAL_SUCCESS && p && len == sizeof(*p) && memcmp(p, &mine, sizeof(mine)) == 0;
	free(p);
	return alike;
}

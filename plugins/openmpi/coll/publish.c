/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/coll/publish.c: the data that a rank publishes at its start, out of band (Open MPI's
 * modex).
 *
 * It states that the rank has this component, and the parameters of its decision. A rank without
 * the component, or with other parameters, would do a Bcast by other messages than the rest.
 * Then all ranks would wait for each other.
 */
#include "openmpi/coll/coll_hikyaku.h"

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

	if (!hk_can_publish()) /* ompi_info */
		return;
	OPAL_MODEX_SEND(rc, HK_GLOBAL, &mca_coll_hikyaku_component.super.collm_version, &p,
			sizeof(p));
	if (rc != OPAL_SUCCESS)
		hk_coll_log(NULL,
			    "cannot publish that this rank has the component: no communicator with "
			    "it multicasts");
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

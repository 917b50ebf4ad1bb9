/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/announce.c: tells the user at the start by what the ranks of the job talk, and which
 * parameters do not exist. If the ranks do not use Hikyaku, it tells the reason, and repeats it at
 * the end of the process.
 *
 * Open MPI takes another BTL where ours does not start. Its own messages then hide ours, or the job
 * just runs, and the user believes that it has used Hikyaku. So the reason is repeated when the
 * process ends.
 */
#include "openmpi/btl/btl_hikyaku.h"
#include "openmpi/version.h"

#include "opal/mca/base/mca_base_var.h"
#include "opal/util/output.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t job_value(const char *key)
{
	opal_process_name_t job = {opal_proc_local_get()->proc_name.jobid, OPAL_VPID_WILDCARD};
	uint32_t value = 0, *at = &value;
	int rc;

	OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, key, &job, &at, HK_UINT32);
	return rc == OPAL_SUCCESS ? value : 0;
}

/* Are there ranks on other nodes? @ranks: of the job. */
static bool spans_nodes(uint32_t ranks)
{
	return ranks > (uint32_t)opal_process_info.num_local_peers + 1;
}

uint32_t hk_btl_job_size(void)
{
	return job_value(HK_JOB_SIZE);
}

bool hk_btl_job_is_on_one_node(void)
{
	return !spans_nodes(hk_btl_job_size());
}

/* Only the first rank of the job that mpirun starts, not of those that it spawns. */
static bool speaks_for_the_job(void)
{
	opal_process_name_t me = opal_proc_local_get()->proc_name;

	return me.vpid == 0 && (me.jobid & 0xffff) <= 1; /* 0: without mpirun */
}

void hk_btl_announce(void)
{
	static bool done;

	if (done || !mca_btl_hikyaku_component.param.announce || !speaks_for_the_job())
		return;
	done = true;
	uint32_t ranks = job_value(HK_JOB_SIZE), nodes = job_value(HK_NUM_NODES);
	const char *mode = hk_btl.daemon ? hk_ctl_mode_name(hk_btl_mode_current()) : "inline";
	char port[256];
	bool apart = spans_nodes(ranks);

	if (ranks < 2)
		return;
	hk_ports_text(&hk_btl.ports, port, sizeof(port));
	if (apart && nodes > 1)
		opal_output(0, "hikyaku: %u ranks on %u nodes, port %s, mode %s", ranks, nodes,
			    port, mode);
	else if (apart)
		opal_output(0, "hikyaku: %u ranks, port %s, mode %s", ranks, port, mode);
	else if (!mca_btl_hikyaku_component.param.same_node)
		opal_output(0,
			    "hikyaku: all %u ranks are on one node: they talk by Open MPI's shared "
			    "memory%s%s",
			    ranks, *port ? ", not by port " : "", port);
}

void hk_btl_announce_unknown_parameters(void)
{
	static const char prefix[] = "OMPI_MCA_btl_hikyaku_";

	if (!mca_btl_hikyaku_component.param.announce || !speaks_for_the_job())
		return;
	for (char **each = environ; *each; each++) {
		int len = (int)strcspn(*each, "=");
		char name[128];

		if (strncmp(*each, prefix, strlen(prefix)) != 0 || len >= (int)sizeof(name))
			continue;
		snprintf(name, sizeof(name), "%.*s", len, *each);
		if (mca_base_var_find("opal", "btl", "hikyaku", name + strlen(prefix)) < 0)
			opal_output(0,
				    "hikyaku: there is no parameter '%s', so it sets nothing; fix: "
				    "use one of: ompi_info --level 9 --param btl hikyaku",
				    name + strlen("OMPI_MCA_"));
	}
}

/* ---- at the end ------------------------------------------------------------------------------ */

static char reason[1024];

static void remind(void)
{
	fprintf(stderr, "hikyaku: this job did not use Hikyaku: %s\n", reason);
}

/* Can Open MPI reach other nodes without us? Not if --mca btl names only BTLs of one node. */
static bool others_reach_other_nodes(void)
{
	static const char *const local[] = {"self", "vader", "sm", "smcuda", "hikyaku"};
	const char *const *value = NULL;
	int index = mca_base_var_find("opal", "btl", NULL, NULL);
	char list[256], *rest = list;

	if (index < 0 || mca_base_var_get_value(index, &value, NULL, NULL) != OPAL_SUCCESS ||
	    !value || !*value || **value == '^')
		return true;
	snprintf(list, sizeof(list), "%s", *value);
	for (char *name; (name = strsep(&rest, ",")) != NULL;) {
		bool known = false;
		for (size_t i = 0; i < HK_ARRAY_LEN(local); i++)
			known |= strcmp(name, local[i]) == 0;
		if (!known)
			return true;
	}
	return false;
}

void hk_btl_announce_failure(const char *text)
{
	Dl_info self;

	hk_btl_error("%s", text);
	/* Open MPI would go on, fail to reach the other nodes, and explain that at length. */
	if (!hk_btl_job_is_on_one_node() && !others_reach_other_nodes())
		hk_abort_job();
	if (!mca_btl_hikyaku_component.param.announce || opal_process_info.my_local_rank != 0)
		return;
	/* Open MPI unloads a component that it does not use, but remind() runs after that. */
	if (!dladdr(&reason, &self) ||
	    !dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE))
		return;
	snprintf(reason, sizeof(reason), "%s", text);
	hk_btl_add_parameters(reason, sizeof(reason));
	atexit(remind);
}

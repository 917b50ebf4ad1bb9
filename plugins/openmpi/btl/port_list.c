/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/port_list.c: which ports the rank shall have, by btl_hikyaku_port.
 *
 * "auto", which is the value if the user names none, stands for what port/auto.h chooses.
 */
#include "openmpi/btl/btl_hikyaku.h"
#include "port/auto.h"

#include "opal/util/output.h"

#include <string.h>

#define PARAMS (&mca_btl_hikyaku_component.param)

bool hk_btl_port_is_auto(void)
{
	return !PARAMS->port || !*PARAMS->port || strcmp(PARAMS->port, "auto") == 0;
}

static int choose(char *list, size_t len, struct hk_error *err)
{
	const struct hk_auto_config cfg = {PARAMS->if_include, PARAMS->if_exclude,
					   opal_process_info.my_local_rank};
	int rc = hk_port_auto(&cfg, list, len, err);

	if (rc == 0)
		opal_output_verbose(1, mca_btl_hikyaku_component.output, "hikyaku: port auto is %s",
				    list);
	return rc;
}

int hk_btl_port_list_read(struct hk_error *err)
{
	char chosen[2 * HK_PORT_SPEC_MAX];
	const char *list = PARAMS->port;
	int rc = 0;

	if (hk_btl_port_is_auto()) {
		rc = choose(chosen, sizeof(chosen), err);
		list = chosen;
	}
	return rc ? rc : hk_ports_read(&hk_btl.ports, list, "btl_hikyaku_port", err);
}

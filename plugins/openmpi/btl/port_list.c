/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/port_list.c: which ports the rank shall have, by btl_hikyaku_port.
 *
 * "auto", which is the value if the user names none, stands for what port/auto.h chooses. A `?` at
 * the end of a port makes it optional: the rank goes without it if it does not open.
 */
#include "openmpi/btl/btl_hikyaku.h"
#include "port/auto.h"

#include "opal/util/output.h"

#include <errno.h>
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

/* Takes the mark of an optional port from the end of @spec. */
static bool take_mark(char *spec)
{
	size_t len = strlen(spec);
	bool found = len > 0 && spec[len - 1] == '?';

	if (found)
		spec[len - 1] = '\0';
	return found;
}

static int check(unsigned i, struct hk_error *err)
{
	if (hk_port_spec_is_wire_set(hk_btl.path[i]) != hk_btl.wire_set)
		return hk_error_set(err, -EINVAL,
				    "btl_hikyaku_port: of %s and %s one is a set of wires "
				    "(memif:dir=) and one is not; fix: name ports of one kind",
				    hk_btl.path[0], hk_btl.path[i]);
	if (hk_btl.wire_set && hk_btl.optional[i])
		return hk_error_set(err, -EINVAL,
				    "btl_hikyaku_port: %s is a set of wires, which cannot be "
				    "optional; fix: leave out the ?",
				    hk_btl.path[i]);
	for (unsigned k = 0; k < i && !hk_port_spec_repeats(hk_btl.path[i]); k++)
		if (strcmp(hk_btl.path[i], hk_btl.path[k]) == 0)
			return hk_error_set(err, -EINVAL,
					    "btl_hikyaku_port names %s twice; fix: name each port "
					    "once",
					    hk_btl.path[i]);
	return 0;
}

int hk_btl_port_list_read(struct hk_error *err)
{
	char chosen[2 * HK_PORT_SPEC_MAX];
	const char *list = PARAMS->port;
	int n, rc = 0;

	if (hk_btl_port_is_auto()) {
		rc = choose(chosen, sizeof(chosen), err);
		list = chosen;
	}
	n = rc ? rc : hk_port_list_split(list, hk_btl.path, HK_PATHS_MAX, err);
	if (n < 0)
		return n;
	hk_btl.path_count = (unsigned)n;
	for (unsigned i = 0; i < hk_btl.path_count; i++)
		hk_btl.optional[i] = take_mark(hk_btl.path[i]);
	hk_btl.wire_set = hk_port_spec_is_wire_set(hk_btl.path[0]);
	for (unsigned i = 0; rc == 0 && i < hk_btl.path_count; i++)
		rc = check(i, err);
	return rc;
}

bool hk_btl_port_list_is_private(void)
{
	for (unsigned i = 0; i < hk_btl.path_count; i++)
		if (!hk_port_spec_is_private(hk_btl.path[i]))
			return false;
	return true;
}

bool hk_btl_port_list_leave_out(unsigned i, const char *why)
{
	if (!hk_btl.optional[i] || hk_btl.path_count == 1)
		return false;
	opal_output_verbose(1, mca_btl_hikyaku_component.output,
			    "hikyaku: without an optional port: %s", why);
	hk_btl.path_count--;
	for (; i < hk_btl.path_count; i++) {
		memcpy(hk_btl.path[i], hk_btl.path[i + 1], sizeof(hk_btl.path[i]));
		hk_btl.optional[i] = hk_btl.optional[i + 1];
	}
	return true;
}

void hk_btl_port_list_text(char *text, size_t len)
{
	size_t used = 0;

	*text = '\0';
	for (unsigned i = 0; i < hk_btl.path_count && used < len; i++)
		used += (size_t)snprintf(text + used, len - used, "%s%s", i ? "+" : "",
					 hk_btl.path[i]);
}

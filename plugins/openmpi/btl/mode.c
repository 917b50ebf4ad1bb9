/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/mode.c: the modes with hikyakud (hostd/hosted.h), by the parameters.
 */
#include "openmpi/btl/btl_hikyaku.h"

#include "opal/util/output.h"

#include <stdlib.h>

#define PARAMS (&mca_btl_hikyaku_component.param)

uint32_t hk_btl_mode_current(void)
{
	return hk_hosted_mode(hk_btl.daemon);
}

void hk_btl_note(const char *text)
{
	opal_output_verbose(1, mca_btl_hikyaku_component.output, "hikyaku: %s", text);
}

/* Attaches to the polling process if the user wants one. With "auto" the rank polls alone if there
 * can be none, and reports the reason. */
int hk_btl_mode_choose(struct hk_error *err)
{
	const struct hk_hosted_config cfg = {
		.mode = PARAMS->mode,
		.ports = hk_btl.ports.count,
		.mode_parameter = "btl_hikyaku_mode",
		.port_parameter = "btl_hikyaku_port",
		.note = hk_btl_note,
		.request =
			{
				.job_key = hk_btl.key,
				.endpoint = hk_btl.endpoint,
				.local_rank = opal_process_info.my_local_rank,
				.local_ranks = opal_process_info.num_local_peers + 1u,
				.name = PARAMS->daemon,
				.program = PARAMS->daemon_program,
				.port = hk_btl.ports.spec[0],
				.huge_dir = PARAMS->huge_dir ? PARAMS->huge_dir
							     : getenv("HIKYAKU_HUGE_DIR"),
				.rx_buffers = PARAMS->rx_buffers,
				.tx_buffers = PARAMS->tx_buffers,
				.eager_queues = PARAMS->eager_queues,
				.timeout_ms = PARAMS->connect_timeout_ms,
			},
	};

	return hk_hosted_open(&cfg, &hk_btl.daemon, err);
}

static struct hk_hosted_node node_of(const struct hk_candidate *c)
{
	return (struct hk_hosted_node){c->m.node_id, c->m.slot, c->m.slots, c->m.eager};
}

static int open_wires(const struct hk_candidate *list, size_t n, struct hk_error *err)
{
	struct hk_hosted_node *node = calloc(n, sizeof(*node));

	if (!node)
		return hk_error_set(err, -ENOMEM, "no memory");
	for (size_t i = 0; i < n; i++)
		node[i] = node_of(&list[i]);
	int rc = hk_hosted_wires(hk_btl.daemon, node, n, PARAMS->connect_timeout_ms, err);

	free(node);
	return rc;
}

void hk_btl_mode_txqs(struct hk_candidate *list, size_t n)
{
	struct hk_error err;

	if (n && open_wires(list, n, &err) != 0)
		hk_btl_error("%s", err.text);
	for (size_t i = 0; i < n; i++) {
		struct hk_candidate *c = &list[i];
		const struct hk_hosted_node node = node_of(c);

		if (!hk_hosted_reaches(hk_btl.daemon, node.node_id)) /* own, or said above */
			continue;
		if (hk_hosted_txqs(hk_btl.daemon, &node, &c->txq, &c->bulk, &err) != 0) {
			hk_btl_error("rank %u on %s: %s", c->proc->proc_name.vpid, c->m.host,
				     err.text);
			c->txq = -1;
		}
	}
}

void hk_btl_mode_unshare(void)
{
	struct hk_error err;

	if (hk_btl.daemon && hk_hosted_unshare(hk_btl.daemon, &err) != 0)
		hk_btl_error("%s", err.text);
}

void hk_btl_mode_leave(void)
{
	hk_hosted_close(hk_btl.daemon);
	hk_btl.daemon = NULL;
}

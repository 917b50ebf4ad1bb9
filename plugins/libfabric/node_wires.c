/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/node_wires.c: wires in shared memory to the processes of this node.
 *
 * Open MPI's component for libfabric sends what stays on a node by the provider, too. A NIC does
 * not bring its own frames back, and a UDP socket takes longer than shared memory. So besides its
 * ports a domain may have a set of wires (worker/node_set.h), to processes that have their socket
 * there. Wires need DPDK's drivers, which take 50 ms to start. So a domain has them only if the
 * launcher says that there are others on this node, and the program asks for FI_LOCAL_COMM. MPICH
 * has shared memory of its own and does not ask. If the set or a wire cannot be opened, the ports
 * carry what it would.
 */
#include "libfabric/provider.h"

#include "base/launcher.h"
#include "worker/calls.h"
#include "worker/node_set.h"
#include "worker/wires.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SETTING "FI_HIKYAKU_NODE_WIRES"
#define TRIES   3 /* while others that leave remove the directory */
/* A process has at most 32 ports of DPDK. All processes of a node see the same number. */
#define PROCESSES_MAX 24u

/* The parameter, if it is none of these words. */
static const char *directory(void)
{
	static const char *const words[] = {"", "auto", "on", "off"};
	const char *how = hk_fi_params.node_wires;

	for (size_t i = 0; how && i < HK_ARRAY_LEN(words); i++)
		how = strcmp(how, words[i]) ? how : NULL;
	return how;
}

static bool is(const char *word)
{
	return hk_fi_params.node_wires && strcmp(hk_fi_params.node_wires, word) == 0;
}

bool hk_fi_node_wires_wanted(const struct hk_fi_domain *d)
{
	const char *text = hk_launcher_local_size();
	unsigned long processes = text ? strtoul(text, NULL, 10) : 1;

	if (is("off") || processes < 2 || !(d->local || is("on") || directory()))
		return false;
	if (processes > PROCESSES_MAX)
		hk_fi_say(FI_LOG_INFO,
			  "without wires to processes of this node: it has %lu, and "
			  "wires are for %u at most",
			  processes, PROCESSES_MAX);
	return processes <= PROCESSES_MAX;
}

static int open_set(struct hk_fi_domain *d, uint32_t key, unsigned frame_max, struct hk_error *err)
{
	int rc = -ENOENT;

	for (unsigned i = 0; rc == -ENOENT && i < TRIES; i++) {
		rc = hk_node_set_open(directory(), SETTING, frame_max, d->node_wires, err);
		if (rc == 0)
			rc = hk_calls_open(d->node_wires->spec, key, d->name.endpoint,
					   sizeof(d->name), &d->calls, err);
	}
	return rc;
}

void hk_fi_node_wires_open(struct hk_fi_domain *d, const struct hk_worker_config *cfg)
{
	struct hk_error err = {"no memory"};
	int rc = -ENOMEM;

	d->node_wires = calloc(1, sizeof(*d->node_wires));
	d->wires = calloc(1, sizeof(*d->wires));
	if (d->node_wires && d->wires)
		rc = open_set(d, cfg->engine.key, (unsigned)cfg->frame_max, &err);
	if (rc) {
		hk_fi_say(FI_LOG_INFO, "without wires to processes of this node: %s", err.text);
		hk_fi_node_wires_close(d);
		return;
	}
	hk_fi_wires_init(d, cfg);
	d->wires->count = 1;
	memcpy(d->wires->spec[0], d->node_wires->spec, sizeof(d->wires->spec[0]));
	hk_fi_say(FI_LOG_INFO, "wires to processes of this node: %s", d->node_wires->spec);
}

void hk_fi_node_wires_close(struct hk_fi_domain *d)
{
	hk_calls_close(d->calls);
	hk_wires_end(d->wires);
	free(d->wires);
	if (d->node_wires)
		hk_node_set_close(d->node_wires);
	free(d->node_wires);
	d->calls = NULL;
	d->wires = NULL;
	d->node_wires = NULL;
}

void hk_fi_node_wires_drop(struct hk_fi_domain *d)
{
	hk_fi_lock(d);
	if (d->node_wires && d->peers == 1) /* our own worker */
		hk_fi_node_wires_close(d);
	hk_fi_unlock(d);
}

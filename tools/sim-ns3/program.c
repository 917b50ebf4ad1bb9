/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-ns3/program.c: see program.h.
 */
#include "sim-ns3/program.h"
#include "sim/options.h"
#include "sim/scenarios.h"

#include <errno.h>

struct ns3_options ns3_options = {.transport = FABRIC_ENGINE};

/* Refuses what only our own network has. */
static const char *not_in_ns3(const struct net_config *n)
{
	if (n->topology != TOPOLOGY_STAR)
		return "a leafspine";
	if (n->host_ports > 1 || n->dead_at)
		return "several ports of a host";
	if (n->loss || n->classes)
		return "lossy links and 802.1p classes";
	if (n->mark && ns3_options.transport != FABRIC_DCTCP)
		return "marks (ECN) without DCTCP";
	return NULL;
}

/* Refuses what only hosts with an engine have. */
static const char *not_in_tcp(const struct sim_options *o)
{
	struct host_config defaults;

	host_config_default(&defaults);
	if (o->scenario == &scenario_silent || o->scenario == &scenario_idle)
		return "this scenario with TCP";
	if (o->host.hold || o->host.pool != defaults.pool)
		return "receive buffers with TCP";
	return NULL;
}

static int check(const struct sim_options *o, struct hk_error *err)
{
	const char *what = not_in_ns3(&o->net);

	if (!what && ns3_options.transport != FABRIC_ENGINE)
		what = not_in_tcp(o);
	if (!what)
		return 0;
	return hk_error_set(err, -EINVAL, "%s: not built for ns-3; fix: use `hikyaku sim`", what);
}

int ns3_run(int argc, char **argv, void (*prepare)(struct run *r))
{
	struct sim_options o;
	struct hk_error err = {0};
	struct run r;

	if (sim_options_parse(&o, argc, argv, &err) != 0 || check(&o, &err) != 0) {
		fprintf(stderr, "hikyaku-sim-ns3: %s\n", err.text);
		return 2;
	}
	ns3_options.mtu = o.host.mtu;
	run_init(&r, &o);
	if (prepare)
		prepare(&r);
	run_go(&r);
	run_report(&r, stdout);
	run_free(&r);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/options.c: see options.h.
 */
#include "sim/options.h"

#include "sim/messages.h"
#include "sim/scenarios.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct scenario *const all[] = {
	&scenario_incast, &scenario_longflows, &scenario_burst,    &scenario_eager,
	&scenario_bulk,   &scenario_lone,      &scenario_pingpong, &scenario_alltoall,
	&scenario_mixed,  &scenario_silent,    &scenario_idle,     &scenario_exchange,
};

/* A number from @lo to @hi. */
struct option {
	const char *name;
	uint64_t lo, hi;
};

enum {
	HOSTS,
	RATE,
	FRAME,
	BUFFER,
	SIZE,
	COUNT,
	TIME_MS,
	SEED,
	POOL,
	MARK,
	CLASSES,
	LOSS,
	LEAF_HOSTS,
	SPINES,
	LOAD,
	PORTS,
	DEAD_AT,
	HOLD,
	EAGER,
	OPTIONS
};

static const struct option option[OPTIONS] = {
	[HOSTS] = {"--hosts", 2, 100000},
	[RATE] = {"--rate", 10, 800000}, /* Mb/s */
	[FRAME] = {"--frame", 576, 9200},
	[BUFFER] = {"--buffer", 10000, 1u << 30},
	[SIZE] = {"--size", 1, 1u << 30},
	[COUNT] = {"--count", 1, 1u << 20},
	[TIME_MS] = {"--time-ms", 1, 1000000},
	[SEED] = {"--seed", 0, UINT64_MAX},
	[POOL] = {"--pool", 64, 1u << 20},
	[MARK] = {"--mark", 1, 1u << 30},
	[CLASSES] = {"--classes", 0, 1},
	[LOSS] = {"--loss-ppm", 0, 1000000},
	[LEAF_HOSTS] = {"--leaf-hosts", 1, 100000},
	[SPINES] = {"--spines", 1, 1024},
	[LOAD] = {"--load", 1, 100},
	[PORTS] = {"--ports", 1, HK_PATHS},
	[DEAD_AT] = {"--dead-at-ms", 1, 1000000},
	[HOLD] = {"--hold-us", 0, 1000000},
	[EAGER] = {"--eager", 0, 1u << 30},
};

/* Mb/s in "100M", "25G" or "25", which is the same. 0: @text is not a rate. */
static uint64_t read_rate(const char *text)
{
	char *end;

	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	bool mbps = *end == 'M';

	if (errno || end == text || *text == '-' || v > UINT32_MAX)
		return 0;
	if (*end == 'M' || *end == 'G')
		end++;
	return *end ? 0 : mbps ? v : v * 1000;
}

static int rate(const char *text, uint64_t *value, struct hk_error *err)
{
	uint64_t mbps = read_rate(text);

	if (mbps < option[RATE].lo || mbps > option[RATE].hi || 8000000 % mbps)
		return hk_error_set(err, -EINVAL,
				    "--rate %s is not from 10M to 800G, or does not divide 8000G; "
				    "fix: choose 100M, 1G, 10G, 25G or 100G",
				    text);
	*value = mbps;
	return 0;
}

static int number(const char *name, const char *text, uint64_t *value, struct hk_error *err)
{
	char *end;

	if (strcmp(name, option[RATE].name) == 0)
		return rate(text, &value[RATE], err);

	for (unsigned i = 0; i < OPTIONS; i++) {
		if (strcmp(name, option[i].name) != 0)
			continue;
		errno = 0;
		unsigned long long v = strtoull(text, &end, 10);

		if (errno || *end || end == text || *text == '-' || v < option[i].lo ||
		    v > option[i].hi)
			return hk_error_set(
				err, -EINVAL,
				"%s %s is not a number from %lu to %lu; fix: choose one", name,
				text, (unsigned long)option[i].lo, (unsigned long)option[i].hi);
		value[i] = v;
		return 0;
	}
	return hk_error_set(err, -EINVAL, "unknown option %s; fix: see `hikyaku sim --help`", name);
}

/* The options of the scenario exchange. */
static int read_exchange(struct sim_options *o, const char *file, const uint64_t *v,
			 struct hk_error *err)
{
	if (o->scenario != &scenario_exchange) {
		if (file || v[EAGER])
			return hk_error_set(err, -EINVAL,
					    "--messages and --eager are for the scenario exchange; "
					    "fix: leave them out");
		return 0;
	}
	if (!file)
		return hk_error_set(err, -EINVAL,
				    "exchange has no messages; fix: add --messages FILE");
	if (v[HOSTS] || v[SIZE])
		return hk_error_set(
			err, -EINVAL,
			"the file of --messages has the ranks and bytes; fix: leave out "
			"--hosts and --size");
	o->eager = (uint32_t)v[EAGER];
	o->messages = messages_read(file, err);
	return o->messages ? 0 : -EINVAL;
}

int sim_options_parse(struct sim_options *o, int argc, char **argv, struct hk_error *err)
{
	uint64_t v[OPTIONS] = {[RATE] = 10000, [FRAME] = 1500, [BUFFER] = 1 << 20, [SEED] = 1};
	const char *messages = NULL;
	int rc;

	memset(o, 0, sizeof(*o));
	for (unsigned i = 0; i < HK_ARRAY_LEN(all) && argc > 1; i++)
		if (strcmp(all[i]->name, argv[1]) == 0)
			o->scenario = all[i];
	if (!o->scenario)
		return hk_error_set(err, -EINVAL, "no scenario %s; fix: see `hikyaku sim --help`",
				    argc > 1 ? argv[1] : "was named");
	for (int i = 2; i < argc; i += 2) {
		if (i + 1 == argc)
			return hk_error_set(err, -EINVAL, "%s lacks its value; fix: add it",
					    argv[i]);
		if (strcmp(argv[i], "--messages") == 0)
			messages = argv[i + 1];
		else if ((rc = number(argv[i], argv[i + 1], v, err)) != 0)
			return rc;
	}
	host_config_default(&o->host);
	o->host.mtu = (uint32_t)v[FRAME];
	if (v[POOL]) {
		/* a worker's backlog is a third of its buffers by default */
		o->host.pool = (uint32_t)v[POOL];
		o->host.engine.rx_budget = (uint32_t)HK_MAX(v[POOL] / 3, HK_WIRE_MAX_FRAGS);
	}
	o->host.hold = v[HOLD] * HK_USEC * SIM_NS;
	o->rate_mbps = (uint32_t)v[RATE];
	o->host.engine.classes = v[CLASSES] != 0;
	o->host.engine.link_mbps = o->rate_mbps * (v[PORTS] ? (uint32_t)v[PORTS] : 1);
	o->seed = v[SEED];
	o->size = (uint32_t)v[SIZE];
	o->count = (uint32_t)v[COUNT];
	o->time = v[TIME_MS] * HK_MSEC * SIM_NS;
	o->net = (struct net_config){
		.hosts = (uint32_t)v[HOSTS],
		.topology = v[SPINES] ? TOPOLOGY_LEAFSPINE : TOPOLOGY_STAR,
		.leaf_hosts = v[LEAF_HOSTS] ? (uint32_t)v[LEAF_HOSTS] : 32,
		.spines = (uint32_t)v[SPINES],
		.host_ports = v[PORTS] ? (uint32_t)v[PORTS] : 1,
		.ps_per_byte = 8000000 / (uint32_t)v[RATE],
		.link_delay = HK_USEC * SIM_NS,
		.buffer = (uint32_t)v[BUFFER],
		.mark = (uint32_t)v[MARK],
		.classes = v[CLASSES] != 0,
		.loss = (uint32_t)v[LOSS],
		/* the last port of host 1, which sends in every scenario */
		.dead_at = v[DEAD_AT] ? SIM_START + v[DEAD_AT] * HK_MSEC * SIM_NS : 0,
		.dead_host = 1,
		.dead_port = v[PORTS] ? (uint32_t)v[PORTS] - 1 : 0,
	};
	o->load = (uint32_t)v[LOAD];
	if (v[LEAF_HOSTS] && !v[SPINES])
		return hk_error_set(err, -EINVAL,
				    "--leaf-hosts is for networks with spines; fix: add --spines");
	if (v[LOAD] && o->scenario != &scenario_mixed)
		return hk_error_set(err, -EINVAL,
				    "--load is for the scenario mixed; fix: leave it out");
	if ((rc = read_exchange(o, messages, v, err)) != 0)
		return rc;
	o->scenario->defaults(o);
	if (o->net.hosts < o->scenario->min_hosts)
		return hk_error_set(err, -EINVAL, "%s needs %u hosts; fix: choose --hosts %u",
				    o->scenario->name, o->scenario->min_hosts,
				    o->scenario->min_hosts);
	return 0;
}

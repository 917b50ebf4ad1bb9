/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-worker/main.c: hikyaku-sim-worker: the options, scenarios and results of hikyaku-sim, with
 * real workers.
 */
#include "port/port.h"
#include "sim-worker/host_worker.h"
#include "sim/options.h"

/* Refuses options that this program cannot simulate. */
static int check(const struct sim_options *o, struct hk_error *err)
{
	if (o->net.host_ports > 1)
		return hk_error_set(err, -1, "workers have one port here; fix: leave out --ports");
	if (o->host.hold)
		return hk_error_set(err, -1,
				    "applications of workers take messages at once; fix: leave "
				    "out --hold-us");
	if (o->net.mark)
		return hk_error_set(err, -1, "workers see no marks; fix: leave out --mark");
	return 0;
}

int main(int argc, char **argv)
{
	struct sim_options o;
	struct hk_error err = {0};
	int rc = sim_options_parse(&o, argc, argv, &err);

	if (rc == 0)
		rc = check(&o, &err);
	if (rc == 0)
		rc = hk_eal_init(&(struct hk_eal_config){.memory_mb = sim_worker_memory_mb(
								 &o.host, o.net.hosts)},
				 &err);
	if (rc != 0) {
		fprintf(stderr, "hikyaku-sim: %s\n", err.text);
		return 2;
	}
	run_print(&o, stdout);
	return 0;
}

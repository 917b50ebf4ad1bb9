/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/main.c: hk_router's options. `hikyaku devmem route` runs it; docs/routers.md
 * describes both.
 */
#include "devmem/pop/scan.h"
#include "devmem/router/generate.h"
#include "devmem/router/router.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>

static struct hk_router *router;

static void on_signal(int sig)
{
	if (sig == SIGHUP)
		hk_router_reload(router);
	else
		hk_router_stop(router);
}

static int usage(const char *program)
{
	fprintf(stderr,
		"usage: %s --mode bounce|p2p|pktpit --routes FILE --port SPEC --port SPEC ...\n"
		"          [--control SOCKET] [--memory MB] [--buffers N] [--wait MS] [--spin]\n"
		"          [--pool POP ...] [--frame BYTES] [--icmp-rate N] [--tap PREFIX] [--scan "
		"HEX]\n"
		"       %s --check --routes FILE --ports N\n"
		"       %s --generate N [--seed N] [--hops N] [--mrt] > TABLE\n",
		program, program, program);
	return 2;
}

static bool number(const char *text, unsigned min, unsigned max, unsigned *out)
{
	char *end;

	errno = 0;
	unsigned long v = strtoul(text, &end, 10);
	*out = (unsigned)v;
	return text[0] >= '0' && text[0] <= '9' && !*end && !errno && v >= min && v <= max;
}

static int fail(const struct hk_error *err)
{
	fprintf(stderr, "%s\n", err->text);
	return 1;
}

static int check(const char *path, unsigned ports)
{
	struct hk_error err = {""};
	struct hk_routes *r;

	if (hk_routes_load(path, ports, &r, &err))
		return fail(&err);
	size_t implied = 0; /* by ports, addresses and special prefixes */
	for (size_t i = 0; i < r->routes; i++)
		implied += r->route[i].line == 0;
	printf("{\"routes\": %zu, \"implied_routes\": %zu, \"hops\": %u, \"addresses\": %u}\n",
	       r->routes - implied, implied, r->hops, r->addresses);
	hk_routes_free(r);
	return 0;
}

static int generate(size_t count, unsigned seed, unsigned hops, bool mrt)
{
	struct hk_error err = {""};
	struct hk_table_prefix *t;

	if (hk_table_make(seed, count, hops, &t, &err))
		return fail(&err);
	bool ok = hk_table_write(t, count, mrt, stdout);
	free(t);
	if (!ok)
		fprintf(stderr,
			"the table cannot be written: %s; fix: check that the disk has space\n",
			strerror(errno));
	return ok ? 0 : 1;
}

static int run(const struct hk_router_options *o)
{
	struct hk_error err = {""};
	struct sigaction act = {.sa_handler = on_signal};

	if (hk_router_open(o, &router, &err))
		return fail(&err);
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
	printf("ready\n");
	fflush(stdout);
	hk_router_run(router);
	if (o->marker_len)
		router->in_main_memory = hk_pop_scan(o->marker, o->marker_len);
	hk_router_stats(router, stdout);
	hk_router_close(router);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"mode", required_argument, NULL, 'm'},
		{"routes", required_argument, NULL, 'r'},
		{"port", required_argument, NULL, 'p'},
		{"control", required_argument, NULL, 'c'},
		{"memory", required_argument, NULL, 'M'},
		{"buffers", required_argument, NULL, 'b'},
		{"wait", required_argument, NULL, 'w'},
		{"spin", no_argument, NULL, 's'},
		{"generate", required_argument, NULL, 'g'},
		{"seed", required_argument, NULL, 'S'},
		{"hops", required_argument, NULL, 'h'},
		{"mrt", no_argument, NULL, 'R'},
		{"check", no_argument, NULL, 'C'},
		{"ports", required_argument, NULL, 'n'},
		{"tap", required_argument, NULL, 't'},
		{"icmp-rate", required_argument, NULL, 'i'},
		{"pool", required_argument, NULL, 'P'},
		{"frame", required_argument, NULL, 'f'},
		{"scan", required_argument, NULL, 'x'},
		{NULL, 0, NULL, 0},
	};
	struct hk_router_options o = {.mode = HK_ROUTER_BOUNCE,
				      .memory_mb = 2048,
				      .buffers = 8192,
				      .wait_ms = 10000,
				      .frame_max = 2048,
				      .icmp_rate = 1000};
	bool only_check = false, valid = true, mrt = false;
	unsigned ports = 0, prefixes = 0, seed = 1, hops = 64;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == 'm') {
			int mode = hk_router_mode_parse(optarg);
			valid &= mode >= 0;
			o.mode = (enum hk_router_mode)mode;
		} else if (c == 'r') {
			o.routes = optarg;
		} else if (c == 'p') {
			valid &= o.ports < HK_ROUTER_PORTS;
			if (valid)
				o.port[o.ports++] = optarg;
		} else if (c == 't') {
			valid &= optarg[0] && strlen(optarg) <= 10 && !strpbrk(optarg, "/ %");
			o.tap = optarg;
		} else if (c == 'i') {
			valid &= number(optarg, 0, 1000000, &o.icmp_rate);
		} else if (c == 'P') {
			valid &= o.pools < HK_ROUTER_PORTS;
			if (valid)
				o.pool[o.pools++] = optarg;
		} else if (c == 'f') {
			valid &= number(optarg, 1518, 16384, &o.frame_max);
		} else if (c == 'c') {
			o.control = optarg;
		} else if (c == 'M') {
			valid &= number(optarg, 256, 65536, &o.memory_mb);
		} else if (c == 'b') {
			valid &= number(optarg, 512, 1u << 20, &o.buffers);
		} else if (c == 'w') {
			valid &= number(optarg, 1, 3600000, &o.wait_ms);
		} else if (c == 'n') {
			valid &= number(optarg, 1, HK_ROUTER_PORTS, &ports);
		} else if (c == 'g') {
			valid &= number(optarg, 1, UINT32_MAX, &prefixes);
		} else if (c == 'S') {
			valid &= number(optarg, 0, UINT32_MAX, &seed);
		} else if (c == 'h') {
			valid &= number(optarg, 1, UINT32_MAX, &hops);
		} else if (c == 'x') {
			o.marker_len = hk_pop_hex(optarg, o.marker, sizeof(o.marker));
			valid &= o.marker_len >= 8;
		} else if (c == 'R') {
			mrt = true;
		} else if (c == 's') {
			o.spin = true;
		} else if (c == 'C') {
			only_check = true;
		} else {
			valid = false;
		}
	}
	if (valid && prefixes && optind == argc)
		return generate(prefixes, seed, hops, mrt);
	if (!valid || !o.routes || optind != argc || (only_check ? !ports : !o.ports))
		return usage(argv[0]);
	if (!only_check && (o.mode == HK_ROUTER_BOUNCE) != (o.pools == 0)) {
		fprintf(stderr,
			o.pools ? "bounce has packets in main memory; fix: remove --pool, or use "
				  "--mode p2p or pktpit\n"
				: "--mode %s needs memory on a device; fix: add --pool pop:..., "
				  "once or for each port (docs/devmem.md lists the kinds)\n",
			hk_router_mode_name(o.mode));
		return 2;
	}
	return only_check ? check(o.routes, ports) : run(&o);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/nic/main.c: hk_nic's options and loops. docs/routers.md describes the program.
 *
 *   hk_nic --variant wr|rd|bn|pktpit --nics N --id I ... --dir DIR --routes FILE
 *          --port SPEC | [--frames N] [--expect N] [--single] [--networks N] [--prefixes N]
 *   hk_nic --host --variant pktpit --nics N --dir DIR --routes FILE
 */
#include "base/clock.h"
#include "devmem/nic/nic.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#define CHECK_MS    20    /* between two looks for peers that have died */
#define IDLE_ROUNDS 256   /* without work, before the clock is read */
#define STUCK_MS    10000 /* without work, and a load is not done */

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static int usage(const char *program)
{
	fprintf(stderr,
		"usage: %s --variant wr|rd|bn|pktpit --nics N --id I ... --dir DIR --routes FILE\n"
		"          --port SPEC | [--frames N] [--expect N] [--single] [--networks N]\n"
		"                        [--prefixes N]\n"
		"          [--wait MS] [--yield]\n"
		"       %s --host --variant pktpit --nics N --dir DIR --routes FILE\n"
		"          [--wait MS] [--yield]\n",
		program, program);
	return 2;
}

static int fail(const struct hk_error *err)
{
	fprintf(stderr, "hk_nic: %s\n", err->text);
	return 1;
}

/* A loop without work: it shares its core if it is to, and reads the clock now and then. */
struct idle {
	bool yield;
	unsigned rounds;
	int64_t since, check; /* ms; `since`: 0 while there is work */
};

/* Ends a turn of the loop. True: it is time to look for peers. */
static bool idle(struct idle *i, bool worked)
{
	if (HK_LIKELY(worked)) {
		i->rounds = 0;
		i->since = 0;
		return false;
	}
	if (i->yield)
		sched_yield();
	if (++i->rounds % IDLE_ROUNDS)
		return false;
	int64_t now = hk_clock_ms();
	i->since = i->since ? i->since : now;
	if (now < i->check)
		return false;
	i->check = now + CHECK_MS;
	return true;
}

/* The NICs of this process; they take turns of a round. */
struct nics {
	struct hk_nic *nic[HK_NICS];
	unsigned n;
};

/* Looks for peers that have died, and for a load that is stuck. */
static int check_nic(struct hk_nic *nic, int64_t idle_ms, struct hk_error *err)
{
	int rc = hk_nic_check_peers(nic, err);

	if (rc || nic->wire.port || idle_ms <= STUCK_MS || hk_nic_done(nic))
		return rc;
	return hk_error_set(err, -ETIMEDOUT,
			    "NIC %u: no frame has moved for %d s: %" PRIu64 " of %" PRIu64
			    " have come; fix: check the routes, --frames and --expect of all NICs",
			    nic->o.id, STUCK_MS / 1000, nic->wire.taken, nic->wire.o.expect);
}

static int run_nics(struct nics *all, bool yield, struct hk_error *err)
{
	struct idle i = {.yield = yield};
	unsigned done = 0;

	while (!stop && done < all->n) {
		int moved = 0, rc = 0;
		done = 0;
		for (unsigned k = 0; k < all->n; k++) {
			int n = hk_nic_round(all->nic[k], err);
			if (HK_UNLIKELY(n < 0))
				return n;
			moved += n;
			done += hk_nic_done(all->nic[k]);
		}
		if (!idle(&i, moved > 0))
			continue;
		for (unsigned k = 0; k < all->n && rc == 0; k++)
			rc = check_nic(all->nic[k], i.check - i.since, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int nic_main(struct hk_nic_options *o, const unsigned *id, unsigned n, bool yield)
{
	struct hk_error err = {""};
	struct nics all = {.n = n};
	int rc = 0;

	for (unsigned k = 0; k < n && rc == 0; k++) {
		o->id = id[k];
		rc = hk_nic_open(o, &all.nic[k], &err);
	}
	for (unsigned k = 0; k < n && rc == 0; k++)
		rc = hk_nic_join(all.nic[k], &err);
	if (rc == 0) {
		printf("ready\n");
		fflush(stdout);
		rc = run_nics(&all, yield, &err);
		for (unsigned k = 0; k < n; k++)
			hk_nic_stats(all.nic[k], stdout);
	}
	for (unsigned k = 0; k < n; k++)
		hk_nic_close(all.nic[k]);
	return rc ? fail(&err) : 0;
}

/* Whether no NIC is left to serve; -EPIPE: one has died. */
static int all_left(const struct hk_nic_server_region *s, struct hk_error *err)
{
	unsigned left = 0;

	for (unsigned i = 0; i < s->server.nics; i++) {
		enum hk_nic_owner owner = hk_nic_region_owner(&s->bar[i]);
		if (owner == HK_NIC_DEAD)
			return hk_error_set(err, -EPIPE,
					    "NIC %u has died: no process owns %s; fix: start all "
					    "processes of the router again",
					    i, s->bar[i].path);
		left += owner == HK_NIC_LEFT;
	}
	return left == s->server.nics;
}

static int run_host(struct hk_nic_server_region *s, bool yield, struct hk_error *err)
{
	struct idle i = {.yield = yield};
	int rc = 0;

	while (!stop && rc == 0) {
		int n = hk_nic_serve(&s->server);
		if (n < 0)
			return hk_error_set(err, -EPROTO,
					    "NIC %d has written a doorbell that cannot be; fix: "
					    "start all processes of the router again",
					    -1 - n);
		if (idle(&i, n > 0))
			rc = all_left(s, err);
	}
	return HK_MIN(rc, 0);
}

static int host_main(const struct hk_nic_options *o, bool yield)
{
	static struct hk_nic_server_region s;
	struct hk_error err = {""};

	if (hk_nic_server_open(o, &s, &err))
		return fail(&err);
	int rc = hk_nic_server_join(o, &s, &err);
	if (rc == 0) {
		printf("ready\n");
		fflush(stdout);
		rc = run_host(&s, yield, &err);
		printf("{\"host\": true, \"routes\": %zu, \"lookups\": %" PRIu64 ", ",
		       s.fib->routes[0] + s.fib->routes[1], s.server.lookups);
		hk_load_cost_end(&s.server.cost, (double)hk_eal_tsc_hz(), stdout);
		printf(", \"transfers\": ");
		hk_nic_transfers_write(&s.server.transfers, stdout);
		printf("}\n");
	}
	hk_nic_server_close(&s);
	return rc ? fail(&err) : 0;
}

/* ---- options ------------------------------------------------------------------------------- */

static bool number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	*out = v;
	if (text[0] >= '0' && text[0] <= '9' && !*end && !errno && v >= min && v <= max)
		return true;
	fprintf(stderr, "hk_nic: --%s %s; fix: a number from %" PRIu64 " to %" PRIu64 "\n", option,
		text, min, max);
	return false;
}

/* Returns why options do not fit each other, and the fix. NULL: they do.
 * @ids: how many NICs this process is; @seen: a bit for each. */
static const char *wrong(const struct hk_nic_options *o, int variant, bool host, unsigned ids,
			 unsigned seen)
{
	if (variant < 0)
		return "--variant is missing; fix: --variant wr, rd, bn or pktpit";
	if (!o->nics)
		return "--nics is missing; fix: --nics N, the number of NICs in all processes";
	if (!o->dir)
		return "--dir is missing; fix: --dir DIR, the same for all processes";
	if (!o->routes)
		return "--routes is missing; fix: --routes FILE, in the form of docs/routers.md";
	if (host && variant != HK_NIC_PKTPIT)
		return "only variant pktpit has a --host; fix: --variant pktpit, or no --host";
	if (host && (ids || o->wire.port))
		return "a --host is not a NIC; fix: leave out --id and --port";
	if (!host && !ids)
		return "--id is missing; fix: --id I, from 0 on, for each NIC of this process";
	if (!host && seen >> o->nics)
		return "an --id is not below --nics; fix: count the ids from 0";
	if (!host && ids > 1 && o->wire.port)
		return "several NICs cannot share a --port; fix: a process for each --id";
	return NULL;
}

int main(int argc, char **argv)
{
	enum {
		OPTION_VARIANT,
		OPTION_NICS,
		OPTION_ID,
		OPTION_DIR,
		OPTION_ROUTES,
		OPTION_PORT,
		OPTION_FRAMES,
		OPTION_EXPECT,
		OPTION_SINGLE,
		OPTION_NETWORKS,
		OPTION_PREFIXES,
		OPTION_WAIT,
		OPTION_YIELD,
		OPTION_HOST
	};
	static const struct option options[] = {
		{"variant", required_argument, NULL, OPTION_VARIANT},
		{"nics", required_argument, NULL, OPTION_NICS},
		{"id", required_argument, NULL, OPTION_ID},
		{"dir", required_argument, NULL, OPTION_DIR},
		{"routes", required_argument, NULL, OPTION_ROUTES},
		{"port", required_argument, NULL, OPTION_PORT},
		{"frames", required_argument, NULL, OPTION_FRAMES},
		{"expect", required_argument, NULL, OPTION_EXPECT},
		{"single", no_argument, NULL, OPTION_SINGLE},
		{"networks", required_argument, NULL, OPTION_NETWORKS},
		{"prefixes", required_argument, NULL, OPTION_PREFIXES},
		{"wait", required_argument, NULL, OPTION_WAIT},
		{"yield", no_argument, NULL, OPTION_YIELD},
		{"host", no_argument, NULL, OPTION_HOST},
		{NULL, 0, NULL, 0},
	};
	struct hk_nic_options o = {.wait_ms = 10000, .wire.networks = 1};
	unsigned id[HK_NICS], ids = 0, seen = 0;
	int variant = -1, c, at = 0;
	bool valid = true, yield = false, host = false;
	uint64_t v = 0;

	while ((c = getopt_long(argc, argv, "", options, &at)) >= 0) {
		const char *name = options[at].name;

		if (c == OPTION_VARIANT) {
			variant = hk_nic_variant_parse(optarg);
			if (variant < 0) {
				fprintf(stderr,
					"hk_nic: there is no variant '%s'; fix: --variant wr, rd, "
					"bn or pktpit\n",
					optarg);
				valid = false;
			}
		} else if (c == OPTION_NICS) {
			valid &= number(name, optarg, 1, HK_NICS, &v);
			o.nics = (unsigned)v;
		} else if (c == OPTION_ID) {
			valid &= number(name, optarg, 0, HK_NICS - 1, &v);
			if (valid && seen & 1u << v) {
				fprintf(stderr, "hk_nic: --id %u twice; fix: leave one out\n",
					(unsigned)v);
				valid = false;
			}
			if (valid) {
				seen |= 1u << v;
				id[ids++] = (unsigned)v;
			}
		} else if (c == OPTION_DIR) {
			o.dir = optarg;
		} else if (c == OPTION_ROUTES) {
			o.routes = optarg;
		} else if (c == OPTION_PORT) {
			o.wire.port = optarg;
		} else if (c == OPTION_FRAMES) {
			valid &= number(name, optarg, 0, UINT64_C(1) << 40, &o.wire.frames);
		} else if (c == OPTION_EXPECT) {
			valid &= number(name, optarg, 0, UINT64_C(1) << 40, &o.wire.expect);
		} else if (c == OPTION_SINGLE) {
			o.wire.single = true;
		} else if (c == OPTION_NETWORKS) {
			valid &= number(name, optarg, 1, HK_NICS, &v);
			o.wire.networks = (unsigned)v;
		} else if (c == OPTION_PREFIXES) {
			valid &= number(name, optarg, 0, 1500000, &v);
			o.wire.prefixes = (unsigned)v;
		} else if (c == OPTION_WAIT) {
			valid &= number(name, optarg, 1, 3600000, &v);
			o.wait_ms = (unsigned)v;
		} else if (c == OPTION_YIELD) {
			yield = true;
		} else if (c == OPTION_HOST) {
			host = true;
		} else { /* getopt_long() has named it */
			return usage(argv[0]);
		}
	}
	if (!valid)
		return 2;
	if (optind != argc) {
		fprintf(stderr, "hk_nic: unexpected argument '%s'\n", argv[optind]);
		return usage(argv[0]);
	}
	const char *text = wrong(&o, variant, host, ids, seen);
	if (text) {
		fprintf(stderr, "hk_nic: %s\n", text);
		return 2;
	}
	o.variant = (enum hk_nic_variant)variant;
	o.wire.wait_ms = o.wait_ms;
	struct sigaction act = {.sa_handler = on_signal};
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	return host ? host_main(&o, yield) : nic_main(&o, id, ids, yield);
}

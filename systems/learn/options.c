/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/options.c: the command line of hk_learn, from a table.
 */
#include "learn/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum what { TEXT, NUMBER, WHOLE16, WHOLE32, WHOLE64, CHOICE, SWITCH };

struct option {
	const char *name, *value, *help;
	enum what what;
	void *to;
	const char *const *choices; /* CHOICE: names in the order of the enum */
};

static const char *const kinds[] = {"linear", "logistic", "svm", "mlp", NULL};
static const char *const merges[] = {"mean", "age", "trimmed", "push-sum", NULL};
static const char *const schedules[] = {"plateau", "inverse", "constant", NULL};
const char *const hk_learn_protection_name[] = {"auto", "off", "auth", "seal", NULL};
static const char *const topologies[] = {"all", "ring", "random", "exponential", "file", NULL};

#define OPTIONS_MAX 48

static size_t table(struct hk_learn_options *o, struct option *t)
{
	const struct option all[] = {
		{"--shard", "PATH",
		 "file of this node's rows; {node} is its number (learn/shard.h)", TEXT, &o->shard,
		 NULL},
		{"--output", "PATH", "file for the parameters at the end; {node} as above", TEXT,
		 &o->output, NULL},
		{"--log", "PATH", "file for the lines of JSON, instead of standard output", TEXT,
		 &o->log, NULL},
		{"--model", "KIND", NULL, CHOICE, &o->model.kind, kinds},
		{"--hidden", "N", "hidden units of the mlp", WHOLE32, &o->model.hidden, NULL},
		{"--hinge", NULL, "svm: hinge loss instead of its square", SWITCH, &o->model.hinge,
		 NULL},
		{"--l2", "X", "penalty on weights", NUMBER, &o->model.l2, NULL},
		{"--merge", "HOW", NULL, CHOICE, &o->set.merge, merges},
		{"--schedule", "HOW", NULL, CHOICE, &o->set.schedule, schedules},
		{"--seed", "N", "seed of all random choices", WHOLE64, &o->set.seed, NULL},
		{"--batch", "N", "rows of a batch", WHOLE32, &o->set.batch, NULL},
		{"--max-epochs", "N", "limit in epochs of its own rows", WHOLE32,
		 &o->set.max_epochs, NULL},
		{"--step", "X", "first step; 0: from the data", NUMBER, &o->set.step, NULL},
		{"--decay", "X", "inverse: decay in steps; 0: an epoch", NUMBER, &o->set.decay,
		 NULL},
		{"--momentum", "X", "below 1; negative: 0.9", NUMBER, &o->set.momentum, NULL},
		{"--tolerance", "X", "plateau: relative fall of the loss that is progress", NUMBER,
		 &o->set.tolerance, NULL},
		{"--no-change", "N", "plateau: epochs without progress before a halving", WHOLE32,
		 &o->set.epochs_no_change, NULL},
		{"--halvings", "N", "plateau: halvings of the step until converged", WHOLE32,
		 &o->set.halvings, NULL},
		{"--gossip-every", "N", "batches between two messages; 0: no gossip", WHOLE32,
		 &o->set.gossip_every, NULL},
		{"--trim", "X", "trimmed: share dropped at each end", NUMBER, &o->set.trim, NULL},
		{"--norm-limit", "X", "accept up to this multiple of the usual distance; 0: any",
		 NUMBER, &o->set.norm_limit, NULL},
		{"--target-loss", "X", "stop at this loss of all; nan: when converged", NUMBER,
		 &o->set.target_loss, NULL},
		{"--settle", "N", "rounds of gossip after training", WHOLE32, &o->set.settle, NULL},
		{"--max-seconds", "X", "time limit of training", NUMBER, &o->max_seconds, NULL},
		{"--report-seconds", "X", "longest time between two lines of progress", NUMBER,
		 &o->report_seconds, NULL},
		{"--yield", NULL, "yield after each round, for nodes that share cores", SWITCH,
		 &o->yield, NULL},
		{"--fault", "LIST", "NODE:nan or NODE:outlier=LENGTH,…: faulty nodes, for tests",
		 TEXT, &o->fault, NULL},
		{"--topology", "NAME", NULL, CHOICE, &o->rtc.topology, topologies},
		{"--topology-file", "PATH", "file of topology 'file'", TEXT, &o->rtc.topology_file,
		 NULL},
		{"--degree", "N", "neighbours in topology 'random'", WHOLE32, &o->rtc.degree, NULL},
		{"--backend", "NAME", "dpdk, af_xdp, raw, udp, tcp, tcp:batch=1", TEXT,
		 &o->rtc.backend, NULL},
		{"--address", "WHERE", "port spec, interface or IP address (hikyaku/rtc.h)", TEXT,
		 &o->rtc.address, NULL},
		{"--payload", "BYTES", "longest message; 0: what fits the frame", WHOLE32,
		 &o->rtc.payload_max, NULL},
		{"--peers", "PATH", "without a launcher: file of lines 'NODE ADDRESS'", TEXT,
		 &o->rtc.peers_file, NULL},
		{"--node", "N", "without a launcher: number of this node", WHOLE16, &o->rtc.node,
		 NULL},
		{"--key", "N", "without a launcher: job key", WHOLE32, &o->rtc.key, NULL},
		{"--protection", "HOW", NULL, CHOICE, &o->rtc.protection, hk_learn_protection_name},
		{"--secret", "PATH", "file with the job's secret (hikyaku/rtc.h)", TEXT,
		 &o->rtc.secret_file, NULL},
		{"--alive-ms", "N", "interval of alive messages; after ten without, a node is lost",
		 WHOLE32, &o->rtc.alive_ms, NULL},
		{"--timeout-ms", "N", "limit for connecting at the start", WHOLE32,
		 &o->rtc.timeout_ms, NULL},
		{"--help", NULL, "this text", SWITCH, &o->help, NULL},
	};
	_Static_assert(HK_ARRAY_LEN(all) <= OPTIONS_MAX, "OPTIONS_MAX");

	memcpy(t, all, sizeof(all));
	return HK_ARRAY_LEN(all);
}

static void defaults(struct hk_learn_options *o)
{
	*o = (struct hk_learn_options){.max_seconds = 600, .report_seconds = 0.2};
	hk_learn_defaults(&o->set);
	hk_rtc_defaults(&o->rtc);
	o->set.gossip_every = 4;
}

void hk_learn_usage(void)
{
	struct hk_learn_options o;
	struct option t[OPTIONS_MAX];

	defaults(&o);
	printf("hk_learn: trains on this node's rows and gossips with its neighbours "
	       "(docs/learn.md)\n\n  mpirun -np 4 hk_learn --shard DIR/shard-{node} --model linear "
	       "...\n\nParameters that do not fit a frame are cut into slices, one message type "
	       "each;\nat most %u slices are possible.\n\n",
	       HK_LEARN_MAX_SLICES);
	for (size_t i = 0, n = table(&o, t); i < n; i++) {
		printf("  %-17s %-6s", t[i].name, t[i].value ? t[i].value : "");
		if (t[i].help)
			printf(" %s", t[i].help);
		for (size_t c = 0; t[i].choices && t[i].choices[c]; c++)
			printf("%s%s", c ? ", " : " ", t[i].choices[c]);
		printf("\n");
	}
}

static int choose(const struct option *t, const char *text, struct hk_error *err)
{
	char names[128] = "";

	for (unsigned c = 0; t->choices[c]; c++) {
		if (strcmp(text, t->choices[c]) == 0) {
			*(unsigned *)t->to = c; /* an enum has the size of unsigned here */
			return 0;
		}
		size_t at = strlen(names);
		snprintf(names + at, sizeof(names) - at, "%s%s", c ? ", " : "", t->choices[c]);
	}
	return hk_error_set(err, -EINVAL, "%s '%.60s' does not exist; fix: use one of %s", t->name,
			    text, names);
}

_Static_assert(sizeof(enum hk_learn_kind) == sizeof(unsigned), "choose() writes it");

static int whole(const struct option *t, const char *text, uint64_t most, uint64_t *out,
		 struct hk_error *err)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 0);
	if (*text < '0' || *text > '9' || *end || errno || *out > most)
		return hk_error_set(
			err, -EINVAL,
			"%s '%.60s' is not valid; fix: use a whole number, at most %llu", t->name,
			text, (unsigned long long)most);
	return 0;
}

static int set_one(const struct option *t, const char *text, struct hk_error *err)
{
	uint64_t n = 0;
	char *end;
	int rc = 0;

	switch (t->what) {
	case TEXT:
		*(const char **)t->to = text;
		break;
	case NUMBER:
		*(double *)t->to = strtod(text, &end);
		if (end == text || *end)
			rc = hk_error_set(err, -EINVAL,
					  "%s '%.60s' is not a number; fix: write one, such as 0.5",
					  t->name, text);
		break;
	case WHOLE16:
		rc = whole(t, text, UINT16_MAX, &n, err);
		*(uint16_t *)t->to = (uint16_t)n;
		break;
	case WHOLE32:
		rc = whole(t, text, UINT32_MAX, &n, err);
		*(uint32_t *)t->to = (uint32_t)n;
		break;
	case WHOLE64:
		rc = whole(t, text, UINT64_MAX, (uint64_t *)t->to, err);
		break;
	case CHOICE:
		rc = choose(t, text, err);
		break;
	case SWITCH:
		*(bool *)t->to = true;
		break;
	}
	return rc;
}

int hk_learn_options(int argc, char **argv, struct hk_learn_options *o, struct hk_error *err)
{
	struct option t[OPTIONS_MAX];
	size_t n;

	defaults(o);
	n = table(o, t);
	for (int i = 1; i < argc; i++) {
		size_t k = 0;
		while (k < n && strcmp(argv[i], t[k].name) != 0)
			k++;
		if (k == n)
			return hk_error_set(err, -EINVAL,
					    "there is no option '%.60s'; fix: see --help", argv[i]);
		if (t[k].what != SWITCH && i + 1 >= argc)
			return hk_error_set(err, -EINVAL, "%s has no value; fix: see --help",
					    argv[i]);
		int rc = set_one(&t[k], t[k].what == SWITCH ? NULL : argv[++i], err);
		if (rc != 0)
			return rc;
	}
	if (o->help)
		return 0;
	if (!o->shard)
		return hk_error_set(err, -EINVAL,
				    "--shard is missing; fix: name the file of this node's rows");
	if (!(o->max_seconds > 0 && o->max_seconds < 1e9) ||
	    !(o->report_seconds > 0 && o->report_seconds < 1e9))
		return hk_error_set(err, -EINVAL,
				    "--max-seconds or --report-seconds is invalid; fix: use more "
				    "than 0 and less than 1e9");
	enum hk_learn_gossip_fault kind;
	double scale;
	int rc = hk_learn_fault(o->fault, 0, &kind, &scale, err);
	o->rtc.seed = o->set.seed;
	return rc ? rc : hk_learn_check_settings(&o->set, err);
}

int hk_learn_fault(const char *fault, uint16_t node, enum hk_learn_gossip_fault *kind,
		   double *scale, struct hk_error *err)
{
	*kind = HK_LEARN_FAULT_NONE;
	*scale = 0;
	for (const char *at = fault; at && *at;) {
		char *end;
		unsigned long which = strtoul(at, &end, 10);
		enum hk_learn_gossip_fault what = HK_LEARN_FAULT_NONE;
		double length = 0;
		if (end != at && strncmp(end, ":nan", 4) == 0) {
			what = HK_LEARN_FAULT_NAN;
			end += 4;
		} else if (end != at && strncmp(end, ":outlier=", 9) == 0) {
			char *number = end + 9;
			length = strtod(number, &end);
			if (end != number)
				what = HK_LEARN_FAULT_OUTLIER;
		}
		if (what == HK_LEARN_FAULT_NONE || (*end && *end != ',') || !isfinite(length))
			return hk_error_set(err, -EINVAL,
					    "--fault '%.60s' is invalid; fix: write NODE:nan or "
					    "NODE:outlier=LENGTH",
					    at);
		if (which == node) {
			*kind = what;
			*scale = length;
		}
		at = *end ? end + 1 : end;
	}
	return 0;
}

int hk_learn_path(const char *path, uint16_t node, char *out, size_t size, struct hk_error *err)
{
	const char *mark = strstr(path, "{node}");
	int n;

	if (mark)
		n = snprintf(out, size, "%.*s%u%s", (int)(mark - path), path, node,
			     mark + strlen("{node}"));
	else
		n = snprintf(out, size, "%s", path);
	if (n < 0 || (size_t)n >= size)
		return hk_error_set(err, -ENAMETOOLONG,
				    "the path %.60s… is too long; fix: use a shorter one", path);
	return 0;
}

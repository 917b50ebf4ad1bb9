/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/example.c: see example.h.
 */
#include "example.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t example_json;
static struct hk_rtc *running;

static void usage(const char *program, const char *what, const struct example_option *own,
		  unsigned n)
{
	printf("%s: %s\n\n", program, what);
	for (unsigned i = 0; i < n; i++)
		printf("  --%-10s N  %s [%llu]\n", own[i].name, own[i].help,
		       (unsigned long long)*own[i].value);
	printf("  --%-10s N  1: print JSON, with all counters [0]\n", "json");
	printf("\nwithout a launcher, for each node:\n"
	       "  --backend NAME, --address WHERE, --peers FILE, --node N, --key N, --threads N, "
	       "--timeout MS\n");
}

static const char *value(const char *program, const char *option, const char *text)
{
	if (!text) {
		fprintf(stderr, "%s: %s has no value; fix: see --help\n", program, option);
		exit(2);
	}
	return text;
}

static uint64_t number(const char *program, const char *option, const char *text)
{
	char *end;
	unsigned long long v = strtoull(value(program, option, text), &end, 0);
	if (!*text || *end || *text == '-') {
		fprintf(stderr, "%s: %s '%s' is not a number; fix: write one, such as 10\n",
			program, option, text);
		exit(2);
	}
	return v;
}

void example_options(int argc, char **argv, const char *what, const struct example_option *own,
		     unsigned n, struct hk_rtc_config *cfg)
{
	hk_rtc_defaults(cfg);
	for (int i = 1; i < argc; i += 2) {
		const char *o = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
		unsigned k = 0;
		if (strcmp(o, "--help") == 0) {
			usage(argv[0], what, own, n);
			exit(0);
		}
		while (k < n && (strncmp(o, "--", 2) != 0 || strcmp(o + 2, own[k].name) != 0))
			k++;
		if (k < n) {
			*own[k].value = number(argv[0], o, v);
		} else if (strcmp(o, "--json") == 0) {
			example_json = number(argv[0], o, v);
		} else if (strcmp(o, "--backend") == 0) {
			cfg->backend = value(argv[0], o, v);
		} else if (strcmp(o, "--address") == 0) {
			cfg->address = value(argv[0], o, v);
		} else if (strcmp(o, "--peers") == 0) {
			cfg->peers_file = value(argv[0], o, v);
		} else if (strcmp(o, "--node") == 0) {
			cfg->node = (uint16_t)number(argv[0], o, v);
		} else if (strcmp(o, "--key") == 0) {
			cfg->key = (uint32_t)number(argv[0], o, v);
		} else if (strcmp(o, "--threads") == 0) {
			cfg->threads = (unsigned)number(argv[0], o, v);
		} else if (strcmp(o, "--timeout") == 0) {
			cfg->timeout_ms = (unsigned)number(argv[0], o, v);
		} else {
			fprintf(stderr, "%s: there is no option %s; fix: see --help\n", argv[0], o);
			exit(2);
		}
	}
}

static void on_signal(int sig)
{
	(void)sig;
	hk_rtc_stop(running);
}

struct hk_rtc *example_open(const struct hk_rtc_config *cfg, unsigned min_nodes)
{
	struct hk_error err = {""};
	struct sigaction stop = {.sa_handler = on_signal};

	if (hk_rtc_open(cfg, &running, &err) != 0) {
		fprintf(stderr, "hikyaku: %s\n", err.text);
		exit(1);
	}
	if (hk_rtc_nodes(running) < min_nodes) {
		fprintf(stderr, "this program is for %u nodes or more; fix: mpirun -np %u …\n",
			min_nodes, min_nodes);
		hk_rtc_close(running);
		exit(1);
	}
	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
	return running;
}

void example_register(struct hk_rtc *rtc, uint8_t type, const struct hk_rtc_type *t)
{
	struct hk_error err = {""};

	if (hk_rtc_register(rtc, type, t, &err) != 0) {
		fprintf(stderr, "%s\n", err.text);
		hk_rtc_close(rtc);
		exit(1);
	}
}

void example_print_stats(struct hk_rtc *rtc)
{
	static char text[16384];

	if (hk_rtc_stats_json(rtc, text, sizeof(text)) > 0)
		puts(text);
	fflush(stdout);
}

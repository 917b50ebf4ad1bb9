/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/options.c: the table of options, and the two ways to set them.
 */
#include "hostd/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum where { BOTH, FILE_ONLY, LINE_ONLY };
enum kind { TEXT, NUMBER, ON_OFF, MODE, FLAG };

#define AT(field)       offsetof(struct hk_options, field), sizeof(((struct hk_options *)0)->field)
#define IN(kind, field) kind, AT(field), 0, 0

/* `preset` is the default as a user would write it; NULL: 0, "" or off. */
static const struct option {
	const char *name, *value, *preset;
	enum where where;
	enum kind kind;
	size_t at, size;
	unsigned min, max;
	const char *help;
} table[] = {
	{"name", "NAME", "default", BOTH, IN(TEXT, name),
	 "name by which ranks and `hikyaku daemon` find it"},
	{"port", "SPEC", NULL, BOTH, IN(TEXT, port),
	 "the port that the ranks of this node share (docs/ports.md); required"},
	{"slots", "N", "4", BOTH, NUMBER, AT(slots), 1, HK_CTL_MAX_SLOTS,
	 "most ranks that can attach at the same time"},
	{"rx-buffers", "N", "4096", BOTH, NUMBER, AT(rx_buffers), 64, 1048576,
	 "receive buffers of each rank"},
	{"tx-buffers", "N", "4096", BOTH, NUMBER, AT(tx_buffers), 64, 1048576,
	 "transmit buffers of each rank"},
	{"memory", "MB", "0", BOTH, NUMBER, AT(memory_mb), 0, 1048576,
	 "huge pages; 0: as much as the buffers need"},
	{"slot-memory", "MB", "24", BOTH, NUMBER, AT(slot_memory_mb), 1, 16384,
	 "memory of each rank for its endpoint's state and rx backlog; grows with the peers"},
	{"huge-dir", "DIR", NULL, BOTH, IN(TEXT, huge_dir),
	 "mount point of hugetlbfs [DPDK looks for it]"},
	{"poller", "on|off", "on", BOTH, IN(ON_OFF, poller),
	 "run the poller, which receives and acknowledges frames for ranks that compute"},
	{"realtime", "on|off", "on", BOTH, IN(ON_OFF, realtime),
	 "poller and switch get a core as soon as they are woken, if the user may use real-time "
	 "priorities (ulimit -r)"},
	{"mode", "MODE", NULL, BOTH, IN(MODE, mode),
	 "polling mode. hybrid: ranks poll their own queues; daemon: hikyakud polls and passes "
	 "frames on; split: both, ranks for bulk [memif:dir=: hybrid; other ports: daemon]"},
	{"eager-queues", "N", "0", BOTH, NUMBER, AT(eager_queues), 0, HK_CTL_MAX_EAGER,
	 "modes daemon and split: queue pairs of each memif wire that hikyakud polls; 0: 4"},
	{"cpus", "LIST", NULL, BOTH, IN(TEXT, cpus),
	 "CPUs for daemon and poller, such as 0-3,8 [those of its starter]"},
	{"user", "NAME", NULL, BOTH, IN(TEXT, user),
	 "become this user first; only this user's ranks can attach [its starter]"},
	{"log", "FILE", NULL, BOTH, IN(TEXT, log),
	 "log file [`log` in its run directory; stderr in the foreground]"},
	{"linger", "MS", "10000", BOTH, NUMBER, AT(linger_ms), 0, 3600000,
	 "a job's daemon ends after this time without ranks if some never attach"},
	{"max-slots", "N", "64", FILE_ONLY, NUMBER, AT(max_slots), 1, HK_CTL_MAX_SLOTS,
	 "most slots that any daemon on this machine may have"},
	{"max-buffers", "N", "1048576", FILE_ONLY, NUMBER, AT(max_buffers), 64, 1048576,
	 "most buffers of each kind for a rank"},
	{"max-memory", "MB", "1048576", FILE_ONLY, NUMBER, AT(max_memory_mb), 1, 1048576,
	 "most memory of a daemon"},
	{"job", "KEY", NULL, LINE_ONLY, NUMBER, AT(job), 1, UINT32_MAX,
	 "accept only the job of this key, and end with it [any job of the user]"},
	{"starter", "PID", NULL, LINE_ONLY, NUMBER, AT(starter), 1, INT32_MAX,
	 "the job's rank that starts the daemon: if it dies and none is attached, the daemon ends"},
	{"config", "FILE", NULL, LINE_ONLY, IN(TEXT, config),
	 "read this file [" HK_OPTIONS_FILE " if it exists]"},
	{"background", NULL, NULL, LINE_ONLY, IN(FLAG, background),
	 "return when the daemon is ready"},
	{"version", NULL, NULL, LINE_ONLY, IN(FLAG, version), "print the version"},
	{"help", NULL, NULL, LINE_ONLY, IN(FLAG, help), "print this text"},
};

static const struct option *find(const char *name)
{
	for (size_t i = 0; i < HK_ARRAY_LEN(table); i++)
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	return NULL;
}

void hk_options_help(FILE *out)
{
	for (size_t i = 0; i < HK_ARRAY_LEN(table); i++) {
		const struct option *o = &table[i];
		char left[40];
		snprintf(left, sizeof(left), "%s%s%s%s", o->where == FILE_ONLY ? "" : "--", o->name,
			 o->value ? " " : "", o->value ? o->value : "");
		fprintf(out, "  %-20s %s%s%s%s%s\n", left, o->help, o->preset ? " [" : "",
			o->preset ? o->preset : "", o->preset ? "]" : "",
			o->where == FILE_ONLY ? " (only in the file)" : "");
	}
}

/* @from: origin of the setting, such as "--slots" or "hikyakud.conf:12: slots". */
static int set(struct hk_options *out, const struct option *o, const char *value, const char *from,
	       struct hk_error *err)
{
	void *field = (char *)out + o->at;
	char *end;
	unsigned long long n;

	switch (o->kind) {
	case TEXT:
		/* messages contain this text */
		if (!hk_ctl_set_text(field, o->size, value))
			return hk_error_set(
				err, -EINVAL,
				"%s: '%.60s' is too long or has unusual characters; fix: "
				"use at most %zu of plain ASCII, without quotes",
				from, value, o->size - 1);
		return 0;
	case NUMBER:
		errno = 0;
		n = strtoull(value, &end, 0);
		if (!isdigit((unsigned char)value[0]) || *end || errno || n < o->min || n > o->max)
			return hk_error_set(
				err, -EINVAL,
				"%s: '%.60s' is not a number from %u to %u; fix: give one", from,
				value, o->min, o->max);
		*(unsigned *)field = (unsigned)n;
		return 0;
	case ON_OFF:
		if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
			return hk_error_set(
				err, -EINVAL,
				"%s: '%.60s' is neither 'on' nor 'off'; fix: use one of these",
				from, value);
		*(bool *)field = strcmp(value, "on") == 0;
		return 0;
	case MODE:
		*(enum hk_ctl_mode *)field = hk_ctl_mode_by_name(value);
		if (!hk_ctl_mode_by_name(value))
			return hk_error_set(
				err, -EINVAL,
				"%s: '%.60s' is not a mode; fix: use 'hybrid', 'daemon' or 'split'",
				from, value);
		return 0;
	case FLAG:
		*(bool *)field = true;
		return 0;
	}
	return 0;
}

/* ---- the file ------------------------------------------------------------------------------ */

static char *trim(char *s)
{
	while (isspace((unsigned char)*s))
		s++;
	for (size_t n = strlen(s); n && isspace((unsigned char)s[n - 1]);)
		s[--n] = '\0';
	return s;
}

static int read_line(struct hk_options *o, char *line, const char *path, unsigned number,
		     struct hk_error *err)
{
	char from[400];

	char *text = trim(line);
	if (!*text || *text == '#')
		return 0;
	char *eq = strchr(text, '=');
	if (!eq)
		return hk_error_set(err, -EINVAL,
				    "%s:%u: there is no '='; fix: write `option = value`", path,
				    number);
	*eq = '\0';
	char *name = trim(text), *value = trim(eq + 1);
	const struct option *opt = find(name);
	if (!opt || opt->where == LINE_ONLY)
		return hk_error_set(err, -EINVAL,
				    "%s:%u: there is no option '%.40s' for the file; fix: see "
				    "hikyakud(8)",
				    path, number, name);
	snprintf(from, sizeof(from), "%s:%u: %s", path, number, name);
	return set(o, opt, value, from, err);
}

static int read_file(struct hk_options *o, const char *path, bool must, struct hk_error *err)
{
	char line[1024];
	unsigned number = 0;
	int rc = 0;

	FILE *f = fopen(path, "re");
	if (!f) {
		if (!must && errno == ENOENT)
			return 0;
		return hk_error_set(
			err, -errno,
			"cannot read the configuration file %s: %s; fix: name one that can "
			"be read, or leave out --config",
			path, strerror(errno));
	}
	snprintf(o->config, sizeof(o->config), "%s", path);
	while (rc == 0 && fgets(line, sizeof(line), f)) {
		number++;
		if (!strchr(line, '\n') && !feof(f))
			rc = hk_error_set(err, -EINVAL, "%s:%u: the line is too long", path,
					  number);
		else
			rc = read_line(o, line, path, number, err);
	}
	if (rc == 0 && ferror(f))
		rc = hk_error_set(err, -EIO, "cannot read the configuration file %s", path);
	fclose(f);
	return rc;
}

/* ---- the command line ---------------------------------------------------------------------- */

/* Applies @argv to @o; if @only is not NULL, only that option. */
static int read_args(struct hk_options *o, int argc, char **argv, const char *only,
		     struct hk_error *err)
{
	for (int i = 1; i < argc; i++) {
		char name[64], from[128];
		const char *text = argv[i], *value;

		if (strncmp(text, "--", 2) != 0)
			return hk_error_set(
				err, -EINVAL,
				"'%.60s' is not an option; fix: list them: %.200s --help", text,
				argv[0]);
		value = strchr(text, '=');
		snprintf(name, sizeof(name), "%.*s",
			 value ? (int)(value - text - 2) : (int)strlen(text) - 2, text + 2);
		const struct option *opt = find(name);
		if (!opt)
			return hk_error_set(
				err, -EINVAL,
				"there is no option --%s; fix: list them: %.200s --help", name,
				argv[0]);
		if (opt->where == FILE_ONLY)
			return hk_error_set(err, -EPERM,
					    "--%s is for the administrator; fix: set it in the "
					    "configuration file",
					    name);
		if (opt->kind == FLAG && value)
			return hk_error_set(err, -EINVAL, "--%s takes no value", name);
		if (opt->kind != FLAG && value)
			value++;
		else if (opt->kind != FLAG && i + 1 < argc)
			value = argv[++i];
		else if (opt->kind != FLAG)
			return hk_error_set(err, -EINVAL, "--%s needs a value: %s", name,
					    opt->value);
		if (only && strcmp(only, name) != 0)
			continue;
		snprintf(from, sizeof(from), "--%s", name);
		int rc = set(o, opt, value, from, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int check_limits(const struct hk_options *o, struct hk_error *err)
{
	const struct {
		const char *name;
		unsigned value, max;
	} limit[] = {{"slots", o->slots, o->max_slots},
		     {"rx-buffers", o->rx_buffers, o->max_buffers},
		     {"tx-buffers", o->tx_buffers, o->max_buffers},
		     {"memory", o->memory_mb, o->max_memory_mb}};

	for (size_t i = 0; i < HK_ARRAY_LEN(limit); i++)
		if (limit[i].value > limit[i].max)
			return hk_error_set(
				err, -EDQUOT,
				"%s %u is more than the %u that %s allows; fix: use fewer, or have "
				"the administrator raise the limit",
				limit[i].name, limit[i].value, limit[i].max,
				o->config[0] ? o->config : "this build");
	return 0;
}

int hk_options_read(int argc, char **argv, struct hk_options *o, struct hk_error *err)
{
	char path[256] = HK_OPTIONS_FILE;
	int rc = 0;

	*o = (struct hk_options){0};
	for (size_t i = 0; rc == 0 && i < HK_ARRAY_LEN(table); i++)
		if (table[i].preset)
			rc = set(o, &table[i], table[i].preset, table[i].name, err);
	if (rc == 0)
		rc = read_args(o, argc, argv, "config", err);
	bool given = o->config[0];
	if (given)
		memcpy(path, o->config, sizeof(path));
	o->config[0] = '\0';
	if (rc == 0)
		rc = read_file(o, path, given, err);
	if (rc == 0)
		rc = read_args(o, argc, argv, NULL, err);
	if (rc == 0 && !o->help && !o->version)
		rc = check_limits(o, err);
	return rc;
}

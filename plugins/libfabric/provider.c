/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/provider.c: the entry of libhikyaku-fi.so, its parameters and its log.
 *
 * One build serves every libfabric from 1.17 on. So it links none: it finds the functions of the
 * one that loads it. A provider that says another version of the interface than its libfabric may
 * be skipped, so it says the version that it finds.
 */
#include "libfabric/provider.h"
#include "base/env.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hk_fi_libfabric hk_fi_libfabric;

struct hk_fi_params hk_fi_params = {
	.progress_thread = 1,
	.connect_timeout_ms = 10000,
	.peer_timeout_ms = 30000,
	.linger_ms = 1000,
	.tx_buffers = 2048,
	.rx_buffers = 4096,
	.rx_backlog = 2048,
};

static const struct {
	const char *name;
	enum fi_param_type type;
	void *value;
	const char *help;
} list[] = {
	{"port", FI_PARAM_STRING, &hk_fi_params.port,
	 "The port to use, such as udp:addr=eth0 or memif:dir=/run/hk, or several with a + between "
	 "them; see docs/ports.md (default: auto)"},
	{"node_wires", FI_PARAM_STRING, &hk_fi_params.node_wires,
	 "Wires in shared memory to the processes of this node: on, off, a directory for them, or "
	 "auto; see fi_hikyaku(7) (default: auto)"},
	{"mode", FI_PARAM_STRING, &hk_fi_params.mode,
	 "The polling mode: inline, or with hikyakud hybrid, split, daemon, or auto; see "
	 "docs/modes.md (default: inline)"},
	{"protection", FI_PARAM_STRING, &hk_fi_params.protection,
	 "The protection of every frame: off, crc, auth or seal; see docs/security.md (default: "
	 "auto, which is off with memif wires and auth with all other ports)"},
	{"if_include", FI_PARAM_STRING, &hk_fi_params.if_include,
	 "With port auto: choose among these interfaces or networks, such as eth0,10.1.0.0/16"},
	{"if_exclude", FI_PARAM_STRING, &hk_fi_params.if_exclude,
	 "With port auto: choose none of these interfaces"},
	{"key", FI_PARAM_INT, &hk_fi_params.key,
	 "Job key in every frame: processes with another one do not see each other (default: 0)"},
	{"progress_thread", FI_PARAM_BOOL, &hk_fi_params.progress_thread,
	 "A thread acknowledges frames and serves puts and gets while the program computes "
	 "(default: yes)"},
	{"yield", FI_PARAM_BOOL, &hk_fi_params.yield,
	 "While nothing arrives, other processes of the core get their turn: for more processes "
	 "than "
	 "cores (default: no)"},
	{"connect_timeout_ms", FI_PARAM_INT, &hk_fi_params.connect_timeout_ms,
	 "How long to wait for a port, or for the other end of a wire, to come up (default: "
	 "10000)"},
	{"peer_timeout_ms", FI_PARAM_INT, &hk_fi_params.peer_timeout_ms,
	 "Operations with a peer that is silent this long end with an error (default: 30000)"},
	{"linger_ms", FI_PARAM_INT, &hk_fi_params.linger_ms,
	 "How long closing a domain may wait for the last acknowledgements (default: 1000)"},
	{"tx_buffers", FI_PARAM_INT, &hk_fi_params.tx_buffers,
	 "Frames that may wait to be sent or acknowledged (default: 2048)"},
	{"rx_buffers", FI_PARAM_INT, &hk_fi_params.rx_buffers,
	 "Receive buffers of the port (default: 4096)"},
	{"rx_backlog", FI_PARAM_INT, &hk_fi_params.rx_backlog,
	 "Frames that are stored while the program does not poll (default: 2048)"},
	{"eager", FI_PARAM_INT, &hk_fi_params.eager,
	 "Bytes of the longest message that is sent eagerly; the receiver gets longer ones "
	 "(default: 16 KiB, or 64 KiB with UDP sockets)"},
};

/* libfabric takes a number that is none for 0. */
static bool is_number(const char *variable)
{
	const char *text = getenv(variable);
	char *end;

	if (!text)
		return true;
	(void)strtol(text, &end, 0);
	return end != text && !*end;
}

int hk_fi_params_check(struct hk_error *err)
{
	static const char prefix[] = "FI_HIKYAKU_";
	char variable[HK_ARRAY_LEN(list)][40];
	const char *known[HK_ARRAY_LEN(list)];
	int value;

	for (size_t i = 0; i < HK_ARRAY_LEN(list); i++) {
		snprintf(variable[i], sizeof(variable[i]), "%s%s", prefix, list[i].name);
		for (char *c = variable[i]; *c; c++)
			*c = (char)toupper((unsigned char)*c);
		known[i] = variable[i] + strlen(prefix);
		if (list[i].type == FI_PARAM_BOOL &&
		    hk_fi_libfabric.param_get(&hk_fi_provider, list[i].name, &value) == -FI_EINVAL)
			return hk_error_set(err, -EINVAL, "%s is neither yes nor no; fix: 1 or 0",
					    variable[i]);
		if (list[i].type == FI_PARAM_INT && !is_number(variable[i]))
			return hk_error_set(err, -EINVAL, "%s is not a number; fix: unset %s",
					    variable[i], variable[i]);
	}
	return hk_env_check(prefix, known, HK_ARRAY_LEN(list), err);
}

/* libfabric takes over nothing of what it is told. */
static int find_libfabric(void)
{
	void *lib = dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD);
	struct hk_fi_libfabric *f = &hk_fi_libfabric;

	if (!lib)
		lib = RTLD_DEFAULT; /* it is a part of the program */
	*(void **)&f->version = dlsym(lib, "fi_version");
	*(void **)&f->dupinfo = dlsym(lib, "fi_dupinfo");
	*(void **)&f->freeinfo = dlsym(lib, "fi_freeinfo");
	*(void **)&f->param_define = dlsym(lib, "fi_param_define");
	*(void **)&f->param_get = dlsym(lib, "fi_param_get");
	*(void **)&f->log_enabled = dlsym(lib, "fi_log_enabled");
	*(void **)&f->log = dlsym(lib, "fi_log");
	*(void **)&f->tostr = dlsym(lib, "fi_tostr");
	return f->version && f->dupinfo && f->freeinfo && f->param_define && f->param_get ? 0 : -1;
}

static bool logs(enum fi_log_level level)
{
	const struct hk_fi_libfabric *f = &hk_fi_libfabric;

	return f->log && f->log_enabled && f->log_enabled(&hk_fi_provider, level, FI_LOG_CORE);
}

void hk_fi_say(enum fi_log_level level, const char *format, ...)
{
	const struct hk_fi_libfabric *f = &hk_fi_libfabric;
	char line[700];
	va_list ap;

	if (!logs(level))
		return;
	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	f->log(&hk_fi_provider, level, FI_LOG_CORE, "hikyaku", 0, "%s\n", line);
}

void hk_fi_fail(const char *text)
{
	if (logs(FI_LOG_WARN))
		hk_fi_warn("%s", text);
	else
		fprintf(stderr, "hikyaku: %s\n", text);
}

const char *hk_fi_text(const void *value, enum fi_type type)
{
	return hk_fi_libfabric.tostr ? hk_fi_libfabric.tostr(value, type) : "some";
}

struct fi_provider hk_fi_provider = {
	.version = FI_VERSION(0, 1),
	.name = "hikyaku",
	.getinfo = hk_fi_getinfo,
	.fabric = hk_fi_fabric,
};

struct fi_provider *fi_prov_ini(void); /* libfabric finds it by its name */

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
	if (find_libfabric() != 0)
		return NULL;
	hk_fi_provider.fi_version = hk_fi_libfabric.version();
	for (size_t i = 0; i < HK_ARRAY_LEN(list); i++) {
		hk_fi_libfabric.param_define(&hk_fi_provider, list[i].name, list[i].type, "%s",
					     list[i].help);
		(void)hk_fi_libfabric.param_get(&hk_fi_provider, list[i].name, list[i].value);
	}
	return &hk_fi_provider;
}

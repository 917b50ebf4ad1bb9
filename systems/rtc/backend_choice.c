/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/backend_choice.c: takes backend and address from the configuration or the environment.
 */
#include "rtc/backend_choice.h"

#include "base/env.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BACKENDS "dpdk, af_xdp, raw, udp, tcp"

static bool exists(const char *name)
{
	static const char *const names[] = {"dpdk", "af_xdp", "raw", "udp", "tcp"};

	for (size_t i = 0; i < HK_ARRAY_LEN(names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* Writes the variable's name, such as "HIKYAKU_RTC_ADDRESS_AF_XDP" for "af_xdp". */
static void variable_of(const char *name, char *out, size_t size)
{
	int at = snprintf(out, size, "HIKYAKU_RTC_ADDRESS_%s", name);

	for (int i = 0; i < at && (size_t)i < size - 1; i++)
		out[i] = (char)toupper((unsigned char)out[i]);
}

/* Copies @from, and fills in `{rank}` and `{local_rank}`. */
static int fill_in(const char *from, unsigned rank, unsigned local_rank, char *out, size_t size,
		   struct hk_error *err)
{
	static const char *const names[2] = {"{rank}", "{local_rank}"};
	const unsigned values[2] = {rank, local_rank};
	size_t at = 0;

	for (const char *p = from; *p;) {
		char digits[12] = {*p, '\0'};
		size_t used = 1;
		for (int i = 0; i < 2; i++)
			if (strncmp(p, names[i], strlen(names[i])) == 0) {
				snprintf(digits, sizeof(digits), "%u", values[i]);
				used = strlen(names[i]);
			}
		if (used == 1 && (*p == '{' || *p == '}'))
			return hk_error_set(err, -EINVAL,
					    "address '%s': only {rank} and {local_rank} are filled "
					    "in; fix: take out the other '%c'",
					    from, *p);
		size_t len = strlen(digits);
		if (at + len >= size)
			return hk_error_set(err, -ENAMETOOLONG,
					    "address '%s' is longer than %zu characters; fix: a "
					    "shorter path or name",
					    from, size - 1);
		memcpy(out + at, digits, len);
		at += len;
		p += used;
	}
	out[at] = '\0';
	return 0;
}

int hk_rtc_backend_choose(struct hk_rtc_config *cfg, unsigned local_rank, const char *own,
			  struct hk_rtc_backend_choice *choice, struct hk_error *err)
{
	static const char *const variables[] = {
		"BACKEND",     "ADDRESS_DPDK", "ADDRESS_AF_XDP", "ADDRESS_RAW", "ADDRESS_UDP",
		"ADDRESS_TCP", "ANNOUNCE",     "PROTECTION",     "SECRET",
	};
	const char *backend = cfg->backend, *address = cfg->address;
	char variable[64];
	int rc = hk_env_check("HIKYAKU_RTC_", variables, HK_ARRAY_LEN(variables), err);

	if (rc)
		return rc;
	if (!backend)
		backend = getenv("HIKYAKU_RTC_BACKEND");
	if (!backend || !*backend)
		return hk_error_set(
			err, -EINVAL,
			"no backend is chosen; fix: in the environment set "
			"HIKYAKU_RTC_BACKEND to one of " BACKENDS ", and its address; on "
			"one machine HIKYAKU_RTC_BACKEND=udp HIKYAKU_RTC_ADDRESS_UDP=lo");
	size_t len = strcspn(backend, ":");
	snprintf(choice->name, sizeof(choice->name), "%.*s", (int)len, backend);
	if (!exists(choice->name))
		return hk_error_set(err, -EINVAL,
				    "there is no backend '%.40s'; fix: use one of " BACKENDS,
				    backend);
	choice->option = backend[len] ? backend + len + 1 : "";

	variable_of(choice->name, variable, sizeof(variable));
	bool by_port = strcmp(choice->name, "udp") == 0 || strcmp(choice->name, "tcp") == 0;
	if (!address && by_port && own)
		address = own;
	if (!address)
		address = getenv(variable);
	if (!address || !*address)
		return hk_error_set(err, -EINVAL,
				    "backend %s has no address; fix: give one, or set %s",
				    choice->name, variable);
	rc = fill_in(address, cfg->node, local_rank, choice->address, sizeof(choice->address), err);
	if (rc)
		return rc;
	cfg->backend = backend;
	cfg->address = choice->address;
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/spec.c: the parser of port specs.
 *
 * A table for each kind of port lists its keys. The parser, its error texts and the check for
 * missing keys all use that table.
 */
#include "base/launcher.h"
#include "port/port.h"
#include "port/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_pci.h>

/* ---- keys ------------------------------------------------------------------------------------ */

enum key_type { KEY_TEXT, KEY_NUMBER, KEY_ROLE, KEY_MODE, KEY_TAKE };

struct key {
	const char *name;
	enum key_type type;
	size_t offset, size; /* place of the field in struct hk_spec; size of a text field */
	unsigned min, max;   /* range of a number */
	bool required;
};

#define TEXT_KEY(field)                                                                            \
	{                                                                                          \
#field, KEY_TEXT, offsetof(struct hk_spec, field),                                 \
			sizeof(((struct hk_spec *)0)->field), 0, 0, true                           \
	}
#define NUMBER_KEY(field, lo, hi)                                                                  \
	{                                                                                          \
#field, KEY_NUMBER, offsetof(struct hk_spec, field), sizeof(unsigned), lo, hi,     \
			false                                                                      \
	}

/* An ACK with checksum has 98 bytes. A memif descriptor counts up to 65535, less alignment. */
#define FRAME_MIN 128
#define FRAME_MAX 65000
/* DPDK's memif accepts rings of 2 to 16384 descriptors. */
#define RING_MIN 8
#define RING_MAX 16384
/* Of IEEE 802.1Q. */
#define PRIORITY_MAX 7

static const struct key memif_keys[] = {
	TEXT_KEY(socket),
	{"role", KEY_ROLE, 0, 0, 0, 0, true},
	NUMBER_KEY(id, 0, 65535),
	NUMBER_KEY(frame, FRAME_MIN, FRAME_MAX),
	NUMBER_KEY(ring, RING_MIN, RING_MAX),
};
static const struct key memif_set_keys[] = {
	TEXT_KEY(dir),
	NUMBER_KEY(frame, FRAME_MIN, FRAME_MAX),
	NUMBER_KEY(ring, RING_MIN, RING_MAX),
};
static const struct key af_xdp_keys[] = {
	TEXT_KEY(iface),
	NUMBER_KEY(queue, 0, 1023),
	{"mode", KEY_MODE, 0, 0, 0, 0, false},
	{"take", KEY_TAKE, 0, 0, 0, 0, false},
	NUMBER_KEY(busy, 0, 65535),
	NUMBER_KEY(force, 0, 1),
	NUMBER_KEY(priority, 0, PRIORITY_MAX),
};
static const struct key af_packet_keys[] = {
	TEXT_KEY(iface),
	NUMBER_KEY(ring, RING_MIN, RING_MAX),
	NUMBER_KEY(priority, 0, PRIORITY_MAX),
};

static const struct key udp_keys[] = {
	TEXT_KEY(addr),
	{"port", KEY_NUMBER, offsetof(struct hk_spec, udp_port), sizeof(unsigned), 1, 65535, false},
	NUMBER_KEY(mtu, 576, 65535),
	NUMBER_KEY(ip, 4, 6),
	NUMBER_KEY(xdp, 0, 1),
	NUMBER_KEY(queue, 0, 1023),
};

#define HAS_KEYS(t) t, HK_ARRAY_LEN(t)
static const struct form {
	const char *prefix;
	enum hk_spec_kind kind;
	const struct key *keys; /* NULL: DPDK parses the rest */
	size_t num_keys;
} forms[] = {
	{"memif", HK_SPEC_MEMIF, HAS_KEYS(memif_keys)},
	{"memif", HK_SPEC_MEMIF_SET, HAS_KEYS(memif_set_keys)},
	{"af_xdp", HK_SPEC_AF_XDP, HAS_KEYS(af_xdp_keys)},
	{"af_packet", HK_SPEC_AF_PACKET, HAS_KEYS(af_packet_keys)},
	{"udp", HK_SPEC_UDP, HAS_KEYS(udp_keys)},
	{"pci", HK_SPEC_PCI, NULL, 0},
	{"vdev", HK_SPEC_VDEV, NULL, 0},
};

/* ---- values ---------------------------------------------------------------------------------- */

int hk_spec_number(const char *what, const char *text, uint64_t min, uint64_t max, uint64_t *out,
		   struct hk_error *err)
{
	char *end;
	errno = 0;
	uint64_t v = strtoull(text, &end, 0);
	if (*text < '0' || *text > '9' || *end || errno || v < min || v > max)
		return hk_error_set(err, -EINVAL,
				    "%s=%s is not a number from %llu to %llu; fix: give one in "
				    "that range",
				    what, text, (unsigned long long)min, (unsigned long long)max);
	*out = v;
	return 0;
}

static int choice(const char *spec, const char *key, const char *value, const char *first,
		  const char *second, bool *is_second, struct hk_error *err)
{
	*is_second = strcmp(value, second) == 0;
	if (*is_second || strcmp(value, first) == 0)
		return 0;
	return hk_error_set(err, -EINVAL, "port %s: %s=%s is unknown; fix: give %s=%s or %s=%s",
			    spec, key, value, key, first, key, second);
}

static int set_key(struct hk_spec *spec, const struct key *k, const char *value,
		   struct hk_error *err)
{
	struct hk_error why;
	bool second;
	uint64_t v = 0;
	char *field = (char *)spec + k->offset;

	switch (k->type) {
	case KEY_TEXT:
		if (!*value)
			return hk_error_set(err, -EINVAL,
					    "port %s: %s is empty; fix: give it a "
					    "value",
					    spec->text, k->name);
		if (strlen(value) >= k->size)
			return hk_error_set(err, -EINVAL,
					    "port %s: %s is longer than %zu characters; fix: "
					    "choose a shorter one",
					    spec->text, k->name, k->size - 1);
		strcpy(field, value);
		return 0;
	case KEY_NUMBER:
		if (hk_spec_number(k->name, value, k->min, k->max, &v, &why))
			return hk_error_set(err, -EINVAL, "port %s: %s", spec->text, why.text);
		*(unsigned *)(void *)field = (unsigned)v;
		return 0;
	case KEY_ROLE:
		return choice(spec->text, "role", value, "client", "server", &spec->server, err);
	case KEY_MODE:
		if (choice(spec->text, "mode", value, "auto", "copy", &second, err))
			return -EINVAL;
		spec->mode = second ? HK_SPEC_MODE_COPY : HK_SPEC_MODE_AUTO;
		return 0;
	case KEY_TAKE:
		return choice(spec->text, "take", value, "ours", "all", &spec->take_all, err);
	}
	return -EINVAL;
}

static void list_keys(const struct form *f, bool required_only, char *out, size_t len)
{
	size_t n = 0;
	*out = '\0';
	for (size_t i = 0; i < f->num_keys && n < len; i++) {
		if (required_only && !f->keys[i].required)
			continue;
		n += (size_t)snprintf(out + n, len - n, "%s%s", n ? ", " : "", f->keys[i].name);
	}
}

/* The key that makes a port of kind @prefix if no other is given. NULL: one key is not enough. */
static const struct key *sufficient_key(const char *prefix)
{
	for (size_t i = 0; i < HK_ARRAY_LEN(forms); i++) {
		const struct key *only = NULL;
		unsigned required = 0;

		if (strcmp(forms[i].prefix, prefix) != 0)
			continue;
		for (size_t k = 0; k < forms[i].num_keys; k++) {
			if (!forms[i].keys[k].required)
				continue;
			only = &forms[i].keys[k];
			required++;
		}
		if (required == 1)
			return only;
	}
	return NULL;
}

static int parse_keys(struct hk_spec *spec, const struct form *f, char *text, struct hk_error *err)
{
	uint32_t seen = 0;
	char names[160], *save = NULL;

	for (char *pair = strtok_r(text, ",", &save); pair; pair = strtok_r(NULL, ",", &save)) {
		char *value = strchr(pair, '=');
		if (value)
			*value++ = '\0';
		size_t i = 0;
		while (i < f->num_keys && strcmp(f->keys[i].name, pair) != 0)
			i++;
		if (!value && i < f->num_keys)
			return hk_error_set(err, -EINVAL,
					    "port %s: \"%s\" has no value; fix: write %s=VALUE",
					    spec->text, pair, pair);
		const struct key *meant = !value && !seen ? sufficient_key(f->prefix) : NULL;
		if (meant)
			return hk_error_set(err, -EINVAL,
					    "port %s: \"%s\" has no key; fix: write %s=%s",
					    spec->text, pair, meant->name, pair);
		if (i == f->num_keys) {
			list_keys(f, false, names, sizeof(names));
			return hk_error_set(err, -EINVAL,
					    "port %s: \"%s\" is not a key of %s; fix: use one of "
					    "%s%s",
					    spec->text, pair, f->prefix, names,
					    f->kind == HK_SPEC_MEMIF
						    ? ", or dir=DIRECTORY in place of socket"
						    : "");
		}
		if (seen & (1u << i))
			return hk_error_set(err, -EINVAL,
					    "port %s: %s is given twice; fix: give it once",
					    spec->text, pair);
		seen |= 1u << i;
		if (set_key(spec, &f->keys[i], value, err))
			return -EINVAL;
	}
	for (size_t i = 0; i < f->num_keys; i++) {
		if (f->keys[i].required && !(seen & (1u << i))) {
			list_keys(f, true, names, sizeof(names));
			return hk_error_set(err, -EINVAL,
					    "port %s: %s is missing; fix: %s needs %s", spec->text,
					    f->keys[i].name, f->prefix, names);
		}
	}
	return 0;
}

/* ---- variables and kinds --------------------------------------------------------------------- */

static int substitute(const char *text, char *out, size_t len, struct hk_error *err)
{
	static const struct {
		const char *name;
		const char *(*value)(void);
	} vars[] = {{"{local_rank}", hk_launcher_local_rank}, {"{rank}", hk_launcher_rank}};
	size_t n = 0;

	for (const char *p = text; *p;) {
		const char *with = NULL;
		size_t skip = 1;
		for (size_t i = 0; *p == '{' && !with && i < HK_ARRAY_LEN(vars); i++) {
			if (strncmp(p, vars[i].name, strlen(vars[i].name)) != 0)
				continue;
			with = vars[i].value();
			if (!with)
				return hk_error_set(err, -EINVAL,
						    "port %s: no launcher has given this process "
						    "a number for %s; fix: start with mpirun or "
						    "srun, or name the port itself",
						    text, vars[i].name);
			skip = strlen(vars[i].name);
		}
		if (*p == '{' && !with)
			return hk_error_set(
				err, -EINVAL,
				"port %s: only {local_rank} and {rank} may be written in "
				"braces; fix: use one of them",
				text);
		size_t add = with ? strlen(with) : 1;
		if (n + add >= len)
			return hk_error_set(err, -EINVAL,
					    "port %.60s…: longer than %zu characters; fix: "
					    "shorten it",
					    text, len - 1);
		memcpy(out + n, with ? with : p, add);
		n += add;
		p += skip;
	}
	out[n] = '\0';
	return 0;
}

static const struct form *find_form(const char *prefix, const char *rest)
{
	for (size_t i = 0; i < HK_ARRAY_LEN(forms); i++) {
		if (strcmp(forms[i].prefix, prefix) != 0)
			continue;
		/* a memif with a directory is a set of wires */
		bool set = strncmp(rest, "dir=", 4) == 0 || strstr(rest, ",dir=");
		if (forms[i].kind == HK_SPEC_MEMIF && set)
			continue;
		return &forms[i];
	}
	return NULL;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static bool begins_spec(const char *text)
{
	for (size_t i = 0; i < HK_ARRAY_LEN(forms); i++) {
		size_t len = strlen(forms[i].prefix);

		if (strncmp(text, forms[i].prefix, len) == 0 && text[len] == ':')
			return true;
	}
	return false;
}

int hk_port_list_split(const char *list, char spec[][HK_PORT_SPEC_MAX], unsigned max,
		       struct hk_error *err)
{
	unsigned n = 0;

	for (const char *at = list; *at; n++) {
		const char *end = at;

		while (*end && !(*end == '+' && begins_spec(end + 1)))
			end++;
		if (n == max)
			return hk_error_set(err, -EINVAL,
					    "there are more than %u ports in %.100s…; fix: give at "
					    "most %u",
					    max, list, max);
		if (end - at >= HK_PORT_SPEC_MAX)
			return hk_error_set(err, -EINVAL,
					    "port %.60s…: longer than %d characters; fix: "
					    "shorten it",
					    at, HK_PORT_SPEC_MAX - 1);
		memcpy(spec[n], at, (size_t)(end - at));
		spec[n][end - at] = '\0';
		at = *end ? end + 1 : end;
	}
	return n ? (int)n : hk_error_set(err, -EINVAL, "no port is named; fix: see docs/ports.md");
}

/* ---- one spec -------------------------------------------------------------------------------- */

bool hk_spec_is_pci_address(const char *device)
{
	struct rte_pci_addr address;
	char text[32];
	size_t n = strcspn(device, ", ");

	snprintf(text, sizeof(text), "%.*s", (int)n, device);
	return n < sizeof(text) && rte_pci_addr_parse(text, &address) == 0;
}

/* Parses the address, and then keys of ours and of DPDK's driver in any order. */
static int parse_pci(struct hk_spec *spec, char *rest, struct hk_error *err)
{
	static const struct key keys[] = {
		NUMBER_KEY(frame, FRAME_MIN, FRAME_MAX),
		NUMBER_KEY(ring, RING_MIN, RING_MAX),
		NUMBER_KEY(priority, 0, PRIORITY_MAX),
	};
	char *save = NULL;
	size_t n = 0;

	for (char *word = strtok_r(rest, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		const struct key *ours = NULL;
		for (size_t i = 0; i < HK_ARRAY_LEN(keys); i++) {
			size_t len = strlen(keys[i].name);
			if (strncmp(word, keys[i].name, len) == 0 && word[len] == '=')
				ours = &keys[i];
		}
		if (!ours)
			n += (size_t)snprintf(spec->device + n, sizeof(spec->device) - n, "%s%s",
					      n ? "," : "", word);
		else if (set_key(spec, ours, strchr(word, '=') + 1, err))
			return -EINVAL;
	}
	if (!hk_spec_is_pci_address(spec->device))
		return hk_error_set(err, -EINVAL,
				    "port %s: \"%s\" is not a PCI address; fix: write one such as "
				    "pci:0000:3b:02.1 (lspci -D lists them)",
				    spec->text, spec->device);
	return 0;
}

int hk_spec_parse(const char *text, struct hk_spec *spec, struct hk_error *err)
{
	memset(spec, 0, sizeof(*spec));
	if (substitute(text, spec->text, sizeof(spec->text), err))
		return -EINVAL;

	char copy[sizeof(spec->text)];
	memcpy(copy, spec->text, sizeof(copy));
	char *tail = strchr(copy, ';');
	if (tail) {
		*tail++ = '\0';
		if (strncmp(tail, "faults=", 7) != 0)
			return hk_error_set(err, -EINVAL,
					    "port %s: \";%s\" is not understood; fix: only "
					    ";faults=… may follow a port",
					    spec->text, tail);
		struct hk_error why;
		if (hk_faults_parse(tail + 7, &spec->faults, &why))
			return hk_error_set(err, -EINVAL, "port %s: %s", spec->text, why.text);
		spec->faulty = true;
	}

	char *rest = strchr(copy, ':');
	if (rest)
		*rest++ = '\0';
	const struct form *f = rest ? find_form(copy, rest) : NULL;
	if (!f)
		return hk_error_set(err, -EINVAL,
				    "port %s: \"%s\" is not a kind of port; fix: use memif:…, "
				    "af_xdp:…, af_packet:…, udp:…, pci:… or vdev:… (docs/ports.md)",
				    spec->text, copy);
	spec->kind = f->kind;
	if (f->keys && parse_keys(spec, f, rest, err) != 0)
		return -EINVAL;
	if (spec->kind == HK_SPEC_UDP && spec->queue && !spec->xdp)
		return hk_error_set(err, -EINVAL,
				    "port %s: queue= is of AF_XDP; fix: add xdp=1, or leave out "
				    "queue=",
				    spec->text);
	if (f->keys)
		return 0;

	if (!*rest || strlen(rest) >= sizeof(spec->device))
		return hk_error_set(err, -EINVAL, "port %s: the device is %s; fix: %s", spec->text,
				    *rest ? "too long" : "missing",
				    f->kind == HK_SPEC_PCI ? "write pci:0000:3b:02.1"
							   : "write vdev:net_xyz0,key=value");
	if (f->kind == HK_SPEC_PCI)
		return parse_pci(spec, rest, err);
	strcpy(spec->device, rest);
	return 0;
}

bool hk_port_spec_repeats(const char *spec)
{
	struct hk_spec s;

	return hk_spec_parse(spec, &s, NULL) == 0 && s.kind == HK_SPEC_UDP && s.udp_port == 0;
}

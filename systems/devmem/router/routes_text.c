/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/routes_text.c: parses route files and tables in text, line by line.
 *
 * The parser is strict. An extra word, an address with bits beyond its prefix, or a port that does
 * not exist is an error that names the line. docs/routers.md has the grammar.
 */
#include "devmem/router/routes.h"

#include "devmem/router/special.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORDS   8
#define MTU_MIN 576 /* RFC 1812, 4.2.2.11: the least MTU of an IPv4 link; IPv6 needs 1280 */
#define MTU_MAX 9202

struct parser {
	struct hk_routes *r;
	const char *name; /* name of the file */
	uint32_t line;
	char *word[WORDS];
	unsigned words;
	uint32_t table_hop; /* the hop of `table … via` for all prefixes, or UINT32_MAX */
	struct hk_error *err;
};

__attribute__((format(printf, 2, 3))) static int wrong(struct parser *p, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return hk_error_set(p->err, -EINVAL, "%.200s:%u: %s", p->name, p->line, text);
}

static int full(struct parser *p)
{
	return hk_error_set(p->err, -ENOMEM,
			    "%.200s:%u: more than %u routes or %u next hops, or no memory; fix: "
			    "aggregate prefixes",
			    p->name, p->line, HK_ROUTE_MAX, HK_ROUTE_HOPS);
}

/* ---- words ----------------------------------------------------------------------------------- */

static int number(struct parser *p, const char *what, const char *word, unsigned min, unsigned max,
		  unsigned *out)
{
	size_t n = strlen(word);

	if (n == 0 || n > 9 || strspn(word, "0123456789") != n)
		return wrong(p, "%s '%.20s' is not a number; fix: give one from %u to %u", what,
			     word, min, max);
	*out = (unsigned)strtoul(word, NULL, 10);
	if (*out < min || *out > max)
		return wrong(p, "%s %u is out of range; fix: give one from %u to %u", what, *out,
			     min, max);
	return 0;
}

static int port_of(struct parser *p, const char *word, unsigned *port)
{
	return number(p, "port", word, 0, p->r->ports - 1, port);
}

static int address_of(struct parser *p, const char *word, unsigned *family, uint8_t address[16])
{
	int depth;

	*family = hk_prefix_parse(word, address, &depth);
	if (!*family || depth >= 0)
		return wrong(
			p, "'%.60s' is not an IPv4 or IPv6 address; fix: write it like 192.168.0.1",
			word);
	return 0;
}

static int prefix_of(struct parser *p, const char *word, unsigned *family, uint8_t prefix[16],
		     int *depth)
{
	char text[HK_ADDRESS_TEXT];

	*family = hk_prefix_parse(word, prefix, depth);
	if (!*family || *depth < 0)
		return wrong(p, "'%.60s' is not a prefix; fix: write it like 10.0.0.0/8", word);
	if (!hk_prefix_clean(prefix, *family, (unsigned)*depth))
		return wrong(p, "%.60s has bits set beyond its length; fix: clear them", word);
	const struct hk_special *s = hk_special_find(*family, prefix);
	if (s && *depth >= s->depth && !(s->destination && s->forwardable))
		return wrong(p,
			     "%.60s is in %s (%s, %s), which no router forwards to; fix: remove "
			     "the line",
			     word, hk_address_text(*family, s->address, s->depth, text), s->name,
			     s->rfc);
	return 0;
}

static bool is(const struct parser *p, unsigned at, const char *word)
{
	return at < p->words && strcmp(p->word[at], word) == 0;
}

static bool mac_of(const char *word, uint8_t mac[6])
{
	for (unsigned i = 0; i < 6; i++, word += 3) {
		char *end, two[3] = {word[0], word[0] ? word[1] : '\0'};
		mac[i] = (uint8_t)strtoul(two, &end, 16);
		if (end != two + 2 || two[0] == '+' || two[0] == '-' || two[0] == ' ' ||
		    word[2] != (i < 5 ? ':' : '\0'))
			return false;
	}
	return true;
}

static int station(struct parser *p, const char *word, uint8_t mac[6])
{
	if (mac_of(word, mac) && !(mac[0] & 1))
		return 0;
	return wrong(p,
		     "'%.30s' is not a station's MAC address; fix: write it like 02:00:00:00:00:01",
		     word);
}

/* Parses "via ADDRESS [port N]" from word @at to the end. */
static int via(struct parser *p, unsigned at, unsigned family, uint32_t *hop)
{
	uint8_t address[16];
	unsigned of, port = HK_PORT_NONE;
	int rc;

	if (p->words != at + 2 && !(p->words == at + 4 && is(p, at + 2, "port")))
		return wrong(p, "`via` needs an address, and may have a port; fix: write `via "
				"ADDRESS` or `via ADDRESS port N`");
	rc = address_of(p, p->word[at + 1], &of, address);
	if (rc == 0 && family && of != family)
		return wrong(
			p,
			"%s is not an IPv%u address; fix: name a next hop of the prefix's family",
			p->word[at + 1], family);
	if (rc == 0 && p->words == at + 4)
		rc = port_of(p, p->word[at + 3], &port);
	if (rc)
		return rc;
	*hop = hk_routes_hop(p->r, HK_HOP_UNRESOLVED, of, address, port, p->line);
	return *hop == UINT32_MAX ? full(p) : 0;
}

static int split(struct parser *p, char *line)
{
	char *save, *word = strtok_r(line, " \t\r", &save);

	for (p->words = 0; word; word = strtok_r(NULL, " \t\r", &save)) {
		if (p->words == WORDS)
			return wrong(p, "more than %u words; fix: write one statement in a line",
				     WORDS);
		p->word[p->words++] = word;
	}
	return 0;
}

static int read_lines(struct parser *p, const char *text, size_t len, int (*line)(struct parser *p))
{
	char copy[512];
	int rc = 0;

	for (size_t at = 0; at < len && rc == 0;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t n = end ? (size_t)(end - text) - at : len - at;
		p->line++;
		const char *comment = memchr(text + at, '#', n);
		size_t use = comment ? (size_t)(comment - text) - at : n;
		if (use >= sizeof(copy))
			return wrong(
				p, "longer than %zu characters; fix: write one statement in a line",
				sizeof(copy) - 1);
		memcpy(copy, text + at, use);
		copy[use] = '\0';
		if (memchr(copy, '\0', use))
			return wrong(p, "has a zero byte; fix: give a text file");
		rc = split(p, copy);
		if (rc == 0 && p->words)
			rc = line(p);
		at += n + 1;
	}
	return rc;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int line_port(struct parser *p)
{
	unsigned port = 0, mtu = 0;

	if (p->words != 4 && p->words != 6)
		return wrong(p, "malformed port statement; fix: write `port N mtu BYTES`, `port N "
				"mac MAC`, or both in one line");
	int rc = port_of(p, p->word[1], &port);
	for (unsigned i = 2; rc == 0 && i < p->words; i += 2) {
		if (is(p, i, "mtu")) {
			rc = number(p, "mtu", p->word[i + 1], MTU_MIN, MTU_MAX, &mtu);
			if (rc == 0 && p->r->mtu[port])
				rc = wrong(p, "port %u has an mtu already; fix: remove one", port);
			p->r->mtu[port] = (uint16_t)mtu;
		} else if (is(p, i, "mac")) {
			if (p->r->has_mac[port])
				rc = wrong(p, "port %u has a mac already; fix: remove one", port);
			else
				rc = station(p, p->word[i + 1], p->r->mac[port]);
			p->r->has_mac[port] = true;
		} else {
			rc = wrong(p, "'%.30s' is not understood; fix: write mtu or mac",
				   p->word[i]);
		}
	}
	return rc;
}

static int line_address(struct parser *p)
{
	struct hk_route_address *a = &p->r->address[p->r->addresses];
	unsigned family, port;
	int depth;

	if (p->words != 4 || !is(p, 2, "port"))
		return wrong(
			p,
			"malformed address statement; fix: write `address ADDRESS/LENGTH port N`");
	if (p->r->addresses == HK_ARRAY_LEN(p->r->address))
		return wrong(p, "more than %zu addresses; fix: remove some",
			     HK_ARRAY_LEN(p->r->address));
	family = hk_prefix_parse(p->word[1], a->address, &depth);
	if (!family || depth < 8)
		return wrong(p,
			     "'%.60s' is not an address with a length of at least 8; fix: write it "
			     "like 192.168.0.1/24",
			     p->word[1]);
	const struct hk_special *s = hk_special_find(family, a->address);
	if (s && !(s->destination && s->forwardable))
		return wrong(p,
			     "%.60s is in %s (%s), which a router's port cannot have; fix: choose "
			     "another",
			     p->word[1], s->name, s->rfc);
	int rc = port_of(p, p->word[3], &port);
	if (rc)
		return rc;
	for (unsigned i = 0; i < p->r->addresses; i++)
		if (p->r->address[i].family == family &&
		    memcmp(p->r->address[i].address, a->address, 16) == 0)
			return wrong(p, "%.60s is given twice; fix: remove one line", p->word[1]);
	a->family = (uint8_t)family;
	a->depth = (uint8_t)depth;
	a->port = (uint8_t)port;
	p->r->addresses++;
	return 0;
}

static int line_neighbour(struct parser *p)
{
	uint8_t address[16], mac[6];
	unsigned family, port;

	if (p->words != 6 || !is(p, 2, "port") || !is(p, 4, "mac"))
		return wrong(p, "malformed neighbour statement; fix: write `neighbour ADDRESS port "
				"N mac MAC`");
	int rc = address_of(p, p->word[1], &family, address);
	if (rc == 0)
		rc = port_of(p, p->word[3], &port);
	if (rc == 0)
		rc = station(p, p->word[5], mac);
	if (rc)
		return rc;
	const struct hk_special *s = hk_special_find(family, address);
	bool routed = !s || (s->destination && s->forwardable);
	if (!routed && strcmp(s->name, "link-local") != 0)
		return wrong(
			p, "%.60s is in %s (%s), which no neighbour can have; fix: remove the line",
			p->word[1], s->name, s->rfc);
	uint32_t hop = hk_routes_hop(p->r, HK_HOP_UNRESOLVED, family, address, port, p->line);
	if (hop == UINT32_MAX)
		return full(p);
	struct hk_route_hop *h = &p->r->hop[hop];
	if (h->has_mac)
		return wrong(p, "the neighbour %.60s is given twice; fix: remove one line",
			     p->word[1]);
	h->has_mac = true;
	memcpy(h->mac, mac, 6);
	if (routed && !hk_routes_add(p->r, family, address, family == 4 ? 32 : 128, hop, p->line))
		return full(p);
	return 0;
}

static int line_route(struct parser *p)
{
	uint8_t prefix[16];
	unsigned family, port;
	uint32_t hop;
	int depth, rc;

	if (p->words < 3)
		return wrong(p, "malformed route statement; fix: write `route PREFIX via ADDRESS "
				"[port N]`, `route PREFIX port "
				"N`, `route PREFIX blackhole` or `route PREFIX unreachable`");
	rc = prefix_of(p, p->word[1], &family, prefix, &depth);
	if (rc)
		return rc;
	if (is(p, 2, "via")) {
		rc = via(p, 2, family, &hop);
	} else if (is(p, 2, "port") && p->words == 4) {
		rc = port_of(p, p->word[3], &port);
		if (rc == 0) {
			hop = hk_routes_hop(p->r, HK_HOP_GLEAN, family, NULL, port, p->line);
			rc = hop == UINT32_MAX ? full(p) : 0;
		}
	} else if (is(p, 2, "blackhole") && p->words == 3) {
		hop = HK_HOP_BLACKHOLE;
	} else if (is(p, 2, "unreachable") && p->words == 3) {
		hop = HK_HOP_UNREACHABLE;
	} else {
		rc = wrong(p,
			   "'%.30s' is not understood; fix: write `via ADDRESS [port N]`, `port "
			   "N`, `blackhole` or `unreachable`",
			   p->word[2]);
	}
	if (rc)
		return rc;
	return hk_routes_add(p->r, family, prefix, (unsigned)depth, hop, p->line) ? 0 : full(p);
}

/* Parses a line of a table: "PREFIX NEXT-HOP", or "PREFIX" if `table … via` gave the hop. */
static int line_table(struct parser *p)
{
	uint8_t prefix[16], address[16];
	unsigned family, of;
	uint32_t hop = p->table_hop;
	int depth;

	int rc = prefix_of(p, p->word[0], &family, prefix, &depth);
	if (rc)
		return rc;
	if (p->words > 2 || (p->words == 1 && hop == UINT32_MAX))
		return wrong(p, "malformed line of a table; fix: write `PREFIX NEXT-HOP`, or write "
				"`table FILE via NEXT-HOP` in the route file");
	if (hop == UINT32_MAX) {
		rc = address_of(p, p->word[1], &of, address);
		if (rc == 0 && of != family)
			return wrong(p,
				     "%s is not an IPv%u address; fix: name a next hop of the "
				     "prefix's family",
				     p->word[1], family);
		if (rc)
			return rc;
		hop = hk_routes_hop(p->r, HK_HOP_UNRESOLVED, of, address, HK_PORT_NONE, p->line);
		if (hop == UINT32_MAX)
			return full(p);
	} else if (p->r->hop[hop].family != family) {
		return wrong(p,
			     "the prefix is of IPv%u, and the table's next hop is not; fix: use "
			     "one table for each family",
			     family);
	}
	return hk_routes_add(p->r, family, prefix, (unsigned)depth, hop, p->line) ? 0 : full(p);
}

static int read_table(struct parser *p)
{
	char *path;
	uint32_t hop = UINT32_MAX;
	uint8_t *data;
	size_t len;

	if (p->words < 2 || (p->words > 2 && !is(p, 2, "via")))
		return wrong(p, "malformed table statement; fix: write `table FILE`, or `table "
				"FILE via ADDRESS`");
	int rc = p->words > 2 ? via(p, 2, 0, &hop) : 0;
	if (rc)
		return rc;
	const char *slash = strrchr(p->name, '/');
	bool beside = slash && p->word[1][0] != '/';
	if (p->r->files == HK_ARRAY_LEN(p->r->file))
		return wrong(p, "more than %zu tables; fix: combine some",
			     HK_ARRAY_LEN(p->r->file) - 1);
	path = p->r->file[p->r->files];
	int n = snprintf(path, sizeof(p->r->file[0]), "%.*s%s",
			 beside ? (int)(slash - p->name) + 1 : 0, p->name, p->word[1]);
	if (n < 0 || (size_t)n >= sizeof(p->r->file[0]))
		return wrong(p, "the table's name is too long; fix: shorten it");
	struct hk_error why = {""};
	rc = hk_route_file_read(path, &data, &len, &why);
	if (rc)
		return wrong(p, "%s", why.text);
	p->r->reading = (uint8_t)p->r->files++;
	struct parser table = {.r = p->r, .name = path, .err = p->err, .table_hop = hop};
	rc = hk_routes_is_mrt(data, len) ? hk_routes_mrt(p->r, data, len, path, hop, p->err)
					 : read_lines(&table, (char *)data, len, line_table);
	p->r->reading = 0;
	free(data);
	return rc;
}

static int line_file(struct parser *p)
{
	static const struct {
		const char *word;
		int (*line)(struct parser *p);
	} kinds[] = {{"route", line_route},
		     {"neighbour", line_neighbour},
		     {"address", line_address},
		     {"port", line_port},
		     {"table", read_table}};

	for (size_t i = 0; i < HK_ARRAY_LEN(kinds); i++)
		if (is(p, 0, kinds[i].word))
			return kinds[i].line(p);
	return wrong(p,
		     "'%.30s' is not understood; fix: begin the line with port, address, "
		     "neighbour, route, table or #",
		     p->word[0]);
}

/* ---- files ----------------------------------------------------------------------------------- */

int hk_routes_parse(const char *text, size_t len, const char *name, unsigned ports,
		    struct hk_routes **out, struct hk_error *err)
{
	int rc = hk_routes_new(name, ports, out, err);
	if (rc)
		return rc;
	struct parser p = {.r = *out, .name = name, .err = err};
	rc = read_lines(&p, text, len, line_file);
	if (rc == 0)
		rc = hk_routes_finish(*out, err);
	if (rc) {
		hk_routes_free(*out);
		*out = NULL;
	}
	return rc;
}

int hk_routes_load(const char *path, unsigned ports, struct hk_routes **out, struct hk_error *err)
{
	uint8_t *data;
	size_t len;

	*out = NULL;
	int rc = hk_route_file_read(path, &data, &len, err);
	if (rc)
		return rc;
	rc = hk_routes_parse((char *)data, len, path, ports, out, err);
	free(data);
	return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/routes.c: a set of routes. Parsers add routes, and hk_routes_finish() completes the
 * set.
 */
#include "devmem/router/routes.h"

#include "devmem/router/special.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HASH      (4 * HK_ROUTE_HOPS)
#define RECURSION 8 /* most routes that a next hop may resolve through */

/* ---- text ------------------------------------------------------------------------------------ */

const char *hk_address_text(unsigned family, const uint8_t *address, int depth,
			    char out[HK_ADDRESS_TEXT])
{
	inet_ntop(family == 4 ? AF_INET : AF_INET6, address, out, HK_ADDRESS_TEXT);
	if (depth >= 0)
		snprintf(out + strlen(out), HK_ADDRESS_TEXT - strlen(out), "/%d", depth);
	return out;
}

unsigned hk_prefix_parse(const char *text, uint8_t address[16], int *depth)
{
	char copy[HK_ADDRESS_TEXT];
	const char *slash = strchr(text, '/');
	size_t n = slash ? (size_t)(slash - text) : strlen(text);

	*depth = -1;
	memset(address, 0, 16);
	if (n >= sizeof(copy))
		return 0;
	memcpy(copy, text, n);
	copy[n] = '\0';
	unsigned family = inet_pton(AF_INET, copy, address) == 1    ? 4
			  : inet_pton(AF_INET6, copy, address) == 1 ? 6
								    : 0;
	if (!family || !slash)
		return family;
	const char *p = slash + 1;
	if (p[0] < '0' || p[0] > '9' || strlen(p) > 3 || strspn(p, "0123456789") != strlen(p) ||
	    (p[0] == '0' && p[1]))
		return 0;
	*depth = atoi(p);
	return *depth <= (family == 4 ? 32 : 128) ? family : 0;
}

bool hk_prefix_clean(const uint8_t *prefix, unsigned family, unsigned depth)
{
	unsigned bytes = family == 4 ? 4 : 16, at = depth / 8;

	if (depth % 8 && (prefix[at++] & (0xff >> depth % 8)))
		return false;
	for (; at < bytes; at++)
		if (prefix[at])
			return false;
	return true;
}

int hk_route_file_read(const char *path, uint8_t **data, size_t *len, struct hk_error *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	*data = NULL;
	if (fd < 0 || fstat(fd, &st) != 0) {
		int code = errno;
		if (fd >= 0)
			close(fd);
		return hk_error_set(err, -code, "%s: %s; fix: name a file that can be read", path,
				    strerror(code));
	}
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > HK_ROUTE_FILE) {
		close(fd);
		return hk_error_set(
			err, -EFBIG,
			"%s is not a plain file of at most %u MiB; fix: name such a file", path,
			(unsigned)(HK_ROUTE_FILE >> 20));
	}
	*data = malloc((size_t)st.st_size + 1);
	*len = 0;
	ssize_t got = *data ? 1 : -1;
	while (got > 0 && *len < (size_t)st.st_size) {
		got = read(fd, *data + *len, (size_t)st.st_size - *len);
		*len += got > 0 ? (size_t)got : 0;
	}
	int code = *data ? errno : ENOMEM;
	close(fd);
	if (got >= 0)
		return 0;
	free(*data);
	*data = NULL;
	return hk_error_set(err, -code, "%s: cannot be read: %s; fix: check the file", path,
			    strerror(code));
}

/* ---- the set --------------------------------------------------------------------------------- */

int hk_routes_new(const char *name, unsigned ports, struct hk_routes **out, struct hk_error *err)
{
	struct hk_routes *r = calloc(1, sizeof(*r));

	*out = NULL;
	if (r) {
		snprintf(r->file[r->files++], sizeof(r->file[0]), "%s", name);
		r->ports = ports;
		r->hop = calloc(HK_ROUTE_HOPS, sizeof(*r->hop));
		r->hash = calloc(HASH, sizeof(*r->hash));
	}
	if (!r || !r->hop || !r->hash) {
		hk_routes_free(r);
		return hk_error_set(err, -ENOMEM, "%s: no memory for routes", name);
	}
	for (unsigned kind = 0; kind < HK_HOP_KINDS;
	     kind++) /* the first hops have these kinds as their numbers */
		hk_routes_hop(r, kind, 0, NULL, HK_PORT_NONE, 0);
	*out = r;
	return 0;
}

void hk_routes_free(struct hk_routes *r)
{
	if (!r)
		return;
	free(r->route);
	free(r->hop);
	free(r->hash);
	free(r);
}

/* Returns the index of @want, or UINT32_MAX; *@free is then the slot for it in the hash table. */
static uint32_t find(const struct hk_routes *r, const struct hk_route_hop *want, uint32_t *free)
{
	uint64_t h = (uint64_t)want->port << 8 | want->family, word[2];

	memcpy(word, want->address, 16);
	h = (h ^ word[0]) * UINT64_C(0x9e3779b97f4a7c15);
	h = (h ^ h >> 29 ^ word[1]) * UINT64_C(0xbf58476d1ce4e5b9);
	for (uint32_t at = (uint32_t)(h >> 32) % HASH;; at = (at + 1) % HASH) {
		if (!r->hash[at]) {
			if (free)
				*free = at;
			return UINT32_MAX;
		}
		const struct hk_route_hop *is = &r->hop[r->hash[at] - 1];
		bool neighbours = want->family &&
				  (is->kind == HK_HOP_FORWARD || is->kind == HK_HOP_UNRESOLVED) &&
				  (want->kind == HK_HOP_FORWARD || want->kind == HK_HOP_UNRESOLVED);
		if ((is->kind == want->kind || neighbours) && is->family == want->family &&
		    is->port == want->port && memcmp(is->address, want->address, 16) == 0)
			return r->hash[at] - 1;
	}
}

uint32_t hk_routes_hop(struct hk_routes *r, enum hk_hop_kind kind, unsigned family,
		       const uint8_t *address, unsigned port, uint32_t line)
{
	struct hk_route_hop want = {.kind = (uint8_t)kind,
				    .family = (uint8_t)family,
				    .port = (uint8_t)port,
				    .file = r->reading,
				    .line = line};
	uint32_t free = 0;

	if (address)
		memcpy(want.address, address, family == 4 ? 4 : 16);
	uint32_t at = find(r, &want, &free);
	if (at == UINT32_MAX && r->hops < HK_ROUTE_HOPS) {
		at = r->hops++;
		r->hop[at] = want;
		r->hash[free] = at + 1;
	}
	return at;
}

bool hk_routes_add(struct hk_routes *r, unsigned family, const uint8_t *prefix, unsigned depth,
		   uint32_t hop, uint32_t line)
{
	if (r->routes == r->capacity) {
		size_t capacity = r->capacity ? 2 * r->capacity : 1024;
		struct hk_route *more = realloc(r->route, capacity * sizeof(*more));
		if (!more || r->routes >= HK_ROUTE_MAX)
			return r->route = more ? more : r->route, false;
		r->route = more;
		r->capacity = capacity;
	}
	struct hk_route *one = &r->route[r->routes++];
	*one = (struct hk_route){.depth = (uint8_t)depth,
				 .family = (uint8_t)family,
				 .file = r->reading,
				 .hop = hop,
				 .line = line};
	memcpy(one->prefix, prefix, family == 4 ? 4 : 16);
	return true;
}

/* ---- finishing ------------------------------------------------------------------------------- */

/* Sorts a prefix before the prefixes inside it. */
static int by_prefix(const void *a, const void *b)
{
	const struct hk_route *x = a, *y = b;

	if (x->family != y->family)
		return x->family - y->family;
	int c = memcmp(x->prefix, y->prefix, 16);
	return c ? c : x->depth - y->depth;
}

static int sort(struct hk_routes *r, struct hk_error *err)
{
	char text[HK_ADDRESS_TEXT];
	bool sorted = true;

	for (size_t i = 1; i < r->routes && sorted; i++)
		sorted = by_prefix(&r->route[i - 1], &r->route[i]) < 0;
	if (sorted)
		return 0;
	qsort(r->route, r->routes, sizeof(*r->route), by_prefix);
	size_t unique = 0;
	for (size_t i = 0; i < r->routes; i++) {
		struct hk_route *last = unique ? &r->route[unique - 1] : NULL, *it = &r->route[i];
		if (!last || by_prefix(last, it) != 0) {
			r->route[unique++] = *it;
			continue;
		}
		/* an explicit route replaces an implied one; a neighbour's implied route yields to
		 * any */
		if (!last->line || !it->line) {
			if (it->line)
				*last = *it;
			continue;
		}
		return hk_error_set(
			err, -EEXIST,
			"%s:%u: another route to %s is in %s:%u; fix: remove one of them",
			r->file[it->file], it->line,
			hk_address_text(it->family, it->prefix, it->depth, text),
			r->file[last->file], last->line);
	}
	r->routes = unique;
	return 0;
}

/* Returns the longest match in the sorted set, at most @depth long. */
static const struct hk_route *match(const struct hk_routes *r, unsigned family,
				    const uint8_t *address, int depth)
{
	for (; depth >= 0; depth--) {
		struct hk_route want = {.family = (uint8_t)family, .depth = (uint8_t)depth};
		memcpy(want.prefix, address, (size_t)depth / 8);
		if (depth % 8)
			want.prefix[depth / 8] = address[depth / 8] &
						 (uint8_t)(0xff00 >> depth % 8);
		const struct hk_route *it = bsearch(&want, r->route, r->routes, sizeof(want),
						    by_prefix);
		if (it)
			return it;
	}
	return NULL;
}

/* Adds special addresses, the router's own, and its subnets. */
static bool add_implied(struct hk_routes *r)
{
	bool ok = true;

	for (unsigned family = 4; family <= 6; family += 2) {
		size_t n;
		const struct hk_special *s = hk_special_table(family, &n);
		for (size_t i = 0; i < n; i++) {
			enum hk_hop_kind kind = strcmp(s[i].name, "multicast") == 0
							? HK_HOP_MULTICAST
						: strcmp(s[i].name, "link-local") == 0
							? HK_HOP_LINK_LOCAL
							: HK_HOP_MARTIAN;
			/* an exception within a martian block is routed as any other prefix */
			if (s[i].destination && s[i].forwardable)
				kind = HK_HOP_NO_ROUTE;
			ok &= hk_routes_add(r, family, s[i].address, s[i].depth, kind, 0);
		}
	}
	for (unsigned i = 0; i < r->addresses; i++) {
		const struct hk_route_address *a = &r->address[i];
		unsigned most = a->family == 4 ? 32 : 128;
		uint8_t net[16], last[16];
		memcpy(net, a->address, 16);
		memcpy(last, a->address, 16);
		for (unsigned bit = a->depth; bit < most; bit++) {
			net[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
			last[bit / 8] |= (uint8_t)(0x80u >> bit % 8);
		}
		uint32_t glean = hk_routes_hop(r, HK_HOP_GLEAN, a->family, NULL, a->port, 0);
		ok &= glean != UINT32_MAX;
		ok &= hk_routes_add(r, a->family, a->address, most, HK_HOP_LOCAL, 0);
		if (a->depth < most)
			ok &= hk_routes_add(r, a->family, net, a->depth, glean, 0);
		if (a->family == 4 && a->depth < 31) {
			ok &= hk_routes_add(r, 4, net, 32, HK_HOP_BROADCAST, 0);
			ok &= hk_routes_add(r, 4, last, 32, HK_HOP_BROADCAST, 0);
		}
	}
	return ok;
}

/* Routes an exception within a martian block as if the block did not exist. */
static void free_exceptions(struct hk_routes *r)
{
	for (size_t i = 0; i < r->routes; i++) {
		struct hk_route *t = &r->route[i];
		if (t->hop != HK_HOP_NO_ROUTE)
			continue;
		for (int depth = t->depth - 1; t->hop == HK_HOP_NO_ROUTE && depth >= 0; depth--) {
			const struct hk_route *by = match(r, t->family, t->prefix, depth);
			if (!by)
				break;
			depth = by->depth;
			if (r->hop[by->hop].kind != HK_HOP_MARTIAN)
				t->hop = by->hop;
		}
	}
}

static int resolve(struct hk_routes *r, uint32_t index, struct hk_error *err)
{
	struct hk_route_hop *hop = &r->hop[index];
	char text[HK_ADDRESS_TEXT], next[HK_ADDRESS_TEXT] = "";
	uint8_t address[16];

	if (hop->kind != HK_HOP_UNRESOLVED || hop->port != HK_PORT_NONE || !hop->family)
		return 0;
	memcpy(address, hop->address, 16);
	for (unsigned i = 0; i < RECURSION; i++) {
		const struct hk_route *by = match(r, hop->family, address,
						  hop->family == 4 ? 32 : 128);
		const struct hk_route_hop *to = by ? &r->hop[by->hop] : NULL;
		if (to && to->kind == HK_HOP_GLEAN) {
			hop->port = to->port;
			memcpy(hop->address, address, 16);
			return 0;
		}
		if (!to || to->kind != HK_HOP_UNRESOLVED || to->family != hop->family)
			break;
		memcpy(address, to->address, 16);
		if (to->port != HK_PORT_NONE) {
			hop->port = to->port;
			memcpy(hop->address, address, 16);
			return 0;
		}
	}
	hk_address_text(hop->family, hop->address, -1, text);
	if (memcmp(address, hop->address, 16) != 0)
		snprintf(next, sizeof(next), " (through %s)",
			 hk_address_text(hop->family, address, -1, (char[HK_ADDRESS_TEXT]){0}));
	return hk_error_set(
		err, -EHOSTUNREACH,
		"%s:%u: the next hop %s%s cannot be resolved: it is not in the subnet of any port; "
		"fix: write `via %s port N`, or give a port an address in its subnet",
		r->file[hop->file], hop->line, text, next, text);
}

/* Gives each hop the MAC address of the neighbour with the same address and port. */
static void give_macs(struct hk_routes *r)
{
	for (uint32_t i = HK_HOP_KINDS; i < r->hops; i++) {
		struct hk_route_hop *h = &r->hop[i];
		const struct hk_route_hop *named = h;
		uint32_t at = h->kind == HK_HOP_UNRESOLVED ? find(r, h, NULL) : UINT32_MAX;
		if (at != UINT32_MAX)
			named = &r->hop[at];
		if (named->has_mac) {
			memcpy(h->mac, named->mac, 6);
			h->has_mac = true;
			h->kind = h->kind == HK_HOP_UNRESOLVED ? HK_HOP_FORWARD : h->kind;
		}
	}
}

int hk_routes_finish(struct hk_routes *r, struct hk_error *err)
{
	if (!add_implied(r))
		return hk_error_set(err, -ENOMEM,
				    "%s: more than %u routes or %u next hops, or no memory",
				    r->file[0], HK_ROUTE_MAX, HK_ROUTE_HOPS);
	int rc = sort(r, err);
	for (uint32_t i = 0; rc == 0 && i < r->hops; i++)
		rc = resolve(r, i, err);
	if (rc)
		return rc;
	free_exceptions(r);
	give_macs(r);
	return 0;
}

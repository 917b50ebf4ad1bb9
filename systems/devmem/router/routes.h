/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/routes.h: the routes of a route file, before they become a forwarding table.
 *
 * A route file is text; docs/routers.md has its grammar. It may name *tables*: files with many
 * prefixes, in text or MRT. Reading is all or nothing: an error names the file and the line or
 * record, and discards all routes. Pure: it reads files and touches nothing else.
 *
 * Addresses are in network order. An IPv4 address is the first four bytes of its field; the rest is
 * zero. A prefix has no bit set beyond its depth.
 *
 * Ownership: hk_routes_free() frees everything. Threads: one at a time.
 */
#ifndef HK_ROUTER_ROUTES_H
#define HK_ROUTER_ROUTES_H

#include "base/common.h"
#include "hikyaku/error.h"

#define HK_ROUTER_PORTS 16
#define HK_PORT_NONE    0xff
#define HK_ROUTE_HOPS   (1u << 16)          /* most next hops of a route file */
#define HK_ROUTE_MAX    (8u << 20)          /* most prefixes of a route file */
#define HK_ROUTE_FILE   (UINT64_C(1) << 30) /* most bytes of a file */
#define HK_ADDRESS_TEXT 64                  /* bytes of an address or a prefix in text, with NUL */

enum hk_hop_kind {
	HK_HOP_NO_ROUTE,
	HK_HOP_FORWARD,     /* a neighbour whose port and MAC address are known */
	HK_HOP_UNRESOLVED,  /* a neighbour whose MAC address is not known yet */
	HK_HOP_GLEAN,       /* the destination itself is the neighbour, on the port's subnet */
	HK_HOP_LOCAL,       /* an address of this router */
	HK_HOP_BLACKHOLE,   /* dropped without an ICMP message */
	HK_HOP_UNREACHABLE, /* dropped with an ICMP message */
	HK_HOP_BROADCAST,   /* broadcast address of a subnet */
	HK_HOP_MULTICAST,
	HK_HOP_LINK_LOCAL, /* link-local: for this host at most, never forwarded */
	HK_HOP_MARTIAN,
	HK_HOP_KINDS
};

struct hk_route_hop {
	uint8_t kind, family; /* `family`: 4, 6, or 0 without an address */
	uint8_t port;         /* HK_PORT_NONE until hk_routes_finish() finds the port */
	bool has_mac;
	uint8_t mac[6];
	uint8_t address[16]; /* the address in the file; after hk_routes_finish() the neighbour's
				address */
	uint8_t file;        /* index in hk_routes.file of the file that names it first */
	uint32_t line;       /* line or record in that file */
};

struct hk_route {
	uint8_t prefix[16];
	uint8_t depth, family, file;
	uint32_t hop;  /* index in hk_routes.hop */
	uint32_t line; /* line or record; 0: implied by another statement */
};

/* The router's own address on a port. */
struct hk_route_address {
	uint8_t address[16];
	uint8_t depth, family, port;
};

struct hk_routes {
	char file[8][256]; /* the route file and its tables */
	unsigned files;
	uint8_t reading; /* index of the file that is being read */
	unsigned ports;
	struct hk_route *route;
	size_t routes, capacity; /* elements of `route`: used, allocated */
	struct hk_route_hop *hop;
	uint32_t hops;
	struct hk_route_address address[4 * HK_ROUTER_PORTS];
	unsigned addresses;
	uint16_t mtu[HK_ROUTER_PORTS]; /* bytes; 0: the port's own MTU */
	uint8_t mac[HK_ROUTER_PORTS][6];
	bool has_mac[HK_ROUTER_PORTS]; /* false: the port keeps its own address */
	uint32_t *hash;                /* hash table of hops, for hk_routes_hop() */
};

/* Reads @path and the tables that it names, for a router of @ports ports, and calls
 * hk_routes_finish(). */
int hk_routes_load(const char *path, unsigned ports, struct hk_routes **out, struct hk_error *err);

/* The same for text in memory. Relative names of tables are relative to the directory of @name. */
int hk_routes_parse(const char *text, size_t len, const char *name, unsigned ports,
		    struct hk_routes **out, struct hk_error *err);

void hk_routes_free(struct hk_routes *r); /* NULL is allowed */

/* ---- for parsers ----------------------------------------------------------------------------- */

int hk_routes_new(const char *name, unsigned ports, struct hk_routes **out, struct hk_error *err);

/* Returns the hop of this kind, family, address and port, and makes it if needed; UINT32_MAX: too
 * many hops, or no memory. */
uint32_t hk_routes_hop(struct hk_routes *r, enum hk_hop_kind kind, unsigned family,
		       const uint8_t *address, unsigned port, uint32_t line);

/* Adds a route; false: too many routes, or no memory. */
bool hk_routes_add(struct hk_routes *r, unsigned family, const uint8_t *prefix, unsigned depth,
		   uint32_t hop, uint32_t line);

/* Adds the routes that ports and special addresses imply, sorts, refuses duplicates, and finds each
 * hop's port. */
int hk_routes_finish(struct hk_routes *r, struct hk_error *err);

/* Reads a table in MRT (RFC 6396, TABLE_DUMP_V2). Each prefix gets its first entry's next hop, or
 * @hop unless that is UINT32_MAX. @name is for errors. */
int hk_routes_mrt(struct hk_routes *r, const uint8_t *data, size_t len, const char *name,
		  uint32_t hop, struct hk_error *err);

/* Whether the data begins as an MRT table. */
bool hk_routes_is_mrt(const uint8_t *data, size_t len);

/* Reads a file of at most HK_ROUTE_FILE bytes. The caller frees @data. */
int hk_route_file_read(const char *path, uint8_t **data, size_t *len, struct hk_error *err);

/* Writes an address as text, with its depth if that is not negative. Returns @out. */
const char *hk_address_text(unsigned family, const uint8_t *address, int depth,
			    char out[HK_ADDRESS_TEXT]);

/* Parses "10.0.0.0/8". Returns family 4 or 6, or 0 if the text is malformed. Without a slash, the
 * depth is -1. */
unsigned hk_prefix_parse(const char *text, uint8_t address[16], int *depth);

/* Whether all bits beyond @depth are zero. */
bool hk_prefix_clean(const uint8_t *prefix, unsigned family, unsigned depth);

#endif

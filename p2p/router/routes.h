/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/router/routes.h: what a route file says, before it becomes a FIB.
 *
 * A route file is text (docs/routers.md has the grammar); it may name *tables*, files with very many
 * prefixes in text or MRT. Reading is all or nothing: an error names file and line, or record, and
 * nothing is kept. Pure: files are read, nothing else is touched.
 *
 * Addresses are in network order; an IPv4 address is the first four bytes of its field, the rest
 * are zero. A prefix has no bit set beyond its depth.
 *
 * Ownership: hk_routes_free() frees everything. Threads: one at a time.
 */
#ifndef HK_ROUTER_ROUTES_H
#define HK_ROUTER_ROUTES_H

#include "base/common.h"
#include "base/error.h"

#define HK_ROUTER_PORTS 16
#define HK_PORT_NONE    0xff
#define HK_ROUTE_HOPS   (1u << 16)          /* most next hops of a route file */
#define HK_ROUTE_MAX    (8u << 20)          /* … prefixes */
#define HK_ROUTE_FILE   (UINT64_C(1) << 30) /* … bytes of a file */
#define HK_ADDRESS_TEXT 64                  /* room for an address or a prefix in text */

enum hk_hop_kind {
	HK_HOP_NO_ROUTE,
	HK_HOP_FORWARD,     /* port and MAC address are known */
	HK_HOP_UNRESOLVED,  /* a neighbour, whose MAC address is not known yet */
	HK_HOP_GLEAN,       /* the destination itself is the neighbour, on that port's subnet */
	HK_HOP_LOCAL,       /* an address of this router */
	HK_HOP_BLACKHOLE,   /* dropped without a word */
	HK_HOP_UNREACHABLE, /* dropped with an ICMP message */
	HK_HOP_BROADCAST,   /* a subnet's */
	HK_HOP_MULTICAST,
	HK_HOP_LINK_LOCAL, /* this host's, if anybody's: never forwarded */
	HK_HOP_MARTIAN,
	HK_HOP_KINDS
};

struct hk_route_hop {
	uint8_t kind, family; /* 4, 6; 0 where there is no address */
	uint8_t port;         /* HK_PORT_NONE until hk_routes_finish() has found it */
	bool has_mac;
	uint8_t mac[6];
	uint8_t address[16]; /* as the file says; after hk_routes_finish() the neighbour's */
	uint8_t file;        /* where it was first named: of hk_routes.file … */
	uint32_t line;       /* … its line, or record */
};

struct hk_route {
	uint8_t prefix[16];
	uint8_t depth, family, file;
	uint32_t hop;  /* into hops */
	uint32_t line; /* line or record; 0: implied by another */
};

/* The router's own address on a port. */
struct hk_route_address {
	uint8_t address[16];
	uint8_t depth, family, port;
};

struct hk_routes {
	char file[8][256]; /* the route file, and its tables */
	unsigned files;
	uint8_t reading; /* which is being read */
	unsigned ports;
	struct hk_route *route;
	size_t routes, room;
	struct hk_route_hop *hop;
	uint32_t hops;
	struct hk_route_address address[4 * HK_ROUTER_PORTS];
	unsigned addresses;
	uint16_t mtu[HK_ROUTER_PORTS]; /* 0: the port's own */
	uint8_t mac[HK_ROUTER_PORTS][6];
	bool has_mac[HK_ROUTER_PORTS]; /* else the port's own */
	uint32_t *hash;                /* of hops, for hk_routes_hop() */
};

/* Reads @path and the tables that it names, for a router of @ports ports, and finishes. */
int hk_routes_load(const char *path, unsigned ports, struct hk_routes **out, struct hk_error *err);

/* The same of text in memory; tables are looked for beside @name. */
int hk_routes_parse(const char *text, size_t len, const char *name, unsigned ports,
		    struct hk_routes **out, struct hk_error *err);

void hk_routes_free(struct hk_routes *r); /* NULL is allowed */

/* ---- for parsers ------------------------------------------------------------------------------- */

int hk_routes_new(const char *name, unsigned ports, struct hk_routes **out, struct hk_error *err);

/* The hop of this kind, family, address and port, made if need be; UINT32_MAX: too many, or no memory. */
uint32_t hk_routes_hop(struct hk_routes *r, enum hk_hop_kind kind, unsigned family,
		       const uint8_t *address, unsigned port, uint32_t line);

/* Adds a route; false: too many, or no memory. */
bool hk_routes_add(struct hk_routes *r, unsigned family, const uint8_t *prefix, unsigned depth,
		   uint32_t hop, uint32_t line);

/* Adds what ports and special addresses imply, sorts, refuses doubles, and finds each hop's port. */
int hk_routes_finish(struct hk_routes *r, struct hk_error *err);

/* A table in MRT (RFC 6396, TABLE_DUMP_V2): each prefix by its first entry's next hop, or by @hop unless it is
 * UINT32_MAX. @name is for errors. */
int hk_routes_mrt(struct hk_routes *r, const uint8_t *data, size_t len, const char *name,
		  uint32_t hop, struct hk_error *err);

/* Does a file begin as one? */
bool hk_routes_is_mrt(const uint8_t *data, size_t len);

/* The bytes of a file, at most HK_ROUTE_FILE; the caller frees them. */
int hk_file_read(const char *path, uint8_t **data, size_t *len, struct hk_error *err);

/* Text of an address and, if @depth is not negative, of a prefix; returns @out. */
const char *hk_address_text(unsigned family, const uint8_t *address, int depth,
			    char out[HK_ADDRESS_TEXT]);

/* "10.0.0.0/8": family 4 or 6, or 0 if it is none. Without a slash the depth is -1. */
unsigned hk_prefix_parse(const char *text, uint8_t address[16], int *depth);

/* Are all bits beyond @depth zero? */
bool hk_prefix_clean(const uint8_t *prefix, unsigned family, unsigned depth);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/open.c: hk_rtc_open(): the other nodes' addresses, the backend, this node's address.
 *
 * With a launcher each node publishes its address and its epoch as "EPOCH@ADDRESS". So all nodes
 * are members when hk_rtc_open() returns, and can send at once. With a file they become members
 * while they poll.
 */
#include "rtc/internal.h"
#include "rtc/join.h"
#include "rtc/peers.h"
#include "rtc/backend_choice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct hk_rtc_backend_ops *const backends[] = {
	&hk_rtc_backend_dpdk, &hk_rtc_backend_af_xdp, &hk_rtc_backend_raw,
	&hk_rtc_backend_udp,  &hk_rtc_backend_tcp,
};

static const struct hk_rtc_backend_ops *find_backend(const char *name, struct hk_error *err)
{
	for (size_t i = 0; i < HK_ARRAY_LEN(backends); i++)
		if (strcmp(backends[i]->name, name) == 0)
			return backends[i];
	hk_error_set(err, -EINVAL, "this build has no backend '%.40s'", name);
	return NULL;
}

/* Everything that opening makes, and releases if it fails. */
struct opening {
	struct hk_rtc_config c;
	struct hk_rtc_join *join; /* with a launcher; else NULL */
	struct hk_rtc_peers peers;
	struct hk_rtc_backend_choice choice;
	struct hk_rtc_parts parts;
	uint16_t *epoch; /* [nodes], with a launcher */
	int64_t deadline_ms;
};

static int find_identity(struct opening *o, struct hk_error *err)
{
	struct hk_rtc_config *c = &o->c;

	if (!c->peers_file)
		return hk_rtc_join_begin(c, &o->join, err);
	int rc = hk_rtc_peers_read(c, &o->peers, err);
	c->nodes = o->peers.nodes;
	return rc;
}

static int exchange_addresses(struct opening *o, struct hk_error *err)
{
	unsigned nodes = o->c.nodes;
	char own[HK_RTC_ADDRESS_MAX];

	o->epoch = calloc(nodes, sizeof(*o->epoch));
	o->peers.nodes = (uint16_t)nodes;
	o->peers.address = calloc(nodes, sizeof(*o->peers.address));
	if (!o->epoch || !o->peers.address)
		return hk_error_set(err, -ENOMEM, "no memory for %u addresses", nodes);
	int n = snprintf(own, sizeof(own), "%u@%s", o->parts.epoch, o->parts.backend->address);
	if ((size_t)n >= sizeof(own))
		return hk_error_set(err, -ENAMETOOLONG,
				    "the address %s has more than %zu characters; fix: use a "
				    "shorter path or name",
				    o->parts.backend->address, sizeof(own) - 7);
	int rc = hk_rtc_join_exchange(o->join, own, o->peers.address, o->deadline_ms, err);
	for (unsigned i = 0; rc == 0 && i < nodes; i++) {
		char *end, *a = o->peers.address[i];
		unsigned long epoch = strtoul(a, &end, 10);
		if (*end != '@' || epoch == 0 || epoch > UINT16_MAX)
			return hk_error_set(err, -EPROTO,
					    "node %u reports '%s', which is not an address; fix: "
					    "run the same version on all nodes",
					    i, a);
		o->epoch[i] = (uint16_t)epoch;
		memmove(a, end + 1, strlen(end + 1) + 1);
	}
	return rc;
}

/* Two nodes with the same number cannot both be at the address in the file. */
static int check_own_address(const struct opening *o, struct hk_error *err)
{
	const char *listed = o->peers.address[o->c.node], *own = o->parts.backend->address;
	if (strcmp(listed, own) == 0)
		return 0;
	return hk_error_set(err, -EADDRNOTAVAIL,
			    "%s says that node %u is at %s, but this node is at %s; fix: correct "
			    "the line, or start this node with its own number",
			    o->c.peers_file, o->c.node, listed, own);
}

static int open_backend(struct opening *o, struct hk_error *err)
{
	struct hk_rtc_config *c = &o->c;
	const char *own = c->peers_file ? o->peers.address[c->node] : NULL;
	unsigned local = o->join ? hk_rtc_join_local_rank(o->join) : c->node;

	int rc = hk_rtc_backend_choose(c, local, own, &o->choice, err);
	if (rc)
		return rc;
	o->parts.ops = find_backend(o->choice.name, err);
	return o->parts.ops ? o->parts.ops->open(c, o->choice.option, &o->parts.backend, err)
			    : -EINVAL;
}

static int find_peers(struct opening *o, struct hk_error *err)
{
	const struct hk_rtc_backend_ops *ops = o->parts.ops;
	struct hk_rtc_backend *b = o->parts.backend;
	int rc = o->join ? exchange_addresses(o, err) : check_own_address(o, err);

	for (uint16_t i = 0; rc == 0 && i < o->c.nodes; i++)
		if (i != o->c.node)
			rc = ops->peer(b, i, o->peers.address[i], err);
	if (rc == 0 && ops->connect) {
		rc = ops->connect(b, o->deadline_ms, err);
		/* A node that polls already would keep the others from their connections, if they
		 * share its core. */
		if (rc == 0 && o->join)
			rc = hk_rtc_join_fence(o->join, o->deadline_ms, err);
	}
	return rc;
}

/* Node 0 says once by which backend the job talks. */
static void announce(const struct opening *o)
{
	const char *wanted = getenv("HIKYAKU_RTC_ANNOUNCE");

	if (o->c.node == 0 && o->c.nodes > 1 && !(wanted && strcmp(wanted, "0") == 0))
		fprintf(stderr, "hikyaku: %u nodes, backend %s, address %s\n", o->c.nodes,
			o->c.backend, o->choice.address);
}

int hk_rtc_open(const struct hk_rtc_config *cfg, struct hk_rtc **rtc, struct hk_error *err)
{
	struct opening o = {.c = *cfg};
	unsigned timeout = cfg->timeout_ms ? cfg->timeout_ms : HK_RTC_TIMEOUT_MS;

	*rtc = NULL;
	o.deadline_ms = (int64_t)(hk_clock_ns() / HK_MSEC) + timeout;
	hk_rtc_clock_begin(&o.parts.clock);
	int rc = find_identity(&o, err);
	if (rc == 0)
		rc = hk_rtc_check_config(&o.c, err);
	if (rc == 0) {
		o.parts.epoch = hk_rtc_epoch_now();
		rc = open_backend(&o, err);
	}
	if (rc == 0) {
		rc = find_peers(&o, err);
		if (rc)
			o.parts.ops->close(o.parts.backend);
	}
	if (rc == 0) {
		hk_rtc_clock_end(&o.parts.clock);
		o.parts.peer_epoch = o.epoch;
		rc = hk_rtc_create(&o.c, &o.parts, rtc, err);
		if (rc == 0)
			announce(&o);
	}
	hk_rtc_join_end(o.join);
	hk_rtc_peers_free(&o.peers);
	free(o.epoch);
	return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/open.c: what users call to open a node: who the others are, which backend, where.
 *
 * With a launcher, each node tells the others its address and its incarnation, as "EPOCH@ADDRESS", so all are
 * members when hk_rtc_open() returns, and messages can be sent at once. With a file they meet when they poll.
 */
#include "rtc/internal.h"
#include "rtc/join.h"
#include "rtc/peers.h"
#include "rtc/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct hk_rtc_backend_ops *const backends[] = {
	&hk_rtc_dpdk, &hk_rtc_af_xdp, &hk_rtc_raw, &hk_rtc_udp, &hk_rtc_tcp,
};

static const struct hk_rtc_backend_ops *find_backend(const char *name, struct hk_error *err)
{
	char names[128] = "";

	for (size_t i = 0; i < HK_ARRAY_LEN(backends); i++) {
		if (strcmp(backends[i]->name, name) == 0)
			return backends[i];
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
			 i ? ", " : "", backends[i]->name);
	}
	hk_error_set(err, -EINVAL, "no backend is called '%.40s'; fix: take one of %s", name,
		     names);
	return NULL;
}

/* All that opening makes, and gives back if it fails. */
struct opening {
	struct hk_rtc_config c;
	struct hk_rtc_join *join; /* one of the two */
	struct hk_rtc_peers peers;
	struct hk_rtc_place place;
	struct hk_rtc_parts parts;
	uint16_t *epoch; /* [nodes], with a launcher */
	int64_t deadline_ms;
};

static int who_are_we(struct opening *o, struct hk_error *err)
{
	struct hk_rtc_config *c = &o->c;

	if (!c->peers_file)
		return hk_rtc_join_begin(c, &o->join, err);
	int rc = hk_rtc_peers_read(c, &o->peers, err);
	c->nodes = o->peers.nodes;
	return rc;
}

static int exchange(struct opening *o, struct hk_error *err)
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
					    "node %u says that it is at '%s', which is no address; "
					    "fix: let all nodes run the same version",
					    i, a);
		o->epoch[i] = (uint16_t)epoch;
		memmove(a, end + 1, strlen(end + 1) + 1);
	}
	return rc;
}

/* Two nodes with one number cannot both be where the file says. */
static int check_own_address(const struct opening *o, struct hk_error *err)
{
	const char *listed = o->peers.address[o->c.node], *own = o->parts.backend->address;
	if (strcmp(listed, own) == 0)
		return 0;
	return hk_error_set(err, -EADDRNOTAVAIL,
			    "%s says that node %u is at %s, and this one is at %s; fix: correct "
			    "the line, or start this node with its own number",
			    o->c.peers_file, o->c.node, listed, own);
}

static int open_backend(struct opening *o, struct hk_error *err)
{
	struct hk_rtc_config *c = &o->c;
	const char *own = c->peers_file ? o->peers.address[c->node] : NULL;
	unsigned local = o->join ? hk_rtc_join_local_rank(o->join) : c->node;

	int rc = hk_rtc_place(c, local, own, &o->place, err);
	if (rc)
		return rc;
	o->parts.ops = find_backend(o->place.name, err);
	return o->parts.ops ? o->parts.ops->open(c, o->place.option, &o->parts.backend, err)
			    : -EINVAL;
}

static int find_peers(struct opening *o, struct hk_error *err)
{
	const struct hk_rtc_backend_ops *ops = o->parts.ops;
	struct hk_rtc_backend *b = o->parts.backend;
	int rc = o->join ? exchange(o, err) : check_own_address(o, err);

	for (uint16_t i = 0; rc == 0 && i < o->c.nodes; i++)
		if (i != o->c.node)
			rc = ops->peer(b, i, o->peers.address[i], err);
	return rc == 0 && ops->connect ? ops->connect(b, o->deadline_ms, err) : rc;
}

int hk_rtc_open(const struct hk_rtc_config *cfg, struct hk_rtc **rtc, struct hk_error *err)
{
	struct opening o = {.c = *cfg};
	unsigned timeout = cfg->timeout_ms ? cfg->timeout_ms : HK_RTC_TIMEOUT_MS;

	*rtc = NULL;
	o.deadline_ms = (int64_t)(hk_clock_monotonic() / HK_MSEC) + timeout;
	hk_clock_begin(&o.parts.clock);
	int rc = who_are_we(&o, err);
	if (rc == 0)
		rc = hk_rtc_check(&o.c, err);
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
		hk_clock_end(&o.parts.clock);
		o.parts.peer_epoch = o.epoch;
		rc = hk_rtc_make(&o.c, &o.parts, rtc, err);
	}
	hk_rtc_join_end(o.join);
	hk_rtc_peers_free(&o.peers);
	free(o.epoch);
	return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/open.c: hk_rtc_open(): the other nodes' addresses, the backend, this node's address.
 *
 * With a launcher each node publishes its epoch, its public key if messages are protected, and its
 * address: "EPOCH@ADDRESS" or "EPOCH+KEY@ADDRESS". So all nodes are members when hk_rtc_open()
 * returns, and can send at once. With a file they become members while they poll.
 */
#include "rtc/internal.h"
#include "rtc/join.h"
#include "rtc/keys.h"
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
	bool no_secret;  /* the reason for protection off */
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

/* ---- with a launcher: what nodes publish ----------------------------------------------------- */

static const char *const protection_name[] = {
	[HK_RTC_PROTECTION_AUTO] = "auto",
	[HK_RTC_PROTECTION_OFF] = "off",
	[HK_RTC_PROTECTION_AUTH] = "auth",
	[HK_RTC_PROTECTION_SEAL] = "seal",
};

/* The character before a public key says what the key is for. */
static const char key_mark[] = {
	[HK_RTC_PROTECTION_AUTH] = '+',
	[HK_RTC_PROTECTION_SEAL] = '*',
};

static enum hk_rtc_protection protection_of(const char *mark)
{
	for (unsigned i = HK_RTC_PROTECTION_AUTH; i < HK_ARRAY_LEN(key_mark); i++)
		if (*mark == key_mark[i])
			return (enum hk_rtc_protection)i;
	return HK_RTC_PROTECTION_OFF;
}

static int write_entry(const struct opening *o, char entry[HK_RTC_ENTRY_MAX], struct hk_error *err)
{
	char key[2 * HK_AGREE_LEN + 2] = "";

	if (o->parts.protect) {
		const uint8_t *public = hk_rtc_keys_public(o->parts.protect);
		key[0] = key_mark[o->c.protection];
		for (unsigned i = 0; i < HK_AGREE_LEN; i++)
			snprintf(key + 1 + 2 * i, 3, "%02x", public[i]);
	}
	int n = snprintf(entry, HK_RTC_ENTRY_MAX, "%u%s@%s", o->parts.epoch, key,
			 o->parts.backend->address);
	if (n < HK_RTC_ENTRY_MAX)
		return 0;
	return hk_error_set(err, -ENAMETOOLONG,
			    "the address %s is too long; fix: use a shorter path or name",
			    o->parts.backend->address);
}

/* Reads the key at @text; returns what follows it, or NULL. */
static const char *read_key(const char *text, uint8_t public[HK_AGREE_LEN])
{
	for (unsigned i = 0; i < HK_AGREE_LEN; i++, text += 2)
		if (strspn(text, "0123456789abcdef") < 2 || sscanf(text, "%2hhx", &public[i]) != 1)
			return NULL;
	return text;
}

static int read_entry(struct opening *o, uint16_t node, const char *entry, struct hk_error *err)
{
	uint8_t public[HK_AGREE_LEN];
	char *end;
	unsigned long epoch = strtoul(entry, &end, 10);
	const char *at = end;
	enum hk_rtc_protection its = protection_of(at), ours = o->c.protection;
	bool keyed = its != HK_RTC_PROTECTION_OFF;

	if (keyed)
		at = read_key(at + 1, public);
	if (!at || *at != '@' || epoch == 0 || epoch > UINT16_MAX ||
	    strlen(at + 1) >= HK_RTC_ADDRESS_MAX)
		return hk_error_set(err, -EPROTO,
				    "node %u reports '%s', which is not an address; fix: run the "
				    "same version on all nodes",
				    node, entry);
	if (its != ours)
		return hk_error_set(err, -EPROTO,
				    "node %u has protection %s, and this node %s; fix: set "
				    "HIKYAKU_RTC_PROTECTION to the same for all nodes",
				    node, protection_name[its], protection_name[ours]);
	o->epoch[node] = (uint16_t)epoch;
	strcpy(o->peers.address[node], at + 1);
	return keyed && node != o->c.node ? hk_rtc_keys_peer(o->parts.protect, node, public, err)
					  : 0;
}

static int exchange_addresses(struct opening *o, struct hk_error *err)
{
	unsigned nodes = o->c.nodes;
	char own[HK_RTC_ENTRY_MAX];
	char(*entry)[HK_RTC_ENTRY_MAX] = calloc(nodes, sizeof(*entry));

	o->epoch = calloc(nodes, sizeof(*o->epoch));
	o->peers.nodes = (uint16_t)nodes;
	o->peers.address = calloc(nodes, sizeof(*o->peers.address));
	int rc = o->epoch && o->peers.address && entry
			 ? write_entry(o, own, err)
			 : hk_error_set(err, -ENOMEM, "no memory for %u addresses", nodes);
	if (rc == 0)
		rc = hk_rtc_join_exchange(o->join, own, entry, o->deadline_ms, err);
	for (unsigned i = 0; rc == 0 && i < nodes; i++)
		rc = read_entry(o, (uint16_t)i, entry[i], err);
	free(entry);
	return rc;
}

/* ---- with a file ----------------------------------------------------------------------------- */

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

/* ---- backend and protection ------------------------------------------------------------------ */

static int read_protection(enum hk_rtc_protection *protection, struct hk_error *err)
{
	const char *wanted = getenv("HIKYAKU_RTC_PROTECTION");

	if (*protection != HK_RTC_PROTECTION_AUTO || !wanted || !*wanted)
		return 0;
	for (unsigned i = 0; i < HK_ARRAY_LEN(protection_name); i++)
		if (strcmp(wanted, protection_name[i]) == 0) {
			*protection = (enum hk_rtc_protection)i;
			return 0;
		}
	return hk_error_set(err, -EINVAL,
			    "HIKYAKU_RTC_PROTECTION is '%.40s'; fix: use auto, off, auth or seal",
			    wanted);
}

/* Chooses the protection, and makes what it needs. Both ends of a wire are memory of one user. */
static int open_protection(struct opening *o, struct hk_error *err)
{
	struct hk_rtc_config *c = &o->c;
	const char *file = c->secret_file ? c->secret_file : getenv("HIKYAKU_RTC_SECRET");
	bool wire = strncmp(c->address, "memif:", strlen("memif:")) == 0;
	uint8_t secret[HK_AGREE_LEN];
	int rc = read_protection(&c->protection, err);

	if (file && !*file)
		file = NULL;
	if (rc == 0 && c->protection == HK_RTC_PROTECTION_AUTO) {
		bool keys = file || (o->join && !wire);
		c->protection = keys ? HK_RTC_PROTECTION_AUTH : HK_RTC_PROTECTION_OFF;
		o->no_secret = !keys && !wire;
	}
	if (rc || c->protection == HK_RTC_PROTECTION_OFF)
		return rc;
	if ((unsigned)c->protection >= HK_ARRAY_LEN(protection_name))
		return hk_error_set(err, -EINVAL,
				    "protection %d does not exist; fix: use one of enum "
				    "hk_rtc_protection",
				    (int)c->protection);
	if (!file && !o->join)
		return hk_error_set(err, -EINVAL,
				    "protection %s needs the job's secret, since no launcher has "
				    "started the nodes; fix: (umask 077; openssl rand -hex 32 "
				    ">job.secret), copy the file to all nodes, and give its path "
				    "by HIKYAKU_RTC_SECRET",
				    protection_name[c->protection]);
	if (file)
		rc = hk_rtc_secret_read(file, secret, err);
	const struct hk_rtc_keys_config keys = {
		.node = c->node,
		.nodes = c->nodes,
		.key = c->key,
		.secret = file ? secret : NULL,
		.launcher = o->join != NULL,
		.seal = c->protection == HK_RTC_PROTECTION_SEAL,
	};
	if (rc == 0)
		rc = hk_rtc_keys_open(&keys, &o->parts.protect, err);
	explicit_bzero(secret, sizeof(secret));
	return rc;
}

static int open_backend(struct opening *o, struct hk_error *err)
{
	struct hk_rtc_config *c = &o->c;
	const char *own = c->peers_file ? o->peers.address[c->node] : NULL;
	unsigned local = o->join ? hk_rtc_join_local_rank(o->join) : c->node;

	int rc = hk_rtc_backend_choose(c, local, own, &o->choice, err);
	if (rc == 0)
		rc = open_protection(o, err);
	if (rc)
		return rc;
	o->parts.ops = find_backend(o->choice.name, err);
	rc = o->parts.ops ? o->parts.ops->open(c, o->choice.option, &o->parts.backend, err)
			  : -EINVAL;
	if (rc == 0)
		o->parts.backend->protect = o->parts.protect;
	return rc;
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

/* Node 0 says once by which backend the job talks, and what a job without protection lacks. */
static void announce(const struct opening *o)
{
	const char *wanted = getenv("HIKYAKU_RTC_ANNOUNCE");

	if (o->c.node == 0 && o->c.nodes > 1 && !(wanted && strcmp(wanted, "0") == 0))
		fprintf(stderr, "hikyaku: %u nodes, backend %s, address %s, protection %s%s\n",
			o->c.nodes, o->c.backend, o->choice.address,
			protection_name[o->c.protection],
			o->no_secret ? ": there is no secret (HIKYAKU_RTC_SECRET; docs/rtc.md)"
				     : "");
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
	if (rc && o.parts.protect)
		o.parts.protect->close(o.parts.protect);
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

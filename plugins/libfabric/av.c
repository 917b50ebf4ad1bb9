/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/av.c: address vectors. An address is an index, for FI_AV_TABLE and FI_AV_MAP.
 *
 * The peer of a removed address stays the worker's, because it must still answer late frames.
 */
#include "libfabric/provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int close_av(struct fid *fid)
{
	struct hk_fi_av *av = container_of(fid, struct hk_fi_av, fid.fid);

	if (av->users)
		return -FI_EBUSY;
	free(av->address);
	free(av->by_peer);
	return hk_fi_object_close(av->domain, av);
}

/* The place that holds the first address of @peer; NULL: no memory. */
static uint32_t *first_of(struct hk_fi_av *av, uint32_t peer)
{
	uint32_t *grown = hk_fi_grow(av->by_peer, &av->peers, peer, sizeof(*grown), 0xff);

	if (!grown)
		return NULL;
	av->by_peer = grown;
	return &grown[peer];
}

static int insert_one(struct hk_fi_av *av, const struct hk_fi_name *name)
{
	uint32_t peer = HK_FI_NO_PEER, *first, at = av->count;
	struct hk_fi_address *grown = hk_fi_grow(av->address, &av->room, at, sizeof(*grown), 0);
	int rc = hk_fi_peer_find(av->domain, name, &peer);

	if (grown)
		av->address = grown;
	first = rc ? NULL : first_of(av, peer);
	if (!first || !grown)
		return rc ? rc : -FI_ENOMEM;
	av->address[at] = (struct hk_fi_address){
		.peer = peer, .number = name->number, .next = *first, .name = *name};
	*first = at;
	av->count++;
	return 0;
}

static int insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *out,
		  uint64_t flags, void *context)
{
	struct hk_fi_av *av = container_of(fid, struct hk_fi_av, fid);
	int *errors = flags & FI_SYNC_ERR ? context : NULL, done = 0;

	hk_fi_lock(av->domain);
	for (size_t i = 0; i < count; i++) {
		struct hk_fi_name name;

		memcpy(&name, (const char *)addr + i * sizeof(name), sizeof(name));
		int rc = insert_one(av, &name);

		done += rc == 0;
		if (out)
			out[i] = rc ? FI_ADDR_NOTAVAIL : av->count - 1;
		if (errors)
			errors[i] = -rc;
	}
	hk_fi_unlock(av->domain);
	return done;
}

static int remove_addresses(struct fid_av *fid, fi_addr_t *at, size_t count, uint64_t flags)
{
	struct hk_fi_av *av = container_of(fid, struct hk_fi_av, fid);
	int rc = 0;

	(void)flags;
	hk_fi_lock(av->domain);
	for (size_t i = 0; i < count; i++) {
		if (!hk_fi_find(av, at[i])) {
			rc = -FI_EINVAL;
			continue;
		}
		uint32_t *link = first_of(av, av->address[at[i]].peer);

		while (*link != at[i])
			link = &av->address[*link].next;
		*link = av->address[at[i]].next;
		av->address[at[i]].peer = HK_FI_NO_PEER;
	}
	hk_fi_unlock(av->domain);
	return rc;
}

static int lookup(struct fid_av *fid, fi_addr_t at, void *addr, size_t *len)
{
	struct hk_fi_av *av = container_of(fid, struct hk_fi_av, fid);
	const struct hk_fi_address *a;

	hk_fi_lock(av->domain);
	a = hk_fi_find(av, at);
	if (a)
		memcpy(addr, &a->name, HK_MIN(*len, sizeof(a->name)));
	hk_fi_unlock(av->domain);
	*len = sizeof(struct hk_fi_name);
	return a ? 0 : -FI_EINVAL;
}

static const char *text_of(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	const struct hk_fi_name *name = addr;

	(void)fid;
	int n = snprintf(buf, *len, "hikyaku://%08x/%u", name->endpoint, name->number);

	*len = (size_t)n + 1;
	return buf;
}

fi_addr_t hk_fi_av_reverse(const struct hk_fi_av *av, uint32_t source)
{
	uint32_t peer = source >> 8;
	uint32_t at = av && peer < av->peers ? av->by_peer[peer] : UINT32_MAX;

	while (at != UINT32_MAX && av->address[at].number != (uint8_t)source)
		at = av->address[at].next;
	return at == UINT32_MAX ? FI_ADDR_NOTAVAIL : at;
}

static struct fi_ops fid_ops = HK_FI_FID_OPS(close_av, hk_fi_no_bind, hk_fi_no_control);

static struct fi_ops_av ops = {
	.size = sizeof(ops),
	.insert = insert,
	.insertsvc = hk_fi_no_service,
	.insertsym = hk_fi_no_symmetric,
	.remove = remove_addresses,
	.lookup = lookup,
	.straddr = text_of,
};

int hk_fi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **fid,
		  void *context)
{
	struct hk_fi_domain *d = container_of(domain, struct hk_fi_domain, fid);
	struct hk_fi_av *av;

	if (attr->name) /* to share it between processes */
		return -FI_ENOSYS;
	if (attr->rx_ctx_bits || attr->flags)
		return -FI_EINVAL;
	av = hk_fi_object_open(d, sizeof(*av), FI_CLASS_AV, &fid_ops, context);
	if (!av)
		return -FI_ENOMEM;
	if (attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	av->domain = d;
	av->fid.ops = &ops;
	*fid = &av->fid;
	return 0;
}

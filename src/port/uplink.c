/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/uplink.c: whether the default route of this node uses an interface.
 *
 * Frames of an AF_XDP port's queue go to the port and not to the kernel. So a port on the interface
 * of the default route would cut off ssh and mpirun. The route may also use a bridge, a bond or a
 * VLAN on top of the interface. So the code also finds out which links lie on which others.
 */
#include "port/internal.h"
#include "base/netlink.h"

#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MAX_ROUTES 64
#define MAX_DEPTH  8 /* for example a VLAN on a bond on a macvlan */

struct link {
	unsigned index, master, below; /* interface numbers; 0: none */
};

struct routes {
	unsigned out[MAX_ROUTES], count; /* interfaces of default routes; further ones ignored */
};

struct links {
	struct link *link;
	size_t count, capacity;
	bool no_memory;
};

static void add_route(struct routes *r, unsigned ifindex)
{
	if (ifindex && r->count < MAX_ROUTES)
		r->out[r->count++] = ifindex;
}

static void on_route(const struct nlmsghdr *h, void *ctx)
{
	const struct rtmsg *m = NLMSG_DATA(h);
	int len = (int)h->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*m));

	if (h->nlmsg_type != RTM_NEWROUTE || len < 0 || m->rtm_dst_len ||
	    m->rtm_type != RTN_UNICAST)
		return;
	add_route(ctx, hk_netlink_u32(hk_netlink_attr(RTM_RTA(m), len, RTA_OIF)));
	const struct rtattr *multi = hk_netlink_attr(RTM_RTA(m), len, RTA_MULTIPATH);
	int left = multi ? (int)RTA_PAYLOAD(multi) : 0;
	const struct rtnexthop *hop = multi ? RTA_DATA(multi) : NULL;
	while (left >= (int)sizeof(*hop) && RTNH_OK(hop, left)) {
		add_route(ctx, (unsigned)hop->rtnh_ifindex);
		left -= (int)NLMSG_ALIGN(hop->rtnh_len);
		hop = RTNH_NEXT(hop);
	}
}

/* Returns whether a link of this kind sends by the link in its IFLA_LINK. That of a veth names its
 * peer instead. */
static bool sends_by_link(const struct rtattr *info)
{
	static const char *const kinds[] = {"vlan", "macvlan", "macvtap", "ipvlan", "macsec"};
	const struct rtattr *kind = info ? hk_netlink_attr(RTA_DATA(info), (int)RTA_PAYLOAD(info),
							   IFLA_INFO_KIND)
					 : NULL;

	for (size_t i = 0; kind && i < HK_ARRAY_LEN(kinds); i++)
		if (strncmp(RTA_DATA(kind), kinds[i], RTA_PAYLOAD(kind)) == 0)
			return true;
	return false;
}

static void on_link(const struct nlmsghdr *h, void *ctx)
{
	struct links *all = ctx;
	const struct ifinfomsg *m = NLMSG_DATA(h);
	int len = (int)h->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*m));

	if (h->nlmsg_type != RTM_NEWLINK || len < 0 || all->no_memory)
		return;
	if (all->count == all->capacity) {
		size_t capacity = all->capacity ? 2 * all->capacity : 64;
		struct link *more = realloc(all->link, capacity * sizeof(*more));
		all->no_memory = !more;
		if (!more)
			return;
		all->link = more;
		all->capacity = capacity;
	}
	const struct rtattr *a = IFLA_RTA(m);
	struct link *l = &all->link[all->count++];
	*l = (struct link){.index = (unsigned)m->ifi_index,
			   .master = hk_netlink_u32(hk_netlink_attr(a, len, IFLA_MASTER))};
	if (sends_by_link(hk_netlink_attr(a, len, IFLA_LINKINFO)) &&
	    !hk_netlink_attr(a, len, IFLA_LINK_NETNSID)) /* the link is in this namespace */
		l->below = hk_netlink_u32(hk_netlink_attr(a, len, IFLA_LINK));
}

/* Returns whether frames that leave by @from leave by @iface. */
static bool leads_to(const struct links *all, unsigned from, unsigned iface, unsigned depth)
{
	if (from == iface)
		return true;
	for (size_t i = 0; depth < MAX_DEPTH && i < all->count; i++) {
		const struct link *l = &all->link[i];
		unsigned next = l->master == from ? l->index : l->index == from ? l->below : 0;
		if (next && leads_to(all, next, iface, depth + 1))
			return true;
	}
	return false;
}

int hk_netdev_uplink(const char *spec, const char *name, char by[IF_NAMESIZE], struct hk_error *err)
{
	unsigned iface = if_nametoindex(name);
	struct routes routes = {.count = 0};
	struct links links = {.count = 0};
	bool found = false;

	int rc = hk_netlink_dump(RTM_GETROUTE, AF_INET, on_route, &routes);
	int rc6 = hk_netlink_dump(RTM_GETROUTE, AF_INET6, on_route, &routes);
	if (rc == 0 && rc6 != -EOPNOTSUPP && rc6 != -EAFNOSUPPORT) /* no IPv6 in this kernel */
		rc = rc6;
	if (rc == 0 && routes.count)
		rc = hk_netlink_dump(RTM_GETLINK, AF_UNSPEC, on_link, &links);
	if (rc == 0 && links.no_memory)
		rc = -ENOMEM;
	for (unsigned i = 0; rc == 0 && i < routes.count && !found; i++) {
		found = leads_to(&links, routes.out[i], iface, 0);
		if (found && !if_indextoname(routes.out[i], by))
			snprintf(by, IF_NAMESIZE, "%s", name); /* the interface has just vanished */
	}
	free(links.link);
	if (rc)
		return hk_error_set(err, rc, "port %s: cannot read the kernel's routes: %s", spec,
				    strerror(-rc));
	return found;
}

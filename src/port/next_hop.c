/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/next_hop.c: see port/next_hop.h.
 */
#include "port/next_hop.h"
#include "base/common.h"
#include "base/netlink.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <linux/neighbour.h>

/* In these states the kernel sends to the address that it has. */
#define USABLE (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT)

/* A request with space for its attributes. */
struct request {
	struct nlmsghdr head;
	union {
		struct rtmsg route;
		struct ndmsg neighbour;
		uint8_t bytes[96];
	};
};

/* An answer, which the kernel gives in one piece. */
union reply {
	struct nlmsghdr head;
	uint8_t bytes[2048];
};

/* Sends @q. The answer must be a message of @type with @fixed bytes before its attributes. */
static int request(const struct request *q, unsigned short type, size_t fixed, union reply *reply)
{
	ssize_t n = hk_netlink_request(&q->head, reply, sizeof(*reply));

	if (n < 0)
		return (int)n;
	bool right = (size_t)n >= NLMSG_LENGTH(fixed) && reply->head.nlmsg_type == type &&
		     reply->head.nlmsg_len >= NLMSG_LENGTH(fixed) &&
		     reply->head.nlmsg_len <= (size_t)n;

	return right ? 0 : -EPROTO;
}

static const struct rtattr *attribute(const union reply *reply, size_t fixed, unsigned short type)
{
	const uint8_t *at = reply->bytes + NLMSG_LENGTH(NLMSG_ALIGN(fixed));
	int len = (int)reply->head.nlmsg_len - (int)NLMSG_LENGTH(NLMSG_ALIGN(fixed));

	return hk_netlink_attr((const struct rtattr *)(const void *)at, len, type);
}

/* Reads an attribute of @len bytes. */
static bool copy(const struct rtattr *a, void *to, size_t len)
{
	if (!a || RTA_PAYLOAD(a) != len)
		return false;
	memcpy(to, RTA_DATA(a), len);
	return true;
}

/* Finds the neighbour on the way: a router, or @to itself. */
static int find_route(const union hk_inet_addr *from, const union hk_inet_addr *to,
		      unsigned ifindex, union hk_inet_addr *neighbour, unsigned *mtu)
{
	unsigned len;
	const void *address = hk_inet_bytes(&to->any, &len);
	struct request q = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(q.route)),
				     .nlmsg_type = RTM_GETROUTE,
				     .nlmsg_flags = NLM_F_REQUEST},
			    .route = {.rtm_family = (uint8_t)to->any.sa_family,
				      .rtm_src_len = (uint8_t)(8 * len),
				      .rtm_dst_len = (uint8_t)(8 * len)}};
	struct rtmsg route;
	union reply reply;

	hk_netlink_add(&q.head, RTA_DST, address, len);
	hk_netlink_add(&q.head, RTA_SRC, hk_inet_bytes(&from->any, &len), len);
	int rc = request(&q, RTM_NEWROUTE, sizeof(route), &reply);

	if (rc)
		return rc;
	memcpy(&route, NLMSG_DATA(&reply.head), sizeof(route));
	if (route.rtm_type != RTN_UNICAST ||
	    hk_netlink_u32(attribute(&reply, sizeof(route), RTA_OIF)) != ifindex ||
	    attribute(&reply, sizeof(route), RTA_VIA) ||
	    attribute(&reply, sizeof(route), RTA_ENCAP))
		return -ENETUNREACH;
	*neighbour = *to;
	const struct rtattr *router = attribute(&reply, sizeof(route), RTA_GATEWAY);

	if (router && !copy(router, (void *)(uintptr_t)hk_inet_bytes(&neighbour->any, &len), len))
		return -ENETUNREACH;
	const struct rtattr *metrics = attribute(&reply, sizeof(route), RTA_METRICS);
	uint32_t known = metrics ? hk_netlink_u32(hk_netlink_attr(
					   RTA_DATA(metrics), (int)RTA_PAYLOAD(metrics), RTAX_MTU))
				 : 0;

	if (known)
		*mtu = HK_MIN(*mtu, known);
	return 0;
}

static int find_neighbour(const union hk_inet_addr *at, unsigned ifindex, uint8_t mac[6])
{
	struct request q = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(q.neighbour)),
				     .nlmsg_type = RTM_GETNEIGH,
				     .nlmsg_flags = NLM_F_REQUEST},
			    .neighbour = {.ndm_family = (uint8_t)at->any.sa_family,
					  .ndm_ifindex = (int)ifindex}};
	struct ndmsg neighbour;
	union reply reply;
	unsigned len;
	const void *address = hk_inet_bytes(&at->any, &len);

	hk_netlink_add(&q.head, NDA_DST, address, len);
	int rc = request(&q, RTM_NEWNEIGH, sizeof(neighbour), &reply);

	if (rc)
		return rc == -ENOENT ? -EAGAIN : rc;
	memcpy(&neighbour, NLMSG_DATA(&reply.head), sizeof(neighbour));
	bool found = (neighbour.ndm_state & USABLE) &&
		     copy(attribute(&reply, sizeof(neighbour), NDA_LLADDR), mac, 6) &&
		     !(mac[0] & 1);

	return found ? 0 : -EAGAIN;
}

int hk_next_hop(const union hk_inet_addr *from, const union hk_inet_addr *to, unsigned ifindex,
		unsigned mtu, struct hk_next_hop *hop)
{
	union hk_inet_addr neighbour;
	int rc = find_route(from, to, ifindex, &neighbour, &mtu);

	hop->mtu = mtu;
	return rc ? rc : find_neighbour(&neighbour, ifindex, hop->mac);
}

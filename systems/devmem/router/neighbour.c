/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/neighbour.c: the kernel's neighbour table, through rtnetlink(7).
 */
#include "devmem/router/kernel.h"
#include "base/netlink.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#define REACHABLE (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP)

/* A request with space for its attributes. */
struct request {
	struct nlmsghdr head;
	union {
		struct ifaddrmsg address;
		struct ndmsg neighbour;
		uint8_t bytes[128];
	};
};

int hk_router_netlink_open(struct hk_router_kernel *k, struct hk_error *err)
{
	const struct sockaddr_nl a = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_NEIGH};

	k->netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (k->netlink >= 0 && bind(k->netlink, (const struct sockaddr *)&a, sizeof(a)) == 0)
		return 0;
	return hk_error_set(err, -errno, "cannot open a netlink socket: %s; fix: run as root",
			    strerror(errno));
}

/* Uses a socket of its own and waits for the answer, which the kernel gives within the call. */
int hk_router_netlink_add_address(struct hk_router_kernel *k, unsigned port,
				  const struct hk_route_address *a, struct hk_error *err)
{
	struct request q = {
		.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(q.address)),
			 .nlmsg_type = RTM_NEWADDR,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK},
		.address = {.ifa_family = a->family == 4 ? AF_INET : AF_INET6,
			    .ifa_prefixlen = a->depth,
			    /* no duplicate address detection: the address is the route file's */
			    .ifa_flags = a->family == 4 ? 0 : IFA_F_NODAD,
			    .ifa_index = k->ifindex[port]}};
	unsigned short len = a->family == 4 ? 4 : 16;
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
		uint8_t bytes[256];
	} answer;
	char text[HK_ADDRESS_TEXT];

	hk_netlink_add(&q.head, IFA_LOCAL, a->address, len);
	hk_netlink_add(&q.head, IFA_ADDRESS, a->address, len);
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), code = 0;
	if (fd < 0 || send(fd, &q, q.head.nlmsg_len, 0) < 0 ||
	    recv(fd, &answer, sizeof(answer), 0) < (ssize_t)sizeof(answer.head) + 4)
		code = errno;
	else if (answer.head.nlmsg_type == NLMSG_ERROR)
		code = -answer.error.error;
	if (fd >= 0)
		close(fd);
	if (code == 0)
		return 0;
	return hk_error_set(err, -code, "--tap: %s%u refuses the address %s: %s; fix: run as root",
			    k->prefix, port, hk_address_text(a->family, a->address, a->depth, text),
			    strerror(code));
}

void hk_router_kernel_resolve(struct hk_router_kernel *k, unsigned family, const uint8_t *address,
			      unsigned port)
{
	struct request q = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(q.neighbour)),
				     .nlmsg_type = RTM_NEWNEIGH,
				     .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE},
			    .neighbour = {.ndm_family = family == 4 ? AF_INET : AF_INET6,
					  .ndm_ifindex = (int)k->ifindex[port],
					  .ndm_state = NUD_NONE,
					  .ndm_flags = NTF_USE}};

	hk_netlink_add(&q.head, NDA_DST, address, family == 4 ? 4 : 16);
	(void)!send(k->netlink, &q, q.head.nlmsg_len,
		    0); /* a lost request is repeated with the next packet */
}

/* Returns the entry of this neighbour. Makes one for an unknown neighbour if there is space, or
 * reuses the entry of a lost one. Unreachable addresses get no entry, because anybody can make the
 * router ask for thousands. */
static struct hk_neighbour *entry(struct hk_router_kernel *k, const struct hk_neighbour *want)
{
	struct hk_neighbour *spare = NULL;

	for (unsigned i = 0; i < k->neighbours; i++) {
		struct hk_neighbour *n = &k->neighbour[i];
		if (n->family == want->family && n->port == want->port &&
		    memcmp(n->address, want->address, 16) == 0)
			return n;
		if (!n->reachable)
			spare = n;
	}
	if (!want->reachable)
		return NULL;
	if (!spare && k->neighbours < HK_KERNEL_NEIGHBOURS)
		spare = &k->neighbour[k->neighbours++];
	if (!spare)
		return NULL;
	*spare = *want;
	spare->reachable = false;
	return spare;
}

static void take(struct hk_router_kernel *k, const struct nlmsghdr *h,
		 void (*learn)(void *arg, const struct hk_neighbour *n), void *arg)
{
	const struct ndmsg *m = NLMSG_DATA(h);
	struct hk_neighbour n = {.port = HK_PORT_NONE};
	bool has_address = false, has_mac = false;

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)) ||
	    (m->ndm_family != AF_INET && m->ndm_family != AF_INET6))
		return;
	n.family = m->ndm_family == AF_INET ? 4 : 6;
	for (unsigned i = 0; i < k->ports; i++)
		if (k->ifindex[i] == (unsigned)m->ndm_ifindex)
			n.port = (uint8_t)i;
	int left = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(*m)));
	const uint8_t *at = (const uint8_t *)m + NLMSG_ALIGN(sizeof(*m));
	for (const struct rtattr *a = (const void *)at; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		unsigned len = n.family == 4 ? 4 : 16;
		if (a->rta_type == NDA_DST && RTA_PAYLOAD(a) == len) {
			memcpy(n.address, RTA_DATA(a), len);
			has_address = true;
		} else if (a->rta_type == NDA_LLADDR && RTA_PAYLOAD(a) == 6) {
			memcpy(n.mac, RTA_DATA(a), 6);
			has_mac = true;
		}
	}
	if (n.port == HK_PORT_NONE || !has_address)
		return;
	n.reachable = h->nlmsg_type == RTM_NEWNEIGH && has_mac && (m->ndm_state & REACHABLE) &&
		      !(n.mac[0] & 1);
	struct hk_neighbour *e = entry(k, &n);
	if (!e || (e->reachable == n.reachable && memcmp(e->mac, n.mac, 6) == 0))
		return;
	*e = n;
	learn(arg, e);
}

void hk_router_netlink_poll(struct hk_router_kernel *k,
			    void (*learn)(void *arg, const struct hk_neighbour *n), void *arg)
{
	_Alignas(struct nlmsghdr) uint8_t bytes[16384];

	for (unsigned i = 0; i < 64; i++) {
		ssize_t got = recv(k->netlink, bytes, sizeof(bytes), 0);
		if (got <= 0)
			return;
		unsigned left = (unsigned)got;
		for (const struct nlmsghdr *h = (const void *)bytes; NLMSG_OK(h, left);
		     h = NLMSG_NEXT(h, left))
			if (h->nlmsg_type == RTM_NEWNEIGH || h->nlmsg_type == RTM_DELNEIGH)
				take(k, h, learn, arg);
	}
}

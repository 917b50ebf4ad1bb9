/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/netlink.c: the part of netlink(7) that is needed here.
 */
#include "base/netlink.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const struct rtattr *hk_netlink_attr(const struct rtattr *a, int len, unsigned short type)
{
	for (; RTA_OK(a, len); a = RTA_NEXT(a, len))
		if ((a->rta_type & NLA_TYPE_MASK) == type)
			return a;
	return NULL;
}

uint32_t hk_netlink_u32(const struct rtattr *a)
{
	uint32_t v = 0;
	if (a && RTA_PAYLOAD(a) >= sizeof(v))
		memcpy(&v, RTA_DATA(a), sizeof(v));
	return v;
}

void hk_netlink_add(struct nlmsghdr *req, unsigned short type, const void *data, unsigned len)
{
	struct rtattr a = {.rta_len = (unsigned short)RTA_LENGTH(len), .rta_type = type};
	char *at = (char *)req + NLMSG_ALIGN(req->nlmsg_len);

	memcpy(at, &a, sizeof(a));
	memcpy(at + RTA_LENGTH(0), data, len);
	req->nlmsg_len = (uint32_t)(NLMSG_ALIGN(req->nlmsg_len) + RTA_LENGTH(len));
}

ssize_t hk_netlink_request(const struct nlmsghdr *req, void *reply, size_t len)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t n = -1;
	if (fd >= 0 && send(fd, req, req->nlmsg_len, 0) == (ssize_t)req->nlmsg_len)
		n = recv(fd, reply, len, 0);
	if (n < 0)
		n = -errno;
	if (fd >= 0)
		close(fd);
	const struct nlmsghdr *h = reply;
	if (n >= (ssize_t)sizeof(*h) && h->nlmsg_type == NLMSG_ERROR) {
		const struct nlmsgerr *e = NLMSG_DATA(h);
		return e->error; /* 0: acknowledged */
	}
	return n;
}

/* Parses one datagram of a dump. Returns 1 if more follow, 0 at the end, or a negative errno. */
static int parse_dump(char *reply, ssize_t n, void (*each)(const struct nlmsghdr *, void *),
		      void *ctx)
{
	const struct nlmsghdr *h = (const struct nlmsghdr *)(const void *)reply;
	size_t left = (size_t)n;

	for (; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
		if (h->nlmsg_type == NLMSG_DONE)
			return 0;
		if (h->nlmsg_type == NLMSG_ERROR) {
			const struct nlmsgerr *e = NLMSG_DATA(h);
			return h->nlmsg_len >= NLMSG_LENGTH(sizeof(*e)) && e->error ? e->error
										    : -EIO;
		}
		each(h, ctx);
	}
	return 1;
}

int hk_netlink_dump(unsigned short type, unsigned char family,
		    void (*each)(const struct nlmsghdr *h, void *ctx), void *ctx)
{
	/* Requests for links and for routes both have a family in the first byte. Zeros in the rest
	 * request all objects. */
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
	} req = {{sizeof(req), type, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {.ifi_family = family}};

	return hk_netlink_dump_from(NETLINK_ROUTE, &req.h, each, ctx);
}

int hk_netlink_dump_from(int protocol, const struct nlmsghdr *req,
			 void (*each)(const struct nlmsghdr *h, void *ctx), void *ctx)
{
	char *reply = malloc(HK_NETLINK_REPLY);
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol), rc = 1;

	if (!reply)
		rc = -ENOMEM;
	else if (fd < 0 || send(fd, req, req->nlmsg_len, 0) != (ssize_t)req->nlmsg_len)
		rc = -errno;
	while (rc == 1) { /* the kernel ends each dump with NLMSG_DONE */
		ssize_t n = recv(fd, reply, HK_NETLINK_REPLY, 0);
		rc = n > 0 ? parse_dump(reply, n, each, ctx) : n < 0 ? -errno : -EIO;
	}
	if (fd >= 0)
		close(fd);
	free(reply);
	return rc;
}

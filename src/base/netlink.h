/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/netlink.h: requests to the kernel about this network namespace: its links and routes
 * (rtnetlink(7)), and by hk_netlink_dump_from() all else that netlink(7) has.
 *
 * Threads: any; each request has a socket of its own.
 */
#ifndef HK_BASE_NETLINK_H
#define HK_BASE_NETLINK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#define HK_NETLINK_REPLY 32768 /* buffer size for one datagram of replies, bytes */

/* Finds the attribute @type among the @len bytes from @a; NULL if it is not there. */
const struct rtattr *hk_netlink_attr(const struct rtattr *a, int len, unsigned short type);

/* Returns an attribute's value; 0 for NULL or an attribute that is too short. */
uint32_t hk_netlink_u32(const struct rtattr *a);

/* Adds an attribute to @req, behind which the caller has space for it. */
void hk_netlink_add(struct nlmsghdr *req, unsigned short type, const void *data, unsigned len);

/* Sends @req and reads one reply. Returns its length, 0 for an acknowledgement, or a negative
 * errno. */
ssize_t hk_netlink_request(const struct nlmsghdr *req, void *reply, size_t len);

/* Requests all objects of @type (RTM_GETLINK, RTM_GETROUTE) and @family (such as AF_INET, or
 * AF_UNSPEC for all), and calls @each for every one. Returns 0 or a negative errno. */
int hk_netlink_dump(unsigned short type, unsigned char family,
		    void (*each)(const struct nlmsghdr *h, void *ctx), void *ctx);

/* Sends @req, a request for a dump, to @protocol (such as NETLINK_SOCK_DIAG), and calls @each for
 * every message of the answer. Returns 0 or a negative errno. */
int hk_netlink_dump_from(int protocol, const struct nlmsghdr *req,
			 void (*each)(const struct nlmsghdr *h, void *ctx), void *ctx);

#endif

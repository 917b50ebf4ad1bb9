/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/netlink.h: questions to the kernel about links and routes of this network namespace (rtnetlink(7)).
 */
#ifndef HK_PORT_NETLINK_H
#define HK_PORT_NETLINK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#define HK_NETLINK_REPLY 32768 /* bytes of one datagram of answers */

/* The attribute @type among the @len bytes from @a, or NULL. */
const struct rtattr *hk_netlink_attr(const struct rtattr *a, int len, unsigned short type);

/* Its number; 0 for NULL or one that is too short. */
uint32_t hk_netlink_u32(const struct rtattr *a);

/* Sends @req and reads one answer to @reply. Returns its length, 0 for an acknowledgement, or a negative errno. */
ssize_t hk_netlink_ask(const struct nlmsghdr *req, void *reply, size_t len);

/* Asks for all objects of @type (RTM_GETLINK, RTM_GETROUTE) and calls @each for every one. @family: AF_INET, ... or
 * AF_UNSPEC. Returns 0 or a negative errno. */
int hk_netlink_dump(unsigned short type, unsigned char family,
		    void (*each)(const struct nlmsghdr *h, void *ctx), void *ctx);

#endif

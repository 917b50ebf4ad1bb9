/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/datagrams.h: whose datagrams a UDP socket receives.
 */
#ifndef HK_HELPER_DATAGRAMS_H
#define HK_HELPER_DATAGRAMS_H

#include "helper/xdp.h"

/* Writes the address and port of the UDP socket @fd to @what, which is zeros. -EINVAL: the kernel
 * might give these datagrams to others, too:
 *  - the socket is of another network namespace, where a user can give it any address
 *  - the address is not one of @interface: it is a multicast's, or not even this node's (ip(7),
 *    IP_FREEBIND)
 *  - the kernel has chosen the port, and the user can give it back
 *  - it is bound to another interface */
int hk_datagrams_of(int fd, const char *interface, struct hk_xdp_datagrams *what);

#endif

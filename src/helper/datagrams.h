/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/datagrams.h: whose datagrams a UDP socket receives.
 */
#ifndef HK_HELPER_DATAGRAMS_H
#define HK_HELPER_DATAGRAMS_H

#include "helper/xdp.h"

/* Writes the address and port of the UDP socket @fd to @what, which is zeros. The socket must be of
 * this network namespace: in one of its own, a user can give a socket any address. -EINVAL: it is
 * something else. */
int hk_datagrams_of(int fd, struct hk_xdp_datagrams *what);

#endif

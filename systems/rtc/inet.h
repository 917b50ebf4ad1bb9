/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/inet.h: addresses of the udp and tcp backends. Internal to rtc/.
 *
 * A configuration names an IPv4 address of this machine, or an interface that has one. It may
 * append ":PORT"; otherwise any free port serves. Peers see "IP:PORT".
 */
#ifndef HK_RTC_INET_H
#define HK_RTC_INET_H

#include "base/common.h"
#include "hikyaku/error.h"

#include <netinet/in.h>

struct hk_rtc_inet {
	struct sockaddr_in addr; /* port 0: any */
	char interface[16];      /* interface that has the address */
	unsigned mtu;            /* MTU of the interface in bytes */
};

/* Resolves @text, an address or interface of this machine. */
int hk_rtc_inet_local(const char *text, struct hk_rtc_inet *out, struct hk_error *err);

/* Parses "IP:PORT" of a peer; both parts are needed. -EINVAL: another form. */
int hk_rtc_inet_peer(const char *text, struct sockaddr_in *out, struct hk_error *err);

/* Opens a non-blocking socket of @type (SOCK_DGRAM or SOCK_STREAM) at @here, and sets the port of
 * @here. Returns the descriptor or a negative errno. */
int hk_rtc_inet_bind(struct hk_rtc_inet *here, int type, struct hk_error *err);

void hk_rtc_inet_text(const struct sockaddr_in *at, char *out, size_t size);

#endif

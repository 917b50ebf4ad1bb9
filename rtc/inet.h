/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/inet.h: addresses of the udp and tcp backends. Internal to rtc/.
 *
 * A configuration names an IPv4 address of this machine or an interface that has one, with ":PORT" or
 * without (any free port). What peers are told is "IP:PORT".
 */
#ifndef HK_RTC_INET_H
#define HK_RTC_INET_H

#include "base/common.h"
#include "base/error.h"

#include <netinet/in.h>

struct hk_rtc_inet {
	struct sockaddr_in at; /* port 0: any */
	char interface[16];    /* that has the address */
	unsigned mtu;          /* of the interface */
};

/* The place that @text names on this machine. */
int hk_rtc_inet_here(const char *text, struct hk_rtc_inet *out, struct hk_error *err);

/* "IP:PORT" of a peer, with both. -EINVAL: it is something else. */
int hk_rtc_inet_peer(const char *text, struct sockaddr_in *out, struct hk_error *err);

/* Opens a non-blocking socket of @type (SOCK_DGRAM or SOCK_STREAM) at @here, and completes the port of
 * @here. The descriptor, or a negative errno. */
int hk_rtc_inet_bind(struct hk_rtc_inet *here, int type, struct hk_error *err);

/* Asks for socket buffers of @bytes, more than the system's limit if we may. */
void hk_rtc_inet_buffers(int fd, int bytes);

void hk_rtc_inet_text(const struct sockaddr_in *at, char *out, size_t size);

#endif

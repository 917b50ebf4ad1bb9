/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/inet.c: addresses of the udp and tcp backends.
 */
#include "rtc/inet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Splits "HOST:PORT" or "HOST"; a missing port gives 0. False: another form. */
static bool split(const char *text, char *host, size_t size, uint16_t *port)
{
	const char *colon = strchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : strlen(text);
	unsigned value = 0;

	if (len == 0 || len >= size)
		return false;
	memcpy(host, text, len);
	host[len] = '\0';
	if (colon) {
		size_t digits = strspn(colon + 1, "0123456789");
		if (digits == 0 || digits > 5 || colon[1 + digits])
			return false;
		value = (unsigned)strtoul(colon + 1, NULL, 10);
	}
	*port = (uint16_t)value;
	return value <= UINT16_MAX;
}

static unsigned mtu_of(const char *interface)
{
	struct ifreq request = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned mtu = 0;

	memcpy(request.ifr_name, interface, strnlen(interface, IFNAMSIZ - 1));
	if (fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0)
		mtu = (unsigned)request.ifr_mtu;
	if (fd >= 0)
		close(fd);
	return mtu;
}

/* Appends an interface with its address, such as "lo 127.0.0.1", to @text. */
static void list(char *text, size_t size, const struct ifaddrs *i)
{
	const struct sockaddr_in *at = (const struct sockaddr_in *)i->ifa_addr;
	char ip[INET_ADDRSTRLEN];
	size_t used = strlen(text);

	inet_ntop(AF_INET, &at->sin_addr, ip, sizeof(ip));
	snprintf(text + used, size - used, "%s%s %s", used ? ", " : "", i->ifa_name, ip);
}

int hk_rtc_inet_local(const char *text, struct hk_rtc_inet *out, struct hk_error *err)
{
	char host[64], have[200] = "";
	struct in_addr ip;
	struct ifaddrs *all;
	uint16_t port;

	*out = (struct hk_rtc_inet){.addr.sin_family = AF_INET};
	if (!split(text, host, sizeof(host), &port))
		return hk_error_set(err, -EINVAL,
				    "'%s' is not an address for a socket; fix: write an IPv4 "
				    "address or an interface, and :PORT for a fixed port",
				    text);
	bool by_ip = inet_pton(AF_INET, host, &ip) == 1;
	if (getifaddrs(&all) != 0)
		return hk_error_set(err, -errno,
				    "the addresses of this machine cannot be listed: %s",
				    strerror(errno));
	for (const struct ifaddrs *i = all; i && !out->interface[0]; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
			continue;
		const struct sockaddr_in *at = (const struct sockaddr_in *)i->ifa_addr;
		bool same = by_ip ? at->sin_addr.s_addr == ip.s_addr : !strcmp(host, i->ifa_name);
		if (!same) {
			list(have, sizeof(have), i);
			continue;
		}
		out->addr.sin_addr = at->sin_addr;
		/* an address may have a label, "eth0:1" */
		memcpy(out->interface, i->ifa_name,
		       strnlen(i->ifa_name, sizeof(out->interface) - 1));
		out->interface[strcspn(out->interface, ":")] = '\0';
	}
	freeifaddrs(all);
	if (!out->interface[0])
		return hk_error_set(err, -EADDRNOTAVAIL,
				    by_ip ? "no interface of this machine has the address %s; fix: "
					    "use one of: %s"
					  : "there is no interface '%s' with an IPv4 address; fix: "
					    "use one of: %s",
				    host, have);
	out->addr.sin_port = htons(port);
	out->mtu = mtu_of(out->interface);
	if (out->mtu < 68) /* least MTU of IPv4, RFC 791 */
		return hk_error_set(err, -ENODEV, "the MTU of %s cannot be read", out->interface);
	return 0;
}

int hk_rtc_inet_peer(const char *text, struct sockaddr_in *out, struct hk_error *err)
{
	char host[64];
	uint16_t port;

	*out = (struct sockaddr_in){.sin_family = AF_INET};
	if (!split(text, host, sizeof(host), &port) || port == 0 ||
	    inet_pton(AF_INET, host, &out->sin_addr) != 1 || out->sin_addr.s_addr == INADDR_ANY)
		return hk_error_set(err, -EINVAL,
				    "'%s' is not the address of a node; fix: write IP:PORT, as the "
				    "node prints it",
				    text);
	out->sin_port = htons(port);
	return 0;
}

int hk_rtc_inet_bind(struct hk_rtc_inet *here, int type, struct hk_error *err)
{
	socklen_t len = sizeof(here->addr);
	char text[32];
	int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int one = 1;

	if (fd < 0)
		return hk_error_set(err, -errno, "the kernel provides no socket: %s",
				    strerror(errno));
	/* A node that restarts finds connections of its earlier incarnation on its port. For UDP
	 * this option would let two nodes share a port. */
	if (type == SOCK_STREAM)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&here->addr, len) != 0 ||
	    getsockname(fd, (struct sockaddr *)&here->addr, &len) != 0) {
		int rc = -errno;
		close(fd);
		hk_rtc_inet_text(&here->addr, text, sizeof(text));
		return hk_error_set(err, rc, "%s cannot be opened: %s; fix: %s", text,
				    strerror(-rc),
				    rc == -EADDRINUSE ? "use another port, or none for any free one"
						      : "use another address or port");
	}
	return fd;
}

void hk_rtc_inet_buffers(int fd, int bytes)
{
	/* FORCE exceeds net.core.rmem_max but needs cap_net_admin; without it the limit holds */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

void hk_rtc_inet_text(const struct sockaddr_in *at, char *out, size_t size)
{
	char ip[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &at->sin_addr, ip, sizeof(ip));
	snprintf(out, size, "%s:%u", ip, ntohs(at->sin_port));
}

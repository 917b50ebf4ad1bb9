/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/inet.c: addresses of the udp and tcp backends.
 */
#include "rtc/inet.h"
#include "base/inet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
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

int hk_rtc_inet_local(const char *text, struct hk_rtc_inet *out, struct hk_error *err)
{
	struct hk_inet_local local;
	char host[64];
	uint16_t port;

	if (!split(text, host, sizeof(host), &port))
		return hk_error_set(err, -EINVAL,
				    "'%s' is not an address for a socket; fix: write an IPv4 "
				    "address or an interface, and :PORT for a fixed port",
				    text);
	int rc = hk_inet_local(host, AF_INET, &local, err);

	if (rc)
		return rc;
	*out = (struct hk_rtc_inet){.mtu = local.mtu};
	out->addr = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_addr = local.at.v4.sin_addr, .sin_port = htons(port)};
	memcpy(out->interface, local.interface, sizeof(out->interface));
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

void hk_rtc_inet_text(const struct sockaddr_in *at, char *out, size_t size)
{
	char ip[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &at->sin_addr, ip, sizeof(ip));
	snprintf(out, size, "%s:%u", ip, ntohs(at->sin_port));
}

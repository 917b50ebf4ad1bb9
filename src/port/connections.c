/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/connections.c: whether TCP connections of this node go through an interface.
 *
 * AF_XDP takes the frames of an interface from the kernel, so such connections would stand still.
 * Those of mpirun's daemons do not need the default route: nodes without a gateway have none.
 */
#include "base/inet.h"
#include "port/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define ESTABLISHED 0x01 /* of the column `st` in /proc/net/tcp */

/* Writes an address to @out as the kernel prints it there: words of 32 bits in hexadecimal. */
static void as_hex(const struct sockaddr *a, char out[33])
{
	uint32_t word[4];
	unsigned len;
	const void *bytes = hk_inet_bytes(a, &len);

	memcpy(word, bytes, len);
	for (unsigned i = 0; i < len / 4; i++)
		sprintf(out + (size_t)i * 8, "%08X", word[i]);
}

/* Is a connection of the kernel's table @path open from address @hex to another address? Then @port
 * is its port. One from an address to itself does not leave the node. */
static bool has_connection(const char *path, const char *hex, unsigned *port)
{
	char line[512], local[33], remote[33];
	unsigned state;
	bool found = false;
	FILE *f = fopen(path, "re");

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, " %*u: %32[0-9A-F]:%X %32[0-9A-F]:%*X %X", local, port, remote,
			       &state) == 4 &&
			state == ESTABLISHED && strcmp(local, hex) == 0 && strcmp(remote, hex) != 0;
	if (f)
		fclose(f);
	return found;
}

bool hk_netdev_has_connection(const char *name, char at[HK_CONNECTION_LEN])
{
	struct ifaddrs *all = NULL;
	bool found = false;

	if (getifaddrs(&all) != 0)
		return false;
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		const struct sockaddr *a = i->ifa_addr;
		char hex[33], text[INET6_ADDRSTRLEN] = "";
		unsigned port = 0, len;

		if (!a || strcmp(i->ifa_name, name) != 0 ||
		    (a->sa_family != AF_INET && a->sa_family != AF_INET6))
			continue;
		as_hex(a, hex);
		found = has_connection(a->sa_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6",
				       hex, &port);
		(void)inet_ntop(a->sa_family, hk_inet_bytes(a, &len), text, sizeof(text));
		snprintf(at, HK_CONNECTION_LEN, "%s port %u", text, port);
	}
	freeifaddrs(all);
	return found;
}

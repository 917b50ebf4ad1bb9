/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/net.c: see net.h. */
#include "tests/support/hk_test.h"
#include "tests/support/net.h"

#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>

bool net_own(void)
{
	return unshare(CLONE_NEWNET) == 0;
}

void net_wire(void)
{
	if (!net_own()) {
		printf("skipped: it needs root\n");
		exit(77);
	}
	shell("ip link add nic0 type veth peer name far0");
	shell("ip link set lo up; ip addr add 10.9.9.1/24 dev nic0");
	shell("ip link set nic0 up; ip link set far0 up");
}

void shell(const char *fmt, ...)
{
	char line[256] = "PATH=$PATH:/usr/sbin:/sbin; ";
	size_t at = strlen(line);
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(line + at, sizeof(line) - at, fmt, ap);
	va_end(ap);
	CHECK((size_t)n < sizeof(line) - at);
	int rc = system(line);

	CHECK_MSG(rc == 0, "%s: exit status %d", line + at, rc);
}

int net_packet_socket(const char *name)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(name)};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
	return fd;
}

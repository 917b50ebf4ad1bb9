/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/interfaces.c: see base/interfaces.h.
 */
#include "base/interfaces.h"

#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

void hk_interfaces_ethernet(char *out, size_t len)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct if_nameindex *all = fd < 0 ? NULL : if_nameindex();
	size_t n = 0;

	*out = '\0';
	for (struct if_nameindex *i = all; i && i->if_index && n < len; i++) {
		struct ifreq ifr;
		memset(&ifr, 0, sizeof(ifr));
		strncpy(ifr.ifr_name, i->if_name, sizeof(ifr.ifr_name) - 1);
		if (ioctl(fd, SIOCGIFHWADDR, &ifr) != 0 || ifr.ifr_hwaddr.sa_family != ARPHRD_ETHER)
			continue;
		if (ioctl(fd, SIOCGIFFLAGS, &ifr) != 0 || !(ifr.ifr_flags & IFF_UP))
			continue; /* it reaches nobody */
		n += (size_t)snprintf(out + n, len - n, "%s%s", n ? ", " : "", i->if_name);
	}
	if (all)
		if_freenameindex(all);
	if (fd >= 0)
		close(fd);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/netdev.c: information from the kernel about its network interfaces.
 */
#include "port/internal.h"

#include "base/ethtool.h"
#include "base/interfaces.h"

#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>

int hk_netdev_get(const char *spec, const char *name, struct hk_netdev *dev, struct hk_error *err)
{
	struct ifreq ifr;
	char names[160];
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = 0;
	if (fd < 0)
		return hk_error_set(err, -errno, "port %s: cannot list interfaces: %s", spec,
				    strerror(errno));
	memset(&ifr, 0, sizeof(ifr));
	strncpy(ifr.ifr_name, name, sizeof(ifr.ifr_name) - 1);

	dev->ifindex = if_nametoindex(name);
	if (dev->ifindex && ioctl(fd, SIOCGIFMTU, &ifr) == 0)
		dev->mtu = (unsigned)ifr.ifr_mtu;
	else
		rc = -ENODEV;
	if (rc == 0 && ioctl(fd, SIOCGIFFLAGS, &ifr) == 0)
		dev->up = ifr.ifr_flags & IFF_UP;
	if (rc != 0)
		hk_interfaces_ethernet(names, sizeof(names));
	close(fd);
	if (rc == 0)
		return 0;
	if (!names[0])
		return hk_error_set(
			err, rc,
			"port %s: there is no interface %s here, nor any other that is up "
			"and carries Ethernet",
			spec, name);
	return hk_error_set(err, rc, "port %s: there is no interface %s here; fix: use one of %s",
			    spec, name, names);
}

int hk_netdev_may_open(const char *spec, struct hk_error *err)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
	if (fd >= 0) {
		close(fd);
		return 0;
	}
	return hk_error_set(err, -errno,
			    "port %s: no permission to open a packet socket: %s; fix: run as root, "
			    "or have a hikyakud open it that has the capabilities "
			    "cap_net_raw,cap_net_admin,cap_ipc_lock (docs/cluster.md, step 3)",
			    spec, strerror(errno));
}

uint32_t hk_netdev_link_mbps(const char *name)
{
	struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
	struct ethtool_cmd link = {.cmd = ETHTOOL_GSET};
	uint32_t speed = 0;

	/* an interface without a device, such as a veth, reports an arbitrary speed */
	if (hk_ethtool(name, &driver) && driver.bus_info[0] && hk_ethtool(name, &link))
		speed = ethtool_cmd_speed(&link);
	return speed == (uint32_t)SPEED_UNKNOWN ? 0 : speed;
}

static bool read_ipv4(int fd, const char *name, unsigned long what, uint32_t *address)
{
	struct ifreq ifr = {0};
	struct sockaddr_in at;

	strncpy(ifr.ifr_name, name, sizeof(ifr.ifr_name) - 1);
	if (ioctl(fd, what, &ifr) != 0)
		return false;
	memcpy(&at, &ifr.ifr_addr, sizeof(at)); /* also of SIOCGIFNETMASK */
	*address = ntohl(at.sin_addr.s_addr);
	return at.sin_family == AF_INET;
}

uint64_t hk_netdev_network(const char *name)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t address = 0, mask = 0;
	bool found = fd >= 0 && read_ipv4(fd, name, SIOCGIFADDR, &address) &&
		     read_ipv4(fd, name, SIOCGIFNETMASK, &mask);

	if (fd >= 0)
		close(fd);
	return found ? (uint64_t)(address & mask) << 8 | (unsigned)__builtin_popcount(mask) : 0;
}

bool hk_netdev_carrier(const char *name)
{
	struct ethtool_value link = {.cmd = ETHTOOL_GLINK, .data = 1};

	(void)hk_ethtool(name, &link);
	return link.data;
}

static bool is_packet_socket(int fd, unsigned ifindex)
{
	struct sockaddr_ll ll = {0};
	socklen_t len = sizeof(int), ll_len = sizeof(ll);
	int domain = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0 || domain != AF_PACKET)
		return false;
	return getsockname(fd, (struct sockaddr *)&ll, &ll_len) == 0 &&
	       (unsigned)ll.sll_ifindex == ifindex;
}

int hk_netdev_socket(unsigned ifindex)
{
	DIR *d = opendir("/proc/self/fd");
	int found = -1;

	for (struct dirent *e; d && (e = readdir(d));) {
		char *last;
		int fd = (int)strtol(e->d_name, &last, 10);

		if (*last || !is_packet_socket(fd, ifindex))
			continue;
		if (found >= 0) {
			found = -1;
			break;
		}
		found = fd;
	}
	if (d)
		closedir(d);
	return found;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/ethtool.h: what the driver of an interface tells (ethtool(8)). Inline, since hikyaku-helper
 * links nothing of ours.
 */
#ifndef HK_BASE_ETHTOOL_H
#define HK_BASE_ETHTOOL_H

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Gives the interface @name the command in @data, a structure of linux/ethtool.h, which the kernel
 * fills. False: there is no such interface, or its driver does not know the command. */
static inline bool hk_ethtool(const char *name, void *data)
{
	struct ifreq ifr = {.ifr_data = data};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(ifr.ifr_name, name, strnlen(name, sizeof(ifr.ifr_name) - 1));
	bool done = fd >= 0 && ioctl(fd, SIOCETHTOOL, &ifr) == 0;

	if (fd >= 0)
		close(fd);
	return done;
}

/* Returns whether @name is one end of a veth, the kernel's pair of virtual interfaces (veth(4)). */
static inline bool hk_ethtool_is_veth(const char *name)
{
	struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};

	return hk_ethtool(name, &driver) && strcmp(driver.driver, "veth") == 0;
}

#endif

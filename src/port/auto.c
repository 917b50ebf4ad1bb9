/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/auto.c: see port/auto.h.
 */
#include "port/auto.h"

#include "base/ethtool.h"
#include "port/helper.h"
#include "port/internal.h"
#include "port/udp_xdp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INTERFACES 64
#define FUNCTIONS  256 /* virtual functions of a NIC that are looked at */

/* ---- lists of interfaces --------------------------------------------------------------------- */

static bool in_network(const uint8_t *a, const uint8_t *net, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	return memcmp(a, net, whole) == 0 &&
	       (rest == 0 || ((a[whole] ^ net[whole]) >> (8 - rest)) == 0);
}

/* Whether @word, a name or a network, is that of @i. Negative: it is malformed. */
static int names(const char *word, const struct hk_auto_interface *i, struct hk_error *err)
{
	uint8_t net[16];
	char text[64], *slash, *end;
	unsigned len, family_len;

	snprintf(text, sizeof(text), "%s", word);
	slash = strchr(text, '/');
	if (!slash)
		return strcmp(word, i->name) == 0;
	*slash = '\0';
	family_len = strchr(text, ':') ? 16 : 4;
	unsigned long bits = strtoul(slash + 1, &end, 10);

	if (inet_pton(family_len == 16 ? AF_INET6 : AF_INET, text, net) != 1 || end == slash + 1 ||
	    *end || bits > family_len * 8UL)
		return hk_error_set(
			err, -EINVAL,
			"\"%s\" is not a network; fix: write one such as 10.1.0.0/16, or "
			"the name of an interface",
			word);
	const uint8_t *a = hk_inet_bytes(&i->at.any, &len);

	return len == family_len && in_network(a, net, (unsigned)bits);
}

/* Whether @list names @i. Negative: it is malformed. */
static int listed(const char *list, const struct hk_auto_interface *i, struct hk_error *err)
{
	char word[64];
	int found = 0;

	while (list && *list && found == 0) {
		size_t len = strcspn(list, ",");

		snprintf(word, sizeof(word), "%.*s", (int)HK_MIN(len, sizeof(word) - 1), list);
		found = len ? names(word, i, err) : 0;
		list += len + (list[len] == ',');
	}
	return found;
}

/* ---- the choice ------------------------------------------------------------------------------ */

static bool better(const struct hk_auto_interface *a, const struct hk_auto_interface *b)
{
	return !b || a->nic > b->nic || (a->nic == b->nic && a->mbps > b->mbps);
}

int hk_auto_pick(const struct hk_auto_config *cfg, const struct hk_auto_interface *list, unsigned n,
		 const struct hk_auto_interface **out, struct hk_error *err)
{
	bool include = cfg->include && *cfg->include, exclude = cfg->exclude && *cfg->exclude;
	char have[200] = "";
	size_t used = 0;

	*out = NULL;
	if (include && exclude)
		return hk_error_set(
			err, -EINVAL,
			"interfaces are both included and excluded; fix: give one list");
	for (unsigned i = 0; i < n; i++) {
		int named = listed(include ? cfg->include : cfg->exclude, &list[i], err);

		if (named < 0)
			return named;
		used += (size_t)snprintf(have + used, sizeof(have) - used, "%s%s", i ? ", " : "",
					 list[i].name);
		used = HK_MIN(used, sizeof(have) - 1);
		if (named == include && better(&list[i], *out))
			*out = &list[i];
	}
	if (*out)
		return 0;
	if (n == 0)
		return hk_error_set(err, -ENODEV,
				    "no interface has both an address and a link; fix: see `ip "
				    "address`, or name a port (docs/ports.md)");
	if (include)
		return hk_error_set(
			err, -ENODEV,
			"no interface with an address and a link is in \"%.100s\"; fix: "
			"use one of: %s",
			cfg->include, have);
	return hk_error_set(err, -ENODEV,
			    "all interfaces are excluded: %s; fix: exclude fewer, or name a port "
			    "(docs/ports.md)",
			    have);
}

/* ---- this machine ---------------------------------------------------------------------------- */

static bool is_nic(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/class/net/%s/device", name);
	return access(path, F_OK) == 0;
}

/* Writes the last part of the path that the symbolic link @link has. False: it is none, or that is
 * too long. */
static bool leads_to(const char *link, char *name, size_t len)
{
	char path[256];
	ssize_t n = readlink(link, path, sizeof(path) - 1);

	if (n < 0)
		return false;
	path[n] = '\0';
	const char *slash = strrchr(path, '/');

	return (size_t)snprintf(name, len, "%s", slash ? slash + 1 : path) < len;
}

bool hk_auto_function(const char *sys, const char *name, unsigned local_rank,
		      char pci[HK_AUTO_PCI_LEN])
{
	char function[128], of_driver[160], driver[32];

	for (unsigned i = 0, seen = 0; i < FUNCTIONS; i++) {
		snprintf(function, sizeof(function), "%s/class/net/%s/device/virtfn%u", sys, name,
			 i);
		if (!leads_to(function, pci, HK_AUTO_PCI_LEN))
			return false; /* it was the last */
		snprintf(of_driver, sizeof(of_driver), "%s/driver", function);
		if (leads_to(of_driver, driver, sizeof(driver)) &&
		    strcmp(driver, "vfio-pci") == 0 && seen++ == local_rank)
			return true;
	}
	return false;
}

static bool usable(const struct ifaddrs *i)
{
	const unsigned want = IFF_UP | IFF_RUNNING;

	return (i->ifa_flags & want) == want &&
	       !(i->ifa_flags & (IFF_LOOPBACK | IFF_POINTOPOINT)) &&
	       strlen(i->ifa_name) < sizeof(((struct hk_auto_interface *)0)->name);
}

static bool known(const struct hk_auto_interface *list, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++)
		if (strcmp(list[i].name, name) == 0)
			return true;
	return false;
}

/* An interface has its first address of IPv4, or else of IPv6, as with udp:addr=NAME. */
static unsigned read_interfaces(const struct ifaddrs *all, struct hk_auto_interface *list)
{
	static const int families[] = {AF_INET, AF_INET6};
	unsigned n = 0;

	for (unsigned f = 0; f < HK_ARRAY_LEN(families); f++)
		for (const struct ifaddrs *i = all; i && n < INTERFACES; i = i->ifa_next) {
			union hk_inet_addr at;

			if (!usable(i) || !hk_inet_entry(i, families[f], &at) ||
			    known(list, n, i->ifa_name))
				continue;
			struct hk_auto_interface *it = &list[n++];

			*it = (struct hk_auto_interface){.at = at};
			strcpy(it->name, i->ifa_name);
			it->nic = is_nic(it->name);
			it->mbps = hk_netdev_link_mbps(it->name);
		}
	return n;
}

/* Whether frames are as long with xdp=1 as without: nodes with and without a helper must agree. */
static bool fits_xdp(const char *name)
{
	struct hk_inet_local local;

	return hk_inet_local(name, AF_UNSPEC, &local, NULL) == 0 && local.mtu <= HK_UDP_XDP_MTU;
}

int hk_port_auto(const struct hk_auto_config *cfg, char *list, size_t len, struct hk_error *err)
{
	struct hk_auto_interface all[INTERFACES];
	const struct hk_auto_interface *it;
	struct ifaddrs *there;

	if (getifaddrs(&there) != 0)
		return hk_error_set(err, -errno, "the interfaces cannot be listed: %s",
				    strerror(errno));
	unsigned n = read_interfaces(there, all);
	int rc = hk_auto_pick(cfg, all, n, &it, err);

	freeifaddrs(there);
	if (rc)
		return rc;
	char pci[HK_AUTO_PCI_LEN];

	if (hk_auto_function("/sys", it->name, cfg->local_rank, pci))
		snprintf(list, len, "pci:%s?+udp:addr=%s", pci, it->name);
	else if ((it->nic || hk_ethtool_is_veth(it->name)) && fits_xdp(it->name) &&
		 hk_helper_runs())
		snprintf(list, len, "udp:addr=%s,xdp=1?+udp:addr=%s", it->name, it->name);
	else
		snprintf(list, len, "udp:addr=%s", it->name);
	return 0;
}

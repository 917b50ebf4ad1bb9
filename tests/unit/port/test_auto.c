/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_auto.c: the choice of an interface, among such as a node may have.
 */
#include "port/auto.h"
#include "port/port.h"
#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct hk_auto_interface interface(const char *name, const char *address, bool nic,
					  uint32_t mbps)
{
	struct hk_auto_interface i = {.nic = nic, .mbps = mbps};

	snprintf(i.name, sizeof(i.name), "%s", name);
	if (inet_pton(AF_INET, address, &i.at.v4.sin_addr) == 1)
		i.at.v4.sin_family = AF_INET;
	else if (inet_pton(AF_INET6, address, &i.at.v6.sin6_addr) == 1)
		i.at.v6.sin6_family = AF_INET6;
	return i;
}

/* The name of the one that is chosen of four. */
static const char *chosen(const char *include, const char *exclude)
{
	static struct hk_auto_interface list[4];
	const struct hk_auto_config cfg = {include, exclude, 0};
	const struct hk_auto_interface *it = NULL;

	list[0] = interface("docker0", "172.17.0.1", false, 100000);
	list[1] = interface("eth0", "10.1.2.3", true, 1000);
	list[2] = interface("eth1", "192.168.7.9", true, 25000);
	list[3] = interface("eth2", "fd00:7::9", true, 25000);
	int rc = hk_auto_pick(&cfg, list, HK_ARRAY_LEN(list), &it, ERR);

	return rc == 0 ? it->name : rc == -ENODEV ? "none" : "malformed";
}

TEST(a_nic_then_the_fastest_then_the_first)
{
	CHECK(strcmp(chosen(NULL, NULL), "eth1") == 0);
	CHECK(strcmp(chosen("", "eth1"), "eth2") == 0);
	CHECK(strcmp(chosen(NULL, "eth1,eth2"), "eth0") == 0);
	CHECK(strcmp(chosen(NULL, "eth0,eth1,eth2"), "docker0") == 0);
	CHECK(strcmp(chosen(NULL, "docker0,eth0,eth1,eth2"), "none") == 0);
	CHECK_HAS(hk_test_err.text, "all interfaces are excluded: docker0, eth0, eth1, eth2; fix:");
}

TEST(networks)
{
	CHECK(strcmp(chosen("10.0.0.0/8", NULL), "eth0") == 0);
	CHECK(strcmp(chosen("10.1.2.0/30", NULL), "eth0") == 0);
	CHECK(strcmp(chosen("10.1.2.4/30", NULL), "none") == 0);
	CHECK(strcmp(chosen("fd00:7::/32", NULL), "eth2") == 0);
	CHECK(strcmp(chosen("fd00:8::/32", NULL), "none") == 0);
	CHECK(strcmp(chosen("0.0.0.0/0", NULL), "eth1") == 0);
	CHECK(strcmp(chosen(NULL, "0.0.0.0/0"), "eth2") == 0);
	CHECK(strcmp(chosen("10.9.0.0/16,docker0", NULL), "docker0") == 0);
	CHECK(strcmp(chosen(",,eth0,", NULL), "eth0") == 0);
	CHECK(strcmp(chosen("eth", NULL), "none") == 0);
	CHECK_HAS(hk_test_err.text, "is in \"eth\"; fix: use one of: docker0, eth0");
}

TEST(malformed_lists)
{
	static const char *const bad[] = {"10.0.0.0/",   "10.0.0.0/33", "10.0.0/8", "fd00::/129",
					  "10.0.0.0/8x", "/8",          "eth0/8",   "10.0.0.0/-1"};

	for (unsigned i = 0; i < HK_ARRAY_LEN(bad); i++) {
		CHECK_MSG(strcmp(chosen(bad[i], NULL), "malformed") == 0, "%s", bad[i]);
		CHECK_HAS(hk_test_err.text, "is not a network; fix: ");
	}
	CHECK(strcmp(chosen("eth0", "eth1"), "malformed") == 0);
}

TEST(a_machine_without_interfaces)
{
	const struct hk_auto_interface *it;

	CHECK_REFUSED(hk_auto_pick(&(struct hk_auto_config){0}, NULL, 0, &it, ERR), -ENODEV,
		      "both an address and a link");
}

/* ---- virtual functions, in a directory like sysfs ----------------------------------------------
 */

static char sys[TMP_PATH];

static void at(char path[128], const char *below)
{
	snprintf(path, 128, "%s/%s", sys, below);
}

static void directory(const char *below)
{
	char path[128];

	at(path, below);
	CHECK_EQ(mkdir(path, 0700), 0);
}

static void link_to(const char *target, const char *below)
{
	char path[128];

	at(path, below);
	CHECK_EQ(symlink(target, path), 0);
}

/* eth0 with four functions, of which vfio-pci has the second and the fourth. */
static void nic_with_functions(void)
{
	char path[64];

	tmp_dir(sys);
	directory("class");
	directory("class/net");
	directory("class/net/eth0");
	directory("class/net/eth0/device");
	for (unsigned i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "0000:3b:02.%u", i);
		directory(path);
		snprintf(path, sizeof(path), "0000:3b:02.%u/driver", i);
		link_to(i % 2 ? "../drivers/vfio-pci" : "../drivers/iavf", path);
	}
	for (unsigned i = 0; i < 4; i++) {
		char target[64];

		snprintf(path, sizeof(path), "class/net/eth0/device/virtfn%u", i);
		snprintf(target, sizeof(target), "../../../../0000:3b:02.%u", i);
		link_to(target, path);
	}
}

TEST(each_rank_takes_a_virtual_function_of_vfio)
{
	char pci[HK_AUTO_PCI_LEN];

	nic_with_functions();
	CHECK(hk_auto_function(sys, "eth0", 0, pci));
	CHECK(strcmp(pci, "0000:3b:02.1") == 0);
	CHECK(hk_auto_function(sys, "eth0", 1, pci));
	CHECK(strcmp(pci, "0000:3b:02.3") == 0);
	CHECK(!hk_auto_function(sys, "eth0", 2, pci));
	CHECK(!hk_auto_function(sys, "eth1", 0, pci));
	tmp_remove(sys);
}

TEST(a_link_that_is_no_pci_address_is_none)
{
	char pci[HK_AUTO_PCI_LEN];

	nic_with_functions();
	directory("class/net/eth1");
	directory("class/net/eth1/device");
	link_to("../../../../a-name-that-is-too-long", "class/net/eth1/device/virtfn0");
	CHECK(!hk_auto_function(sys, "eth1", 0, pci));
	tmp_remove(sys);
}

/* The answer is a list of ports or a reason, on any machine. */
TEST(this_machine)
{
	char list[HK_PORT_SPEC_MAX * 2], spec[2][HK_PORT_SPEC_MAX];
	int rc = hk_port_auto(&(struct hk_auto_config){0}, list, sizeof(list), ERR);

	if (rc == -ENODEV)
		return;
	CHECK_EQ(rc, 0);
	int n = hk_port_list_split(list, spec, 2, ERR);

	CHECK(n == 1 || n == 2);
	CHECK(strncmp(spec[n - 1], "udp:addr=", 9) == 0);
	CHECK(n == 1 || strstr(spec[0], ",xdp=1?"));
}

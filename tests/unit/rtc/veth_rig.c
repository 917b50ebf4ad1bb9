/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/veth_rig.c: a wire for packet sockets.
 */
#include "tests/unit/rtc/veth_rig.h"
#include "tests/unit/hk_test.h"

#include <errno.h>
#include <sched.h>

void veth_rig_ip(const char *arguments)
{
	char line[256];

	snprintf(line, sizeof(line), "PATH=$PATH:/usr/sbin:/sbin ip %s", arguments);
	CHECK_MSG(system(line) == 0, "'ip %s' failed", arguments);
}

void veth_rig_make(void)
{
	static bool made;
	char line[128];

	if (made)
		return;
	/* as root, or else as the root of a user namespace of our own */
	CHECK_MSG(unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0,
		  "no network namespace: %s; run the test as root", strerror(errno));
	veth_rig_ip("link add br0 type bridge forward_delay 0 mcast_snooping 0");
	veth_rig_ip("link set br0 up");
	for (unsigned i = 0; i < 8; i++) {
		snprintf(line, sizeof(line), "link add h%u type veth peer name s%u", i, i);
		veth_rig_ip(line);
		snprintf(line, sizeof(line), "link set s%u master br0 up", i);
		veth_rig_ip(line);
		snprintf(line, sizeof(line), "link set h%u up", i);
		veth_rig_ip(line);
	}
	made = true;
}

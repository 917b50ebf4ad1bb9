/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/veth_rig.c: see veth_rig.h.
 */
#include "tests/unit/rtc/veth_rig.h"
#include "tests/support/hk_test.h"
#include "tests/support/net.h"

#include <errno.h>
#include <sched.h>

void veth_rig_make(void)
{
	static bool made;

	if (made)
		return;
	/* as root, or as root of a new user namespace */
	CHECK_MSG(net_own() || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0,
		  "no network namespace: %s; run the test as root", strerror(errno));
	shell("ip link add br0 type bridge forward_delay 0 mcast_snooping 0");
	shell("ip link set br0 up");
	for (unsigned i = 0; i < 8; i++) {
		shell("ip link add h%u type veth peer name s%u", i, i);
		shell("ip link set s%u master br0 up", i);
		shell("ip link set h%u up", i);
	}
	made = true;
}

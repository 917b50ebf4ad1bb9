/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_eal.c: starts of DPDK that are refused. None succeeds, since DPDK starts
 * once in a process.
 */
#include "port/port.h"
#include "tests/support/hk_test.h"

#include <errno.h>

#define MORE_THAN_FREE_MB 65536

TEST(pci_ports_need_huge_pages)
{
	struct hk_eal_config cfg = {.memory_mb = MORE_THAN_FREE_MB};

	CHECK_OK(hk_port_spec_eal("pci:0000:3b:02.1", &cfg, ERR));
	CHECK_REFUSED(hk_eal_init(&cfg, ERR), -ENOMEM,
		      "a pci: port needs 65536 MB of huge pages, and ",
		      " MB are free; fix: ", "hugepages-", "make it again with --huge 65536",
		      "another kind of port");
}

TEST(other_ports_can_do_without)
{
	struct hk_eal_config cfg = {.memory_mb = MORE_THAN_FREE_MB, .hugepages = true};

	CHECK_REFUSED(hk_eal_init(&cfg, ERR), -ENOMEM, "this process wants 65536 MB of huge pages",
		      "or run without huge pages");
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/devmem/nic/test_region.c: regions whose owners live, leave and die.
 */
#include "devmem/nic/region.h"
#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 8192

static const struct hk_nic_header header = {.variant = HK_NIC_RD, .nics = 2, .frame_max = 1518};
static char dir[TMP_PATH];
static struct hk_nic_region own, seen;

/* Makes the region in a child, which dies without a word. */
static void make_and_die(void)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0)
		_exit(hk_nic_region_make(dir, "bar0", SIZE, &header, &own, ERR) != 0);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

TEST(a_region_lives_until_its_owner_leaves)
{
	tmp_dir(dir);
	CHECK_OK(hk_nic_region_make(dir, "bar0", SIZE, &header, &own, ERR));
	CHECK_OK(hk_nic_region_map(dir, "bar0", SIZE, &header, 0, &seen, ERR));
	CHECK_EQ(seen.header->frame_max, 1518);
	((uint8_t *)own.header)[SIZE - 1] = 7;
	CHECK_EQ(((uint8_t *)seen.header)[SIZE - 1], 7);
	CHECK_EQ(hk_nic_region_owner(&seen), HK_NIC_LIVES);
	CHECK_REFUSED(
		hk_nic_region_make(dir, "bar0", SIZE, &header, &(struct hk_nic_region){0}, ERR),
		-EBUSY, "bar0", "fix: end it");
	hk_nic_region_close(&own);
	CHECK_EQ(hk_nic_region_owner(&seen), HK_NIC_LEFT);
	CHECK_EQ(((uint8_t *)seen.header)[SIZE - 1], 7);
	hk_nic_region_close(&seen);
	tmp_gone(dir);
}

TEST(a_dead_owner_is_noticed_and_its_region_replaced)
{
	tmp_dir(dir);
	make_and_die();
	CHECK_REFUSED(hk_nic_region_map(dir, "bar0", SIZE, &header, 0, &seen, ERR), -ETIMEDOUT,
		      "no process has made", "bar0", "fix: start it");
	CHECK_OK(hk_nic_region_make(dir, "bar0", SIZE, &header, &own, ERR));
	CHECK_OK(hk_nic_region_map(dir, "bar0", SIZE, &header, 0, &seen, ERR));
	/* as after kill -9: the kernel has dropped the lock */
	CHECK(munmap(own.header, SIZE) == 0 && close(own.fd) == 0);
	CHECK_EQ(hk_nic_region_owner(&seen), HK_NIC_DEAD);
	hk_nic_region_close(&seen);
	tmp_remove(dir);
}

TEST(another_router_s_region_is_refused)
{
	struct hk_nic_header other = header;

	tmp_dir(dir);
	CHECK_OK(hk_nic_region_make(dir, "bar0", SIZE, &header, &own, ERR));
	CHECK_REFUSED(hk_nic_region_map(dir, "bar0", SIZE / 2, &header, 0, &seen, ERR), -EPROTO,
		      "another variant");
	other.variant = HK_NIC_WR;
	CHECK_REFUSED(hk_nic_region_map(dir, "bar0", SIZE, &other, 0, &seen, ERR), -EPROTO,
		      "another variant");
	other = header;
	other.nics = 3;
	CHECK_REFUSED(hk_nic_region_map(dir, "bar0", SIZE, &other, 0, &seen, ERR), -EPROTO,
		      "same options");
	own.header->magic++;
	CHECK_REFUSED(hk_nic_region_map(dir, "bar0", SIZE, &header, 0, &seen, ERR), -EPROTO,
		      "release");
	hk_nic_region_close(&own);
	tmp_gone(dir);
}

TEST(a_missing_directory_is_named)
{
	CHECK_REFUSED(hk_nic_region_make("/nowhere", "bar0", SIZE, &header, &own, ERR), -ENOENT,
		      "/nowhere/bar0", "--dir");
}

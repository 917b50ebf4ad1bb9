/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/pop/vfio.c: BARs of devices that are bound to vfio-pci, whose sysfs files the kernel then does not let map.
 *
 * The device joins the container that DPDK's NICs are in, which copes with several devices of one IOMMU group.
 */
#include "p2p/pop/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/vfio.h>

#include <rte_vfio.h>

#define COMMAND        4 /* offset in the configuration space */
#define COMMAND_MEMORY 2u

/* Devices answer at their BARs if this bit is set; mapped memory of one that does not is no memory (SIGBUS). */
static bool enable_memory(int fd)
{
	struct vfio_region_info config = {.argsz = sizeof(config),
					  .index = VFIO_PCI_CONFIG_REGION_INDEX};
	uint16_t command;

	if (ioctl(fd, VFIO_DEVICE_GET_REGION_INFO, &config) != 0 ||
	    pread(fd, &command, 2, (off_t)config.offset + COMMAND) != 2)
		return false;
	command |= COMMAND_MEMORY;
	return pwrite(fd, &command, 2, (off_t)config.offset + COMMAND) == 2;
}

static int open_bar(const struct hk_pci *pci, unsigned bar, uint64_t need, uint64_t *at,
		    struct hk_error *err)
{
	struct vfio_device_info info = {.argsz = sizeof(info)};
	struct vfio_region_info region = {.argsz = sizeof(region), .index = bar};
	int fd = -1, rc = rte_vfio_setup_device("/sys/bus/pci/devices/", pci->addr, &fd, &info);

	if (rc)
		return hk_error_set(
			err, -EBUSY,
			"PCI device %s is bound to vfio-pci, and VFIO does not give it to "
			"us; fix: end the process that has its IOMMU group, bind all of "
			"that group to vfio-pci, or this device to no driver",
			pci->addr);
	if (ioctl(fd, VFIO_DEVICE_GET_REGION_INFO, &region) != 0 || region.size < need ||
	    !(region.flags & VFIO_REGION_INFO_FLAG_MMAP) || !enable_memory(fd)) {
		(void)rte_vfio_release_device("/sys/bus/pci/devices/", pci->addr, fd);
		return hk_error_set(err, -ENOTSUP,
				    "VFIO does not map BAR %u of PCI device %s; fix: bind it to no "
				    "driver, or take another BAR",
				    bar, pci->addr);
	}
	*at = region.offset;
	return fd;
}

static void close_bar(const char *addr, int fd)
{
	(void)rte_vfio_release_device("/sys/bus/pci/devices/", addr, fd);
}

const struct hk_pci_vfio hk_pci_by_vfio = {open_bar, close_bar};

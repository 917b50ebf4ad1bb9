/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/vfio.c: maps BARs of devices that are bound to vfio-pci. The kernel refuses to map
 * their sysfs files.
 *
 * The device joins the VFIO container of DPDK's NICs. That container also holds several devices of
 * one IOMMU group.
 */
#include "devmem/pop/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/vfio.h>

#include <rte_vfio.h>

#define COMMAND        4 /* offset in the configuration space */
#define COMMAND_MEMORY 2u

/* A device answers at its BARs only if this bit is set. Access to the mapped memory of another
 * device ends in SIGBUS. */
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
		return hk_error_set(err, -EBUSY,
				    "PCI device %s is bound to vfio-pci, and VFIO does not release "
				    "it; fix: end the process that has its IOMMU group, bind all "
				    "of that group to vfio-pci, or unbind this device",
				    pci->addr);
	if (ioctl(fd, VFIO_DEVICE_GET_REGION_INFO, &region) != 0 || region.size < need ||
	    !(region.flags & VFIO_REGION_INFO_FLAG_MMAP) || !enable_memory(fd)) {
		(void)rte_vfio_release_device("/sys/bus/pci/devices/", pci->addr, fd);
		return hk_error_set(err, -ENOTSUP,
				    "VFIO does not map BAR %u of PCI device %s; fix: unbind it "
				    "from its driver, or use another BAR",
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/pci.c: PCI devices in sysfs (Linux: Documentation/PCI/sysfs-pci.rst).
 */
#include "devmem/pop/internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define COMMAND        4 /* offset in the configuration space */
#define COMMAND_MASTER 4u

bool hk_pci_is_addr(const char *text)
{
	static const char form[] = "hhhh:hh:hh.d";
	size_t i;

	for (i = 0; form[i]; i++) {
		char c = text[i];
		if (form[i] == 'h'   ? !isxdigit((unsigned char)c)
		    : form[i] == 'd' ? c < '0' || c > '7'
				     : c != form[i])
			return false;
	}
	return text[i] == '\0';
}

/* Reads a small file of the device without its trailing white space. False if there is none. */
static bool text_of(const struct hk_pci *pci, const char *name, char *out, size_t len)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", pci->dir, name);
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	size_t n = fread(out, 1, len - 1, f);
	fclose(f);
	while (n && isspace((unsigned char)out[n - 1]))
		n--;
	out[n] = '\0';
	return true;
}

static bool hex_of(const struct hk_pci *pci, const char *name, unsigned *out)
{
	char text[32], *end;

	if (!text_of(pci, name, text, sizeof(text)) || !text[0])
		return false;
	*out = (unsigned)strtoul(text, &end, 16);
	return *end == '\0';
}

int hk_pci_read(const char *sysfs, const char *addr, struct hk_pci *pci, struct hk_error *err)
{
	char path[256], link[256], text[2048];
	struct stat st;

	*pci = (struct hk_pci){0};
	if (!hk_pci_is_addr(addr))
		return hk_error_set(err, -ENODEV,
				    "'%s' is not a PCI address; fix: write it as 0000:00:05.0",
				    addr);
	memcpy(pci->addr, addr, strlen(addr) + 1);
	int n = snprintf(pci->dir, sizeof(pci->dir), "%s/bus/pci/devices/%s", sysfs, addr);
	if (n < 0 || (size_t)n >= sizeof(pci->dir) || stat(pci->dir, &st) != 0)
		return hk_error_set(
			err, -ENODEV,
			"there is no PCI device %s; fix: `hikyaku devmem list` shows the devices",
			addr);
	if (!hex_of(pci, "vendor", &pci->vendor) || !hex_of(pci, "device", &pci->device) ||
	    !hex_of(pci, "class", &pci->class) || !text_of(pci, "resource", text, sizeof(text)))
		return hk_error_set(err, -EIO,
				    "PCI device %s: cannot read %s; fix: run as root, with "
				    "/sys mounted",
				    addr, pci->dir);
	char *line = text, *save = NULL;
	line = strtok_r(text, "\n", &save);
	for (unsigned i = 0; i < HK_PCI_BARS && line; i++, line = strtok_r(NULL, "\n", &save)) {
		uint64_t start, end, flags;
		if (sscanf(line, "%" SCNx64 " %" SCNx64 " %" SCNx64, &start, &end, &flags) != 3)
			return hk_error_set(err, -EIO,
					    "PCI device %s: its file 'resource' does not parse; "
					    "fix: try a newer release of Hikyaku",
					    addr);
		if (end > start) {
			pci->bar[i].start = start;
			pci->bar[i].size = end - start + 1;
			pci->bar[i].flags = flags;
		}
	}
	snprintf(path, sizeof(path), "%s/driver", pci->dir);
	ssize_t got = readlink(path, link, sizeof(link) - 1);
	if (got > 0) {
		link[got] = '\0';
		const char *base = strrchr(link, '/') ? strrchr(link, '/') + 1 : link;
		memcpy(pci->driver, base, HK_MIN(strlen(base), sizeof(pci->driver) - 1));
	}
	if (!text_of(pci, "iommu_group/type", pci->iommu, sizeof(pci->iommu)))
		pci->iommu[0] = '\0';
	return 0;
}

int hk_pci_check_free(const struct hk_pci *pci, struct hk_error *err)
{
	static const char *const ours[] = {"", "uio_pci_generic", "igb_uio", "vfio-pci",
					   "pci-stub"};

	for (size_t i = 0; i < HK_ARRAY_LEN(ours); i++) {
		if (strcmp(pci->driver, ours[i]) == 0)
			return 0;
	}
	return hk_error_set(
		err, -EBUSY,
		"PCI device %s is bound to the kernel driver '%s', which owns its memory; fix: "
		"echo %s > /sys/bus/pci/drivers/%s/unbind, if nothing uses it",
		pci->addr, pci->driver, pci->addr, pci->driver);
}

int hk_pci_bar_range(const struct hk_pci *pci, unsigned bar, uint64_t offset, uint64_t *size,
		     struct hk_error *err)
{
	uint64_t all = bar < HK_PCI_BARS ? pci->bar[bar].size : 0;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (!all || !(pci->bar[bar].flags & HK_PCI_BAR_MEM) || all < page) {
		char have[64] = "";
		for (unsigned i = 0; i < HK_PCI_BARS; i++) {
			if (pci->bar[i].flags & HK_PCI_BAR_MEM && pci->bar[i].size >= page) {
				size_t n = strlen(have);
				snprintf(have + n, sizeof(have) - n, " %u", i);
			}
		}
		return hk_error_set(err, -ENOTSUP,
				    "PCI device %s has no usable memory in BAR %u; fix: %s%s",
				    pci->addr, bar,
				    have[0] ? "use one of BARs"
					    : "use another device; this one has no BAR with memory",
				    have);
	}
	uint64_t want = *size ? *size : offset < all ? all - offset : 0;
	if (offset > all || want > all - offset || want == 0)
		return hk_error_set(
			err, -ERANGE,
			"PCI device %s: %" PRIu64 " bytes at %" PRIu64 " lie past the end "
			"of BAR %u, which has %" PRIu64 "; fix: give a smaller size= or offset=",
			pci->addr, *size, offset, bar, all);
	if (offset % page || want % page)
		return hk_error_set(err, -ERANGE,
				    "PCI device %s: offset %" PRIu64 " and size %" PRIu64
				    " are not whole pages; fix: give multiples of %" PRIu64,
				    pci->addr, offset, want, page);
	*size = want;
	return 0;
}

/* Returns the process that holds the lock on @fd's file, from /proc/locks; 0: not found. */
static int lock_holder(int fd)
{
	char line[256], type[16], mode[16], access[16];
	struct stat st;
	int pid, found = 0;

	if (fstat(fd, &st) != 0)
		return 0;
	FILE *f = fopen("/proc/locks", "re");
	while (f && !found && fgets(line, sizeof(line), f)) {
		unsigned major, minor;
		unsigned long inode;
		if (sscanf(line, "%*d: %15s %15s %15s %d %x:%x:%lu", type, mode, access, &pid,
			   &major, &minor, &inode) == 7 &&
		    inode == st.st_ino && major == major(st.st_dev) && minor == minor(st.st_dev))
			found = pid;
	}
	if (f)
		fclose(f);
	return found;
}

static int write_file(const struct hk_pci *pci, const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", pci->dir, name);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = write(fd, text, strlen(text));
	int rc = n < 0 ? -errno : 0;
	close(fd);
	return rc;
}

void *hk_pop_mmap(uint64_t size, int prot, int flags, int fd, uint64_t at)
{
	uint64_t reserved = size + HK_POP_ALIGN;
	unsigned char *p = mmap(NULL, reserved, PROT_NONE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return p;
	unsigned char *start = (unsigned char *)(((uintptr_t)p + HK_POP_ALIGN - 1) &
						 ~(HK_POP_ALIGN - 1));
	void *got = mmap(start, size, prot, flags | MAP_FIXED, fd, (off_t)at);
	int saved = errno;
	if (got == MAP_FAILED) {
		munmap(p, reserved);
		errno = saved;
		return got;
	}
	if (start > p)
		munmap(p, (size_t)(start - p));
	unsigned char *end = start + size;
	if (end < p + reserved)
		munmap(end, (size_t)(p + reserved - end));
	return got;
}

const struct hk_pci_vfio *hk_pci_vfio;

/* Maps through VFIO's descriptor: the kernel lets nobody else enable the device. */
static int map_vfio(const struct hk_pci *pci, unsigned bar, uint64_t offset, uint64_t size, bool wc,
		    struct hk_pci_map *map, struct hk_error *err)
{
	uint64_t at;

	if (wc)
		return hk_error_set(
			err, -ENOTSUP,
			"BAR %u of PCI device %s is mapped by VFIO, which cannot make it "
			"write-combining; fix: remove wc=1, or unbind the device from vfio-pci",
			bar, pci->addr);
	map->vfio = hk_pci_vfio->open(pci, bar, offset + size, &at, err);
	if (map->vfio < 0)
		return map->vfio;
	map->va = hk_pop_mmap(size, PROT_READ | PROT_WRITE, MAP_SHARED, map->vfio, at + offset);
	if (map->va != MAP_FAILED)
		return 0;
	map->va = NULL;
	return hk_error_set(err, -errno,
			    "VFIO does not map BAR %u of PCI device %s: %s; fix: unbind the device "
			    "from its driver",
			    bar, pci->addr, strerror(errno));
}

int hk_pci_map(const struct hk_pci *pci, unsigned bar, uint64_t offset, uint64_t size, bool wc,
	       struct hk_pci_map *map, struct hk_error *err)
{
	char path[256], enabled[8];
	int fd = -1, rc;

	*map = (struct hk_pci_map){.lock = -1, .vfio = -1};
	memcpy(map->addr, pci->addr, sizeof(map->addr));
	snprintf(path, sizeof(path), "%s/resource%u", pci->dir, bar);
	map->lock = open(path, O_RDWR | O_CLOEXEC);
	if (map->lock < 0)
		return hk_error_set(err, -errno,
				    "cannot open %s: %s; fix: run as root, without kernel "
				    "lockdown",
				    path, strerror(errno));
	if (flock(map->lock, LOCK_EX | LOCK_NB) != 0) {
		rc = hk_error_set(err, -EBUSY,
				  "BAR %u of PCI device %s is in use by process %d; fix: end it, "
				  "or use another BAR or device",
				  bar, pci->addr, lock_holder(map->lock));
		goto fail;
	}
	if (strcmp(pci->driver, "vfio-pci") == 0 && hk_pci_vfio) {
		rc = map_vfio(pci, bar, offset, size, wc, map, err);
		if (rc)
			goto fail;
		map->size = size;
		return 0;
	}
	if (text_of(pci, "enable", enabled, sizeof(enabled)) && strcmp(enabled, "0") == 0) {
		rc = write_file(pci, "enable", "1");
		if (rc) {
			hk_error_set(err, rc,
				     "PCI device %s cannot be enabled: %s; fix: run as root",
				     pci->addr, strerror(-rc));
			goto fail;
		}
	}
	if (wc) {
		snprintf(path, sizeof(path), "%s/resource%u_wc", pci->dir, bar);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0) {
			rc = hk_error_set(err, -ENOTSUP,
					  "BAR %u of PCI device %s cannot be write-combining (%s: "
					  "%s); fix: remove wc=1",
					  bar, pci->addr, path, strerror(errno));
			goto fail;
		}
	}
	map->va = hk_pop_mmap(size, PROT_READ | PROT_WRITE, MAP_SHARED, wc ? fd : map->lock,
			      offset);
	int saved = errno;
	if (fd >= 0)
		close(fd);
	if (map->va == MAP_FAILED) {
		rc = hk_error_set(
			err, saved == EINVAL || saved == EPERM ? -EPERM : -saved,
			"the kernel does not map %s: %s; fix: unbind the device from its driver, "
			"or boot with iomem=relaxed",
			path, strerror(saved));
		map->va = NULL;
		goto fail;
	}
	map->size = size;
	return 0;
fail:
	hk_pci_unmap(map);
	return rc;
}

void hk_pci_unmap(struct hk_pci_map *map)
{
	if (map->va)
		munmap(map->va, map->size);
	if (map->vfio >= 0)
		hk_pci_vfio->close(map->addr, map->vfio);
	if (map->lock >= 0)
		close(map->lock);
	*map = (struct hk_pci_map){.lock = -1, .vfio = -1};
}

int hk_pci_set_master(const struct hk_pci *pci, struct hk_error *err)
{
	char path[256];
	uint16_t command;

	snprintf(path, sizeof(path), "%s/config", pci->dir);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	bool ok = fd >= 0 && pread(fd, &command, 2, COMMAND) == 2;
	if (ok && !(command & COMMAND_MASTER)) {
		command |= COMMAND_MASTER;
		ok = pwrite(fd, &command, 2, COMMAND) == 2;
	}
	int saved = errno;
	if (fd >= 0)
		close(fd);
	return ok ? 0
		  : hk_error_set(err, -EIO,
				 "PCI device %s cannot be made a bus master: %s; fix: run as "
				 "root",
				 pci->addr, strerror(saved));
}

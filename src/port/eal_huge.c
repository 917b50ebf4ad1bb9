/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/eal_huge.c: huge pages: the directory of a primary, and whether enough pages are free.
 *
 * EAL gives poor reasons when it finds no huge pages, so these functions check them before its
 * start.
 */
#include "base/huge.h"
#include "port/internal.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Checks that @dir is in a hugetlbfs where we may create files. Returns 0 or an errno. */
static int check_huge_dir(const char *dir, unsigned long *page)
{
	struct statfs fs;
	if (statfs(dir, &fs) != 0)
		return errno;
	if (fs.f_type != HUGETLBFS_MAGIC)
		return ENODEV;
	*page = (unsigned long)fs.f_bsize;
	return access(dir, R_OK | W_OK | X_OK) == 0 ? 0 : errno;
}

int hk_eal_find_huge_dir(const char *given, char *out, size_t len, unsigned long *page,
			 struct hk_error *err)
{
	char real[PATH_MAX];
	int rc = ENODEV;
	*page = ULONG_MAX;
	if (given) { /* EAL compares the path with the mounted ones, so resolve links */
		rc = realpath(given, real) ? check_huge_dir(real, page) : errno;
		if (rc == 0 && strlen(real) >= len)
			rc = ENAMETOOLONG;
		if (rc == 0)
			snprintf(out, len, "%s", real);
	}
	FILE *mounts = given ? NULL : setmntent("/proc/self/mounts", "re");
	for (struct mntent *m; mounts && (m = getmntent(mounts));) {
		unsigned long size = 0;
		if (strcmp(m->mnt_type, "hugetlbfs") != 0 || strlen(m->mnt_dir) >= len)
			continue;
		int code = check_huge_dir(m->mnt_dir, &size);
		if (code == 0 && size < *page) {
			*page = size;
			snprintf(out, len, "%s", m->mnt_dir);
		}
		if (rc != 0)
			rc = code; /* one usable directory is enough */
	}
	if (mounts)
		endmntent(mounts);
	if (rc == 0)
		return 0;
	unsigned user = (unsigned)getuid();
	char what[280];
	snprintf(what, sizeof(what), "no hugetlbfs is mounted");
	bool refused = rc == EACCES || rc == EROFS;
	if (refused)
		snprintf(what, sizeof(what),
			 "no permission to create files in the hugetlbfs%s%.200s: %s",
			 given ? " " : "", given ? given : "", strerror(rc));
	if (refused || (!given && user != 0))
		return hk_error_set(err, refused ? -EACCES : -ENODEV,
				    "%s; fix: an administrator mounts one for you: mkdir -p "
				    "/mnt/huge-%u && mount -t hugetlbfs -o "
				    "uid=%u,mode=0700,pagesize=2M none /mnt/huge-%u",
				    what, user, user, user);
	if (!given)
		return hk_error_set(err, -ENODEV,
				    "no hugetlbfs is mounted; fix: mkdir -p /dev/hugepages && "
				    "mount -t hugetlbfs -o pagesize=2M none /dev/hugepages");
	return hk_error_set(err, -rc,
			    "the directory for huge pages, %.150s, %s%s; fix: name one in a "
			    "hugetlbfs (findmnt -t hugetlbfs shows them), or none, so that it is "
			    "found (btl_hikyaku_huge_dir, HIKYAKU_HUGE_DIR, hikyakud's --huge-dir)",
			    given,
			    rc == ENODEV   ? "is not in a hugetlbfs"
			    : rc == ENOENT ? "does not exist"
					   : "cannot be used: ",
			    rc == ENODEV || rc == ENOENT ? "" : strerror(rc));
}

/* Checks the limit of the hugetlbfs of @dir (mount's size=), in pages. */
static int check_mount_limit(const char *dir, unsigned long kb, unsigned long need,
			     struct hk_error *err)
{
	struct statfs fs;
	if (statfs(dir, &fs) != 0)
		return hk_error_set(err, -errno, "%.200s: %s; fix: findmnt -t hugetlbfs", dir,
				    strerror(errno));
	unsigned long all = (unsigned long)fs.f_blocks, nfree = (unsigned long)fs.f_bavail;
	if (all == 0 || nfree >= need) /* 0: no limit */
		return 0;
	return hk_error_set(
		err, -ENOMEM,
		"the hugetlbfs %.150s is limited to %lu MB, of which %lu MB are free, "
		"and %lu MB are needed; fix: as root: mount -o remount,size=%luM %.150s",
		dir, all * kb / 1024, nfree * kb / 1024, need * kb / 1024,
		(all + need - nfree) * kb / 1024, dir);
}

int hk_eal_check_free_pages(const char *dir, unsigned long page, unsigned memory_mb,
			    struct hk_error *err)
{
	unsigned long kb = page / 1024, need = (memory_mb * 1024ul + kb - 1) / kb;
	struct hk_huge_pool p = {0};

	if (!hk_huge_read(kb, &p))
		return hk_error_set(err, -ENOSYS,
				    "this kernel does not support huge pages of %lu kB (%s); fix: "
				    "mount a hugetlbfs with another pagesize",
				    kb, p.path);
	if ((unsigned long)p.nfree >= need)
		return check_mount_limit(dir, kb, need, err);
	return hk_error_set(err, -ENOMEM,
			    "%s of %lu kB: %lu are needed for %u MB, and %ld are free; "
			    "fix: as root: echo %lu > %s",
			    p.all ? "too few huge pages" : "no huge pages are reserved", kb, need,
			    memory_mb, p.nfree,
			    (unsigned long)p.all + need - (unsigned long)p.nfree, p.path);
}

int hk_eal_check_any_pages(unsigned memory_mb, bool pci, struct hk_error *err)
{
	const char *other = pci ? "use another kind of port than pci:" : "run without huge pages";
	const char *user = pci ? "a pci: port needs" : "this process wants";
	unsigned long free_kb = 0, least = 0, kb, need_kb = memory_mb * 1024ul;
	struct hk_huge_pool p = {0};
	DIR *d = opendir(HK_HUGE_POOLS);

	for (struct dirent *e; d && (e = readdir(d));) {
		if (sscanf(e->d_name, "hugepages-%lukB", &kb) != 1 || !hk_huge_read(kb, &p))
			continue;
		/* the kernel adds pages on demand up to its limit; DPDK counts on them, too */
		long more = hk_huge_number(kb, "nr_overcommit") - hk_huge_number(kb, "surplus");

		free_kb += kb * (unsigned long)(p.nfree + HK_MAX(0, more));
		if (!least || kb < least)
			least = kb;
	}
	if (d)
		closedir(d);
	if (free_kb >= need_kb)
		return 0;
	if (!least || !hk_huge_read(least, &p))
		return hk_error_set(err, -ENOSYS,
				    "%s huge pages, which this kernel does not have; fix: %s, or "
				    "use a kernel with CONFIG_HUGETLBFS",
				    user, other);
	char fix[256];
	unsigned long pages = (unsigned long)p.all + (need_kb - free_kb + least - 1) / least;
	return hk_error_set(err, -ENOMEM,
			    "%s %u MB of huge pages, and %lu MB are free; fix: %s; or %s", user,
			    memory_mb, free_kb / 1024,
			    hk_huge_fix(&p, pages, memory_mb, fix, sizeof(fix)), other);
}

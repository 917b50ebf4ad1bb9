/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/rundir.c: finds, claims and removes run directories.
 */
#include "hostd/rundir.h"
#include "base/hash.h"
#include "base/private_dir.h"
#include "hostd/control.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HOST_MAX 24 /* characters of the host name in a job's name */

/* flock(2) has no time limit, so hk_rundir_lock() tries a held lock again with this period. */
#define LOCK_PERIOD_MS 2

/* ---- names --------------------------------------------------------------------------------- */

void hk_rundir_host(char *out, size_t len)
{
	char name[256] = "";

	if (gethostname(name, sizeof(name) - 1) != 0 || !name[0])
		snprintf(name, sizeof(name), "localhost");
	snprintf(out, len, "%s", name);
	for (char *c = out; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '.' && *c != '-' && *c != '_')
			*c = '_';
}

void hk_rundir_job_name(uint32_t job_key, char name[HK_RUNDIR_NAME_MAX + 1])
{
	char host[256];

	hk_rundir_host(host, sizeof(host));
	if (strlen(host) > HOST_MAX) {
		uint32_t h = hk_hash_text(host);
		snprintf(host + HOST_MAX - 9, 10, "-%08x", h);
	}
	snprintf(name, HK_RUNDIR_NAME_MAX + 1, "job-%08x-%.24s", job_key, host);
}

static bool is_valid_name(const char *name)
{
	if (!isalnum((unsigned char)name[0]) || strlen(name) > HK_RUNDIR_NAME_MAX)
		return false;
	for (const char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '.' && *c != '-' && *c != '_')
			return false;
	/* NAME.start is the name of a lock */
	size_t n = strlen(name);
	return n < 6 || strcmp(name + n - 6, ".start") != 0;
}

int hk_rundir_find(const char *name, struct hk_rundir *rd, struct hk_error *err)
{
	const char *given = secure_getenv("HIKYAKU_RUNDIR");
	unsigned uid = geteuid();
	int n = 0;

	*rd = (struct hk_rundir){.base_given = given && given[0]};
	if (!is_valid_name(name))
		return hk_error_set(
			err, -EINVAL,
			"'%s' is not a valid name of a daemon; fix: use at most %d letters, "
			"digits, '-', '_' and '.'",
			name, HK_RUNDIR_NAME_MAX);
	if (rd->base_given)
		n = snprintf(rd->base, sizeof(rd->base), "%s", given);
	else
		hk_private_base(rd->base);
	if (n >= (int)sizeof(rd->base) || rd->base[0] != '/')
		return hk_error_set(err, -EINVAL,
				    "HIKYAKU_RUNDIR is '%s'; fix: set it to an absolute path of at "
				    "most %zu bytes",
				    given, sizeof(rd->base) - 1);
	snprintf(rd->name, sizeof(rd->name), "%s", name);
	snprintf(rd->dir, sizeof(rd->dir), "%s/%s", rd->base, rd->name);
	/* depends on the base, too: daemons of one name in two bases must not share memory */
	snprintf(rd->shared, sizeof(rd->shared), "hk%u-%s-%08x", uid, rd->name,
		 hk_hash_text(rd->base));
	return 0;
}

void hk_rundir_path(const struct hk_rundir *rd, const char *file, char out[128])
{
	snprintf(out, 128, "%s/%s", rd->dir, file);
}

/* ---- directories --------------------------------------------------------------------------- */

/* Opens BASE. Nobody else can write to it, so that paths below it lead where we think. */
static int open_base(const struct hk_rundir *rd, bool make, struct hk_error *err)
{
	return hk_private_dir_open(AT_FDCWD, rd->base, make, "HIKYAKU_RUNDIR", err);
}

static int check_base(const struct hk_rundir *rd, bool make, struct hk_error *err)
{
	int fd = open_base(rd, make, err);

	if (fd >= 0)
		close(fd);
	return HK_MIN(fd, 0);
}

int hk_rundir_check_base(const struct hk_rundir *rd, struct hk_error *err)
{
	return check_base(rd, false, err);
}

int hk_rundir_make_base(const struct hk_rundir *rd, struct hk_error *err)
{
	return check_base(rd, true, err);
}

/* ---- locks --------------------------------------------------------------------------------- */

/* True if the locked file @fd is still @file. The last holder may have removed it. */
static bool is_still_there(int fd, int base, const char *file)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(base, file, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* As hk_rundir_lock(), with the descriptor of BASE. */
static int lock_at(int base, const char *file, int64_t deadline, struct hk_error *err)
{
	for (;;) {
		int fd = openat(base, file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0)
			return hk_error_set(err, -errno, "cannot open the lock %s: %s", file,
					    strerror(errno));
		if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
			if (is_still_there(fd, base, file))
				return fd;
			close(fd);
			continue;
		}
		int rc = -errno;
		close(fd);
		if (rc == -EINTR)
			continue;
		if (rc != -EWOULDBLOCK)
			return hk_error_set(err, rc, "cannot lock %s: %s", file, strerror(-rc));
		if (hk_clock_ms() >= deadline)
			return hk_error_set(err, rc, "another process holds the lock %s", file);
		struct timespec t = {.tv_nsec = LOCK_PERIOD_MS * 1000000};
		nanosleep(&t, NULL);
	}
}

int hk_rundir_lock(const struct hk_rundir *rd, const char *file, int64_t deadline,
		   struct hk_error *err)
{
	int base = open_base(rd, false, err);
	int fd = base < 0 ? base : lock_at(base, file, deadline, err);

	if (base >= 0)
		close(base);
	return fd;
}

/* ---- the files of a dead daemon ------------------------------------------------------------ */

/* Removes this user's files in @dir whose names start with @prefix. Takes @dir over. */
static void remove_files(int dir, const char *prefix)
{
	DIR *d = dir < 0 ? NULL : fdopendir(dir);
	struct dirent *e;
	struct stat st;

	if (!d) {
		if (dir >= 0)
			close(dir);
		return;
	}
	while ((e = readdir(d)) != NULL)
		if (strncmp(e->d_name, prefix, strlen(prefix)) == 0 &&
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !S_ISDIR(st.st_mode) && st.st_uid == geteuid())
			unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
}

/* Removes what a dead daemon has left of DPDK's files in @where, a runtime directory. */
static void remove_runtime(const char *where, const char *shared)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/dpdk", where);
	int dpdk = hk_private_dir_open(AT_FDCWD, path, false, "", NULL);
	if (dpdk < 0)
		return;
	remove_files(hk_private_dir_open(dpdk, shared, false, "", NULL), "");
	(void)unlinkat(dpdk, shared, AT_REMOVEDIR);
	close(dpdk);
	(void)hk_private_remove(path); /* only if no other program uses it */
}

static void remove_dpdk(const char *shared)
{
	char own[HK_PRIVATE_BASE_LEN], path[512];

	hk_private_base(own);
	const char *base[] = {secure_getenv("RUNTIME_DIRECTORY"), secure_getenv("XDG_RUNTIME_DIR"),
			      "/var/run", own};
	for (size_t i = 0; i < HK_ARRAY_LEN(base); i++)
		if (base[i] && base[i][0])
			remove_runtime(base[i], shared);

	FILE *mounts = setmntent("/proc/self/mounts", "re");
	if (!mounts)
		return;
	struct mntent *m;
	/* with the underscore, "hk0-a" does not match the files of "hk0-ab" */
	snprintf(path, sizeof(path), "%smap_", shared);
	while ((m = getmntent(mounts)) != NULL)
		if (strcmp(m->mnt_type, "hugetlbfs") == 0)
			remove_files(open(m->mnt_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), path);
	endmntent(mounts);
}

/* Removes the sockets and empty directories (cgroups) that hk_rundir_note() has noted. False: a
 * cgroup is still busy, since processes in it are just ending. */
static bool remove_noted(const struct hk_rundir *rd, int base)
{
	char file[128], line[512];
	bool all = true;

	snprintf(file, sizeof(file), "%s/leftovers", rd->name);
	int fd = openat(base, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	if (!f)
		return true;
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		all &= hk_private_remove(line) != -EBUSY;
	}
	fclose(f);
	return all;
}

int hk_rundir_note(const struct hk_rundir *rd, const char *path, struct hk_error *err)
{
	char file[128];

	hk_rundir_path(rd, "leftovers", file);
	FILE *f = fopen(file, "ae");
	bool ok = f && fprintf(f, "%s\n", path) > 0;
	if (f && fclose(f) != 0)
		ok = false;
	return ok ? 0
		  : hk_error_set(err, -EIO, "cannot write to %s: %s; fix: free space there", file,
				 strerror(errno));
}

static void remove_file(const struct hk_rundir *rd, int base, const char *file)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", rd->name, file);
	(void)unlinkat(base, path, 0);
}

/* Removes everything except the lock. False: also `leftovers` stays, since one of them does. */
static bool clear(const struct hk_rundir *rd, int base)
{
	static const char *const file[] = {"control", "tagger", "log", "leftovers"};
	bool all = remove_noted(rd, base);

	remove_dpdk(rd->shared);
	for (size_t i = 0; i < HK_ARRAY_LEN(file) - !all; i++)
		remove_file(rd, base, file[i]);
	return all;
}

/* Removes the lock of a rank that was killed while it started a daemon. */
static void remove_start(int base, const char *file)
{
	int fd = lock_at(base, file, 0, NULL);

	if (fd < 0)
		return;
	(void)unlinkat(base, file, 0);
	close(fd);
}

void hk_rundir_remove(const struct hk_rundir *rd)
{
	int base = open_base(rd, false, NULL);
	char start[128];

	if (base < 0)
		return;
	if (clear(rd, base)) {
		remove_file(rd, base, "lock");
		(void)unlinkat(base, rd->name, AT_REMOVEDIR);
		snprintf(start, sizeof(start), "%s.start", rd->name);
		remove_start(base, start);
		if (!rd->base_given)
			(void)hk_private_remove(rd->base); /* only after the last daemon */
	}
	close(base);
}

/* As hk_rundir_claim(), with the descriptor of BASE. -ENOENT: somebody has just removed it. */
static int claim_at(const struct hk_rundir *rd, int base, int64_t deadline, struct hk_error *err)
{
	char file[128];
	int rc = hk_private_dir_open(base, rd->name, true, "HIKYAKU_RUNDIR", err);

	if (rc < 0)
		return rc;
	close(rc);
	snprintf(file, sizeof(file), "%s/lock", rd->name);
	rc = lock_at(base, file, deadline, err);
	if (rc == -EWOULDBLOCK)
		return hk_error_set(
			err, rc,
			"another hikyakud '%s' runs (it holds %s/lock); fix: use it, or end it: "
			"hikyaku daemon stop --name %s",
			rd->name, rd->dir, rd->name);
	if (rc >= 0)
		(void)clear(rd, base);
	return rc;
}

int hk_rundir_claim(const struct hk_rundir *rd, int64_t deadline, struct hk_error *err)
{
	for (;;) {
		int base = open_base(rd, true, err);
		int rc = base < 0 ? base : claim_at(rd, base, deadline, err);

		if (base >= 0)
			close(base);
		if (rc != -ENOENT || hk_clock_ms() >= deadline)
			return rc;
	}
}

void hk_rundir_clean(const struct hk_rundir *rd)
{
	int lock = hk_rundir_claim(rd, hk_clock_ms() + 1000, NULL); /* the janitor may have it */

	if (lock < 0)
		return;
	hk_rundir_remove(rd);
	close(lock);
}

unsigned hk_rundir_sweep(void)
{
	struct hk_rundir own, rd;
	unsigned removed = 0;

	if (hk_rundir_find(HK_RUNDIR_DEFAULT, &own, NULL) != 0)
		return 0;
	int base = open_base(&own, false, NULL);
	DIR *d = base < 0 ? NULL : fdopendir(base);
	if (!d) {
		if (base >= 0)
			close(base);
		return 0;
	}
	struct dirent *e;
	while ((e = readdir(d)) != NULL) {
		char lock[sizeof(e->d_name) + sizeof("/lock")];
		size_t len = strlen(e->d_name);
		if (e->d_type == DT_REG && len > 6 && strcmp(e->d_name + len - 6, ".start") == 0) {
			remove_start(base, e->d_name);
			continue;
		}
		if (e->d_type != DT_DIR || !is_valid_name(e->d_name) ||
		    hk_rundir_find(e->d_name, &rd, NULL) != 0)
			continue;
		/* only directories of daemons: HIKYAKU_RUNDIR may contain others */
		snprintf(lock, sizeof(lock), "%s/lock", e->d_name);
		if (faccessat(base, lock, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		int fd = lock_at(base, lock, 0, NULL);
		if (fd < 0)
			continue;
		hk_rundir_remove(&rd);
		close(fd);
		removed++;
	}
	closedir(d);
	return removed;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/rundir.c: finds, claims and removes run directories.
 */
#include "hostd/rundir.h"
#include "hostd/control.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

static uint32_t hash(const char *text)
{
	uint32_t h = 2166136261; /* FNV-1a */

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619;
	return h;
}

void hk_rundir_job_name(uint32_t job_key, char name[HK_RUNDIR_NAME_MAX + 1])
{
	char host[256];

	hk_rundir_host(host, sizeof(host));
	if (strlen(host) > HOST_MAX) {
		uint32_t h = hash(host);
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
	int n;

	*rd = (struct hk_rundir){.base_given = given && given[0]};
	if (!is_valid_name(name))
		return hk_error_set(
			err, -EINVAL,
			"'%s' is not a valid name of a daemon; fix: use at most %d letters, "
			"digits, '-', '_' and '.'",
			name, HK_RUNDIR_NAME_MAX);
	if (rd->base_given)
		n = snprintf(rd->base, sizeof(rd->base), "%s", given);
	else if (uid == 0)
		n = snprintf(rd->base, sizeof(rd->base), "/run/hikyaku");
	else
		n = snprintf(rd->base, sizeof(rd->base), "/tmp/hikyaku-%u", uid);
	if (n >= (int)sizeof(rd->base) || rd->base[0] != '/')
		return hk_error_set(err, -EINVAL,
				    "HIKYAKU_RUNDIR is '%s'; fix: set it to an absolute path of at "
				    "most %zu bytes",
				    given, sizeof(rd->base) - 1);
	snprintf(rd->name, sizeof(rd->name), "%s", name);
	snprintf(rd->dir, sizeof(rd->dir), "%s/%s", rd->base, rd->name);
	/* depends on the base, too: daemons of one name in two bases must not share memory */
	snprintf(rd->shared, sizeof(rd->shared), "hk%u-%s-%08x", uid, rd->name, hash(rd->base));
	return 0;
}

void hk_rundir_path(const struct hk_rundir *rd, const char *file, char out[128])
{
	snprintf(out, 128, "%s/%s", rd->dir, file);
}

/* ---- directories --------------------------------------------------------------------------- */

/* Fails if @path is not a directory of this user alone: in /tmp, others may have created it. */
static int check_private(const char *path, struct hk_error *err)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		return hk_error_set(err, -errno, "cannot access the run directory %s: %s", path,
				    strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return hk_error_set(
			err, -ENOTDIR,
			"%s is not a directory; fix: remove it, or set HIKYAKU_RUNDIR to a "
			"directory of your own",
			path);
	if (st.st_uid != geteuid())
		return hk_error_set(err, -EPERM,
				    "the run directory %s belongs to user %u, but this process to "
				    "user %u; fix: set HIKYAKU_RUNDIR to a directory of your own",
				    path, st.st_uid, geteuid());
	if (st.st_mode & 022)
		return hk_error_set(err, -EPERM,
				    "others may write to the run directory %s; fix: chmod 700 %s",
				    path, path);
	return 0;
}

int hk_rundir_check_base(const struct hk_rundir *rd, struct hk_error *err)
{
	return check_private(rd->base, err);
}

int hk_rundir_make_base(const struct hk_rundir *rd, struct hk_error *err)
{
	if (mkdir(rd->base, 0700) != 0 && errno != EEXIST)
		return hk_error_set(
			err, -errno,
			"cannot create the run directory %s: %s; fix: set HIKYAKU_RUNDIR "
			"to a directory that user %u may create",
			rd->base, strerror(errno), geteuid());
	return check_private(rd->base, err);
}

/* ---- locks --------------------------------------------------------------------------------- */

/* True if the locked file @fd is still at @path. The last holder may have removed it. */
static bool is_still_there(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_ino == b.st_ino &&
	       a.st_dev == b.st_dev;
}

int hk_rundir_lock(const char *path, int64_t deadline, struct hk_error *err)
{
	for (;;) {
		int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0)
			return hk_error_set(err, -errno, "cannot open the lock %s: %s", path,
					    strerror(errno));
		if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
			if (is_still_there(fd, path))
				return fd;
			close(fd);
			continue;
		}
		int rc = -errno;
		close(fd);
		if (rc == -EINTR)
			continue;
		if (rc != -EWOULDBLOCK)
			return hk_error_set(err, rc, "cannot lock %s: %s", path, strerror(-rc));
		if (hk_clock_ms() >= deadline)
			return hk_error_set(err, rc, "another process holds the lock %s", path);
		struct timespec t = {.tv_nsec = LOCK_PERIOD_MS * 1000000};
		nanosleep(&t, NULL);
	}
}

/* ---- the files of a dead daemon ------------------------------------------------------------ */

/* Removes this user's files in @dir whose names start with @prefix. */
static void remove_files(const char *dir, const char *prefix)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	struct stat st;

	if (!d)
		return;
	while ((e = readdir(d)) != NULL)
		if (strncmp(e->d_name, prefix, strlen(prefix)) == 0 &&
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !S_ISDIR(st.st_mode) && st.st_uid == geteuid())
			unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
}

static void remove_dpdk(const char *shared)
{
	const char *base[] = {secure_getenv("RUNTIME_DIRECTORY"), secure_getenv("XDG_RUNTIME_DIR"),
			      "/var/run", "/tmp"};
	char path[512];

	for (size_t i = 0; i < HK_ARRAY_LEN(base); i++) {
		if (!base[i] || !base[i][0])
			continue;
		int n = snprintf(path, sizeof(path), "%s/dpdk/%s", base[i], shared);
		struct stat st;
		if (n >= (int)sizeof(path))
			continue;
		if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid()) {
			remove_files(path, "");
			rmdir(path);
		}
		/* rmdir() removes the parent only if no other program uses it */
		path[n - (int)strlen(shared) - 1] = '\0';
		rmdir(path);
	}

	FILE *mounts = setmntent("/proc/self/mounts", "re");
	if (!mounts)
		return;
	struct mntent *m;
	/* with the underscore, "hk0-a" does not match the files of "hk0-ab" */
	snprintf(path, sizeof(path), "%smap_", shared);
	while ((m = getmntent(mounts)) != NULL)
		if (strcmp(m->mnt_type, "hugetlbfs") == 0)
			remove_files(m->mnt_dir, path);
	endmntent(mounts);
}

/* Removes the sockets and empty directories (cgroups) that hk_rundir_note() has noted. False: a
 * cgroup is still busy, since processes in it are just ending. */
static bool remove_noted(const struct hk_rundir *rd)
{
	char path[128], line[512];
	bool all = true;
	struct stat st;

	hk_rundir_path(rd, "leftovers", path);
	FILE *f = fopen(path, "re");
	if (!f)
		return true;
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] != '/' || lstat(line, &st) != 0 || st.st_uid != geteuid())
			continue;
		if (S_ISSOCK(st.st_mode))
			unlink(line);
		else if (S_ISDIR(st.st_mode) && rmdir(line) != 0 && errno == EBUSY)
			all = false;
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

/* Removes everything except the lock. False: also `leftovers` stays, since one of them does. */
static bool clear(const struct hk_rundir *rd)
{
	static const char *const file[] = {"control", "tagger", "log", "leftovers"};
	char path[128];
	bool all = remove_noted(rd);

	remove_dpdk(rd->shared);
	for (size_t i = 0; i < HK_ARRAY_LEN(file) - !all; i++) {
		hk_rundir_path(rd, file[i], path);
		unlink(path);
	}
	return all;
}

/* Removes the lock of a rank that was killed while it started a daemon. */
static void remove_start(const char *base, const char *name)
{
	char path[400];

	snprintf(path, sizeof(path), "%s/%s", base, name);
	int fd = hk_rundir_lock(path, 0, NULL);
	if (fd < 0)
		return;
	unlink(path);
	close(fd);
}

void hk_rundir_remove(const struct hk_rundir *rd)
{
	char path[128];

	if (!clear(rd))
		return;
	hk_rundir_path(rd, "lock", path);
	unlink(path);
	rmdir(rd->dir);
	snprintf(path, sizeof(path), "%s.start", rd->name);
	remove_start(rd->base, path);
	if (!rd->base_given)
		rmdir(rd->base); /* succeeds only after the last daemon */
}

int hk_rundir_claim(const struct hk_rundir *rd, int64_t deadline, struct hk_error *err)
{
	char path[128];

	hk_rundir_path(rd, "lock", path);
	for (;;) {
		int rc = hk_rundir_make_base(rd, err);
		if (rc)
			return rc;
		if (mkdir(rd->dir, 0700) != 0 && errno != EEXIST) {
			if (errno == ENOENT) /* another daemon has just removed the base */
				continue;
			return hk_error_set(err, -errno, "cannot create the run directory %s: %s",
					    rd->dir, strerror(errno));
		}
		rc = check_private(rd->dir, err);
		if (rc == -ENOENT)
			continue;
		if (rc)
			return rc;
		int fd = hk_rundir_lock(path, deadline, err);
		if (fd == -ENOENT && hk_clock_ms() < deadline)
			continue; /* a janitor has just removed it */
		if (fd == -EWOULDBLOCK)
			return hk_error_set(
				err, fd,
				"another hikyakud '%s' runs (it holds %s); fix: use it, "
				"or end it: hikyaku daemon stop --name %s",
				rd->name, path, rd->name);
		if (fd >= 0)
			(void)clear(rd);
		return fd;
	}
}

unsigned hk_rundir_sweep(void)
{
	struct hk_rundir base, rd;
	unsigned removed = 0;

	if (hk_rundir_find(HK_RUNDIR_DEFAULT, &base, NULL) != 0 ||
	    hk_rundir_check_base(&base, NULL) != 0)
		return 0;
	DIR *d = opendir(base.base);
	if (!d)
		return 0;
	struct dirent *e;
	while ((e = readdir(d)) != NULL) {
		char path[128];
		size_t len = strlen(e->d_name);
		if (e->d_type == DT_REG && len > 6 && strcmp(e->d_name + len - 6, ".start") == 0) {
			remove_start(base.base, e->d_name);
			continue;
		}
		if (e->d_type != DT_DIR || !is_valid_name(e->d_name) ||
		    hk_rundir_find(e->d_name, &rd, NULL) != 0)
			continue;
		/* only directories of daemons: HIKYAKU_RUNDIR may contain others */
		hk_rundir_path(&rd, "lock", path);
		if (access(path, F_OK) != 0)
			continue;
		int fd = hk_rundir_lock(path, 0, NULL);
		if (fd < 0)
			continue;
		hk_rundir_remove(&rd);
		close(fd);
		removed++;
	}
	closedir(d);
	return removed;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/nic/region.c: makes, finds and removes regions.
 */
#include "devmem/nic/region.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PERIOD_NS 1000000 /* between two looks for a region */

static const char *const variants[HK_NIC_VARIANTS] = {
	[HK_NIC_WR] = "wr", [HK_NIC_RD] = "rd", [HK_NIC_BN] = "bn", [HK_NIC_PKTPIT] = "pktpit"};

const char *hk_nic_variant_name(enum hk_nic_variant v)
{
	return variants[v];
}

int hk_nic_variant_parse(const char *name)
{
	for (unsigned i = 0; i < HK_ARRAY_LEN(variants); i++)
		if (strcmp(variants[i], name) == 0)
			return (int)i;
	return -1;
}

static int path_of(const char *dir, const char *name, struct hk_nic_region *r, struct hk_error *err)
{
	*r = (struct hk_nic_region){.fd = -1};
	if (snprintf(r->path, sizeof(r->path), "%s/%s", dir, name) >= (int)sizeof(r->path) - 8)
		return hk_error_set(err, -ENAMETOOLONG,
				    "the path of the directory %s is too long; fix: use a shorter "
				    "one",
				    dir);
	return 0;
}

static int map(struct hk_nic_region *r, uint32_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	r->header = p;
	r->size = size;
	return 0;
}

/* Whether a process holds the lock of the open file. */
static bool locked(int fd)
{
	if (flock(fd, LOCK_SH | LOCK_NB) != 0)
		return true;
	flock(fd, LOCK_UN);
	return false;
}

int hk_nic_region_make(const char *dir, const char *name, uint32_t size,
		       const struct hk_nic_header *header, struct hk_nic_region *out,
		       struct hk_error *err)
{
	char made[sizeof(out->path) + 8];
	int rc = path_of(dir, name, out, err);

	if (rc)
		return rc;
	int old = open(out->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	bool busy = old >= 0 && locked(old);
	if (old >= 0)
		close(old);
	if (busy)
		return hk_error_set(err, -EBUSY,
				    "another process owns %s; fix: end it, or use another "
				    "directory",
				    out->path);
	snprintf(made, sizeof(made), "%s.new", out->path);
	(void)unlink(made);
	out->fd = open(made, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out->fd < 0)
		return hk_error_set(err, -errno,
				    "cannot make %s: %s; fix: name a directory for "
				    "the NICs by --dir",
				    made, strerror(errno));
	if (flock(out->fd, LOCK_EX | LOCK_NB) != 0 || ftruncate(out->fd, size) != 0)
		rc = -errno;
	if (rc == 0)
		rc = map(out, size);
	if (rc == 0) {
		*out->header = *header;
		out->header->magic = HK_NIC_MAGIC;
		out->header->size = size;
		if (rename(made, out->path) != 0)
			rc = -errno;
	}
	if (rc == 0) {
		out->owner = true;
		return 0;
	}
	(void)unlink(made);
	hk_nic_region_close(out);
	return hk_error_set(err, rc,
			    "cannot make %s: %s; fix: free memory, or use another "
			    "directory",
			    made, strerror(-rc));
}

/* Returns 0; -ENOENT: there is none yet, or that of a dead process. */
static int try_map(uint32_t size, const struct hk_nic_header *header, struct hk_nic_region *r)
{
	struct stat st;

	r->fd = open(r->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (r->fd < 0)
		return -errno;
	int rc = locked(r->fd) ? 0 : -ENOENT;
	if (rc == 0 && (fstat(r->fd, &st) != 0 || st.st_size != (off_t)size))
		rc = -EPROTO;
	if (rc == 0)
		rc = map(r, size);
	if (rc == 0 && (r->header->magic != HK_NIC_MAGIC || r->header->size != size ||
			r->header->variant != header->variant || r->header->nics != header->nics))
		rc = -EPROTO;
	if (rc)
		hk_nic_region_close(r);
	return rc;
}

int hk_nic_region_map(const char *dir, const char *name, uint32_t size,
		      const struct hk_nic_header *header, int64_t deadline,
		      struct hk_nic_region *out, struct hk_error *err)
{
	const struct timespec period = {.tv_nsec = PERIOD_NS};
	int rc = path_of(dir, name, out, err);

	if (rc)
		return rc;
	while ((rc = try_map(size, header, out)) == -ENOENT && hk_clock_ms() < deadline)
		nanosleep(&period, NULL);
	if (rc == -ENOENT)
		return hk_error_set(err, -ETIMEDOUT,
				    "no process has made %s; fix: start it with the same --dir, "
				    "or let this one --wait longer",
				    out->path);
	if (rc == -EPROTO)
		return hk_error_set(err, rc,
				    "%s is of another variant, number of NICs or release; fix: "
				    "start all processes of a router with the same options",
				    out->path);
	return rc ? hk_error_set(err, rc,
				 "cannot map %s: %s; fix: run all processes of a router "
				 "as one user",
				 out->path, strerror(-rc))
		  : 0;
}

enum hk_nic_owner hk_nic_region_owner(const struct hk_nic_region *r)
{
	if (atomic_load_explicit(&r->header->left, memory_order_acquire))
		return HK_NIC_LEFT;
	if (locked(r->fd))
		return HK_NIC_LIVES;
	/* the owner may have left since the first look */
	return atomic_load_explicit(&r->header->left, memory_order_acquire) ? HK_NIC_LEFT
									    : HK_NIC_DEAD;
}

void hk_nic_region_close(struct hk_nic_region *r)
{
	if (r->owner) {
		atomic_store_explicit(&r->header->left, 1, memory_order_release);
		(void)unlink(r->path);
	}
	if (r->header)
		munmap(r->header, r->size);
	if (r->path[0] && r->fd >= 0)
		close(r->fd);
	r->header = NULL;
	r->owner = false;
	r->fd = -1;
}

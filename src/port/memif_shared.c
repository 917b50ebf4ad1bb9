/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/memif_shared.c: a memif whose queues a secondary polls.
 *
 * DESIGN NOTES
 *
 * Problem: a secondary shall poll queues of the primary's memif safely. In drivers/net/memif of
 * DPDK 22.11 the queue structures lie in DPDK's shared memory. Rings and buffers lie in a memfd
 * that each process maps for itself. A secondary's first rx or tx finds nothing mapped. It asks the
 * primary 256 times, once for each possible region, and maps what it gets.
 *
 * Approach:
 *  1. Otherwise the driver would ask during rx, and if an answer were missing, the next poll would
 *     use an address that was never mapped. So hk_port_attach() has everything mapped before the
 *     first poll. It checks /proc/self/maps, because the driver does not report a failure.
 *  2. Each queue has an eventfd with which a sender wakes a receiver, and the shared structure
 *     contains its *number*. In a secondary this number may belong to a file or socket of the
 *     application. The driver does not use it while the ring's flag "no interrupts" is set. Each
 *     receiver sets that flag for its own rings when it connects, but a server may poll a moment
 *     before its client has connected. So this file sets the flag for all rings. That is safe: the
 *     driver always polls, and each receiver would write the same value.
 *  3. The primary answers from its control thread, which has no lock against the thread that unmaps
 *     the rings when the peer leaves. The guard (memif_guard.c) keeps the rings mapped, so the two
 *     never collide once it is armed. hk_port_attach() waits for that.
 *  4. No event at the peer or the primary changes this process's mapping. The driver unmaps it only
 *     when a caller asks for the link's state while the link is down, and nobody asks here.
 */
#include "port/internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>

#define REGION_ACTION "memif_mp_send_region"

/* The driver's message: request and reply. */
struct region_msg {
	char port_name[64];
	uint16_t idx;
	uint64_t size;
};

static int fetch_region(const char *device, int64_t deadline, int *fd, uint64_t *size)
{
	struct rte_mp_msg msg;
	struct rte_mp_reply replies = {0};
	struct region_msg request, reply;
	int64_t left = HK_MAX(1, deadline - hk_clock_ms());
	struct timespec limit = {left / 1000, left % 1000 * 1000000};

	memset(&msg, 0, sizeof(msg));
	memset(&request, 0, sizeof(request));
	snprintf(msg.name, sizeof(msg.name), "%s", REGION_ACTION);
	snprintf(request.port_name, sizeof(request.port_name), "%s", device);
	memcpy(msg.param, &request, sizeof(request));
	msg.len_param = sizeof(request);

	*fd = -1;
	if (rte_mp_request_sync(&msg, &replies, &limit) < 0)
		return rte_errno == ETIMEDOUT ? -ETIMEDOUT : -EPIPE;
	int rc = -EPIPE;
	if (replies.nb_received == 1 && replies.msgs[0].len_param == (int)sizeof(reply)) {
		memcpy(&reply, replies.msgs[0].param, sizeof(reply));
		rc = -ENOTCONN;
		if (reply.size && replies.msgs[0].num_fds == 1) {
			*fd = replies.msgs[0].fds[0];
			*size = reply.size;
			rc = 0;
		}
	} else if (replies.nb_received == 1) {
		rc = -EPROTO;
	}
	free(replies.msgs);
	return rc;
}

static int mask_interrupts(void *at, size_t size, unsigned queues)
{
	struct hk_memif_rings rings;
	int rc = hk_memif_rings_find(at, size, 2 * queues, &rings);

	if (rc == 0)
		hk_memif_rings_mask_interrupts(&rings);
	return rc;
}

int hk_memif_shared_prepare(const char *spec, const char *device, unsigned queues, int64_t deadline,
			    struct hk_memif_memory *mem, struct hk_error *err)
{
	struct stat st;
	uint64_t size = 0;
	int fd, rc = fetch_region(device, deadline, &fd, &size);
	if (rc == 0 && (fstat(fd, &st) != 0 || (uint64_t)st.st_size < size))
		rc = -EPROTO;
	if (rc == 0) {
		mem->dev = st.st_dev;
		mem->ino = st.st_ino;
		void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		rc = at == MAP_FAILED ? -errno : mask_interrupts(at, size, queues);
		if (at != MAP_FAILED)
			munmap(at, size);
	}
	if (fd >= 0)
		close(fd);
	if (rc == 0)
		return 0;
	return hk_error_set(err, rc, "port %s: cannot use its rings in this process: %s; fix: %s",
			    spec,
			    rc == -EPIPE       ? "the primary process has ended"
			    : rc == -ETIMEDOUT ? "the primary process does not answer"
			    : rc == -ENOTCONN  ? "the wire is not connected"
			    : rc == -EPROTO    ? "they differ from those of DPDK's driver"
					       : strerror(-rc),
			    rc == -EPROTO ? "use the same DPDK in all processes"
					  : "see what the primary process is doing");
}

/* ---- mappings of this process --------------------------------------------------------------- */

static void *find_mapping(const struct hk_memif_memory *mem, size_t *len)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	void *found = NULL;
	while (maps && !found && fgets(line, sizeof(line), maps)) {
		unsigned long from, to, ino;
		unsigned major, minor;
		if (sscanf(line, "%lx-%lx %*s %*x %x:%x %lu", &from, &to, &major, &minor, &ino) ==
			    5 &&
		    ino == mem->ino && strstr(line, "memif_region")) {
			found = (void *)from;
			*len = to - from;
		}
	}
	if (maps)
		fclose(maps);
	return found;
}

bool hk_memif_shared_mapped(const struct hk_memif_memory *mem)
{
	size_t len;
	return find_mapping(mem, &len) != NULL;
}

int hk_memif_shared_rings(const struct hk_memif_memory *mem, unsigned queues,
			  struct hk_memif_rings *rings)
{
	size_t len = 0;
	void *at = find_mapping(mem, &len);

	return at ? hk_memif_rings_find(at, len, 2 * queues, rings) : -EPIPE;
}

void hk_memif_shared_unmap(const struct hk_memif_memory *mem)
{
	size_t len;
	for (void *at; (at = find_mapping(mem, &len));)
		if (munmap(at, len) != 0)
			break;
	DIR *d = opendir("/proc/self/fd");
	for (struct dirent *e; d && (e = readdir(d));) {
		struct stat st;
		char *last;
		int fd = (int)strtol(e->d_name, &last, 10);
		if (!*last && fd != dirfd(d) && fstat(fd, &st) == 0 && st.st_dev == mem->dev &&
		    st.st_ino == mem->ino)
			close(fd);
	}
	if (d)
		closedir(d);
}

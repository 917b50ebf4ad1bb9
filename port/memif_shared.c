/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/memif_shared.c: a memif whose queues a secondary process polls.
 *
 * What was looked at (drivers/net/memif of DPDK 22.11). The queue structures lie in DPDK's shared memory,
 * the rings and buffers in a memfd that each process maps for itself. A secondary's first rx or tx
 * finds nothing mapped, asks the primary 256 times (once for each region that there could be) and maps
 * what it gets. Four things follow:
 *
 * 1. Polling would ask in the middle of rx, and if an answer were missing, the next poll would use an
 *    address that was never mapped. So all is fetched before the first poll, and looked at in
 *    /proc/self/maps, since the driver keeps its failure to itself.
 * 2. Each queue has an eventfd, by which a sender wakes a receiver, and its *number* lies in the shared
 *    structure. A secondary that reads or writes it hits whatever has that number here: a file, or
 *    a socket of the application. The driver leaves it alone while the ring's flag "no
 *    interrupts" is set, which each receiver sets for its own rings when it connects; a server
 *    may poll a moment before its client has done so. So the flag is set here for all rings:
 *    the driver always polls, and the receiver would write the same.
 * 3. The primary answers from its control thread, without a lock against the thread that unmaps the rings
 *    when the peer leaves. Since the guard (memif_guard.c) keeps them mapped, that cannot meet, if
 *    nobody attaches before the guard is armed: hk_port_attach() waits for that.
 * 4. Nothing that happens to peer or primary reaches this process's mapping: the driver unmaps it
 *    only when asked for the link's state while that is down, which nobody asks here.
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

/* The question and its answer, as the driver has them. */
struct region_msg {
	char port_name[64];
	uint16_t idx;
	uint64_t size;
};

/* A ring, as the memif protocol defines it. */
#define RING_COOKIE   0x3E31F20
#define RING_NO_INTR  1
#define RING_HEAD_LEN 128u
#define RING_DESC_LEN 16u
struct ring_head {
	uint32_t cookie;
	uint16_t flags;
};

static int fetch(const char *device, int64_t deadline, int *fd, uint64_t *size)
{
	struct rte_mp_msg msg;
	struct rte_mp_reply replies = {0};
	struct region_msg question, answer;
	int64_t left = HK_MAX(1, deadline - hk_now_ms());
	struct timespec limit = {left / 1000, left % 1000 * 1000000};

	memset(&msg, 0, sizeof(msg));
	memset(&question, 0, sizeof(question));
	snprintf(msg.name, sizeof(msg.name), "%s", REGION_ACTION);
	snprintf(question.port_name, sizeof(question.port_name), "%s", device);
	memcpy(msg.param, &question, sizeof(question));
	msg.len_param = sizeof(question);

	*fd = -1;
	if (rte_mp_request_sync(&msg, &replies, &limit) < 0)
		return rte_errno == ETIMEDOUT ? -ETIMEDOUT : -EPIPE;
	int rc = -EPIPE;
	if (replies.nb_received == 1 && replies.msgs[0].len_param == (int)sizeof(answer)) {
		memcpy(&answer, replies.msgs[0].param, sizeof(answer));
		rc = -ENOTCONN;
		if (answer.size && replies.msgs[0].num_fds == 1) {
			*fd = replies.msgs[0].fds[0];
			*size = answer.size;
			rc = 0;
		}
	} else if (replies.nb_received == 1) {
		rc = -EPROTO;
	}
	free(replies.msgs);
	return rc;
}

/* Sets the flag in each of @rings rings, which lie one behind the other at the start of the memory. All
 * are as long, so the second cookie tells the length. */
static int mask_interrupts(uint8_t *at, size_t size, unsigned rings)
{
	struct ring_head *first = (struct ring_head *)at;
	size_t len = 0;
	for (unsigned l = 0; l <= 14 && !len; l++) { /* the driver's longest has 2^14 */
		size_t try = RING_HEAD_LEN + ((size_t)RING_DESC_LEN << l);
		if (try * rings <= size && ((struct ring_head *)(at + try))->cookie == RING_COOKIE)
			len = try;
	}
	if (!len || first->cookie != RING_COOKIE)
		return -EPROTO;
	for (unsigned r = 0; r < rings; r++) {
		struct ring_head *ring = (struct ring_head *)(at + r * len);
		if (ring->cookie != RING_COOKIE)
			return -EPROTO;
		__atomic_or_fetch(&ring->flags, RING_NO_INTR, __ATOMIC_RELEASE);
	}
	return 0;
}

int hk_memif_shared_prepare(const char *spec, const char *device, unsigned queues, int64_t deadline,
			    struct hk_memif_memory *mem, struct hk_error *err)
{
	struct stat st;
	uint64_t size = 0;
	int fd, rc = fetch(device, deadline, &fd, &size);
	if (rc == 0 && (fstat(fd, &st) != 0 || (uint64_t)st.st_size < size))
		rc = -EPROTO;
	if (rc == 0) {
		mem->dev = st.st_dev;
		mem->ino = st.st_ino;
		void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		rc = at == MAP_FAILED ? -errno : mask_interrupts(at, size, 2 * queues);
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
			    : rc == -EPROTO    ? "they are not what DPDK's driver makes"
					       : strerror(-rc),
			    rc == -EPROTO ? "use the same DPDK in all processes"
					  : "see what the primary process is doing");
}

/* ---- what is mapped here ---------------------------------------------------------------------- */

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

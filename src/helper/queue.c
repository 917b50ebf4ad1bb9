/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/queue.c: AF_XDP sockets and their memory. See helper/queue.h.
 */
#include "helper/queue.h"
#include "helper/fix.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_xdp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#define SO_BUSY_POLL_BUDGET 70
#endif

#define BUSY_POLL_USEC 20
#define OWN_RING       2 /* the queue's socket must have a ring of its own; nothing arrives there */

static int set_ring(int fd, int which, uint32_t entries)
{
	return setsockopt(fd, SOL_XDP, which, &entries, sizeof(entries));
}

static int bind_to(int fd, const struct hk_queue *q, uint16_t flags, int owner)
{
	struct sockaddr_xdp at = {.sxdp_family = AF_XDP,
				  .sxdp_flags = flags,
				  .sxdp_ifindex = q->interface->index,
				  .sxdp_queue_id = q->number,
				  .sxdp_shared_umem_fd = owner >= 0 ? (uint32_t)owner : 0};

	return bind(fd, (struct sockaddr *)&at, sizeof(at));
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int make_memory(struct hk_queue *q, struct hk_error *err)
{
	size_t bytes = hk_umem_bytes(q->chunks);

	q->memory = memfd_create(HK_HELPER_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (q->memory >= 0 && ftruncate(q->memory, (off_t)bytes) == 0 &&
	    fcntl(q->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		q->mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, q->memory, 0);
	if (!q->mapped || q->mapped == MAP_FAILED) {
		q->mapped = NULL;
		return hk_error_set(err, -ENOMEM, "no memory for %zu MB of packet buffers",
				    bytes >> 20);
	}
	q->shared = (void *)((char *)q->mapped + (size_t)q->chunks * HK_CHUNK);
	for (uint32_t i = 0; i < q->chunks; i++)
		atomic_init(&q->shared->next[i], i + 1 < q->chunks ? i + 2 : 0);
	atomic_init(&q->shared->free, 1);
	return 0;
}

/* ---- sockets --------------------------------------------------------------------------------- */

static int socket_error(const struct hk_queue *q, const char *what, struct hk_error *err)
{
	int rc = -errno;
	const char *name = q->interface->name;

	switch (rc) {
	case -EAFNOSUPPORT:
		return hk_error_set(err, rc,
				    "this kernel has no AF_XDP; fix: use af_packet:iface=%s", name);
	case -EBUSY:
		return hk_error_set(err, -EAGAIN,
				    "another process has an AF_XDP socket on queue %u of %s; fix: "
				    "end it%s",
				    q->number, name, hk_fix_or_udp(name));
	case -EINVAL:
		return hk_error_set(err, rc,
				    "%s has no queue %u (%s); fix: see ethtool -l %s, or leave out "
				    "queue=",
				    name, q->number, what, name);
	case -ENOBUFS:
		return hk_error_set(err, rc,
				    "hikyaku-helper may not lock %u MB of memory; fix: give it "
				    "cap_ipc_lock, or raise its ulimit -l",
				    q->chunks * (HK_CHUNK >> 10) >> 10);
	default:
		return hk_error_set(
			err, rc, "AF_XDP on queue %u of %s: %s: %s; fix: use af_packet:iface=%s%s",
			q->number, name, what, strerror(-rc), name, hk_fix_or_udp(name));
	}
}

static int make_socket(struct hk_queue *q, bool copy, struct hk_error *err)
{
	struct xdp_umem_reg umem = {.addr = (uint64_t)(uintptr_t)q->mapped,
				    .len = (uint64_t)q->chunks * HK_CHUNK,
				    .chunk_size = HK_CHUNK};
	struct xdp_options options = {0};
	socklen_t len = sizeof(options);

	q->socket = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (q->socket < 0)
		return socket_error(q, "no socket", err);
	if (setsockopt(q->socket, SOL_XDP, XDP_UMEM_REG, &umem, sizeof(umem)) != 0)
		return socket_error(q, "no umem", err);
	if (set_ring(q->socket, XDP_UMEM_FILL_RING, HK_XSK_FILL) != 0 ||
	    set_ring(q->socket, XDP_UMEM_COMPLETION_RING, HK_XSK_FILL) != 0 ||
	    set_ring(q->socket, XDP_RX_RING, OWN_RING) != 0)
		return socket_error(q, "no rings", err);
	if (bind_to(q->socket, q, (uint16_t)(XDP_USE_NEED_WAKEUP | (copy ? XDP_COPY : 0)), -1) != 0)
		return socket_error(q, "cannot bind", err);
	if (getsockopt(q->socket, SOL_XDP, XDP_OPTIONS, &options, &len) == 0)
		q->zero = options.flags & XDP_OPTIONS_ZEROCOPY;
	return 0;
}

int hk_queue_open(struct hk_queue *q, struct hk_interface *i,
		  const struct hk_helper_request *request, struct hk_error *err)
{
	*q = (struct hk_queue){
		.interface = i,
		.number = request->queue,
		.sharers = request->sharers,
		.chunks = hk_umem_chunks(request->sharers),
		.rx_ring = request->sharers > 1 ? HK_XSK_RX_SHARED : HK_XSK_RX,
		.socket = -1,
		.memory = -1,
	};
	int rc = make_memory(q, err);

	if (rc == 0)
		rc = make_socket(q, request->copy, err);
	if (rc)
		hk_queue_close(q);
	return rc;
}

void hk_queue_close(struct hk_queue *q)
{
	if (q->socket >= 0)
		close(q->socket);
	if (q->mapped)
		munmap(q->mapped, hk_umem_bytes(q->chunks));
	if (q->memory >= 0)
		close(q->memory);
	q->interface = NULL;
}

static int set_busy(int fd, uint32_t budget)
{
	int on = 1, usec = BUSY_POLL_USEC, packets = (int)budget;

	if (setsockopt(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, &on, sizeof(on)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &usec, sizeof(usec)) != 0)
		return -1;
	return setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL_BUDGET, &packets, sizeof(packets));
}

int hk_queue_socket(struct hk_queue *q, const struct hk_helper_request *request,
		    struct hk_error *err)
{
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return socket_error(q, "no socket", err);
	int rc = 0;

	if (set_ring(fd, XDP_RX_RING, q->rx_ring) != 0 || set_ring(fd, XDP_TX_RING, HK_XSK_TX) != 0)
		rc = socket_error(q, "no rings", err);
	else if (bind_to(fd, q, XDP_SHARED_UMEM, q->socket) != 0)
		rc = socket_error(q, "cannot bind", err);
	else if (request->busy && set_busy(fd, request->busy) != 0)
		rc = hk_error_set(err, -errno,
				  "%s cannot be polled busily: %s; fix: leave out busy=",
				  q->interface->name, strerror(errno));
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

void hk_queue_release(struct hk_queue *q, uint32_t slot)
{
	uint32_t held = slot;

	(void)atomic_compare_exchange_strong(&q->shared->fill_lock, &held, 0);
	held = slot;
	(void)atomic_compare_exchange_strong(&q->shared->completion_lock, &held, 0);
}

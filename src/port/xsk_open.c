/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/xsk_open.c: opening and closing a port on an AF_XDP socket. See port/xsk.h.
 */
#include "port/xsk.h"
#include "port/number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/if_xdp.h>

#define CHUNKS_MAX (1u << 20)         /* 4 GB */
#define BUFFERS    (2 * HK_XSK_BATCH) /* of bursts, besides those of the caller */
#define SOON_MS    3000
#define ANSWER_MS  1000
#define CLAIM_MS   5000

/* ---- mapping --------------------------------------------------------------------------------- */

static int map_ring(struct hk_xsk_ring *r, int fd, const struct xdp_ring_offset *at,
		    uint32_t entries, size_t entry_size, uint64_t page_offset)
{
	r->mapped_bytes = at->desc + entries * entry_size;
	r->mapped = mmap(NULL, r->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			 fd, (off_t)page_offset);
	if (r->mapped == MAP_FAILED) {
		r->mapped = NULL;
		return -errno;
	}
	char *base = r->mapped;

	r->producer = (void *)(base + at->producer);
	r->consumer = (void *)(base + at->consumer);
	r->flags = (void *)(base + at->flags);
	r->entry = base + at->desc;
	r->size = entries;
	return 0;
}

static int map_rings(struct hk_xsk *x, int queue, uint32_t rx_ring)
{
	struct xdp_mmap_offsets own, shared;
	socklen_t own_len = sizeof(own), shared_len = sizeof(shared);

	if (getsockopt(x->fd, SOL_XDP, XDP_MMAP_OFFSETS, &own, &own_len) != 0 ||
	    getsockopt(queue, SOL_XDP, XDP_MMAP_OFFSETS, &shared, &shared_len) != 0)
		return -errno;
	if (own_len != sizeof(own) || shared_len != sizeof(shared))
		return -EPROTO; /* of kernels before 5.4 */
	int rc = map_ring(&x->rx, x->fd, &own.rx, rx_ring, sizeof(struct xdp_desc),
			  XDP_PGOFF_RX_RING);

	if (rc == 0)
		rc = map_ring(&x->tx, x->fd, &own.tx, HK_XSK_TX, sizeof(struct xdp_desc),
			      XDP_PGOFF_TX_RING);
	if (rc == 0)
		rc = map_ring(&x->fill, queue, &shared.fr, HK_XSK_FILL, sizeof(uint64_t),
			      XDP_UMEM_PGOFF_FILL_RING);
	if (rc == 0)
		rc = map_ring(&x->completion, queue, &shared.cr, HK_XSK_FILL, sizeof(uint64_t),
			      XDP_UMEM_PGOFF_COMPLETION_RING);
	return rc;
}

static int map_memory(struct hk_xsk *x, int memory, uint32_t chunks)
{
	size_t bytes = hk_umem_bytes(chunks);
	struct stat st;

	if (fstat(memory, &st) != 0 || st.st_size != (off_t)bytes)
		return -EPROTO;
	x->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (x->memory == MAP_FAILED) {
		x->memory = NULL;
		return -errno;
	}
	x->chunks = chunks;
	x->shared = (void *)(x->memory + (size_t)chunks * HK_CHUNK);
	return 0;
}

static void unmap(const struct hk_xsk_ring *r)
{
	if (r->mapped)
		munmap(r->mapped, r->mapped_bytes);
}

/* ---- the socket ------------------------------------------------------------------------------ */

/* Takes what the helper has answered. */
static int use(struct hk_xsk *x, const char *who, const struct hk_helper_reply *reply,
	       const int *fd, struct hk_error *err)
{
	bool right = reply->slot >= 1 && reply->slot <= HK_XSK_SHARERS_MAX && reply->chunks >= 1 &&
		     reply->chunks <= CHUNKS_MAX && reply->frame_max >= 60 &&
		     reply->frame_max <= HK_CHUNK_DATA &&
		     (reply->rx_ring == HK_XSK_RX || reply->rx_ring == HK_XSK_RX_SHARED);
	int rc = right ? map_memory(x, fd[HK_HELPER_FD_MEMORY], reply->chunks) : -EPROTO;

	if (rc == 0)
		rc = map_rings(x, fd[HK_HELPER_FD_QUEUE], reply->rx_ring);
	x->slot = reply->slot;
	close(fd[HK_HELPER_FD_MEMORY]);
	close(fd[HK_HELPER_FD_QUEUE]);
	return rc ? hk_error_set(
			    err, rc,
			    "%s: the socket of hikyaku-helper cannot be used: %s; fix: install "
			    "the library and hikyaku-helper of one version, on Linux 5.10 or "
			    "newer",
			    who, strerror(-rc))
		  : 0;
}

/* Asks until the helper has a socket for us. A process that has just ended may seem to be there for
 * a moment. The helper learns of its end later, and the kernel removes a closed socket later. A
 * helper may just have ended because nobody needed it; then another one is asked. */
static int ask(struct hk_port_impl *p, const char *who, enum hk_helper_take take, unsigned sharers,
	       int64_t deadline, struct hk_error *err)
{
	const struct hk_spec *s = &p->spec;
	struct hk_xsk *x = p->xsk;
	struct hk_helper_request request = {
		.version = HK_HELPER_VERSION,
		.op = HK_HELPER_OPEN,
		.queue = s->queue,
		.sharers = HK_MIN(HK_MAX(sharers, 1u), HK_XSK_SHARERS_MAX),
		.take = take,
		.copy = s->mode == HK_SPEC_MODE_COPY,
		.busy = s->busy};
	struct hk_helper_reply reply;
	int64_t soon = HK_MIN(deadline, hk_clock_ms() + SOON_MS), until;
	int fd[HK_HELPER_FDS], rc;

	memcpy(request.iface, s->iface, sizeof(request.iface));
	do {
		x->helper = hk_helper_connect(who, deadline, err);
		if (x->helper < 0)
			return x->helper;
		rc = hk_helper_ask(x->helper, who, &request, -1, &reply, fd,
				   HK_MAX(deadline, hk_clock_ms() + ANSWER_MS), err);
		if (rc == 0) {
			x->fd = fd[HK_HELPER_FD_SOCKET];
			rc = use(x, who, &reply, fd, err);
			break;
		}
		close(x->helper);
		x->helper = -1;
		hk_pause_1ms();
		until = rc == -ECONNRESET ? deadline : rc == -EAGAIN || rc == -EBUSY ? soon : 0;
	} while (hk_clock_ms() < until);
	if (rc)
		return rc == -EAGAIN ? -EBUSY : rc;
	p->port.info.frame_max = (uint16_t)reply.frame_max;
	p->port.info.rx_ring = (uint16_t)reply.rx_ring;
	p->port.info.bulk = reply.zero;
	memcpy(p->port.info.mac, reply.mac, sizeof(reply.mac));
	snprintf(p->port.info.driver, sizeof(p->port.info.driver), "af_xdp, %s",
		 reply.zero     ? "zero copy"
		 : reply.native ? "native"
				: "generic");
	return 0;
}

int hk_xsk_attach(struct hk_port_impl *p, enum hk_helper_take take, unsigned sharers,
		  int64_t deadline, struct hk_error *err)
{
	struct hk_xsk *x = calloc(1, sizeof(*x));
	char who[HK_PORT_SPEC_MAX + 8];

	if (!x)
		return hk_error_set(err, -ENOMEM, "no memory for port %s", p->spec.text);
	p->xsk = x;
	x->fd = x->helper = -1;
	snprintf(who, sizeof(who), "port %s", p->spec.text);
	x->busy = p->spec.busy;
	return ask(p, who, take, sharers, deadline, err);
}

int hk_xsk_open(struct hk_port_impl *p, unsigned buffers, struct rte_mempool *pool,
		enum hk_helper_take take, unsigned sharers, int64_t deadline, struct hk_error *err)
{
	struct hk_port_info *info = &p->port.info;
	int rc = hk_xsk_attach(p, take, sharers, deadline, err);
	struct hk_xsk *x = p->xsk;

	if (rc)
		return rc;
	info->queues = 1;
	info->numa = -1;
	info->link_mbps = hk_netdev_link_mbps(p->spec.iface);
	info->copies_at_tx = true;
	info->tx_multi_seg = true;
	rc = hk_number_take(p, x, hk_xsk_rx, hk_xsk_tx, err);
	if (rc == 0)
		rc = hk_pool_make(p, buffers + BUFFERS, pool, err);
	x->pool = p->port.pool;
	if (rc == 0)
		hk_xsk_fill(x);
	p->started = rc == 0;
	return rc;
}

void hk_xsk_close(struct hk_port_impl *p)
{
	struct hk_xsk *x = p->xsk;

	if (!x)
		return;
	hk_number_give(p, x);
	if (x->rx.mapped && x->shared)
		hk_xsk_return_chunks(x);
	if (x->fd >= 0)
		close(x->fd);
	unmap(&x->rx);
	unmap(&x->tx);
	unmap(&x->fill);
	unmap(&x->completion);
	if (x->memory)
		munmap(x->memory, hk_umem_bytes(x->chunks));
	if (x->helper >= 0)
		close(x->helper); /* last: then the helper ends what belonged to us */
	free(x);
	p->xsk = NULL;
}

static int claim(const struct hk_port_impl *p, const struct hk_helper_request *request, int with,
		 struct hk_error *err)
{
	struct hk_helper_reply reply;
	char who[HK_PORT_SPEC_MAX + 8];

	snprintf(who, sizeof(who), "port %s", p->spec.text);
	return hk_helper_ask(p->xsk->helper, who, request, with, &reply, NULL,
			     hk_clock_ms() + CLAIM_MS, err);
}

int hk_xsk_claim(struct hk_port_impl *p, uint32_t job, uint32_t endpoint, struct hk_error *err)
{
	const struct hk_helper_request request = {.version = HK_HELPER_VERSION,
						  .op = HK_HELPER_CLAIM,
						  .job = job,
						  .endpoint = endpoint};

	return claim(p, &request, -1, err);
}

int hk_xsk_claim_datagrams(struct hk_port_impl *p, int udp, struct hk_error *err)
{
	const struct hk_helper_request request = {.version = HK_HELPER_VERSION,
						  .op = HK_HELPER_CLAIM_DATAGRAMS};

	return claim(p, &request, udp, err);
}

int hk_xsk_fd(const struct hk_port_impl *p)
{
	return p->xsk->fd;
}

bool hk_xsk_alive(const struct hk_port_impl *p)
{
	char byte;

	return recv(p->xsk->helper, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) < 0 &&
	       (errno == EAGAIN || errno == EINTR);
}

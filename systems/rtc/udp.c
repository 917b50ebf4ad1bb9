/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/udp.c: messages as datagrams of the kernel's UDP.
 *
 * A burst is one recvmmsg(2) or one sendmmsg(2). Receive buffers are always prepared (`posted`), so
 * an empty round costs only the system call.
 */
#include "rtc/inet.h"

#include "base/inet.h"
#include "rtc/slab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BURST        HK_RTC_BURST
#define HEADERS      28        /* of IPv4 and UDP */
#define SOCKET_BYTES (4 << 20) /* size of the kernel's queues: some thousand messages */

struct udp {
	struct hk_rtc_backend base;
	struct hk_rtc_slab slab;
	struct hk_rtc_inet here;
	int fd;
	uint16_t nodes;
	struct sockaddr_in *peer; /* [nodes]; sin_family 0: address unknown */

	unsigned ready; /* posted[0 … ready - 1] are receive buffers */
	struct hk_rtc_buf *posted[BURST];
	struct mmsghdr rx_msg[BURST], tx_msg[BURST];
	struct iovec rx_iov[BURST], tx_iov[BURST];
};

static void udp_close(struct hk_rtc_backend *b)
{
	struct udp *u = (struct udp *)b;

	if (u->fd >= 0)
		close(u->fd);
	hk_rtc_slab_close(&u->slab);
	free(u->peer);
	free(u);
}

static int finish_open(struct udp *u, const struct hk_rtc_config *cfg, struct hk_error *err)
{
	unsigned around = HEADERS + HK_MSG_HLEN + u->base.trailer;
	unsigned most = HK_MIN(u->here.mtu, 65535u) - around;

	if (cfg->payload_max > most)
		return hk_error_set(err, -EMSGSIZE,
				    "payload_max %u does not fit one datagram on %s, whose MTU is "
				    "%u; fix: use at most %u",
				    cfg->payload_max, u->here.interface, u->here.mtu, most);
	/* with loopback's MTU, buffers would have 64 KiB */
	u->base.payload_max = cfg->payload_max ? cfg->payload_max : HK_MIN(most, 9000u - around);
	return hk_rtc_slab_open(&u->slab, &u->base, cfg, BURST, err);
}

static int udp_open(const struct hk_rtc_config *cfg, const char *option, struct hk_rtc_backend **b,
		    struct hk_error *err)
{
	struct udp *u;
	int rc;

	if (*option)
		return hk_error_set(err, -EINVAL, "backend udp has no option '%s'; fix: remove it",
				    option);
	u = calloc(1, sizeof(*u));
	if (!u)
		return hk_error_set(err, -ENOMEM, "no memory for backend udp");
	u->base.ops = &hk_rtc_backend_udp;
	u->base.trailer = hk_rtc_trailer_len(cfg);
	u->fd = -1;
	u->nodes = cfg->nodes;
	u->peer = calloc(cfg->nodes ? cfg->nodes : 1, sizeof(*u->peer));
	rc = u->peer ? hk_rtc_inet_local(cfg->address, &u->here, err)
		     : hk_error_set(err, -ENOMEM, "no memory for %u peers", cfg->nodes);
	if (rc == 0)
		rc = finish_open(u, cfg, err);
	if (rc == 0)
		rc = u->fd = hk_rtc_inet_bind(&u->here, SOCK_DGRAM, err);
	if (rc < 0) {
		udp_close(&u->base);
		return rc;
	}
	hk_inet_buffers(u->fd, SOCKET_BYTES);
	hk_rtc_inet_text(&u->here.addr, u->base.address, sizeof(u->base.address));
	for (unsigned i = 0; i < BURST; i++) {
		u->rx_msg[i].msg_hdr.msg_iov = &u->rx_iov[i];
		u->rx_msg[i].msg_hdr.msg_iovlen = 1;
		u->tx_msg[i].msg_hdr.msg_iov = &u->tx_iov[i];
		u->tx_msg[i].msg_hdr.msg_iovlen = 1;
		u->tx_msg[i].msg_hdr.msg_namelen = sizeof(struct sockaddr_in);
	}
	*b = &u->base;
	return 0;
}

static int udp_peer(struct hk_rtc_backend *b, uint16_t node, const char *address,
		    struct hk_error *err)
{
	struct udp *u = (struct udp *)b;

	if (node >= u->nodes)
		return hk_error_set(err, -ERANGE, "node %u of %u", node, u->nodes);
	return hk_rtc_inet_peer(address, &u->peer[node], err);
}

static unsigned udp_rx(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	struct udp *u = (struct udp *)b;

	n = HK_MIN(n, (unsigned)BURST);
	while (u->ready < n) {
		struct hk_rtc_buf *buf = hk_rtc_slab_take(&u->slab);
		if (HK_UNLIKELY(!buf)) {
			u->base.no_buffer++;
			break;
		}
		u->rx_iov[u->ready] = (struct iovec){buf->hdr, u->slab.capacity};
		u->posted[u->ready++] = buf;
	}
	n = HK_MIN(n, u->ready);
	int got = n ? recvmmsg(u->fd, u->rx_msg, n, MSG_DONTWAIT, NULL) : 0;
	if (got <= 0)
		return 0;
	for (int i = 0; i < got; i++) {
		m[i] = u->posted[i];
		/* a datagram longer than its buffer is shorter than its header's length;
		 * hk_msg_parse() refuses it */
		m[i]->len = u->rx_msg[i].msg_len;
	}
	/* move the remaining buffers to the front */
	u->ready -= (unsigned)got;
	for (unsigned i = 0; i < u->ready; i++) {
		u->posted[i] = u->posted[i + (unsigned)got];
		u->rx_iov[i] = u->rx_iov[i + (unsigned)got];
	}
	return (unsigned)got;
}

/* Sends at most BURST messages. */
static void send_some(struct udp *u, struct hk_rtc_buf **m, unsigned n)
{
	unsigned count = 0, at = 0;

	for (unsigned i = 0; i < n; i++) {
		uint16_t dst = m[i]->dst;
		if (HK_UNLIKELY(dst >= u->nodes || !u->peer[dst].sin_family)) {
			u->base.tx_full++;
			continue;
		}
		u->tx_iov[count] = (struct iovec){m[i]->hdr, m[i]->len};
		u->tx_msg[count++].msg_hdr.msg_name = &u->peer[dst];
	}
	while (at < count) {
		int sent = sendmmsg(u->fd, u->tx_msg + at, count - at, MSG_DONTWAIT);
		if (HK_LIKELY(sent > 0)) {
			at += (unsigned)sent;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN || errno == ENOBUFS) {
			u->base.tx_full += count - at;
			return;
		}
		/* this message cannot be sent (no route, for example); the next one may */
		u->base.tx_full++;
		at++;
	}
}

static void udp_tx_copy(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	for (unsigned at = 0; at < n; at += BURST)
		send_some((struct udp *)b, m + at, HK_MIN(n - at, (unsigned)BURST));
}

static void udp_tx(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	udp_tx_copy(b, m, n);
	hk_rtc_slab_give(&((struct udp *)b)->slab, m, n);
}

static unsigned udp_alloc(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	return hk_rtc_slab_alloc(&((struct udp *)b)->slab, b, m, n);
}

static void udp_free(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	hk_rtc_slab_give(&((struct udp *)b)->slab, m, n);
}

const struct hk_rtc_backend_ops hk_rtc_backend_udp = {
	.name = "udp",
	.open = udp_open,
	.peer = udp_peer,
	.close = udp_close,
	.rx = udp_rx,
	.tx = udp_tx,
	.tx_copy = udp_tx_copy,
	.alloc = udp_alloc,
	.free = udp_free,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/raw.c: messages as Ethernet frames of a packet socket, through memory that the kernel shares
 * with us (packet(7); the kernel's Documentation/networking/packet_mmap.rst).
 *
 * There are two rings of fixed slots, of TPACKET_V2. TPACKET_V3 delivers blocks of frames when a
 * timer expires, which would cost latency. The kernel copies a frame into a slot and sets a bit, so
 * polling needs no system call. We copy the message out and free the slot at once. The kernel fills
 * slots in order, so a slot that a deferred message occupied would stop all others. To send, we
 * copy messages into slots and call send(2) once for the burst.
 *
 * Frames bypass the kernel's queueing disciplines (PACKET_QDISC_BYPASS). A frame that the driver
 * does not take is lost. The backend needs cap_net_raw.
 */
#include "rtc/slab.h"

#include "base/interfaces.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define SLOTS       1024u
#define BLOCK       (64u << 10)
#define TX_OFFSET   TPACKET_ALIGN(sizeof(struct tpacket2_hdr)) /* offset of the frame in a slot */
#define RX_HEADROOM (TPACKET2_HDRLEN + 64)                     /* most bytes before the frame */
#define MAC_FORMAT  "%02x:%02x:%02x:%02x:%02x:%02x"

struct ring {
	uint8_t *memory;
	unsigned next;
};

struct raw {
	struct hk_rtc_backend base;
	struct hk_rtc_slab slab;
	int fd;
	uint16_t nodes;
	char interface[IF_NAMESIZE];
	int index;
	unsigned mtu;
	uint8_t mac[ETH_ALEN];

	struct ring rx, tx;
	uint32_t slot; /* size of a slot in bytes, a power of two */
	bool unsent;   /* the kernel has not taken all of the tx ring */
	struct peer {
		bool known;
		struct ether_header head;
	} * peer; /* [nodes] */
	uint8_t *memory;
	size_t bytes;
};

static inline struct tpacket2_hdr *slot_of(const struct raw *w, const struct ring *ring)
{
	return (struct tpacket2_hdr *)(ring->memory + (size_t)ring->next * w->slot);
}

static inline void advance(struct ring *ring)
{
	ring->next = (ring->next + 1) & (SLOTS - 1);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void raw_close(struct hk_rtc_backend *b)
{
	struct raw *w = (struct raw *)b;

	if (w->memory)
		munmap(w->memory, w->bytes);
	if (w->fd >= 0)
		close(w->fd);
	hk_rtc_slab_close(&w->slab);
	free(w->peer);
	free(w);
}

static int query(const struct raw *w, unsigned long what, struct ifreq *request)
{
	memset(request, 0, sizeof(*request));
	memcpy(request->ifr_name, w->interface, strlen(w->interface));
	return ioctl(w->fd, what, request);
}

/* Reads index, MTU and MAC address of the interface. */
static int read_interface(struct raw *w, const char *interface, struct hk_error *err)
{
	struct ifreq r;

	bool fits = strlen(interface) < sizeof(w->interface);

	if (fits)
		strcpy(w->interface, interface);
	w->index = fits ? (int)if_nametoindex(interface) : 0;
	if (w->index == 0 || query(w, SIOCGIFFLAGS, &r) != 0) {
		char names[160];
		hk_interfaces_ethernet(names, sizeof(names));
		return hk_error_set(err, -ENODEV,
				    "there is no interface '%.40s' here; fix: use one of: %s",
				    interface, *names ? names : "(none is up)");
	}
	if (!(r.ifr_flags & IFF_UP))
		return hk_error_set(err, -ENETDOWN, "%s is down; fix: ip link set %s up", interface,
				    interface);
	if (query(w, SIOCGIFHWADDR, &r) != 0 || r.ifr_hwaddr.sa_family != ARPHRD_ETHER)
		return hk_error_set(err, -EINVAL,
				    "%s is not an Ethernet interface; fix: use another one",
				    interface);
	memcpy(w->mac, r.ifr_hwaddr.sa_data, sizeof(w->mac));
	if (query(w, SIOCGIFMTU, &r) != 0 || r.ifr_mtu < HK_MSG_HLEN + HK_MSG_TRAILER_LEN)
		return hk_error_set(err, -ENODEV, "the MTU of %s cannot be read", interface);
	w->mtu = (unsigned)r.ifr_mtu;
	return 0;
}

/* Drops frames to other hosts, which a bridge or hub shows us, before they take a slot. */
static int filter(const struct raw *w)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OTHERHOST, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	struct sock_fprog program = {.len = HK_ARRAY_LEN(code), .filter = code};

	return setsockopt(w->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static int make_rings(struct raw *w, struct hk_error *err)
{
	int version = TPACKET_V2, one = 1;
	uint32_t need = (uint32_t)RX_HEADROOM + ETH_HLEN + HK_MSG_HLEN + w->base.payload_max +
			w->base.trailer;

	for (w->slot = 2048; w->slot < need;)
		w->slot *= 2;
	uint32_t block = HK_MAX(w->slot, BLOCK);
	struct tpacket_req req = {
		.tp_block_size = block,
		.tp_block_nr = SLOTS / (block / w->slot),
		.tp_frame_size = w->slot,
		.tp_frame_nr = SLOTS,
	};
	size_t ring = (size_t)SLOTS * w->slot;
	if (setsockopt(w->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) != 0 ||
	    setsockopt(w->fd, SOL_PACKET, PACKET_LOSS, &one, sizeof(one)) != 0 ||
	    setsockopt(w->fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)) != 0 ||
	    setsockopt(w->fd, SOL_PACKET, PACKET_TX_RING, &req, sizeof(req)) != 0 || filter(w) != 0)
		return hk_error_set(err, -errno,
				    "the kernel makes no rings of %u frames of %u bytes for %s: "
				    "%s; fix: reduce payload_max",
				    SLOTS, w->slot, w->interface, strerror(errno));
	/* both only affect speed, and older kernels lack the second */
	setsockopt(w->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one));
	setsockopt(w->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one));
	w->bytes = 2 * ring;
	w->memory = mmap(NULL, w->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, w->fd,
			 0);
	if (w->memory == MAP_FAILED) {
		w->memory = NULL;
		return hk_error_set(err, -errno,
				    "the rings of %s cannot be mapped: %s; fix: reduce payload_max",
				    w->interface, strerror(errno));
	}
	w->rx.memory = w->memory;
	w->tx.memory = w->memory + ring;
	return 0;
}

static int finish_open(struct raw *w, const struct hk_rtc_config *cfg, struct hk_error *err)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(HK_MSG_ETHERTYPE)};
	unsigned most = HK_MIN(w->mtu, (unsigned)UINT16_MAX) - HK_MSG_HLEN - w->base.trailer;

	if (cfg->payload_max > most)
		return hk_error_set(err, -EMSGSIZE,
				    "payload_max %u does not fit a frame of %s, whose MTU is %u; "
				    "fix: use at most %u",
				    cfg->payload_max, w->interface, w->mtu, most);
	w->base.payload_max = cfg->payload_max ? cfg->payload_max : most;
	int rc = make_rings(w, err);
	if (rc == 0)
		rc = hk_rtc_slab_open(&w->slab, &w->base, cfg, 0, err);
	if (rc)
		return rc;
	at.sll_ifindex = w->index;
	/* until here the socket had no protocol, so that no frame could arrive too early */
	if (bind(w->fd, (struct sockaddr *)&at, sizeof(at)) != 0)
		return hk_error_set(err, -errno,
				    "%s cannot be opened: %s; fix: check 'ip link show %s'",
				    w->interface, strerror(errno), w->interface);
	snprintf(w->base.address, sizeof(w->base.address), MAC_FORMAT, w->mac[0], w->mac[1],
		 w->mac[2], w->mac[3], w->mac[4], w->mac[5]);
	return 0;
}

static int raw_open(const struct hk_rtc_config *cfg, const char *option, struct hk_rtc_backend **b,
		    struct hk_error *err)
{
	int rc = 0;

	if (*option)
		return hk_error_set(err, -EINVAL, "backend raw has no option '%s'; fix: remove it",
				    option);
	struct raw *w = calloc(1, sizeof(*w));
	if (!w)
		return hk_error_set(err, -ENOMEM, "no memory for backend raw");
	w->base.ops = &hk_rtc_backend_raw;
	w->base.trailer = hk_rtc_trailer_len(cfg);
	w->nodes = cfg->nodes;
	w->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	w->peer = calloc(cfg->nodes ? cfg->nodes : 1, sizeof(*w->peer));
	if (w->fd < 0 && errno == EPERM)
		rc = hk_error_set(
			err, -EPERM,
			"packet sockets need cap_net_raw; fix: use backend udp, which needs no "
			"rights, or run as root");
	else if (w->fd < 0)
		rc = hk_error_set(err, -errno,
				  "the kernel provides no packet socket: %s; fix: use backend udp",
				  strerror(errno));
	else if (!w->peer)
		rc = hk_error_set(err, -ENOMEM, "no memory for %u peers", cfg->nodes);
	if (rc == 0)
		rc = read_interface(w, cfg->address, err);
	if (rc == 0)
		rc = finish_open(w, cfg, err);
	if (rc) {
		raw_close(&w->base);
		return rc;
	}
	*b = &w->base;
	return 0;
}

static int raw_peer(struct hk_rtc_backend *b, uint16_t node, const char *address,
		    struct hk_error *err)
{
	struct raw *w = (struct raw *)b;
	uint8_t mac[ETH_ALEN];
	int end = 0;

	if (node >= w->nodes)
		return hk_error_set(err, -ERANGE, "node %u of %u", node, w->nodes);
	if (sscanf(address, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &mac[0], &mac[1], &mac[2],
		   &mac[3], &mac[4], &mac[5], &end) != 6 ||
	    address[end] || end != 17 || mac[0] & 1)
		return hk_error_set(err, -EINVAL,
				    "'%s' is not the address of node %u; fix: write the MAC "
				    "address of its interface, as the node prints it",
				    address, node);
	if (memcmp(mac, w->mac, sizeof(mac)) == 0)
		return hk_error_set(err, -EADDRINUSE,
				    "node %u has the same interface as this one, %s (%s), which "
				    "does not receive its own frames; fix: use a separate "
				    "interface for each, such as hk{local_rank}, or backend udp",
				    node, w->interface, address);
	struct ether_header *head = &w->peer[node].head;
	memcpy(head->ether_dhost, mac, sizeof(mac));
	memcpy(head->ether_shost, w->mac, sizeof(mac));
	head->ether_type = htons(HK_MSG_ETHERTYPE);
	w->peer[node].known = true;
	return 0;
}

/* ---- receiving and sending ------------------------------------------------------------------- */

/* Makes the kernel send the tx ring. */
static void send_ring(struct raw *w)
{
	ssize_t r = send(w->fd, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL);
	w->unsent = r < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EINTR);
}

static unsigned raw_rx(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	struct raw *w = (struct raw *)b;
	unsigned got = 0;

	if (HK_UNLIKELY(w->unsent))
		send_ring(w);
	while (got < n) {
		struct tpacket2_hdr *h = slot_of(w, &w->rx);
		if (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			break;
		struct hk_rtc_buf *buf = hk_rtc_slab_take(&w->slab);
		if (HK_UNLIKELY(!buf)) {
			w->base.no_buffer++;
			break;
		}
		/* a frame that was cut to its slot is shorter than its header's length;
		 * hk_msg_parse() refuses it */
		uint32_t len = h->tp_snaplen - HK_MIN(h->tp_snaplen, (uint32_t)ETH_HLEN);
		buf->len = (uint32_t)HK_MIN(len, w->slab.capacity);
		memcpy(buf->hdr, (uint8_t *)h + h->tp_mac + ETH_HLEN, buf->len);
		__atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		advance(&w->rx);
		m[got++] = buf;
	}
	return got;
}

static void raw_tx_copy(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	struct raw *w = (struct raw *)b;

	for (unsigned i = 0; i < n; i++) {
		struct tpacket2_hdr *h = slot_of(w, &w->tx);
		uint16_t dst = m[i]->dst;
		uint32_t status = __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE);
		if (HK_UNLIKELY(dst >= w->nodes || !w->peer[dst].known ||
				(status & (TP_STATUS_SEND_REQUEST | TP_STATUS_SENDING)))) {
			w->base.tx_full++;
			continue;
		}
		uint8_t *frame = (uint8_t *)h + TX_OFFSET;
		memcpy(frame, &w->peer[dst].head, ETH_HLEN);
		memcpy(frame + ETH_HLEN, m[i]->hdr, m[i]->len);
		h->tp_len = ETH_HLEN + m[i]->len;
		__atomic_store_n(&h->tp_status, TP_STATUS_SEND_REQUEST, __ATOMIC_RELEASE);
		advance(&w->tx);
	}
	if (HK_LIKELY(n > 0))
		send_ring(w);
}

static void raw_tx(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	raw_tx_copy(b, m, n);
	hk_rtc_slab_give(&((struct raw *)b)->slab, m, n);
}

static unsigned raw_alloc(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	return hk_rtc_slab_alloc(&((struct raw *)b)->slab, b, m, n);
}

static void raw_free(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	hk_rtc_slab_give(&((struct raw *)b)->slab, m, n);
}

const struct hk_rtc_backend_ops hk_rtc_backend_raw = {
	.name = "raw",
	.open = raw_open,
	.peer = raw_peer,
	.close = raw_close,
	.rx = raw_rx,
	.tx = raw_tx,
	.tx_copy = raw_tx_copy,
	.alloc = raw_alloc,
	.free = raw_free,
};

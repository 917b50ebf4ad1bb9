/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/udp.c: frames by a UDP socket: trains out and in. See port/udp.h.
 */
#include "port/udp.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include <rte_ether.h>

#define ETHERTYPE RTE_BE16(0x88b5) /* HK_WIRE_ETHERTYPE; the wire is a layer of its own */

void hk_udp_address_of(const struct hk_udp *u, const uint8_t name[6], union hk_inet_addr *at)
{
	if (HK_LIKELY(u->family == AF_INET)) {
		*at = (union hk_inet_addr){.v4 = {.sin_family = AF_INET}};
		memcpy(&at->v4.sin_addr.s_addr, name, 4);
		memcpy(&at->v4.sin_port, name + 4, 2);
		return;
	}
	const union hk_inet_addr *found = hk_udp_peers_find(&u->peers, name);

	*at = found ? *found : (union hk_inet_addr){.v6 = {.sin6_family = AF_INET6}};
}

/* ---- in -------------------------------------------------------------------------------------- */

/* Gives a train a buffer for each piece. False: no buffer is free. */
static bool fill(struct hk_udp *u, struct hk_udp_train *t)
{
	for (unsigned i = 0; t->missing && i < u->pieces; i++) {
		if (t->m[i])
			continue;
		t->m[i] = rte_pktmbuf_alloc(u->pool);
		if (HK_UNLIKELY(!t->m[i]))
			return false;
		t->piece[i] = (struct iovec){
			rte_pktmbuf_mtod_offset(t->m[i], char *, RTE_ETHER_HDR_LEN), u->piece};
	}
	if (t->missing && t == u->train) /* narrow receives are of one train */
		memcpy(u->narrow, t->piece, HK_UDP_NARROW * sizeof(u->narrow[0]));
	t->missing = false;
	return true;
}

static void prepare(struct hk_udp *u, struct hk_udp_train *t, bool narrow, struct mmsghdr *in)
{
	in->msg_hdr = (struct msghdr){
		.msg_name = &t->from,
		.msg_namelen = sizeof(t->from),
		.msg_iov = narrow ? u->narrow : t->piece,
		.msg_iovlen = narrow ? HK_ARRAY_LEN(u->narrow) : u->pieces,
		.msg_control = t->control,
		.msg_controllen = sizeof(t->control),
	};
}

/* The length of a train's pieces but the last; its own length, if it is one datagram. */
static unsigned piece_of(struct msghdr *h, unsigned len)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		int size;

		if (c->cmsg_level != SOL_UDP || c->cmsg_type != UDP_GRO)
			continue;
		memcpy(&size, CMSG_DATA(c), sizeof(size));
		if (size > 0)
			return HK_MIN((unsigned)size, len);
	}
	return len;
}

static void add_ready(struct hk_udp *u, struct rte_mbuf *m, unsigned len, const uint8_t from[6])
{
	m->data_len = (uint16_t)(RTE_ETHER_HDR_LEN + len);
	m->pkt_len = m->data_len;
	struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, struct rte_ether_hdr *);

	memcpy(&eth->dst_addr, u->mac, sizeof(u->mac));
	memcpy(&eth->src_addr, from, sizeof(u->mac));
	eth->ether_type = ETHERTYPE;
	u->ready[u->ready_count++] = m;
}

/* Copies @len bytes at @at of the train that @h received to @out. Each part but the last has the
 * length of the first. */
static void copy_out(const struct msghdr *h, unsigned at, unsigned len, char *out)
{
	unsigned each = (unsigned)h->msg_iov->iov_len, last = (unsigned)h->msg_iovlen - 1;

	while (len > 0) {
		unsigned i = HK_MIN(at / each, last), in = at - i * each;
		unsigned now = HK_MIN(len, (unsigned)h->msg_iov[i].iov_len - in);

		memcpy(out, (const char *)h->msg_iov[i].iov_base + in, now);
		out += now;
		at += now;
		len -= now;
	}
}

/* Makes frames of a train that was received by @h: @len bytes in pieces of @size. */
static void take(struct hk_udp *u, struct hk_udp_train *t, const struct msghdr *h, unsigned len,
		 unsigned size)
{
	unsigned count = (len + size - 1) / size;
	bool own = count == 1 || size == u->piece; /* each piece has a buffer, */
	unsigned in_place = h->msg_iov == u->narrow ? HK_UDP_NARROW : u->pieces; /* or a few have */
	uint8_t from[6];

	if (HK_UNLIKELY(size > u->piece || count > HK_UDP_PIECES)) {
		u->dropped_rx += count;
		return;
	}
	hk_udp_name(&t->from, from);
	if (HK_UNLIKELY(u->family == AF_INET6))
		hk_udp_peers_heard(&u->peers, from, &t->from);
	for (unsigned i = 0; i < count; i++) {
		struct rte_mbuf *m = own ? t->m[i] : rte_pktmbuf_alloc(u->pool);
		unsigned at = i * size, now = HK_MIN(len - at, size);

		if (HK_UNLIKELY(!m)) {
			u->dropped_rx++;
			continue;
		}
		if (!own || i >= in_place)
			copy_out(h, at, now, rte_pktmbuf_mtod_offset(m, char *, RTE_ETHER_HDR_LEN));
		if (own) {
			t->m[i] = NULL;
			t->missing = true;
		}
		add_ready(u, m, now, from);
	}
}

/* Learns from a call that returned @got trains, of at most @longest bytes, for the next one. */
static void learn(struct hk_udp *u, unsigned got, unsigned longest)
{
	if (got < u->asked)
		u->asked = HK_MAX(got, 1u);
	else if (u->again)
		u->asked = HK_MIN(2 * u->asked, HK_UDP_TRAINS);
	u->again = got > 0;
	if (longest > HK_UDP_NARROW * u->piece)
		u->calm = 0;
	else
		u->calm += got;
}

/* recvmsg() is quicker than recvmmsg() for one. */
static int read_trains(struct hk_udp *u, unsigned n)
{
	if (n > 1)
		return recvmmsg(u->fd, u->in, n, MSG_DONTWAIT, NULL);
	ssize_t len = recvmsg(u->fd, &u->in->msg_hdr, MSG_DONTWAIT);

	u->in->msg_len = (unsigned)len;
	return len < 0 ? 0 : 1;
}

static void receive(struct hk_udp *u)
{
	bool narrow = u->asked == 1 && u->calm >= HK_UDP_CALM && u->pieces > HK_UDP_NARROW;
	unsigned n = 0;

	u->ready_at = u->ready_count = 0;
	while (n < u->asked && fill(u, &u->train[n])) {
		prepare(u, &u->train[n], narrow, &u->in[n]);
		n++;
	}
	int got = n ? read_trains(u, n) : 0;
	unsigned longest = 0;

	for (int i = 0; i < got; i++) {
		struct msghdr *h = &u->in[i].msg_hdr;
		unsigned len = u->in[i].msg_len;

		if (HK_UNLIKELY(h->msg_flags & MSG_TRUNC ||
				h->msg_namelen != hk_inet_len(&u->train[i].from)))
			u->dropped_rx++;
		else if (HK_LIKELY(len > 0)) /* empty ones are for the kernels: port/udp_xdp.h */
			take(u, &u->train[i], h, len, piece_of(h, len));
		longest = HK_MAX(longest, len);
	}
	learn(u, (unsigned)HK_MAX(got, 0), longest);
}

uint16_t hk_udp_rx(void *queue, struct rte_mbuf **m, uint16_t n)
{
	struct hk_udp *u = queue;

	if (u->ready_at == u->ready_count)
		receive(u);
	unsigned now = HK_MIN((unsigned)n, u->ready_count - u->ready_at);

	memcpy(m, &u->ready[u->ready_at], now * sizeof(*m));
	u->ready_at += now;
	return (uint16_t)now;
}

void hk_udp_drain(struct hk_udp *u)
{
	rte_pktmbuf_free_bulk(&u->ready[u->ready_at], u->ready_count - u->ready_at);
	u->ready_at = u->ready_count = 0;
	for (unsigned t = 0; t < HK_UDP_TRAINS; t++)
		for (unsigned i = 0; i < HK_UDP_PIECES; i++) {
			rte_pktmbuf_free(u->train[t].m[i]);
			u->train[t].m[i] = NULL;
		}
}

/* ---- out ------------------------------------------------------------------------------------- */

static const uint8_t *destination(const struct rte_mbuf *m)
{
	return rte_pktmbuf_mtod(m, const uint8_t *);
}

static unsigned payload(const struct rte_mbuf *m)
{
	return rte_pktmbuf_pkt_len(m) - RTE_ETHER_HDR_LEN;
}

/* Adds the bytes of a frame behind its Ethernet header to @part. Returns the number of parts. */
static unsigned add_parts(struct rte_mbuf *m, struct iovec *part)
{
	unsigned n = 1;

	part[0] = (struct iovec){rte_pktmbuf_mtod_offset(m, char *, RTE_ETHER_HDR_LEN),
				 m->data_len - (size_t)RTE_ETHER_HDR_LEN};
	for (m = m->next; m && n < HK_UDP_PARTS; m = m->next)
		part[n++] = (struct iovec){rte_pktmbuf_mtod(m, char *), m->data_len};
	return n;
}

/* How many of the @n frames at @m make a train: one peer, one length, of which the last is at most
 * that long. */
static unsigned train_of(const struct hk_udp *u, struct rte_mbuf **m, unsigned n)
{
	unsigned size = payload(m[0]), bytes = size, count = 1;

	n = HK_MIN(n, u->pieces);
	while (count < n && memcmp(destination(m[count]), destination(m[0]), 6) == 0 &&
	       payload(m[count]) <= size && bytes + payload(m[count]) <= HK_UDP_BYTES) {
		unsigned len = payload(m[count++]);

		bytes += len;
		if (len < size)
			break;
	}
	return count;
}

/* Makes a message of @count frames. Returns the number of parts. */
static unsigned compose(struct hk_udp *u, unsigned message, struct rte_mbuf **m, unsigned count,
			struct iovec *part)
{
	struct msghdr *h = &u->out[message].msg_hdr;
	unsigned parts = 0;

	hk_udp_address_of(u, destination(m[0]), &u->to[message]);
	for (unsigned i = 0; i < count; i++)
		parts += add_parts(m[i], part + parts);
	*h = (struct msghdr){
		.msg_name = &u->to[message],
		.msg_namelen = hk_inet_len(&u->to[message]),
		.msg_iov = part,
		.msg_iovlen = parts,
	};
	u->frames[message] = count;
	if (count == 1)
		return parts;
	h->msg_control = u->gso[message];
	h->msg_controllen = sizeof(u->gso[message]);
	struct cmsghdr *c = CMSG_FIRSTHDR(h);
	uint16_t size = (uint16_t)payload(m[0]);

	*c = (struct cmsghdr){.cmsg_level = SOL_UDP,
			      .cmsg_type = UDP_SEGMENT,
			      .cmsg_len = CMSG_LEN(sizeof(size))};
	memcpy(CMSG_DATA(c), &size, sizeof(size));
	return parts;
}

/* sendmsg() is quicker than sendmmsg() for one. */
static int send_messages(struct hk_udp *u, unsigned at, unsigned end)
{
	if (end - at > 1)
		return sendmmsg(u->fd, u->out + at, end - at, MSG_DONTWAIT);
	return sendmsg(u->fd, &u->out[at].msg_hdr, MSG_DONTWAIT) < 0 ? -1 : 1;
}

/* How many frames at @m leave together. */
static unsigned next_train(struct hk_udp *u, struct rte_mbuf **m, unsigned n)
{
	unsigned count = train_of(u, m, n);

	if (HK_LIKELY(u->apart == 0) || count == 1)
		return count;
	u->apart--;
	return 1;
}

uint16_t hk_udp_tx(void *queue, struct rte_mbuf **m, uint16_t n)
{
	struct hk_udp *u = queue;
	unsigned messages = 0, parts = 0, frames = 0, sent = 0;

	n = HK_MIN(n, HK_UDP_BURST);
	while (frames < n) {
		unsigned count = next_train(u, m + frames, n - frames);

		parts += compose(u, messages++, m + frames, count, u->part + parts);
		frames += count;
	}
	for (unsigned at = 0; at < messages;) {
		int done = send_messages(u, at, messages);

		if (done < 0 && errno == EAGAIN)
			break;
		if (done < 0 && errno == EMSGSIZE && u->frames[at] > 1) {
			/* the path carries less now: the caller sends these again, one by one */
			u->apart = HK_UDP_APART;
			u->narrow_to = u->to[at];
			break;
		}
		if (done < 0) {
			/* a frame that does not leave is a lost one, as in a network */
			u->failed_tx += u->frames[at];
			done = 1;
		}
		for (int i = 0; i < done; i++)
			sent += u->frames[at++];
	}
	for (unsigned i = 0; i < sent; i++)
		rte_pktmbuf_free(m[i]);
	return (uint16_t)sent;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/tcp.c: messages over the kernel's TCP. They follow each other in the stream; the header's
 * `len` gives the length.
 *
 * Without "batch=1" the backend behaves like a careful program without batching: one send() and one
 * recv() for each message. A recv() asks for as many bytes as the last message had, which is right
 * while messages have the same length. With "batch=1" all messages of a burst to one node are one
 * sendmsg(), and a recv() takes everything that has arrived.
 *
 * It polls a few connections directly, and many through epoll. Either way an empty round costs a
 * system call. Bytes that the kernel does not take at once wait in `out`. When that is full,
 * messages are dropped and counted, as in the other backends.
 */
#include "rtc/tcp.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#define POLL_EACH 4u /* most connections that are polled directly */

int64_t hk_rtc_tcp_clock(bool coarse)
{
	struct timespec now;

	clock_gettime(coarse ? CLOCK_MONOTONIC_COARSE : CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Length of the message at `in_start`. 0: its header is incomplete. UINT32_MAX: it is invalid. */
static uint32_t length_of(const struct hk_rtc_tcp *t, const struct hk_rtc_tcp_conn *c)
{
	struct hk_msg_hdr h;

	if (c->in_end - c->in_start < HK_MSG_HLEN)
		return 0;
	memcpy(&h, c->in + c->in_start, sizeof(h));
	uint32_t len = HK_MSG_HLEN + le16toh(h.len) + t->base.trailer;
	if (HK_UNLIKELY((h.ver_flags & HK_MSG_VER_MASK) != HK_MSG_VERSION ||
			hk_msg_trailer_len(h.ver_flags) != t->base.trailer || len > t->longest ||
			le16toh(h.src) != c->node))
		return UINT32_MAX;
	return len;
}

/* Hands out complete messages. */
static unsigned unpack(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c, struct hk_rtc_buf **m,
		       unsigned n)
{
	unsigned got = 0;

	while (got < n) {
		uint32_t len = length_of(t, c);
		if (HK_UNLIKELY(len == UINT32_MAX)) {
			hk_rtc_tcp_down(t, c, "it sent an invalid message", true);
			break;
		}
		c->expect = len ? len : HK_MSG_HLEN;
		if (len == 0 || c->in_end - c->in_start < len)
			break;
		struct hk_rtc_buf *buf = hk_rtc_slab_take(&t->slab);
		if (HK_UNLIKELY(!buf)) {
			t->base.no_buffer++;
			break;
		}
		memcpy(buf->hdr, c->in + c->in_start, len);
		buf->len = len;
		c->in_start += len;
		c->pause_ms = HK_RTC_TCP_PAUSE_MS;
		m[got++] = buf;
	}
	return got;
}

/* Complete messages may be left in `in`, for which no event will come. The next round begins with
 * them. */
static void queue_if_ready(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c)
{
	if (c->queued || c->state != HK_RTC_TCP_UP)
		return;
	uint32_t len = length_of(t, c);
	if (len == 0 || (len != UINT32_MAX && c->in_end - c->in_start < len))
		return;
	c->queued = true;
	t->ready[(t->ready_head + t->ready_count++) % t->nodes] = c->node;
}

/* Calls recv() once. False: no more data has arrived. */
static bool receive(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c, uint32_t last)
{
	uint32_t have = c->in_end - c->in_start, want;

	if (have == 0) {
		c->in_start = c->in_end = 0;
	} else if (c->in_start + 2 * t->longest > t->in_size) {
		memmove(c->in, c->in + c->in_start, have);
		c->in_start = 0;
		c->in_end = have;
	}
	/* plain: the rest of this message; for a new one, the length of the last message */
	if (t->batch)
		want = t->in_size - c->in_end;
	else
		want = have >= HK_MSG_HLEN ? c->expect - have : HK_MAX(last, HK_MSG_HLEN) - have;
	ssize_t r = recv(c->fd, c->in + c->in_end, want, MSG_DONTWAIT);
	if (HK_LIKELY(r > 0)) {
		c->in_end += (uint32_t)r;
		return !t->batch || (uint32_t)r == want;
	}
	if (r == 0 || (errno != EAGAIN && errno != EINTR))
		hk_rtc_tcp_down(t, c, r == 0 ? "it hangs up" : strerrordesc_np(errno), false);
	return false;
}

/* Takes up to @n messages from one connection. */
static unsigned take_messages(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c,
			      struct hk_rtc_buf **m, unsigned n)
{
	unsigned got = unpack(t, c, m, n);
	bool more = true;

	while (got < n && more && c->state == HK_RTC_TCP_UP && t->slab.free) {
		more = receive(t, c, c->last);
		unsigned now = unpack(t, c, m + got, n - got);
		if (now)
			c->last = m[got + now - 1]->len;
		got += now;
	}
	queue_if_ready(t, c);
	return got;
}

/* Handles events of new connections and of those with space to send; with @all also received data.
 */
static unsigned poll_events(struct hk_rtc_tcp *t, struct hk_rtc_buf **m, unsigned n, bool all)
{
	struct epoll_event e[HK_RTC_BURST];
	unsigned got = 0;
	int events = epoll_wait(t->epoll, e, HK_RTC_BURST, 0);

	for (int i = 0; i < events; i++) {
		struct hk_rtc_tcp_conn *c = hk_rtc_tcp_event(t, e[i].data.u64);
		if (c && all && got < n)
			got += take_messages(t, c, m + got, n - got);
	}
	return got;
}

static unsigned tcp_rx(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	struct hk_rtc_tcp *t = (struct hk_rtc_tcp *)b;
	unsigned got = 0;

	if (HK_UNLIKELY(!t->slab.free)) {
		t->base.no_buffer++;
		n = 0; /* sending and connecting go on */
	}
	for (unsigned i = t->ready_count; i && got < n; i--) {
		struct hk_rtc_tcp_conn *c = &t->conn[t->ready[t->ready_head]];
		t->ready_head = (t->ready_head + 1) % t->nodes;
		t->ready_count--;
		c->queued = false;
		if (c->state == HK_RTC_TCP_UP)
			got += take_messages(t, c, m + got, n - got);
	}
	bool many = t->up_count > POLL_EACH;
	t->now_ms = hk_rtc_tcp_clock(true);
	bool tick = t->now_ms != t->tick_ms;
	t->tick_ms = t->now_ms;
	if (many || HK_UNLIKELY(tick))
		got += poll_events(t, m + got, n - got, many);
	if (HK_UNLIKELY(tick))
		hk_rtc_tcp_timers(t);
	if (many)
		return got;
	t->round++;
	for (unsigned i = 0; i < t->up_count; i++) {
		struct hk_rtc_tcp_conn *c = t->up[(t->round + i) % t->up_count];
		if (c->out_end)
			hk_rtc_tcp_flush(t, c);
		if (c->state == HK_RTC_TCP_UP && got < n)
			got += take_messages(t, c, m + got, n - got);
	}
	return got;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* After a failed send(). False: the connection is closed. */
static bool may_wait(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c)
{
	if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
		return true;
	hk_rtc_tcp_down(t, c, strerrordesc_np(errno), false);
	return false;
}

void hk_rtc_tcp_flush(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c)
{
	if (c->out_end == 0)
		return;
	ssize_t r = send(c->fd, c->out + c->out_start, c->out_end - c->out_start,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
	if (r < 0) {
		may_wait(t, c);
		return;
	}
	c->out_start += (uint32_t)r;
	if (c->out_start < c->out_end)
		return;
	c->out_start = c->out_end = 0;
	hk_rtc_tcp_want_out(t, c, false);
}

/* Stores @len bytes until they can be sent. The rest of a partly sent message always fits, because
 * `out` is empty then. */
static bool store_unsent(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c, const uint8_t *bytes,
			 uint32_t len)
{
	if (c->out_end + len > t->out_size && c->out_start) {
		memmove(c->out, c->out + c->out_start, c->out_end - c->out_start);
		c->out_end -= c->out_start;
		c->out_start = 0;
	}
	if (c->out_end + len > t->out_size)
		return false;
	if (c->out_end == 0)
		hk_rtc_tcp_want_out(t, c, true);
	memcpy(c->out + c->out_end, bytes, len);
	c->out_end += len;
	return true;
}

/* Stores what is left after a sendmsg() of @count messages that took @sent bytes. */
static void store_rest(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c, const struct iovec *v,
		       unsigned count, size_t sent)
{
	for (unsigned i = 0; i < count; i++) {
		size_t gone = HK_MIN(sent, v[i].iov_len);
		sent -= gone;
		if (gone < v[i].iov_len &&
		    !store_unsent(t, c, (const uint8_t *)v[i].iov_base + gone,
				  (uint32_t)(v[i].iov_len - gone)))
			t->base.tx_full++;
	}
}

/* Sends @count messages to one node in one system call. */
static void send_vector(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c, struct iovec *v,
			unsigned count, size_t bytes)
{
	ssize_t r = 0;

	if (HK_LIKELY(c->out_end == 0)) {
		struct msghdr msg = {.msg_iov = v, .msg_iovlen = count};
		r = count == 1 ? send(c->fd, v->iov_base, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
			       : sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (HK_LIKELY(r == (ssize_t)bytes))
			return;
		if (r < 0 && !may_wait(t, c)) {
			t->base.tx_full += count;
			return;
		}
		r = HK_MAX(r, 0);
	}
	store_rest(t, c, v, count, (size_t)r);
}

static void send_some(struct hk_rtc_tcp *t, struct hk_rtc_buf **m, unsigned n)
{
	uint32_t done = 0; /* a bit for each message of @m */
	struct iovec v[HK_RTC_BURST];

	for (unsigned i = 0; i < n; i++) {
		unsigned count = 0;
		size_t bytes = 0;
		uint16_t dst = m[i]->dst;
		if (done & 1u << i)
			continue;
		if (HK_UNLIKELY(dst >= t->nodes || t->conn[dst].state != HK_RTC_TCP_UP)) {
			t->base.tx_full++;
			continue;
		}
		struct hk_rtc_tcp_conn *c = &t->conn[dst];
		for (unsigned j = i; j < (t->batch ? n : i + 1); j++) {
			if (m[j]->dst != dst || done & 1u << j)
				continue;
			done |= 1u << j;
			if (HK_UNLIKELY(m[j]->len > c->peer_max)) {
				t->base.tx_full++;
				continue;
			}
			v[count++] = (struct iovec){m[j]->hdr, m[j]->len};
			bytes += m[j]->len;
		}
		if (count)
			send_vector(t, c, v, count, bytes);
	}
}

static void tcp_tx_copy(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	for (unsigned at = 0; at < n; at += HK_RTC_BURST)
		send_some((struct hk_rtc_tcp *)b, m + at, HK_MIN(n - at, (unsigned)HK_RTC_BURST));
}

static void tcp_tx(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	tcp_tx_copy(b, m, n);
	hk_rtc_slab_give(&((struct hk_rtc_tcp *)b)->slab, m, n);
}

static unsigned tcp_alloc(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	return hk_rtc_slab_alloc(&((struct hk_rtc_tcp *)b)->slab, b, m, n);
}

static void tcp_free(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	hk_rtc_slab_give(&((struct hk_rtc_tcp *)b)->slab, m, n);
}

const struct hk_rtc_backend_ops hk_rtc_backend_tcp = {
	.name = "tcp",
	.open = hk_rtc_tcp_open,
	.peer = hk_rtc_tcp_peer,
	.connect = hk_rtc_tcp_connect,
	.close = hk_rtc_tcp_close,
	.rx = tcp_rx,
	.tx = tcp_tx,
	.tx_copy = tcp_tx_copy,
	.alloc = tcp_alloc,
	.free = tcp_free,
};

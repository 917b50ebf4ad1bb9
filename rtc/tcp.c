/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/tcp.c: messages over the kernel's TCP; each begins where the one before it ends, and its header's
 * `len` says how long it is.
 *
 * Plain, it is what a careful program without a layer for batches does: one send() a message, one recv()
 * a message (for as many bytes as the last one had, which is right as long as they are alike). With
 * "batch=1" what goes to one node in a burst is one sendmsg(), and a recv() takes what is there.
 *
 * Few connections are looked at one by one, many through epoll; either way a round that finds nothing
 * costs a system call. What the kernel does not take at once waits in `out`; when that is full, messages
 * are dropped and counted, as on the other backends.
 */
#include "rtc/tcp.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#define LOOK_AT   4u          /* connections that are looked at one by one */
#define BATCH_IN  (64u << 10) /* bytes to ask for at once */
#define OUT       (64u << 10) /* bytes that may wait to leave */
#define HEADERS   52u         /* IPv4, TCP and its time stamps */
#define FRAME_MAX 9000u
#define PAUSE_MS  10

int64_t hk_tcp_clock(bool coarse)
{
	struct timespec now;

	clock_gettime(coarse ? CLOCK_MONOTONIC_COARSE : CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- opening ------------------------------------------------------------------------------------- */

static void tcp_close(struct hk_rtc_backend *b)
{
	struct hk_tcp *t = (struct hk_tcp *)b;

	hk_tcp_close_links(t);
	hk_rtc_slab_close(&t->slab);
	if (t->memory)
		munmap(t->memory, t->bytes);
	free(t->conn);
	free(t->up);
	free(t->waiting);
	free(t);
}

static int read_option(struct hk_tcp *t, const char *option, struct hk_error *err)
{
	if (*option && strcmp(option, "batch=1") != 0 && strcmp(option, "batch=0") != 0)
		return hk_error_set(err, -EINVAL,
				    "tcp has no option '%s'; fix: 'tcp' or 'tcp:batch=1'", option);
	t->batch = strcmp(option, "batch=1") == 0;
	return 0;
}

/* Buffers, and memory for what is on its way in and out; a connection that is not used touches none. */
static int make_memory(struct hk_tcp *t, const struct hk_rtc_config *cfg, struct hk_error *err)
{
	if (cfg->payload_max > UINT16_MAX)
		return hk_error_set(err, -EMSGSIZE, "payload_max %u; fix: at most %u",
				    cfg->payload_max, UINT16_MAX);
	/* a message fits one segment, so that backends compare; loopback's would be very long */
	t->base.payload_max = cfg->payload_max
				      ? cfg->payload_max
				      : HK_MIN(t->here.mtu, FRAME_MAX) - HEADERS - HK_MSG_HLEN;
	t->longest = t->base.payload_max + HK_MSG_HLEN;
	t->in_size = HK_MAX(t->batch ? BATCH_IN : 0, 2 * t->longest);
	t->out_size = HK_MAX(OUT, 2 * t->longest);
	t->bytes = (size_t)t->nodes * (t->in_size + t->out_size);
	t->conn = calloc(t->nodes, sizeof(*t->conn));
	t->up = calloc(t->nodes, sizeof(struct hk_tcp_conn *));
	t->waiting = calloc(t->nodes, sizeof(*t->waiting));
	t->memory = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (t->memory == MAP_FAILED)
		t->memory = NULL;
	if (!t->conn || !t->up || !t->waiting || !t->memory)
		return hk_error_set(err, -ENOMEM, "no memory for %u connections; fix: fewer nodes",
				    t->nodes);
	for (unsigned i = 0; i < t->nodes; i++) {
		struct hk_tcp_conn *c = &t->conn[i];
		c->fd = -1;
		c->node = (uint16_t)i;
		c->pause_ms = PAUSE_MS;
		c->in = t->memory + (size_t)i * (t->in_size + t->out_size);
		c->out = c->in + t->in_size;
	}
	return hk_rtc_slab_open(&t->slab, &t->base, cfg, 0, err);
}

static int tcp_open(const struct hk_rtc_config *cfg, const char *option, struct hk_rtc_backend **b,
		    struct hk_error *err)
{
	struct hk_tcp *t = calloc(1, sizeof(*t));
	struct timespec now;
	int rc;

	if (!t)
		return hk_error_set(err, -ENOMEM, "no memory for backend tcp");
	clock_gettime(CLOCK_REALTIME, &now);
	t->base.ops = &hk_rtc_tcp;
	t->node = cfg->node;
	t->nodes = cfg->nodes ? cfg->nodes : 1;
	t->key = cfg->key;
	t->late = cfg->peers_file != NULL;
	t->incarnation = (uint64_t)now.tv_sec * HK_SEC + (uint64_t)now.tv_nsec;
	t->listener = t->epoll = -1;
	for (unsigned i = 0; i < HK_TCP_STRANGERS; i++)
		t->stranger[i].fd = -1;
	rc = read_option(t, option, err);
	if (rc == 0)
		rc = hk_rtc_inet_here(cfg->address, &t->here, err);
	if (rc == 0)
		rc = make_memory(t, cfg, err);
	if (rc == 0)
		rc = hk_tcp_listen(t, err);
	if (rc) {
		tcp_close(&t->base);
		return rc;
	}
	hk_rtc_inet_text(&t->here.at, t->base.address, sizeof(t->base.address));
	*b = &t->base;
	return 0;
}

static int tcp_peer(struct hk_rtc_backend *b, uint16_t node, const char *address,
		    struct hk_error *err)
{
	struct hk_tcp *t = (struct hk_tcp *)b;

	if (node >= t->nodes || node == t->node)
		return hk_error_set(err, -ERANGE, "node %u of %u is no peer", node, t->nodes);
	t->known += !t->conn[node].at.sin_family;
	return hk_rtc_inet_peer(address, &t->conn[node].at, err);
}

static int tcp_connect(struct hk_rtc_backend *b, int64_t deadline_ms, struct hk_error *err)
{
	return hk_tcp_connect_all((struct hk_tcp *)b, deadline_ms, err);
}

/* ---- receiving ------------------------------------------------------------------------------------ */

/* How long the message is that begins at `in_at`: 0, its header is not there; UINT32_MAX: it is none. */
static uint32_t length_of(const struct hk_tcp *t, const struct hk_tcp_conn *c)
{
	struct hk_msg_hdr h;

	if (c->in_fill - c->in_at < HK_MSG_HLEN)
		return 0;
	memcpy(&h, c->in + c->in_at, sizeof(h));
	uint32_t len = HK_MSG_HLEN + le16toh(h.len);
	if (HK_UNLIKELY((h.ver_flags & 0x0f) != HK_MSG_VERSION || len > t->longest ||
			le16toh(h.src) != c->node))
		return UINT32_MAX;
	return len;
}

/* Hands out messages that are whole. */
static unsigned unpack(struct hk_tcp *t, struct hk_tcp_conn *c, struct hk_rtc_buf **m, unsigned n)
{
	unsigned got = 0;

	while (got < n) {
		uint32_t len = length_of(t, c);
		if (HK_UNLIKELY(len == UINT32_MAX)) {
			hk_tcp_down(t, c, "what it sent is no message", true);
			break;
		}
		c->expect = len ? len : HK_MSG_HLEN;
		if (len == 0 || c->in_fill - c->in_at < len)
			break;
		struct hk_rtc_buf *buf = hk_rtc_slab_take(&t->slab);
		if (HK_UNLIKELY(!buf)) {
			t->base.no_buffer++;
			break;
		}
		memcpy(buf->hdr, c->in + c->in_at, len);
		buf->len = len;
		c->in_at += len;
		c->pause_ms = PAUSE_MS;
		m[got++] = buf;
	}
	return got;
}

/* What lies in `in` and could not be handed out is looked at first in the next round: no event tells
 * of it. */
static void remember(struct hk_tcp *t, struct hk_tcp_conn *c)
{
	if (c->waits || c->state != HK_TCP_UP)
		return;
	uint32_t len = length_of(t, c);
	if (len == 0 || (len != UINT32_MAX && c->in_fill - c->in_at < len))
		return;
	c->waits = true;
	t->waiting[(t->waiting_at + t->waitings++) % t->nodes] = c->node;
}

/* One recv(). False: there is nothing more now. */
static bool fill(struct hk_tcp *t, struct hk_tcp_conn *c, uint32_t last)
{
	uint32_t have = c->in_fill - c->in_at, want;

	if (have == 0) {
		c->in_at = c->in_fill = 0;
	} else if (c->in_at + 2 * t->longest > t->in_size) {
		memmove(c->in, c->in + c->in_at, have);
		c->in_at = 0;
		c->in_fill = have;
	}
	/* plain: what is missing of this message; of one not begun, as much as the last one had */
	if (t->batch)
		want = t->in_size - c->in_fill;
	else
		want = have >= HK_MSG_HLEN ? c->expect - have : HK_MAX(last, HK_MSG_HLEN) - have;
	ssize_t r = recv(c->fd, c->in + c->in_fill, want, MSG_DONTWAIT);
	if (HK_LIKELY(r > 0)) {
		c->in_fill += (uint32_t)r;
		return !t->batch || (uint32_t)r == want;
	}
	if (r == 0 || (errno != EAGAIN && errno != EINTR))
		hk_tcp_down(t, c, r == 0 ? "it hangs up" : strerrordesc_np(errno), false);
	return false;
}

/* Takes up to @n messages of one connection. */
static unsigned take(struct hk_tcp *t, struct hk_tcp_conn *c, struct hk_rtc_buf **m, unsigned n)
{
	unsigned got = unpack(t, c, m, n);
	bool more = true;

	while (got < n && more && c->state == HK_TCP_UP && t->slab.free) {
		more = fill(t, c, c->last);
		unsigned now = unpack(t, c, m + got, n - got);
		if (now)
			c->last = m[got + now - 1]->len;
		got += now;
	}
	remember(t, c);
	return got;
}

/* Events of connections that are new or want to send; and all messages, when there are many. */
static unsigned take_events(struct hk_tcp *t, struct hk_rtc_buf **m, unsigned n, bool all)
{
	struct epoll_event e[HK_TCP_BURST];
	unsigned got = 0;
	int events = epoll_wait(t->epoll, e, HK_TCP_BURST, 0);

	for (int i = 0; i < events; i++) {
		struct hk_tcp_conn *c = hk_tcp_event(t, e[i].data.u64);
		if (c && all && got < n)
			got += take(t, c, m + got, n - got);
	}
	return got;
}

static unsigned tcp_rx(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	struct hk_tcp *t = (struct hk_tcp *)b;
	unsigned got = 0;

	if (HK_UNLIKELY(!t->slab.free)) {
		t->base.no_buffer++;
		n = 0; /* sending and connecting go on */
	}
	for (unsigned i = t->waitings; i && got < n; i--) {
		struct hk_tcp_conn *c = &t->conn[t->waiting[t->waiting_at]];
		t->waiting_at = (t->waiting_at + 1) % t->nodes;
		t->waitings--;
		c->waits = false;
		if (c->state == HK_TCP_UP)
			got += take(t, c, m + got, n - got);
	}
	bool many = t->ups > LOOK_AT;
	t->now_ms = hk_tcp_clock(true);
	bool tick = t->now_ms != t->tick_ms;
	t->tick_ms = t->now_ms;
	if (many || HK_UNLIKELY(tick))
		got += take_events(t, m + got, n - got, many);
	if (HK_UNLIKELY(tick))
		hk_tcp_timers(t);
	if (many)
		return got;
	t->round++;
	for (unsigned i = 0; i < t->ups; i++) {
		struct hk_tcp_conn *c = t->up[(t->round + i) % t->ups];
		if (c->out_fill)
			hk_tcp_flush(t, c);
		if (c->state == HK_TCP_UP && got < n)
			got += take(t, c, m + got, n - got);
	}
	return got;
}

/* ---- sending ------------------------------------------------------------------------------------- */

/* A failed send(). False: the connection has ended. */
static bool may_wait(struct hk_tcp *t, struct hk_tcp_conn *c)
{
	if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
		return true;
	hk_tcp_down(t, c, strerrordesc_np(errno), false);
	return false;
}

void hk_tcp_flush(struct hk_tcp *t, struct hk_tcp_conn *c)
{
	if (c->out_fill == 0)
		return;
	ssize_t r = send(c->fd, c->out + c->out_at, c->out_fill - c->out_at,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
	if (r < 0) {
		may_wait(t, c);
		return;
	}
	c->out_at += (uint32_t)r;
	if (c->out_at < c->out_fill)
		return;
	c->out_at = c->out_fill = 0;
	hk_tcp_want_out(t, c, false);
}

/* Has @len bytes of a message wait. A rest of one must not be refused, and finds `out` empty. */
static bool keep(struct hk_tcp *t, struct hk_tcp_conn *c, const uint8_t *bytes, uint32_t len)
{
	if (c->out_fill + len > t->out_size && c->out_at) {
		memmove(c->out, c->out + c->out_at, c->out_fill - c->out_at);
		c->out_fill -= c->out_at;
		c->out_at = 0;
	}
	if (c->out_fill + len > t->out_size)
		return false;
	if (c->out_fill == 0)
		hk_tcp_want_out(t, c, true);
	memcpy(c->out + c->out_fill, bytes, len);
	c->out_fill += len;
	return true;
}

/* After a sendmsg() of @count messages that took @sent bytes: the rest waits. */
static void keep_rest(struct hk_tcp *t, struct hk_tcp_conn *c, const struct iovec *v,
		      unsigned count, size_t sent)
{
	for (unsigned i = 0; i < count; i++) {
		size_t gone = HK_MIN(sent, v[i].iov_len);
		sent -= gone;
		if (gone < v[i].iov_len && !keep(t, c, (const uint8_t *)v[i].iov_base + gone,
						 (uint32_t)(v[i].iov_len - gone)))
			t->base.tx_full++;
	}
}

/* Sends @count messages to one node by one system call. */
static void send_vector(struct hk_tcp *t, struct hk_tcp_conn *c, struct iovec *v, unsigned count,
			size_t bytes)
{
	ssize_t r = 0;

	if (HK_LIKELY(c->out_fill == 0)) {
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
	keep_rest(t, c, v, count, (size_t)r);
}

static void send_some(struct hk_tcp *t, struct hk_rtc_buf **m, unsigned n)
{
	uint32_t done = 0; /* a bit for each of @m */
	struct iovec v[HK_TCP_BURST];

	for (unsigned i = 0; i < n; i++) {
		unsigned count = 0;
		size_t bytes = 0;
		uint16_t dst = m[i]->dst;
		if (done & 1u << i)
			continue;
		if (HK_UNLIKELY(dst >= t->nodes || t->conn[dst].state != HK_TCP_UP)) {
			t->base.tx_full++;
			continue;
		}
		struct hk_tcp_conn *c = &t->conn[dst];
		for (unsigned j = i; j < (t->batch ? n : i + 1); j++) {
			if (m[j]->dst != dst || done & 1u << j)
				continue;
			done |= 1u << j;
			if (HK_UNLIKELY(m[j]->len > c->takes)) {
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
	for (unsigned at = 0; at < n; at += HK_TCP_BURST)
		send_some((struct hk_tcp *)b, m + at, HK_MIN(n - at, (unsigned)HK_TCP_BURST));
}

static void tcp_tx(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	tcp_tx_copy(b, m, n);
	hk_rtc_slab_give(&((struct hk_tcp *)b)->slab, m, n);
}

static unsigned tcp_alloc(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	return hk_rtc_slab_alloc(&((struct hk_tcp *)b)->slab, b, m, n);
}

static void tcp_free(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	hk_rtc_slab_give(&((struct hk_tcp *)b)->slab, m, n);
}

const struct hk_rtc_backend_ops hk_rtc_tcp = {
	.name = "tcp",
	.open = tcp_open,
	.peer = tcp_peer,
	.connect = tcp_connect,
	.close = tcp_close,
	.rx = tcp_rx,
	.tx = tcp_tx,
	.tx_copy = tcp_tx_copy,
	.alloc = tcp_alloc,
	.free = tcp_free,
};

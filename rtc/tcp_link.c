/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/tcp_link.c: how the tcp backend's connections come to be, and end.
 */
#include "rtc/tcp.h"

#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAUSE_MIN_MS 10 /* between attempts to connect, doubled each time */
#define PAUSE_MAX_MS 500
#define CONNECT_MS   2000 /* for connection and greeting */
#define STRANGER_MS  2000 /* to say who it is */
#define SILENT_MS    5000 /* of a peer's kernel, while data waits for it */
#define EVENTS       32

/* What the epoll's events are of. */
#define TAG_LISTENER (UINT64_C(1) << 32)
#define TAG_STRANGER (UINT64_C(2) << 32)
#define TAG_CONN     (UINT64_C(3) << 32)

static const uint8_t magic[4] = {'H', 'K', 'r', 't'};

static void watch(struct hk_tcp *t, int op, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event e = {.events = events, .data.u64 = tag};
	/* fails for want of memory only; then the attempt times out, and is made again */
	epoll_ctl(t->epoll, op, fd, &e);
}

void hk_tcp_want_out(struct hk_tcp *t, struct hk_tcp_conn *c, bool want)
{
	watch(t, EPOLL_CTL_MOD, c->fd, EPOLLIN | (want ? EPOLLOUT : 0u), TAG_CONN | c->node);
}

static void settings(int fd)
{
	int one = 1, silent = SILENT_MS;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent, sizeof(silent));
}

/* ---- the greeting ----------------------------------------------------------------------------- */

static struct hk_tcp_hello hello_to(const struct hk_tcp *t, uint16_t node)
{
	struct hk_tcp_hello h = {
		.version = htole16(HK_TCP_VERSION),
		.src = htole16(t->node),
		.dst = htole16(node),
		.key = htole32(t->key),
		.incarnation = htole64(t->incarnation),
		.takes = htole32(t->longest),
	};
	memcpy(h.magic, magic, sizeof(magic));
	return h;
}

/* NULL if all is well but who it is; else why not. */
static const char *check_hello(const struct hk_tcp *t, const struct hk_tcp_hello *h)
{
	if (memcmp(h->magic, magic, sizeof(magic)) != 0 || h->zero || h->zero2)
		return "it is no node";
	if (le16toh(h->version) != HK_TCP_VERSION)
		return "it is of another version";
	if (le32toh(h->key) != t->key)
		return "it is of another job";
	if (le16toh(h->dst) != t->node)
		return "it looks for another node";
	if (le16toh(h->src) >= t->nodes || le32toh(h->takes) < HK_MSG_HLEN)
		return "it is not of this job's nodes";
	return NULL;
}

/* Sends our hello; a new connection has room for it. */
static bool greet(struct hk_tcp *t, int fd, uint16_t node)
{
	struct hk_tcp_hello h = hello_to(t, node);
	return send(fd, &h, sizeof(h), MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(h);
}

static void set_up(struct hk_tcp *t, struct hk_tcp_conn *c, const struct hk_tcp_hello *h)
{
	c->state = HK_TCP_UP;
	c->takes = le32toh(h->takes);
	c->incarnation = le64toh(h->incarnation);
	c->in_at = c->in_fill = c->out_at = c->out_fill = 0;
	c->expect = c->last = HK_MSG_HLEN;
	c->why = NULL;
	c->place = t->ups;
	t->up[t->ups++] = c;
}

void hk_tcp_down(struct hk_tcp *t, struct hk_tcp_conn *c, const char *why, bool cut)
{
	if (c->fd < 0)
		return;
	if (c->state == HK_TCP_UP) {
		t->up[c->place] = t->up[--t->ups];
		t->up[c->place]->place = c->place;
	}
	close(c->fd); /* leaves the epoll too */
	c->fd = -1;
	c->state = HK_TCP_DOWN;
	c->in_at = c->in_fill = c->out_at = c->out_fill = 0;
	c->why = why;
	c->when_ms = t->now_ms + c->pause_ms;
	c->pause_ms = HK_MIN(c->pause_ms * 2, (unsigned)PAUSE_MAX_MS);
	t->base.cut_off += cut;
}

/* ---- we connect -------------------------------------------------------------------------------- */

/* Ours to connect to: the higher of a pair. */
static bool ours(const struct hk_tcp *t, const struct hk_tcp_conn *c)
{
	return c->node > t->node && c->at.sin_family;
}

static void begin(struct hk_tcp *t, struct hk_tcp_conn *c)
{
	struct sockaddr_in from = t->here.at;
	int one = 1;

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0) {
		c->why = strerrordesc_np(errno);
		c->when_ms = t->now_ms + PAUSE_MAX_MS;
		return;
	}
	settings(c->fd);
	/* from the address that the others know us by */
	from.sin_port = 0;
	setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
	if (bind(c->fd, (struct sockaddr *)&from, sizeof(from)) != 0 ||
	    (connect(c->fd, (struct sockaddr *)&c->at, sizeof(c->at)) != 0 &&
	     errno != EINPROGRESS)) {
		hk_tcp_down(t, c, strerrordesc_np(errno), false);
		return;
	}
	c->state = HK_TCP_CONNECTING;
	c->when_ms = t->now_ms + CONNECT_MS;
	watch(t, EPOLL_CTL_ADD, c->fd, EPOLLIN | EPOLLOUT, TAG_CONN | c->node);
}

static void connected(struct hk_tcp *t, struct hk_tcp_conn *c)
{
	int error = 0;
	socklen_t len = sizeof(error);

	getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len);
	if (error || !greet(t, c->fd, c->node)) {
		hk_tcp_down(t, c, error ? strerrordesc_np(error) : "it hangs up", false);
		return;
	}
	c->state = HK_TCP_GREETING;
	hk_tcp_want_out(t, c, false);
}

static void greeted(struct hk_tcp *t, struct hk_tcp_conn *c)
{
	struct hk_tcp_hello h;
	ssize_t r = recv(c->fd, c->in + c->in_fill, sizeof(h) - c->in_fill, MSG_DONTWAIT);

	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (r <= 0) {
		hk_tcp_down(t, c, r ? strerrordesc_np(errno) : "it hangs up", false);
		return;
	}
	c->in_fill += (uint32_t)r;
	if (c->in_fill < sizeof(h))
		return;
	memcpy(&h, c->in, sizeof(h));
	const char *wrong = check_hello(t, &h);
	if (!wrong && le16toh(h.src) != c->node)
		wrong = "it is another node";
	if (wrong)
		hk_tcp_down(t, c, wrong, true);
	else
		set_up(t, c, &h);
}

/* ---- others connect ------------------------------------------------------------------------------ */

static void drop_stranger(struct hk_tcp *t, struct hk_tcp_stranger *s)
{
	close(s->fd);
	s->fd = -1;
	t->strangers--;
	t->base.cut_off++;
}

/* A free place; the one who has waited longest goes if there is none. */
static struct hk_tcp_stranger *stranger_place(struct hk_tcp *t)
{
	struct hk_tcp_stranger *oldest = &t->stranger[0];

	for (unsigned i = 0; i < HK_TCP_STRANGERS; i++) {
		struct hk_tcp_stranger *s = &t->stranger[i];
		if (s->fd < 0)
			return s;
		if (s->until_ms < oldest->until_ms)
			oldest = s;
	}
	drop_stranger(t, oldest);
	return oldest;
}

static void take_strangers(struct hk_tcp *t)
{
	for (unsigned i = 0; i < EVENTS; i++) {
		struct sockaddr_in from = {0};
		socklen_t len = sizeof(from);
		int fd = accept4(t->listener, (struct sockaddr *)&from, &len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		struct hk_tcp_stranger *s = stranger_place(t);
		*s = (struct hk_tcp_stranger){
			.fd = fd, .until_ms = t->now_ms + STRANGER_MS, .ip = from.sin_addr.s_addr};
		t->strangers++;
		settings(fd);
		watch(t, EPOLL_CTL_ADD, fd, EPOLLIN, TAG_STRANGER | (uint64_t)(s - t->stranger));
	}
}

/* Who has said what is right becomes the connection to its node, in place of an earlier one. */
static void adopt(struct hk_tcp *t, struct hk_tcp_stranger *s)
{
	const struct hk_tcp_hello *h = &s->hello;
	const char *wrong = check_hello(t, h);
	struct hk_tcp_conn *c = wrong ? NULL : &t->conn[le16toh(h->src)];

	/* a lower node, from where that node is, and not from an earlier life of it */
	if (!c || c->node >= t->node || !c->at.sin_family || s->ip != c->at.sin_addr.s_addr ||
	    (c->state == HK_TCP_UP && le64toh(h->incarnation) < c->incarnation) ||
	    !greet(t, s->fd, c->node)) {
		drop_stranger(t, s);
		return;
	}
	hk_tcp_down(t, c, "it has connected anew", false);
	c->fd = s->fd;
	s->fd = -1;
	t->strangers--;
	set_up(t, c, h);
	hk_tcp_want_out(t, c, false); /* the event's tag becomes the node's */
}

static void read_hello(struct hk_tcp *t, struct hk_tcp_stranger *s)
{
	ssize_t r = recv(s->fd, (uint8_t *)&s->hello + s->got, sizeof(s->hello) - s->got,
			 MSG_DONTWAIT);

	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (r <= 0) {
		drop_stranger(t, s);
		return;
	}
	s->got += (unsigned)r;
	if (s->got == sizeof(s->hello))
		adopt(t, s);
}

/* ---- events -------------------------------------------------------------------------------------- */

struct hk_tcp_conn *hk_tcp_event(struct hk_tcp *t, uint64_t tag)
{
	uint32_t index = (uint32_t)tag;

	if (tag == TAG_LISTENER) {
		take_strangers(t);
		return NULL;
	}
	if ((tag & ~UINT64_C(0xffffffff)) == TAG_STRANGER) {
		if (t->stranger[index].fd >= 0)
			read_hello(t, &t->stranger[index]);
		return NULL;
	}
	struct hk_tcp_conn *c = &t->conn[index];
	switch (c->state) {
	case HK_TCP_CONNECTING:
		connected(t, c);
		return NULL;
	case HK_TCP_GREETING:
		greeted(t, c);
		return NULL;
	case HK_TCP_UP:
		hk_tcp_flush(t, c);
		return c->state == HK_TCP_UP ? c : NULL;
	case HK_TCP_DOWN:
		break; /* ended by an earlier event of the same round */
	}
	return NULL;
}

void hk_tcp_timers(struct hk_tcp *t)
{
	for (unsigned i = 0; i < t->nodes && t->ups < t->known; i++) {
		struct hk_tcp_conn *c = &t->conn[i];
		if (c->state == HK_TCP_UP || !ours(t, c) || t->now_ms < c->when_ms)
			continue;
		if (c->state == HK_TCP_DOWN)
			begin(t, c);
		else
			hk_tcp_down(t, c, "no answer", false);
	}
	for (unsigned i = 0; i < HK_TCP_STRANGERS && t->strangers; i++)
		if (t->stranger[i].fd >= 0 && t->now_ms >= t->stranger[i].until_ms)
			drop_stranger(t, &t->stranger[i]);
}

int hk_tcp_listen(struct hk_tcp *t, struct hk_error *err)
{
	t->listener = hk_rtc_inet_bind(&t->here, SOCK_STREAM, err);
	if (t->listener < 0)
		return t->listener;
	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll < 0 || listen(t->listener, HK_MAX((int)t->nodes, 64)) != 0) {
		int rc = -errno;
		char text[32];
		hk_rtc_inet_text(&t->here.at, text, sizeof(text));
		return hk_error_set(err, rc,
				    "%s takes no connections: %s; fix: another port, or "
				    "leave it away for any",
				    text, strerror(-rc));
	}
	watch(t, EPOLL_CTL_ADD, t->listener, EPOLLIN, TAG_LISTENER);
	return 0;
}

int hk_tcp_connect_all(struct hk_tcp *t, int64_t deadline_ms, struct hk_error *err)
{
	struct epoll_event e[EVENTS];
	const struct hk_tcp_conn *missing = NULL;
	char text[32];

	t->now_ms = hk_tcp_clock(false);
	hk_tcp_timers(t);
	while (!t->late && t->ups < t->known && t->now_ms < deadline_ms) {
		int n = epoll_wait(t->epoll, e, EVENTS, 5);
		t->now_ms = hk_tcp_clock(false);
		for (int i = 0; i < n; i++)
			hk_tcp_event(t, e[i].data.u64);
		hk_tcp_timers(t);
	}
	if (t->late || t->ups == t->known)
		return 0;
	for (unsigned i = t->nodes; i-- > 0;)
		if (t->conn[i].at.sin_family && t->conn[i].state != HK_TCP_UP)
			missing = &t->conn[i];
	hk_rtc_inet_text(&missing->at, text, sizeof(text));
	return hk_error_set(err, -ETIMEDOUT,
			    "%u of %u nodes are not connected in time; the first is node %u at %s: "
			    "%s; fix: see that %s lets TCP pass to it, or choose another interface",
			    t->known - t->ups, t->nodes, missing->node, text,
			    missing->why              ? missing->why
			    : missing->node < t->node ? "it has not connected to us"
						      : "no answer",
			    t->here.interface);
}

void hk_tcp_close_links(struct hk_tcp *t)
{
	for (unsigned i = 0; t->conn && i < t->nodes; i++)
		if (t->conn[i].fd >= 0)
			close(t->conn[i].fd);
	for (unsigned i = 0; i < HK_TCP_STRANGERS; i++)
		if (t->stranger[i].fd >= 0)
			close(t->stranger[i].fd);
	if (t->listener >= 0)
		close(t->listener);
	if (t->epoll >= 0)
		close(t->epoll);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/tcp_link.c: sets up and closes the tcp backend's connections.
 */
#include "rtc/tcp.h"

#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAUSE_MAX_MS 500
#define CONNECT_MS   2000 /* limit for connection and greeting */
#define HELLO_MS     2000 /* limit for an accepted connection's greeting */
#define SILENT_MS    5000 /* limit for a silent peer's kernel while data waits */
#define EVENTS       32

/* Tags of epoll events: the kind of descriptor. */
#define TAG_LISTENER (UINT64_C(1) << 32)
#define TAG_INCOMING (UINT64_C(2) << 32)
#define TAG_CONN     (UINT64_C(3) << 32)

static void watch(struct hk_rtc_tcp *t, int op, int fd, uint32_t events, uint64_t tag)
{
	struct epoll_event e = {.events = events, .data.u64 = tag};
	/* fails only without memory; then the attempt times out and is repeated */
	epoll_ctl(t->epoll, op, fd, &e);
}

void hk_rtc_tcp_want_out(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c, bool want)
{
	watch(t, EPOLL_CTL_MOD, c->fd, EPOLLIN | (want ? EPOLLOUT : 0u), TAG_CONN | c->node);
}

static void set_options(int fd)
{
	int one = 1, silent = SILENT_MS;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent, sizeof(silent));
}

/* ---- the greeting ---------------------------------------------------------------------------- */

static size_t greeting_len(const struct hk_rtc_tcp *t)
{
	return hk_rtc_tcp_greeting_len(t->expected.proved);
}

/* Sends our greeting; a new connection always has space for it. @nonce: ours, and @echo: the
 * peer's, or NULL; with protection. */
static bool send_greeting(struct hk_rtc_tcp *t, int fd, uint16_t node, const uint8_t *nonce,
			  const uint8_t *echo)
{
	struct hk_rtc_tcp_greeting g = {0};
	struct hk_rtc_protect *p = t->base.protect;
	size_t len = greeting_len(t);

	hk_rtc_tcp_hello_write(&t->expected, node, t->incarnation, t->longest, &g.hello);
	if (t->expected.proved) {
		memcpy(g.nonce, nonce, sizeof(g.nonce));
		if (echo)
			memcpy(g.echo, echo, sizeof(g.echo));
		if (!p->prove(p, node, &g, HK_RTC_TCP_PROVED, g.proof))
			return false;
	}
	return send(fd, &g, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

/* Checks a greeting, except its source and what it repeats. Returns NULL or the fault. */
static const char *check_greeting(const struct hk_rtc_tcp *t, const struct hk_rtc_tcp_greeting *g)
{
	const char *wrong = hk_rtc_tcp_hello_check(&t->expected, g, greeting_len(t));
	struct hk_rtc_protect *p = t->base.protect;
	uint8_t proof[HK_RTC_PROOF_LEN];

	if (wrong || !t->expected.proved)
		return wrong;
	return p->prove(p, le16toh(g->hello.src), g, HK_RTC_TCP_PROVED, proof) &&
			       hk_rtc_proof_equal(proof, g->proof)
		       ? NULL
		       : "it has another secret";
}

static void set_up(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c,
		   const struct hk_rtc_tcp_hello *h)
{
	c->state = HK_RTC_TCP_UP;
	c->peer_max = le32toh(h->message_max);
	c->incarnation = le64toh(h->incarnation);
	c->in_start = c->in_end = c->out_start = c->out_end = 0;
	c->expect = c->last = HK_MSG_HLEN;
	c->reason = NULL;
	c->up_index = t->up_count;
	t->up[t->up_count++] = c;
}

void hk_rtc_tcp_down(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c, const char *why, bool cut)
{
	if (c->fd < 0)
		return;
	if (c->state == HK_RTC_TCP_UP) {
		t->up[c->up_index] = t->up[--t->up_count];
		t->up[c->up_index]->up_index = c->up_index;
	}
	close(c->fd); /* this also removes it from the epoll */
	c->fd = -1;
	c->state = HK_RTC_TCP_DOWN;
	c->in_start = c->in_end = c->out_start = c->out_end = 0;
	c->reason = why;
	c->next_ms = t->now_ms + c->pause_ms;
	c->pause_ms = HK_MIN(c->pause_ms * 2, (unsigned)PAUSE_MAX_MS);
	t->base.cut_off += cut;
}

/* ---- connections that we make ---------------------------------------------------------------- */

/* Whether this node connects to the peer: the peer has the higher number. */
static bool is_connecting_side(const struct hk_rtc_tcp *t, const struct hk_rtc_tcp_conn *c)
{
	return c->node > t->node && c->addr.sin_family;
}

static void begin(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c)
{
	struct sockaddr_in from = t->here.addr;
	int one = 1;

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0) {
		c->reason = strerrordesc_np(errno);
		c->next_ms = t->now_ms + PAUSE_MAX_MS;
		return;
	}
	set_options(c->fd);
	/* use the address by which the others know this node */
	from.sin_port = 0;
	setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
	if (bind(c->fd, (struct sockaddr *)&from, sizeof(from)) != 0 ||
	    (connect(c->fd, (struct sockaddr *)&c->addr, sizeof(c->addr)) != 0 &&
	     errno != EINPROGRESS)) {
		hk_rtc_tcp_down(t, c, strerrordesc_np(errno), false);
		return;
	}
	c->state = HK_RTC_TCP_CONNECTING;
	c->next_ms = t->now_ms + CONNECT_MS;
	watch(t, EPOLL_CTL_ADD, c->fd, EPOLLIN | EPOLLOUT, TAG_CONN | c->node);
}

static void connected(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c)
{
	int error = 0;
	socklen_t len = sizeof(error);

	getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len);
	hk_rtc_nonce_draw(c->nonce);
	if (error || !send_greeting(t, c->fd, c->node, c->nonce, NULL)) {
		hk_rtc_tcp_down(t, c, error ? strerrordesc_np(error) : "it hangs up", false);
		return;
	}
	c->state = HK_RTC_TCP_GREETING;
	hk_rtc_tcp_want_out(t, c, false);
}

static const char *hung_up(const struct hk_rtc_tcp *t)
{
	return t->expected.proved ? "it hangs up, maybe since its secret or protection differs"
				  : "it hangs up";
}

static void read_reply(struct hk_rtc_tcp *t, struct hk_rtc_tcp_conn *c)
{
	struct hk_rtc_tcp_greeting g;
	size_t len = greeting_len(t);
	ssize_t r = recv(c->fd, c->in + c->in_end, len - c->in_end, MSG_DONTWAIT);

	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (r <= 0) {
		hk_rtc_tcp_down(t, c, r ? strerrordesc_np(errno) : hung_up(t), false);
		return;
	}
	c->in_end += (uint32_t)r;
	if (c->in_end < len)
		return;
	memcpy(&g, c->in, len);
	const char *wrong = check_greeting(t, &g);
	if (!wrong && le16toh(g.hello.src) != c->node)
		wrong = "it is another node";
	if (!wrong && t->expected.proved &&
	    (memcmp(g.echo, c->nonce, sizeof(g.echo)) != 0 ||
	     !send_greeting(t, c->fd, c->node, c->nonce, g.nonce)))
		wrong = "it answers another greeting";
	if (wrong)
		hk_rtc_tcp_down(t, c, wrong, true);
	else
		set_up(t, c, &g.hello);
}

/* ---- connections that we accept -------------------------------------------------------------- */

static void drop_incoming(struct hk_rtc_tcp *t, struct hk_rtc_tcp_incoming *s)
{
	close(s->fd);
	s->fd = -1;
	t->incoming_count--;
	t->base.cut_off++;
}

/* Returns a free entry; if there is none, it closes the oldest connection. */
static struct hk_rtc_tcp_incoming *incoming_entry(struct hk_rtc_tcp *t)
{
	struct hk_rtc_tcp_incoming *oldest = &t->incoming[0];

	for (unsigned i = 0; i < HK_RTC_TCP_INCOMING; i++) {
		struct hk_rtc_tcp_incoming *s = &t->incoming[i];
		if (s->fd < 0)
			return s;
		if (s->until_ms < oldest->until_ms)
			oldest = s;
	}
	drop_incoming(t, oldest);
	return oldest;
}

static void accept_incoming(struct hk_rtc_tcp *t)
{
	for (unsigned i = 0; i < EVENTS; i++) {
		struct sockaddr_in from = {0};
		socklen_t len = sizeof(from);
		int fd = accept4(t->listener, (struct sockaddr *)&from, &len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		struct hk_rtc_tcp_incoming *s = incoming_entry(t);
		*s = (struct hk_rtc_tcp_incoming){
			.fd = fd, .until_ms = t->now_ms + HELLO_MS, .ip = from.sin_addr.s_addr};
		t->incoming_count++;
		set_options(fd);
		watch(t, EPOLL_CTL_ADD, fd, EPOLLIN, TAG_INCOMING | (uint64_t)(s - t->incoming));
	}
}

/* The connection that @s wants to be. NULL: its greeting is wrong. It must be a node that connects
 * to us, from its address, and not an earlier incarnation. */
static struct hk_rtc_tcp_conn *claimed(struct hk_rtc_tcp *t, const struct hk_rtc_tcp_incoming *s)
{
	const struct hk_rtc_tcp_hello *h = &s->greeting.hello;

	if (check_greeting(t, &s->greeting))
		return NULL;
	struct hk_rtc_tcp_conn *c = &t->conn[le16toh(h->src)];

	return c->node >= t->node || !c->addr.sin_family || s->ip != c->addr.sin_addr.s_addr ||
			       (c->state == HK_RTC_TCP_UP &&
				le64toh(h->incarnation) < c->incarnation)
		       ? NULL
		       : c;
}

/* Makes a connection the one to its node; it replaces an earlier one. */
static void adopt_incoming(struct hk_rtc_tcp *t, struct hk_rtc_tcp_incoming *s,
			   struct hk_rtc_tcp_conn *c)
{
	hk_rtc_tcp_down(t, c, "it has connected again", false);
	c->fd = s->fd;
	s->fd = -1;
	t->incoming_count--;
	set_up(t, c, &s->greeting.hello);
	hk_rtc_tcp_want_out(t, c, false); /* also changes the tag of its events */
}

static void take_greeting(struct hk_rtc_tcp *t, struct hk_rtc_tcp_incoming *s)
{
	struct hk_rtc_tcp_conn *c = claimed(t, s);
	bool proved = t->expected.proved, last = s->answered || !proved;

	if (c && s->answered && memcmp(s->greeting.echo, s->nonce, sizeof(s->nonce)) != 0)
		c = NULL;
	if (c && !s->answered) {
		hk_rtc_nonce_draw(s->nonce);
		if (!send_greeting(t, s->fd, c->node, s->nonce, s->greeting.nonce))
			c = NULL;
		s->answered = true;
		s->got = 0;
	}
	if (!c)
		drop_incoming(t, s);
	else if (last)
		adopt_incoming(t, s, c);
}

static void read_greeting(struct hk_rtc_tcp *t, struct hk_rtc_tcp_incoming *s)
{
	size_t len = greeting_len(t);
	ssize_t r = recv(s->fd, (uint8_t *)&s->greeting + s->got, len - s->got, MSG_DONTWAIT);

	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (r <= 0) {
		drop_incoming(t, s);
		return;
	}
	s->got += (unsigned)r;
	if (s->got == len)
		take_greeting(t, s);
}

/* ---- events ---------------------------------------------------------------------------------- */

struct hk_rtc_tcp_conn *hk_rtc_tcp_event(struct hk_rtc_tcp *t, uint64_t tag)
{
	uint32_t index = (uint32_t)tag;

	if (tag == TAG_LISTENER) {
		accept_incoming(t);
		return NULL;
	}
	if ((tag & ~UINT64_C(0xffffffff)) == TAG_INCOMING) {
		if (t->incoming[index].fd >= 0)
			read_greeting(t, &t->incoming[index]);
		return NULL;
	}
	struct hk_rtc_tcp_conn *c = &t->conn[index];
	switch (c->state) {
	case HK_RTC_TCP_CONNECTING:
		connected(t, c);
		return NULL;
	case HK_RTC_TCP_GREETING:
		read_reply(t, c);
		return NULL;
	case HK_RTC_TCP_UP:
		hk_rtc_tcp_flush(t, c);
		return c->state == HK_RTC_TCP_UP ? c : NULL;
	case HK_RTC_TCP_DOWN:
		break; /* an earlier event of this round closed it */
	}
	return NULL;
}

void hk_rtc_tcp_timers(struct hk_rtc_tcp *t)
{
	for (unsigned i = 0; i < t->nodes && t->up_count < t->peers; i++) {
		struct hk_rtc_tcp_conn *c = &t->conn[i];
		if (c->state == HK_RTC_TCP_UP || !is_connecting_side(t, c) ||
		    t->now_ms < c->next_ms)
			continue;
		if (c->state == HK_RTC_TCP_DOWN)
			begin(t, c);
		else
			hk_rtc_tcp_down(t, c, "no reply", false);
	}
	for (unsigned i = 0; i < HK_RTC_TCP_INCOMING && t->incoming_count; i++)
		if (t->incoming[i].fd >= 0 && t->now_ms >= t->incoming[i].until_ms)
			drop_incoming(t, &t->incoming[i]);
}

int hk_rtc_tcp_listen(struct hk_rtc_tcp *t, struct hk_error *err)
{
	t->listener = hk_rtc_inet_bind(&t->here, SOCK_STREAM, err);
	if (t->listener < 0)
		return t->listener;
	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll < 0 || listen(t->listener, HK_MAX((int)t->nodes, 64)) != 0) {
		int rc = -errno;
		char text[32];
		hk_rtc_inet_text(&t->here.addr, text, sizeof(text));
		return hk_error_set(err, rc,
				    "%s takes no connections: %s; fix: use another port, or none "
				    "for any free one",
				    text, strerror(-rc));
	}
	watch(t, EPOLL_CTL_ADD, t->listener, EPOLLIN, TAG_LISTENER);
	return 0;
}

int hk_rtc_tcp_connect_all(struct hk_rtc_tcp *t, int64_t deadline_ms, struct hk_error *err)
{
	struct epoll_event e[EVENTS];
	const struct hk_rtc_tcp_conn *missing = NULL;
	char text[32];

	t->now_ms = hk_rtc_tcp_clock(false);
	hk_rtc_tcp_timers(t);
	while (!t->peers_late && t->up_count < t->peers && t->now_ms < deadline_ms) {
		int n = epoll_wait(t->epoll, e, EVENTS, 5);
		t->now_ms = hk_rtc_tcp_clock(false);
		for (int i = 0; i < n; i++)
			hk_rtc_tcp_event(t, e[i].data.u64);
		hk_rtc_tcp_timers(t);
	}
	if (t->peers_late || t->up_count == t->peers)
		return 0;
	for (unsigned i = t->nodes; i-- > 0;)
		if (t->conn[i].addr.sin_family && t->conn[i].state != HK_RTC_TCP_UP)
			missing = &t->conn[i];
	hk_rtc_inet_text(&missing->addr, text, sizeof(text));
	return hk_error_set(
		err, -ETIMEDOUT,
		"%u of %u nodes are not connected in time; the first is node %u at %s: %s; fix: "
		"check that TCP reaches it through %s, or choose another interface",
		t->peers - t->up_count, t->nodes, missing->node, text,
		missing->reason           ? missing->reason
		: missing->node < t->node ? "it has not connected to us"
					  : "no reply",
		t->here.interface);
}

void hk_rtc_tcp_close_links(struct hk_rtc_tcp *t)
{
	for (unsigned i = 0; t->conn && i < t->nodes; i++)
		if (t->conn[i].fd >= 0)
			close(t->conn[i].fd);
	for (unsigned i = 0; i < HK_RTC_TCP_INCOMING; i++)
		if (t->incoming[i].fd >= 0)
			close(t->incoming[i].fd);
	if (t->listener >= 0)
		close(t->listener);
	if (t->epoll >= 0)
		close(t->epoll);
}

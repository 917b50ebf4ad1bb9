/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/control.c: makes and checks messages; sockets with deadlines.
 */
#include "hostd/control.h"
#include "base/descriptors.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const struct {
	const char *name;
	size_t len;   /* bytes without entries */
	size_t entry; /* bytes of one entry; 0: no entries */
} layout[HK_CTL_TYPES] = {
	[HK_CTL_HELLO] = {"HELLO", sizeof(struct hk_ctl_hello), 0},
	[HK_CTL_WELCOME] = {"WELCOME", sizeof(struct hk_ctl_welcome), 0},
	[HK_CTL_ERROR] = {"ERROR", sizeof(struct hk_ctl_error), 0},
	[HK_CTL_WIRES] = {"WIRES", offsetof(struct hk_ctl_wires, node), sizeof(struct hk_ctl_node)},
	[HK_CTL_WIRES_READY] = {"WIRES_READY", offsetof(struct hk_ctl_wires_ready, wire),
				sizeof(struct hk_ctl_wire)},
	[HK_CTL_READY] = {"READY", sizeof(struct hk_ctl_ready), 0},
	[HK_CTL_PROXIED] = {"PROXIED", sizeof(struct hk_ctl_plain), 0},
	[HK_CTL_LEAVE] = {"LEAVE", sizeof(struct hk_ctl_plain), 0},
	[HK_CTL_LEFT] = {"LEFT", sizeof(struct hk_ctl_plain), 0},
	[HK_CTL_STATUS] = {"STATUS", sizeof(struct hk_ctl_plain), 0},
	[HK_CTL_STATS] = {"STATS", sizeof(struct hk_ctl_plain), 0},
	[HK_CTL_TEXT] = {"TEXT", sizeof(struct hk_ctl_text), 0},
	[HK_CTL_STOP] = {"STOP", sizeof(struct hk_ctl_plain), 0},
	[HK_CTL_STOPPED] = {"STOPPED", sizeof(struct hk_ctl_plain), 0},
};

const char *hk_ctl_type_name(unsigned type)
{
	return type < HK_CTL_TYPES && layout[type].name ? layout[type].name : "?";
}

static const char *const modes[HK_CTL_MODES] = {
	[HK_CTL_HYBRID] = "hybrid",
	[HK_CTL_DAEMON] = "daemon",
	[HK_CTL_SPLIT] = "split",
};

const char *hk_ctl_mode_name(enum hk_ctl_mode mode)
{
	return modes[mode];
}

enum hk_ctl_mode hk_ctl_mode_by_name(const char *name)
{
	for (unsigned i = 1; i < HK_CTL_MODES; i++)
		if (strcmp(name, modes[i]) == 0)
			return (enum hk_ctl_mode)i;
	return 0;
}

/* ---- messages ------------------------------------------------------------------------------ */

void hk_ctl_init(union hk_ctl_msg *m, enum hk_ctl_type type, uint32_t seq, unsigned count)
{
	memset(m, 0, sizeof(*m));
	m->hdr = (struct hk_ctl_hdr){
		.magic = HK_CTL_MAGIC,
		.version = HK_CTL_VERSION,
		.type = (uint16_t)type,
		.len = (uint32_t)(layout[type].len + count * layout[type].entry),
		.seq = seq,
	};
	if (type == HK_CTL_WIRES)
		m->wires.count = count;
	else if (type == HK_CTL_WIRES_READY)
		m->wires_ready.count = count;
}

void hk_ctl_init_error(union hk_ctl_msg *m, uint32_t seq, int code, const char *text)
{
	hk_ctl_init(m, HK_CTL_ERROR, seq, 0);
	m->error.code = code;
	snprintf(m->error.text, sizeof(m->error.text), "%s", text);
}

static bool is_plain(char c)
{
	return c >= ' ' && c <= '~' && c != '"' && c != '\\';
}

bool hk_ctl_set_text(char *field, size_t size, const char *text)
{
	size_t len = strlen(text);

	memset(field, 0, size);
	if (len >= size)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_plain(text[i]))
			return false;
	memcpy(field, text, len);
	return true;
}

/* True if @field holds plain characters, at least @min, and then only zeroes. */
static bool is_text(const char *field, size_t size, size_t min)
{
	size_t n = strnlen(field, size);

	if (n == size || n < min)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!is_plain(field[i]))
			return false;
	for (size_t i = n; i < size; i++)
		if (field[i])
			return false;
	return true;
}

#define TEXT(field, min) is_text(field, sizeof(field), min)
#define EXPECT(cond, field)                                                                        \
	do {                                                                                       \
		if (!(cond))                                                                       \
			return field;                                                              \
	} while (0)

/* Each check returns the name of the wrong field, or NULL. */
static const char *check_hello(const struct hk_ctl_hello *h)
{
	EXPECT(h->job_key != 0, "job_key");
	EXPECT(h->local_ranks >= 1, "local_ranks");
	EXPECT(h->local_rank < h->local_ranks, "local_rank");
	EXPECT(h->pid >= 1 && h->pid <= INT32_MAX, "pid");
	EXPECT(h->zero == 0, "zero");
	EXPECT(TEXT(h->release, 1), "release");
	EXPECT(TEXT(h->host, 1), "host");
	return NULL;
}

static const char *check_welcome(const struct hk_ctl_welcome *w)
{
	EXPECT(w->node_id != 0, "node_id");
	EXPECT(w->slots >= 1 && w->slots <= HK_CTL_MAX_SLOTS, "slots");
	EXPECT(w->slot < w->slots, "slot");
	EXPECT(w->generation != 0, "generation");
	EXPECT(w->frame_max >= 64 && w->frame_max <= UINT16_MAX, "frame_max");
	EXPECT(w->port_kind == HK_CTL_PORT_WIRES || w->port_kind == HK_CTL_PORT_ONE, "port_kind");
	EXPECT(w->poller <= 1, "poller");
	EXPECT(w->mode >= 1 && w->mode < HK_CTL_MODES, "mode");
	EXPECT(w->eager <= HK_CTL_MAX_EAGER, "eager");
	EXPECT((w->eager != 0) == hk_ctl_mode_has_pipes((enum hk_ctl_mode)w->mode), "eager");
	EXPECT(w->link_mbps <= HK_LINK_MBPS_MAX, "link_mbps");
	EXPECT(w->classes <= 1, "classes");
	EXPECT((w->zero[0] | w->zero[1] | w->zero[2]) == 0, "zero");
	EXPECT(TEXT(w->shared, 1), "shared");
	EXPECT(TEXT(w->huge_dir, 0), "huge_dir");
	EXPECT(TEXT(w->runtime_dir, 1), "runtime_dir");
	EXPECT(TEXT(w->rx_pool, 1), "rx_pool");
	EXPECT(TEXT(w->tx_pool, 1), "tx_pool");
	EXPECT(w->memory != 0 && w->memory % 64 == 0, "memory");
	EXPECT(w->memory_len != 0 && w->memory_len <= UINT64_MAX - w->memory, "memory_len");
	EXPECT(w->pipes % 64 == 0, "pipes");
	EXPECT((w->pipes != 0) == hk_ctl_mode_has_pipes((enum hk_ctl_mode)w->mode), "pipes");
	EXPECT(!hk_ctl_mode_has_queues((enum hk_ctl_mode)w->mode) ||
		       w->port_kind == HK_CTL_PORT_WIRES,
	       "port_kind");
	EXPECT(TEXT(w->host, 1), "host");
	return NULL;
}

static const char *check_error(const struct hk_ctl_error *e)
{
	EXPECT(e->code < 0 && e->code >= -4095, "code");
	EXPECT(e->zero == 0, "zero");
	EXPECT(memchr(e->text, '\0', sizeof(e->text)) != NULL && e->text[0], "text");
	return NULL;
}

static const char *check_wires(const struct hk_ctl_wires *w)
{
	EXPECT(w->timeout_ms >= 1 && w->timeout_ms <= 3600 * 1000, "timeout_ms");
	for (uint32_t i = 0; i < w->count; i++) {
		EXPECT(w->node[i].node_id != 0, "node_id");
		EXPECT(w->node[i].slots >= 1 && w->node[i].slots <= HK_CTL_MAX_SLOTS, "slots");
		EXPECT(w->node[i].eager <= HK_CTL_MAX_EAGER, "eager");
		for (uint32_t j = 0; j < i; j++)
			EXPECT(w->node[i].node_id != w->node[j].node_id, "node_id (twice)");
	}
	return NULL;
}

static const char *check_wires_ready(const struct hk_ctl_wires_ready *w)
{
	EXPECT(w->zero == 0, "zero");
	for (uint32_t i = 0; i < w->count; i++) {
		EXPECT(w->wire[i].node_id != 0, "node_id");
		EXPECT(w->wire[i].queues >= 1 &&
			       w->wire[i].queues <=
				       HK_CTL_MAX_SLOTS * HK_CTL_MAX_SLOTS + HK_CTL_MAX_EAGER,
		       "queues");
		EXPECT(w->wire[i].pipe < HK_CTL_MAX_NODES, "pipe");
	}
	return NULL;
}

static const char *check_body(const union hk_ctl_msg *m)
{
	switch ((enum hk_ctl_type)m->hdr.type) {
	case HK_CTL_HELLO:
		return check_hello(&m->hello);
	case HK_CTL_WELCOME:
		return check_welcome(&m->welcome);
	case HK_CTL_ERROR:
		return check_error(&m->error);
	case HK_CTL_WIRES:
		return check_wires(&m->wires);
	case HK_CTL_WIRES_READY:
		return check_wires_ready(&m->wires_ready);
	case HK_CTL_READY:
		/* the daemon checks that the slot's memory contains it */
		return m->ready.worker != 0 && m->ready.worker % 64 == 0 ? NULL : "worker";
	case HK_CTL_TEXT:
		EXPECT(m->text.bytes <= HK_CTL_TEXT_MAX, "bytes");
		EXPECT(m->text.more <= 1, "more");
		return NULL;
	default:
		return NULL;
	}
}

int hk_ctl_check(const void *bytes, size_t len, union hk_ctl_msg *m, struct hk_error *err)
{
	memset(m, 0, sizeof(*m));
	if (len < sizeof(m->hdr))
		return hk_error_set(err, -EPROTO,
				    "a message of %zu bytes is too short for a control message",
				    len);
	memcpy(&m->hdr, bytes, sizeof(m->hdr));
	if (m->hdr.magic != HK_CTL_MAGIC)
		return hk_error_set(err, -EPROTO, "this is not Hikyaku's control protocol");
	/* every version understands ERROR, which may report that versions differ */
	if (m->hdr.version != HK_CTL_VERSION && m->hdr.type != HK_CTL_ERROR)
		return hk_error_set(
			err, -EPROTONOSUPPORT,
			"the other side uses control protocol version %u, and this side "
			"version %u; fix: use hikyakud and ranks of the same release "
			"of Hikyaku",
			m->hdr.version, HK_CTL_VERSION);
	unsigned type = m->hdr.type;
	if (type >= HK_CTL_TYPES || !layout[type].name)
		return hk_error_set(err, -EPROTO, "control message of unknown type %u", type);

	size_t want = layout[type].len;
	if (layout[type].entry && len >= want) {
		uint32_t count;
		_Static_assert(offsetof(struct hk_ctl_wires, count) ==
				       offsetof(struct hk_ctl_wires_ready, count),
			       "both have it at the same offset");
		memcpy(&count, (const char *)bytes + offsetof(struct hk_ctl_wires, count),
		       sizeof(count));
		if (count > HK_CTL_MAX_NODES)
			return hk_error_set(err, -EPROTO, "%s has a wrong count",
					    layout[type].name);
		want += count * layout[type].entry;
	}
	if (len != want || m->hdr.len != want)
		return hk_error_set(err, -EPROTO, "%s has %zu bytes instead of %zu",
				    layout[type].name, len, want);
	memcpy(m, bytes, len);
	const char *wrong = check_body(m);
	if (wrong)
		return hk_error_set(err, -EPROTO, "%s has a wrong %s", layout[type].name, wrong);
	return (int)type;
}

/* ---- sockets ------------------------------------------------------------------------------- */

static int address(const char *path, struct sockaddr_un *a, struct hk_error *err)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(a->sun_path))
		return hk_error_set(err, -ENAMETOOLONG,
				    "the socket path %s is longer than %zu bytes; fix: set "
				    "HIKYAKU_RUNDIR to a shorter directory",
				    path, sizeof(a->sun_path) - 1);
	memcpy(a->sun_path, path, strlen(path) + 1);
	return 0;
}

int hk_ctl_listen(const char *path, struct hk_error *err)
{
	struct sockaddr_un a;
	int rc = address(path, &a, err);
	if (rc)
		return rc;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 128) == 0)
		return fd;
	rc = -errno;
	if (fd >= 0)
		close(fd);
	return hk_error_set(err, rc, "cannot create the control socket %s: %s", path,
			    strerror(-rc));
}

/* Milliseconds until @deadline, at least 0; for poll(). */
static int left(int64_t deadline)
{
	int64_t ms = deadline - hk_clock_ms();

	return ms < 0 ? 0 : ms > INT32_MAX ? INT32_MAX : (int)ms;
}

int hk_ctl_connect(const char *path, int64_t deadline, struct hk_error *err)
{
	struct sockaddr_un a;
	int rc = address(path, &a, err);
	if (rc)
		return rc;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return hk_error_set(err, -errno, "cannot create a socket: %s", strerror(errno));
	/* connect() waits while the queue of connections is full; this limits the wait */
	int ms = HK_MAX(left(deadline), 1);
	struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000}, none = {0};
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0 &&
	    connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none)) == 0)
		return fd;
	rc = errno == EAGAIN ? -ETIMEDOUT : -errno;
	close(fd);
	return hk_error_set(err, rc, "cannot connect to hikyakud at %s: %s", path, strerror(-rc));
}

int hk_ctl_send(int fd, const union hk_ctl_msg *m, int64_t deadline)
{
	for (;;) {
		if (send(fd, m, m->hdr.len, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno == ECONNRESET)
			return -EPIPE;
		if (errno != EAGAIN)
			return -errno;
		struct pollfd p = {.fd = fd, .events = POLLOUT};
		int ms = left(deadline);
		if (ms == 0 || (poll(&p, 1, ms) < 0 && errno != EINTR))
			return -ETIMEDOUT;
	}
}

int hk_ctl_recv(int fd, union hk_ctl_msg *m, int64_t deadline, struct hk_error *err)
{
	for (;;) {
		char buf[sizeof(union hk_ctl_msg) + 1]; /* + 1: detects longer messages */
		_Alignas(struct cmsghdr) char control[256];
		struct iovec v = {buf, sizeof(buf)};
		struct msghdr h = {.msg_iov = &v,
				   .msg_iovlen = 1,
				   .msg_control = control,
				   .msg_controllen = sizeof(control)};
		ssize_t n = recvmsg(fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

		if (n > 0) {
			(void)hk_descriptors_take(&h, NULL, 0);
			return hk_ctl_check(buf, (size_t)n, m, err);
		}
		/* an empty message looks like the end of the connection, and counts as that */
		if (n == 0 || errno == ECONNRESET) {
			if (n == 0)
				(void)hk_descriptors_take(&h, NULL, 0);
			return 0;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return hk_error_set(err, -errno,
					    "cannot receive from the control socket: %s",
					    strerror(errno));
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int ms = left(deadline);
		if (ms == 0)
			return -ETIMEDOUT;
		if (poll(&p, 1, ms) < 0 && errno != EINTR)
			return hk_error_set(err, -errno, "cannot wait for the control socket: %s",
					    strerror(errno));
	}
}

int hk_ctl_peer(int fd, uid_t *uid, pid_t *pid)
{
	struct ucred c;
	socklen_t len = sizeof(c);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len) != 0)
		return -errno;
	*uid = c.uid;
	*pid = c.pid;
	return 0;
}

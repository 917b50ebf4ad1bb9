/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/memif.c: memif, DPDK's wire in shared memory between two processes: its sockets before the
 * device exists, and wire sets. memif_guard.c protects a wire that is up.
 */
#include "port/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MEMIF_FRAME HK_WIRE_SET_FRAME_MAX

/* Default ring length: the window of a peer. Longer rings of large frames do not fit the cache. */
#define MEMIF_RING 256

enum socket_state { SOCKET_NONE, SOCKET_STALE, SOCKET_SERVED };

/* Returns whether a process listens at @path.
 *
 * A connection that closes at once would end a memif server. When the greeting fails, the driver
 * closes the connection but leaves it among EAL's interrupts. EAL then ends the process
 * (rte_panic). So this tries a socket of another type. The kernel refuses that with EPROTOTYPE if a
 * server listens. */
static enum socket_state socket_state(const char *path)
{
	struct stat st;
	if (stat(path, &st) != 0)
		return SOCKET_NONE;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
	bool served = fd >= 0 &&
		      (connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0 || errno == EPROTOTYPE);
	if (fd >= 0)
		close(fd);
	return served ? SOCKET_SERVED : SOCKET_STALE;
}

/* Checks that sockets of the port @text can be made in directory @d. */
/* A user who can rename files in the directory can put another socket in the place of ours. In a
 * sticky directory (/tmp) they cannot, and hk_memif_guard_arm() checks who is at the other end. */
static int check_owner(const char *text, const char *d, struct hk_error *err)
{
	struct stat st;

	if (stat(d, &st) != 0)
		return hk_error_set(err, -errno, "port %s: cannot read the owner of %s: %s", text,
				    d, strerror(errno));
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return hk_error_set(err, -EPERM,
				    "port %s: the directory %s belongs to user %u; fix: choose a "
				    "directory of yours, such as one below /tmp",
				    text, d, st.st_uid);
	if ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))
		return hk_error_set(err, -EPERM,
				    "port %s: others may write to the directory %s; fix: "
				    "chmod go-w %s",
				    text, d, d);
	return 0;
}

static int check_dir(const char *text, const char *d, struct hk_error *err)
{
	if (access(d, F_OK) != 0)
		return hk_error_set(err, -ENOENT,
				    "port %s: the directory %s does not exist; fix: mkdir -p %s",
				    text, d, d);
	if (access(d, R_OK | W_OK | X_OK) != 0)
		return hk_error_set(
			err, -EACCES,
			"port %s: no permission to create a socket in %s; fix: choose a "
			"directory of yours, such as one below /tmp",
			text, d);
	return check_owner(text, d, err);
}

static int check_socket_dir(const struct hk_spec *s, struct hk_error *err)
{
	char dir[sizeof(s->socket)];
	strcpy(dir, s->socket);
	if (dir[0] != '/') /* the driver refuses it, without a reason */
		return hk_error_set(err, -EINVAL,
				    "port %s: %s is not an absolute path; fix: give the whole path "
				    "of the socket",
				    s->text, s->socket);
	*strrchr(dir, '/') = '\0';
	return check_dir(s->text, *dir ? dir : "/", err);
}

/* Renames the server's socket. The driver listens as soon as the device exists, but rejects clients
 * until it has started, and they do not try again. So the device creates the socket under another
 * name, and this function gives it the right one after the start. */
int hk_memif_publish(const struct hk_spec *s, struct hk_error *err)
{
	char made[sizeof(s->socket) + sizeof(HK_MEMIF_NEW)];
	snprintf(made, sizeof(made), "%s%s", s->socket, HK_MEMIF_NEW);
	if (rename(made, s->socket) == 0)
		return 0;
	return hk_error_set(err, -errno,
			    "port %s: cannot rename %s: %s; fix: keep others out of that directory",
			    s->text, made, strerror(errno));
}

int hk_memif_prepare(struct hk_port_impl *p, char *args, size_t len, struct hk_error *err)
{
	const struct hk_spec *s = &p->spec;
	unsigned frame = s->frame ? s->frame : MEMIF_FRAME, ring = s->ring ? s->ring : MEMIF_RING;

	int rc = check_socket_dir(s, err);
	if (rc)
		return rc;
	if (strlen(s->socket) + strlen(HK_MEMIF_NEW) >= sizeof(s->socket))
		return hk_error_set(err, -ENAMETOOLONG,
				    "port %s: the path of the socket is longer than %zu "
				    "characters; fix: use a directory with a shorter name",
				    s->text, sizeof(s->socket) - 1 - strlen(HK_MEMIF_NEW));
	if (s->server) {
		enum socket_state state = socket_state(s->socket);
		if (state == SOCKET_SERVED)
			return hk_error_set(
				err, -EADDRINUSE,
				"port %s: another process listens at %s already; fix: end "
				"it, or choose another socket",
				s->text, s->socket);
		char made[sizeof(s->socket) + sizeof(HK_MEMIF_NEW)];
		snprintf(made, sizeof(made), "%s%s", s->socket, HK_MEMIF_NEW);
		(void)unlink(made); /* left by a process that was killed while it opened its port */
		if (state == SOCKET_STALE && unlink(s->socket) != 0)
			return hk_error_set(err, -errno,
					    "port %s: %s is in the way and cannot be removed: %s; "
					    "fix: remove it, or choose another socket",
					    s->text, s->socket, strerror(errno));
	}
	snprintf(args, len, "role=%s,id=%u,socket=%s%s,socket-abstract=no,bsize=%u,rsize=%u",
		 s->server ? "server" : "client", s->id, s->socket, s->server ? HK_MEMIF_NEW : "",
		 frame, hk_log2(ring));
	p->port.info.frame_max = (uint16_t)frame;
	p->port.info.rx_ring = (uint16_t)(1u << hk_log2(ring));
	p->port.info.point_to_point = true;
	return 0;
}

/* The driver numbers its buffers with 16 bits and counts their bytes with 31. Beyond either limit
 * buffers of several rings would share memory, and the driver does not report it. */
int hk_memif_check_queues(const struct hk_port_impl *p, unsigned queues, struct hk_error *err)
{
	unsigned ring = p->port.info.rx_ring, frame = p->port.info.frame_max;
	unsigned by_number = 65536 / (2 * ring);
	unsigned by_bytes = (unsigned)((1ull << 31) / (2ull * (128 + ring * (16ull + frame))));
	unsigned most = HK_MIN(by_number, by_bytes);
	if (queues <= most)
		return 0;
	return hk_error_set(
		err, -ERANGE,
		"port %s: %u queues are requested, and net_memif has at most %u with rings "
		"of %u frames of %u bytes; fix: let fewer processes share the wire, or "
		"give it shorter rings (ring=%u) or smaller frames",
		p->spec.text, queues, most, ring, frame, HK_MAX(ring / 2, 1u));
}

/* ---- wire sets ------------------------------------------------------------------------------- */

bool hk_port_spec_is_wire_set(const char *spec)
{
	struct hk_spec s;
	return hk_spec_parse(spec, &s, NULL) == 0 && s.kind == HK_SPEC_MEMIF_SET;
}

bool hk_port_spec_is_private(const char *spec)
{
	struct hk_spec s;
	return hk_spec_parse(spec, &s, NULL) == 0 &&
	       (s.kind == HK_SPEC_MEMIF || s.kind == HK_SPEC_MEMIF_SET);
}

uint16_t hk_port_wire_frame_max(const char *set_spec)
{
	struct hk_spec s;
	if (hk_spec_parse(set_spec, &s, NULL) || s.kind != HK_SPEC_MEMIF_SET)
		return 0;
	return (uint16_t)(s.frame ? s.frame : HK_WIRE_SET_FRAME_MAX);
}

int hk_port_wire_set_check(const char *set_spec, struct hk_error *err)
{
	struct hk_spec s;
	int rc = hk_spec_parse(set_spec, &s, err);

	return rc ? rc : check_dir(s.text, s.dir, err);
}

/* Does @path fit in @room bytes, as that of a socket? */
static int check_path(const char *set_spec, const char *path, size_t room, struct hk_error *err)
{
	if (strlen(path) < room)
		return 0;
	return hk_error_set(err, -ENAMETOOLONG,
			    "port %s: the path of a socket may have %zu characters, and "
			    "%s has more; fix: use a directory with a shorter name",
			    set_spec, room - 1, path);
}

int hk_port_wire_spec(const char *set_spec, uint32_t key, uint32_t self, uint32_t peer, char *out,
		      size_t out_len, bool *is_server, struct hk_error *err)
{
	struct hk_spec s;
	int rc = hk_spec_parse(set_spec, &s, err);
	if (rc)
		return rc;
	if (s.kind != HK_SPEC_MEMIF_SET || self == peer)
		return hk_error_set(err, -EINVAL,
				    "port %s: there is no wire between endpoints %u "
				    "and %u here; fix: give memif:dir=DIRECTORY",
				    set_spec, self, peer);
	uint32_t low = HK_MIN(self, peer), high = HK_MAX(self, peer);
	*is_server = self == low;

	char path[256], options[64] = "";
	snprintf(path, sizeof(path), "%s/%08x-%u-%u.sock", s.dir, key, low, high);
	rc = check_path(set_spec, path, sizeof(s.socket), err);
	if (rc)
		return rc;
	if (s.frame)
		snprintf(options, sizeof(options), ",frame=%u", s.frame);
	if (s.ring)
		snprintf(options + strlen(options), sizeof(options) - strlen(options), ",ring=%u",
			 s.ring);
	const char *faults = strchr(s.text, ';');
	int n = snprintf(out, out_len, "memif:socket=%s,role=%s%s%s", path,
			 *is_server ? "server" : "client", options, faults ? faults : "");
	if (n < 0 || (size_t)n >= out_len)
		return hk_error_set(err, -ENAMETOOLONG,
				    "port %s: the spec of a wire does not fit in %zu characters; "
				    "fix: use a directory with a shorter name",
				    set_spec, out_len - 1);
	return 0;
}

int hk_port_wire_call_path(const char *set_spec, uint32_t key, uint32_t self, char *out, size_t len,
			   struct hk_error *err)
{
	struct hk_spec s;
	int rc = hk_spec_parse(set_spec, &s, err);

	if (rc)
		return rc;
	if (s.kind != HK_SPEC_MEMIF_SET)
		return hk_error_set(err, -EINVAL,
				    "port %s is not a set of wires; fix: give memif:dir=DIRECTORY",
				    set_spec);
	char path[256];
	snprintf(path, sizeof(path), "%s/%08x-%u.call", s.dir, key, self);
	rc = check_path(set_spec, path, len, err);
	if (rc == 0)
		strcpy(out, path);
	return rc;
}

bool hk_port_wire_is_served(const char *spec)
{
	struct hk_spec s;

	return hk_spec_parse(spec, &s, NULL) == 0 && s.kind == HK_SPEC_MEMIF &&
	       access(s.socket, F_OK) == 0;
}

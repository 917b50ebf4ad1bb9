/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger/registrar.c: one line to the registrar, one back.
 */
#include "tagger/registrar.h"

#include "wire/tag.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define WAIT_S 8 /* less than a rank waits for its answer (library.c) */

static int limited_socket(int family)
{
	struct timeval limit = {.tv_sec = WAIT_S};
	int sock = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	/* connect(2) keeps to the limit for sending */
	if (sock >= 0 && (setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0 ||
			  setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0)) {
		close(sock);
		return -1;
	}
	return sock;
}

static int connect_unix(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	memcpy(addr.sun_path, path, strlen(path) + 1);
	int sock = limited_socket(AF_UNIX);
	if (sock < 0)
		return -errno;
	if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) == 0)
		return sock;
	int rc = -errno;
	close(sock);
	return rc;
}

static int connect_tcp(const char *where)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	const char *colon = strrchr(where, ':');
	struct addrinfo *found;
	char host[256];
	int rc = -EINVAL;

	if (!colon || (size_t)(colon - where) >= sizeof(host))
		return -EINVAL;
	memcpy(host, where, (size_t)(colon - where));
	host[colon - where] = '\0';
	if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
		return -EHOSTUNREACH;
	for (const struct addrinfo *a = found; a; a = a->ai_next) {
		int sock = limited_socket(a->ai_family);
		if (sock < 0) {
			rc = -errno;
			continue;
		}
		if (connect(sock, a->ai_addr, a->ai_addrlen) == 0) {
			freeaddrinfo(found);
			return sock;
		}
		rc = -errno;
		close(sock);
	}
	freeaddrinfo(found);
	return rc;
}

/* Reads up to the end of a line. Returns its length, or a negative errno. */
static int read_line(int sock, char *line, size_t size)
{
	size_t n = 0;

	while (n + 1 < size) {
		ssize_t got = recv(sock, line + n, size - 1 - n, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -ECONNRESET;
		n += (size_t)got;
		line[n] = '\0';
		if (memchr(line, '\n', n)) {
			line[strcspn(line, "\n")] = '\0';
			return (int)strlen(line);
		}
	}
	return -EMSGSIZE;
}

int hk_registrar_tell(const char *address, uint32_t rank, uint64_t mac, struct hk_error *err)
{
	const char *at = strchr(address, '@');
	uint8_t m[6];
	char line[512];

	if (!at)
		return hk_error_set(err, -EINVAL, "the registrar's address '%s' has no secret",
				    address);
	int sock = at[1] == '/' ? connect_unix(at + 1) : connect_tcp(at + 1);
	if (sock < 0)
		return hk_error_set(
			err, sock,
			"the job's registrar at %s is not reached: %s; fix: it runs beside "
			"mpirun, and all nodes must reach it",
			at + 1, strerror(-sock));
	hk_tag_to_mac(mac, m);
	int n = snprintf(line, sizeof(line), "%.*s %u %02x:%02x:%02x:%02x:%02x:%02x\n",
			 (int)(at - address), address, rank, m[0], m[1], m[2], m[3], m[4], m[5]);
	int rc = n >= (int)sizeof(line) ? -EMSGSIZE : 0;
	if (rc == 0 && send(sock, line, (size_t)n, MSG_NOSIGNAL) != n)
		rc = -errno;
	if (rc == 0)
		rc = read_line(sock, line, sizeof(line));
	close(sock);
	if (rc == -EAGAIN)
		return hk_error_set(err, -ETIMEDOUT,
				    "the job's registrar at %s did not answer within %d s", at + 1,
				    WAIT_S);
	if (rc < 0)
		return hk_error_set(err, rc, "the job's registrar at %s broke off: %s", at + 1,
				    strerror(-rc));
	return strcmp(line, "ok") == 0 ? 0 : hk_error_set(err, -EREMOTEIO, "%s", line);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/registrar/registrar.c: sends one line to the registrar and reads one line back, both with a
 * HMAC.
 */
#include "sdn/registrar/registrar.h"

#include "wire/tag.h"

#include <errno.h>
#include <netdb.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_MAX 512
#define NONCE_MAX  80
#define HEX        64 /* characters of a HMAC-SHA256 */
#define WAIT_S     HK_REGISTRAR_WAIT_S

static int limited_socket(int family)
{
	struct timeval limit = {.tv_sec = WAIT_S};
	int sock = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	/* connect(2) uses the send timeout */
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

/* Writes the HMAC of @line, which goes in @direction ('>': to the registrar), as hexadecimal. */
static int sign(const char *secret, size_t secret_len, char direction, const char *nonce,
		const char *line, char out[HEX + 1])
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	unsigned size = 0;
	char *whole;
	int n = asprintf(&whole, "%c %s %s", direction, nonce, line);

	if (n < 0)
		return -ENOMEM;
	bool ok = HMAC(EVP_sha256(), secret, (int)secret_len, (const uint8_t *)whole, (size_t)n,
		       digest, &size) != NULL;
	free(whole);
	if (!ok || 2 * size != HEX)
		return -EIO;
	for (unsigned i = 0; i < size; i++)
		snprintf(out + 2 * (size_t)i, 3, "%02x", digest[i]);
	return 0;
}

struct secret {
	const char *text;
	size_t len;
	const char *where; /* the rest of the address */
};

static bool find_secret(const char *address, struct secret *s)
{
	const char *at = strchr(address, '@');

	s->text = at ? address : getenv(HK_REGISTRAR_SECRET_ENV);
	s->len = at ? (size_t)(at - address) : s->text ? strlen(s->text) : 0;
	s->where = at ? at + 1 : address;
	return s->len > 0;
}

/* Sends @text, and reads the answer into @line. -EBADMSG: the answer's HMAC is wrong. */
static int exchange(int sock, const struct secret *s, const char *text, char *line, size_t size)
{
	char nonce[NONCE_MAX], answer[ANSWER_MAX + HEX + 1], own[HEX + 1], *request;
	int rc = read_line(sock, nonce, sizeof(nonce));

	if (rc >= 0)
		rc = sign(s->text, s->len, '>', nonce, text, own);
	if (rc < 0)
		return rc;
	int n = asprintf(&request, "%s %s\n", own, text);
	if (n < 0)
		return -ENOMEM;
	rc = send(sock, request, (size_t)n, MSG_NOSIGNAL) == n ? 0 : -errno;
	free(request);
	if (rc == 0)
		rc = read_line(sock, answer, sizeof(answer));
	if (rc < 0)
		return rc;
	if (rc < HEX + 1 || answer[HEX] != ' ' || strlen(answer + HEX + 1) >= size)
		return -EBADMSG;
	rc = sign(s->text, s->len, '<', nonce, answer + HEX + 1, own);
	if (rc < 0)
		return rc;
	if (CRYPTO_memcmp(own, answer, HEX) != 0)
		return -EBADMSG;
	strcpy(line, answer + HEX + 1);
	return (int)strlen(line);
}

/* Sends @text, and reads the answer into @line. Returns its length, or a negative errno. */
static int call(const char *address, const char *text, char *line, size_t size,
		struct hk_error *err)
{
	struct secret s;

	if (!find_secret(address, &s))
		return hk_error_set(
			err, -EINVAL,
			"the secret of the registrar at %s is not in the environment; fix: pass it "
			"on by mpirun -x " HK_REGISTRAR_SECRET_ENV
			", or start mpirun by hikyaku tag run",
			s.where);
	int sock = s.where[0] == '/' ? connect_unix(s.where) : connect_tcp(s.where);
	if (sock < 0)
		return hk_error_set(err, sock,
				    "cannot reach the job's registrar at %s: %s; fix: it runs "
				    "beside mpirun, and all nodes must reach it",
				    s.where, strerror(-sock));
	int rc = exchange(sock, &s, text, line, size);
	close(sock);
	if (rc == -EAGAIN)
		return hk_error_set(err, -ETIMEDOUT,
				    "the job's registrar at %s did not answer within %d s; fix: "
				    "check that it still runs beside mpirun",
				    s.where, WAIT_S);
	if (rc == -EBADMSG)
		return hk_error_set(err, rc,
				    "the program at %s is not this job's registrar, since it does "
				    "not know the job's secret; fix: start the job again",
				    s.where);
	if (rc < 0)
		return hk_error_set(err, rc,
				    "the job's registrar at %s closed the connection: %s; fix: see "
				    "its messages beside mpirun",
				    s.where, strerror(-rc));
	return rc;
}

/* The same for a request whose only good answer is "ok". */
static int call_ok(const char *address, const char *text, struct hk_error *err)
{
	char line[ANSWER_MAX];
	int rc = call(address, text, line, sizeof(line), err);

	if (rc < 0)
		return rc;
	return strcmp(line, "ok") == 0 ? 0 : hk_error_set(err, -EREMOTEIO, "%s", line);
}

/* Returns @before, the ranks separated by commas, and @after. The caller calls free(). NULL: no
 * memory. */
static char *with_ranks(const char *before, const uint32_t *ranks, size_t n, const char *after)
{
	size_t size = strlen(before) + n * sizeof("4294967295,") + strlen(after) + 1;
	char *text = malloc(size);
	size_t at = text ? (size_t)snprintf(text, size, "%s", before) : 0;

	for (size_t i = 0; text && i < n; i++)
		at += (size_t)snprintf(text + at, size - at, i ? ",%u" : "%u", ranks[i]);
	if (text)
		snprintf(text + at, size - at, "%s", after);
	return text;
}

int hk_registrar_register(const char *address, const uint32_t *ranks, size_t n, uint64_t mac,
			  struct hk_error *err)
{
	char after[20];
	uint8_t m[6];

	hk_tag_to_mac(mac, m);
	snprintf(after, sizeof(after), " %02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3],
		 m[4], m[5]);
	char *text = with_ranks("", ranks, n, after);
	if (!text)
		return hk_error_set(err, -ENOMEM, "no memory to register %zu ranks", n);
	int rc = call_ok(address, text, err);
	free(text);
	return rc;
}

int hk_registrar_located(const char *address, uint32_t rank, struct hk_error *err)
{
	char text[32], line[ANSWER_MAX];

	snprintf(text, sizeof(text), "located %u", rank);
	int rc = call(address, text, line, sizeof(line), err);
	if (rc < 0)
		return rc;
	if (strcmp(line, "ok") == 0)
		return 0;
	return hk_error_set(err, strcmp(line, "not yet") == 0 ? -EAGAIN : -EREMOTEIO, "%s", line);
}

int hk_registrar_group(const char *address, const uint32_t *ranks, size_t n, uint32_t *group,
		       struct hk_error *err)
{
	char line[ANSWER_MAX], *text = with_ranks("group ", ranks, n, ""), *end;

	if (!text)
		return hk_error_set(err, -ENOMEM, "no memory for a group of %zu ranks", n);
	int rc = call(address, text, line, sizeof(line), err);
	free(text);
	if (rc < 0)
		return rc;
	if (strncmp(line, "ok ", 3) != 0)
		return hk_error_set(err, -EREMOTEIO, "%s", line);
	unsigned long number = strtoul(line + 3, &end, 10);
	if (*end || end == line + 3 || number >= HK_TAG_RANKS)
		return hk_error_set(err, -EPROTO,
				    "the registrar named no group: '%s'; fix: install the same "
				    "build on all nodes",
				    line);
	*group = (uint32_t)number;
	return 0;
}

int hk_registrar_group_drop(const char *address, uint32_t group, struct hk_error *err)
{
	char text[32];

	snprintf(text, sizeof(text), "drop %u", group);
	return call_ok(address, text, err);
}

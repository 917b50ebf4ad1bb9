/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/tls_pingpong.c: the latency of encrypted messages without Hikyaku. Two processes play
 * ping-pong over one TCP connection with TLS, and print half of the round trip.
 *
 *   tls_pingpong --role pong --port 7777 &
 *   tls_pingpong --role ping --address 127.0.0.1 --port 7777 --sizes 8,65536
 *
 * OpenSSL does TLS 1.2 with AES-128-GCM, as `seal` does (docs/security.md). Both sides have the
 * same fixed key: this is a benchmark. They poll their socket and never sleep, as ranks do. A side
 * that waits for --timeout seconds says so, and exits with 1.
 */
#include "arguments.h"
#include "base/clock.h"
#include "base/common.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#define CIPHER      "PSK-AES128-GCM-SHA256"
#define SIZES_MAX   32
#define SIZE_MAX_B  (16u << 20)
#define SAMPLES_MAX 1000000u
#define WARMUP      100u

static struct {
	bool ping;
	const char *address;
	unsigned port, iters, timeout;
	unsigned sizes[SIZES_MAX], count;
} opt = {.port = 7777, .iters = 5000, .timeout = 10, .sizes = {8}, .count = 1};

static const unsigned char key[16] = {1};

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
	va_list ap;

	fputs("tls_pingpong: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

/* ---- the connection -------------------------------------------------------------------------- */

static unsigned key_of_client(SSL *ssl, const char *hint, char *identity, unsigned identity_max,
			      unsigned char *psk, unsigned psk_max)
{
	(void)ssl;
	(void)hint;
	snprintf(identity, identity_max, "bench");
	if (psk_max < sizeof(key))
		return 0;
	memcpy(psk, key, sizeof(key));
	return sizeof(key);
}

static unsigned key_of_server(SSL *ssl, const char *identity, unsigned char *psk, unsigned psk_max)
{
	(void)ssl;
	(void)identity;
	if (psk_max < sizeof(key))
		return 0;
	memcpy(psk, key, sizeof(key));
	return sizeof(key);
}

static struct sockaddr_in address(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port)};

	if (opt.ping && inet_pton(AF_INET, opt.address, &a.sin_addr) != 1)
		fail("%s is not an IPv4 address", opt.address);
	return a;
}

static int accept_one(void)
{
	struct timeval limit = {.tv_sec = opt.timeout};
	struct sockaddr_in a = address();
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 1) != 0)
		fail("port %u: %s", opt.port, strerror(errno));
	int end = accept(fd, NULL, NULL);

	if (end < 0)
		fail("nobody has connected to port %u within %u s", opt.port, opt.timeout);
	close(fd);
	return end;
}

/* The other side may not listen yet. */
static int connect_to_other(void)
{
	int64_t deadline = hk_clock_ms() + (int64_t)opt.timeout * 1000;
	struct sockaddr_in a = address();

	for (;;) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
			return fd;
		int why = errno;

		close(fd);
		if (hk_clock_ms() >= deadline)
			fail("%s port %u: %s", opt.address, opt.port, strerror(why));
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

static SSL *open_tls(void)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_method());

	if (!ctx || !SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION) ||
	    !SSL_CTX_set_cipher_list(ctx, CIPHER))
		fail("this OpenSSL has no %s", CIPHER);
	SSL_CTX_set_psk_client_callback(ctx, key_of_client);
	SSL_CTX_set_psk_server_callback(ctx, key_of_server);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE);
	SSL *ssl = SSL_new(ctx);
	int fd = opt.ping ? connect_to_other() : accept_one(), one = 1;

	SSL_CTX_free(ctx);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (!ssl || !SSL_set_fd(ssl, fd) || (opt.ping ? SSL_connect(ssl) : SSL_accept(ssl)) != 1)
		fail("TLS: %s", ERR_reason_error_string(ERR_get_error()));
	fcntl(fd, F_SETFL, O_NONBLOCK); /* from now on we poll */
	return ssl;
}

/* Moves all @len bytes. False: the other side has closed the connection. */
static bool move(SSL *ssl, unsigned char *bytes, size_t len, bool out)
{
	int64_t deadline = hk_clock_ms() + (int64_t)opt.timeout * 1000;
	size_t done = 0, n;

	for (unsigned polls = 1; done < len; polls++) {
		int rc = out ? SSL_write_ex(ssl, bytes + done, len - done, &n)
			     : SSL_read_ex(ssl, bytes + done, len - done, &n);

		if (rc == 1) {
			done += n;
			continue;
		}
		int why = SSL_get_error(ssl, rc);

		if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
			return false;
		if (polls % 4096 == 0 && hk_clock_ms() >= deadline)
			fail("the other side has been silent for %u s", opt.timeout);
	}
	return true;
}

/* ---- the game -------------------------------------------------------------------------------- */

/* Each round begins with its size. 0 ends the game. */
static int pong(SSL *ssl, unsigned char *bytes)
{
	uint32_t head[2]; /* size, rounds */

	while (move(ssl, (unsigned char *)head, sizeof(head), false) && head[0]) {
		if (head[0] > SIZE_MAX_B)
			fail("a message of %u bytes is asked for", head[0]);
		for (uint32_t i = 0; i < head[1]; i++)
			if (!move(ssl, bytes, head[0], false) || !move(ssl, bytes, head[0], true))
				return 1;
	}
	return head[0] ? 1 : 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int ping(SSL *ssl, unsigned char *bytes)
{
	double *half = calloc(opt.iters, sizeof(*half));

	if (!half)
		fail("no memory");
	printf("{\"cipher\":\"%s\",\"rows\":[", SSL_get_cipher(ssl));
	for (unsigned s = 0; s < opt.count; s++) {
		uint32_t head[2] = {opt.sizes[s], WARMUP + opt.iters};

		if (!move(ssl, (unsigned char *)head, sizeof(head), true))
			return 1;
		for (unsigned i = 0; i < head[1]; i++) {
			uint64_t start = hk_clock_ns();

			if (!move(ssl, bytes, head[0], true) || !move(ssl, bytes, head[0], false))
				fail("the other side has ended");
			if (i >= WARMUP)
				half[i - WARMUP] = (double)(hk_clock_ns() - start) / 2000;
		}
		qsort(half, opt.iters, sizeof(*half), by_value);
		printf("%s{\"size\":%u,\"latency_us\":{\"median\":%.3f,\"min\":%.3f,\"max\":%.3f}}",
		       s ? "," : "", head[0], half[opt.iters / 2], half[0], half[opt.iters - 1]);
	}
	puts("]}");
	free(half);
	return move(ssl, (unsigned char *)(uint32_t[2]){0, 0}, 8, true) ? 0 : 1;
}

/* ---- start ----------------------------------------------------------------------------------- */

static const char usage[] =
	"usage: tls_pingpong --role pong [--port PORT] [--timeout SECONDS]\n"
	"       tls_pingpong --role ping --address IPV4 [--port PORT] [--sizes 8,…] [--iters N]\n"
	"                    [--timeout SECONDS]\n"
	"Latency of TLS over TCP. Pin each side to a core of its own with taskset.\n";

static unsigned number(const char *name, const char *text, unsigned max)
{
	return hk_argument_number("tls_pingpong", name, text, 1, max);
}

static void parse_args(int argc, char **argv)
{
	static const struct option options[] = {
		{"role", required_argument, NULL, 'r'},  {"address", required_argument, NULL, 'a'},
		{"port", required_argument, NULL, 'p'},  {"sizes", required_argument, NULL, 'z'},
		{"iters", required_argument, NULL, 'i'}, {"timeout", required_argument, NULL, 't'},
		{"help", no_argument, NULL, 'h'},        {0}};
	const char *role = "";

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (c) {
		case 'r':
			role = optarg;
			break;
		case 'a':
			opt.address = optarg;
			break;
		case 'p':
			opt.port = number("--port", optarg, 65535);
			break;
		case 'z':
			opt.count = hk_argument_sizes("tls_pingpong", optarg, 1, SIZE_MAX_B,
						      opt.sizes, SIZES_MAX);
			break;
		case 'i':
			opt.iters = number("--iters", optarg, SAMPLES_MAX);
			break;
		case 't':
			opt.timeout = number("--timeout", optarg, 3600);
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	opt.ping = strcmp(role, "ping") == 0;
	if (optind < argc || (!opt.ping && strcmp(role, "pong") != 0) || !opt.count ||
	    opt.ping != (opt.address != NULL)) {
		fputs(usage, stderr);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	parse_args(argc, argv);
	unsigned char *bytes = calloc(1, SIZE_MAX_B);

	if (!bytes)
		fail("no memory");
	SSL *ssl = open_tls();
	int rc = opt.ping ? ping(ssl, bytes) : pong(ssl, bytes);

	SSL_free(ssl);
	free(bytes);
	return rc;
}

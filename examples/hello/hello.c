/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/hello: a client puts a text into memory of a server, and sends a message.
 *
 *   cc hello.c -o hello $(pkg-config --cflags --libs hikyaku)
 *   ./hello /tmp/hello server &
 *   ./hello /tmp/hello client
 *
 * The two are joined by a memif, a wire in shared memory, so this needs neither root nor a NIC.
 * A third argument names another port, such as udp:addr=eth0. Each process writes its address to a
 * file, which the other reads: a real program would use what it starts with, such as PMIx. The
 * server opens a region and tells the client its number in a message. The client puts a text into
 * the region and sends a message, which arrives after the put.
 */
#include <hikyaku/rma.h>
#include <hikyaku/worker.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_S 20

enum { AM_REGION, AM_DONE }; /* the numbers of our two messages */

static hk_region remote; /* the server's region, once the client knows it */
static bool told, finished;

static void on_region(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	(void)arg, (void)peer, (void)am, (void)count;
	memcpy(&remote, iov[0].base, sizeof(remote));
	told = true;
}

static void on_done(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	(void)arg, (void)peer, (void)am, (void)count;
	printf("message: %.*s\n", (int)iov[0].len, (const char *)iov[0].base);
	finished = true;
}

static void on_lost(void *arg, hk_peer peer, enum hk_disconnect_reason why, const char *text)
{
	(void)arg, (void)peer, (void)why;
	fprintf(stderr, "hello: %s\n", text);
	exit(1);
}

static void on_put(void *arg, int status)
{
	*(int *)arg = status;
}

static void send_bytes(struct hk_worker *w, hk_peer peer, uint8_t am, const void *bytes, size_t len)
{
	hk_buf *b = hk_worker_alloc(w);

	if (!b)
		exit(1);
	memcpy(hk_buf_data(b), bytes, len);
	if (hk_worker_send(w, peer, am, b, len) < 0)
		exit(1);
}

/* Polls until *@flag, or ends the program and names what it waited for. */
static void wait_for(struct hk_worker *w, const bool *flag, const char *what)
{
	time_t end = time(NULL) + TIMEOUT_S;

	while (!*flag) {
		hk_worker_progress(w);
		if (time(NULL) > end) {
			fprintf(stderr, "hello: no %s within %d s\n", what, TIMEOUT_S);
			exit(1);
		}
	}
}

/* Writes our address to DIR-NAME, and reads that of @other as soon as it is complete. */
static void exchange(const char *dir, const char *name, const struct hk_peer_addr *mine,
		     const char *other, struct hk_peer_addr *theirs)
{
	char path[256], temporary[300];
	time_t end = time(NULL) + TIMEOUT_S;
	FILE *f;

	snprintf(path, sizeof(path), "%s-%s", dir, name);
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	f = fopen(temporary, "wb");
	if (!f || fwrite(mine, sizeof(*mine), 1, f) != 1 || fclose(f) != 0 ||
	    rename(temporary, path) != 0) {
		perror(path);
		exit(1);
	}
	snprintf(path, sizeof(path), "%s-%s", dir, other);
	while (!(f = fopen(path, "rb"))) {
		if (time(NULL) > end) {
			fprintf(stderr, "hello: no address in %s within %d s\n", path, TIMEOUT_S);
			exit(1);
		}
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	if (fread(theirs, sizeof(*theirs), 1, f) != 1)
		exit(1);
	fclose(f);
	unlink(path); /* the next run must not read it */
	theirs->name = other;
}

int main(int argc, char **argv)
{
	bool server = argc > 2 && strcmp(argv[2], "server") == 0;
	bool client = argc > 2 && strcmp(argv[2], "client") == 0;
	const char *me = server ? "server" : "client", *other = server ? "client" : "server";
	struct hk_worker_config cfg;
	struct hk_peer_addr mine, theirs;
	struct hk_worker *w;
	struct hk_error err;
	char spec[256], memory[64] = "";
	hk_peer peer;

	if (argc > 4 || (!server && !client)) {
		if (argc > 2 && !server && !client)
			fprintf(stderr, "hello: '%s' is neither server nor client\n", argv[2]);
		fprintf(stderr, "usage: hello PREFIX server|client [PORT]\n"
				"Files of the two processes begin with PREFIX. Example:\n"
				"  hello /tmp/hello server & hello /tmp/hello client\n");
		return 2;
	}
	hk_worker_config_default(&cfg);
	cfg.engine.key = 1;
	cfg.engine.endpoint = server ? 1 : 2;
	cfg.engine.epoch = (uint32_t)time(NULL);
	cfg.frame_max = 0;
	cfg.lost = on_lost;
	fprintf(stderr, "hello: the %s waits %d s for the %s\n", me, TIMEOUT_S, other);
	if (argc == 4) { /* strangers can send to such a port */
		snprintf(spec, sizeof(spec), "%s", argv[3]);
		cfg.engine.protection = HK_PROTECTION_AUTH;
	} else {
		snprintf(spec, sizeof(spec), "memif:socket=%s.sock,role=%s", argv[1], me);
	}
	if (hk_worker_open_port_spec(&cfg, spec, TIMEOUT_S * 1000, &w, &err) != 0) {
		fprintf(stderr, "hello: %s\n", err.text);
		return 1;
	}
	hk_worker_set_am(w, AM_REGION, on_region, NULL);
	hk_worker_set_am(w, AM_DONE, on_done, NULL);
	hk_worker_address(w, 0, &mine);
	exchange(argv[1], me, &mine, other, &theirs);
	if (hk_worker_peer_add(w, &theirs, &peer, &err) != 0) {
		fprintf(stderr, "hello: %s\n", err.text);
		return 1;
	}
	if (server) {
		hk_region r = hk_worker_region_add(w, memory, sizeof(memory), HK_REGION_WRITE,
						   peer);

		send_bytes(w, peer, AM_REGION, &r, sizeof(r));
		wait_for(w, &finished, "message from the client");
		printf("put: %s\n", memory);
	} else {
		static const char text[] = "hello by a put";
		struct hk_op op;
		int status = 1;

		wait_for(w, &told, "region of the server");
		if (hk_worker_put(w, peer, &op, text, sizeof(text), remote, 0, on_put, &status) !=
		    0)
			return 1;
		send_bytes(w, peer, AM_DONE, "hello", 5);
		while (status == 1) /* the worker reads `text` and `op` until then */
			hk_worker_progress(w);
		printf("put: %s\n", status == 0 ? "done" : strerror(-status));
	}
	return hk_worker_close(w, 1000) != 0;
}

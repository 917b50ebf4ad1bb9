/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/router/control.c: the control thread: a socket that takes one command a connection, and
 * reloading.
 *
 *   stats                                 everything counted
 *   reload                                the route file again (SIGHUP does the same)
 *   route PREFIX via ADDRESS [port N]     sets one route, until the next reload; also
 *   route PREFIX blackhole|unreachable    … as in a route file
 *   unroute PREFIX                        takes one out
 *
 * An answer is one line: JSON, or "error: " and a sentence. Whoever connects has 2 s to say what he
 * wants; the socket is its owner's alone.
 */
#include "p2p/router/router.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_S 2
#define LINE       512
#define LETTER_MS  1000
#define TAP_MS     1 /* how long a packet may wait for the kernel, or from it */

static const struct timespec pause_20us = {.tv_nsec = 20000};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * HK_SEC + (uint64_t)t.tv_nsec;
}

/* ---- neighbours --------------------------------------------------------------------------------- */

static int deliver(struct hk_router *r, unsigned family, const uint8_t *prefix, unsigned depth,
		   uint32_t cell, struct hk_error *err);

/* Is the address its own next hop on that port, as the table has it now? Only our thread causes updates. */
static bool gleaned(const struct hk_fib *fib, const struct hk_neighbour *n)
{
	uint64_t hop;

	if (n->family == 4) {
		uint32_t address = hk_be32(n->address);

		hk_fib_lookup4(fib, &address, &hop, 1);
	} else {
		uint8_t address[1][16];

		memcpy(address[0], n->address, 16);
		hk_fib_lookup6(fib, address, &hop, 1);
	}
	hk_cell c = hk_fib_cell(fib, (uint32_t)hop);

	return hk_cell_kind(c) == HK_HOP_GLEAN && hk_cell_port(c) == n->port;
}

/* Puts a neighbour that the kernel found, or lost, into a generation: its cell, and where the table says that destinations are neighbours its own
 * route. @live: the data thread looks into this generation. */
static void learn_into(struct hk_router *r, struct hk_fib *fib, const struct hk_neighbour *n,
		       bool live)
{
	struct hk_route_hop hop = {.kind = HK_HOP_UNRESOLVED, .family = n->family, .port = n->port};
	unsigned depth = n->family == 4 ? 32 : 128;
	struct hk_error err;

	memcpy(hop.address, n->address, 16);
	uint32_t cell = hk_fib_cell_for(fib, &hop);
	if (!cell || fib->hop[cell].has_mac)
		return; /* no room; or the route file knows better */
	hk_fib_cell_set(fib, cell,
			hk_cell_make(n->good ? HK_HOP_FORWARD : HK_HOP_UNRESOLVED, n->port,
				     n->good ? n->mac : NULL));
	const struct hk_special *s = hk_special_find(n->family, n->address);
	for (unsigned i = 0; i < fib->addresses; i++) {
		const struct hk_route_address *a = &fib->address[i];
		if (memcmp(a->address, n->address, 16) == 0 && a->family == n->family)
			return; /* somebody claims to be us */
	}
	if (!n->good || !gleaned(fib, n) || (s && !(s->destination && s->forwardable)))
		return;
	if (live)
		(void)deliver(r, n->family, n->address, depth, cell,
			      &err); /* full: it stays unresolved */
	else
		(void)hk_fib_update(fib, n->family, n->address, depth, cell);
}

static void learn(void *arg, const struct hk_neighbour *n)
{
	struct hk_router *r = arg;

	learn_into(r, atomic_load(&r->fib), n, true);
}

/* Has the kernel look for each next hop of a generation, so that the first packet finds it. */
static void resolve_all(struct hk_router *r, const struct hk_fib *fib)
{
	for (uint32_t i = 2; r->kernel && i < fib->cells; i++)
		if (fib->hop[i].family && hk_cell_kind(hk_fib_cell(fib, i)) == HK_HOP_UNRESOLVED)
			hk_kernel_resolve(r->kernel, fib->hop[i].family, fib->hop[i].address,
					  fib->hop[i].port);
}

static void kernel_round(struct hk_router *r)
{
	struct hk_forward_asks *a = &r->asks;
	uint32_t at = atomic_load_explicit(&a->read, memory_order_relaxed);

	for (; at != atomic_load_explicit(&a->written, memory_order_acquire); at++) {
		uint32_t i = at % HK_FORWARD_ASKS;
		hk_kernel_resolve(r->kernel, a->ask[i].family, a->ask[i].address, a->ask[i].port);
		atomic_store_explicit(&a->read, at + 1, memory_order_release);
	}
	hk_kernel_round(r->kernel, learn, r);
}

/* ---- reloading ---------------------------------------------------------------------------------- */

/* Swaps the next generation in, and frees the old one when the data thread has left it. */
static int swap(struct hk_router *r, struct hk_fib *fib, struct hk_error *err)
{
	struct hk_fib *old = atomic_exchange_explicit(&r->fib, fib, memory_order_acq_rel);
	uint64_t token = rte_rcu_qsbr_start(r->rcu), end = now_ns() + LETTER_MS * HK_MSEC;

	while (rte_rcu_qsbr_check(r->rcu, token, false) != 1) {
		if (now_ns() > end)
			return hk_error_set(
				err, -ETIMEDOUT,
				"the routes are new, but the data thread has made no round "
				"for %d ms, and the memory of the old ones is lost; fix: see "
				"what keeps it from its core",
				LETTER_MS);
		nanosleep(&pause_20us, NULL);
	}
	hk_fib_free(old);
	return 0;
}

static int reload(struct hk_router *r, struct hk_error *err)
{
	struct hk_routes *routes;
	struct hk_fib *fib = NULL;

	int rc = hk_routes_load(r->o.routes, r->o.ports, &routes, err);
	for (unsigned i = 0; rc == 0 && i < r->o.ports; i++)
		if (routes->has_mac[i] && memcmp(routes->mac[i], r->forward.port[i].mac, 6) != 0)
			rc = hk_error_set(err, -EINVAL,
					  "%s: port %u has another MAC address now; fix: restart "
					  "the router to change it",
					  r->o.routes, i);
	if (rc == 0)
		rc = hk_fib_make(routes, &fib, err);
	hk_routes_free(routes);
	if (rc)
		return rc;
	for (unsigned i = 0; r->kernel && i < r->kernel->neighbours; i++)
		learn_into(r, fib, &r->kernel->neighbour[i], false);
	r->reloads++;
	rc = swap(r, fib, err);
	resolve_all(r, fib);
	return rc;
}

/* ---- updates ------------------------------------------------------------------------------------ */

/* Has the data thread make an update between two bursts. */
static int deliver(struct hk_router *r, unsigned family, const uint8_t *prefix, unsigned depth,
		   uint32_t cell, struct hk_error *err)
{
	struct hk_letter *l = &r->letter;
	uint64_t end = now_ns() + LETTER_MS * HK_MSEC;

	if (atomic_load_explicit(&l->posted, memory_order_acquire))
		return hk_error_set(err, -EBUSY,
				    "the data thread has not taken the update before this one; "
				    "fix: see what keeps it from its core");
	l->family = (uint8_t)family;
	l->depth = (uint8_t)depth;
	memcpy(l->prefix, prefix, 16);
	l->cell = cell;
	atomic_store_explicit(&l->posted, true, memory_order_release);
	while (atomic_load_explicit(&l->posted, memory_order_acquire)) {
		if (now_ns() > end)
			return hk_error_set(err, -ETIMEDOUT,
					    "the data thread has made no round for %d ms; fix: see "
					    "what keeps it from its core",
					    LETTER_MS);
		nanosleep(&pause_20us, NULL);
	}
	if (l->result == 0)
		return 0;
	return hk_error_set(
		err, l->result, "the update is refused: %s; fix: %s", strerror(-l->result),
		l->result == -ENOENT   ? "name a prefix that has a route"
		: l->result == -EINVAL ? "put so short a prefix into the route file, and "
					 "reload"
				       : "reload, with fewer long prefixes");
}

/* A line as in a route file, read by the same code, with the ports' addresses before it. */
static int parse_line(struct hk_router *r, const char *line, struct hk_routes **out,
		      struct hk_error *err)
{
	const struct hk_fib *fib = atomic_load(&r->fib);
	char text[HK_ARRAY_LEN(fib->address) * 100 + LINE], address[HK_ADDRESS_TEXT];
	int n = 0;

	for (unsigned i = 0; i < fib->addresses; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "address %s port %u\n",
			      hk_address_text(fib->address[i].family, fib->address[i].address,
					      fib->address[i].depth, address),
			      fib->address[i].port);
	n += snprintf(text + n, sizeof(text) - (size_t)n, "%s\n", line);
	return hk_routes_parse(text, (size_t)n, "control", r->o.ports, out, err);
}

static int set_route(struct hk_router *r, const char *line, struct hk_error *err)
{
	struct hk_fib *fib = atomic_load(&r->fib);
	const struct hk_route *route = NULL;
	struct hk_routes *parsed;

	int rc = parse_line(r, line, &parsed, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < parsed->routes; i++)
		if (parsed->route[i].line == fib->addresses + 1)
			route = &parsed->route[i];
	uint32_t cell = route ? hk_fib_cell_for(fib, &parsed->hop[route->hop]) : 0;
	if (!route)
		rc = hk_error_set(err, -EINVAL,
				  "'%.60s' sets no route; fix: write `route PREFIX …`", line);
	else if (!cell)
		rc = hk_error_set(err, -ENOSPC, "no room for another next hop; fix: reload");
	else
		rc = deliver(r, route->family, route->prefix, route->depth, cell, err);
	hk_routes_free(parsed);
	return rc;
}

static int unset_route(struct hk_router *r, const char *word, struct hk_error *err)
{
	uint8_t prefix[16];
	int depth;
	unsigned family = hk_prefix_parse(word, prefix, &depth);

	if (!family || depth < 0 || !hk_prefix_clean(prefix, family, (unsigned)depth))
		return hk_error_set(err, -EINVAL,
				    "'%.60s' is no prefix; fix: write it like 10.0.0.0/8", word);
	const struct hk_special *s = hk_special_find(family, prefix);
	if (s && depth >= s->depth)
		return hk_error_set(err, -EPERM,
				    "%.60s is of %s (%s), and stays; fix: name a prefix of a route",
				    word, s->name, s->rfc);
	return deliver(r, family, prefix, (unsigned)depth, UINT32_MAX, err);
}

/* ---- the socket --------------------------------------------------------------------------------- */

static void answer(struct hk_router *r, const char *line, FILE *out)
{
	struct hk_error err = {""};
	uint64_t start = now_ns();
	int rc;

	if (strcmp(line, "stats") == 0) {
		hk_router_stats(r, out);
		return;
	}
	if (strcmp(line, "reload") == 0)
		rc = reload(r, &err);
	else if (strncmp(line, "route ", 6) == 0)
		rc = set_route(r, line, &err);
	else if (strncmp(line, "unroute ", 8) == 0)
		rc = unset_route(r, line + 8, &err);
	else
		rc = hk_error_set(&err, -EINVAL,
				  "'%.60s' is not understood; fix: say stats, reload, route … or "
				  "unroute PREFIX",
				  line);
	if (rc)
		fprintf(out, "error: %s\n", err.text);
	else
		fprintf(out, "{\"done\": true, \"us\": %.1f}\n", (double)(now_ns() - start) / 1e3);
}

static void serve(struct hk_router *r, int fd)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	uint64_t end = now_ns() + PATIENCE_S * HK_SEC;
	char line[LINE] = "";
	size_t n = 0;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	while (n < sizeof(line) - 1 && !memchr(line, '\n', n) && now_ns() < end) {
		ssize_t got = read(fd, line + n, sizeof(line) - 1 - n);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	if (out) {
		answer(r, line, out);
		fclose(out);
		for (size_t at = 0; at < len;) {
			ssize_t put = send(fd, text + at, len - at, MSG_NOSIGNAL);
			if (put <= 0)
				break;
			at += (size_t)put;
		}
	}
	free(text);
}

static void *control(void *arg)
{
	struct hk_router *r = arg;
	struct pollfd p[2] = {{.fd = r->wake[0], .events = POLLIN},
			      {.fd = r->listen, .events = POLLIN}};

	resolve_all(r, atomic_load(&r->fib));
	while (!atomic_load(&r->stop)) {
		struct hk_error err = {""};
		char bytes[64];
		if (poll(p, r->listen < 0 ? 1 : 2, r->kernel ? TAP_MS : -1) < 0 && errno != EINTR)
			break;
		if (r->kernel)
			kernel_round(r);
		(void)!read(r->wake[0], bytes, sizeof(bytes));
		if (atomic_exchange(&r->reload, false) && reload(r, &err))
			fprintf(stderr, "%s; the routes from before stay\n", err.text);
		int fd = r->listen < 0 ? -1 : accept4(r->listen, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0) {
			serve(r, fd);
			close(fd);
		}
	}
	return NULL;
}

static int listen_at(struct hk_router *r, const char *path, struct hk_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(a.sun_path))
		return hk_error_set(err, -ENAMETOOLONG,
				    "--control: the path has more than %zu characters; fix: "
				    "shorten it",
				    sizeof(a.sun_path) - 1);
	strcpy(a.sun_path, path);
	r->listen = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (r->listen >= 0 && connect(r->listen, (struct sockaddr *)&a, sizeof(a)) == 0)
		return hk_error_set(
			err, -EADDRINUSE,
			"--control: another process serves %s; fix: choose another path", path);
	if (r->listen >= 0) {
		struct stat st;
		if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
			(void)unlink(path); /* of one that was killed */
		mode_t mask = umask(0177);
		int rc = bind(r->listen, (struct sockaddr *)&a, sizeof(a));
		umask(mask);
		if (rc == 0 && listen(r->listen, 8) == 0) {
			r->o.control = path;
			return 0;
		}
	}
	return hk_error_set(err, -errno,
			    "--control: cannot listen at %s: %s; fix: choose a path of your own",
			    path, strerror(errno));
}

int hk_control_open(struct hk_router *r, const char *path, struct hk_error *err)
{
	sigset_t all, before;

	if (pipe2(r->wake, O_CLOEXEC | O_NONBLOCK) != 0)
		return hk_error_set(err, -errno, "no pipe: %s", strerror(errno));
	int rc = path ? listen_at(r, path, err) : 0;
	if (rc)
		return rc;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&r->control, NULL, control, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	r->control_runs = rc == 0;
	return rc ? hk_error_set(err, -rc, "no thread: %s; fix: raise `ulimit -u`", strerror(rc))
		  : 0;
}

void hk_control_wake(struct hk_router *r)
{
	(void)!write(r->wake[1], "w", 1);
}

void hk_control_close(struct hk_router *r)
{
	if (r->control_runs) {
		atomic_store(&r->stop, true);
		hk_control_wake(r);
		pthread_join(r->control, NULL);
		r->control_runs = false;
	}
	for (unsigned i = 0; i < 2; i++) {
		if (r->wake[i] > 0)
			close(r->wake[i]);
		r->wake[i] = 0;
	}
	if (r->listen >= 0)
		close(r->listen);
	r->listen = -1;
	if (r->o.control)
		(void)unlink(r->o.control);
	r->o.control = NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/control.c: the control thread. Its socket accepts one command for each connection,
 * and it reloads routes.
 *
 *   stats                                 print all counters
 *   reload                                read the route file again, as SIGHUP does
 *   route PREFIX via ADDRESS [port N]     set one route until the next reload
 *   route PREFIX blackhole|unreachable    the same, as in a route file
 *   unroute PREFIX                        delete a route
 *
 * An answer is one line: JSON, or "error: " and a sentence. A client has 2 s to send its command.
 * Only the socket's owner can connect.
 */
#include "devmem/router/router.h"

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

#include "base/clock.h"

#define CLIENT_S   2
#define LINE       512
#define CONTROL    "control" /* a command's place in errors, if it were a file */
#define REQUEST_MS 1000
#define TAP_MS     1 /* how long a packet may wait for the kernel or from it */

static const struct timespec pause_20us = {.tv_nsec = 20000};

/* ---- neighbours ------------------------------------------------------------------------------ */

static int request_update(struct hk_router *r, unsigned family, const uint8_t *prefix,
			  unsigned depth, uint32_t cell, bool implied, struct hk_error *err);

/* Whether the address is its own next hop on that port in the table. Only this thread causes
 * updates. */
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

/* Enters a neighbour that the kernel found or lost into a generation. It sets the neighbour's cell,
 * and adds a route to it if in the table destinations are neighbours. @live: the data thread
 * uses this generation. */
static void learn_into(struct hk_router *r, struct hk_fib *fib, const struct hk_neighbour *n,
		       bool live)
{
	struct hk_route_hop hop = {.kind = HK_HOP_UNRESOLVED, .family = n->family, .port = n->port};
	unsigned depth = n->family == 4 ? 32 : 128;
	struct hk_error err;

	memcpy(hop.address, n->address, 16);
	uint32_t cell = hk_fib_cell_for(fib, &hop);
	if (!cell || fib->hop[cell].has_mac)
		return; /* no space, or the route file has the MAC address */
	hk_fib_cell_set(fib, cell,
			hk_cell_make(n->reachable ? HK_HOP_FORWARD : HK_HOP_UNRESOLVED, n->port,
				     n->reachable ? n->mac : NULL));
	const struct hk_special *s = hk_special_find(n->family, n->address);
	for (unsigned i = 0; i < fib->addresses; i++) {
		const struct hk_route_address *a = &fib->address[i];
		if (memcmp(a->address, n->address, 16) == 0 && a->family == n->family)
			return; /* another station claims the router's address */
	}
	if (!n->reachable || !gleaned(fib, n) || (s && !(s->destination && s->forwardable)))
		return;
	if (live)
		(void)request_update(r, n->family, n->address, depth, cell, true,
				     &err); /* on failure it stays unresolved */
	else
		(void)hk_fib_update(fib, n->family, n->address, depth, cell, true);
}

static void learn(void *arg, const struct hk_neighbour *n)
{
	struct hk_router *r = arg;

	learn_into(r, atomic_load(&r->fib), n, true);
}

/* Asks the kernel to resolve each next hop of a generation, before packets need them. */
static void resolve_all(struct hk_router *r, const struct hk_fib *fib)
{
	for (uint32_t i = 2; r->kernel && i < fib->cells; i++)
		if (fib->hop[i].family && hk_cell_kind(hk_fib_cell(fib, i)) == HK_HOP_UNRESOLVED)
			hk_router_kernel_resolve(r->kernel, fib->hop[i].family, fib->hop[i].address,
						 fib->hop[i].port);
}

static void poll_kernel(struct hk_router *r)
{
	struct hk_forward_requests *a = &r->requests;
	uint32_t at = atomic_load_explicit(&a->read, memory_order_relaxed);

	for (; at != atomic_load_explicit(&a->written, memory_order_acquire); at++) {
		uint32_t i = at % HK_FORWARD_REQUESTS;
		hk_router_kernel_resolve(r->kernel, a->request[i].family, a->request[i].address,
					 a->request[i].port);
		atomic_store_explicit(&a->read, at + 1, memory_order_release);
	}
	hk_router_kernel_poll(r->kernel, learn, r);
}

/* ---- reloading ------------------------------------------------------------------------------- */

/* Swaps the next generation in. Frees the old one when the data thread no longer uses it. */
static int swap(struct hk_router *r, struct hk_fib *fib, struct hk_error *err)
{
	struct hk_fib *old = atomic_exchange_explicit(&r->fib, fib, memory_order_acq_rel);
	uint64_t token = rte_rcu_qsbr_start(r->rcu), end = hk_clock_ns() + REQUEST_MS * HK_MSEC;

	while (rte_rcu_qsbr_check(r->rcu, token, false) != 1) {
		if (hk_clock_ns() > end)
			return hk_error_set(
				err, -ETIMEDOUT,
				"the new routes are in use, and the old ones leak: the data thread "
				"has not run for %d ms; fix: free its core of other work",
				REQUEST_MS);
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
					  "%s: the MAC address of port %u has changed; fix: "
					  "restart the router to change it",
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

/* ---- updates --------------------------------------------------------------------------------- */

/* The error of an update that the data thread could not apply. */
static int update_error(const struct hk_fib_request *l, struct hk_error *err)
{
	char text[HK_ADDRESS_TEXT];
	const char *prefix = hk_address_text(l->family, l->prefix, l->depth, text);

	if (l->result == -ENOENT)
		return hk_error_set(err, l->result,
				    "there is no route to %s; fix: name a prefix that has a route",
				    prefix);
	if (l->depth && l->depth < HK_FIB_SHORT)
		return hk_error_set(err, l->result,
				    "%s is shorter than /%d and cannot be changed while packets "
				    "flow; fix: change the route file, and reload",
				    prefix, HK_FIB_SHORT);
	return hk_error_set(err, l->result,
			    "%s cannot be changed: %s; fix: reload, with fewer long prefixes",
			    prefix, strerror(-l->result));
}

/* Requests an update from the data thread, which applies it between two bursts. */
static int request_update(struct hk_router *r, unsigned family, const uint8_t *prefix,
			  unsigned depth, uint32_t cell, bool implied, struct hk_error *err)
{
	struct hk_fib_request *l = &r->request;
	uint64_t end = hk_clock_ns() + REQUEST_MS * HK_MSEC;

	if (atomic_load_explicit(&l->posted, memory_order_acquire))
		return hk_error_set(err, -EBUSY,
				    "the data thread has not applied the previous update; fix: "
				    "free its core of other work");
	l->family = (uint8_t)family;
	l->depth = (uint8_t)depth;
	memcpy(l->prefix, prefix, 16);
	l->cell = cell;
	l->implied = implied;
	atomic_store_explicit(&l->posted, true, memory_order_release);
	while (atomic_load_explicit(&l->posted, memory_order_acquire)) {
		if (hk_clock_ns() > end)
			return hk_error_set(err, -ETIMEDOUT,
					    "the data thread has not run for %d ms; fix: free its "
					    "core of other work",
					    REQUEST_MS);
		nanosleep(&pause_20us, NULL);
	}
	return l->result ? update_error(l, err) : 0;
}

/* Removes the place of an error in parse_line()'s text: the user has sent one line. */
static void remove_place(struct hk_error *err)
{
	const char *end = strstr(err->text, ": ");

	if (end && strncmp(err->text, CONTROL ":", strlen(CONTROL ":")) == 0)
		memmove(err->text, end + 2, strlen(end + 2) + 1);
}

/* Parses a line of a route file with the same code. The ports' addresses precede it. */
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
	int rc = hk_routes_parse(text, (size_t)n, CONTROL, r->o.ports, out, err);
	if (rc)
		remove_place(err);
	return rc;
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
				  "'%.60s' does not set a route; fix: write `route PREFIX …`",
				  line);
	else if (!cell)
		rc = hk_error_set(err, -ENOSPC, "no space for another next hop; fix: reload");
	else
		rc = request_update(r, route->family, route->prefix, route->depth, cell, false,
				    err);
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
				    "'%.60s' is not a prefix; fix: write it like 10.0.0.0/8", word);
	const struct hk_special *s = hk_special_find(family, prefix);
	if (s && depth >= s->depth)
		return hk_error_set(err, -EPERM,
				    "%.60s belongs to %s (%s) and cannot be deleted; fix: name a "
				    "prefix of a route",
				    word, s->name, s->rfc);
	return request_update(r, family, prefix, (unsigned)depth, UINT32_MAX, false, err);
}

/* ---- the socket ------------------------------------------------------------------------------ */

static void answer(struct hk_router *r, const char *line, FILE *out)
{
	struct hk_error err = {""};
	uint64_t start = hk_clock_ns();
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
				  "'%.60s' is not understood; fix: send stats, reload, route … or "
				  "unroute PREFIX",
				  line);
	if (rc)
		fprintf(out, "error: %s\n", err.text);
	else
		fprintf(out, "{\"done\": true, \"us\": %.1f}\n",
			(double)(hk_clock_ns() - start) / 1e3);
}

static void handle_client(struct hk_router *r, int fd)
{
	const struct timeval limit = {.tv_sec = CLIENT_S};
	uint64_t end = hk_clock_ns() + CLIENT_S * HK_SEC;
	char line[LINE] = "";
	size_t n = 0;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	while (n < sizeof(line) - 1 && !memchr(line, '\n', n) && hk_clock_ns() < end) {
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
			poll_kernel(r);
		(void)!read(r->wake[0], bytes, sizeof(bytes));
		if (atomic_exchange(&r->reload, false) && reload(r, &err))
			fprintf(stderr, "%s; the previous routes stay in use\n", err.text);
		int fd = r->listen < 0 ? -1 : accept4(r->listen, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0) {
			handle_client(r, fd);
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
			"--control: another process listens at %s; fix: choose another path", path);
	if (r->listen >= 0) {
		struct stat st;
		if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
			(void)unlink(path); /* left by a router that was killed */
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

int hk_router_control_open(struct hk_router *r, const char *path, struct hk_error *err)
{
	sigset_t all, before;

	if (pipe2(r->wake, O_CLOEXEC | O_NONBLOCK) != 0)
		return hk_error_set(err, -errno, "cannot make a pipe: %s; fix: raise `ulimit -n`",
				    strerror(errno));
	int rc = path ? listen_at(r, path, err) : 0;
	if (rc)
		return rc;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&r->control, NULL, control, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	r->control_runs = rc == 0;
	return rc ? hk_error_set(err, -rc, "cannot start a thread: %s; fix: raise `ulimit -u`",
				 strerror(rc))
		  : 0;
}

void hk_router_control_wake(struct hk_router *r)
{
	(void)!write(r->wake[1], "w", 1);
}

void hk_router_control_close(struct hk_router *r)
{
	if (r->control_runs) {
		atomic_store(&r->stop, true);
		hk_router_control_wake(r);
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/poller.c: serves the slots of absent ranks, and sleeps between.
 */
#include "host/poller.h"
#include "host/resources.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum hk_served hk_poller_round(struct hk_host_shared *s, hk_serve_fn serve, bool *any)
{
	enum hk_served most = HK_SERVED_PRESENT;
	bool some = false;

	for (uint32_t i = 0; i < s->slots; i++) {
		struct hk_shared_slot *slot = &s->slot[i];

		if (atomic_load_explicit(&slot->state, memory_order_relaxed) != HK_SHARED_SERVE)
			continue;
		some = true;
		/* first "I am inside", then "may I?": see shared.h */
		atomic_store(&s->serving, i + 1);
		if (atomic_load(&slot->state) == HK_SHARED_SERVE) {
			uint64_t fabric = atomic_load(&slot->fabric);
			enum hk_served found = serve((void *)(uintptr_t)fabric);

			most = HK_MAX(most, found);
			atomic_fetch_add_explicit(&slot->looks, 1, memory_order_relaxed);
			if (found != HK_SERVED_PRESENT)
				atomic_fetch_add_explicit(&slot->away, 1, memory_order_relaxed);
		}
		atomic_store_explicit(&s->serving, 0, memory_order_release);
	}
	atomic_fetch_add_explicit(&s->rounds, 1, memory_order_relaxed);
	if (any)
		*any = some;
	return most;
}

int hk_poller_wires(struct hk_host_shared *s, void *port[HK_CTL_MAX_NODES], struct hk_error *err)
{
	for (unsigned i = 0; i < HK_CTL_MAX_NODES; i++) {
		struct hk_shared_wire *w = &s->wire[i];
		uint32_t want = atomic_load(&w->want), have = atomic_load(&w->have);

		if (want == have)
			continue;
		if (have) {
			hk_res_detach(port[i]);
			port[i] = NULL;
			atomic_store(&w->have, 0);
		}
		if (want) {
			int rc = hk_res_attach((uint16_t)(want - 1), &port[i], err);
			if (rc)
				return rc;
			atomic_store(&w->have, want);
		}
	}
	return 0;
}

int hk_poller_loop(struct hk_host_shared *s, int channel, hk_serve_fn serve, struct hk_error *err)
{
	static void *port[HK_CTL_MAX_NODES];
	uint32_t changes = 0;
	unsigned keen = 0;

	for (;;) {
		bool any;
		uint32_t now = atomic_load(&s->changes);
		if (now != changes) {
			int rc = hk_poller_wires(s, port, err);
			if (rc)
				return rc;
			changes = now;
		}
		enum hk_served found = hk_poller_round(s, serve, &any);

		keen = found == HK_SERVED_BUSY ? HK_POLLER_KEEN : keen ? keen - 1 : 0;
		struct timespec t = {.tv_nsec = keen ? HK_POLLER_BUSY_NS : HK_POLLER_WATCH_NS};
		struct pollfd p = {.fd = channel, .events = POLLIN};
		int n = ppoll(&p, 1, any ? &t : NULL, NULL);
		if (n < 0 && errno != EINTR)
			return hk_error_set(err, -errno, "the poller cannot sleep: %s",
					    strerror(errno));
		if (n <= 0)
			continue;
		char buf[64];
		ssize_t got = recv(channel, buf, sizeof(buf), MSG_DONTWAIT);
		if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
			return 0; /* the daemon has gone, or wants us to */
	}
}

static int fail(const struct hk_error *err)
{
	send(HK_POLLER_FD_CHANNEL, err->text, strlen(err->text), MSG_NOSIGNAL);
	fprintf(stderr, "hikyakud poller: %s\n", err->text);
	return 1;
}

int hk_poller_main(int argc, char **argv)
{
	struct hk_error err = {""};

	/* started by the daemon alone: SHARED HUGE-DIR DAEMON-PID */
	if (argc != 4) {
		fprintf(stderr, "hikyakud: the poller is started by hikyakud itself; fix: run "
				"hikyakud without 'poller'\n");
		return 2;
	}
	/* a daemon that is killed takes us along, even out of an endless loop in a rank's memory */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", getppid());
	if (strcmp(pid, argv[3]) != 0)
		return 1; /* it has died already */
	prctl(PR_SET_NAME, "hk-poller");
	prctl(PR_SET_TIMERSLACK, 1000UL);
	signal(SIGINT, SIG_IGN); /* Ctrl-C is the daemon's affair */
	signal(SIGHUP, SIG_IGN);

	struct hk_host_shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED,
					HK_POLLER_FD_SHARED, 0);
	if (s == MAP_FAILED || s->magic != HK_SHARED_MAGIC || s->version != HK_SHARED_VERSION ||
	    s->slots < 1 || s->slots > HK_CTL_MAX_SLOTS) {
		hk_error_set(&err, -EPROTO, "the poller was given no memory of hikyakud's");
		return fail(&err);
	}
	if (hk_res_join(argv[1], argv[2][0] ? argv[2] : NULL, &err) != 0)
		return fail(&err);
	for (unsigned i = 0; i < HK_CTL_MAX_NODES; i++)
		atomic_store(&s->wire[i].have, 0); /* those of a poller before us */
	atomic_fetch_add(&s->changes, 1);          /* all of them before the first round */
	atomic_store(&s->ready, 1);
	/* one byte: look */
	if (send(HK_POLLER_FD_CHANNEL, "", 1, MSG_NOSIGNAL) != 1) {
		hk_res_leave();
		return 1;
	}
	int rc = hk_poller_loop(s, HK_POLLER_FD_CHANNEL, hk_res_serve, &err);
	if (rc)
		fail(&err);
	hk_res_leave();
	return rc ? 1 : 0;
}

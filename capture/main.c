/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/main.c: hikyaku-capture: from the rings of captured processes to one pcapng.
 *
 * The rings are looked at by the clock: nobody whose frames are captured shall have to wake us. Frames of
 * several processes are put in the order of their time; so the last HOLD_NS wait for those that come late.
 */
#include "capture/options.h"
#include "capture/pcapng.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HOLD_NS  (2 * HK_MSEC)
#define BUSY_NS  (300 * HK_USEC) /* between looks while frames come … */
#define IDLE_NS  (5 * HK_MSEC)   /* … and while none do */
#define ROUND    4096            /* frames between looks at all else */
#define LOOK_NS  (20 * HK_MSEC)  /* between looks who has ended */
#define SCAN_NS  (100 * HK_MSEC) /* … who has come … */
#define AWAIT_NS (10 * HK_MSEC)  /* … with --wait: first frames shall not be missed */
#define SHOW_NS  (500 * HK_MSEC)
#define SKIPPED  64 /* names that were tried in vain */

static struct hk_capture_options o;
static struct hk_pcapng *out; /* NULL: frames are counted only */
static struct hk_source *source[HK_CAPTURE_SOURCES];
static unsigned sources;
static char skipped[SKIPPED][sizeof(((struct hk_source_name *)0)->name)];
static unsigned skips;
static char filter_text[128];
static uint64_t frames, refused, dropped_before; /* of processes that have ended */
static bool failed, line_open;
static volatile sig_atomic_t told_to_stop;

/* The second time it ends at once: output that nobody takes would keep it. */
static void on_signal(int signum)
{
	if (told_to_stop)
		_exit(128 + signum);
	told_to_stop = 1;
}

static uint64_t clock_ns(clockid_t which)
{
	struct timespec t;

	clock_gettime(which, &t);
	return (uint64_t)t.tv_sec * HK_SEC + (uint64_t)t.tv_nsec;
}

/* ---- what a person sees --------------------------------------------------------------------------- */

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
	va_list ap;

	if (line_open)
		fputc('\n', stderr);
	line_open = false;
	fputs("hikyaku capture: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

static uint64_t dropped(void)
{
	uint64_t n = dropped_before;

	for (unsigned i = 0; i < sources; i++)
		n += hk_reader_dropped(&source[i]->reader);
	return n;
}

static void show(void)
{
	static int tty = -1;

	if (tty < 0)
		tty = isatty(STDERR_FILENO);
	if (!tty)
		return;
	fprintf(stderr, "\r%" PRIu64 " frames, %" PRIu64 " dropped, %u processes ", frames,
		dropped(), sources);
	line_open = true;
}

/* ---- processes come and go ---------------------------------------------------------------------- */

static void skip(const char *name)
{
	strcpy(skipped[skips++ % SKIPPED], name);
}

static bool is_known(const struct hk_source_name *at)
{
	for (unsigned i = 0; i < sources; i++)
		if (strcmp(source[i]->at.name, at->name) == 0)
			return true;
	for (unsigned i = 0; i < HK_MIN(skips, (unsigned)SKIPPED); i++)
		if (strcmp(skipped[i], at->name) == 0)
			return true;
	return false;
}

static bool is_wanted(const struct hk_source_name *at)
{
	if (o.shared && strcmp(at->shared, o.shared) != 0)
		return false;
	for (unsigned i = 0; i < o.pids; i++)
		if (o.pid[i] == at->pid)
			return true;
	return o.pids == 0;
}

static void begin(const struct hk_source_name *at)
{
	struct hk_error err = {""};
	int rc = hk_source_open(at, &o.source, &source[sources], &err);

	if (rc == 0) {
		source[sources]->start_ns = clock_ns(CLOCK_REALTIME);
		say("%s (process %d)", source[sources]->who, at->pid);
		sources++;
		return;
	}
	if (rc == -EPERM && !o.pids) { /* another user's: not ours to capture */
		skip(at->name);
	} else if (rc != -ENOENT || o.pids) {
		skip(at->name);
		failed = true;
		say("%s", err.text);
	}
}

static void scan(void)
{
	static struct hk_source_name found[4 * HK_CAPTURE_SOURCES];
	unsigned n = hk_source_list(found, HK_ARRAY_LEN(found));

	for (unsigned i = 0; i < n && sources < HK_CAPTURE_SOURCES; i++)
		if (is_wanted(&found[i]) && !is_known(&found[i]))
			begin(&found[i]);
}

/* All asked for by pid are there, or it is said who is not. */
static void check_pids(void)
{
	for (unsigned i = 0; i < o.pids; i++) {
		bool there = false;

		for (unsigned k = 0; k < sources; k++)
			there |= source[k]->at.pid == o.pid[i];
		if (!there && !failed)
			say("process %d moves no frames of Hikyaku in this network namespace; fix: "
			    "name its node by --node, or leave out --pid",
			    o.pid[i]);
		failed |= !there;
	}
}

/* ---- frames --------------------------------------------------------------------------------------- */

static void new_port(struct hk_source *s)
{
	const struct hk_tap_port *p = &s->next.port;
	char name[640], description[512];
	struct hk_pcapng_interface i = {.name = name,
					.description = description,
					.hardware = p->driver,
					.filter = filter_text,
					.bits_per_s = p->link_mbps * UINT64_C(1000000),
					.snaplen = o.snaplen};

	snprintf(name, sizeof(name), "%s: %s", s->who, p->name);
	snprintf(description, sizeof(description), "process %d of user %u, frames of %u bytes",
		 s->at.pid, s->uid, p->frame_max);
	memcpy(i.mac, p->mac, sizeof(i.mac));
	if (out)
		s->port[s->next.r.port].interface = hk_pcapng_interface(out, &i);
}

static void frame(struct hk_source *s)
{
	const struct hk_tap_record *r = &s->next.r;

	if (!hk_filter_match(&o.filter, s->next.bytes, r->cap)) {
		refused++;
		return;
	}
	frames++;
	s->port[r->port].written++;
	if (out)
		hk_pcapng_packet(out, s->port[r->port].interface, r->ns, r->direction, r->queue,
				 s->next.bytes, HK_MIN(r->cap, o.snaplen), r->len);
}

/* Its counters go to the file, and it is forgotten. */
static void end(unsigned i)
{
	struct hk_source *s = source[i];
	struct hk_pcapng_statistics n = {.start_ns = s->start_ns,
					 .end_ns = clock_ns(CLOCK_REALTIME)};

	for (unsigned p = 0; p < s->reader.ports; p++) {
		hk_reader_counters(&s->reader, p, &n.seen, &n.dropped);
		n.written = s->port[p].written;
		if (out)
			hk_pcapng_statistics(out, s->port[p].interface, &n);
	}
	dropped_before += hk_reader_dropped(&s->reader);
	hk_source_close(s);
	source[i] = source[--sources];
}

static void garbage(unsigned i)
{
	say("%s (process %d) has written garbage into its ring, and is captured no longer; fix: "
	    "look for writes out of bounds in the program",
	    source[i]->who, source[i]->at.pid);
	failed = true;
	skip(source[i]->at.name);
	end(i);
}

/* Looks at the next frame of each; ports are told at once. */
static void look(void)
{
	for (unsigned i = sources; i-- > 0;) {
		struct hk_source *s = source[i];
		int rc = s->has_next;

		while (!s->has_next && (rc = hk_reader_peek(&s->reader, &s->next)) == 1) {
			s->has_next = s->next.r.kind == HK_TAP_FRAME;
			if (s->has_next)
				break;
			new_port(s);
			hk_reader_take(&s->reader, &s->next);
		}
		if (rc < 0)
			garbage(i);
	}
}

/* Frames of before @until, the oldest first, some of them; of a single process there is no order to wait
 * for. How many. */
static unsigned drain(uint64_t until)
{
	unsigned n = 0;

	for (; n < ROUND && !(o.count && frames >= o.count); n++) {
		struct hk_source *first = NULL;

		look();
		for (unsigned i = 0; i < sources; i++)
			if (source[i]->has_next &&
			    (!first || source[i]->next.r.ns < first->next.r.ns))
				first = source[i];
		if (!first || (sources > 1 && first->next.r.ns >= until))
			break;
		frame(first);
		hk_reader_take(&first->reader, &first->next);
		first->has_next = false;
	}
	return n;
}

static void drain_all(void)
{
	while (drain(UINT64_MAX) == ROUND)
		;
}

/* All that the process left. False if that was garbage. */
static bool drain_source(const struct hk_source *s, unsigned i)
{
	for (;;) {
		look();
		if (i >= sources || source[i] != s)
			return false;
		if (!s->has_next || drain(s->next.r.ns + 1) == 0)
			return true;
	}
}

/* Those that have ended have nothing more to write. */
static void see_ends(void)
{
	for (unsigned i = sources; i-- > 0;) {
		struct hk_source *s = source[i];

		if (!hk_source_ended(s) || !drain_source(s, i))
			continue;
		failed |= !s->said_end;
		say("%s (process %d) has %s", s->who, s->at.pid, s->said_end ? "ended" : "died");
		end(i);
	}
}

/* ---- the whole ------------------------------------------------------------------------------------ */

static bool over(uint64_t now, uint64_t start)
{
	return told_to_stop || (o.count && frames >= o.count) ||
	       (o.duration_ns && now - start >= o.duration_ns) || (!sources && !o.wait);
}

/* Until there is a reason to stop. 0, or what went wrong with the output. */
static int run(void)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC), looked = start, scanned = start, shown = start;
	int rc = 0;

	for (uint64_t now = start; rc == 0 && !over(now, start); now = clock_ns(CLOCK_MONOTONIC)) {
		unsigned n = drain(clock_ns(CLOCK_REALTIME) - HOLD_NS);

		if (n < ROUND && out)
			rc = hk_pcapng_flush(out);
		if (now - looked >= LOOK_NS) {
			looked = now;
			see_ends();
		}
		if (!o.pids && now - scanned >= (o.wait ? AWAIT_NS : SCAN_NS)) {
			scanned = now;
			scan();
		}
		if (now - shown >= SHOW_NS) {
			shown = now;
			show();
		}
		if (n == ROUND)
			continue;
		const struct timespec nap = {.tv_nsec = n ? (long)BUSY_NS : (long)IDLE_NS};

		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	}
	return rc;
}

static void finish(void)
{
	for (unsigned i = 0; i < sources; i++)
		hk_source_stop(source[i]);
	drain_all();
	while (sources)
		end(sources - 1);
}

static int open_output(struct hk_error *err)
{
	int fd;

	if (!o.file)
		return 0;
	if (strcmp(o.file, "-") == 0)
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		fd = open(o.file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return hk_error_set(err, -errno, "cannot write %s: %s", o.file, strerror(errno));
	if (isatty(fd)) {
		close(fd);
		return hk_error_set(err, -EINVAL,
				    "standard output is a terminal, and pcapng is no text; fix: "
				    "| tshark -r -");
	}
	out = hk_pcapng_open(fd);
	if (!out) {
		close(fd);
		return hk_error_set(err, -ENOMEM, "no memory");
	}
	hk_pcapng_section(out, NULL);
	(void)hk_pcapng_flush(out); /* readers of a pipe wait for it; an error stays */
	return 0;
}

static void set_signals(void)
{
	struct sigaction a = {.sa_handler = on_signal};

	sigaction(SIGINT, &a, NULL); /* no SA_RESTART: it ends naps */
	sigaction(SIGTERM, &a, NULL);
	sigaction(SIGHUP, &a, NULL);
	signal(SIGPIPE, SIG_IGN);
}

int main(int argc, char **argv)
{
	struct hk_error err = {""};
	int rc = hk_capture_options(argc, argv, &o, &err);

	if (rc > 0)
		return 0;
	if (rc == 0) {
		set_signals();
		hk_filter_text(&o.filter, filter_text, sizeof(filter_text));
		scan();
		check_pids();
		if (!sources && (o.pids || !o.wait)) {
			if (!failed)
				say("nobody here moves frames of Hikyaku; fix: start the job "
				    "first, "
				    "name its node (--node), or --wait for it");
			return 1;
		}
		rc = open_output(&err);
	}
	if (rc) {
		say("%s", err.text);
		return 2;
	}
	rc = run();
	finish();
	if (out) {
		int closed = hk_pcapng_close(out);

		rc = rc ? rc : closed;
	}
	if (rc && rc != -EPIPE) { /* a reader that has seen enough is no failure */
		say("cannot write %s: %s", o.file, strerror(-rc));
		failed = true;
	}
	say("%" PRIu64 " frames%s, %" PRIu64 " dropped%s", frames, out ? " written" : " seen",
	    dropped_before, dropped_before ? "; fix: a larger --buffer, a smaller --snaplen" : "");
	return failed ? 1 : 0;
}

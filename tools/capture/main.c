/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/main.c: hikyaku-capture: writes the frames of captured processes to one pcapng file.
 *
 * It polls the rings by the clock, so that no captured process has to wake it. It orders frames of
 * several processes by time, and holds the frames of the last HOLD_NS back for others that come
 * late.
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
#define BUSY_NS  (300 * HK_USEC) /* between polls while frames come */
#define IDLE_NS  (5 * HK_MSEC)   /* between polls while no frame comes */
#define LARGE    (100 * 1000000) /* bytes of frames from which a hint is printed */
#define HEADERS  128             /* bytes of a frame with all its headers, and some more */
#define ROUND    4096            /* frames between checks of all else */
#define CHECK_NS (20 * HK_MSEC)  /* between checks for ended processes */
#define SCAN_NS  (100 * HK_MSEC) /* between checks for new processes */
#define AWAIT_NS (10 * HK_MSEC)  /* the same with --wait, which must not miss first frames */
#define SHOW_NS  (500 * HK_MSEC) /* between updates of the display */
#define SKIPPED  64              /* names of processes that cannot be captured */

static struct hk_capture_options o;
static struct hk_pcapng *out; /* NULL: frames are counted only */
static struct hk_source *source[HK_CAPTURE_SOURCES];
static unsigned sources;
static char skipped[SKIPPED][sizeof(((struct hk_source_name *)0)->name)];
static unsigned skips;
static char filter_text[128];
static uint64_t frames, refused;
static uint64_t kept_bytes;     /* of frames, as written */
static uint64_t dropped_before; /* of processes that have ended */
static bool failed, line_open;
static volatile sig_atomic_t told_to_stop;

/* The second signal ends the process at once, since it may wait for a reader of its output. */
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

/* ---- messages ---------------------------------------------------------------------------------
 */

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
	fprintf(stderr, "\r%" PRIu64 " frames, %" PRIu64 " MB, %" PRIu64 " dropped, %u processes ",
		frames, kept_bytes / 1000000, dropped(), sources);
	line_open = true;
}

/* ---- processes come and go --------------------------------------------------------------------
 */

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
	if (rc == -EPERM && !o.pids) { /* another user's process, which --pid does not name */
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

/* Prints an error for each process of --pid that is not captured. */
static void check_pids(void)
{
	for (unsigned i = 0; i < o.pids; i++) {
		bool there = false;

		for (unsigned k = 0; k < sources; k++)
			there |= source[k]->at.pid == o.pid[i];
		if (!there && !failed)
			say("process %d moves no frames of Hikyaku in this network namespace; fix: "
			    "name its node by --node, or omit --pid",
			    o.pid[i]);
		failed |= !there;
	}
}

/* ---- frames -----------------------------------------------------------------------------------
 */

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
	kept_bytes += HK_MIN(r->cap, o.snaplen);
	if (out)
		hk_pcapng_packet(out, s->port[r->port].interface, r->ns, r->direction, r->queue,
				 s->next.bytes, HK_MIN(r->cap, o.snaplen), r->len);
}

/* Writes the counters of source @i to the file, and closes it. */
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
	say("%s (process %d) has written garbage into its ring, so its capture ends; fix: look for "
	    "writes out of bounds in the program",
	    source[i]->who, source[i]->at.pid);
	failed = true;
	skip(source[i]->at.name);
	end(i);
}

/* Peeks at the next frame of each source. Writes records of ports at once. */
static void peek_all(void)
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

/* Writes at most ROUND frames from before @until, the oldest first; of a single process also later
 * ones, since their order is known. Returns the number. */
static unsigned drain(uint64_t until)
{
	unsigned n = 0;

	for (; n < ROUND && !(o.count && frames >= o.count); n++) {
		struct hk_source *first = NULL;

		peek_all();
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

/* Writes all remaining frames of the source. False if they contain garbage. */
static bool drain_source(const struct hk_source *s, unsigned i)
{
	for (;;) {
		peek_all();
		if (i >= sources || source[i] != s)
			return false;
		if (!s->has_next || drain(s->next.r.ns + 1) == 0)
			return true;
	}
}

/* Closes the sources whose processes have ended. */
static void check_ends(void)
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

/* ---- main -------------------------------------------------------------------------------------
 */

static bool over(uint64_t now, uint64_t start)
{
	return told_to_stop || (o.count && frames >= o.count) ||
	       (o.duration_ns && now - start >= o.duration_ns) || (!sources && !o.wait);
}

/* Captures until there is a reason to stop. Returns 0, or a negative errno of the output. */
static int run(void)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC), checked = start, scanned = start, shown = start;
	int rc = 0;

	for (uint64_t now = start; rc == 0 && !over(now, start); now = clock_ns(CLOCK_MONOTONIC)) {
		unsigned n = drain(clock_ns(CLOCK_REALTIME) - HOLD_NS);

		if (n < ROUND && out)
			rc = hk_pcapng_flush(out);
		if (now - checked >= CHECK_NS) {
			checked = now;
			check_ends();
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
		const struct timespec pause = {.tv_nsec = n ? (long)BUSY_NS : (long)IDLE_NS};

		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
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
				    "standard output is a terminal, but pcapng is not text; fix: "
				    "append | tshark -r -");
	}
	out = hk_pcapng_open(fd);
	if (!out) {
		close(fd);
		return hk_error_set(err, -ENOMEM, "no memory");
	}
	hk_pcapng_section(out, NULL);
	(void)hk_pcapng_flush(out); /* readers of a pipe need it; run() reports an error */
	return 0;
}

static void set_signals(void)
{
	struct sigaction a = {.sa_handler = on_signal};

	sigaction(SIGINT, &a, NULL); /* without SA_RESTART, so that it ends sleeps */
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
				say("no process here copies frames: ranks of Open MPI and hikyakud "
				    "do; fix: start the job first, name another node (--node), or "
				    "use --wait");
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
	if (rc && rc != -EPIPE) { /* -EPIPE: the reader has ended, which is not an error */
		say("cannot write %s: %s", o.file, strerror(-rc));
		failed = true;
	}
	say("%" PRIu64 " frames%s, %" PRIu64 " MB, %" PRIu64 " dropped%s", frames,
	    out ? " written" : " seen", kept_bytes / 1000000, dropped_before,
	    dropped_before ? "; fix: use a larger --buffer or a smaller --snaplen" : "");
	if (out && kept_bytes > LARGE && o.snaplen > HEADERS)
		say("a file of headers alone is smaller: --snaplen %d", HEADERS);
	return failed ? 1 : 0;
}

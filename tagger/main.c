/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger/main.c: hk-tagger, which runs a command as a job whose TCP is tagged (docs/tagger.md).
 *
 * A holder is started beside (tagger/holder.h), this process enters the job's cgroup and becomes
 * the command: its status, its signals and its terminal are those of the command itself. mpirun's
 * daemons on other nodes are started by the same program (Open MPI's launch agent), with the same
 * options and the job's number.
 */
#include "tagger/ask.h"
#include "tagger/check.h"
#include "tagger/holder.h"
#include "tagger/place.h"
#include "tagger/shared.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MS 20000 /* loading takes some 100 ms */

static const char usage[] =
	"usage: hk-tagger [OPTION]... -- COMMAND [ARGUMENT]...\n"
	"Run COMMAND, mostly an mpirun, as a job whose TCP packets are tagged (docs/tagger.md).\n"
	"\n"
	"  --job N           the job's number, 1 to 63 [the lowest that is free on this node]\n"
	"  --iface NAME      tag what leaves by this interface; may be given several times\n"
	"                    [all Ethernet interfaces that are up]\n"
	"  --restore         give tagged frames that come in their address back, where no switch "
	"does\n"
	"  --registrar ADDR  tell it which ranks this node has (hikyaku tag run --sdn)\n"
	"  --attach WAY      how to see packets: tcx, or clsact, which kernels before 6.6 have; "
	"auto\n"
	"                    takes tcx where it is [auto]\n"
	"  --measure         have the kernel measure the programs, for 'tag status --json'\n"
	"  --library FILE    preload FILE into the command; it says in which MPI function a rank "
	"is\n"
	"\n"
	"  --check           run nothing; say which way is taken here, and what killed ones have "
	"left\n";

struct options {
	struct hk_holder_options holder;
	const char *library;
	char **command;
};

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	fputs("hk-tagger: ", stderr);
	vfprintf(stderr, format, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(2);
}

static void parse(int argc, char **argv, struct options *o)
{
	static const struct option known[] = {
		{"attach", required_argument, NULL, 'a'},
		{"check", no_argument, NULL, 'c'},
		{"job", required_argument, NULL, 'j'},
		{"iface", required_argument, NULL, 'i'},
		{"measure", no_argument, NULL, 'm'},
		{"registrar", required_argument, NULL, 'R'},
		{"restore", no_argument, NULL, 'r'},
		{"library", required_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	char *end;
	int c;

	while ((c = getopt_long(argc, argv, "+h", known, NULL)) != -1) {
		switch (c) {
		case 'a':
			o->holder.attach = hk_attach_parse(optarg);
			if (o->holder.attach == HK_ATTACH_WAYS)
				die("--attach %s: there are auto, tcx and clsact", optarg);
			break;
		case 'c':
			exit(hk_check_run());
		case 'j':
			o->holder.job = (unsigned)strtoul(optarg, &end, 10);
			if (*end || o->holder.job < 1 || o->holder.job >= HK_TAG_JOBS)
				die("--job %s: jobs have the numbers 1 to %d", optarg,
				    HK_TAG_JOBS - 1);
			break;
		case 'i':
			if (o->holder.links == HK_HOLDER_LINKS)
				die("more than %d --iface; fix: leave it away for all",
				    HK_HOLDER_LINKS);
			o->holder.link[o->holder.links++] = optarg;
			break;
		case 'r':
			o->holder.restore = true;
			break;
		case 'R':
			o->holder.registrar = optarg;
			break;
		case 'm':
			o->holder.measure = true;
			break;
		case 'l':
			o->library = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs("hk-tagger --help lists the options\n", stderr);
			exit(2);
		}
	}
	o->command = argv + optind;
	if (!o->command[0])
		die("no command to run; fix: hk-tagger [OPTION]... -- mpirun ...");
}

/* ---- the holder ---------------------------------------------------------------------------- */

/* Starts the holder as nobody's child: the command shall not hear of its end. Returns the end of the
 * pipe that it waits at. */
static int start_holder(const struct hk_holder_options *o, struct hk_holder_ready *ready)
{
	int to_us[2], to_it[2];
	struct pollfd p;
	pid_t pid;

	if (pipe(to_us) != 0 || pipe(to_it) != 0)
		die("cannot make a pipe: %s", strerror(errno));
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(to_us[0]);
		close(to_it[1]);
		if (setsid() < 0 || (pid = fork()) != 0)
			_exit(pid < 0);
		exit(hk_holder_run(o, to_us[1], to_it[0]));
	}
	if (pid < 0)
		die("cannot start a process: %s", strerror(errno));
	close(to_us[1]);
	close(to_it[0]);
	waitpid(pid, NULL, 0);
	p = (struct pollfd){.fd = to_us[0], .events = POLLIN};
	if (poll(&p, 1, START_MS) <= 0)
		die("the process that holds the tagger was not ready within %d s", START_MS / 1000);
	if (read(to_us[0], ready, sizeof(*ready)) != sizeof(*ready))
		die("the process that holds the tagger has died");
	close(to_us[0]);
	return to_it[1];
}

/* ---- the command --------------------------------------------------------------------------- */

static void append(char *text, size_t len, const char *more)
{
	size_t used = strlen(text);

	if (used + strlen(more) >= len)
		die("the launch agent's command line is too long; fix: fewer --iface");
	memcpy(text + used, more, strlen(more) + 1);
}

/* How mpirun is to start its daemons on other nodes: by this program, with these options. */
static void set_launch_agent(const struct options *o, unsigned job)
{
	const char *own = getenv("OMPI_MCA_orte_launch_agent");
	char text[2 * PATH_MAX], self[PATH_MAX], number[32];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		die("cannot find this program: %s", strerror(errno));
	self[n] = '\0';
	if (strchr(self, ' ') || (o->library && strchr(o->library, ' ')))
		die("the path of hk-tagger or of its library has a blank, which mpirun's launch "
		    "agent "
		    "may not; fix: install it elsewhere");
	snprintf(text, sizeof(text), "%s", self);
	snprintf(number, sizeof(number), " --job %u", job);
	append(text, sizeof(text), number);
	for (unsigned i = 0; i < o->holder.links; i++) {
		append(text, sizeof(text), " --iface ");
		append(text, sizeof(text), o->holder.link[i]);
	}
	if (o->holder.attach != HK_ATTACH_AUTO) {
		append(text, sizeof(text), " --attach ");
		append(text, sizeof(text), hk_attach_name(o->holder.attach));
	}
	if (o->holder.measure)
		append(text, sizeof(text), " --measure");
	if (o->holder.registrar) {
		append(text, sizeof(text), " --registrar ");
		append(text, sizeof(text), o->holder.registrar);
	}
	if (o->holder.restore)
		append(text, sizeof(text), " --restore");
	if (o->library) {
		append(text, sizeof(text), " --library ");
		append(text, sizeof(text), o->library);
	}
	append(text, sizeof(text), " -- ");
	append(text, sizeof(text), own ? own : "orted");
	setenv("OMPI_MCA_orte_launch_agent", text, 1);
}

static void preload(const char *library)
{
	const char *own = getenv("LD_PRELOAD");
	char *both = NULL; /* it may be of any length */

	if (own && own[0] && asprintf(&both, "%s:%s", library, own) < 0)
		die("no memory for LD_PRELOAD");
	if (setenv("LD_PRELOAD", both ? both : library, 1) != 0)
		die("cannot set LD_PRELOAD: %s", strerror(errno));
	free(both);
}

int main(int argc, char **argv)
{
	struct options o = {0};
	struct hk_holder_ready ready;
	struct hk_error err;

	parse(argc, argv, &o);
	if (o.library && access(o.library, R_OK) != 0)
		die("cannot read %s: %s", o.library, strerror(errno));
	int go = start_holder(&o.holder, &ready);
	if (ready.rc)
		die("%s", ready.err.text);
	if (hk_place_enter(ready.cgroup, &err) != 0)
		die("%s", err.text);
	if (write(go, "j", 1) != 1)
		die("the process that holds the tagger has died");
	close(go);
	/* a job below a job: the launch agent is for the daemons of this mpirun */
	if (!getenv("OMPI_MCA_ess_base_jobid"))
		set_launch_agent(&o, ready.job);
	setenv(HK_ASK_ENV, ready.socket, 1);
	if (o.library)
		preload(o.library);
	execvp(o.command[0], o.command);
	fprintf(stderr, "hk-tagger: cannot run %s: %s\n", o.command[0], strerror(errno));
	return 127;
}

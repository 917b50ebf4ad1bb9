/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/main.c: hk-tagger, which runs a command as a job whose TCP packets are tagged
 * (docs/tagger.md).
 *
 * It starts a holder as a separate process (sdn/tagger/holder.h), enters the job's cgroup and
 * becomes the command, with the command's status, signals and terminal. It makes itself Open MPI's
 * launch agent. So mpirun starts its daemons on other nodes by this program, with the same options
 * and the job's number.
 */
#include "sdn/tagger/socket.h"
#include "sdn/tagger/check.h"
#include "sdn/tagger/holder.h"
#include "sdn/tagger/node.h"
#include "sdn/tagger/shared.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MS 20000 /* longest wait for the holder; loading takes some 100 ms */

static const char usage[] =
	"usage: hk-tagger [OPTION]... -- COMMAND [ARGUMENT]...\nRun COMMAND, mostly an mpirun, as "
	"a job whose TCP packets are tagged (docs/tagger.md).\n\n  --job N           the job's "
	"number, 1 to 63 [the lowest free number on this node]\n  --iface NAME      tag packets "
	"that leave through this interface; may be repeated\n                    [all Ethernet "
	"interfaces that are up]\n  --restore         write the node's address into tagged frames "
	"that come in, if no switch does\n  --registrar ADDR  register this node's ranks there "
	"(hikyaku tag run --sdn)\n  --attach WAY      tcx, clsact (for kernels before 6.6), or "
	"auto: tcx if possible [auto]\n  --measure         let the kernel measure the programs, "
	"for 'tag status --json'\n  --library FILE    preload FILE into the command; it reports "
	"the MPI function of a rank\n\n  --check           run nothing; show the way to attach, "
	"and what killed holders have left\n";

struct options {
	struct hk_tagger_holder_options holder;
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
			o->holder.attach = hk_tagger_attach_parse(optarg);
			if (o->holder.attach == HK_TAGGER_ATTACH_WAYS)
				die("--attach %s: unknown way; fix: use auto, tcx or clsact",
				    optarg);
			break;
		case 'c':
			exit(hk_tagger_check_run());
		case 'j':
			o->holder.job = (unsigned)strtoul(optarg, &end, 10);
			if (*end || o->holder.job < 1 || o->holder.job >= HK_TAG_JOBS)
				die("--job %s: not a job number; fix: use 1 to %d", optarg,
				    HK_TAG_JOBS - 1);
			break;
		case 'i':
			if (o->holder.links == HK_TAGGER_HOLDER_LINKS)
				die("more than %d --iface; fix: omit it to tag all interfaces",
				    HK_TAGGER_HOLDER_LINKS);
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

/* ---- the holder ------------------------------------------------------------------------------ */

/* Starts the holder as an orphan, so that the command is not notified of its end. Returns the write
 * end of the pipe on which the holder waits. */
static int start_holder(const struct hk_tagger_holder_options *o,
			struct hk_tagger_holder_ready *ready)
{
	int to_us[2], to_it[2];
	struct pollfd p;
	pid_t pid;

	if (pipe(to_us) != 0 || pipe(to_it) != 0)
		die("cannot make a pipe: %s; fix: raise `ulimit -n`", strerror(errno));
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(to_us[0]);
		close(to_it[1]);
		if (setsid() < 0 || (pid = fork()) != 0)
			_exit(pid < 0);
		exit(hk_tagger_holder_run(o, to_us[1], to_it[0]));
	}
	if (pid < 0)
		die("cannot start a process: %s; fix: raise `ulimit -u`", strerror(errno));
	close(to_us[1]);
	close(to_it[0]);
	waitpid(pid, NULL, 0);
	p = (struct pollfd){.fd = to_us[0], .events = POLLIN};
	if (poll(&p, 1, START_MS) <= 0)
		die("the holder was not ready within %d s; fix: check that the node is not "
		    "overloaded",
		    START_MS / 1000);
	if (read(to_us[0], ready, sizeof(*ready)) != sizeof(*ready))
		die("the holder has ended; fix: run the command again");
	close(to_us[0]);
	return to_it[1];
}

/* ---- the command ----------------------------------------------------------------------------- */

static void append(char *text, size_t len, const char *more)
{
	size_t used = strlen(text);

	if (used + strlen(more) >= len)
		die("the launch agent's command line is too long; fix: give fewer --iface");
	memcpy(text + used, more, strlen(more) + 1);
}

/* Makes mpirun start its daemons on other nodes by this program, with the same options. */
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
		    "agent must not have; fix: install it elsewhere");
	snprintf(text, sizeof(text), "%s", self);
	snprintf(number, sizeof(number), " --job %u", job);
	append(text, sizeof(text), number);
	for (unsigned i = 0; i < o->holder.links; i++) {
		append(text, sizeof(text), " --iface ");
		append(text, sizeof(text), o->holder.link[i]);
	}
	if (o->holder.attach != HK_TAGGER_ATTACH_AUTO) {
		append(text, sizeof(text), " --attach ");
		append(text, sizeof(text), hk_tagger_attach_name(o->holder.attach));
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
	char *both = NULL; /* of any length */

	if (own && own[0] && asprintf(&both, "%s:%s", library, own) < 0)
		die("no memory for LD_PRELOAD");
	if (setenv("LD_PRELOAD", both ? both : library, 1) != 0)
		die("cannot set LD_PRELOAD: %s", strerror(errno));
	free(both);
}

int main(int argc, char **argv)
{
	struct options o = {0};
	struct hk_tagger_holder_ready ready;
	struct hk_error err;

	parse(argc, argv, &o);
	if (o.library && access(o.library, R_OK) != 0)
		die("cannot read %s: %s; fix: install the library, or give another --library",
		    o.library, strerror(errno));
	int go = start_holder(&o.holder, &ready);
	if (ready.rc)
		die("%s", ready.err.text);
	if (hk_tagger_cgroup_enter(ready.cgroup, &err) != 0)
		die("%s", err.text);
	if (write(go, "j", 1) != 1)
		die("the holder has ended; fix: run the command again");
	close(go);
	/* not in a job within a job: the launch agent is for the daemons of the outer mpirun */
	if (!getenv("OMPI_MCA_ess_base_jobid"))
		set_launch_agent(&o, ready.job);
	setenv(HK_TAGGER_SOCKET_ENV, ready.socket, 1);
	if (o.library)
		preload(o.library);
	execvp(o.command[0], o.command);
	fprintf(stderr, "hk-tagger: cannot run %s: %s\n", o.command[0], strerror(errno));
	return 127;
}

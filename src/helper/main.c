/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/main.c: hikyaku-helper: gives AF_XDP sockets to processes that have no rights for them.
 * port/helper.h says how and why.
 */
#include "helper/policy.h"
#include "helper/serve.h"
#include "port/helper.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#define SYSTEMD_FD 3 /* the first descriptor of socket activation, sd_listen_fds(3) */

static const char usage[] =
	"usage: hikyaku-helper [--policy FILE] [--on-demand]\n"
	"\n"
	"Gives AF_XDP sockets to the ranks of this network namespace, which need no rights then.\n"
	"\n"
	"  --policy FILE  who may use which interface (" HK_POLICY_FILE ");\n"
	"                 a line is INTERFACE USER|@GROUP|*...\n"
	"  --on-demand    end when the last client has gone\n";

static void stop(int signal)
{
	(void)signal;
	hk_serve_stop();
}

/* The socket of systemd, or one of our own. -EADDRINUSE: another helper is there. */
static int listen_here(struct hk_error *err)
{
	struct sockaddr_un at;
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	socklen_t len = hk_helper_address(&at);

	if (pid && fds && atol(pid) == (long)getpid() && strcmp(fds, "1") == 0)
		return SYSTEMD_FD;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) != 0 || listen(fd, 64) != 0) {
		int rc = -errno;

		if (fd >= 0)
			close(fd);
		return rc == -EADDRINUSE
			       ? hk_error_set(err, rc, "another one serves this network namespace")
			       : hk_error_set(err, rc, "no socket: %s", strerror(-rc));
	}
	return fd;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"policy", required_argument, NULL, 'p'},
						{"on-demand", no_argument, NULL, 'd'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	struct hk_serve_config cfg = {.policy = HK_POLICY_FILE,
				      .borrowed = getauxval(AT_SECURE) != 0};
	const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	struct sigaction on_stop = {.sa_handler = stop};
	struct hk_error err = {""};
	sigset_t signals;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (c) {
		case 'p':
			cfg.policy = optarg;
			break;
		case 'd':
			cfg.on_demand = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (optind < argc || (cfg.borrowed && strcmp(cfg.policy, HK_POLICY_FILE) != 0)) {
		fputs(optind < argc ? usage
				    : "hikyaku-helper: only root may choose the policy; fix: leave "
				      "out --policy\n",
		      stderr);
		return 2;
	}
	(void)setrlimit(RLIMIT_MEMLOCK, &all); /* without the right to, cap_ipc_lock may do */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	sigaction(SIGINT, &on_stop, NULL);
	sigaction(SIGTERM, &on_stop, NULL);
	cfg.listening = listen_here(&err);
	if (cfg.listening == -EADDRINUSE && cfg.on_demand)
		return 0; /* the caller asks that one */
	if (cfg.listening < 0) {
		fprintf(stderr, "hikyaku-helper: %s\n", err.text);
		return 1;
	}
	if (cfg.on_demand && fork() != 0)
		return 0; /* the client that has started us waits for this, and can connect now */
	hk_serve(&cfg);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/report.c: the state of a job on this node, as JSON.
 */
#include "sdn/tagger/report.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *hk_tagger_function_name(uint32_t function)
{
	static const char *const names[HK_TAG_FUNCTION_MAX] = {
		"other",          "p2p",    "rma",     "neighbor",  "bcast",     "scatter",
		"reduce",         "gather", "barrier", "allreduce", "allgather", "alltoall",
		"reduce_scatter", "scan"};

	return names[function < HK_TAG_FUNCTION_MAX ? function : HK_TAG_OTHER];
}

struct list {
	FILE *f;
	unsigned n;
};

static void connection(void *arg, const struct hk_tagger_connection *c)
{
	char local[INET6_ADDRSTRLEN] = "", remote[INET6_ADDRSTRLEN] = "";
	struct list *list = arg;

	if (!c->conn.base)
		return; /* a listener, or a connection to a process outside of the job */
	inet_ntop(c->family, c->local, local, sizeof(local));
	inet_ntop(c->family, c->remote, remote, sizeof(remote));
	fprintf(list->f,
		"%s\n  {\"rank\": %u, \"peer\": %u, \"local\": \"%s\", \"local_port\": %u, "
		"\"remote\": \"%s\", \"remote_port\": %u, \"frames\": %llu, \"bytes\": %llu}",
		list->n++ ? "," : "", c->conn.rank, c->conn.peer, local, c->local_port, remote,
		c->remote_port, (unsigned long long)c->conn.frames,
		(unsigned long long)c->conn.bytes);
}

static void write_ranks(FILE *f, const struct hk_tagger_report *r)
{
	unsigned n = 0;

	fputs(" \"ranks\": [", f);
	for (uint32_t i = 0; i < HK_TAGGER_SLOTS; i++)
		if (r->registry->slot[i].pid)
			fprintf(f, "%s\n  {\"rank\": %u, \"pid\": %u, \"function\": \"%s\"}",
				n++ ? "," : "", r->registry->slot[i].rank, r->registry->slot[i].pid,
				hk_tagger_function_name(hk_tagger_kernel_function(r->kernel, i)));
	fputs("],\n", f);
}

static void write_counts(FILE *f, const struct hk_tagger_report *r)
{
	struct hk_tagger_sum sum[HK_TAGGER_COUNTS];
	unsigned n = 0;

	hk_tagger_kernel_counts(r->kernel, sum);
	fputs(" \"tagged\": {", f);
	for (uint32_t i = 0; i < HK_TAG_FUNCTION_MAX; i++)
		if (sum[i].frames)
			fprintf(f, "%s\"%s\": {\"frames\": %llu, \"bytes\": %llu}", n++ ? ", " : "",
				hk_tagger_function_name(i), (unsigned long long)sum[i].frames,
				(unsigned long long)sum[i].bytes);
	fprintf(f,
		"},\n \"connections_tagged\": %llu,\n \"strangers\": %llu,\n \"restored\": %llu,\n"
		" \"failed\": %llu,\n",
		(unsigned long long)sum[HK_TAGGER_CONNECTIONS].frames,
		(unsigned long long)sum[HK_TAGGER_STRANGERS].frames,
		(unsigned long long)sum[HK_TAGGER_RESTORED].frames,
		(unsigned long long)sum[HK_TAGGER_FAILED].frames);
}

static void write_cost(FILE *f, const char *program, struct hk_tagger_kernel_cost cost)
{
	fprintf(f, " \"%s\": {\"runs\": %llu, \"ns\": %llu},\n", program,
		(unsigned long long)cost.runs, (unsigned long long)cost.ns);
}

int hk_tagger_report_fd(const struct hk_tagger_report *r, struct hk_error *err)
{
	int fd = memfd_create("hk-tagger-status", MFD_CLOEXEC);
	int other = fd < 0 ? -1 : dup(fd);
	FILE *f = other < 0 ? NULL : fdopen(other, "w");
	struct list list = {.f = f};

	if (!f) {
		int rc = hk_error_set(err, -errno, "cannot write the status: %s", strerror(errno));
		if (other >= 0)
			close(other);
		if (fd >= 0)
			close(fd);
		return rc;
	}
	fprintf(f,
		"{\"job\": %u,\n \"pid\": %d,\n \"cgroup\": \"%s\",\n \"restore\": %s,\n"
		" \"attach\": \"%s\",\n",
		r->job, (int)getpid(), r->cgroup, r->restore ? "true" : "false",
		hk_tagger_attach_name(r->way));
	fputs(" \"interfaces\": [", f);
	for (unsigned i = 0; i < r->links; i++)
		fprintf(f, "%s\"%s\"", i ? ", " : "", r->link[i].name);
	fputs("],\n", f);
	write_ranks(f, r);
	write_counts(f, r);
	write_cost(f, "egress", hk_tagger_kernel_cost(r->kernel, false));
	write_cost(f, "ingress", hk_tagger_kernel_cost(r->kernel, true));
	fputs(" \"connections\": [", f);
	int rc = hk_tagger_kernel_connections(r->kernel, connection, &list, err);
	fputs("]}\n", f);
	if (fclose(f) != 0 && rc == 0)
		rc = hk_error_set(err, -ENOMEM, "no memory for the status");
	if (rc == 0 && lseek(fd, 0, SEEK_SET) < 0)
		rc = hk_error_set(err, -errno, "cannot rewind the status: %s", strerror(errno));
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/daemon_stats.c: the counters of ranks, wires, switch and poller as JSON, for `hikyaku
 * stats` and `hikyaku top`. Monitoring relies on the members' names (docs/man/hikyaku.1.md).
 *
 * Ranks can write the memory of their counters. hk_res_rank_counters() copies it with checks of all
 * bounds, and this file only displays the values.
 */
#include "hostd/daemon.h"
#include "hostd/rank_stats.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* CPU time of a process with all its threads, in seconds; -1: unknown. */
static double cpu_seconds(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
		return -1;
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Writes HK_CPU_COUNTER as a further member of an object. */
static void cpu(FILE *f, pid_t pid)
{
	double s = cpu_seconds(pid);

#define MEMBER(name, ...) fprintf(f, s < 0 ? ", \"" #name "\": null" : ", \"" #name "\": %.6f", s);
	HK_CPU_COUNTER(MEMBER)
#undef MEMBER
}

static void slot(struct hk_daemon *d, FILE *f, unsigned i, int64_t now)
{
	const struct hk_slot *s = &d->slot[i];
	struct hk_res_rank rank;
	struct hk_pipe_levels pipe;
	uint64_t memory, len;

	fprintf(f, "{\"slot\": %u, \"state\": \"%s\", \"generation\": %u", i,
		hk_slot_state_name(s->state), s->generation);
	if (s->state == HK_SLOT_FREE) {
		fprintf(f, "}");
		return;
	}
	fprintf(f,
		", \"pid\": %d, \"job\": \"%08x\", \"endpoint\": %u, \"local_rank\": %u, "
		"\"seconds\": %" PRId64,
		s->pid, s->job_key, s->endpoint, s->local_rank, (now - s->attached_at) / 1000);
	HK_STATS_MEMBERS(f, ",\n   ", HK_SLOT_COUNTERS, &d->shared->slot[i]);
	fprintf(f, ", \"counters\": ");
	/* a rank has a worker only in this state */
	hk_res_memory(d->res, i, &memory, &len);
	if (s->state == HK_SLOT_READY && hk_res_rank_counters(memory, len, s->worker, &rank) == 0) {
		hk_stats_rank(f, &rank);
		fprintf(f, ", \"polls\": \"%s\"",
			rank.levels.unpolled_ns < HK_RES_NOT_POLLING_NS ? "rank"
			: d->poller.ready                               ? "poller"
									: "nobody");
	} else {
		fprintf(f, "null, \"polls\": null");
	}
	fprintf(f, ", \"pipe\": ");
	if (hk_res_pipe_levels(d->res, i, &pipe)) {
		HK_STATS_MEMBERS(f, "{", HK_PIPE_COUNTERS, &pipe);
		HK_STATS_MEMBERS(f, ", ", HK_PIPE_GAUGES, &pipe);
		fprintf(f, "}}");
	} else {
		fprintf(f, "null}");
	}
}

static void wire(FILE *f, const struct hk_wire *w)
{
	struct hk_port_counters n;

	hk_res_wire_counters(&w->link, &n);
	fprintf(f,
		"{\"node_id\": \"%016" PRIx64 "\", \"port_id\": %u, \"queues\": %u, \"eager\": %u",
		w->link.node_id, w->link.port_id, w->link.queues, w->link.eager);
	HK_STATS_MEMBERS(f, ", ", HK_PORT_COUNTERS, &n);
	fprintf(f, "}");
}

/* Begins an object, which the caller ends. */
static void port_begin(FILE *f, const char *spec, const struct hk_res_steering *s)
{
	fprintf(f, "{\"spec\": \"%s\", \"driver\": \"%s\", ", spec, s->driver);
	fprintf(f, "\"steering\": {\"method\": \"%s\", \"text\": \"%s\", \"refusal\": \"%s\"",
		s->method, s->text, s->refusal);
	HK_STATS_MEMBERS(f, ", ", HK_STEERING_GAUGES, s);
	HK_STATS_MEMBERS(f, ", ", HK_STEERING_COUNTERS, s);
	fprintf(f, ", \"better\": [");
	for (unsigned i = 0; i < HK_RES_BETTER && s->better[i].method; i++)
		fprintf(f, "%s\n  {\"method\": \"%s\", \"text\": \"%s\", \"why\": \"%s\"}",
			i ? "," : "", s->better[i].method, s->better[i].text, s->better[i].why);
	fprintf(f, "]}");
}

void hk_daemon_steering(FILE *f, const char *spec, const struct hk_res_steering *s)
{
	port_begin(f, spec, s);
	fprintf(f, "}");
}

static void port(struct hk_daemon *d, FILE *f)
{
	struct hk_res_steering steering;
	struct hk_port_counters n;

	hk_res_steering(d->res, &steering);
	port_begin(f, d->o.port, &steering);
	fprintf(f, ", \"counters\": ");
	if (hk_res_port_counters(d->res, &n)) {
		HK_STATS_MEMBERS(f, "{", HK_PORT_COUNTERS, &n);
		fprintf(f, "}}");
	} else {
		fprintf(f, "null}");
	}
}

void hk_daemon_poller(FILE *f, struct hk_daemon *d)
{
	const struct hk_poller *p = &d->poller;
	const char *state = !d->o.poller ? "off"
			    : p->failed  ? "failed"
			    : p->ready   ? "on"
					 : "starting";

	fprintf(f, "\"poller\": {\"state\": \"%s\", \"pid\": %d", state, p->pid);
	HK_STATS_MEMBERS(f, ", ", HK_POLLER_LIFE_COUNTERS, p);
	HK_STATS_MEMBERS(f, ", ", HK_POLLER_COUNTERS, d->shared);
	cpu(f, p->pid);
	fprintf(f, "},\n");
}

static void write_all(struct hk_daemon *d, FILE *f)
{
	int64_t now = hk_clock_ms();
	const struct hk_daemon_gauges n = {.uptime_seconds = (uint64_t)(now - d->started) / 1000};
	struct hk_switch_counters sw;
	const char *comma = "";

	fprintf(f,
		"{\"schema\": 1, \"name\": \"%s\", \"host\": \"%s\", \"release\": \"%s\", "
		"\"mode\": \"%s\",\n",
		d->rd.name, d->host, HK_RELEASE, hk_ctl_mode_name(d->o.mode));
	fprintf(f, "\"pid\": %d, \"node_id\": \"%016" PRIx64 "\", \"clock_ms\": %" PRId64, getpid(),
		d->node_id, now);
	HK_STATS_MEMBERS(f, ", ", HK_DAEMON_COUNTERS, d);
	HK_STATS_MEMBERS(f, ", ", HK_DAEMON_GAUGES, &n);
	cpu(f, getpid());
	fprintf(f, ",\n");
	hk_daemon_poller(f, d);
	fprintf(f, "\"switch\": ");
	if (hk_res_switch_counters(d->res, &sw)) {
		HK_STATS_MEMBERS(f, "{", HK_SWITCH_COUNTERS, &sw);
		fprintf(f, "},\n\"port\": ");
	} else {
		fprintf(f, "null,\n\"port\": ");
	}
	port(d, f);
	fprintf(f, ",\n\"slots\": [");
	for (unsigned i = 0; i < d->o.slots; i++) {
		fprintf(f, "%s\n  ", i ? "," : "");
		slot(d, f, i, now);
	}
	fprintf(f, "],\n\"wires\": [");
	for (unsigned i = 0; i < HK_MAX_WIRES; i++) {
		if (d->wire[i].state < HK_WIRE_OPEN)
			continue;
		fprintf(f, "%s\n  ", comma);
		wire(f, &d->wire[i]);
		comma = ",";
	}
	fprintf(f, "]}\n");
}

char *hk_daemon_stats(struct hk_daemon *d, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	if (!f)
		return NULL;
	write_all(d, f);
	bool ok = !ferror(f);

	if (fclose(f) != 0 || !ok) {
		free(text);
		return NULL;
	}
	return text;
}

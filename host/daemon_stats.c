/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/daemon_stats.c: what `hikyaku stats` and `hikyaku top` show, as JSON: counters of ranks, wires,
 * switch and poller. The members' names are a promise to monitoring (docs/man/hikyaku.1.md).
 *
 * Ranks count in memory that they can write: it is copied with bounds (hk_res_rank_counters()) and
 * shown, and nothing here acts on it.
 */
#include "host/daemon.h"
#include "host/rank_stats.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const struct hk_stat switch_fields[] = {
#define FIELD(name)                                                                                \
	{                                                                                          \
#name, offsetof(struct hk_res_switch, name)                                        \
	}
	FIELD(rx_frames), FIELD(tx_frames), FIELD(steered), FIELD(misled), FIELD(stray),
	FIELD(tx_lost),   FIELD(rx_lost),   FIELD(sleeps),  FIELD(rung),   FIELD(rings),
#undef FIELD
};

static const struct hk_stat port_fields[] = {
#define FIELD(name)                                                                                \
	{                                                                                          \
#name, offsetof(struct hk_res_port, name)                                          \
	}
	FIELD(rx_frames), FIELD(rx_bytes),     FIELD(tx_frames), FIELD(tx_bytes),
	FIELD(rx_missed), FIELD(rx_no_buffer), FIELD(rx_errors), FIELD(tx_errors),
#undef FIELD
};

static const struct hk_stat pipe_fields[] = {
#define FIELD(name)                                                                                \
	{                                                                                          \
#name, offsetof(struct hk_res_pipe, name)                                          \
	}
	FIELD(to_rank), FIELD(from_rank), FIELD(rx_full), FIELD(rx_share), FIELD(tx_lost),
#undef FIELD
};

#define OBJECT(f, values, fields) hk_stats_object(f, values, fields, HK_ARRAY_LEN(fields))

/* CPU time that a process has used, all its threads; -1 if it cannot be told. */
static double cpu_seconds(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
		return -1;
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void cpu(FILE *f, pid_t pid)
{
	double s = cpu_seconds(pid);

	if (s < 0)
		fprintf(f, "\"cpu_seconds\": null");
	else
		fprintf(f, "\"cpu_seconds\": %.6f", s);
}

static void slot(struct hk_daemon *d, FILE *f, unsigned i, int64_t now)
{
	const struct hk_slot *s = &d->slot[i];
	struct hk_res_rank rank;
	struct hk_res_pipe pipe;
	uint64_t memory, len;

	fprintf(f, "{\"slot\": %u, \"state\": \"%s\", \"generation\": %u", i,
		hk_slot_state_name(s->state), s->generation);
	if (s->state == HK_SLOT_FREE) {
		fprintf(f, "}");
		return;
	}
	/* in this order, so that it has never been away more often than looked at */
	uint64_t away = atomic_load(&d->shared->slot[i].away);
	uint64_t looks = atomic_load(&d->shared->slot[i].looks);

	fprintf(f,
		", \"pid\": %d, \"job\": \"%08x\", \"endpoint\": %u, \"local_rank\": %u, "
		"\"seconds\": %" PRId64 ",\n   \"looks\": %" PRIu64 ", \"away\": %" PRIu64
		", \"counters\": ",
		s->pid, s->job_key, s->endpoint, s->local_rank, (now - s->since) / 1000, looks,
		away);
	/* before READY there is no fabric; one that left has taken it along */
	hk_res_memory(d->res, i, &memory, &len);
	if (s->state == HK_SLOT_SERVED &&
	    hk_res_rank_counters(memory, len, s->fabric, &rank) == 0) {
		hk_stats_rank(f, &rank);
		fprintf(f, ", \"polls\": \"%s\"",
			rank.unpolled_ns < HK_RES_ABSENT_NS ? "rank"
			: d->poller.ready                   ? "poller"
							    : "nobody");
	} else {
		fprintf(f, "null, \"polls\": null");
	}
	fprintf(f, ", \"pipe\": ");
	if (hk_res_pipe_levels(d->res, i, &pipe))
		OBJECT(f, &pipe, pipe_fields);
	else
		fprintf(f, "null");
	fprintf(f, "}");
}

static void wire(struct hk_daemon *d, FILE *f, const struct hk_wire *w)
{
	fprintf(f,
		"{\"node_id\": \"%016" PRIx64
		"\", \"port_id\": %u, \"queues\": %u, \"eager\": %u, ",
		w->w.node_id, w->w.port_id, w->w.queues, w->w.eager);
	hk_res_wire_stats(d->res, &w->w, f);
	fprintf(f, "}");
}

/* Opens an object that the caller closes. */
static void port_begin(FILE *f, const char *spec, const struct hk_res_steering *s)
{
	fprintf(f,
		"{\"spec\": \"%s\", \"driver\": \"%s\", \"steering\": {\"rung\": \"%s\", \"text\": "
		"\"%s\", \"queues\": %u, \"rules\": %u, \"refused\": %u, \"refusal\": \"%s\", "
		"\"better\": [",
		spec, s->driver, s->rung, s->text, s->queues, s->rules, s->refused, s->refusal);
	for (unsigned i = 0; i < HK_RES_BETTER && s->better[i].rung; i++)
		fprintf(f, "%s\n  {\"rung\": \"%s\", \"text\": \"%s\", \"why\": \"%s\"}",
			i ? "," : "", s->better[i].rung, s->better[i].text, s->better[i].why);
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
	struct hk_res_port n;

	hk_res_steering(d->res, &steering);
	port_begin(f, d->o.port, &steering);
	fprintf(f, ", \"counters\": ");
	if (hk_res_port_counters(d->res, &n))
		OBJECT(f, &n, port_fields);
	else
		fprintf(f, "null");
	fprintf(f, "}");
}

static void poller(struct hk_daemon *d, FILE *f)
{
	const struct hk_poller *p = &d->poller;

	fprintf(f,
		"\"poller\": {\"state\": \"%s\", \"pid\": %d, \"starts\": %u, \"rounds\": %" PRIu64
		", \"sleeps\": %" PRIu64 ", \"rung\": %" PRIu64 ", \"rung_in_vain\": %" PRIu64 ", ",
		!d->o.poller ? "off"
		: p->failed  ? "failed"
		: p->ready   ? "on"
			     : "starting",
		p->pid, p->starts, atomic_load(&d->shared->rounds), atomic_load(&d->shared->sleeps),
		atomic_load(&d->shared->rung), atomic_load(&d->shared->in_vain));
	cpu(f, p->pid);
	fprintf(f, "},\n");
}

static void write_all(struct hk_daemon *d, FILE *f)
{
	int64_t now = hk_ctl_now_ms();
	struct hk_res_switch sw;
	const char *comma = "";

	fprintf(f,
		"{\"schema\": 1, \"name\": \"%s\", \"host\": \"%s\", \"release\": \"%s\", "
		"\"mode\": \"%s\",\n",
		d->rd.name, d->host, HK_RELEASE, hk_ctl_mode_name(d->o.mode));
	fprintf(f, "\"pid\": %d, \"node_id\": \"%016" PRIx64 "\", \"ranks_seen\": %u,\n", getpid(),
		d->node_id, d->ranks_seen);
	fprintf(f, "\"clock_ms\": %" PRId64 ", \"seconds\": %" PRId64 ", ", now,
		(now - d->started) / 1000);
	cpu(f, getpid());
	fprintf(f, ",\n");
	poller(d, f);
	fprintf(f, "\"switch\": ");
	if (hk_res_switch_counters(d->res, &sw))
		OBJECT(f, &sw, switch_fields);
	else
		fprintf(f, "null");
	fprintf(f, ",\n\"port\": ");
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
		wire(d, f, &d->wire[i]);
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

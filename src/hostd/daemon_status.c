/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/daemon_status.c: the daemon's state as JSON, for `hikyaku daemon status`. All texts in it
 * have passed hk_ctl_set_text() or hk_ctl_check(), so none needs escapes.
 */
#include "hostd/daemon.h"
#include "hostd/rank_stats.h"

#include <stdlib.h>
#include <unistd.h>

static void slots(struct hk_daemon *d, FILE *f, int64_t now)
{
	const char *comma = "";

	fprintf(f, "\"slots\": [");
	for (unsigned i = 0; i < d->o.slots; i++) {
		const struct hk_slot *s = &d->slot[i];
		if (s->state == HK_SLOT_FREE) {
			fprintf(f, "%s\n  {\"slot\": %u, \"state\": \"free\", \"generation\": %u}",
				comma, i, s->generation);
		} else {
			fprintf(f,
				"%s\n  {\"slot\": %u, \"state\": \"%s\", \"generation\": %u, "
				"\"pid\": %d, \"job_key\": \"%08x\", \"endpoint\": %u, "
				"\"local_rank\": %u, \"seconds\": %" PRId64,
				comma, i, hk_slot_state_name(s->state), s->generation, s->pid,
				s->job_key, s->endpoint, s->local_rank,
				(now - s->attached_at) / 1000);
			HK_STATS_MEMBERS(f, ", ", HK_SLOT_COUNTERS, &d->shared->slot[i]);
			fprintf(f, "}");
		}
		comma = ",";
	}
	fprintf(f, "],\n");
}

static void wires(struct hk_daemon *d, FILE *f)
{
	static const char *const state[] = {"none", "closed", "open", "up", "closing"};
	const char *comma = "";

	fprintf(f, "\"wires\": [");
	for (unsigned i = 0; i < HK_MAX_WIRES; i++) {
		const struct hk_wire *w = &d->wire[i];
		if (w->state == HK_WIRE_NONE)
			continue;
		fprintf(f,
			"%s\n  {\"node_id\": \"%016" PRIx64 "\", \"state\": \"%s\", \"slots\": %u, "
			"\"end\": \"%s\"",
			comma, w->link.node_id, state[w->state], w->link.slots,
			w->link.server ? "server" : "client");
		if (w->state >= HK_WIRE_OPEN)
			fprintf(f, ", \"port_id\": %u, \"queues\": %u", w->link.port_id,
				w->link.queues);
		fprintf(f, "}");
		comma = ",";
	}
	fprintf(f, "]");
}

static char *finish(FILE *f, char **text)
{
	bool ok = f && !ferror(f);

	if (f && fclose(f) != 0)
		ok = false;
	if (!ok) {
		free(*text);
		return NULL;
	}
	return *text;
}

char *hk_daemon_status(struct hk_daemon *d, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);
	int64_t now = hk_clock_ms();

	if (!f)
		return NULL;
	fprintf(f, "{\"schema\": 1, \"name\": \"%s\", \"release\": \"%s\", \"pid\": %d,\n",
		d->rd.name, HK_RELEASE, getpid());
	fprintf(f, "\"user\": %u, \"host\": \"%s\", \"node_id\": \"%016" PRIx64 "\",\n", geteuid(),
		d->host, d->node_id);
	fprintf(f, "\"job_key\": ");
	fprintf(f, d->o.job ? "\"%08x\"" : "null", d->o.job);
	fprintf(f, ", \"uptime_seconds\": %" PRId64 ", \"port\": \"%s\", \"mode\": \"%s\",\n",
		(now - d->started) / 1000, d->o.port, hk_ctl_mode_name(d->o.mode));
	fprintf(f, "\"shared\": \"%s\",\n", d->rd.shared);
	fprintf(f, "\"rx_buffers\": %u, \"tx_buffers\": %u", d->o.rx_buffers, d->o.tx_buffers);
	HK_STATS_MEMBERS(f, ", ", HK_DAEMON_COUNTERS, d);
	fprintf(f, ",\n");
	hk_daemon_poller(f, d);
	fprintf(f, "\"realtime\": %s, \"why_not_realtime\": ", d->realtime ? "true" : "false");
	fprintf(f, d->realtime ? "null,\n" : "\"%s\",\n", d->why_not_realtime.text);
	slots(d, f, now);
	wires(d, f);
	fprintf(f, "}\n");
	return finish(f, &text);
}

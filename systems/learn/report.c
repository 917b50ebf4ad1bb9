/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/report.c: lines of JSON (learn/report.h).
 */
#include "learn/report.h"

#include "base/common.h"

#include <inttypes.h>
#include <math.h>

/* Seconds of training at time @at; NaN: before it. */
static double seconds(const struct hk_learn_report *r, uint64_t at)
{
	return r->began && at ? (double)(at - r->began) / (double)HK_SEC : NAN;
}

void hk_learn_report_begin(struct hk_learn_report *r, const char *event)
{
	fprintf(r->out, "{\"event\": \"%s\", \"node\": %u", event, r->node);
	hk_learn_report_number(r, "time", seconds(r, hk_rtc_now(r->rtc)));
}

void hk_learn_report_end(struct hk_learn_report *r)
{
	fputs("}\n", r->out);
	fflush(r->out);
}

void hk_learn_report_number(struct hk_learn_report *r, const char *name, double value)
{
	if (isfinite(value))
		fprintf(r->out, ", \"%s\": %.12g", name, value);
	else
		fprintf(r->out, ", \"%s\": null", name);
}

static void count(struct hk_learn_report *r, const char *name, uint64_t value)
{
	fprintf(r->out, ", \"%s\": %" PRIu64, name, value);
}

static void network(struct hk_learn_report *r, const struct hk_learn_gossip *g,
		    const struct hk_rtc *rtc)
{
	struct hk_rtc_type_stats type;
	struct hk_rtc_stats all;
	uint64_t stale = 0;

	hk_rtc_stats(rtc, &all);
	for (unsigned t = 0; t <= g->slices; t++)
		if (hk_rtc_type_stats(rtc, (uint8_t)t, &type))
			stale += type.stale;
	count(r, "members", hk_rtc_members(rtc));
	/* rounds without training, for lack of received slices */
	count(r, "waited", g->stats.waited);
	count(r, "messages", g->stats.slices_sent + g->stats.statuses_sent);
	count(r, "messages_received", g->stats.slices_received + g->stats.statuses_received);
	count(r, "bytes", g->stats.bytes_sent);
	count(r, "bytes_received", g->stats.bytes_received);
	/* messages known to be lost here: no space to send, no buffer to receive, or too old */
	count(r, "drops", all.tx_full + all.no_buffer + stale);
	count(r, "bad", all.bad);
	count(r, "forged", all.forged + all.replayed);
}

void hk_learn_report_progress(struct hk_learn_report *r, const char *event,
			      const struct hk_learn_gossip *g, const struct hk_rtc *rtc)
{
	static const char *const states[] = {"training", "waiting", "settling", "done"};
	uint64_t rejects = 0;

	hk_learn_report_begin(r, event);
	fprintf(r->out, ", \"state\": \"%s\"", states[g->state]);
	hk_learn_report_number(r, "trained", seconds(r, r->stopped));
	count(r, "epochs", g->train.epochs);
	count(r, "rows", g->stats.rows);
	count(r, "age", g->slice[0].age);
	hk_learn_report_number(r, "step", hk_learn_train_step(&g->train));
	hk_learn_report_number(r, "loss", g->stats.loss);
	hk_learn_report_number(r, "loss_all", g->stats.loss_all);
	hk_learn_report_number(r, "consensus", g->stats.consensus);
	network(r, g, rtc);
	count(r, "merged", g->stats.merged);
	count(r, "copied", g->stats.copied);
	for (unsigned i = 1; i < HK_LEARN_REASONS; i++)
		rejects += g->stats.refused[i];
	count(r, "rejects", rejects);
	fputs(", \"refused\": {", r->out);
	for (unsigned i = 1; i < HK_LEARN_REASONS; i++)
		fprintf(r->out, "%s\"%s\": %" PRIu64, i > 1 ? ", " : "",
			hk_learn_reason_name((enum hk_learn_reason)i), g->stats.refused[i]);
	fputs("}", r->out);
	fprintf(r->out, ", \"stop\": \"%s\"", hk_learn_stop_name(g->agree.stop));
	count(r, "decider", g->agree.decider);
	hk_learn_report_number(r, "stop_loss", g->agree.stop ? g->agree.stop_loss : NAN);
	hk_learn_report_end(r);
}

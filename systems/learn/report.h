/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/report.h: the output of hk_learn: lines of JSON, each an object with "event", "node" and
 * "time", the seconds of training (null before it).
 *
 *   start     model, rows, parameters, slices, backend
 *   progress  see hk_learn_report_progress(); unknown numbers are null
 *   member    peer, joined; left: it told that it leaves. Neither: it is silent, or has restarted
 *   refused   peer, why: the first message of a peer that was refused for this reason
 *   judged    peer, taken, false: its slices that were accepted, and those that were refused as not
 *             finite or too far. Now and then, and at the end
 *   absent    nodes that were not there when training began
 *   end       as progress, with stop and decider
 *
 * "trained" is the time at which the node knew that training ends; null before. After it, "end" has
 * the last rounds of gossip as well.
 */
#ifndef HK_LEARN_REPORT_H
#define HK_LEARN_REPORT_H

#include "learn/gossip.h"
#include "hikyaku/rtc.h"

#include <stdio.h>

struct hk_learn_report {
	FILE *out;
	uint16_t node;
	const struct hk_rtc *rtc;
	uint64_t began;   /* hk_rtc_now() at the start of training; 0: before it */
	uint64_t stopped; /* hk_rtc_now() when this node knew of the stop; 0: before it */
};

/* Begins a line. The caller adds `, "NAME": VALUE` and calls hk_learn_report_end(). */
void hk_learn_report_begin(struct hk_learn_report *r, const char *event);
void hk_learn_report_end(struct hk_learn_report *r);

/* Adds `, "NAME": VALUE`, with null for a value that is not finite. */
void hk_learn_report_number(struct hk_learn_report *r, const char *name, double value);

/* Writes the state of @g as one line; @event is "progress" or "end". */
void hk_learn_report_progress(struct hk_learn_report *r, const char *event,
			      const struct hk_learn_gossip *g, const struct hk_rtc *rtc);

#endif

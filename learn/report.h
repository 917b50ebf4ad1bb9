/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/report.h: what hk_learn says: lines of JSON, each an object with "event", "node" and
 * "time", seconds of training (null before it).
 *
 *   start     model, rows, parameters, slices, backend
 *   progress  see hk_report_progress(); numbers that are not known are null
 *   member    peer, joined
 *   refused   peer, why: the first message of a peer that was refused for this reason
 *   absent    nodes: who was not there when training began
 *   end       as progress, with stop and decider
 */
#ifndef HK_LEARN_REPORT_H
#define HK_LEARN_REPORT_H

#include "learn/gossip.h"
#include "rtc/rtc.h"

#include <stdio.h>

struct hk_report {
	FILE *out;
	uint16_t node;
	const struct hk_rtc *rtc;
	uint64_t began; /* hk_rtc_now() when training began; 0: it has not */
};

/* Begins a line: the caller adds ", \"name\": value" and ends with hk_report_end(). */
void hk_report_begin(struct hk_report *r, const char *event);
void hk_report_end(struct hk_report *r);

/* ", name: value", null if it is not finite. */
void hk_report_number(struct hk_report *r, const char *name, double value);

/* One line of where @g is; @event is "progress" or "end". */
void hk_report_progress(struct hk_report *r, const char *event, const struct hk_gossip *g,
			const struct hk_rtc *rtc);

#endif

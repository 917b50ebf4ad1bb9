/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/agree.h: what every node's loss is, and when all stop. There is no one to ask, so it is gossip
 * too.
 *
 * Each node keeps an *entry* for every node: its loss on its own rows, measured once an epoch, and
 * how far its step is down, and whether it has finished. A status message carries entries; of two about one node the later counts.
 * The *loss of all* is the mean over living nodes (shards differ by a row at most); with the trimmed
 * merge the trimmed mean, since who lies about parameters lies about losses too.
 *
 * A node that sees the target reached, or all finished, decides to stop and says so in each status from
 * then on; who hears it stops and says so too. So it spreads like any rumour, survives loss, and nodes
 * that come back later learn it with the first status. Two may decide at once, with different reasons:
 * that changes nothing.
 *
 * A liar can claim a low loss: one node's claim counts 1/n, and nothing with the trimmed mean. It can
 * also say "stop", and is believed: whoever has the job's key may end the job.
 */
#ifndef HK_LEARN_AGREE_H
#define HK_LEARN_AGREE_H

#include "learn/learn.h"
#include "learn/message.h"

struct hk_agree {
	uint16_t node, nodes;
	const struct hk_learn_settings *set;
	uint32_t fingerprint, run;
	struct hk_status_entry *entry; /* [nodes]; run 0: nothing heard */
	double *sorted;                /* [nodes] room */
	uint16_t next;                 /* entry to begin the next status with */
	enum hk_learn_stop stop;
	uint16_t decider;
	double stop_loss;
};

int hk_agree_open(struct hk_agree *a, uint16_t node, uint16_t nodes, uint32_t fingerprint,
		  uint32_t run, const struct hk_learn_settings *set);
void hk_agree_close(struct hk_agree *a);

/* Our own loss and step now. Not finite: not told. */
void hk_agree_own(struct hk_agree *a, double loss, double step, unsigned halvings, uint8_t flags);

/* The step that all living nodes should have, since one with a larger step pulls harder and its rows
 * would count more: the smallest first step and the most halvings of one of them, with the trimmed merge
 * but for as many as it drops. False: nothing known. */
bool hk_agree_step(const struct hk_agree *a, bool (*alive)(void *arg, uint16_t node), void *arg,
		   double *step, unsigned *halvings);

/* The loss of all, by the entries of nodes for which @alive says true; NaN while less than half of them
 * are known. @finished, if not NULL: true if all of them are (with the trimmed merge: but for as many
 * as it drops). */
double hk_agree_loss(const struct hk_agree *a, bool (*alive)(void *arg, uint16_t node), void *arg,
		     bool *finished);

/* Decides to stop, if nobody has. */
void hk_agree_stop(struct hk_agree *a, enum hk_learn_stop why, double loss);

/* Writes a status of at most @room bytes; returns its length. Nodes take turns if all do not fit. */
size_t hk_agree_write(struct hk_agree *a, uint8_t flags, void *out, size_t room);

/* Takes one that hk_status_parse() has accepted. */
void hk_agree_read(struct hk_agree *a, const struct hk_status_hdr *h, const void *entries);

#endif

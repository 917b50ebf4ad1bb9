/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/agree.h: agreement on the loss of all nodes, and on the end of training.
 *
 * DESIGN NOTES
 *
 * Problem: there is no server that collects losses and decides when training ends.
 *
 * Approach: losses travel by gossip. Each node keeps an *entry* for every node. It holds
 * the loss on that node's rows, the number of halvings of its step, and whether it has finished. A
 * node measures its loss once an epoch. A status message carries entries; of two entries about one
 * node the later one counts. The *loss of all* is the mean over live nodes, because shards differ
 * by one row at most. With the trimmed merge it is the trimmed mean, since a node with false
 * parameters can report a false loss too. Of fewer than three values it drops none. So a node that
 * knows of fewer live nodes, in a job of more than two, counts itself alone.
 *
 * A node decides to stop when it sees that the target is reached or that all nodes have finished.
 * From then on each of its status messages carries this, and each receiver stops and repeats it. So
 * the decision spreads although messages are lost, and a node that comes back learns it from the
 * first status. Two nodes may decide at once, for different reasons; that does no harm.
 *
 * Limits: a faulty node can report a low loss. It counts 1/n, and with the trimmed mean not at all.
 * It can also say "stop", and the others stop: every node with the job's key may end the job.
 */
#ifndef HK_LEARN_AGREE_H
#define HK_LEARN_AGREE_H

#include "learn/learn.h"
#include "learn/message.h"

struct hk_learn_agree {
	uint16_t node, nodes;
	const struct hk_learn_settings *set;
	uint32_t fingerprint, run;
	struct hk_learn_status_entry *entry; /* [nodes]; run 0: nothing received */
	double *sorted;                      /* [nodes] scratch */
	uint16_t next;                       /* first entry of the next status */
	enum hk_learn_stop stop;
	uint16_t decider;
	double stop_loss;
};

int hk_learn_agree_open(struct hk_learn_agree *a, uint16_t node, uint16_t nodes,
			uint32_t fingerprint, uint32_t run, const struct hk_learn_settings *set);
void hk_learn_agree_close(struct hk_learn_agree *a);

/* Sets this node's entry. A @loss that is not finite changes nothing. */
void hk_learn_agree_own(struct hk_learn_agree *a, double loss, double step, unsigned halvings,
			uint8_t flags);

/* Computes the common step of all live nodes: the smallest first step, and the most halvings of any
 * node. A node with a larger step would pull harder, so its rows would count more. And the noise of
 * a node that returns, with its first step, would reach all models. With the trimmed merge as many
 * extremes are dropped as it drops. False: no entry is known. */
bool hk_learn_agree_step(const struct hk_learn_agree *a, bool (*alive)(void *arg, uint16_t node),
			 void *arg, double *step, unsigned *halvings);

/* Returns the loss of all, from the entries of nodes for which @alive returns true. NaN while less
 * than half of them are known. @finished, if not NULL, is set to whether all of them have finished.
 * The trimmed merge ignores as many unfinished nodes as it drops values. */
double hk_learn_agree_loss(const struct hk_learn_agree *a, bool (*alive)(void *arg, uint16_t node),
			   void *arg, bool *finished);

/* Decides to stop, unless a decision is known. */
void hk_learn_agree_stop(struct hk_learn_agree *a, enum hk_learn_stop why, double loss);

/* Writes a status of at most @capacity bytes; returns its length. If not all entries fit, they take
 * turns. */
size_t hk_learn_agree_write(struct hk_learn_agree *a, uint8_t flags, void *out, size_t capacity);

/* Takes the entries of a status that hk_learn_status_parse() has accepted. */
void hk_learn_agree_read(struct hk_learn_agree *a, const struct hk_learn_status_hdr *h,
			 const void *entries);

#endif

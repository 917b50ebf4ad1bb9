/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/run.h: one run: options, scenarios, and what is measured.
 */
#ifndef HK_SIM_RUN_H
#define HK_SIM_RUN_H

#include "sim/host.h"

#include <stdio.h>

#define SIM_START (1000 * HK_SEC * SIM_NS) /* ps: the clock's first value, so that no time is 0 */

struct messages;
struct scenario;

struct sim_options {
	const struct scenario *scenario;
	struct net_config net;
	struct host_config host;
	uint64_t seed;
	uint32_t rate_mbps; /* of each link */
	uint32_t flows;     /* what struct run counts apart: mostly senders */
	uint32_t size;      /* bytes of a message */
	uint32_t count;     /* messages of each sender */
	uint32_t load;      /* mixed: percent of each link */
	uint32_t share_of;  /* the share is one of so many links; 0: of one */
	uint64_t time;      /* ps that are simulated, at most */
	/* exchange */
	struct messages *messages; /* the run frees them */
	uint32_t eager;            /* bytes of the longest eager message; 0: puts */
};

/* The progress of one sender. */
struct flow {
	uint64_t bytes; /* completed */
	uint64_t completed;
	uint64_t began; /* ps: its oldest message that is not complete */
};

struct run {
	struct sim_options o;
	struct net net;
	struct hosts hosts;
	struct hk_rng rng;
	struct flow *flow; /* by the tag of a message */
	uint32_t flows;
	uint64_t start, end;    /* ps */
	uint64_t left;          /* messages that must still be delivered; 0: runs for its time */
	uint64_t measured_from; /* ps: the share of the link counts from here */
	uint64_t delivered_bytes;
	uint64_t last_delivery; /* ps */
	uint64_t rounds;        /* of a ping-pong, or messages before the measurement */
	uint64_t round_began;   /* ps */
	void *state;            /* the scenario's, from malloc() */
	float *sample;          /* completion times, µs */
	uint32_t samples, samples_cap;
};

struct scenario {
	const char *name;
	uint32_t min_hosts;
	/* Fills in what the user did not choose: 0 in sim_options. */
	void (*defaults)(struct sim_options *o);
	void (*begin)(struct run *r);
	void (*call)(struct run *r, uint32_t a, uint32_t b); /* EVENT_CALL */
	/* The rest may be NULL. */
	void (*delivered)(struct run *r, const struct msg *m);
	void (*completed)(struct run *r, const struct msg *m);
	/* Writes what only this scenario measures: members of a JSON object, each with a comma. */
	void (*report)(const struct run *r, FILE *out);
	void (*end)(struct run *r); /* frees what its state points to */
};

void run_init(struct run *r, const struct sim_options *o);
/* Until the scenario is done or its time has passed. */
void run_go(struct run *r);
/* For @time ps more, such as for the last acknowledgements. */
void run_on(struct run *r, uint64_t time);
void run_free(struct run *r);

/* All of that, and writes the results. */
void run_print(const struct sim_options *o, FILE *out);

/* An EVENT_CALL for the scenario at a random time up to @spread ns from now. */
void run_call_soon(struct run *r, uint64_t spread, uint32_t a, uint32_t b);

/* The share of the link counts from now. */
void run_measure(struct run *r);

/* Adds a completion time, from @began (ps) until now. */
void run_sample(struct run *r, uint64_t began);

/* ps that the links of a host need for @messages of @size bytes. */
uint64_t run_ideal(const struct run *r, uint64_t messages, uint32_t size, bool put);

/* report.c */
void run_report(struct run *r, FILE *out);

/* Jain's index of the flows' bytes: 1 if all are equal, 1 / n if one has everything. */
double run_jain(const struct run *r);
void run_sort(float *sample, uint32_t count);
/* The @q quantile of samples, which are sorted; 0 without any. */
double run_quantile(const float *sample, uint32_t count, double q);

#endif

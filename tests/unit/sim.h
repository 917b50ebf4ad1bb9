/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/sim.h: engines on a network that exists only in memory and in virtual time.
 *
 * Design. One heap of events, ordered by time and then by birth, drives everything; one generator,
 * seeded, decides everything that chance decides. So a run is a function of its configuration and
 * seed, takes no longer than its events, and repeats exactly.
 *
 *     node ---cable---> switch ---queue, cable---> rx ring ---> node polls
 *          serializes           serializes, may overflow  may overflow
 *
 * A frame may be lost, doubled, delayed past its successors or have bits flipped between the two
 * cables. Each node plays what fabric/ does for its engine: it keeps the buffers behind tokens,
 * queues messages while hk_engine_room() is 0, rewrites headers for resends, seals, places and
 * holds what arrives. It may also be busy ("compute": nobody polls), hold on to delivered buffers,
 * be cut off, leave, or die and come back in a new incarnation.
 *
 * What is checked, always: content and fragment order of every message; exactly once; each token
 * reaped once; no verdict without its reason; and, by a monitor that reads every frame on the wire
 * and knows nothing of engines (sim_check.c), the protocol's promises: never beyond the credit,
 * edges that never move left, numbers without gaps, resends equal to the original.
 *
 *   sim_net.c    events, cables, faults
 *   sim_node.c   a node and its engine: its life, what comes in, its turns
 *   sim_send.c   what it sends
 *   sim_check.c  messages, delivery, the monitor
 */
#ifndef HK_SIM_H
#define HK_SIM_H

#include "engine/engine.h"
#include "tests/unit/hk_test.h"

#define SIM_FRAME_MAX 2048
#define SIM_MIN_LEN   8 /* bytes of a packet's payload at the least: they say what it is */

struct sim_config {
	unsigned nodes;
	struct hk_engine_config engine; /* endpoint and epoch are filled in for each node */
	uint64_t start;                 /* the clock when it all begins */
	uint64_t latency, jitter;       /* one way; jitter is added at random up to its value */
	uint64_t detour; /* puts go by a path of their own, and other packets take so much longer */
	unsigned rails;  /* 0, or packets go by so many paths, as good as each other, in turn */
	uint32_t ps_per_byte; /* of every cable, each way: 80 is 100 Gbit/s */
	uint32_t queue_bytes; /* the switch keeps for each node; then it drops */
	uint32_t rx_ring;     /* frames that wait for a node to poll; then they drop */
	uint64_t poll_gap;    /* how long after an arrival the node looks */
	unsigned poll_max;    /* outputs asked of one hk_engine_poll() */
	/* faults, per million frames */
	uint32_t loss, dup, reorder, corrupt;
	uint64_t reorder_delay; /* how long a reordered or doubled frame is late at the most */
	/* the application */
	uint32_t hold, compute; /* per million: deliveries kept a while; wake-ups that compute */
	uint64_t hold_time, compute_time; /* at the most */
	bool lazy;           /* nodes learn of a peer by sending to it, or by its frames */
	bool random_ids;     /* endpoint numbers and epochs all over the range */
	bool random_psn;     /* packet numbers start anywhere, often before the wrap */
	bool silent_allowed; /* SILENT and STUCK are no failure: that pair is given up */
	bool verbose;
};

/* Reasonable wire, no faults. */
void sim_config_default(struct sim_config *c, unsigned nodes);

struct sim;

/* Decides about a frame that leaves @from for @to: false loses it. For directed faults. */
typedef bool (*sim_filter)(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f,
			   void *ctx);

struct sim *sim_new(const struct sim_config *c, uint64_t seed);
void sim_free(struct sim *s);
struct hk_rng *sim_rng(struct sim *s);
uint64_t sim_now(const struct sim *s);
void sim_set_filter(struct sim *s, sim_filter f, void *ctx);

/* ---- what the application does ------------------------------------------------------------- */

/* Message of @frags fragments with @len bytes of payload each, sent @after from now. Returns its
 * number. DATA: frags <= HK_WIRE_MAX_FRAGS; PUT: frags pieces, at most 64. */
unsigned sim_send(struct sim *s, unsigned from, unsigned to, uint8_t type, unsigned frags,
		  unsigned len, uint64_t after);

/* Runs @fn at @after from now. */
void sim_at(struct sim *s, uint64_t after, void (*fn)(struct sim *, void *), void *ctx);

void sim_cut(struct sim *s, unsigned a, unsigned b, bool cut); /* both ways */
void sim_compute(struct sim *s, unsigned node, uint64_t ns);   /* does not poll for so long */
void sim_hold_all(struct sim *s, unsigned node, bool hold);    /* false: lets go of all */
void sim_restart(struct sim *s, unsigned node);
void sim_bye(struct sim *s, unsigned node);

/* Puts a frame as it is into the rx ring of @node, now. */
void sim_inject(struct sim *s, unsigned node, const void *frame, size_t len);

/* ---- running ------------------------------------------------------------------------------- */

/* Until every message is delivered, every token reaped and every packet acknowledged; fails, with
 * who waits for whom, when @limit has passed or when nothing is left to happen. */
void sim_run_done(struct sim *s, uint64_t limit);

/* For @ns of virtual time, whatever happens. */
void sim_run_for(struct sim *s, uint64_t ns);

/* True if sim_run_done() would return at once. */
bool sim_done(const struct sim *s);

/* Nobody has anything to do, ever: no event waits and every engine's deadline is "never". */
bool sim_quiet(const struct sim *s);

/* ---- looking ------------------------------------------------------------------------------- */

struct sim_stats {
	uint64_t frames, lost, doubled, reordered, corrupted, overflow_switch, overflow_ring, cut;
	uint64_t resends, controls;
	uint64_t delivered, delivered_bytes, verdicts;
	uint64_t held_max; /* frames held by any one node at once */
};

const struct sim_stats *sim_stats(const struct sim *s);
struct hk_engine *sim_engine(struct sim *s, unsigned node);
hk_peer sim_peer(struct sim *s, unsigned node, unsigned peer); /* or HK_PEER_NONE */
uint32_t sim_endpoint(const struct sim *s, unsigned node);
uint32_t sim_epoch(const struct sim *s, unsigned node);
enum hk_verdict sim_verdict(const struct sim *s, unsigned node, unsigned peer); /* the latest */
uint64_t sim_verdict_at(const struct sim *s, unsigned node, unsigned peer);
bool sim_delivered(const struct sim *s, unsigned msg);
uint64_t sim_delivered_at(const struct sim *s, unsigned msg); /* its last part */
uint64_t sim_held(const struct sim *s, unsigned node);

#endif

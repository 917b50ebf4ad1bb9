/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/osc/state.h: the state of one rank's window that others change: its lock, and counters of
 * exposure.
 *
 * If other ranks of the node are in the window's group, the state lies in a segment that they map
 * (shm_open(3)). The memory that MPI_Win_allocate makes is there, too. So they take the lock and
 * access the memory by themselves. The segment has a name until all have mapped it; then its owner
 * unlinks it. Processes of other users cannot open it.
 */
#ifndef HK_OSC_STATE_H
#define HK_OSC_STATE_H

#include "openmpi/osc/locks.h"

#include <pthread.h>
#include <stdatomic.h>

/* A rank and the lock. If it waits, one of this node looks at `granted`, and another one has called
 * the owner, which kept the call. */
struct hk_osc_rank {
	bool holds;
	bool is_kept; /* its call is */
	_Atomic bool granted;
};

struct hk_osc_state {
	pthread_mutex_t mutex; /* of everything that is not atomic; held shortly */
	struct hk_osc_lock lock;
	bool must_tell;             /* the owner must answer calls whose `granted` is set */
	uint64_t cookie;            /* drawn at random: another segment may have the same name */
	_Atomic uint32_t completed; /* COMPLETE calls that no wait has used */
};

#define HK_OSC_SEGMENT_NAME 40

struct hk_osc_segment {
	struct hk_osc_state *state; /* its begin; NULL: none */
	size_t len;
	char *memory;                   /* behind the state, or NULL */
	char name[HK_OSC_SEGMENT_NAME]; /* "": it has none, or none any more */
	bool is_mapped;                 /* else allocated */
};

/* The parts of the state of a window of @ranks ranks that are arrays by rank. */
struct hk_osc_waiters hk_osc_waiters(struct hk_osc_state *s, uint32_t ranks);
struct hk_osc_rank *hk_osc_ranks(struct hk_osc_state *s, uint32_t ranks);
/* POST calls that no start has used */
_Atomic uint32_t *hk_osc_posted(struct hk_osc_state *s, uint32_t ranks);

/* Makes the state of a window of @ranks ranks, and @size bytes of memory if @memory. @shared: for
 * other processes, if there is space for it. False: no memory. */
bool hk_osc_segment_make(struct hk_osc_segment *g, uint32_t ranks, bool memory, size_t size,
			 bool shared);

/* Maps the segment @name of another rank, whose state has @cookie. False: it cannot. */
bool hk_osc_segment_map(struct hk_osc_segment *g, const char *name, uint64_t cookie, uint32_t ranks,
			bool memory, size_t size);

/* All have mapped it. */
void hk_osc_segment_unlink(struct hk_osc_segment *g);

void hk_osc_segment_free(struct hk_osc_segment *g);

/* False: the mutex is damaged. */
bool hk_osc_state_enter(struct hk_osc_state *s);
void hk_osc_state_leave(struct hk_osc_state *s);

#endif

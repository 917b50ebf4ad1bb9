/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/paths.h: by which port of a host each frame to a peer goes, as worker/paths.h does it.
 *
 * Port i of a host reaches port i of its peer. Pieces of puts go by the path with the fewest in
 * flight, all else by the first. A path is paused while none of its packets arrives although those
 * of others do.
 */
#ifndef HK_SIM_PATHS_H
#define HK_SIM_PATHS_H

#include "base/common.h"
#include "hikyaku/protocol.h"

struct paths {
	unsigned count, next;
	uint64_t acked;     /* packets, by any path */
	uint64_t resume_at; /* ns: when the first paused path is tried again */
	struct {
		uint32_t in_flight, consecutive_losses;
		uint64_t paused_until; /* ns; 0: not paused */
		uint64_t silent_since; /* ns: of the first loss without a packet that arrived */
		uint64_t others_acked; /* `acked` then */
	} path[HK_PATHS];
};

void paths_init(struct paths *p, unsigned count);

/* The path for a frame; a NIC in @stuck takes none. */
unsigned paths_pick(const struct paths *p, bool bulk, uint8_t stuck);

/* The path for an answer to a frame that came by @received. */
unsigned paths_for_reply(const struct paths *p, unsigned received);

void paths_sent(struct paths *p, unsigned i);
/* @moved: the packet was sent by several paths, so its arrival says nothing about the last. */
void paths_acked(struct paths *p, unsigned i, bool moved);
/* A packet was lost on path @was and is sent again on @now_on. */
void paths_lost(struct paths *p, unsigned was, unsigned now_on, uint64_t now);

/* Tries paused paths again whose time has come. */
void paths_resume(struct paths *p, uint64_t now);

/* One bit for each path that is not paused. */
uint8_t paths_mask(const struct paths *p);

#endif

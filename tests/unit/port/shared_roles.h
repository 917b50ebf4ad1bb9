/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/shared_roles.h: what the processes of test_shared.c do that rig_spawn() starts; and what they are told
 * and say, a line each.
 *
 * A node is a primary, which owns a memif with QUEUES queues, and a secondary for each of them. Secondary i of node a
 * talks to secondary i of node b. Frames are numbered, and filled from a seed that names sender, queue, epoch and number.
 * A queue neither loses nor reorders, so a receiver wants exactly the next number, on its own queue.
 */
#ifndef SHARED_ROLES_H
#define SHARED_ROLES_H

#define QUEUES     2
#define FRAME      1600
#define STREAM_RUN 2000 /* frames after which a stream says that it flows */

/* @arg: the node's name, the directory of its huge pages, the spec of its port. Says "ready" when its pools are there.
 *   open         opens the port: "open ID"
 *   wait         for the link: "up"
 *   link         "link 0|1"
 *   reset Q      spoils the pools of queue Q as a dying user may, and resets them: "reset"
 *   ring         opens a port whose driver says nothing of sharing: "ring ID"
 *   end          ends in good order */
void role_primary(char **arg);

/* @arg: the node's name, whose last letter is its side, and the queue. Says "started MS".
 *   attach ID MS    to a port, waits for it so long: "attached 0 MS", or "attached ERRNO TEXT"
 *   detach          "detached"
 *   exchange E N    sends and takes N frames of epoch E: "done N"
 *   stream E        the same until "stop": "flows" after STREAM_RUN, "done N" at the end
 *   link            "link 0|1"
 *   faults          doubles frames by itself, and looks for its buffers: "doubled"
 *   open            tries to open a port, which it may not: "open ERRNO"
 *   sleep           "asleep"; when its bell rings "rung here" or "rung on a wire"
 *   asked           says whether its bell was asked for, and takes that in: "asked 0|1, then 0"
 *   ring here       rings for who sleeps on its own node
 *   ring wire       … on the other node
 *   ring badly      sends what no ringer of ours does: "rang badly"
 *   end             ends in good order */
void role_secondary(char **arg);

/* @arg: primary|secondary, name, directory or "-", MB, user id (0: as it is). Starts DPDK so, and ends it: "init 0", or
 * "init ERRNO TEXT". */
void role_try(char **arg);

#endif

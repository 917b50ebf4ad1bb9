/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/shared_roles.h: the roles of the processes of test_shared.c, and the lines
 * that they exchange with the test.
 *
 * A node is a primary, which owns a memif with QUEUES queues, and a secondary for each queue.
 * Secondary i of node a exchanges frames with secondary i of node b. Frames are numbered, and
 * filled from a seed that names sender, queue, epoch and number. A queue neither loses nor reorders
 * frames, so a receiver expects exactly the next number, on its own queue.
 */
#ifndef HK_PORT_SHARED_ROLES_H
#define HK_PORT_SHARED_ROLES_H

#define QUEUES     2
#define FRAME      1600
#define STREAM_RUN 2000 /* frames after which a stream reports that it flows */

/* primary: arguments are the name of the node, the directory of its huge pages and the spec of its
 * port. It sends "ready" when its pools exist. Commands and replies:
 *
 *   open        opens the port: "open ID"
 *   wait        waits for the link: "up"
 *   link        "link 0|1"
 *   listen      listens to the wire as a switch does: "asleep", then "passed on"
 *   reset Q     damages the pools of queue Q as a dying user may, and resets them: "reset"
 *   ring        opens a port whose driver is unknown: "ring ID"
 *   end         ends in good order
 *
 * secondary: arguments are the name of the node, whose last letter is its side, and the queue. It
 * sends "started MS". Commands and replies:
 *
 *   attach ID MS    attaches to a port within MS: "attached 0 MS", or "attached ERRNO TEXT"
 *   detach          "detached"
 *   exchange E N    sends and receives N frames of epoch E: "done N"
 *   stream E        the same until "stop": "flows" after STREAM_RUN, "done N" at the end
 *   fill E          sends frames of epoch E until the ring is full: "full N"
 *   drain           receives until the ring is empty: "drained N"
 *   stay in tx      enters the driver's tx and does not come back: "in tx"
 *   stay in rx      leaves its queue as a kill within the driver's rx does: "in rx"
 *   link            "link 0|1"
 *   faults          duplicates frames by itself, and checks its buffers: "doubled"
 *   open            tries to open a port, which is an error: "open ERRNO"
 *   sleep           "asleep"; after a signal "woken here" or "woken by a wire"
 *   requested       reports requests and resets them: "requested 0|1, then 0"
 *   signal here     signals the sleeper of its own node
 *   signal wire     signals the sleeper of the other node
 *   signal badly    sends what we never send: "signalled badly"
 *   end             ends in good order
 *
 * try: starts DPDK and ends it: "init 0", or "init ERRNO TEXT". Arguments are primary or secondary,
 * name, directory or "-", MB, user id (0: unchanged). */

#endif

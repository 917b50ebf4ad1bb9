/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-ns3/host_tcp.h: hosts that send messages by TCP: sim/host.h without the engine.
 *
 * DESIGN NOTES
 *
 * Each pair of hosts has a connection for each direction that the scenario needs. Messages follow
 * each other on it. A message is delivered when its last byte has arrived in order, and complete
 * when its last byte is acknowledged, as with the engine.
 *
 * Connections are open, have carried 8 bytes, and are idle when the scenario begins. So TCP needs
 * no handshake, and has a sample of the round trip. The engine begins cold.
 */
#ifndef HK_SIM_NS3_HOST_TCP_H
#define HK_SIM_NS3_HOST_TCP_H

#include "sim-ns3/fabric.h"
#include "sim/host.h"

extern const struct fabric_tcp tcp_hosts;

/* Opens the connections, and warms up. @mesh: of all pairs; otherwise from all to host 0, and from
 * host 0 to host 1. */
void tcp_hosts_connect(struct hosts *h, bool mesh);

#endif

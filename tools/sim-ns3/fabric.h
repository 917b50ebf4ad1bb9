/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-ns3/fabric.h: a star of ns-3's nodes, links and queues, as C functions.
 *
 * DESIGN NOTES
 *
 * The scenarios, hosts and reports of tools/sim are C. ns-3 is C++ and has its own event loop. This
 * header is the border: fabric.cc is the only file that includes headers of ns-3.
 *
 *     run.c ... events_ns3.c --- fabric_next() ---> ns-3's events
 *     host.c -- net_ns3.c ------ fabric_send() ---> Ipv4, point-to-point devices, queue discs
 *     host_tcp.c --------------- fabric_write() --> ns-3's TCP
 *
 * ns-3 runs until something happens that the C side must know. Then Simulator::Stop() ends
 * Simulator::Run(), and fabric_next() returns that event. So a run has the same loop, and the same
 * order of calls, as with our own network.
 *
 * Sizes. A link of ns-3 has PPP frames, with 2 bytes of header. Ethernet has 38 bytes beside the
 * payload: header, check sequence, preamble, gap. The devices' InterframeGap is the time of the
 * other 36 bytes, so that each packet occupies a link as long as an Ethernet frame does.
 *
 * There is one network in a process, because ns-3 has one simulator.
 */
#ifndef HK_SIM_NS3_FABRIC_H
#define HK_SIM_NS3_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FABRIC_ETH_HLEN 14 /* bytes of an Ethernet header */
#define FABRIC_IP_HLEN  20 /* bytes of an IPv4 header */

enum fabric_transport { FABRIC_ENGINE, FABRIC_CUBIC, FABRIC_DCTCP };

/* Calls by TCP about connection @c. */
struct fabric_tcp {
	void (*arrived)(uint32_t c, uint32_t bytes); /* more bytes, in order, at the receiver */
	void (*acked)(uint32_t c, uint32_t bytes);   /* more bytes, as the sender knows */
	void (*segment)(uint32_t c, bool again);     /* a segment with payload was sent */
	void (*timeout)(uint32_t c);                 /* a resend timer has fired */
};

struct fabric_config {
	enum fabric_transport transport;
	uint32_t hosts;
	uint32_t ps_per_byte; /* of each link */
	uint64_t link_delay;  /* ps */
	uint32_t buffer;      /* bytes that a port of the network switch queues */
	uint32_t mtu;         /* bytes of an IPv4 packet */
	uint32_t mark;        /* DCTCP: bytes in a queue from which packets are marked */
	uint32_t min_rto_ms;  /* TCP: shortest resend timeout */
	int frame_kind;       /* kind of the event of a frame that arrives at its host */
	int sent_kind;        /* ... of a NIC that has sent a packet */
	/* Bytes entered (or, if negative, left) the port of the network switch to @host. */
	void (*queued)(uint32_t host, int32_t bytes);
	void (*sent)(uint32_t host, uint32_t bytes); /* ... were sent there */
	void (*marked)(uint32_t host);
	/* The port had no space. @frame: as given to fabric_send(); undefined with TCP. */
	void (*dropped)(uint32_t host, uint32_t frame);
	const struct fabric_tcp *tcp; /* NULL with FABRIC_ENGINE */
};

struct fabric_event {
	int kind;
	uint32_t a, b; /* frame_kind: frame, host. sent_kind: host */
};

void fabric_open(const struct fabric_config *c);
void fabric_close(void);

/* Time since fabric_open(), ps. */
uint64_t fabric_now(void);

/* An event of kind @kind at time @at. */
void fabric_timer(uint64_t at, int kind, uint32_t a, uint32_t b);

/* Runs ns-3 until the next event, and returns true. False: none is left before @until, which is the
 * time now. */
bool fabric_next(uint64_t until, struct fabric_event *ev);

/* Sends a frame of @bytes, Ethernet header included, which the number @frame names. */
void fabric_send(uint32_t from, uint32_t to, uint32_t frame, uint32_t bytes);

/* Opens a TCP connection for data from @from to @to, and returns its number. Connections are
 * numbered from 0. */
uint32_t fabric_connect(uint32_t from, uint32_t to);

/* Writes at most @bytes to connection @c, and returns how many its buffer had space for. */
uint32_t fabric_write(uint32_t c, uint32_t bytes);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/ports.h: the ports of one worker, as a user lists them.
 *
 * A list names ports with a `+` between them (hk_port_list_split()). A `?` at the end of a port
 * makes it optional: the worker goes without it if it does not open. Either all are sets of
 * point-to-point wires, which worker/wires.h opens peer by peer, or none is.
 *
 * Errors: 0, or a negative errno with a sentence, which names the parameter of the list.
 *
 * Threads: one.
 */
#ifndef HK_WORKER_PORTS_H
#define HK_WORKER_PORTS_H

#include "hikyaku/worker.h"
#include "port/port.h"

#pragma GCC visibility push(default)

struct hk_ports {
	const char *parameter; /* by which the user names them */
	char spec[HK_PATHS_MAX][HK_PORT_SPEC_MAX];
	bool optional[HK_PATHS_MAX]; /* the worker may go without it */
	unsigned count;
	bool wire_set; /* they are sets of wires */
};

/* Reads @list, which is the value of @parameter. */
int hk_ports_read(struct hk_ports *p, const char *list, const char *parameter,
		  struct hk_error *err);

/* The protection that the user names in @parameter. NULL, "" or auto: off if nobody but the two
 * ends of a wire can send to any of the ports, else auth. -EINVAL: there is no such protection. */
int hk_ports_protection(const struct hk_ports *p, const char *name, const char *parameter,
			uint8_t *protection, struct hk_error *err);

/* Writes the ports in the form of the parameter. */
void hk_ports_text(const struct hk_ports *p, char *text, size_t len);

/* Starts DPDK as the ports need it, with what else is in @eal. */
int hk_ports_start_dpdk(const struct hk_ports *p, struct hk_eal_config *eal, struct hk_error *err);

struct hk_ports_config {
	unsigned buffers; /* to receive into, for each port without @pool */
	struct rte_mempool *pool;
	unsigned processes; /* of this node, this one among them, that open the same list */
	int timeout_ms;     /* for each port */
	uint32_t link_mbps; /* rate of each port; 0: as the port says */
	/* gets sentences for a user who wants to know more; NULL: nobody does */
	void (*note)(const char *text);
};

/* Fits @cfg to one more port or set of wires. Frames have one size on all paths, that of the
 * smallest: what is lost on one is sent again by another. @carries: bytes of its frames.
 * @classes: it gives small frames a priority. */
void hk_ports_fit(struct hk_worker_config *cfg, unsigned carries, bool point_to_point,
		  uint32_t link_mbps, bool classes);

/* Opens the ports into @port, [HK_PATHS_MAX], and fits @worker to them. For sets of wires it only
 * checks them, and @port keeps its NULLs. An optional port that does not open leaves the list. The
 * processes of a node that open the same port share it: *@shared says that there are some. After an
 * error the caller closes what is in @port. */
int hk_ports_open(struct hk_ports *p, const struct hk_ports_config *cfg,
		  struct hk_worker_config *worker, struct hk_port **port, bool *shared,
		  struct hk_error *err);

/* Gives the ports to the worker. *@taken: how many it has accepted; others are the caller's. */
int hk_ports_add(const struct hk_ports *p, struct hk_worker *worker, struct hk_port *const *port,
		 unsigned *taken, struct hk_error *err);

#pragma GCC visibility pop

#endif

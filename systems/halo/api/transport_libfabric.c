/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/transport_libfabric.c: writes with remote completion data through libfabric (fi_rma(3)):
 * true RDMA where the network has it.
 *
 * DESIGN NOTES
 *
 * Each process has one endpoint. The NIC of the neighbour writes to memory that this rank has
 * registered for it. There is one buffer for odd exchanges and one for even ones, as in the notify
 * targets of transport_worker.c, whose proof holds here too. The completion carries 32 bits of
 * data: the number of the neighbour here (16 bits) and of the exchange (the lower 16).
 *
 * An exchange ends when its write has ended, so one send buffer is enough. Nothing here waits,
 * except a close, for a limited time. If the provider cannot take a write yet, a later poll sends
 * it.
 */
#include "halo/api/internal.h"

#include <errno.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS         65536 /* neighbours of this process: 16 bits of the data */
#define MPI_ROUNDS    64    /* polls of libfabric for one of MPI */
#define GIVE_UP_AFTER 2.0   /* seconds to wait for writes in flight when an exchange is freed */

struct sending {
	struct fi_context2 context; /* first member; used by the provider during the write */
	bool in_flight;
};

struct state {
	unsigned slot;
	fi_addr_t peer;
	uint64_t remote_base, remote_key;
	uint32_t remote_slot;
	char *memory;           /* two receive buffers, then the send buffer */
	size_t in_len, out_len; /* bytes of a receive and of a send buffer, at least 1 */
	struct fid_mr *mr;
	struct sending send;
	uint32_t taken;   /* number of the last exchange whose data was copied out */
	bool complete[2]; /* the receive buffer holds the data of its next exchange */
	bool unsent;      /* the write of this exchange waits for the provider */
};

/* The address to which the other end writes. */
struct target {
	uint64_t base, key;
	uint32_t slot, zero;
};

static struct {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct state *slot[SLOTS];
	uint64_t next_key;
	int failed; /* fi_errno of a transfer that failed; 0: none */
	bool open, tried;
	char why[128];
	unsigned polls;
} net;

/* Protects net, which the exchanges of all threads use. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *open_endpoint(void)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA, .size = 4096};

	if (!hints)
		return "fi_allocinfo";
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY;
	hints->domain_attr->cq_data_size = 4;
	int rc = fi_getinfo(FI_VERSION(1, 14), NULL, NULL, 0, hints, &net.info);

	fi_freeinfo(hints);
	if (rc)
		return "no provider offers writes with remote completion data";
	if (fi_fabric(net.info->fabric_attr, &net.fabric, NULL) ||
	    fi_domain(net.fabric, net.info, &net.domain, NULL) ||
	    fi_av_open(net.domain, &av, &net.av, NULL) ||
	    fi_cq_open(net.domain, &cq, &net.cq, NULL) ||
	    fi_endpoint(net.domain, net.info, &net.ep, NULL) ||
	    fi_ep_bind(net.ep, &net.av->fid, 0) ||
	    fi_ep_bind(net.ep, &net.cq->fid, FI_TRANSMIT | FI_RECV) || fi_enable(net.ep))
		return "the provider's endpoint cannot be opened";
	return NULL;
}

static bool offer_locked(struct hk_halo_neighbour *nb, char *address)
{
	size_t len = HK_HALO_ADDRESS;

	if (!net.tried) {
		const char *no = open_endpoint();

		net.tried = true;
		net.open = !no;
		snprintf(net.why, sizeof(net.why), "libfabric: %s",
			 no ? no : net.info->fabric_attr->prov_name);
	}
	if (net.failed) {
		snprintf(nb->why, sizeof(nb->why), "libfabric: an earlier transfer failed: %s",
			 fi_strerror(net.failed));
		return false;
	}
	if (!net.open || nb->flat || fi_getname(&net.ep->fid, address, &len)) {
		snprintf(nb->why, sizeof(nb->why), "%s",
			 !net.open  ? net.why
			 : nb->flat ? "only MPI knows the layout of a type"
				    : "libfabric: its address is too long");
		return false;
	}
	return true;
}

static bool offer(struct hk_halo *h, struct hk_halo_neighbour *nb, char *address)
{
	(void)h;
	pthread_mutex_lock(&lock);
	bool ok = offer_locked(nb, address);

	pthread_mutex_unlock(&lock);
	return ok;
}

static void close_locked(struct hk_halo *h, struct hk_halo_neighbour *nb);

static unsigned free_slot(void)
{
	unsigned k = 0;

	while (k < SLOTS && net.slot[k])
		k++;
	return k;
}

static int open_locked(struct hk_halo *h, struct hk_halo_neighbour *nb, const char *theirs,
		       char *mine)
{
	struct state *s = calloc(1, sizeof(*s));
	struct target t = {0};

	if (!s)
		return -ENOMEM;
	nb->state = s;
	s->slot = free_slot();
	s->in_len = nb->in.bytes + (nb->in.bytes == 0);
	s->out_len = nb->out.bytes + (nb->out.bytes == 0);
	if (s->out_len > net.info->ep_attr->max_msg_size) {
		snprintf(nb->why, sizeof(nb->why), "libfabric: its longest write is %zu bytes",
			 net.info->ep_attr->max_msg_size);
		close_locked(h, nb);
		return -EMSGSIZE;
	}
	s->memory = calloc(1, 2 * s->in_len + s->out_len);
	if (s->slot == SLOTS || !s->memory ||
	    fi_mr_reg(net.domain, s->memory, 2 * s->in_len + s->out_len, FI_REMOTE_WRITE | FI_WRITE,
		      0, net.next_key++, 0, &s->mr, NULL) ||
	    fi_av_insert(net.av, theirs, 1, &s->peer, 0, NULL) != 1) {
		snprintf(nb->why, sizeof(nb->why),
			 "libfabric: out of memory, or the address belongs to another network");
		close_locked(h, nb);
		return -ENOSPC;
	}
	net.slot[s->slot] = s;
	t.base = net.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)s->memory : 0;
	t.key = fi_mr_key(s->mr);
	t.slot = s->slot;
	memcpy(mine, &t, sizeof(t));
	return 0;
}

static int open_transport(struct hk_halo *h, struct hk_halo_neighbour *nb, const char *theirs,
			  char *mine)
{
	pthread_mutex_lock(&lock);
	int rc = open_locked(h, nb, theirs, mine);

	pthread_mutex_unlock(&lock);
	return rc;
}

static int connect_transport(struct hk_halo *h, struct hk_halo_neighbour *nb, const char *theirs)
{
	struct state *s = nb->state;
	struct target t;

	(void)h;
	memcpy(&t, theirs, sizeof(t));
	s->remote_base = t.base;
	s->remote_key = t.key;
	s->remote_slot = t.slot;
	snprintf(nb->why, sizeof(nb->why), "libfabric's provider %s",
		 net.info->fabric_attr->prov_name);
	return 0;
}

/* A neighbour's write has arrived. Data that does not name an exchange to come is ignored. */
static void arrived(uint64_t data)
{
	struct state *s = net.slot[data >> 16 & 0xffff];

	if (!s)
		return;
	for (uint32_t ahead = 1; ahead <= 2; ahead++)
		if (((s->taken + ahead) & 0xffff) == (data & 0xffff))
			s->complete[(s->taken + ahead) & 1] = true;
}

static void read_completions(void)
{
	struct fi_cq_data_entry e[16];
	struct fi_cq_err_entry bad = {0};
	ssize_t n = fi_cq_read(net.cq, e, HK_ARRAY_LEN(e));

	if (n == -FI_EAVAIL)
		net.failed = fi_cq_readerr(net.cq, &bad, 0) > 0 && bad.err ? bad.err : FI_EOTHER;
	else if (n < 0 && n != -FI_EAGAIN)
		net.failed = (int)-n;
	for (ssize_t k = 0; k < n; k++) {
		if (e[k].flags & FI_REMOTE_CQ_DATA)
			arrived(e[k].data);
		else if (e[k].op_context)
			((struct sending *)e[k].op_context)->in_flight = false;
	}
}

static int lost(const struct hk_halo_neighbour *nb)
{
	return hk_halo_fail(-ENOTCONN,
			    "a write to or from rank %d or another neighbour failed: %s; fix: read "
			    "their output",
			    nb->rank, fi_strerror(net.failed));
}

/* Writes the data of this exchange if the provider takes it. */
static void write_out(const struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	struct state *s = nb->state;
	struct hk_layout from = hk_halo_blocks_layout(&nb->out.blocks);
	unsigned k = h->number & 1;
	char *source = s->memory + 2 * s->in_len;

	if (net.failed)
		return;
	hk_layout_gather(&from, 0, from.len, source);
	ssize_t rc = fi_writedata(net.ep, source, s->out_len, fi_mr_desc(s->mr),
				  (uint64_t)s->remote_slot << 16 | (h->number & 0xffff), s->peer,
				  s->remote_base + k * s->out_len, s->remote_key, &s->send);

	if (rc == -FI_EAGAIN)
		return;
	s->unsent = false;
	s->send.in_flight = rc == 0;
	if (rc)
		net.failed = (int)-rc;
}

static int put(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	struct state *s = nb->state;

	pthread_mutex_lock(&lock);
	s->unsent = true;
	write_out(h, nb);
	int rc = net.failed ? lost(nb) : 0;

	pthread_mutex_unlock(&lock);
	return rc;
}

static int poll_locked(struct hk_halo *h, struct hk_halo_neighbour *nb, bool *poll_mpi)
{
	struct state *s = nb->state;
	unsigned k = (s->taken + 1) & 1;

	read_completions();
	*poll_mpi = ++net.polls % MPI_ROUNDS == 0;
	if (s->unsent)
		write_out(h, nb);
	if (!nb->arrived && s->complete[k]) {
		struct hk_layout to = hk_halo_blocks_layout(&nb->in.blocks);

		hk_layout_scatter(&to, 0, to.len, s->memory + k * s->in_len);
		s->complete[k] = false;
		s->taken++;
		nb->arrived = true;
	}
	/* A provider may need our calls until the write has ended (FI_PROGRESS_MANUAL). */
	nb->sent = !s->unsent && !s->send.in_flight;
	return net.failed ? lost(nb) : 0;
}

static int poll_transport(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	bool poll_mpi;
	int flag;

	pthread_mutex_lock(&lock);
	int rc = poll_locked(h, nb, &poll_mpi);

	pthread_mutex_unlock(&lock);
	if (poll_mpi) /* a neighbour may wait for an MPI message of this rank */
		MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, h->comm, &flag, MPI_STATUS_IGNORE);
	return rc;
}

/* Has the last write finished, so that neither the provider nor a neighbour uses the memory of @s?
 */
static bool drained(const struct hk_halo *h, const struct state *s)
{
	double end = hk_clock_s() + GIVE_UP_AFTER;

	while (s->send.in_flight && !net.failed && hk_clock_s() < end)
		read_completions();
	return !h->under_way && !s->send.in_flight;
}

static void close_locked(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	struct state *s = nb->state;

	/* After a failure the memory and its number stay in use, so that a late write reaches no
	 * other exchange. */
	if (!s || !drained(h, s) || (s->mr && fi_close(&s->mr->fid)))
		return;
	if (s->slot < SLOTS && net.slot[s->slot] == s)
		net.slot[s->slot] = NULL;
	free(s->memory);
	free(s);
	nb->state = NULL;
}

static void close_transport(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	pthread_mutex_lock(&lock);
	close_locked(h, nb);
	pthread_mutex_unlock(&lock);
}

const struct hk_transport hk_transport_libfabric = {
	.name = "libfabric",
	.offer = offer,
	.open = open_transport,
	.connect = connect_transport,
	.put = put,
	.poll = poll_transport,
	.close = close_transport,
};

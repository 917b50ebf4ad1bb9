/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/params.c: MCA parameters (`ompi_info --param btl hikyaku --level 9`) and MPI_T performance
 * variables. docs/man/btl_hikyaku.7.md describes both; keep it in step.
 */
#include "mpi/btl_hikyaku.h"

#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/util/output.h"

#include <mpi.h>

#define PARAMS (&mca_btl_hikyaku_component.param)

static void reg_uint(const char *name, const char *help, mca_base_var_info_lvl_t level,
		     unsigned value, unsigned *var)
{
	*var = value;
	(void)mca_base_component_var_register(&mca_btl_hikyaku_component.super.btl_version, name,
					      help, MCA_BASE_VAR_TYPE_UNSIGNED_INT, NULL, 0, 0,
					      level, MCA_BASE_VAR_SCOPE_READONLY, var);
}

static void reg_bool(const char *name, const char *help, mca_base_var_info_lvl_t level, bool value,
		     bool *var)
{
	*var = value;
	(void)mca_base_component_var_register(&mca_btl_hikyaku_component.super.btl_version, name,
					      help, MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, level,
					      MCA_BASE_VAR_SCOPE_READONLY, var);
}

static void reg_string(const char *name, const char *help, mca_base_var_info_lvl_t level,
		       char **var)
{
	*var = NULL;
	(void)mca_base_component_var_register(&mca_btl_hikyaku_component.super.btl_version, name,
					      help, MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, level,
					      MCA_BASE_VAR_SCOPE_READONLY, var);
}

/* ---- performance variables ----------------------------------------------------------------- */

struct pvar {
	const char *name, *help;
	size_t engine_off, fabric_off; /* one of them, plus one: 0 means the other */
};

#define ENGINE(field) offsetof(struct hk_engine_counters, field) + 1, 0
#define FABRIC(field) 0, offsetof(struct hk_fabric_counters, field) + 1

/* Of peers that are reached by several ports. */
#define RAIL(i)                                                                                    \
	{"rail" #i "_frames", "Packets sent by port " #i, FABRIC(rail[i].frames)},                 \
		{"rail" #i "_bytes", "Bytes of payload sent by it", FABRIC(rail[i].bytes)},        \
		{"rail" #i "_lost", "… that were sent again by another", FABRIC(rail[i].lost)},    \
	{                                                                                          \
		"rail" #i "_rests", "Times it was given up for a while", FABRIC(rail[i].rests)     \
	}

static const struct pvar pvars[] = {
	{"tx_packets", "Packets sent for the first time", ENGINE(tx_packets)},
	{"tx_bytes", "Bytes of payload sent for the first time", ENGINE(tx_bytes)},
	{"tx_resends", "Packets sent again", ENGINE(tx_resends)},
	{"tx_acks", "Frames sent that only acknowledge", ENGINE(tx_acks)},
	{"tx_probes", "Questions sent to silent peers", ENGINE(tx_probes)},
	{"rx_packets", "Packets received for the first time", ENGINE(rx_packets)},
	{"rx_bytes", "Bytes of payload received for the first time", ENGINE(rx_bytes)},
	{"rx_duplicates", "Packets received again", ENGINE(rx_duplicates)},
	{"loss_time", "Packets called lost because later ones arrived", ENGINE(loss_time)},
	{"loss_rto", "Packets called lost because nothing came back", ENGINE(loss_rto)},
	{"no_credit", "Sends that waited for the receiver's credit", ENGINE(no_credit)},
	{"no_cwnd", "Sends that waited for the congestion window", ENGINE(no_cwnd)},
	{"drop_crc", "Frames dropped for a wrong checksum", ENGINE(drop_wire[HK_WIRE_E_CRC])},
	{"drop_key", "Frames of other jobs dropped", ENGINE(drop_key)},
	{"drop_epoch", "Frames of other incarnations dropped", ENGINE(drop_epoch)},
	{"queued", "Frames that waited for room in a window", FABRIC(queued)},
	{"tx_dropped", "Frames the port did not take", FABRIC(tx_dropped)},
	{"tx_bulk", "Packets sent by a queue that is for bulk alone", FABRIC(tx_bulk)},
	{"early", "Messages that overtook others, and waited for them", FABRIC(early)},
	{"no_buffer", "Times all transmit buffers were in use", FABRIC(no_buffer)},
	{"gets", "Long messages that were got from the sender's memory", FABRIC(gets)},
	{"gets_served", "Long messages that the receiver got from here", FABRIC(gets_served)},
	{"put_bytes", "Bytes sent for them", FABRIC(put_bytes)},
	{"atomics", "Atomic operations, fences and short puts on other ranks", FABRIC(atomics)},
	{"atomics_served", "… of other ranks, done here", FABRIC(atomics_served)},
	{"atomics_parked", "… that missed so often that they wait until they hit",
	 FABRIC(atomics_parked)},
	{"atomic_refused", "… refused: of memory not open to them", FABRIC(atomic_refused)},
	{"atomic_excess", "… dropped: beyond what a peer may ask", FABRIC(atomic_excess)},
	{"put_refused", "Frames of writes to memory not open to them", FABRIC(put_refused)},
	{"get_refused", "Requests to read memory not open to them", FABRIC(get_refused)},
	{"get_excess", "Requests to read beyond what a peer may ask", FABRIC(get_excess)},
	{"async_kept", "Messages the helper thread took in", FABRIC(async_kept)},
	{"async_polls", "Rounds of the helper thread", FABRIC(async_polls)},
	RAIL(0),
	RAIL(1),
	RAIL(2),
	RAIL(3),
	RAIL(4),
	RAIL(5),
	RAIL(6),
	RAIL(7),
	{"mcasts", "Multicast frames sent", FABRIC(mcasts)},
	{"mcasts_in", "Multicast frames that came for who listened", FABRIC(mcasts_in)},
	{"mcast_strays", "… that nobody listened for", FABRIC(mcast_strays)},
	{"rings", "Times that a silent peer's polling process was woken", FABRIC(rings)},
};

_Static_assert(HK_RAILS_MAX == 8, "each has its variables");

static int read_pvar(const struct mca_base_pvar_t *pvar, void *value, void *object)
{
	const struct pvar *v = pvar->ctx;
	unsigned long long n = 0;

	(void)object;
	if (hk_btl.fabric) {
		const void *base = v->engine_off ? (const void *)hk_engine_counters(
							   hk_fabric_engine(hk_btl.fabric))
						 : (const void *)hk_fabric_counters(hk_btl.fabric);
		uint64_t c;

		memcpy(&c, (const char *)base + v->engine_off + v->fabric_off - 1, sizeof(c));
		n = c;
	}
	memcpy(value, &n, sizeof(n));
	return OPAL_SUCCESS;
}

void hk_btl_print_counters(void)
{
	for (size_t i = 0; i < HK_ARRAY_LEN(pvars); i++) {
		unsigned long long n;
		struct mca_base_pvar_t pvar = {.ctx = (void *)(uintptr_t)&pvars[i]};

		read_pvar(&pvar, &n, NULL);
		if (n)
			opal_output(mca_btl_hikyaku_component.output, "hikyaku: %s %llu",
				    pvars[i].name, n);
	}
}

static void reg_pvars(void)
{
	for (size_t i = 0; i < HK_ARRAY_LEN(pvars); i++)
		(void)mca_base_component_pvar_register(
			&mca_btl_hikyaku_component.super.btl_version, pvars[i].name, pvars[i].help,
			OPAL_INFO_LVL_5, MPI_T_PVAR_CLASS_COUNTER,
			MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MPI_T_BIND_NO_OBJECT,
			MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read_pvar,
			NULL, NULL, (void *)(uintptr_t)&pvars[i]);
}

/* ---- parameters ---------------------------------------------------------------------------- */

static void reg_port(void)
{
	struct hk_btl_params *p = PARAMS;

	reg_string(
		"port",
		"Where frames come and go: af_xdp:iface=NAME, af_packet:iface=NAME, pci:ADDRESS, "
		"memif:dir=DIR; {local_rank} and {rank} are replaced. Several, with + between, "
		"share "
		"what is long. See docs/ports.md",
		OPAL_INFO_LVL_1, &p->port);
	reg_string(
		"host",
		"Who polls. inline: the rank a port of its own, with its helper thread (the "
		"default). "
		"hybrid: the rank queues of a port that all ranks of the node share, and in its "
		"absence the node's polling process (hikyakud). daemon: hikyakud alone, for every "
		"kind of port. split: hikyakud for messages, the rank queues of its own for bulk. "
		"auto: "
		"the best of these that works, and says which",
		OPAL_INFO_LVL_2, &p->host);
	reg_string("daemon",
		   "Name of the administrator's polling process to use; unset: the default "
		   "one if it runs, else one of the job's own is started",
		   OPAL_INFO_LVL_5, &p->daemon);
	reg_string("daemon_program", "Path of hikyakud; unset: $HIKYAKU_DAEMON, or in PATH",
		   OPAL_INFO_LVL_6, &p->daemon_program);
	reg_string("huge_dir", "Where hugetlbfs is mounted for it; unset: found", OPAL_INFO_LVL_6,
		   &p->huge_dir);
	reg_string(
		"pool",
		"Memory for receive buffers, as pop:huge:size=64M or pop:bar:ADDRESS,bar=N; unset: "
		"DPDK's own. See docs/p2p.md",
		OPAL_INFO_LVL_5, &p->pool);
	reg_string("eal_args", "More arguments for DPDK's start-up", OPAL_INFO_LVL_6, &p->eal_args);
	reg_uint("memory", "MiB of memory for packet buffers", OPAL_INFO_LVL_5, 256, &p->memory_mb);
	reg_bool("hugepages", "Take that memory from huge pages (set up by an administrator)",
		 OPAL_INFO_LVL_4, false, &p->hugepages);
	reg_uint("frame_max",
		 "Bytes of the largest frame to use, Ethernet header included; 0: what the port "
		 "carries",
		 OPAL_INFO_LVL_5, 0, &p->frame_max);
	reg_uint("tx_buffers", "Frames that may wait to be sent or acknowledged", OPAL_INFO_LVL_5,
		 2048, &p->tx_buffers);
	reg_uint("rx_buffers", "Receive buffers of each port", OPAL_INFO_LVL_5, 4096,
		 &p->rx_buffers);
	reg_uint("eager_queues",
		 "Queue pairs of each memif wire that hikyakud polls, over which ranks are spread, "
		 "in host modes daemon and split; 0: as hikyakud is set",
		 OPAL_INFO_LVL_6, 0, &p->eager_queues);
	reg_uint("rx_keep", "Frames the helper thread keeps for a rank that computes",
		 OPAL_INFO_LVL_5, 2048, &p->rx_keep);
	reg_uint("keep_kb",
		 "KiB for small messages that are kept, for which no frames are: a sender of these "
		 "is "
		 "not stopped before they are full",
		 OPAL_INFO_LVL_5, 8192, &p->keep_kb);
	reg_uint("connect_timeout_ms",
		 "How long to wait for a port, or for the other end of a wire, to come up",
		 OPAL_INFO_LVL_4, 10000, &p->connect_timeout_ms);
	reg_bool("same_node", "Also carry traffic between ranks of the same node", OPAL_INFO_LVL_5,
		 false, &p->same_node);
}

static void reg_protocol(void)
{
	struct hk_btl_params *p = PARAMS;

	reg_bool("crc", "Protect every frame by a CRC32C of its own, and refuse frames without",
		 OPAL_INFO_LVL_3, false, &p->crc);
	reg_uint("eager_frames",
		 "Frames of the longest message that is sent without asking (1-16); 0: as many as "
		 "carry 16 KiB",
		 OPAL_INFO_LVL_5, 0, &p->eager_frames);
	reg_uint("window", "Packets in flight to a peer at the most (power of two, 8-256)",
		 OPAL_INFO_LVL_5, HK_WIRE_WINDOW, &p->window);
	reg_uint("window_bytes", "… and bytes: what waits for acks should stay in a core's cache",
		 OPAL_INFO_LVL_5, 1 << 20, &p->window_bytes);
	reg_uint("stripe_min",
		 "Bytes of the shortest put or get that is spread over several ports; shorter ones "
		 "go by the first",
		 OPAL_INFO_LVL_5, 16 << 10, &p->stripe_min);
	reg_uint("max_peers", "Peers a rank can talk to", OPAL_INFO_LVL_5, 4096, &p->max_peers);
	reg_uint("key", "Job key carried by every frame; 0: made from the job's id",
		 OPAL_INFO_LVL_6, 0, &p->key);
	reg_uint("tag",
		 "The job's number (1-63) in tags: the destination address of each frame tells "
		 "job, MPI "
		 "function and ranks, for networks that route by it (docs/tag.md); 0: real "
		 "addresses",
		 OPAL_INFO_LVL_4, 0, &p->tag);
	reg_string("registrar",
		   "With tags: who tells the network's controller where this rank is, as "
		   "SECRET@HOST:PORT; set by `hikyaku tag run --native` (docs/bcast.md)",
		   OPAL_INFO_LVL_6, &p->registrar);
	reg_uint("peer_timeout_ms",
		 "A peer that is silent this long while we wait for it ends the job",
		 OPAL_INFO_LVL_3, 30000, &p->peer_timeout_ms);
	reg_uint("keepalive_ms", "Ask a peer that is silent this long whether it lives; 0: never",
		 OPAL_INFO_LVL_5, 5000, &p->keepalive_ms);
	reg_uint("min_rto_us", "Shortest resend timer", OPAL_INFO_LVL_6, 2000, &p->min_rto_us);
	reg_uint("max_rto_us", "Longest resend timer", OPAL_INFO_LVL_6, 200000, &p->max_rto_us);
	reg_uint("ack_delay_us", "How long an ack may wait for a frame to ride on", OPAL_INFO_LVL_6,
		 30, &p->ack_delay_us);
	reg_uint("ring_after_us",
		 "A silent peer that owes an acknowledgement for so long has its polling process "
		 "woken; 0: never (hikyakud)",
		 OPAL_INFO_LVL_6, 50, &p->ring_after_us);
	reg_uint("ack_every", "An ack at the latest after this many packets", OPAL_INFO_LVL_6, 32,
		 &p->ack_every);
	reg_uint("target_delay_us", "Queueing delay the congestion window aims at", OPAL_INFO_LVL_6,
		 200, &p->target_delay_us);
	reg_uint("linger_ms", "How long MPI_Finalize may wait for last acknowledgements",
		 OPAL_INFO_LVL_6, 1000, &p->linger_ms);
	reg_bool("async", "A helper thread keeps acks and timers alive while the rank computes",
		 OPAL_INFO_LVL_3, true, &p->async);
	reg_uint("async_idle_us", "The helper thread looks this often whether the rank still polls",
		 OPAL_INFO_LVL_6, 2000, &p->async_idle_us);
	reg_uint("async_period_us", "… and polls this often while it does not", OPAL_INFO_LVL_6,
		 500, &p->async_period_us);
	reg_bool("capture", "Let this user and root capture the rank's frames (hikyaku capture)",
		 OPAL_INFO_LVL_5, true, &p->capture);
}

int hk_btl_register(void)
{
	mca_btl_base_module_t *m = &hk_btl.super;

	reg_port();
	reg_protocol();
	PARAMS->verbose = 0;
	(void)mca_base_component_var_register(
		&mca_btl_hikyaku_component.super.btl_version, "verbose",
		"Verbosity of this component: 1 says which port, 5 prints "
		"counters at the end, 20 lets DPDK speak",
		MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_5, MCA_BASE_VAR_SCOPE_LOCAL,
		&PARAMS->verbose);
	reg_pvars();

	/* above tcp, so that it is preferred where both reach a peer */
	m->btl_exclusivity = MCA_BTL_EXCLUSIVITY_DEFAULT;
	m->btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_RDMA | MCA_BTL_FLAGS_ATOMIC_OPS |
		       MCA_BTL_FLAGS_ATOMIC_FOPS;
	m->btl_atomic_flags = MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND |
			      MCA_BTL_ATOMIC_SUPPORTS_OR | MCA_BTL_ATOMIC_SUPPORTS_XOR |
			      MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_CSWAP |
			      MCA_BTL_ATOMIC_SUPPORTS_32BIT;
	/* Memory on this side needs no registration. */
	m->btl_put_local_registration_threshold = SIZE_MAX;
	m->btl_get_local_registration_threshold = SIZE_MAX;
	/* ob1 shall go on getting long messages, though it could put them. */
	m->btl_min_rdma_pipeline_size = SIZE_MAX;
	m->btl_bandwidth = 10000;
	m->btl_latency = 2; /* of windows within one node vader is the better carrier */
	/* 0: made from the frame size when the port is known (module.c) */
	m->btl_eager_limit = 0;
	m->btl_rndv_eager_limit = 0;
	m->btl_max_send_size = 0;
	return mca_btl_base_param_register(&mca_btl_hikyaku_component.super.btl_version, m);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/params.c: MCA parameters (`ompi_info --level 9 --param btl hikyaku`). counters.c has
 * the MPI_T variables. docs/man/btl_hikyaku.7.md describes the parameters; update it with them.
 */
#include "openmpi/btl/btl_hikyaku.h"
#include "openmpi/version.h"

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

/* ---- parameters ---------------------------------------------------------------------------- */

static void reg_port(void)
{
	struct hk_btl_params *p = PARAMS;

	reg_string(
		"port",
		"The port: af_xdp:iface=NAME, af_packet:iface=NAME, udp:addr=NAME, pci:ADDRESS or "
		"memif:dir=DIR; {local_rank} and {rank} are replaced. Several ports, with + "
		"between them, share long messages. auto (the default): a UDP socket, and on a NIC "
		"AF_XDP if hikyaku-helper runs. See docs/ports.md",
		OPAL_INFO_LVL_1, &p->port);
	reg_string("if_include",
		   "With port auto: choose among these interfaces, by names and networks, such as "
		   "eth0,10.1.0.0/16",
		   OPAL_INFO_LVL_1, &p->if_include);
	reg_string("if_exclude", "With port auto: choose none of these interfaces", OPAL_INFO_LVL_1,
		   &p->if_exclude);
	reg_string("mode",
		   "The polling mode. inline (the default): the rank polls a port of its own, or "
		   "its progress thread does. hybrid: the rank polls queues of a port that all "
		   "ranks of the node share; while it computes, hikyakud's poller does. daemon: "
		   "only hikyakud polls, for every kind of port. split: hikyakud polls for "
		   "messages, the rank polls queues of its own for bulk. auto: the best of these "
		   "that works; it prints which. See docs/modes.md",
		   OPAL_INFO_LVL_2, &p->mode);
	reg_string("daemon",
		   "Name of the administrator's hikyakud to use; unset: the default one if it "
		   "runs, else the job starts one",
		   OPAL_INFO_LVL_5, &p->daemon);
	reg_string("daemon_program",
		   "Path of hikyakud; unset: $HIKYAKU_DAEMON, or hikyakud in PATH", OPAL_INFO_LVL_6,
		   &p->daemon_program);
	reg_string("huge_dir",
		   "The hugetlbfs for the hikyakud that is started; unset: a mounted one",
		   OPAL_INFO_LVL_6, &p->huge_dir);
	reg_string("pool",
		   "Memory for receive buffers, such as pop:huge:size=64M or "
		   "pop:bar:ADDRESS,bar=N; unset: DPDK's own. See docs/devmem.md",
		   OPAL_INFO_LVL_5, &p->pool);
	reg_string("eal_args", "More arguments for DPDK's start-up", OPAL_INFO_LVL_6, &p->eal_args);
	reg_uint("memory",
		 "MiB of DPDK's memory; 0: 256, or 64 if packet buffers have memory of their own",
		 OPAL_INFO_LVL_5, 0, &p->memory_mb);
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
		 "in modes daemon and split; 0: the default of hikyakud",
		 OPAL_INFO_LVL_6, 0, &p->eager_queues);
	reg_uint("rx_backlog", "Frames that the progress thread stores for a rank that computes",
		 OPAL_INFO_LVL_5, 2048, &p->rx_backlog);
	reg_uint("backlog_kb",
		 "KiB of small messages in the rx backlog, beside its frames; their sender is not "
		 "stopped before this is full",
		 OPAL_INFO_LVL_5, 8192, &p->backlog_kb);
	reg_uint("connect_timeout_ms",
		 "How long to wait for a port, or for the other end of a wire, to come up",
		 OPAL_INFO_LVL_4, 10000, &p->connect_timeout_ms);
	reg_bool("same_node", "Also carry traffic between ranks of the same node", OPAL_INFO_LVL_5,
		 false, &p->same_node);
}

static void reg_protocol(void)
{
	struct hk_btl_params *p = PARAMS;

	reg_string("protection",
		   "The protection of every frame: off; crc, a checksum; auth, a tag that nobody "
		   "else can make; seal, which encrypts as well; auto (the default): off with "
		   "memif wires, and auth with all other ports. Frames without it are dropped. "
		   "See docs/security.md",
		   OPAL_INFO_LVL_3, &p->protection);
	reg_uint("eager_frames",
		 "Frames of the longest message that is sent eagerly (1-16); 0: as many as carry "
		 "16 KiB, or 64 KiB with UDP sockets",
		 OPAL_INFO_LVL_5, 0, &p->eager_frames);
	reg_uint("window", "Maximum of packets in flight to a peer (power of two, 8-256)",
		 OPAL_INFO_LVL_5, HK_WIRE_WINDOW, &p->window);
	reg_uint("window_bytes",
		 "Maximum of bytes in flight to a peer; unacknowledged data should fit a core's "
		 "cache",
		 OPAL_INFO_LVL_5, 1 << 20, &p->window_bytes);
	reg_uint("stripe_min",
		 "Bytes of the shortest put or get that is striped over several ports; shorter "
		 "ones use the first",
		 OPAL_INFO_LVL_5, 16 << 10, &p->stripe_min);
	reg_uint("max_peers", "Maximum number of peers of a rank; 0: 65536, with hikyakud 4096",
		 OPAL_INFO_LVL_5, 0, &p->max_peers);
	reg_uint("key", "Job key in every frame; 0: made from the job's id", OPAL_INFO_LVL_6, 0,
		 &p->key);
	reg_uint("tag",
		 "The job's number (1-63) in tags: the destination address of each frame names "
		 "job, MPI function and ranks, for networks that route by it (docs/tag.md); 0: "
		 "real addresses",
		 OPAL_INFO_LVL_4, 0, &p->tag);
	reg_string("registrar",
		   "With tags: the address (HOST:PORT) of the program that reports this rank "
		   "to the network's controller; set by `hikyaku tag run --native` (docs/bcast.md)",
		   OPAL_INFO_LVL_6, &p->registrar);
	reg_uint("peer_timeout_ms",
		 "A peer that is silent this long ends the job, if the rank waits for it",
		 OPAL_INFO_LVL_3, 30000, &p->peer_timeout_ms);
	reg_uint("keepalive_ms", "A peer that is silent this long gets a probe; 0: never",
		 OPAL_INFO_LVL_5, 5000, &p->keepalive_ms);
	reg_uint("min_rto_us", "Shortest retransmission timeout", OPAL_INFO_LVL_6, 2000,
		 &p->min_rto_us);
	reg_uint("max_rto_us", "Longest retransmission timeout", OPAL_INFO_LVL_6, 200000,
		 &p->max_rto_us);
	reg_uint("ack_delay_us", "How long an acknowledgement may wait for a frame that carries it",
		 OPAL_INFO_LVL_6, 30, &p->ack_delay_us);
	reg_uint("wakeup_after_us",
		 "With hikyakud: wake the poller of a silent peer that has not acknowledged for "
		 "this time; 0: never",
		 OPAL_INFO_LVL_6, 50, &p->wakeup_after_us);
	reg_uint("ack_every", "Acknowledge at the latest after this many packets", OPAL_INFO_LVL_6,
		 32, &p->ack_every);
	reg_uint("target_delay_us", "Queueing delay that congestion control aims at",
		 OPAL_INFO_LVL_6, 200, &p->target_delay_us);
	reg_uint("link_mbps",
		 "Rate of each port in Mbit/s, by which receivers grant bulk; 0: as the port says",
		 OPAL_INFO_LVL_6, 0, &p->link_mbps);
	reg_uint("linger_ms", "How long MPI_Finalize may wait for the last acknowledgements",
		 OPAL_INFO_LVL_6, 1000, &p->linger_ms);
	reg_bool("progress_thread",
		 "A progress thread receives and acknowledges frames while the rank computes",
		 OPAL_INFO_LVL_3, true, &p->progress_thread);
	reg_uint("progress_thread_idle_us",
		 "How often the progress thread checks whether the rank still polls",
		 OPAL_INFO_LVL_6, 2000, &p->progress_idle_us);
	reg_uint("progress_thread_period_us",
		 "How often the progress thread polls while the rank does not", OPAL_INFO_LVL_6,
		 500, &p->progress_period_us);
	reg_bool("capture", "Let this user and root capture the rank's frames (hikyaku capture)",
		 OPAL_INFO_LVL_5, true, &p->capture);
}

void hk_btl_add_parameters(char *text, size_t size)
{
	static const char *const pairs[][2] = {
		/* the text of libhikyaku, and the parameter with its name or value */
		{"cfg.engine.key", "key"},
		{"cfg.engine.protection", "protection"},
		{"cfg.engine.max_peers", "max_peers"},
		{"cfg.engine.window", "window"},
		{"cfg.frame_max", "frame_max"},
		{"cfg.backlog_bytes", "backlog_kb"},
		{"cfg.regions", "memory"},
		{"the progress thread needs", "progress_thread 0"},
		{"sharing a worker with hikyakud needs", "mode inline"},
	};
	size_t n = strlen(text);
	const char *sep = "; in Open MPI: --mca btl_hikyaku_";

	for (size_t i = 0; i < HK_ARRAY_LEN(pairs); i++)
		if (strstr(text, pairs[i][0]) && n < size) {
			n += (size_t)snprintf(text + n, size - n, "%s%s", sep, pairs[i][1]);
			sep = ", btl_hikyaku_";
		}
}

int hk_btl_register(void)
{
	mca_btl_base_module_t *m = &hk_btl.super;

	reg_port();
	reg_protocol();
	reg_bool("announce",
		 "Say at the job's start by what its ranks talk, and at its end why they did not "
		 "use Hikyaku",
		 OPAL_INFO_LVL_3, true, &PARAMS->announce);
	PARAMS->verbose = 0;
	(void)mca_base_component_var_register(
		&mca_btl_hikyaku_component.super.btl_version, "verbose",
		"Verbosity: 1 prints the port, 5 the counters at the end, 20 enables DPDK's log",
		MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_5, MCA_BASE_VAR_SCOPE_LOCAL,
		&PARAMS->verbose);
	hk_btl_counters_register();

	/* above tcp, so that it is preferred where both reach a peer */
	m->btl_exclusivity = MCA_BTL_EXCLUSIVITY_DEFAULT;
	m->btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_RDMA | MCA_BTL_FLAGS_ATOMIC_OPS |
		       MCA_BTL_FLAGS_ATOMIC_FOPS | HK_REMOTE_COMPLETION;
	m->btl_atomic_flags = MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND |
			      MCA_BTL_ATOMIC_SUPPORTS_OR | MCA_BTL_ATOMIC_SUPPORTS_XOR |
			      MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_CSWAP |
			      MCA_BTL_ATOMIC_SUPPORTS_32BIT;
	/* Memory on this side needs no registration. */
	m->btl_put_local_registration_threshold = SIZE_MAX;
	m->btl_get_local_registration_threshold = SIZE_MAX;
	/* ob1 shall get long messages, although it could put them. */
	m->btl_min_rdma_pipeline_size = SIZE_MAX;
	m->btl_bandwidth = 10000;
	m->btl_latency = 2; /* for MPI windows within one node vader is faster */
	/* 0: made from the frame size when the port is known (module.c) */
	m->btl_eager_limit = 0;
	m->btl_rndv_eager_limit = 0;
	m->btl_max_send_size = 0;
	return mca_btl_base_param_register(&mca_btl_hikyaku_component.super.btl_version, m);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/osc/target.h: a window as its owner, and the ranks of the owner's node, see it. It
 * carries out the calls of protocol.h.
 *
 * Threads: calls arrive on any thread, in MPI's progress, in the BTL's progress thread or RMA
 * proxy, and in the server of this node. So they call nothing of MPI but the functions of
 * predefined operations. The state's mutex guards memory and state, also between processes.
 */
#ifndef HK_OSC_TARGET_H
#define HK_OSC_TARGET_H

#include "openmpi/btl/rpc.h"
#include "openmpi/osc/protocol.h"
#include "openmpi/osc/state.h"

struct hk_osc_kept;

/* Memory that a dynamic window has. */
struct hk_osc_attached {
	struct hk_osc_attached *next;
	char *base;
	size_t len;
};

struct hk_osc_target {
	struct hk_osc_segment segment;
	const struct hk_btl_rpc *rpc;
	bool is_owner;
	char *base; /* NULL: another rank's memory, which is not mapped here */
	size_t size;
	bool dynamic;
	char *operands; /* aligned copy of a call's elements */
	uint32_t ranks; /* of the window's group */
	/* of the owner */
	bool has_procedure;
	struct hk_btl_procedure procedure;
	struct hk_osc_kept **kept; /* by rank: its call that waits for the lock, or NULL */
	/* By rank: its endpoint, so that no other process calls in its name. NULL: nobody may call
	 * yet. */
	struct mca_btl_base_endpoint_t **_Atomic callers;
	struct hk_osc_attached *attached;
};

/* Makes the owner's side known to others. @base: the memory, or NULL: it is allocated. @shared:
 * with ranks of this node. Returns OMPI_SUCCESS, or an error of Open MPI. */
int hk_osc_target_open(struct hk_osc_target *t, const struct hk_btl_rpc *rpc, void *base,
		       size_t size, bool dynamic, unsigned ranks, bool shared);

/* Maps the window of another rank of this node from the segment @name, whose state has @cookie.
 * @memory: with its memory.
 * False: it is not to be had. */
bool hk_osc_target_map(struct hk_osc_target *t, const struct hk_btl_rpc *rpc, const char *name,
		       uint64_t cookie, bool memory, size_t size, unsigned ranks);

/* Ends either. */
void hk_osc_target_close(struct hk_osc_target *t);

/* Carries out caller->call; see hk_procedure_fn. @called: the call came from another process, and
 * HK_RPC_LATER will be followed by a reply. Otherwise `granted` of its rank will be set. *@tell:
 * the owner must be told by HK_OSC_GRANT. */
enum hk_rpc_end hk_osc_serve(struct hk_osc_target *t, struct hk_btl_caller *caller, bool called,
			     const void *args, void *result, bool *tell);

int hk_osc_attach(struct hk_osc_target *t, void *base, size_t len);
int hk_osc_detach(struct hk_osc_target *t, const void *base);

#endif

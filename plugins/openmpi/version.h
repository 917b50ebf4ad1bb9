/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/version.h: what differs between Open MPI 4.1 and 5.0.
 *
 * The other files are written for 5.0's names, or for functions of this one.
 */
#ifndef HK_MPI_VERSION_H
#define HK_MPI_VERSION_H

#include "opal_config.h"

#include "base/common.h"

#define HK_OMPI5 (OPAL_MAJOR_VERSION >= 5)

#if HK_OMPI5

#include "opal/mca/pmix/pmix-internal.h"

#define HK_JOB_SIZE  PMIX_JOB_SIZE
#define HK_NUM_NODES PMIX_NUM_NODES
#define HK_UINT32    PMIX_UINT32
#define HK_GLOBAL    PMIX_GLOBAL

/* A put that has ended has reached the peer's memory. Without this flag osc/rdma would replace puts
 * by messages. */
#define HK_REMOTE_COMPLETION MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION

/* Make all endpoints at start. osc/rdma replies to the endpoint of a message. It is not there yet
 * if this rank has never sent to that one. */
#define HK_ALL_ENDPOINTS true

/* The BTL of ranks of one node. */
#define HK_NODE_BTL "sm"

/* Whether this process can publish; ompi_info cannot. */
static inline bool hk_can_publish(void)
{
	return PMIx_Initialized();
}

/* Ends the job. */
static inline void hk_abort_job(void)
{
	(void)PMIx_Abort(1, "", NULL, 0);
}

/* The number of a communicator, the same at all of its ranks. Open MPI 5 numbers them by 128 bits.
 * Two of them have one number here by a chance of 2^-32. */
#define HK_CID(comm) hk_cid_mix((comm)->c_contextid.cid_base, (comm)->c_contextid.cid_sub.u64)

static inline uint32_t hk_cid_mix(uint64_t a, uint64_t b)
{
	const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)(((a * odd) ^ b) * odd >> 32);
}

#else

#include "opal/mca/pmix/pmix.h"

#define HK_JOB_SIZE  OPAL_PMIX_JOB_SIZE
#define HK_NUM_NODES OPAL_PMIX_NUM_NODES
#define HK_UINT32    OPAL_UINT32
#define HK_GLOBAL    OPAL_PMIX_GLOBAL

static inline bool hk_can_publish(void)
{
	return opal_pmix.put != NULL;
}

static inline void hk_abort_job(void)
{
	(void)opal_pmix.abort(1, "", NULL);
}

#define HK_REMOTE_COMPLETION 0 /* all BTLs promise it */
#define HK_ALL_ENDPOINTS     false
#define HK_NODE_BTL          "vader"

#define HK_CID(comm) ((comm)->c_contextid)

#endif

#endif

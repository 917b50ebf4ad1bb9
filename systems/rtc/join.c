/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/join.c: joins a job by PMIx (the PMIx standard, version 4, chapters 5 and 6).
 *
 * Each node publishes its address under a key. All nodes then enter a fence, which exchanges the
 * addresses, and read those of the others. A fence that times out does not say which nodes are
 * missing. Then this node asks for each address separately; the launcher answers for nodes that
 * have published theirs.
 *
 * The process leaves PMIx only when it exits. After PMIx_Finalize() it could not take part in
 * another fence, so the program could not open a second node. Until then PMIx's thread sleeps.
 */
#include "rtc/join.h"

#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"

#define ASK_MS 1500 /* time to find the nodes that missed the fence */

struct hk_rtc_join {
	pmix_proc_t me;
	uint32_t size;
	unsigned local_rank;
	char key[PMIX_MAX_KEYLEN + 1];
};

/* State of the process: it enters PMIx once, and each node has a key of its own. */
static struct {
	bool entered;
	pmix_proc_t me;
	unsigned count;
} process;

static int failed(struct hk_error *err, const char *what, pmix_status_t status)
{
	return hk_error_set(
		err, -EIO,
		"the launcher's PMIx: %s failed: %s (%d); fix: read the output of mpirun or srun, "
		"and check that the program's libpmix is not older than theirs",
		what, PMIx_Error_string(status), status);
}

static int read_identity(struct hk_rtc_join *join, struct hk_error *err)
{
	pmix_proc_t job = join->me;
	pmix_value_t *value = NULL;
	pmix_status_t status;

	job.rank = PMIX_RANK_WILDCARD;
	status = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
	if (status != PMIX_SUCCESS)
		return failed(err, "asking for the number of processes", status);
	join->size = value->type == PMIX_UINT32 ? value->data.uint32 : 0;
	PMIX_VALUE_RELEASE(value);

	status = PMIx_Get(&join->me, PMIX_LOCAL_RANK, NULL, 0, &value);
	if (status != PMIX_SUCCESS)
		return failed(err, "asking for the rank on this machine", status);
	join->local_rank = value->type == PMIX_UINT16 ? value->data.uint16 : 0;
	PMIX_VALUE_RELEASE(value);
	if (join->size == 0 || join->me.rank >= join->size)
		return hk_error_set(err, -EPROTO,
				    "the launcher reports process %u of %u; fix: use a launcher "
				    "with PMIx 3 or later",
				    join->me.rank, join->size);
	if (join->size > HK_RTC_MAX_NODES)
		return hk_error_set(err, -ERANGE,
				    "a job cannot have %u processes; fix: start at most %d",
				    join->size, HK_RTC_MAX_NODES);
	return 0;
}

static void leave_pmix(void)
{
	PMIx_Finalize(NULL, 0);
}

/* Says @what, and by which command the program starts: with the backend, if none is chosen. */
static int not_started(const struct hk_rtc_config *cfg, const char *what, struct hk_error *err)
{
	bool chosen = cfg->backend || getenv("HIKYAKU_RTC_BACKEND");

	return hk_error_set(
		err, -ENOENT,
		"%s; fix: %smpirun %s-np 2 PROGRAM. In a lab: hikyaku lab mpirun -np 2 PROGRAM. "
		"With Slurm: srun --mpi=pmix -n 2 PROGRAM. Without a launcher: a peers_file with a "
		"line 'NODE ADDRESS' for each node",
		what, chosen ? "" : "HIKYAKU_RTC_BACKEND=udp HIKYAKU_RTC_ADDRESS_UDP=lo ",
		geteuid() == 0 ? "--allow-run-as-root " : "");
}

static int enter_pmix(const struct hk_rtc_config *cfg, struct hk_error *err)
{
	if (process.entered)
		return 0;
	pmix_status_t status = PMIx_Init(&process.me, NULL, 0);
	if (status != PMIX_SUCCESS) {
		char what[120];

		snprintf(what, sizeof(what), "PMIX_RANK is set, but no launcher answers: %s",
			 PMIx_Error_string(status));
		return not_started(cfg, what, err);
	}
	process.entered = true;
	if (atexit(leave_pmix) != 0) {
		leave_pmix();
		process.entered = false;
		return hk_error_set(err, -ENOMEM, "no memory to join the job");
	}
	return 0;
}

int hk_rtc_join_begin(struct hk_rtc_config *cfg, struct hk_rtc_join **out, struct hk_error *err)
{
	/* Without a launcher PMIx_Init() would make a job of one process, or look for daemons. */
	if (!getenv("PMIX_RANK") || !getenv("PMIX_NAMESPACE")) {
		if (getenv("SLURM_PROCID") && getenv("SLURM_STEP_ID"))
			return hk_error_set(err, -ENOENT,
					    "srun has started this program without PMIx; fix: use "
					    "srun --mpi=pmix (srun --mpi=list shows its choices)");
		return not_started(
			cfg, "no launcher has started this program, and there is no peers_file",
			err);
	}
	int rc = enter_pmix(cfg, err);
	if (rc)
		return rc;
	struct hk_rtc_join *join = calloc(1, sizeof(*join));
	if (!join)
		return hk_error_set(err, -ENOMEM, "no memory to join the job");
	join->me = process.me;
	rc = read_identity(join, err);
	if (rc) {
		hk_rtc_join_end(join);
		return rc;
	}
	snprintf(join->key, sizeof(join->key), "hikyaku.rtc.%u", process.count++);
	cfg->node = (uint16_t)join->me.rank;
	cfg->nodes = (uint16_t)join->size;
	if (cfg->key == 0)
		cfg->key = HK_MAX(hk_hash_text(join->me.nspace), 1u);
	*out = join;
	return 0;
}

unsigned hk_rtc_join_local_rank(const struct hk_rtc_join *join)
{
	return join->local_rank;
}

void hk_rtc_join_end(struct hk_rtc_join *join)
{
	free(join);
}

/* ---- waiting, with a time limit -------------------------------------------------------------- */

/* Shared by PMIx's thread and ours. The last of the two to drop its reference frees it, because
 * PMIx may answer after we have stopped waiting. */
struct wait {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned refs, open;  /* open: requests without an answer */
	pmix_status_t status; /* result of the fence */
	bool present[];       /* [size] whether a node has answered */
};

struct request {
	struct wait *wait;
	unsigned node;
};

static struct wait *wait_new(uint32_t size)
{
	struct wait *w = calloc(1, sizeof(*w) + size * sizeof(w->present[0]));
	pthread_condattr_t attr;

	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->changed, &attr);
	pthread_condattr_destroy(&attr);
	w->refs = 1;
	return w;
}

/* Drops a reference. The caller holds the lock, which this releases. */
static void wait_drop(struct wait *w)
{
	bool last = --w->refs == 0;

	pthread_mutex_unlock(&w->lock);
	if (!last)
		return;
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* Waits until all requests are answered or @deadline_ms passes. The caller holds the lock. */
static bool wait_for(struct wait *w, int64_t deadline_ms)
{
	struct timespec end = {.tv_sec = deadline_ms / 1000,
			       .tv_nsec = deadline_ms % 1000 * 1000000};

	while (w->open > 0)
		if (pthread_cond_timedwait(&w->changed, &w->lock, &end) == ETIMEDOUT)
			break;
	return w->open == 0;
}

static void answered(struct request *q, pmix_status_t status)
{
	struct wait *w = q->wait;

	pthread_mutex_lock(&w->lock);
	w->status = status;
	w->open--;
	if (status == PMIX_SUCCESS)
		w->present[q->node] = true;
	pthread_cond_signal(&w->changed);
	free(q);
	wait_drop(w);
}

static void on_fence(pmix_status_t status, void *arg)
{
	answered(arg, status);
}

static void on_value(pmix_status_t status, pmix_value_t *value, void *arg)
{
	(void)value;
	answered(arg, status);
}

/* Registers a request that the caller is about to make. NULL: no memory. */
static struct request *request_new(struct wait *w, unsigned node)
{
	struct request *q = malloc(sizeof(*q));

	if (!q)
		return NULL;
	*q = (struct request){w, node};
	pthread_mutex_lock(&w->lock);
	w->refs++;
	w->open++;
	pthread_mutex_unlock(&w->lock);
	return q;
}

/* PMIx takes seconds, and 0 means no limit. */
static int seconds_until(int64_t deadline_ms)
{
	int64_t left = deadline_ms - hk_clock_ms();
	return left <= 1000 ? 1 : (int)HK_MIN((left + 999) / 1000, INT64_C(86400));
}

/* ---- addresses ------------------------------------------------------------------------------- */

static int publish_address(struct hk_rtc_join *join, const char *own, struct hk_error *err)
{
	pmix_value_t value = {.type = PMIX_STRING};
	pmix_status_t status;

	value.data.string = (char *)own;
	status = PMIx_Put(PMIX_GLOBAL, join->key, &value);
	if (status == PMIX_SUCCESS)
		status = PMIx_Commit();
	return status == PMIX_SUCCESS ? 0 : failed(err, "publishing our address", status);
}

/* Appends a node, such as "3 (node1)", to @text. */
static void name_node(const struct hk_rtc_join *join, unsigned node, char *text, size_t size)
{
	pmix_proc_t proc = join->me;
	pmix_value_t *value = NULL;
	size_t at = strlen(text);

	proc.rank = node;
	if (PMIx_Get(&proc, PMIX_HOSTNAME, NULL, 0, &value) == PMIX_SUCCESS &&
	    value->type == PMIX_STRING)
		snprintf(text + at, size - at, "%s%u (%s)", at ? ", " : "", node,
			 value->data.string);
	else
		snprintf(text + at, size - at, "%s%u", at ? ", " : "", node);
	if (value)
		PMIX_VALUE_RELEASE(value);
}

/* Some node did not reach the fence: asks for all, and names the first few that do not answer. */
static int name_missing(struct hk_rtc_join *join, struct hk_error *err)
{
	struct wait *w = wait_new(join->size);
	int seconds = 1;
	pmix_info_t limit;
	char names[160] = "";
	unsigned missing = 0;

	if (!w)
		return hk_error_set(
			err, -ETIMEDOUT,
			"not all nodes of the job have joined; fix: set a longer timeout");
	PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &seconds, PMIX_INT);
	for (unsigned i = 0; i < join->size; i++) {
		struct request *q = i == join->me.rank ? NULL : request_new(w, i);
		pmix_proc_t proc = join->me;
		proc.rank = i;
		pmix_status_t status = q ? PMIx_Get_nb(&proc, join->key, &limit, 1, on_value, q)
					 : 0;
		if (q && status != PMIX_SUCCESS)
			answered(q, status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
	}
	pthread_mutex_lock(&w->lock);
	wait_for(w, hk_clock_ms() + ASK_MS);
	w->present[join->me.rank] = true;
	for (unsigned i = 0; i < join->size; i++) {
		bool present = w->present[i];
		if (present)
			continue;
		/* PMIx's thread may need the lock while we ask for the name */
		pthread_mutex_unlock(&w->lock);
		if (missing++ < 4)
			name_node(join, i, names, sizeof(names));
		pthread_mutex_lock(&w->lock);
	}
	wait_drop(w);
	if (missing == 0)
		return hk_error_set(err, -ETIMEDOUT,
				    "the nodes of the job did not join in time, though all %u have "
				    "now; fix: set a longer timeout",
				    join->size);
	return hk_error_set(err, -ETIMEDOUT,
			    "%u of %u nodes have not joined in time: node %s%s; fix: check that "
			    "they run and open a node too, or set a longer timeout",
			    missing, join->size, names, missing > 4 ? ", …" : "");
}

int hk_rtc_join_fence(struct hk_rtc_join *join, int64_t deadline_ms, struct hk_error *err)
{
	struct wait *w = wait_new(join->size);
	struct request *q = w ? request_new(w, join->me.rank) : NULL;
	int seconds = seconds_until(deadline_ms);
	bool collect = true;
	pmix_info_t info[2];

	if (!q) {
		free(w);
		return hk_error_set(err, -ENOMEM, "no memory to join the job");
	}
	PMIX_INFO_LOAD(&info[0], PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
	PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
	pmix_status_t status = PMIx_Fence_nb(NULL, 0, info, 2, on_fence, q);
	if (status != PMIX_SUCCESS)
		answered(q, status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);

	pthread_mutex_lock(&w->lock);
	bool done = wait_for(w, deadline_ms);
	status = w->status;
	wait_drop(w);
	if (!done || status == PMIX_ERR_TIMEOUT)
		return name_missing(join, err);
	return status == PMIX_SUCCESS ? 0 : failed(err, "the exchange of addresses", status);
}

static int read_entry(struct hk_rtc_join *join, unsigned node, char *entry, int64_t deadline_ms,
		      struct hk_error *err)
{
	int seconds = seconds_until(deadline_ms);
	pmix_proc_t proc = join->me;
	pmix_value_t *value = NULL;
	pmix_info_t limit;

	PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &seconds, PMIX_INT);
	proc.rank = node;
	pmix_status_t status = PMIx_Get(&proc, join->key, &limit, 1, &value);
	if (status != PMIX_SUCCESS)
		return hk_error_set(err, -EIO,
				    "the launcher does not report the address of node %u: %s; fix: "
				    "check that all processes of the job run the same program",
				    node, PMIx_Error_string(status));
	int rc = 0;
	if (value->type != PMIX_STRING || strlen(value->data.string) >= HK_RTC_ENTRY_MAX)
		rc = hk_error_set(err, -EPROTO,
				  "node %u has published an invalid address; fix: check that all "
				  "processes of the job run the same program",
				  node);
	else
		strcpy(entry, value->data.string);
	PMIX_VALUE_RELEASE(value);
	return rc;
}

int hk_rtc_join_exchange(struct hk_rtc_join *join, const char *own, char (*entry)[HK_RTC_ENTRY_MAX],
			 int64_t deadline_ms, struct hk_error *err)
{
	int rc = publish_address(join, own, err);

	if (rc == 0)
		rc = hk_rtc_join_fence(join, deadline_ms, err);
	for (unsigned i = 0; i < join->size && rc == 0; i++)
		rc = read_entry(join, i, entry[i], deadline_ms, err);
	return rc;
}

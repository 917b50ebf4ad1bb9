/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/join.c: who else is in the job, by PMIx (the PMIx standard, version 4, chapters 5 and 6).
 *
 * Each node puts its address under a key, all meet in a fence that hands the addresses round, and each
 * gets those of the others. A fence that times out does not say who stayed away; then each node is asked
 * for by itself, which the launcher answers for those that have put theirs.
 *
 * PMIx is left when the process exits, not before: who has left once is missed by every later fence, so
 * that no second node could be opened. Its thread sleeps meanwhile.
 */
#include "rtc/join.h"

#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAYS                                                                                       \
	"start it by 'mpirun -np N PROGRAM' or 'srun --mpi=pmix -n N PROGRAM', or give a "         \
	"peers_file with a line 'NODE ADDRESS' for each node"
#define ASK_MS 1500 /* how long to look for those that missed the fence */

struct hk_rtc_join {
	pmix_proc_t me;
	uint32_t size;
	unsigned local_rank;
	char key[PMIX_MAX_KEYLEN + 1];
};

/* Of the process: PMIx is entered once, and each node that is opened has a key of its own. */
static struct {
	bool entered;
	pmix_proc_t me;
	unsigned count;
} process;

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int failed(struct hk_error *err, const char *what, pmix_status_t status)
{
	return hk_error_set(err, -EIO,
			    "the launcher's PMIx: %s failed: %s (%d); fix: look at what mpirun or "
			    "srun says, and that the program's libpmix is not older than theirs",
			    what, PMIx_Error_string(status), status);
}

static uint32_t hash(const char *text)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 16777619u;
	return h ? h : 1;
}

static int ask_who(struct hk_rtc_join *join, struct hk_error *err)
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
				    "the launcher says that this is process %u of %u; fix: use one "
				    "that speaks PMIx 3 or later",
				    join->me.rank, join->size);
	if (join->size > HK_RTC_MAX_NODES)
		return hk_error_set(err, -ERANGE, "%u processes; fix: start at most %d", join->size,
				    HK_RTC_MAX_NODES);
	return 0;
}

static void leave(void)
{
	PMIx_Finalize(NULL, 0);
}

static int enter(struct hk_error *err)
{
	if (process.entered)
		return 0;
	pmix_status_t status = PMIx_Init(&process.me, NULL, 0);
	if (status != PMIX_SUCCESS)
		return hk_error_set(err, -ENOENT,
				    "PMIX_RANK is set, but no launcher answers: %s; fix: " WAYS,
				    PMIx_Error_string(status));
	process.entered = true;
	if (atexit(leave) != 0) {
		leave();
		process.entered = false;
		return hk_error_set(err, -ENOMEM, "no memory to join the job");
	}
	return 0;
}

int hk_rtc_join_begin(struct hk_rtc_config *cfg, struct hk_rtc_join **out, struct hk_error *err)
{
	/* Without a launcher PMIx_Init() would make a job of one, or look for daemons. */
	if (!getenv("PMIX_RANK") || !getenv("PMIX_NAMESPACE")) {
		if (getenv("SLURM_PROCID") && getenv("SLURM_STEP_ID"))
			return hk_error_set(err, -ENOENT,
					    "srun has started this program without PMIx; fix: srun "
					    "--mpi=pmix (srun --mpi=list shows what it has)");
		return hk_error_set(err, -ENOENT,
				    "no launcher has started this program, and no peers_file is "
				    "given; fix: " WAYS);
	}
	int rc = enter(err);
	if (rc)
		return rc;
	struct hk_rtc_join *join = calloc(1, sizeof(*join));
	if (!join)
		return hk_error_set(err, -ENOMEM, "no memory to join the job");
	join->me = process.me;
	rc = ask_who(join, err);
	if (rc) {
		hk_rtc_join_end(join);
		return rc;
	}
	snprintf(join->key, sizeof(join->key), "hikyaku.rtc.%u", process.count++);
	cfg->node = (uint16_t)join->me.rank;
	cfg->nodes = (uint16_t)join->size;
	if (cfg->key == 0)
		cfg->key = hash(join->me.nspace);
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

/* ---- waiting, with an end -------------------------------------------------------------------- */

/* What PMIx's thread and ours share. The last of the two that lets go of it frees it, since PMIx may
 * answer after we have stopped to wait. */
struct wait {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned holders, open; /* questions without an answer */
	pmix_status_t status;   /* of the fence */
	bool here[];            /* [size] nodes that have answered */
};

struct question {
	struct wait *wait;
	unsigned node;
};

static struct wait *wait_new(uint32_t size)
{
	struct wait *w = calloc(1, sizeof(*w) + size * sizeof(w->here[0]));
	pthread_condattr_t attr;

	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->changed, &attr);
	pthread_condattr_destroy(&attr);
	w->holders = 1;
	return w;
}

/* Called with the lock held. */
static void wait_drop(struct wait *w)
{
	bool last = --w->holders == 0;

	pthread_mutex_unlock(&w->lock);
	if (!last)
		return;
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* Until all is answered or @deadline_ms. Called with the lock held. */
static bool wait_for(struct wait *w, int64_t deadline_ms)
{
	struct timespec end = {.tv_sec = deadline_ms / 1000,
			       .tv_nsec = deadline_ms % 1000 * 1000000};

	while (w->open > 0)
		if (pthread_cond_timedwait(&w->changed, &w->lock, &end) == ETIMEDOUT)
			break;
	return w->open == 0;
}

static void answered(struct question *q, pmix_status_t status)
{
	struct wait *w = q->wait;

	pthread_mutex_lock(&w->lock);
	w->status = status;
	w->open--;
	if (status == PMIX_SUCCESS)
		w->here[q->node] = true;
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

/* A question that is about to be asked. NULL: no memory. */
static struct question *question_new(struct wait *w, unsigned node)
{
	struct question *q = malloc(sizeof(*q));

	if (!q)
		return NULL;
	*q = (struct question){w, node};
	pthread_mutex_lock(&w->lock);
	w->holders++;
	w->open++;
	pthread_mutex_unlock(&w->lock);
	return q;
}

/* PMIx counts in seconds, and 0 would be for ever. */
static int seconds_until(int64_t deadline_ms)
{
	int64_t left = deadline_ms - now_ms();
	return left <= 1000 ? 1 : (int)HK_MIN((left + 999) / 1000, INT64_C(86400));
}

/* ---- addresses -------------------------------------------------------------------------------- */

static int put(struct hk_rtc_join *join, const char *own, struct hk_error *err)
{
	pmix_value_t value = {.type = PMIX_STRING};
	pmix_status_t status;

	value.data.string = (char *)own;
	status = PMIx_Put(PMIX_GLOBAL, join->key, &value);
	if (status == PMIX_SUCCESS)
		status = PMIx_Commit();
	return status == PMIX_SUCCESS ? 0 : failed(err, "telling our address", status);
}

/* Appends "3 (node1)" to @text. */
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

/* Some node has not come to the fence. Asks all of them, and names the first few that are silent. */
static int name_missing(struct hk_rtc_join *join, struct hk_error *err)
{
	struct wait *w = wait_new(join->size);
	int seconds = 1;
	pmix_info_t limit;
	char names[160] = "";
	unsigned missing = 0;

	if (!w)
		return hk_error_set(err, -ETIMEDOUT, "not all nodes of the job have come");
	PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &seconds, PMIX_INT);
	for (unsigned i = 0; i < join->size; i++) {
		struct question *q = i == join->me.rank ? NULL : question_new(w, i);
		pmix_proc_t proc = join->me;
		proc.rank = i;
		pmix_status_t status = q ? PMIx_Get_nb(&proc, join->key, &limit, 1, on_value, q)
					 : 0;
		if (q && status != PMIX_SUCCESS)
			answered(q, status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
	}
	pthread_mutex_lock(&w->lock);
	wait_for(w, now_ms() + ASK_MS);
	w->here[join->me.rank] = true;
	for (unsigned i = 0; i < join->size; i++) {
		bool here = w->here[i];
		if (here)
			continue;
		/* PMIx's thread may want the lock while we ask for the name */
		pthread_mutex_unlock(&w->lock);
		if (missing++ < 4)
			name_node(join, i, names, sizeof(names));
		pthread_mutex_lock(&w->lock);
	}
	wait_drop(w);
	if (missing == 0)
		return hk_error_set(err, -ETIMEDOUT,
				    "the nodes of the job did not come in time, though all %u are "
				    "there now; fix: a longer timeout",
				    join->size);
	return hk_error_set(err, -ETIMEDOUT,
			    "%u of %u nodes have not come in time: node %s%s; fix: see whether "
			    "they run and open a node too, or give a longer timeout",
			    missing, join->size, names, missing > 4 ? ", …" : "");
}

static int fence(struct hk_rtc_join *join, int64_t deadline_ms, struct hk_error *err)
{
	struct wait *w = wait_new(join->size);
	struct question *q = w ? question_new(w, join->me.rank) : NULL;
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

static int get(struct hk_rtc_join *join, unsigned node, char *address, int64_t deadline_ms,
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
				    "the launcher does not tell the address of node %u: %s; fix: "
				    "see that all processes of the job are the same program",
				    node, PMIx_Error_string(status));
	int rc = 0;
	if (value->type != PMIX_STRING || strlen(value->data.string) >= HK_RTC_ADDRESS_MAX)
		rc = hk_error_set(err, -EPROTO,
				  "node %u has told no address that we can read; fix: see that all "
				  "processes of the job are the same program",
				  node);
	else
		strcpy(address, value->data.string);
	PMIX_VALUE_RELEASE(value);
	return rc;
}

int hk_rtc_join_exchange(struct hk_rtc_join *join, const char *own,
			 char (*address)[HK_RTC_ADDRESS_MAX], int64_t deadline_ms,
			 struct hk_error *err)
{
	int rc = put(join, own, err);

	if (rc == 0)
		rc = fence(join, deadline_ms, err);
	for (unsigned i = 0; i < join->size && rc == 0; i++)
		rc = get(join, i, address[i], deadline_ms, err);
	return rc;
}

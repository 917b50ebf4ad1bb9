/* SPDX-License-Identifier: BSD-3-Clause */
/* openmpi/osc/epochs.c: synchronization of a window. */
#include "openmpi/osc/osc_hikyaku.h"

#include "ompi/group/group.h"
#include "ompi/mca/coll/coll.h"
#include "opal/runtime/opal_progress.h"

#include "base/common.h"

#include <stdlib.h>

static bool is_locked(const struct hk_osc_peer *p)
{
	return p->access == HK_OSC_LOCKED;
}

int hk_osc_access(struct hk_osc_module *m, int target)
{
	const struct hk_osc_peer *p = &m->peer[target];

	switch (m->access) {
	case HK_OSC_FENCE:
		return OMPI_SUCCESS;
	case HK_OSC_START:
		return p->access == HK_OSC_START ? OMPI_SUCCESS : OMPI_ERR_RMA_SYNC;
	case HK_OSC_LOCK_ALL:
		/* the lock of a rank is taken at the first access: a program rarely accesses all */
		return p->here ? hk_osc_lock_hold(m, target) : OMPI_SUCCESS;
	default:
		return is_locked(p) ? OMPI_SUCCESS : OMPI_ERR_RMA_SYNC;
	}
}

/* Waits for operations to @target that the next call would overtake. The gets read its memory by
 * themselves. Calls to a rank of this node go by sockets, and its state is changed at once. */
static void settle(struct hk_osc_module *m, int target)
{
	struct hk_osc_peer *p = &m->peer[target];

	while (p->here ? p->in_flight : p->gets)
		opal_progress();
}

/* ---- passive targets ------------------------------------------------------------------------- */

int hk_osc_lock(int type, int target, int assert, struct ompi_win_t *win)
{
	struct hk_osc_module *m = hk_osc_of(win);
	struct hk_osc_peer *p = &m->peer[target];

	if (m->access == HK_OSC_START || m->access == HK_OSC_LOCK_ALL || is_locked(p))
		return OMPI_ERR_RMA_SYNC;
	m->access = HK_OSC_NONE;
	p->access = HK_OSC_LOCKED;
	if (assert & MPI_MODE_NOCHECK)
		return OMPI_SUCCESS;
	p->lock = type == MPI_LOCK_EXCLUSIVE ? HK_OSC_WANTS_EXCLUSIVE : HK_OSC_WANTS_SHARED;
	bool now = p->here || mca_osc_hikyaku_component.lock_first;
	int rc = now ? hk_osc_lock_hold(m, target) : OMPI_SUCCESS;

	if (HK_UNLIKELY(rc != OMPI_SUCCESS)) {
		p->access = HK_OSC_NONE;
		p->lock = HK_OSC_FREE;
	}
	return rc;
}

/* Gives the lock back. A call that asks for it may be in flight: this one follows it. */
static int give_back(struct hk_osc_module *m, int target)
{
	uint8_t is = m->peer[target].lock;

	if (is != HK_OSC_ASKED && is != HK_OSC_HELD)
		return OMPI_SUCCESS; /* nobody has asked for it */
	settle(m, target);
	return hk_osc_tell(m, target, HK_OSC_UNLOCK);
}

int hk_osc_unlock(int target, struct ompi_win_t *win)
{
	struct hk_osc_module *m = hk_osc_of(win);
	struct hk_osc_peer *p = &m->peer[target];

	if (!is_locked(p))
		return OMPI_ERR_RMA_SYNC;
	int rc = give_back(m, target);
	/* replies tell that everything is in the target's memory */
	int waited = hk_osc_wait(m, target);

	p->access = HK_OSC_NONE;
	p->lock = HK_OSC_FREE;
	return rc == OMPI_SUCCESS ? waited : rc;
}

int hk_osc_lock_all(int assert, struct ompi_win_t *win)
{
	struct hk_osc_module *m = hk_osc_of(win);

	if (m->access == HK_OSC_START || m->access == HK_OSC_LOCK_ALL)
		return OMPI_ERR_RMA_SYNC;
	for (int i = 0; i < m->size; i++)
		if (is_locked(&m->peer[i]))
			return OMPI_ERR_RMA_SYNC;
	m->access = HK_OSC_LOCK_ALL;
	for (int i = 0; i < m->size && !(assert &MPI_MODE_NOCHECK); i++)
		m->peer[i].lock = HK_OSC_WANTS_SHARED;
	return OMPI_SUCCESS;
}

int hk_osc_unlock_all(struct ompi_win_t *win)
{
	struct hk_osc_module *m = hk_osc_of(win);
	int rc = OMPI_SUCCESS;

	if (m->access != HK_OSC_LOCK_ALL)
		return OMPI_ERR_RMA_SYNC;
	for (int i = 0; i < m->size; i++) {
		int one = give_back(m, i);

		rc = rc == OMPI_SUCCESS ? one : rc;
	}
	int waited = hk_osc_wait(m, -1);

	for (int i = 0; i < m->size; i++)
		m->peer[i].lock = HK_OSC_FREE;
	m->access = HK_OSC_NONE;
	return rc == OMPI_SUCCESS ? waited : rc;
}

static bool is_passive(const struct hk_osc_module *m, int target)
{
	return m->access == HK_OSC_LOCK_ALL ||
	       (m->access == HK_OSC_NONE && is_locked(&m->peer[target]));
}

int hk_osc_flush(int target, struct ompi_win_t *win)
{
	struct hk_osc_module *m = hk_osc_of(win);

	if (HK_UNLIKELY(!is_passive(m, target)))
		return OMPI_ERR_RMA_SYNC;
	return hk_osc_wait(m, target);
}

int hk_osc_flush_all(struct ompi_win_t *win)
{
	struct hk_osc_module *m = hk_osc_of(win);

	if (HK_UNLIKELY(m->access == HK_OSC_FENCE || m->access == HK_OSC_START))
		return OMPI_ERR_RMA_SYNC;
	return hk_osc_wait(m, -1);
}

int hk_osc_sync(struct ompi_win_t *win)
{
	(void)win;
	atomic_thread_fence(memory_order_seq_cst);
	opal_progress();
	return OMPI_SUCCESS;
}

/* ---- fence ----------------------------------------------------------------------------------- */

int hk_osc_fence(int assert, struct ompi_win_t *win)
{
	struct hk_osc_module *m = hk_osc_of(win);

	if (m->access == HK_OSC_START || m->access == HK_OSC_LOCK_ALL)
		return OMPI_ERR_RMA_SYNC;
	int rc = hk_osc_wait(m, -1);

	m->access = assert &MPI_MODE_NOSUCCEED ? HK_OSC_NONE : HK_OSC_FENCE;
	int barrier = m->comm->c_coll->coll_barrier(m->comm, m->comm->c_coll->coll_barrier_module);

	return rc == OMPI_SUCCESS ? barrier : rc;
}

/* ---- post, start, complete, wait ------------------------------------------------------------- */

/* The ranks of @group in our communicator, in memory that the caller frees. NULL: one has none, or
 * there is no memory. */
static int *ranks_of(const struct hk_osc_module *m, ompi_group_t *group)
{
	int n = ompi_group_size(group);
	int *in = malloc(sizeof(*in) * (size_t)(n + 1)),
	    *out = malloc(sizeof(*out) * (size_t)(n + 1));
	int rc = OMPI_ERR_OUT_OF_RESOURCE;

	for (int i = 0; in && i < n; i++)
		in[i] = i;
	if (in && out)
		rc = ompi_group_translate_ranks(group, n, in, m->comm->c_local_group, out);
	free(in);
	for (int i = 0; rc == OMPI_SUCCESS && i < n; i++)
		if (out[i] < 0 || out[i] >= m->size)
			rc = OMPI_ERR_BAD_PARAM; /* it is not of the window's group */
	if (rc == OMPI_SUCCESS)
		return out;
	free(out);
	return NULL;
}

int hk_osc_post(ompi_group_t *group, int assert, struct ompi_win_t *win)
{
	struct hk_osc_module *m = hk_osc_of(win);
	int rc = OMPI_SUCCESS, *rank;

	(void)assert;
	if (m->exposed)
		return OMPI_ERR_RMA_SYNC;
	if (!(rank = ranks_of(m, group)))
		return OMPI_ERR_RMA_SYNC;
	OBJ_RETAIN(group);
	m->exposed = group;
	for (int i = 0; i < ompi_group_size(group) && rc == OMPI_SUCCESS; i++)
		rc = hk_osc_tell(m, rank[i], HK_OSC_POST);
	free(rank);
	return rc;
}

int hk_osc_start(ompi_group_t *group, int assert, struct ompi_win_t *win)
{
	struct hk_osc_module *m = hk_osc_of(win);
	int *rank;

	(void)assert;
	if (m->access != HK_OSC_NONE && m->access != HK_OSC_FENCE)
		return OMPI_ERR_RMA_SYNC;
	for (int i = 0; i < m->size; i++)
		if (m->peer[i].access != HK_OSC_NONE)
			return OMPI_ERR_RMA_SYNC;
	if (!(rank = ranks_of(m, group)))
		return OMPI_ERR_RMA_SYNC;
	for (int i = 0; i < ompi_group_size(group); i++) {
		_Atomic uint32_t *posted = &hk_osc_posted(m->target.segment.state,
							  m->target.ranks)[rank[i]];

		while (!*posted)
			opal_progress();
		(*posted)--;
		m->peer[rank[i]].access = HK_OSC_START;
	}
	OBJ_RETAIN(group);
	m->started = group;
	m->access = HK_OSC_START;
	free(rank);
	return OMPI_SUCCESS;
}

int hk_osc_complete(struct ompi_win_t *win)
{
	struct hk_osc_module *m = hk_osc_of(win);
	int rc = OMPI_SUCCESS;

	if (m->access != HK_OSC_START)
		return OMPI_ERR_RMA_SYNC;
	for (int i = 0; i < m->size; i++) {
		if (m->peer[i].access != HK_OSC_START)
			continue;
		settle(m, i);
		m->peer[i].access = HK_OSC_NONE;
		int one = hk_osc_tell(m, i, HK_OSC_COMPLETE);

		rc = rc == OMPI_SUCCESS ? one : rc;
	}
	m->access = HK_OSC_NONE;
	OBJ_RELEASE(m->started);
	m->started = NULL;
	int waited = hk_osc_wait(m, -1);

	return rc == OMPI_SUCCESS ? waited : rc;
}

int hk_osc_test(struct ompi_win_t *win, int *flag)
{
	struct hk_osc_module *m = hk_osc_of(win);

	if (!m->exposed)
		return OMPI_ERR_RMA_SYNC;
	opal_progress();
	uint32_t n = (uint32_t)ompi_group_size(m->exposed);

	*flag = m->target.segment.state->completed >= n;
	if (!*flag)
		return OMPI_SUCCESS;
	m->target.segment.state->completed -= n;
	OBJ_RELEASE(m->exposed);
	m->exposed = NULL;
	return OMPI_SUCCESS;
}

int hk_osc_win_wait(struct ompi_win_t *win)
{
	int flag = 0, rc = OMPI_SUCCESS;

	while (rc == OMPI_SUCCESS && !flag)
		rc = hk_osc_test(win, &flag);
	return rc;
}

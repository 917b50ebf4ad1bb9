/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/registry.c: takes and frees slots.
 */
#include "sdn/tagger/registry.h"

#include <errno.h>

int hk_tagger_registry_join(struct hk_tagger_registry *r, uint32_t rank, uint32_t ranks,
			    uint32_t pid, struct hk_error *err)
{
	int free_slot = -ENOSPC;

	if (ranks > HK_TAG_RANKS)
		return hk_error_set(err, -ERANGE,
				    "a job of %u ranks is not tagged, because a tag can name only "
				    "%d; fix: run it without 'tag run', or with fewer ranks",
				    ranks, HK_TAG_RANKS);
	if (rank >= ranks || pid == 0)
		return hk_error_set(err, -ERANGE, "there is no rank %u in a job of %u ranks", rank,
				    ranks);
	if (r->ranks != 0 && r->ranks != ranks)
		return hk_error_set(err, -EINVAL,
				    "rank %u reports a job of %u ranks, and others reported %u; "
				    "fix: run one mpirun at a time in each 'tag run'",
				    rank, ranks, r->ranks);
	for (int i = HK_TAGGER_SLOTS - 1; i >= 0; i--) {
		const struct hk_tagger_registry_rank *s = &r->slot[i];
		if (s->pid == 0)
			free_slot = i;
		else if (s->rank == rank || s->pid == pid)
			return hk_error_set(
				err, -EEXIST,
				"process %u reports that it is rank %u, but process %u is rank %u "
				"already; fix: run one mpirun at a time in each 'tag run'",
				pid, rank, s->pid, s->rank);
	}
	if (free_slot < 0)
		return hk_error_set(err, -ENOSPC, "only %d ranks on a node are tagged",
				    HK_TAGGER_SLOTS);
	r->slot[free_slot] = (struct hk_tagger_registry_rank){.pid = pid, .rank = (uint16_t)rank};
	r->ranks = ranks;
	return free_slot;
}

void hk_tagger_registry_leave(struct hk_tagger_registry *r, uint32_t slot)
{
	r->slot[slot].pid = 0;
	if (hk_tagger_registry_count(r) == 0)
		r->ranks = 0; /* a script may run another mpirun */
}

unsigned hk_tagger_registry_count(const struct hk_tagger_registry *r)
{
	unsigned n = 0;

	for (unsigned i = 0; i < HK_TAGGER_SLOTS; i++)
		n += r->slot[i].pid != 0;
	return n;
}

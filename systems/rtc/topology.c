/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/topology.c: see topology.h.
 */
#include "rtc/topology.h"
#include "rtc/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file -------------------------------------------------------------------------------- */

struct reading {
	struct hk_rtc_topology_view *t;
	unsigned line; /* line of our node; 0: not seen */
};

static int on_line(void *arg, const char *path, unsigned line, uint16_t node, char *words,
		   struct hk_error *err)
{
	struct reading *r = arg;
	struct hk_rtc_topology_view *t = r->t;
	bool ours = node == t->self;
	char *rest = NULL;

	if (ours && r->line)
		return hk_error_set(err, -EINVAL,
				    "topology %s, line %u: node %u has a line already, line %u; "
				    "fix: write one line for each node",
				    path, line, node, r->line);
	r->line = ours ? line : r->line;
	/* check the other nodes' lines as well, so that a wrong file fails on every node */
	for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
		int n = hk_rtc_lines_node(w, t->nodes);
		if (n < 0 || n == node)
			return hk_error_set(err, -EINVAL,
					    "topology %s, line %u: '%.40s' cannot be a neighbour "
					    "of node %u; fix: name other nodes, from 0 to %u",
					    path, line, w, node, t->nodes - 1u);
		unsigned i = 0;
		while (ours && i < t->listed_n && t->listed[i] != n)
			i++;
		if (ours && i == t->listed_n)
			t->listed[t->listed_n++] = (uint16_t)n;
	}
	return 0;
}

int hk_rtc_topology_init(struct hk_rtc_topology_view *t, const struct hk_rtc_config *cfg,
			 struct hk_error *err)
{
	struct reading r = {.t = t};

	*t = (struct hk_rtc_topology_view){.kind = cfg->topology,
					   .self = cfg->node,
					   .nodes = cfg->nodes,
					   .degree = cfg->degree ? cfg->degree : 2,
					   .seed = cfg->seed};
	if (t->kind > HK_RTC_FILE)
		return hk_error_set(
			err, -EINVAL,
			"topology %d does not exist; fix: use one of enum hk_rtc_topology",
			(int)t->kind);
	if (t->kind == HK_RTC_FILE && !cfg->topology_file)
		return hk_error_set(err, -EINVAL,
				    "topology HK_RTC_FILE has no file; fix: set topology_file");
	t->members = calloc(t->nodes, sizeof(*t->members));
	t->order = calloc(t->nodes, sizeof(*t->order));
	t->drawn = calloc(t->nodes, sizeof(*t->drawn));
	t->neighbour = calloc(t->nodes, sizeof(*t->neighbour));
	t->listed = calloc(t->nodes, sizeof(*t->listed));
	if (!t->members || !t->order || !t->drawn || !t->neighbour || !t->listed) {
		hk_rtc_topology_free(t);
		return hk_error_set(err, -ENOMEM, "no memory for a topology of %u nodes", t->nodes);
	}
	if (t->kind != HK_RTC_FILE)
		return 0;
	int rc = hk_rtc_lines_read(cfg->topology_file, "topology", t->nodes, on_line, &r, err);
	if (rc == 0 && !r.line)
		rc = hk_error_set(err, -EINVAL,
				  "topology %s: there is no line for node %u; fix: add one; a node "
				  "without neighbours has only its number",
				  cfg->topology_file, t->self);
	if (rc)
		hk_rtc_topology_free(t);
	return rc;
}

void hk_rtc_topology_free(struct hk_rtc_topology_view *t)
{
	free(t->members);
	free(t->order);
	free(t->drawn);
	free(t->neighbour);
	free(t->listed);
	*t = (struct hk_rtc_topology_view){0};
}

/* ---- neighbours ------------------------------------------------------------------------------ */

static void add(struct hk_rtc_topology_view *t, uint16_t node)
{
	unsigned at = t->count;

	if (node == t->self)
		return;
	while (at && t->neighbour[at - 1] > node)
		at--;
	if (at && t->neighbour[at - 1] == node)
		return;
	memmove(&t->neighbour[at + 1], &t->neighbour[at], (t->count - at) * sizeof(*t->neighbour));
	t->neighbour[at] = node;
	t->count++;
}

/* Fills `order` with the members, sorted by a random number of each. A member that joins or leaves
 * changes only its own place in the order. */
static int compare_drawn(const void *a, const void *b, void *arg)
{
	const uint64_t *drawn = arg;
	uint16_t x = *(const uint16_t *)a, y = *(const uint16_t *)b;
	if (drawn[x] != drawn[y])
		return drawn[x] < drawn[y] ? -1 : 1;
	return (x > y) - (x < y);
}

static unsigned shuffle(struct hk_rtc_topology_view *t, unsigned n, unsigned round)
{
	unsigned self = 0;
	for (unsigned i = 0; i < n; i++) {
		uint64_t state = t->seed ^ ((uint64_t)round << 32 | t->members[i]);
		(void)hk_rtc_random_next(&state);
		t->drawn[t->members[i]] = hk_rtc_random_next(&state);
		t->order[i] = t->members[i];
	}
	qsort_r(t->order, n, sizeof(*t->order), compare_drawn, t->drawn);
	while (t->order[self] != t->self)
		self++;
	return self;
}

static void random_neighbours(struct hk_rtc_topology_view *t, unsigned n)
{
	unsigned round = 0;
	for (; round < t->degree / 2; round++) {
		unsigned at = shuffle(t, n, round);
		add(t, t->order[(at + 1) % n]);
		add(t, t->order[(at + n - 1) % n]);
	}
	if (t->degree % 2) {
		unsigned at = shuffle(t, n, round);
		if ((at ^ 1) < n) /* with an odd number of members the last has no partner */
			add(t, t->order[at ^ 1]);
	}
}

void hk_rtc_topology_update(struct hk_rtc_topology_view *t, const uint16_t *epoch)
{
	unsigned n = 0, self = 0;

	t->count = 0;
	for (unsigned i = 0; i < t->nodes; i++) {
		if (i == t->self)
			self = n;
		if (i == t->self || epoch[i])
			t->members[n++] = (uint16_t)i;
	}
	switch (t->kind) {
	case HK_RTC_ALL:
		for (unsigned i = 0; i < n; i++)
			if (i != self)
				t->neighbour[t->count++] = t->members[i];
		break;
	case HK_RTC_RING:
		add(t, t->members[(self + 1) % n]);
		add(t, t->members[(self + n - 1) % n]);
		break;
	case HK_RTC_RANDOM:
		if (t->degree >= n - 1) {
			for (unsigned i = 0; i < n; i++)
				add(t, t->members[i]);
		} else {
			random_neighbours(t, n);
		}
		break;
	case HK_RTC_EXPONENTIAL:
		for (unsigned step = 1; step < n; step *= 2)
			add(t, t->members[(self + step) % n]);
		break;
	case HK_RTC_FILE:
		for (unsigned i = 0; i < t->listed_n; i++)
			if (epoch[t->listed[i]])
				add(t, t->listed[i]);
		break;
	}
}

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
	struct hk_topology *t;
	unsigned line; /* of our node; 0: not seen */
};

static int on_line(void *arg, const char *path, unsigned line, uint16_t node, char *words,
		   struct hk_error *err)
{
	struct reading *r = arg;
	struct hk_topology *t = r->t;
	bool ours = node == t->self;
	char *rest = NULL;

	if (ours && r->line)
		return hk_error_set(err, -EINVAL,
				    "topology %s, line %u: node %u has a line already, line %u; "
				    "fix: give each node one line",
				    path, line, node, r->line);
	r->line = ours ? line : r->line;
	/* other nodes' lines are checked too: one wrong file fails everywhere, not on one node */
	for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
		int n = hk_lines_node(w, t->nodes);
		if (n < 0 || n == node)
			return hk_error_set(
				err, -EINVAL,
				"topology %s, line %u: '%.40s' cannot be a neighbour of node %u; "
				"fix: name nodes from 0 to %u, and not the node itself",
				path, line, w, node, t->nodes - 1u);
		unsigned i = 0;
		while (ours && i < t->listed_n && t->listed[i] != n)
			i++;
		if (ours && i == t->listed_n)
			t->listed[t->listed_n++] = (uint16_t)n;
	}
	return 0;
}

int hk_topology_init(struct hk_topology *t, const struct hk_rtc_config *cfg, struct hk_error *err)
{
	struct reading r = {.t = t};

	*t = (struct hk_topology){.kind = cfg->topology,
				  .self = cfg->node,
				  .nodes = cfg->nodes,
				  .degree = cfg->degree ? cfg->degree : 2,
				  .seed = cfg->seed};
	if (t->kind > HK_RTC_FILE)
		return hk_error_set(err, -EINVAL,
				    "%d is no topology; fix: take one of enum hk_rtc_topology",
				    (int)t->kind);
	if (t->kind == HK_RTC_FILE && !cfg->topology_file)
		return hk_error_set(err, -EINVAL,
				    "the topology is that of a file, and none is given; "
				    "fix: set topology_file");
	t->members = calloc(t->nodes, sizeof(*t->members));
	t->order = calloc(t->nodes, sizeof(*t->order));
	t->drawn = calloc(t->nodes, sizeof(*t->drawn));
	t->neighbour = calloc(t->nodes, sizeof(*t->neighbour));
	t->listed = calloc(t->nodes, sizeof(*t->listed));
	if (!t->members || !t->order || !t->drawn || !t->neighbour || !t->listed) {
		hk_topology_free(t);
		return hk_error_set(err, -ENOMEM, "no memory for a topology of %u nodes", t->nodes);
	}
	if (t->kind != HK_RTC_FILE)
		return 0;
	int rc = hk_lines_read(cfg->topology_file, "topology", t->nodes, on_line, &r, err);
	if (rc == 0 && !r.line)
		rc = hk_error_set(err, -EINVAL,
				  "topology %s: there is no line for node %u; fix: add one; a node "
				  "without neighbours has its number alone",
				  cfg->topology_file, t->self);
	if (rc)
		hk_topology_free(t);
	return rc;
}

void hk_topology_free(struct hk_topology *t)
{
	free(t->members);
	free(t->order);
	free(t->drawn);
	free(t->neighbour);
	free(t->listed);
	*t = (struct hk_topology){0};
}

/* ---- neighbours ------------------------------------------------------------------------------ */

static void add(struct hk_topology *t, uint16_t node)
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

/* `order` becomes the members in the order of what is drawn for each: a member that comes or goes changes its own
 * place only. */
static int by_draw(const void *a, const void *b, void *arg)
{
	const uint64_t *drawn = arg;
	uint16_t x = *(const uint16_t *)a, y = *(const uint16_t *)b;
	if (drawn[x] != drawn[y])
		return drawn[x] < drawn[y] ? -1 : 1;
	return (x > y) - (x < y);
}

static unsigned shuffle(struct hk_topology *t, unsigned n, unsigned round)
{
	unsigned self = 0;
	for (unsigned i = 0; i < n; i++) {
		uint64_t state = t->seed ^ ((uint64_t)round << 32 | t->members[i]);
		(void)hk_draw(&state);
		t->drawn[t->members[i]] = hk_draw(&state);
		t->order[i] = t->members[i];
	}
	qsort_r(t->order, n, sizeof(*t->order), by_draw, t->drawn);
	while (t->order[self] != t->self)
		self++;
	return self;
}

static void random_neighbours(struct hk_topology *t, unsigned n)
{
	unsigned round = 0;
	for (; round < t->degree / 2; round++) {
		unsigned at = shuffle(t, n, round);
		add(t, t->order[(at + 1) % n]);
		add(t, t->order[(at + n - 1) % n]);
	}
	if (t->degree % 2) {
		unsigned at = shuffle(t, n, round);
		if ((at ^ 1) < n) /* the last of an odd number stays without */
			add(t, t->order[at ^ 1]);
	}
}

void hk_topology_update(struct hk_topology *t, const uint16_t *epoch)
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

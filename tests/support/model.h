/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/model.h: a model checker for a few threads (*sides*) on a machine with store
 * buffers.
 *
 * It visits every reachable state once, so it finds the rare states that a real processor reaches
 * once in years. The machine is that of x86 (TSO; Sewell et al., "x86-TSO", CACM 2010):
 *
 *  - A store goes into its side's buffer, in order, and reaches memory at any later time.
 *  - A load sees the newest store in its own side's buffer; if there is none, it sees memory.
 *  - A locked instruction or a system call needs an empty buffer of its side.
 *  - membarrier(2) waits until the buffer of each other side has been empty at some moment of the
 *    call. In a model that is one step, which is possible while all buffers are empty.
 *
 * A test defines MODEL_SIDES, MODEL_VARS, MODEL_MOVES and MODEL_STATE, further members of a state.
 * Then it includes this file and defines three functions. model_move() makes one of MODEL_MOVES
 * steps, or returns false if that step is not possible. model_at_end() says whether a state is an
 * end. model_visit() gets every state once.
 */
#ifndef HK_MODEL_H
#define HK_MODEL_H

#include "tests/support/hk_test.h"

#define MODEL_BUFFER 6 /* stores; more would show nothing new */

struct machine {
	uint8_t memory[MODEL_VARS];
	struct {
		uint8_t n;
		uint8_t store[MODEL_BUFFER]; /* var << 2 | value, the oldest first */
	} buffer[MODEL_SIDES];
	uint8_t pc[MODEL_SIDES];
	uint8_t turns[MODEL_SIDES]; /* how many are left */
	MODEL_STATE
};

struct variant;
static bool model_move(struct machine *m, const struct variant *v, unsigned how);
static bool model_at_end(const struct machine *m);
static void model_visit(const struct machine *m);

/* ---- the machine ----------------------------------------------------------------------------- */

static inline bool store(struct machine *m, unsigned side, unsigned var, unsigned value)
{
	if (m->buffer[side].n == MODEL_BUFFER)
		return false; /* the buffer is full */
	m->buffer[side].store[m->buffer[side].n++] = (uint8_t)(var << 2 | value);
	return true;
}

static inline unsigned load(const struct machine *m, unsigned side, unsigned var)
{
	for (unsigned i = m->buffer[side].n; i-- > 0;)
		if (m->buffer[side].store[i] >> 2 == var)
			return m->buffer[side].store[i] & 3;
	return m->memory[var];
}

/* The oldest store of @side reaches memory. */
static inline bool drain(struct machine *m, unsigned side)
{
	if (m->buffer[side].n == 0)
		return false;
	m->memory[m->buffer[side].store[0] >> 2] = m->buffer[side].store[0] & 3;
	m->buffer[side].n--;
	memmove(m->buffer[side].store, m->buffer[side].store + 1, m->buffer[side].n);
	m->buffer[side].store[m->buffer[side].n] = 0; /* equal states have equal bytes */
	return true;
}

static inline bool all_drained(const struct machine *m)
{
	for (unsigned s = 0; s < MODEL_SIDES; s++)
		if (m->buffer[s].n)
			return false;
	return true;
}

/* ---- all states ------------------------------------------------------------------------------ */

#define MODEL_TABLE (1u << 22)

static struct model_node {
	struct machine m;
	uint32_t next[MODEL_MOVES]; /* number of the next state, plus one; 0: not possible */
	bool ends;                  /* an end is reachable from here */
} * model_nodes;

static uint32_t *model_table, model_count;

static uint32_t model_hash(const struct machine *m)
{
	const uint8_t *p = (const uint8_t *)m;
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < sizeof(*m); i++)
		h = (h ^ p[i]) * UINT64_C(0x100000001b3);
	return (uint32_t)(h ^ h >> 32) % MODEL_TABLE;
}

/* The number of state @m. A new state gets the next number. */
static uint32_t model_state(const struct machine *m)
{
	uint32_t at = model_hash(m);

	for (; model_table[at]; at = (at + 1) % MODEL_TABLE)
		if (memcmp(&model_nodes[model_table[at] - 1].m, m, sizeof(*m)) == 0)
			return model_table[at] - 1;
	CHECK(model_count < MODEL_TABLE / 2);
	model_nodes[model_count] = (struct model_node){.m = *m};
	model_table[at] = ++model_count;
	return model_count - 1;
}

/* Marks every state from which an end is reachable. Repeats until nothing changes. */
static void model_find_ends(void)
{
	for (bool changed = true; changed;) {
		changed = false;
		for (uint32_t i = model_count; i-- > 0;) {
			if (model_nodes[i].ends)
				continue;
			bool ends = model_at_end(&model_nodes[i].m);

			for (int k = 0; k < MODEL_MOVES && !ends; k++)
				ends = model_nodes[i].next[k] &&
				       model_nodes[model_nodes[i].next[k] - 1].ends;
			model_nodes[i].ends = ends;
			changed |= ends;
		}
	}
}

struct model_size {
	uint32_t states;
	uint32_t stuck; /* states from which no end is reachable */
};

/* Visits all states that are reachable from @start. The model does not show how soon a state is
 * reached: that depends on the scheduler. */
static struct model_size model_explore(const struct machine *start, const struct variant *v)
{
	struct model_size size = {0};

	model_nodes = malloc(MODEL_TABLE / 2 * sizeof(*model_nodes));
	model_table = calloc(MODEL_TABLE, sizeof(*model_table));
	CHECK(model_nodes && model_table);
	model_count = 0;
	model_state(start);
	for (uint32_t i = 0; i < model_count; i++) {
		for (unsigned k = 0; k < MODEL_MOVES; k++) {
			struct machine m = model_nodes[i].m;

			if (model_move(&m, v, k))
				model_nodes[i].next[k] = model_state(&m) + 1;
		}
		model_visit(&model_nodes[i].m);
	}
	model_find_ends();
	for (uint32_t i = 0; i < model_count; i++)
		size.stuck += !model_nodes[i].ends;
	size.states = model_count;
	free(model_nodes);
	free(model_table);
	return size;
}

#endif

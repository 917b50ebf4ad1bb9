/* SPDX-License-Identifier: BSD-3-Clause */
#include "libfabric/match.h"
#include "tests/support/hk_test.h"
#include "match_model.h"

#include <stdlib.h>

/* Of the model: everything that ever came, in the order in which it came. */
struct entry {
	struct hk_match_item item;
	bool is_receive, gone;
};

struct both {
	struct entry *entry;
	size_t count;
	struct hk_match_list posted, unexpected;
};

static bool agree(const struct entry *receive, const struct entry *message)
{
	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t one = UINT64_C(1) << bit;

		if (!(receive->item.ignore & one) &&
		    (receive->item.tag & one) != (message->item.tag & one))
			return false;
	}
	return receive->item.source == HK_MATCH_ANY || receive->item.source == message->item.source;
}

/* The oldest one of the other kind that fits @e. */
static struct entry *expected(struct both *b, const struct entry *e)
{
	for (size_t i = 0; i < b->count; i++) {
		struct entry *other = &b->entry[i];

		if (!other->gone && other->is_receive != e->is_receive &&
		    (e->is_receive ? agree(e, other) : agree(other, e)))
			return other;
	}
	return NULL;
}

static void withdraw(struct both *b, size_t n)
{
	for (size_t i = 0; i < b->count; i++) {
		struct entry *e = &b->entry[i];

		if (e->gone || n-- > 0)
			continue;
		hk_match_remove(e->is_receive ? &b->posted : &b->unexpected, &e->item);
		e->gone = true;
		return;
	}
}

static bool add(struct both *b, const uint8_t *data)
{
	struct entry *e = &b->entry[b->count], *right;
	struct hk_match_list *others, *own;
	struct hk_match_item *found;

	e->is_receive = data[0] & 1;
	/* few tags and sources, in the upper and the lower half, so that many fit */
	e->item.tag = (uint64_t)(data[1] & 3) << 62 | (data[1] >> 2 & 3);
	e->item.source = data[2] & 3;
	e->item.ignore = 0;
	if (e->is_receive && data[2] & 4)
		e->item.source = HK_MATCH_ANY;
	if (e->is_receive)
		e->item.ignore = (uint64_t)(data[2] >> 4 & 3) << 62 | data[2] >> 6;
	others = e->is_receive ? &b->unexpected : &b->posted;
	own = e->is_receive ? &b->posted : &b->unexpected;
	right = expected(b, e);
	found = e->is_receive ? hk_match_receive(others, &e->item)
			      : hk_match_message(others, &e->item);
	CHECK(found == (right ? &right->item : NULL));
	e->gone = right != NULL;
	if (right) {
		hk_match_remove(others, found);
		right->gone = true;
	} else {
		hk_match_append(own, &e->item);
	}
	b->count++;
	return right != NULL;
}

size_t match_by_both(const uint8_t *data, size_t size)
{
	struct both b = {.entry = calloc(size / 3 + 1, sizeof(*b.entry))};
	size_t met = 0;

	CHECK(b.entry != NULL);
	hk_match_init(&b.posted);
	hk_match_init(&b.unexpected);
	for (; size >= 3; data += 3, size -= 3)
		if (data[0] >= 230)
			withdraw(&b, data[1]);
		else
			met += add(&b, data);
	free(b.entry);
	return met;
}

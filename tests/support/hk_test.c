/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/hk_test.c: main() of the test programs; see hk_test.h. */
#include "tests/support/hk_test.h"

struct hk_test_around hk_test_around;
static struct hk_test_entry *tests, *roles;

/* Constructors run in no particular order. */
static void add(struct hk_test_entry **list, struct hk_test_entry *t)
{
	while (*list && (*list)->line < t->line)
		list = &(*list)->next;
	t->next = *list;
	*list = t;
}

void hk_test_add(struct hk_test_entry *t)
{
	add(&tests, t);
}

void hk_test_add_role(struct hk_test_entry *t)
{
	add(&roles, t);
}

static struct hk_test_entry *find(struct hk_test_entry *list, const char *name)
{
	while (list && strcmp(list->name, name) != 0)
		list = list->next;
	return list;
}

static void around(void (*fn)(void))
{
	if (fn)
		fn();
}

static void run(const struct hk_test_entry *t)
{
	hk_test_now.test = t->name;
	hk_test_rng.state = hk_test_now.seed;
	t->run.test();
	around(hk_test_around.after_each);
	printf("ok %s\n", t->name);
}

int main(int argc, char **argv)
{
	const char *env = getenv("HK_SEED");
	bool all = true;

	hk_test_now.program = argv[0];
	hk_test_now.seed = env ? hk_test_seed_from(env) : 1;
	if (argc > 2 && strcmp(argv[1], "--role") == 0 && find(roles, argv[2])) {
		hk_test_now.test = argv[2];
		find(roles, argv[2])->run.role(argv + 3);
		return 0;
	}
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
			hk_test_now.seed = hk_test_seed_from(argv[++i]);
		} else if (strcmp(argv[i], "--list") == 0) {
			for (const struct hk_test_entry *t = tests; t; t = t->next)
				puts(t->name);
			return 0;
		} else if (!find(tests, argv[i])) {
			fprintf(stderr, "no test '%s'; %s --list names them\n", argv[i], argv[0]);
			return 2;
		} else {
			all = false;
		}
	}
	around(hk_test_around.before_all);
	for (const struct hk_test_entry *t = tests; t; t = t->next) {
		bool wanted = all;

		for (int i = 1; i < argc; i++)
			wanted |= strcmp(argv[i], t->name) == 0;
		if (wanted)
			run(t);
	}
	around(hk_test_around.after_all);
	return 0;
}

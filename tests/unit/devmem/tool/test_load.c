/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/devmem/tool/test_load.c: the network that learns, checked by its gradients, its bytes
 * and its loss; and the threads of a load.
 */
#include "base/clock.h"
#include "devmem/tool/load.h"
#include "tests/support/hk_test.h"

#include <errno.h>
#include <math.h>
#include <sched.h>

#define MB      ((size_t)1 << 20)
#define BLOCK   (HK_TRAIN_BLOCK * 4) /* bytes */
#define MOVE    1e-2f                /* of a weight, to measure a gradient */
#define WAIT_MS 20000

static const atomic_bool never;

static void *network(struct hk_train *t, size_t bytes)
{
	void *memory = aligned_alloc(64, bytes);

	CHECK(memory);
	memset(memory, 0, bytes);
	CHECK(hk_train_init(t, memory, bytes, (uint32_t)hk_rng_next(&hk_test_rng)));
	return memory;
}

/* The loss for the drawn batch, with one weight moved. The gradients stay as they are. */
static double moved_loss(struct hk_train *t, size_t weight, float by)
{
	struct hk_traffic unused = {0};
	size_t bytes = t->layers * BLOCK;
	float *saved = malloc(bytes), was = t->weights[weight];

	CHECK(saved);
	memcpy(saved, t->gradients, bytes);
	t->weights[weight] = was + by;
	double loss = (double)hk_train_pass(t, &never, &unused);
	t->weights[weight] = was;
	memcpy(t->gradients, saved, bytes);
	free(saved);
	return loss;
}

TEST(gradients_are_those_of_the_loss)
{
	struct hk_train t;
	struct hk_traffic unused = {0};
	void *memory = network(&t, 4 * BLOCK * 4);
	unsigned near = 0, checked = 0;

	CHECK(t.layers >= 2);
	hk_train_draw(&t);
	(void)hk_train_pass(&t, &never, &unused);
	for (unsigned i = 0; i < 200; i++) {
		size_t at = (size_t)hk_rng_below(&hk_test_rng, t.layers * HK_TRAIN_BLOCK);
		double by_loss = (moved_loss(&t, at, MOVE) - moved_loss(&t, at, -MOVE)) /
				 (2 * (double)MOVE);
		double is = (double)t.gradients[at];
		if (fabs(by_loss) < 1e-4)
			continue; /* below what a float's loss can show */
		checked++;
		near += fabs(is - by_loss) < 0.1 * fabs(by_loss) + 2e-5;
	}
	/* a weight may move an output of relu past 0 */
	CHECK_MSG(checked > 50 && near * 10 >= checked * 9, "%u of %u gradients", near, checked);
	free(memory);
}

TEST(a_step_moves_the_documented_bytes)
{
	for (size_t bytes = MB / 4; bytes <= 4 * MB; bytes *= 2) {
		struct hk_train t;
		struct hk_traffic traffic = {0};
		void *memory = network(&t, bytes);
		(void)hk_train_step(&t, &never, &traffic);
		CHECK_EQ(traffic.read, t.layers * BLOCK * 23 / 2);
		CHECK_EQ(traffic.written, t.layers * BLOCK * 7);
		/* the network fills its memory: less than a layer is left */
		CHECK(hk_train_layers(bytes) == t.layers &&
		      hk_train_layers(bytes - 9 * BLOCK / 2) == t.layers - 1);
		free(memory);
	}
	CHECK_EQ(hk_train_layers(BLOCK), 0);
}

TEST(a_network_of_any_depth_learns)
{
	for (size_t bytes = MB / 4; bytes <= MB / 2; bytes *= 2) {
		struct hk_train t;
		struct hk_traffic unused = {0};
		void *memory = network(&t, bytes);
		float first = hk_train_step(&t, &never, &unused), last = first;
		for (unsigned i = 0; i < 100; i++)
			last = hk_train_step(&t, &never, &unused);
		CHECK_MSG(last < 0.6f * first, "%u layers: %f, then %f", t.layers, (double)first,
			  (double)last);
		free(memory);
	}
}

/* The first core that this process may use. */
static unsigned allowed_core(void)
{
	cpu_set_t set;
	unsigned core = 0;

	CHECK_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
	while (!CPU_ISSET(core, &set))
		core++;
	return core;
}

/* Waits until this process has used @ms of CPU time more. */
static void burn(int64_t ms)
{
	struct timespec used;
	int64_t limit = hk_clock_ms() + WAIT_MS, end = 0, now;

	do {
		CHECK(hk_clock_ms() < limit);
		sched_yield();
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
		now = used.tv_sec * 1000 + used.tv_nsec / 1000000;
		end = end ? end : now + ms;
	} while (now < end);
}

/* Runs a load on @core for @ms of CPU time. Returns the bytes of all its threads. */
static struct hk_traffic run(enum hk_devmem_load what, unsigned core, int64_t ms)
{
	static struct hk_devmem_load_done done[HK_DEVMEM_LOAD_THREADS];
	struct hk_devmem_load_config c = {
		.what = what, .threads = 3, .mb = 1, .cores = 3, .core = {core, core, core}};
	struct hk_traffic all = {0};

	CHECK_OK(hk_devmem_load_start(&c, ERR));
	burn(ms);
	CHECK_EQ(hk_devmem_load_stop(done), 3);
	CHECK_EQ(hk_devmem_load_stop(done), 0);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(done[i].core, (int)core);
		CHECK(done[i].seconds > 0);
		all.read += done[i].traffic.read;
		all.written += done[i].traffic.written;
	}
	return all;
}

/* A busy machine may give the threads little of the time, so it doubles until they have counted. */
TEST(loads_read_and_write_as_their_names_say)
{
	unsigned core = allowed_core();

	for (unsigned what = HK_DEVMEM_LOAD_READ; what < HK_DEVMEM_LOADS; what++) {
		bool reads = what != HK_DEVMEM_LOAD_WRITE, writes = what != HK_DEVMEM_LOAD_READ;
		struct hk_traffic all = {0};
		for (int64_t ms = 20; (reads && !all.read) || (writes && !all.written); ms *= 2) {
			CHECK(ms < WAIT_MS);
			all = run((enum hk_devmem_load)what, core, ms);
		}
		CHECK(reads == (all.read > 0) && writes == (all.written > 0));
	}
}

TEST(no_threads_are_the_baseline)
{
	static struct hk_devmem_load_done done[HK_DEVMEM_LOAD_THREADS];
	struct hk_devmem_load_config c = {.what = HK_DEVMEM_LOAD_NETWORK, .mb = 1};

	CHECK_OK(hk_devmem_load_start(&c, ERR));
	CHECK_EQ(hk_devmem_load_stop(done), 0);
	c = (struct hk_devmem_load_config){.what = HK_DEVMEM_LOAD_NOTHING, .threads = 2, .mb = 1};
	CHECK_OK(hk_devmem_load_start(&c, ERR));
	CHECK_EQ(hk_devmem_load_stop(done), 0);
}

TEST(cores_that_cannot_be_used_are_refused)
{
	static struct hk_devmem_load_done done[HK_DEVMEM_LOAD_THREADS];
	struct hk_devmem_load_config c = {.what = HK_DEVMEM_LOAD_WRITE,
					  .threads = 2,
					  .mb = 1,
					  .cores = 2,
					  .core = {allowed_core(), CPU_SETSIZE - 1}};

	CHECK_REFUSED(hk_devmem_load_start(&c, ERR), -EINVAL,
		      "thread 1 of the CPU's load cannot run on core 1023; fix: ");
	CHECK_EQ(hk_devmem_load_stop(done), 0);
	c.cores = 1;
	CHECK_REFUSED(hk_devmem_load_start(&c, ERR), -EINVAL,
		      "2 threads of the CPU's load have 1 cores; fix: ");
}

TEST(lists_of_cores)
{
	static const char *const bad[] = {"",  ",",  "1,",    "1,,2", "3-1",   "-1", "1-",
					  "a", "1 ", "0-256", "1024", "1-2-3", "+1"};
	struct hk_devmem_load_config c;

	CHECK(hk_devmem_load_cores("2,4-6", &c));
	CHECK_EQ(c.cores, 4);
	CHECK(c.core[0] == 2 && c.core[1] == 4 && c.core[2] == 5 && c.core[3] == 6);
	CHECK(hk_devmem_load_cores("0-255", &c));
	CHECK_EQ(c.cores, HK_DEVMEM_LOAD_THREADS);
	for (size_t i = 0; i < HK_ARRAY_LEN(bad); i++)
		CHECK_MSG(!hk_devmem_load_cores(bad[i], &c), "'%s' was taken", bad[i]);
}

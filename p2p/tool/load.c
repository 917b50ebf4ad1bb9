/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/tool/load.c: the loads. Training is linear regression by stochastic gradient descent over a model as large
 * as the memory given, so that each step reads and writes all of it.
 */
#include "p2p/tool/load.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[HK_LOADS] = {"nothing", "read", "write", "train"};

static struct {
	enum hk_load what;
	size_t size;
	unsigned char *memory;
	pthread_t thread;
	atomic_bool stop;
	bool running;
	struct hk_load_done done;
} load;

const char *hk_load_name(enum hk_load what)
{
	return what < HK_LOADS ? names[what] : "?";
}

enum hk_load hk_load_find(const char *name)
{
	unsigned i = 0;
	while (i < HK_LOADS && strcmp(names[i], name) != 0)
		i++;
	return (enum hk_load)i;
}

static void read_all(void)
{
	const volatile uint64_t *p = (const volatile uint64_t *)(const void *)load.memory;
	uint64_t sum = 0;

	for (size_t i = 0; i < load.size / 8; i += 8)
		sum += p[i];
	(void)sum;
	load.done.bytes += load.size;
}

static void write_all(unsigned round)
{
	memset(load.memory, (int)(round & 0xff), load.size);
	load.done.bytes += load.size;
}

/* One step: an example x with entries of ±1, whose answer is that of a model of ones; w moves against the
 * gradient of the squared error. */
static void train_step(unsigned round)
{
	float *w = (float *)(void *)load.memory, said = 0, want = 0;
	size_t n = load.size / sizeof(*w);
	uint32_t start = round * 2654435761u + 1, bits = start;

	for (size_t i = 0; i < n; i++) {
		bits = bits * 1664525u + 1013904223u;
		float x = bits >> 31 ? 1.0f : -1.0f;
		said += w[i] * x;
		want += x;
	}
	float error = said - want, step = 0.5f * error / (float)n;
	bits = start;
	for (size_t i = 0; i < n; i++) {
		bits = bits * 1664525u + 1013904223u;
		w[i] -= bits >> 31 ? step : -step;
	}
	load.done.last_loss = error * error;
	if (round == 0)
		load.done.first_loss = load.done.last_loss;
	load.done.bytes += 3 * load.size;
}

static void *work(void *arg)
{
	(void)arg;
	for (unsigned round = 0; !atomic_load_explicit(&load.stop, memory_order_relaxed); round++) {
		if (load.what == HK_LOAD_READ)
			read_all();
		else if (load.what == HK_LOAD_WRITE)
			write_all(round);
		else
			train_step(round);
	}
	return NULL;
}

int hk_load_start(enum hk_load what, unsigned mb, struct hk_error *err)
{
	load.what = what;
	load.size = (size_t)mb << 20;
	load.done = (struct hk_load_done){0};
	atomic_store(&load.stop, false);
	if (what == HK_LOAD_NOTHING)
		return 0;
	load.memory = calloc(1, load.size);
	if (!load.memory)
		return hk_error_set(err, -ENOMEM,
				    "no %u MB for the CPU's load; fix: a smaller --load-mb", mb);
	int rc = pthread_create(&load.thread, NULL, work, NULL);
	if (rc) {
		free(load.memory);
		return hk_error_set(err, -rc,
				    "no thread for the CPU's load: %s; fix: raise ulimit -u",
				    strerror(rc));
	}
	load.running = true;
	return 0;
}

void hk_load_stop(struct hk_load_done *done)
{
	if (load.running) {
		atomic_store(&load.stop, true);
		pthread_join(load.thread, NULL);
		free(load.memory);
		load.running = false;
	}
	*done = load.done;
}

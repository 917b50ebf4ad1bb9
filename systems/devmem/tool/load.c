/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/load.c: the loads. Training is linear regression by stochastic gradient descent. The
 * model fills the given memory, so that each step reads and writes all of it.
 */
#include "devmem/tool/load.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[HK_DEVMEM_LOADS] = {"nothing", "read", "write", "train"};

static struct {
	enum hk_devmem_load what;
	size_t size;
	unsigned char *memory;
	pthread_t thread;
	atomic_bool stop;
	bool running;
	struct hk_devmem_load_done done;
} load;

const char *hk_devmem_load_name(enum hk_devmem_load what)
{
	return what < HK_DEVMEM_LOADS ? names[what] : "?";
}

enum hk_devmem_load hk_devmem_load_find(const char *name)
{
	unsigned i = 0;
	while (i < HK_DEVMEM_LOADS && strcmp(names[i], name) != 0)
		i++;
	return (enum hk_devmem_load)i;
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

/* One step of training. An example x has entries of ±1, and its target is the answer of a model of
 * ones. The step moves w against the gradient of the squared error. */
static void train_step(unsigned round)
{
	float *w = (float *)(void *)load.memory, predicted = 0, target = 0;
	size_t n = load.size / sizeof(*w);
	uint32_t start = round * 2654435761u + 1, bits = start;

	for (size_t i = 0; i < n; i++) {
		bits = bits * 1664525u + 1013904223u;
		float x = bits >> 31 ? 1.0f : -1.0f;
		predicted += w[i] * x;
		target += x;
	}
	float error = predicted - target, step = 0.5f * error / (float)n;
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
		if (load.what == HK_DEVMEM_LOAD_READ)
			read_all();
		else if (load.what == HK_DEVMEM_LOAD_WRITE)
			write_all(round);
		else
			train_step(round);
	}
	return NULL;
}

int hk_devmem_load_start(enum hk_devmem_load what, unsigned mb, struct hk_error *err)
{
	load.what = what;
	load.size = (size_t)mb << 20;
	load.done = (struct hk_devmem_load_done){0};
	atomic_store(&load.stop, false);
	if (what == HK_DEVMEM_LOAD_NOTHING)
		return 0;
	load.memory = calloc(1, load.size);
	if (!load.memory)
		return hk_error_set(err, -ENOMEM,
				    "no %u MB for the CPU's load; fix: give a smaller --load-mb",
				    mb);
	int rc = pthread_create(&load.thread, NULL, work, NULL);
	if (rc) {
		free(load.memory);
		return hk_error_set(
			err, -rc,
			"cannot start a thread for the CPU's load: %s; fix: raise `ulimit -u`",
			strerror(rc));
	}
	load.running = true;
	return 0;
}

void hk_devmem_load_stop(struct hk_devmem_load_done *done)
{
	if (load.running) {
		atomic_store(&load.stop, true);
		pthread_join(load.thread, NULL);
		free(load.memory);
		load.running = false;
	}
	*done = load.done;
}

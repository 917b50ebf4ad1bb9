/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/load.c: the loads and their threads. A thread works in pieces of 1 MB, so that its
 * count of bytes is exact and it stops soon.
 */
#include "devmem/tool/load.h"
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)1 << 20)

static const char *const names[HK_DEVMEM_LOADS] = {"nothing", "read", "write", "train", "network"};

struct worker {
	unsigned number, round;
	unsigned char *memory;
	pthread_t thread;
	struct hk_train network;
	struct hk_devmem_load_done done;
};

static struct {
	enum hk_devmem_load what;
	size_t size; /* bytes of each worker */
	unsigned threads;
	struct worker *worker;
	atomic_bool stop;
	uint64_t started;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned ready; /* workers that have filled their memory; under `lock` */
	bool go;        /* all may begin; under `lock` */
} load = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

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

bool hk_devmem_load_cores(const char *text, struct hk_devmem_load_config *c)
{
	for (c->cores = 0;; text++) {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (end == text || *text == '-' || *text == '+')
			return false;
		if (*end == '-') {
			text = end + 1;
			last = strtoul(text, &end, 10);
			if (end == text || *text == '-' || *text == '+')
				return false;
		}
		if (last < first || last >= CPU_SETSIZE ||
		    last - first >= HK_DEVMEM_LOAD_THREADS - c->cores)
			return false;
		while (first <= last)
			c->core[c->cores++] = (unsigned)first++;
		if (*end != ',')
			return *end == '\0';
		text = end;
	}
}

static bool stopped(void)
{
	return atomic_load_explicit(&load.stop, memory_order_relaxed);
}

/* ---- the loads ------------------------------------------------------------------------------- */

static void read_all(struct worker *w)
{
	for (size_t at = 0; at < load.size && !stopped(); at += PIECE) {
		const volatile uint64_t *p = (const volatile void *)(w->memory + at);
		uint64_t sum = 0;
		for (size_t i = 0; i < PIECE / 8; i += 8)
			sum += p[i];
		(void)sum;
		w->done.traffic.read += PIECE;
	}
}

static void write_all(struct worker *w)
{
	for (size_t at = 0; at < load.size && !stopped(); at += PIECE) {
		memset(w->memory + at, (int)(w->round & 0xff), PIECE);
		w->done.traffic.written += PIECE;
	}
}

static void note_loss(struct worker *w, float loss)
{
	if (w->round == 0)
		w->done.first_loss = loss;
	w->done.last_loss = loss;
}

/* One step of linear regression by stochastic gradient descent. An example x has entries of ±1, and
 * its target is the answer of a model of ones. The step moves the model against the gradient of the
 * squared error. */
static void train_step(struct worker *w)
{
	const size_t in_piece = PIECE / sizeof(float), n = load.size / sizeof(float);
	float *model = (float *)(void *)w->memory, predicted = 0, target = 0;
	uint32_t start = (w->round + w->number * 7919u) * 2654435761u + 1, bits = start;

	for (size_t at = 0; at < n && !stopped(); at += in_piece) {
		for (size_t i = at; i < at + in_piece; i++) {
			bits = bits * 1664525u + 1013904223u;
			float x = bits >> 31 ? 1.0f : -1.0f;
			predicted += model[i] * x;
			target += x;
		}
		w->done.traffic.read += PIECE;
	}
	float error = predicted - target, step = 0.5f * error / (float)n;
	bits = start;
	for (size_t at = 0; at < n && !stopped(); at += in_piece) {
		for (size_t i = at; i < at + in_piece; i++) {
			bits = bits * 1664525u + 1013904223u;
			model[i] -= bits >> 31 ? step : -step;
		}
		w->done.traffic.read += PIECE;
		w->done.traffic.written += PIECE;
	}
	if (!stopped())
		note_loss(w, error * error);
}

static void network_step(struct worker *w)
{
	float loss = hk_train_step(&w->network, &load.stop, &w->done.traffic);

	if (!stopped())
		note_loss(w, loss);
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Touches the memory from the worker's own core, so that it is near that core. */
static void fill(struct worker *w)
{
	memset(w->memory, 0, load.size);
	if (load.what == HK_DEVMEM_LOAD_NETWORK)
		(void)hk_train_init(&w->network, w->memory, load.size, w->number + 1);
}

static void *work(void *arg)
{
	static void (*const step[HK_DEVMEM_LOADS])(struct worker *) = {
		[HK_DEVMEM_LOAD_READ] = read_all,
		[HK_DEVMEM_LOAD_WRITE] = write_all,
		[HK_DEVMEM_LOAD_TRAIN] = train_step,
		[HK_DEVMEM_LOAD_NETWORK] = network_step};
	struct worker *w = arg;

	fill(w);
	pthread_mutex_lock(&load.lock);
	load.ready++;
	pthread_cond_broadcast(&load.changed);
	while (!load.go)
		pthread_cond_wait(&load.changed, &load.lock);
	pthread_mutex_unlock(&load.lock);
	for (; !stopped(); w->round++)
		step[load.what](w);
	w->done.seconds = (double)(hk_clock_ns() - load.started) / HK_SEC;
	return NULL;
}

static int start_one(struct worker *w, const struct hk_devmem_load_config *c, struct hk_error *err)
{
	pthread_attr_t attr;
	cpu_set_t set;
	int rc;

	w->memory = aligned_alloc(64, load.size);
	if (!w->memory)
		return hk_error_set(err, -ENOMEM,
				    "no %u MB for thread %u of the CPU's load; fix: give a smaller "
				    "--load-mb",
				    c->mb, w->number);
	pthread_attr_init(&attr);
	w->done.core = -1;
	if (c->cores) {
		w->done.core = (int)c->core[w->number];
		CPU_ZERO(&set);
		CPU_SET(c->core[w->number], &set);
		pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
	}
	rc = pthread_create(&w->thread, &attr, work, w);
	pthread_attr_destroy(&attr);
	if (rc == 0)
		return 0;
	free(w->memory);
	if (rc == EINVAL && c->cores)
		return hk_error_set(err, -EINVAL,
				    "thread %u of the CPU's load cannot run on core %u; fix: give "
				    "--load-cores of this process (`taskset -cp $$`)",
				    w->number, c->core[w->number]);
	return hk_error_set(err, -rc,
			    "cannot start thread %u of the CPU's load: %s; fix: raise `ulimit -u`",
			    w->number, strerror(rc));
}

static void let_go(void)
{
	pthread_mutex_lock(&load.lock);
	load.started = hk_clock_ns();
	load.go = true;
	pthread_cond_broadcast(&load.changed);
	pthread_mutex_unlock(&load.lock);
}

int hk_devmem_load_start(const struct hk_devmem_load_config *c, struct hk_error *err)
{
	load.threads = 0;
	if (c->what == HK_DEVMEM_LOAD_NOTHING || c->threads == 0)
		return 0;
	if (c->cores && c->cores < c->threads)
		return hk_error_set(err, -EINVAL,
				    "%u threads of the CPU's load have %u cores; fix: name a core "
				    "for each in --load-cores, or leave it out",
				    c->threads, c->cores);
	load.what = c->what;
	load.size = (size_t)c->mb << 20;
	load.ready = 0;
	load.go = false;
	atomic_store(&load.stop, false);
	load.worker = calloc(c->threads, sizeof(*load.worker));
	if (!load.worker)
		return hk_error_set(err, -ENOMEM, "no memory for %u threads", c->threads);
	int rc = 0;
	for (; load.threads < c->threads; load.threads++) {
		load.worker[load.threads].number = load.threads;
		rc = start_one(&load.worker[load.threads], c, err);
		if (rc)
			break;
	}
	if (rc) {
		struct hk_devmem_load_done unused[HK_DEVMEM_LOAD_THREADS];
		atomic_store(&load.stop, true);
		let_go();
		(void)hk_devmem_load_stop(unused);
		free(load.worker); /* if not even the first thread has started */
		load.worker = NULL;
		return rc;
	}
	pthread_mutex_lock(&load.lock);
	while (load.ready < load.threads)
		pthread_cond_wait(&load.changed, &load.lock);
	pthread_mutex_unlock(&load.lock);
	let_go();
	return 0;
}

unsigned hk_devmem_load_stop(struct hk_devmem_load_done done[HK_DEVMEM_LOAD_THREADS])
{
	unsigned n = load.threads;

	atomic_store(&load.stop, true);
	for (unsigned i = 0; i < n; i++) {
		pthread_join(load.worker[i].thread, NULL);
		free(load.worker[i].memory);
		done[i] = load.worker[i].done;
	}
	if (n) {
		free(load.worker);
		load.worker = NULL;
	}
	load.threads = 0;
	return n;
}

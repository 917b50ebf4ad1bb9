/* SPDX-License-Identifier: BSD-3-Clause */
/* openmpi/osc/state.c: the state of a window, and the segment that it lies in (state.h). */
#include "openmpi/osc/state.h"

#include "base/common.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE  4096u
#define TRIES 1000 /* names */

#define ROUND_UP(n, to) (((n) + (to)-1) / (to) * (to))

/* Where the arrays begin. */
#define WAITERS ROUND_UP(sizeof(struct hk_osc_state), 64)

static size_t ranks_at(uint32_t ranks)
{
	return ROUND_UP(WAITERS + ranks * sizeof(struct hk_osc_waiter), 64);
}

static size_t posted_at(uint32_t ranks)
{
	return ROUND_UP(ranks_at(ranks) + ranks * sizeof(struct hk_osc_rank), 64);
}

/* The length of the state. Memory of the window begins behind it. */
static size_t state_len(uint32_t ranks)
{
	return ROUND_UP(posted_at(ranks) + ranks * sizeof(uint32_t), PAGE);
}

struct hk_osc_waiters hk_osc_waiters(struct hk_osc_state *s, uint32_t ranks)
{
	return (struct hk_osc_waiters){(void *)((char *)s + WAITERS), ranks};
}

struct hk_osc_rank *hk_osc_ranks(struct hk_osc_state *s, uint32_t ranks)
{
	return (void *)((char *)s + ranks_at(ranks));
}

_Atomic uint32_t *hk_osc_posted(struct hk_osc_state *s, uint32_t ranks)
{
	return (void *)((char *)s + posted_at(ranks));
}

static void init(struct hk_osc_state *s)
{
	pthread_mutexattr_t a;

	if (getrandom(&s->cookie, sizeof(s->cookie), GRND_NONBLOCK) != sizeof(s->cookie))
		s->cookie = (uint64_t)getpid() << 32 ^ (uintptr_t)s;
	hk_osc_lock_init(&s->lock);
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&s->mutex, &a);
	pthread_mutexattr_destroy(&a);
}

/* A new segment of @len bytes, with a name. -1: there is none. */
static int create(size_t len, char name[HK_OSC_SEGMENT_NAME])
{
	static _Atomic unsigned number;
	int fd = -1;

	for (int i = 0; fd < 0 && i < TRIES; i++) {
		snprintf(name, HK_OSC_SEGMENT_NAME, "/hikyaku-osc-%d-%u", (int)getpid(), number++);
		fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			return -1;
	}
	/* memory that is missing must be known now: later it would be a SIGBUS */
	if (fd >= 0 && posix_fallocate(fd, 0, (off_t)len) != 0) {
		shm_unlink(name);
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool map(struct hk_osc_segment *g, int fd)
{
	void *at = mmap(NULL, g->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	close(fd);
	if (at == MAP_FAILED)
		return false;
	g->state = at;
	g->is_mapped = true;
	return true;
}

bool hk_osc_segment_make(struct hk_osc_segment *g, uint32_t ranks, bool memory, size_t size,
			 bool shared)
{
	size_t begin = state_len(ranks);

	*g = (struct hk_osc_segment){.len = begin + (memory ? size : 0)};
	int fd = shared ? create(g->len, g->name) : -1;

	if (fd < 0 || !map(g, fd)) {
		hk_osc_segment_unlink(g);
		g->state = aligned_alloc(PAGE, ROUND_UP(g->len, PAGE));
		if (!g->state)
			return false;
		memset(g->state, 0, begin);
	}
	g->memory = memory ? (char *)g->state + begin : NULL;
	init(g->state);
	return true;
}

bool hk_osc_segment_map(struct hk_osc_segment *g, const char *name, uint64_t cookie, uint32_t ranks,
			bool memory, size_t size)
{
	size_t begin = state_len(ranks);
	struct stat st;

	if (memory && size > SIZE_MAX - begin)
		return false;
	*g = (struct hk_osc_segment){.len = begin + (memory ? size : 0)};
	int fd = shm_open(name, O_RDWR | O_CLOEXEC, 0);

	if (fd < 0)
		return false;
	if (fstat(fd, &st) != 0 || st.st_uid != geteuid() || (size_t)st.st_size < g->len) {
		close(fd);
		return false;
	}
	if (!map(g, fd))
		return false;
	if (g->state->cookie != cookie) {
		hk_osc_segment_free(g);
		return false;
	}
	g->memory = memory ? (char *)g->state + begin : NULL;
	return true;
}

void hk_osc_segment_unlink(struct hk_osc_segment *g)
{
	if (g->name[0])
		shm_unlink(g->name);
	g->name[0] = '\0';
}

void hk_osc_segment_free(struct hk_osc_segment *g)
{
	hk_osc_segment_unlink(g);
	if (g->is_mapped)
		munmap(g->state, g->len);
	else
		free(g->state);
	*g = (struct hk_osc_segment){0};
}

bool hk_osc_state_enter(struct hk_osc_state *s)
{
	int rc = pthread_mutex_lock(&s->mutex);

	if (HK_UNLIKELY(rc == EOWNERDEAD)) /* a rank that died inside ends the job soon */
		rc = pthread_mutex_consistent(&s->mutex);
	return rc == 0;
}

void hk_osc_state_leave(struct hk_osc_state *s)
{
	pthread_mutex_unlock(&s->mutex);
}

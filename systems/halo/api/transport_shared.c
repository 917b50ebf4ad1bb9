/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/transport_shared.c: copies through shared memory, between ranks of one node.
 *
 * DESIGN NOTES
 *
 * Each end owns a segment, to which the other end writes. It has two places, for odd and for even
 * exchanges, each with the number of the exchange whose bytes are complete. A put gathers the data
 * into the place and then stores the number. A poll that finds the number scatters the data. The
 * argument of transport_worker.c shows that two places suffice: both ends put in every exchange,
 * even if a put carries only its number.
 *
 * Those are two copies. A long message of few blocks needs one, by process_vm_writev(), if the
 * receiver has put before the sender: its receive buffers are open then. So a put waits until the
 * receiver's is there, but no longer than the second copy takes. It never waits for more: the
 * receiver may be in a call of MPI that this rank must join first.
 *
 * A receiver that gives up an exchange closes its buffers. `opened` says who has them: the receiver
 * opens, the sender makes it busy while it writes, and neither can do so after the other.
 *
 * A segment is a memfd, which the other end opens as /proc/PID/fd/N while the handshake runs. So it
 * has no name that a killed process could leave behind. It is sealed against shrinking: an access
 * to a mapped page cannot fail. Its first word is a random number, which shows that PID means the
 * same process at both ends. Ranks in containers of their own, which have other process numbers,
 * and ranks of other users take another transport.
 *
 * A wait makes progress in MPI, too: the neighbour may wait for a message of the program before it
 * puts.
 */
#include "halo/api/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MPI_ROUNDS  64   /* polls without success between two of everything that MPI polls */
#define PEER_ROUNDS 4096 /* and between two checks that the neighbour is alive */

#define DIRECT_MIN   4096       /* bytes: two copies of shorter messages are faster */
#define DIRECT_MAX   64         /* blocks at each end, at most */
#define DIRECT_BYTES (1u << 30) /* Linux writes no more than 2 GiB at once */
#define COPY_RATE    16         /* bytes a ns of a copy */
#define LOOK_ROUNDS  16         /* looks at the other end between two reads of the clock */
#define GIVE_UP_S    2.0 /* for the other end to finish a write, when an exchange is given up */

/* Of `opened`, beside four times the number of the exchange. */
enum { OPEN = 1, BUSY = 2 };

/* Written by the other end, except the key, and `opened`, which both write. */
struct segment {
	uint64_t key;
	struct iovec target[DIRECT_MAX]; /* the other end's receive buffers */
	uint32_t targets;                /* 0: no direct writes */
	_Alignas(128) _Atomic uint64_t opened;
	/* By place: twice the number of an exchange, and 1 if it was written directly; 0: none. */
	_Alignas(128) _Atomic uint64_t complete[2];
	_Alignas(128) char place[]; /* two, each of the message's bytes */
};

/* By which the other end opens a segment. */
struct address {
	uint64_t key;
	uint64_t pids; /* number of the namespace of PID */
	int32_t pid, fd;
	uint32_t user, zero;
	const struct segment *at; /* in the memory of that process */
};

struct state {
	struct segment *mine, *theirs;
	size_t mine_len, theirs_len; /* bytes that are mapped */
	int fd;                      /* of this end's segment, until the other has opened it */
	int peer;                    /* pidfd of the neighbour */
	pid_t pid;                   /* of the neighbour */
	unsigned idle;               /* polls since the put */
	uint64_t key;
	struct iovec source[DIRECT_MAX], target[DIRECT_MAX];
	uint32_t sources, targets; /* 0: no direct writes */
};

static size_t segment_len(uint64_t bytes)
{
	return sizeof(struct segment) + 2 * (size_t)bytes;
}

static void *map(int fd, size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void state_free(struct state *s)
{
	if (!s)
		return;
	if (s->mine)
		munmap(s->mine, s->mine_len);
	if (s->theirs)
		munmap(s->theirs, s->theirs_len);
	if (s->fd >= 0)
		close(s->fd);
	if (s->peer >= 0)
		close(s->peer);
	free(s);
}

/* Makes this end's segment. False: the system has none; errno says why. */
static bool make_segment(struct state *s, uint64_t bytes)
{
	s->mine_len = segment_len(bytes);
	s->fd = memfd_create("hk_halo", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (s->fd < 0 || ftruncate(s->fd, (off_t)s->mine_len) != 0 ||
	    fcntl(s->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0 ||
	    getrandom(&s->key, sizeof(s->key), 0) != sizeof(s->key))
		return false;
	s->mine = map(s->fd, s->mine_len);
	if (!s->mine)
		return false;
	s->mine->key = s->key;
	return true;
}

static bool offer(struct hk_halo *h, struct hk_halo_neighbour *nb, char *address)
{
	struct stat pids;
	struct state *s;

	if (nb->rank == h->rank)
		return false;
	if (!hk_halo_comm_same_node(h->joined, nb->rank)) {
		snprintf(nb->why, sizeof(nb->why), "it is on another node");
		return false;
	}
	if (nb->flat) {
		snprintf(nb->why, sizeof(nb->why), "only MPI knows the layout of a type");
		return false;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return false;
	s->fd = s->peer = -1;
	if (!make_segment(s, nb->in.bytes) || stat("/proc/self/ns/pid", &pids) != 0) {
		snprintf(nb->why, sizeof(nb->why), "no shared memory: %s", strerror(errno));
		state_free(s);
		return false;
	}
	nb->shared = s;
	struct address a = {s->key, pids.st_ino, getpid(), s->fd, geteuid(), 0, s->mine};

	memcpy(address, &a, sizeof(a));
	return true;
}

/* Do two addresses name processes that can reach each other's memory? */
static bool matches(const char *one, const char *other)
{
	struct address a, b;

	memcpy(&a, one, sizeof(a));
	memcpy(&b, other, sizeof(b));
	return a.pids == b.pids && a.user == b.user;
}

/* Maps the other end's segment. False: it cannot be reached, or is not what it should be. */
static bool open_segment(struct state *s, const struct address *a, uint64_t bytes)
{
	char path[64];
	struct stat st;
	int fd;

	s->theirs_len = segment_len(bytes);
	s->peer = (int)syscall(SYS_pidfd_open, a->pid, 0);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", a->pid, a->fd);
	fd = s->peer < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return false;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 &&
	    st.st_size == (off_t)s->theirs_len)
		s->theirs = map(fd, s->theirs_len);
	close(fd);
	return s->theirs && s->theirs->key == a->key;
}

/* May this process write to the memory of the other end? The right to read is the same. */
static bool may_write(const struct address *a)
{
	uint64_t key = 0;
	struct iovec here = {&key, sizeof(key)},
		     there = {(void *)(uintptr_t)&a->at->key, sizeof(key)};

	return process_vm_readv(a->pid, &here, 1, &there, 1, 0) == sizeof(key) && key == a->key;
}

/* The blocks of @m; 0: two copies are better. */
static uint32_t list_blocks(const struct hk_halo_message *m, struct iovec *to)
{
	if (m->bytes < DIRECT_MIN || m->bytes > DIRECT_BYTES || m->blocks.count > DIRECT_MAX)
		return 0;
	for (size_t k = 0; k < m->blocks.count; k++)
		to[k] = (struct iovec){m->blocks.block[k].base, m->blocks.block[k].len};
	return (uint32_t)m->blocks.count;
}

static int open_shared(struct hk_halo *h, struct hk_halo_neighbour *nb, const char *theirs,
		       char *mine)
{
	struct state *s = nb->shared;
	struct address a;

	(void)h;
	(void)mine;
	memcpy(&a, theirs, sizeof(a));
	nb->shared = NULL;
	if (!open_segment(s, &a, nb->out.bytes)) {
		snprintf(nb->why, sizeof(nb->why), "the memory of process %d cannot be opened",
			 a.pid);
		state_free(s);
		return -EACCES;
	}
	s->pid = a.pid;
	s->sources = may_write(&a) ? list_blocks(&nb->out, s->source) : 0;
	s->theirs->targets = list_blocks(&nb->in, s->theirs->target);
	nb->state = s;
	return 0;
}

/* Reads the other end's list of its receive buffers. */
static void read_targets(struct state *s, uint64_t bytes)
{
	uint32_t count = s->mine->targets;

	if (!s->sources || count > DIRECT_MAX)
		return;
	memcpy(s->target, s->mine->target, count * sizeof(*s->target));
	for (uint32_t k = 0; k < count; k++)
		bytes -= s->target[k].iov_len;
	s->targets = bytes == 0 ? count : 0;
}

static int connect_shared(struct hk_halo *h, struct hk_halo_neighbour *nb, const char *theirs)
{
	struct state *s = nb->state;

	(void)h;
	(void)theirs;
	close(s->fd);
	s->fd = -1;
	read_targets(s, nb->out.bytes);
	snprintf(nb->why, sizeof(nb->why), "shared memory%s; %zu blocks out, %zu in",
		 s->targets ? ", one copy if the neighbour is ready" : ", two copies",
		 nb->out.blocks.count, nb->in.blocks.count);
	return 0;
}

/* Waits for the receiver's put, as long as the second copy of @bytes would take. */
static bool receiver_opens(struct state *s, uint64_t number, uint64_t bytes)
{
	double until = 0;

	for (unsigned i = 0;; i++) {
		uint64_t open = 4 * number + OPEN;

		if (atomic_load_explicit(&s->mine->opened, memory_order_relaxed) == open)
			return atomic_compare_exchange_strong(&s->mine->opened, &open,
							      4 * number + BUSY);
		if (i % LOOK_ROUNDS)
			continue;
		double now = hk_clock_s();

		if (until == 0)
			until = now + 1e-9 * (double)bytes / COPY_RATE;
		if (now > until)
			return false;
	}
}

static int put(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	struct state *s = nb->state;
	struct hk_layout from = hk_halo_blocks_layout(&nb->out.blocks);
	uint64_t number = h->number, done = 2 * number;

	atomic_store_explicit(&s->theirs->opened, 4 * number + OPEN, memory_order_release);
	if (s->targets && receiver_opens(s, number, from.len)) {
		ssize_t sent = process_vm_writev(s->pid, s->source, s->sources, s->target,
						 s->targets, 0);

		if (sent != (ssize_t)from.len)
			return hk_halo_fail(-EIO,
					    "rank %d: the memory of rank %d cannot be written: %s; "
					    "fix: check that it lives, or set "
					    "HK_HALO_TRANSPORT=mpi",
					    h->rank, nb->rank, strerror(errno));
		done++;
	} else {
		hk_layout_gather(&from, 0, from.len,
				 s->theirs->place + (number & 1) * nb->out.bytes);
	}
	atomic_store_explicit(&s->theirs->complete[number & 1], done, memory_order_release);
	nb->sent = true;
	s->idle = 0;
	return 0;
}

static bool alive(const struct state *s)
{
	struct pollfd p = {.fd = s->peer, .events = POLLIN};

	return poll(&p, 1, 0) == 0;
}

/* Of this exchange: 0 or what segment.complete has. */
static uint64_t complete(const struct hk_halo *h, const struct state *s)
{
	uint64_t done = atomic_load_explicit(&s->mine->complete[h->number & 1],
					     memory_order_acquire);

	return done / 2 == h->number ? done : 0;
}

static int poll_shared(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	struct state *s = nb->state;
	uint64_t done = complete(h, s);
	int found;

	if (done) {
		struct hk_layout to = hk_halo_blocks_layout(&nb->in.blocks);

		if (!(done & 1))
			hk_layout_scatter(&to, 0, to.len,
					  s->mine->place + (h->number & 1) * nb->in.bytes);
		nb->arrived = true;
		return 0;
	}
	if (HK_UNLIKELY(++s->idle % MPI_ROUNDS == 0))
		MPI_Iprobe(h->rank, h->tag, h->comm, &found, MPI_STATUS_IGNORE);
	if (HK_UNLIKELY(s->idle % PEER_ROUNDS == 0) && !alive(s) && !complete(h, s))
		return hk_halo_fail(-ENOTCONN, "rank %d has ended; fix: read its output", nb->rank);
	return 0;
}

/* After a failed exchange: the other end must not write to memory that belongs to the caller. */
static void close_buffers(const struct hk_halo *h, const struct state *s)
{
	uint64_t open = 4 * (uint64_t)h->number + OPEN;
	double end = hk_clock_s() + GIVE_UP_S;

	if (atomic_compare_exchange_strong(&s->theirs->opened, &open, 0))
		return;
	while (open % 4 == BUSY && !complete(h, s) && alive(s) && hk_clock_s() < end)
		;
}

static void close_shared(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	struct state *s = nb->state;

	if (s && h->under_way && !nb->arrived)
		close_buffers(h, s);
	state_free(s);
	nb->state = NULL;
}

static void retract(struct hk_halo_neighbour *nb)
{
	state_free(nb->shared);
	nb->shared = NULL;
}

const struct hk_transport hk_transport_shared = {
	.name = "shared",
	.offer = offer,
	.matches = matches,
	.retract = retract,
	.open = open_shared,
	.connect = connect_shared,
	.put = put,
	.poll = poll_shared,
	.close = close_shared,
};

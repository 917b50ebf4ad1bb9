/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/eq.c: event queues.
 *
 * Connections and delayed registrations make events, and this provider has neither. So a queue has
 * those events alone that the application writes (fi_eq_write). Many programs open one and bind it
 * to their endpoints without asking.
 *
 * Threads: any. An eventfd is readable while there is an event.
 */
#include "libfabric/provider.h"
#include "libfabric/refuse.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct event {
	struct event *next;
	uint32_t kind;
	size_t len;
	char bytes[];
};

struct eq {
	struct fid_eq fid;
	struct fid_fabric *fabric;
	pthread_mutex_t lock;
	struct event *first, **last;
	int fd; /* readable: there is an event */
};

static struct eq *eq_of(struct fid *fid)
{
	return container_of(fid, struct eq, fid.fid);
}

static int close_eq(struct fid *fid)
{
	struct eq *q = eq_of(fid);

	while (q->first) {
		struct event *e = q->first;

		q->first = e->next;
		free(e);
	}
	hk_fi_fabric_count(q->fabric, -1);
	close(q->fd);
	pthread_mutex_destroy(&q->lock);
	free(q);
	return 0;
}

static ssize_t take(struct eq *q, uint32_t *kind, void *buf, size_t len, bool stays)
{
	struct event *e = q->first;
	eventfd_t none;

	if (!e)
		return -FI_EAGAIN;
	if (len < e->len)
		return -FI_ETOOSMALL;
	*kind = e->kind;
	memcpy(buf, e->bytes, e->len);
	len = e->len;
	if (stays)
		return (ssize_t)len;
	q->first = e->next;
	if (!q->first) {
		q->last = &q->first;
		(void)eventfd_read(q->fd, &none); /* it was readable */
	}
	free(e);
	return (ssize_t)len;
}

static ssize_t read_eq(struct fid_eq *fid, uint32_t *kind, void *buf, size_t len, uint64_t flags)
{
	struct eq *q = eq_of(&fid->fid);

	pthread_mutex_lock(&q->lock);
	ssize_t n = take(q, kind, buf, len, flags & FI_PEEK);
	pthread_mutex_unlock(&q->lock);
	return n;
}

int hk_fi_eq_trywait(struct fid *fid)
{
	struct eq *q = eq_of(fid);

	pthread_mutex_lock(&q->lock);
	int rc = q->first ? -FI_EAGAIN : 0;
	pthread_mutex_unlock(&q->lock);
	return rc;
}

static ssize_t readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
	(void)fid, (void)entry, (void)flags;
	return -FI_EAGAIN; /* an event that is written is not an error */
}

static ssize_t write_eq(struct fid_eq *fid, uint32_t kind, const void *buf, size_t len,
			uint64_t flags)
{
	struct eq *q = eq_of(&fid->fid);
	struct event *e = malloc(sizeof(*e) + len);

	if (!e || flags) {
		free(e);
		return e ? -FI_EINVAL : -FI_ENOMEM;
	}
	*e = (struct event){.kind = kind, .len = len};
	memcpy(e->bytes, buf, len);
	pthread_mutex_lock(&q->lock);
	if (!q->first)
		(void)eventfd_write(q->fd, 1); /* it fails only if it is readable already */
	*q->last = e;
	q->last = &e->next;
	pthread_mutex_unlock(&q->lock);
	return (ssize_t)len;
}

static ssize_t sread(struct fid_eq *fid, uint32_t *kind, void *buf, size_t len, int timeout,
		     uint64_t flags)
{
	struct eq *q = eq_of(&fid->fid);
	struct pollfd p = {.fd = q->fd, .events = POLLIN};
	int64_t end = timeout < 0 ? INT64_MAX : hk_clock_ms() + timeout;
	ssize_t n;

	/* another reader may take the event that wakes us */
	while ((n = read_eq(fid, kind, buf, len, flags)) == -FI_EAGAIN) {
		int64_t left = end - hk_clock_ms();

		if (left <= 0)
			break;
		if (poll(&p, 1, timeout < 0 ? -1 : (int)left) < 0)
			return -errno;
	}
	return n;
}

static const char *strerror_eq(struct fid_eq *fid, int prov_errno, const void *data, char *buf,
			       size_t len)
{
	(void)fid, (void)data;
	const char *text = strerror(prov_errno);

	if (buf && len)
		snprintf(buf, len, "%s", text);
	return text;
}

static int control(struct fid *fid, int command, void *arg)
{
	if (command != FI_GETWAIT)
		return -FI_ENOSYS;
	*(int *)arg = eq_of(fid)->fd;
	return 0;
}

static struct fi_ops fid_ops = HK_FI_FID_OPS(close_eq, hk_fi_no_bind, control);

static struct fi_ops_eq ops = {
	.size = sizeof(ops),
	.read = read_eq,
	.readerr = readerr,
	.write = write_eq,
	.sread = sread,
	.strerror = strerror_eq,
};

int hk_fi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **fid,
		  void *context)
{
	struct eq *q;

	if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
	    attr->wait_obj != FI_WAIT_FD) {
		hk_fi_warn("there is no wait object %d; fix: ask for FI_WAIT_FD", attr->wait_obj);
		return -FI_ENOSYS;
	}
	q = calloc(1, sizeof(*q));
	if (!q)
		return -FI_ENOMEM;
	q->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (q->fd < 0) {
		free(q);
		return -errno;
	}
	q->fabric = fabric;
	hk_fi_fabric_count(fabric, 1);
	pthread_mutex_init(&q->lock, NULL);
	q->last = &q->first;
	q->fid.fid.fclass = FI_CLASS_EQ;
	q->fid.fid.context = context;
	q->fid.fid.ops = &fid_ops;
	q->fid.ops = &ops;
	*fid = &q->fid;
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/cq.c: completion queues.
 *
 * A queue is a ring that grows, so it never overflows. An error waits in its place: what completed
 * before is read first.
 */
#include "libfabric/provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int close_cq(struct fid *fid)
{
	struct hk_fi_cq *cq = container_of(fid, struct hk_fi_cq, fid.fid);

	if (cq->users)
		return -FI_EBUSY;
	hk_fi_wait_close(cq->domain, &cq->wait);
	free(cq->ring);
	return hk_fi_object_close(cq->domain, cq);
}

struct hk_fi_event *hk_fi_cq_grow(struct hk_fi_cq *cq)
{
	struct hk_fi_event *ring = calloc(2 * (size_t)cq->room, sizeof(*ring));

	if (!ring)
		return NULL;
	for (uint32_t i = cq->head; i != cq->tail; i++)
		ring[i & (2 * cq->room - 1)] = cq->ring[i & (cq->room - 1)];
	free(cq->ring);
	cq->ring = ring;
	cq->room *= 2;
	return &cq->ring[cq->tail++ & (cq->room - 1)];
}

/* Moves up to @count events to the caller. */
static ssize_t take(struct hk_fi_cq *cq, char *to, size_t count, fi_addr_t *source)
{
	size_t n = 0;

	for (; n < count && cq->head != cq->tail; n++, cq->head++) {
		const struct hk_fi_event *e = &cq->ring[cq->head & (cq->room - 1)];

		if (HK_UNLIKELY(e->error))
			break;
		memcpy(to + n * cq->entry, &e->at, cq->entry);
		if (source)
			source[n] = e->source;
	}
	if (n)
		return (ssize_t)n;
	return cq->head != cq->tail ? -FI_EAVAIL : -FI_EAGAIN;
}

static ssize_t readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source)
{
	struct hk_fi_cq *cq = container_of(fid, struct hk_fi_cq, fid);
	ssize_t n;

	hk_fi_lock(cq->domain);
	if (cq->head == cq->tail)
		hk_fi_progress(cq->domain);
	n = count ? take(cq, buf, count, source) : -FI_EAGAIN;
	hk_fi_wait_end(cq->domain, &cq->wait, cq->head != cq->tail);
	hk_fi_unlock(cq->domain);
	if (HK_UNLIKELY(n == -FI_EAGAIN))
		hk_fi_yield(cq->domain);
	return n;
}

static ssize_t read_cq(struct fid_cq *fid, void *buf, size_t count)
{
	return readfrom(fid, buf, count, NULL);
}

static const char *error_text(struct hk_fi_cq *cq, const struct hk_fi_event *e)
{
	if (e->peer == HK_PEER_NONE)
		return "";
	snprintf(cq->text, sizeof(cq->text), "%s",
		 hk_worker_peer_name(cq->domain->worker, e->peer));
	return cq->text;
}

/* The fields up to prov_errno are those of every version; later ones were added behind. */
_Static_assert(offsetof(struct fi_cq_err_entry, olen) == sizeof(struct fi_cq_tagged_entry),
	       "an error entry begins as the longest format");
static ssize_t readerr(struct fid_cq *fid, struct fi_cq_err_entry *to, uint64_t flags)
{
	struct hk_fi_cq *cq = container_of(fid, struct hk_fi_cq, fid);
	const struct hk_fi_event *e;
	ssize_t n = -FI_EAGAIN;

	(void)flags;
	hk_fi_lock(cq->domain);
	e = &cq->ring[cq->head & (cq->room - 1)];
	if (cq->head != cq->tail && e->error) {
		const char *text = error_text(cq, e);
		size_t len = *text ? strlen(text) + 1 : 0;

		memcpy(to, &e->at, sizeof(e->at)); /* its first fields are the same */
		to->olen = e->olen;
		to->err = e->error;
		to->prov_errno = e->error;
		/* the caller may have given a buffer for it (1.5 and later) */
		if (to->err_data && to->err_data_size) {
			to->err_data_size = HK_MIN(to->err_data_size, len);
			memcpy(to->err_data, text, to->err_data_size);
		} else {
			to->err_data = len ? cq->text : NULL;
			to->err_data_size = len;
		}
		cq->head++;
		n = 1;
	}
	hk_fi_unlock(cq->domain);
	return n;
}

/* Has fi_cq_signal() been called? Once. */
static bool take_woken(struct hk_fi_cq *cq)
{
	bool woken;

	hk_fi_lock(cq->domain);
	woken = cq->woken;
	cq->woken = false;
	hk_fi_unlock(cq->domain);
	return woken;
}

static ssize_t sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source,
			 const void *cond, int timeout)
{
	struct hk_fi_cq *cq = container_of(fid, struct hk_fi_cq, fid);
	uint64_t end = hk_fi_wait_end_of(timeout);
	ssize_t n;

	(void)cond; /* a hint */
	do
		n = readfrom(fid, buf, count, source);
	while (n == -FI_EAGAIN && !take_woken(cq) && hk_fi_wait_until(cq->domain, &cq->wait, end));
	return n;
}

static ssize_t sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	return sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int wake(struct fid_cq *fid)
{
	struct hk_fi_cq *cq = container_of(fid, struct hk_fi_cq, fid);

	hk_fi_lock(cq->domain);
	cq->woken = true;
	hk_fi_changed(&cq->wait);
	hk_fi_unlock(cq->domain);
	return 0;
}

/* @data is what readerr() gave as err_data: the peer's name. */
static const char *text_of(struct fid_cq *fid, int error, const void *data, char *buf, size_t len)
{
	struct hk_fi_cq *cq = container_of(fid, struct hk_fi_cq, fid);
	const char *peer = data;

	snprintf(cq->text, sizeof(cq->text), "%s%s%.100s", strerror(error),
		 peer && *peer ? ": " : "", peer ? peer : "");
	if (!buf || !len)
		return cq->text;
	snprintf(buf, len, "%s", cq->text);
	return buf;
}

static int control(struct fid *fid, int command, void *arg)
{
	return hk_fi_wait_control(&container_of(fid, struct hk_fi_cq, fid.fid)->wait, command, arg);
}

static struct fi_ops fid_ops = HK_FI_FID_OPS(close_cq, hk_fi_no_bind, control);

static struct fi_ops_cq ops = {
	.size = sizeof(ops),
	.read = read_cq,
	.readfrom = readfrom,
	.readerr = readerr,
	.sread = sread,
	.sreadfrom = sreadfrom,
	.signal = wake,
	.strerror = text_of,
};

/* Bytes of an entry; 0: there is no such format. */
static size_t entry_of(enum fi_cq_format format)
{
	static const size_t sizes[] = {
		[FI_CQ_FORMAT_UNSPEC] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};

	return (unsigned)format < HK_ARRAY_LEN(sizes) ? sizes[format] : 0;
}

int hk_fi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **fid,
		  void *context)
{
	struct hk_fi_domain *d = container_of(domain, struct hk_fi_domain, fid);
	struct hk_fi_cq *cq;
	uint32_t room = 256;
	int rc;

	if (!entry_of(attr->format))
		return -FI_EINVAL;
	while (room < attr->size && room < 1u << 20)
		room *= 2;
	cq = hk_fi_object_open(d, sizeof(*cq), FI_CLASS_CQ, &fid_ops, context);
	if (!cq)
		return -FI_ENOMEM;
	cq->domain = d;
	cq->fid.ops = &ops;
	rc = hk_fi_wait_open(d, &cq->wait, attr->wait_obj);
	cq->ring = calloc(room, sizeof(*cq->ring));
	if (rc || !cq->ring) {
		(void)close_cq(&cq->fid.fid);
		return rc ? rc : -FI_ENOMEM;
	}
	cq->room = room;
	if (attr->format == FI_CQ_FORMAT_UNSPEC)
		attr->format = FI_CQ_FORMAT_CONTEXT;
	cq->entry = entry_of(attr->format);
	*fid = &cq->fid;
	return 0;
}

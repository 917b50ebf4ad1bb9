/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_errors.c: what an application gets for wrong calls, for messages that
 * do not fit, and for peers that are gone: the codes of libfabric's manual.
 */
#include "ends.h"

#include <poll.h>
#include <string.h>

static char from[200000], to[200000];

/* ---- what is asked for ----------------------------------------------------------------------- */

static int ask(void (*want)(struct fi_info *))
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	int rc;

	hints->fabric_attr->prov_name = strdup("hikyaku");
	want(hints);
	rc = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	if (rc == 0)
		fi_freeinfo(info);
	return rc;
}

static void want_nothing(struct fi_info *h)
{
	(void)h;
}

static void want_connections(struct fi_info *h)
{
	h->ep_attr->type = FI_EP_MSG;
}

static void want_collectives(struct fi_info *h)
{
	h->caps = FI_COLLECTIVE;
}

static void want_contexts(struct fi_info *h)
{
	h->ep_attr->tx_ctx_cnt = 4;
}

static void want_inject(struct fi_info *h)
{
	h->tx_attr->inject_size = 1 << 20;
}

static void want_order(struct fi_info *h)
{
	h->tx_attr->msg_order = ~UINT64_C(0);
}

static void want_pieces(struct fi_info *h)
{
	h->rx_attr->iov_limit = 100;
}

static void want_data(struct fi_info *h)
{
	h->domain_attr->cq_data_size = 16;
}

static void want_address(struct fi_info *h)
{
	h->addr_format = FI_SOCKADDR_IN;
}

TEST(asked_for_what_is_lacking)
{
	FI_OK(ask(want_nothing));
	CHECK_EQ(ask(want_connections), -FI_ENODATA);
	CHECK_EQ(ask(want_collectives), -FI_ENODATA);
	CHECK_EQ(ask(want_contexts), -FI_ENODATA);
	CHECK_EQ(ask(want_inject), -FI_ENODATA);
	CHECK_EQ(ask(want_order), -FI_ENODATA);
	CHECK_EQ(ask(want_pieces), -FI_ENODATA);
	CHECK_EQ(ask(want_data), -FI_ENODATA);
	CHECK_EQ(ask(want_address), -FI_ENODATA);
}

TEST(answers_keep_to_what_was_asked)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	hints->fabric_attr->prov_name = strdup("hikyaku");
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->av_type = FI_AV_MAP;
	FI_OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	CHECK_EQ(info->domain_attr->mr_mode, 0);
	CHECK_EQ(info->domain_attr->threading, FI_THREAD_DOMAIN);
	CHECK_EQ(info->domain_attr->av_type, FI_AV_MAP);
	CHECK(info->caps & FI_TAGGED && info->caps & FI_MULTI_RECV);
	CHECK(info->next == NULL);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* As MPICH 4.3 asks before it says what it wants. */
TEST(asked_for_whatever_there_is)
{
	struct fi_info *all, *info;

	FI_OK(fi_getinfo(0, NULL, NULL, 0, NULL, &all));
	info = all;
	while (info && strcmp(info->fabric_attr->prov_name, "hikyaku") != 0)
		info = info->next;
	CHECK(info != NULL);
	CHECK(info->caps & FI_RMA);
	CHECK_EQ(info->domain_attr->mr_mode, 0);
	fi_freeinfo(all);
}

/* ---- objects --------------------------------------------------------------------------------- */

TEST(objects_in_use_do_not_close)
{
	struct end e;

	end_open(&e, 0, 0);
	CHECK_EQ(fi_close(&e.av->fid), -FI_EBUSY);
	CHECK_EQ(fi_close(&e.cq->fid), -FI_EBUSY);
	CHECK_EQ(fi_close(&e.domain->fid), -FI_EBUSY);
	CHECK_EQ(fi_close(&e.fabric->fid), -FI_EBUSY);
	end_close(&e);
}

/* Counters may come later: Sandia OpenSHMEM binds them then. */
TEST(an_endpoint_works_once_it_is_enabled)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_cntr *counter;
	struct end e;
	struct fid_ep *ep;
	fi_addr_t any = 0;

	end_open(&e, 0, 0);
	FI_OK(fi_endpoint(e.domain, e.info, &ep, NULL));
	CHECK_EQ(fi_enable(ep), -FI_ENOAV);
	FI_OK(fi_ep_bind(ep, &e.av->fid, 0));
	CHECK_EQ(fi_ep_bind(ep, &e.av->fid, 0), -FI_EINVAL);
	CHECK_EQ(fi_enable(ep), -FI_ENOCQ);
	CHECK_EQ(fi_ep_bind(ep, &e.cq->fid, 0), -FI_EINVAL);
	FI_OK(fi_ep_bind(ep, &e.cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK_EQ(fi_tsend(ep, from, 1, NULL, any, 0, NULL), -FI_EOPBADSTATE);
	CHECK_EQ(fi_trecv(ep, to, 1, NULL, any, 0, 0, NULL), -FI_EOPBADSTATE);
	FI_OK(fi_enable(ep));
	CHECK_EQ(fi_ep_bind(ep, &e.cq->fid, FI_RECV), -FI_EOPBADSTATE);
	FI_OK(fi_cntr_open(e.domain, &attr, &counter, NULL));
	FI_OK(fi_ep_bind(ep, &counter->fid, FI_WRITE));
	CHECK_EQ(fi_ep_bind(ep, &counter->fid, FI_WRITE), -FI_EINVAL);
	FI_OK(fi_close(&ep->fid));
	FI_OK(fi_close(&counter->fid));
	end_close(&e);
}

/* It has the events that the application writes. */
TEST(an_event_queue)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD};
	struct fid_ep *ep;
	struct fid_eq *eq;
	struct end e;
	char got[8] = "";
	uint32_t kind = 0;
	int fd;

	end_open(&e, 0, 0);
	FI_OK(fi_eq_open(e.fabric, &attr, &eq, NULL));
	FI_OK(fi_endpoint(e.domain, e.info, &ep, NULL));
	FI_OK(fi_ep_bind(ep, &eq->fid, 0));
	FI_OK(fi_close(&ep->fid));
	FI_OK(fi_control(&eq->fid, FI_GETWAIT, &fd));
	struct pollfd readable = {.fd = fd, .events = POLLIN};

	CHECK_EQ(fi_eq_read(eq, &kind, got, sizeof(got), 0), -FI_EAGAIN);
	CHECK_EQ(fi_eq_sread(eq, &kind, got, sizeof(got), 1, 0), -FI_EAGAIN);
	struct fid *fids[] = {&eq->fid};

	FI_OK(fi_trywait(e.fabric, fids, 1));
	CHECK_EQ(poll(&readable, 1, 0), 0);
	CHECK_EQ(fi_eq_write(eq, 7, "one", 4, 0), 4);
	CHECK_EQ(fi_trywait(e.fabric, fids, 1), -FI_EAGAIN);
	CHECK_EQ(fi_eq_write(eq, 8, "second", 7, 0), 7);
	CHECK_EQ(poll(&readable, 1, 0), 1);
	CHECK_EQ(fi_eq_read(eq, &kind, got, 3, 0), -FI_ETOOSMALL);
	CHECK_EQ(fi_eq_read(eq, &kind, got, sizeof(got), FI_PEEK), 4);
	CHECK_EQ(fi_eq_sread(eq, &kind, got, sizeof(got), -1, 0), 4);
	CHECK(kind == 7 && strcmp(got, "one") == 0);
	CHECK_EQ(fi_eq_read(eq, &kind, got, sizeof(got), 0), 7);
	CHECK(kind == 8 && strcmp(got, "second") == 0);
	CHECK_EQ(poll(&readable, 1, 0), 0);
	CHECK_EQ(fi_eq_write(eq, 9, "unread", 7, 0), 7);
	CHECK_EQ(fi_close(&e.fabric->fid), -FI_EBUSY);
	FI_OK(fi_close(&eq->fid));
	attr.wait_obj = FI_WAIT_MUTEX_COND;
	CHECK_EQ(fi_eq_open(e.fabric, &attr, &eq, NULL), -FI_ENOSYS);
	end_close(&e);
}

TEST(addresses_of_rubbish)
{
	struct ends e;
	char name[3][64];
	size_t len = 10;
	fi_addr_t at[3];
	int error[3];

	ends_open(&e);
	CHECK_EQ(fi_getname(&e.a.ep->fid, name[0], &len), -FI_ETOOSMALL);
	CHECK_EQ(len, 64);
	FI_OK(fi_getname(&e.b.ep->fid, name[1], &len));
	memset(name[0], 0xa5, sizeof(name[0])); /* another version */
	memcpy(name[2], name[1], sizeof(name[2]));
	name[2][3] ^= 1; /* another job */
	CHECK_EQ(fi_av_insert(e.a.av, name, 3, at, FI_SYNC_ERR, error), 1);
	CHECK_EQ(at[0], FI_ADDR_NOTAVAIL);
	CHECK(at[1] != FI_ADDR_NOTAVAIL && error[1] == 0);
	CHECK_EQ(at[2], FI_ADDR_NOTAVAIL);
	CHECK(error[0] == FI_EINVAL && error[2] == FI_EINVAL);

	len = sizeof(name[0]);
	FI_OK(fi_av_lookup(e.a.av, at[1], name[0], &len));
	CHECK(memcmp(name[0], name[1], 64) == 0);
	FI_OK(fi_av_remove(e.a.av, &at[1], 1, 0));
	CHECK_EQ(fi_av_remove(e.a.av, &at[1], 1, 0), -FI_EINVAL);
	CHECK_EQ(fi_av_lookup(e.a.av, at[1], name[0], &len), -FI_EINVAL);
	CHECK_EQ(fi_tsend(e.a.ep, from, 1, NULL, at[1], 0, NULL), -FI_EINVAL);
	CHECK_EQ(fi_tsend(e.a.ep, from, 1, NULL, 12345, 0, NULL), -FI_EINVAL);
	CHECK_EQ(fi_trecv(e.a.ep, to, 1, NULL, 12345, 0, 0, NULL), -FI_EINVAL);
	FI_OK(fi_tinject(e.a.ep, from, 1, e.a.peer, 9)); /* the other address of it still works */
	FI_OK(fi_trecv(e.b.ep, to, 1, NULL, FI_ADDR_UNSPEC, 9, 0, NULL));
	CHECK_EQ(ends_wait(&e, &e.b).tag, 9);
	ends_close(&e);
}

/* ---- operations ------------------------------------------------------------------------------ */

TEST(messages_that_do_not_fit)
{
	static const size_t lens[] = {100, 5000, sizeof(from)};
	struct ends e;

	ends_open(&e);
	memset(from, 1, sizeof(from));
	memset(to, 0, sizeof(to));
	for (size_t i = 0; i < HK_ARRAY_LEN(lens); i++) {
		struct fi_cq_err_entry error;

		FI_OK(fi_trecv(e.b.ep, to, 60, NULL, FI_ADDR_UNSPEC, i, 0, &e.b));
		FI_OK(fi_tsend(e.a.ep, from, lens[i], NULL, e.a.peer, i, NULL));
		error = ends_wait_error(&e, &e.b);
		CHECK_EQ(error.err, FI_ETRUNC);
		CHECK_EQ(error.len, 60);
		CHECK_EQ(error.olen, lens[i] - 60);
		CHECK(error.op_context == &e.b);
		CHECK(to[59] == 1 && to[60] == 0);
		CHECK(fi_cq_strerror(e.b.cq, error.prov_errno, NULL, NULL, 0) != NULL);
		ends_wait(&e, &e.a); /* the sender has done its part */
	}
	ends_close(&e);
}

TEST(receives_that_are_cancelled)
{
	struct ends e;
	struct fi_cq_err_entry error;

	ends_open(&e);
	FI_OK(fi_trecv(e.b.ep, to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &e.a));
	FI_OK(fi_recv(e.b.ep, to, 8, NULL, FI_ADDR_UNSPEC, &e.b));
	CHECK_EQ(fi_cancel(&e.b.ep->fid, &error), -FI_ENOENT);
	FI_OK(fi_cancel(&e.b.ep->fid, &e.b));
	error = ends_wait_error(&e, &e.b);
	CHECK(error.err == FI_ECANCELED && error.op_context == &e.b);
	FI_OK(fi_cancel(&e.b.ep->fid, &e.a));
	error = ends_wait_error(&e, &e.b);
	CHECK(error.err == FI_ECANCELED && error.op_context == &e.a);
	CHECK_EQ(fi_cancel(&e.b.ep->fid, &e.a), -FI_ENOENT);
	ends_close(&e);
}

/* Some programs do not initialise the struct, so nothing is written to the buffer in vain. */
TEST(an_error_without_a_text)
{
	struct ends e;
	char text = 'x';
	struct fi_cq_tagged_entry none;
	struct fi_cq_err_entry error = {.err_data = &text, .err_data_size = 1};

	ends_open(&e);
	FI_OK(fi_recv(e.b.ep, to, 8, NULL, FI_ADDR_UNSPEC, NULL));
	FI_OK(fi_cancel(&e.b.ep->fid, NULL));
	CHECK_EQ(fi_cq_read(e.b.cq, &none, 1), -FI_EAVAIL);
	CHECK_EQ(fi_cq_readerr(e.b.cq, &error, 0), 1);
	CHECK(error.err == FI_ECANCELED && error.err_data_size == 0 && text == 'x');
	ends_close(&e);
}

TEST(buffers_that_are_too_many_or_too_long)
{
	struct ends e;
	struct iovec iov[5] = {{from, 1}, {from, 1}, {from, 1}, {from, 1}, {from, 1}};

	ends_open(&e);
	CHECK_EQ(fi_tsendv(e.a.ep, iov, NULL, 5, e.a.peer, 0, NULL), -FI_EINVAL);
	CHECK_EQ(fi_trecvv(e.a.ep, iov, NULL, 5, e.a.peer, 0, 0, NULL), -FI_EINVAL);
	CHECK_EQ(fi_tinject(e.a.ep, from, e.a.info->tx_attr->inject_size + 1, e.a.peer, 0),
		 -FI_EINVAL);
	ends_close(&e);
}

TEST(waiting_ends)
{
	struct ends e;
	struct fi_cq_tagged_entry none;

	ends_open(&e);
	CHECK_EQ(fi_cq_sread(e.a.cq, &none, 1, NULL, 5), -FI_EAGAIN);
	FI_OK(fi_cq_signal(e.a.cq));
	CHECK_EQ(fi_cq_sread(e.a.cq, &none, 1, NULL, -1), -FI_EAGAIN);
	ends_close(&e);
}

/* ---- peers that are gone --------------------------------------------------------------------- */

/* The peer closes its endpoint before it has received a long message. */
TEST(a_long_message_to_an_endpoint_that_closes)
{
	struct ends e;
	struct fi_cq_err_entry error;

	ends_open(&e);
	FI_OK(fi_tsend(e.a.ep, from, sizeof(from), NULL, e.a.peer, 1, &e));
	ends_rest(&e);
	FI_OK(fi_close(&e.b.ep->fid));
	error = ends_wait_error(&e, &e.a);
	CHECK(error.err == FI_EIO && error.op_context == &e);
	FI_OK(fi_tsend(e.a.ep, from, sizeof(from), NULL, e.a.peer, 1, &e));
	CHECK_EQ(ends_wait_error(&e, &e.a).err, FI_EIO);
	FI_OK(fi_endpoint(e.b.domain, e.b.info, &e.b.ep, NULL)); /* for ends_close() */
	FI_OK(fi_ep_bind(e.b.ep, &e.b.av->fid, 0));
	ends_close(&e);
}

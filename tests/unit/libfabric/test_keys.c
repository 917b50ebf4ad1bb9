/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_keys.c: keys that programs choose, and those of older programs
 * (FI_MR_BASIC).
 */
#include "ends.h"

#include "base/clock.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <string.h>

#define LARGE    100000u
#define BOTH     (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define KEY      UINT64_C(0x8000000500000005)
#define MANY     600
#define LIMIT_MS 20000

static char own[LARGE], first[LARGE], second[LARGE];

static void open_ends(struct ends *e, int mode)
{
	ends_set_mr_mode(mode);
	ends_open(e);
	memset(first, 0, sizeof(first));
	memset(second, 0, sizeof(second));
}

static struct fid_mr *reg(struct end *e, void *at, size_t len, uint64_t key)
{
	struct fid_mr *mr;

	FI_OK(fi_mr_reg(e->domain, at, len, BOTH, 0, key, 0, &mr, NULL));
	return mr;
}

static void write_of(struct ends *e, size_t len, uint64_t key, char value)
{
	memset(own, value, len);
	FI_OK(fi_write(e->a.ep, own, len, NULL, e->a.peer, 0, key, NULL));
	CHECK_EQ(ends_wait(e, &e->a).flags, FI_RMA | FI_WRITE);
}

/* The answer to a program that asks for this mr_mode. */
static int answer(uint32_t version, int asked)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	int mode;

	hints->fabric_attr->prov_name = strdup("hikyaku");
	hints->caps = FI_RMA | FI_ATOMIC;
	hints->domain_attr->mr_mode = asked;
	FI_OK(fi_getinfo(version, NULL, NULL, 0, hints, &info));
	mode = info->domain_attr->mr_mode;
	CHECK_EQ(info->domain_attr->mr_key_size, 8);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return mode;
}

TEST(only_an_order_is_obeyed)
{
	CHECK_EQ(answer(FI_VERSION(1, 17), 0), 0);
	CHECK_EQ(answer(FI_VERSION(1, 17), FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_PROV_KEY), 0);
	CHECK_EQ(answer(FI_VERSION(1, 5), FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED), 0);
	CHECK_EQ(answer(FI_VERSION(1, 17), HK_FI_MR_SCALABLE), HK_FI_MR_SCALABLE);
	CHECK_EQ(answer(FI_VERSION(1, 17), HK_FI_MR_BASIC), HK_FI_MR_BASIC);
	CHECK_EQ(answer(FI_VERSION(1, 4), HK_FI_MR_BASIC), HK_FI_MR_BASIC);
	CHECK_EQ(answer(FI_VERSION(1, 4), HK_FI_MR_SCALABLE), HK_FI_MR_SCALABLE);
	CHECK_EQ(answer(FI_VERSION(1, 4), HK_FI_MR_UNSPEC), HK_FI_MR_SCALABLE);
}

TEST(a_key_is_used_once)
{
	static const uint64_t keys[] = {0, 1, KEY, UINT64_MAX - 1};
	struct ends e;
	struct fid_mr *mr[HK_ARRAY_LEN(keys)], *no;

	open_ends(&e, 0);
	for (size_t i = 0; i < HK_ARRAY_LEN(keys); i++) {
		mr[i] = reg(&e.b, first + 100 * i, 100, keys[i]);
		CHECK_EQ(fi_mr_key(mr[i]), keys[i]);
	}
	for (size_t i = 0; i < HK_ARRAY_LEN(keys); i++) {
		CHECK_EQ(fi_mr_reg(e.b.domain, second, 8, BOTH, 0, keys[i], 0, &no, NULL),
			 -FI_ENOKEY);
		write_of(&e, 100, keys[i], (char)(i + 1));
	}
	for (size_t i = 0; i < 100 * HK_ARRAY_LEN(keys); i++)
		CHECK_EQ(first[i], i / 100 + 1);
	for (size_t i = 0; i < HK_ARRAY_LEN(keys); i++)
		FI_OK(fi_close(&mr[i]->fid));
	mr[0] = reg(&e.b, first, 8, KEY); /* it is free again */
	FI_OK(fi_close(&mr[0]->fid));
	CHECK_EQ(second[0], 0);
	ends_close(&e);
}

/* The peer has used the key before, and does not learn that its region is another one. */
TEST(a_key_gets_other_memory)
{
	static const size_t sizes[] = {1, 1000, LARGE};
	struct ends e;

	open_ends(&e, 0);
	for (size_t i = 0; i < HK_ARRAY_LEN(sizes); i++) {
		char value = (char)(2 * i + 1);
		struct fid_mr *mr = reg(&e.b, first, LARGE, KEY);

		write_of(&e, sizes[i], KEY, value);
		FI_OK(fi_close(&mr->fid));
		mr = reg(&e.b, second, LARGE, KEY);
		memset(own, value + 1, sizes[i]);
		FI_OK(fi_writedata(e.a.ep, own, sizes[i], NULL, 9, e.a.peer, 0, KEY, NULL));
		CHECK_EQ(ends_wait(&e, &e.b).data, 9); /* then the bytes are there */
		for (size_t at = 0; at < sizes[i]; at++)
			CHECK(first[at] == value && second[at] == value + 1);
		CHECK_EQ(ends_wait(&e, &e.a).flags, FI_RMA | FI_WRITE);
		FI_OK(fi_close(&mr->fid));
		mr = reg(&e.b, first, LARGE, KEY);
		FI_OK(fi_read(e.a.ep, own, sizes[i], NULL, e.a.peer, 0, KEY, NULL));
		CHECK_EQ(ends_wait(&e, &e.a).flags, FI_RMA | FI_READ);
		CHECK(memcmp(own, first, sizes[i]) == 0);
		FI_OK(fi_close(&mr->fid));
	}
	ends_close(&e);
}

/* No data comes of a write that is refused. */
TEST(a_key_that_is_not_there)
{
	struct ends e;

	open_ends(&e, 0);
	FI_OK(fi_writedata(e.a.ep, own, 8, NULL, 9, e.a.peer, 0, KEY, NULL));
	CHECK_EQ(ends_wait_error(&e, &e.a).err, FI_EACCES);
	FI_OK(fi_read(e.a.ep, own, 8, NULL, e.a.self, 0, KEY, NULL));
	CHECK_EQ(ends_wait_error(&e, &e.a).err, FI_EACCES);
	ends_rest(&e);
	ends_close(&e);
}

/* More than a bucket, and more than the first table of what is known of peers. */
TEST(many_keys)
{
	static struct fid_mr *mr[MANY];
	struct ends e;
	uint64_t *words = (uint64_t *)(void *)first;

	open_ends(&e, 0);
	for (uint64_t i = 0; i < MANY; i++)
		mr[i] = reg(&e.b, words + i, 8, i << 32);
	for (unsigned round = 1; round <= 2; round++) {
		for (uint64_t i = 0; i < MANY; i++) {
			uint64_t value = round * 1000 + i;

			FI_OK(fi_write(e.a.ep, &value, 8, NULL, e.a.peer, 0, i << 32, NULL));
			CHECK_EQ(ends_wait(&e, &e.a).flags, FI_RMA | FI_WRITE);
		}
		for (uint64_t i = 0; i < MANY; i++)
			CHECK_EQ(words[i], round * 1000 + i);
	}
	for (unsigned i = 0; i < MANY; i++)
		FI_OK(fi_close(&mr[i]->fid));
	ends_close(&e);
}

/* The owner's worker tells a key, not its program. */
TEST(the_owner_need_not_poll)
{
	struct ends e;
	struct fid_mr *mr;
	struct fi_cq_tagged_entry got;
	int64_t end = hk_clock_ms() + LIMIT_MS;

	open_ends(&e, 0);
	mr = reg(&e.b, first, LARGE, KEY);
	memset(own, 3, LARGE);
	FI_OK(fi_write(e.a.ep, own, LARGE, NULL, e.a.peer, 0, KEY, NULL));
	while (fi_cq_read(e.a.cq, &got, 1) == -FI_EAGAIN)
		CHECK(hk_clock_ms() < end);
	CHECK(memcmp(own, first, LARGE) == 0);
	FI_OK(fi_close(&mr->fid));
	ends_close(&e);
}

/* FI_MR_BASIC: memory by its address, and keys of the provider. */
TEST(addresses)
{
	struct ends e;
	struct fid_mr *mr, *second_mr;
	uint64_t at = (uintptr_t)first, key;

	open_ends(&e, HK_FI_MR_BASIC);
	mr = reg(&e.b, first, 16, KEY);
	second_mr = reg(&e.b, second, 16, KEY); /* it is ignored */
	key = fi_mr_key(mr);
	CHECK(key != KEY && key != fi_mr_key(second_mr));
	FI_OK(fi_write(e.a.ep, "here", 4, NULL, e.a.peer, at + 12, key, NULL));
	CHECK_EQ(ends_wait(&e, &e.a).flags, FI_RMA | FI_WRITE);
	CHECK(memcmp(first + 12, "here", 4) == 0);
	for (unsigned i = 0; i < 3; i++) {
		const uint64_t outside[] = {at + 13, at - 1, 0};

		FI_OK(fi_write(e.a.ep, "here", 4, NULL, e.a.peer, outside[i], key, NULL));
		CHECK_EQ(ends_wait_error(&e, &e.a).err, FI_EACCES);
	}
	FI_OK(fi_close(&mr->fid));
	FI_OK(fi_close(&second_mr->fid));
	ends_close(&e);
}

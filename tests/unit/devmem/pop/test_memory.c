/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/devmem/pop/test_memory.c: pop specs, PCI devices on an artificial tree in place of
 * /sys, and addresses. It touches no device.
 */
#include "devmem/pop/internal.h"
#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- specs ----------------------------------------------------------------------------------- */

TEST(specs)
{
	struct hk_pop_spec s;

	CHECK_OK(hk_pop_spec_parse("pop:bar:0000:3b:00.1,bar=2,size=16M,offset=4K,wc=1", &s, ERR));
	CHECK_EQ(s.kind, HK_POP_BAR);
	CHECK(strcmp(s.device, "0000:3b:00.1") == 0);
	CHECK(s.bar == 2 && s.size == 16u << 20 && s.offset == 4096 && s.wc);
	CHECK_OK(hk_pop_spec_parse("pop:huge:size=1G", &s, ERR));
	CHECK_EQ(s.size, 1u << 30);
	CHECK_OK(hk_pop_spec_parse("pop:ivshmem:0000:00:08.0", &s, ERR));
	CHECK(s.bar == 2 && s.size == 0);
	CHECK_OK(hk_pop_spec_parse("pop:gpu:1,size=64K", &s, ERR));
	CHECK(s.gpu == 1 && s.size == 65536);
	CHECK_OK(hk_pop_spec_parse("pop:physical:0x1000,size=4096,accept=corruption", &s, ERR));
	CHECK(s.physical == 4096 && s.accept_corruption);
}

TEST(specs_refused)
{
	static const struct {
		const char *text, *message;
		int rc;
	} cases[] = {
		{"", "is not a pop", -EINVAL},
		{"huge:size=1G", "is not a pop", -EINVAL},
		{"pop:", "is not a pop", -EINVAL},
		{"pop:bar", "is not a pop", -EINVAL},
		{"pop:disk:0", "is not a pop", -EINVAL},
		{"pop:huge:size=0", "size=0", -EINVAL},
		{"pop:huge:size=-1", "size=-1", -EINVAL},
		{"pop:huge:size=18446744073709551615G", "not a number", -EINVAL},
		{"pop:huge:bar=1", "no option 'bar'", -EINVAL},
		{"pop:huge:size", "size=", -EINVAL},
		{"pop:huge:size=1M,size=2M", "twice", -EINVAL},
		{"pop:bar:0000:3b:00.1", "bar= is missing", -EINVAL},
		{"pop:bar:0000:3b:00.1,bar=6", "bar=6", -EINVAL},
		{"pop:bar:3b:00.1,bar=1", "not a PCI address", -EINVAL},
		{"pop:bar:0000:3b:00.8,bar=1", "not a PCI address", -EINVAL},
		{"pop:bar:../../../etc,bar=1", "not a PCI address", -EINVAL},
		{"pop:cmb:0000:3b:00.1,wc=1", "no option 'wc'", -EINVAL},
		{"pop:gpu:x,size=1M", "number of a GPU", -EINVAL},
		{"pop:gpu:0", "size= is missing", -EINVAL},
		{"pop:physical:0x1001,size=4096,accept=corruption", "not the address of a page",
		 -EINVAL},
		{"pop:physical:0x1000,size=4096,accept=yes", "accept=", -EINVAL},
		{"pop:physical:0x1000,size=4096", "accept=corruption", -EPERM},
	};
	char longest[HK_POP_SPEC_MAX + 1];
	struct hk_pop_spec s;

	for (size_t i = 0; i < HK_ARRAY_LEN(cases); i++) {
		CHECK_REFUSED(hk_pop_spec_parse(cases[i].text, &s, ERR), cases[i].rc,
			      cases[i].message, "; fix: ");
	}
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	CHECK_EQ(hk_pop_spec_parse(longest, &s, ERR), -EINVAL);
}

/* ---- an artificial /sys ---------------------------------------------------------------------- */

#define DEVICE "0000:00:08.0"

static char root[TMP_PATH];

/* The path of a file of the device. */
static const char *at(const char *name)
{
	static char path[256];
	snprintf(path, sizeof(path), "%s/bus/pci/devices/" DEVICE "/%s", root, name);
	return path;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(at(name), "w");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void get(const char *name, char *text, size_t len)
{
	FILE *f = fopen(at(name), "r");
	CHECK(f);
	text[fread(text, 1, len - 1, f)] = '\0';
	fclose(f);
}

/* A device with registers in BAR 0 (4 KB), 16 KB of prefetchable memory in BAR 2 and ports in
 * BAR 4. */
static void make_tree(void)
{
	char path[256];

	tmp_dir(root);
	const char *dirs[] = {"bus", "bus/pci", "bus/pci/devices", ("bus/pci/devices/" DEVICE)};
	for (size_t i = 0; i < HK_ARRAY_LEN(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, dirs[i]);
		CHECK_EQ(mkdir(path, 0700), 0);
	}
	put("vendor", "0x1af4\n");
	put("device", "0x1110\n");
	put("class", "0x050000\n");
	put("enable", "0\n");
	put("resource", "0x00000000febf1000 0x00000000febf1fff 0x0000000000040200\n"
			"0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
			"0x0000000800000000 0x0000000800003fff 0x000000000014220c\n"
			"0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
			"0x000000000000c000 0x000000000000cfff 0x0000000000000101\n"
			"0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
			"0x0000000000000000 0x0000000000000000 0x0000000000000000\n");
	put("resource0", "");
	put("resource2", "");
	CHECK_EQ(truncate(at("resource2"), 16384), 0);
	CHECK_EQ(truncate(at("resource0"), 4096), 0);
}

static int open_pop(const char *text, struct hk_pop_memory *m, struct hk_error *err)
{
	struct hk_pop_spec s;
	CHECK_EQ(hk_pop_spec_parse(text, &s, err), 0);
	return hk_pop_memory_open(root, &s, false, m, err);
}

TEST(bars)
{
	struct hk_pop_memory m, second;
	char text[64], mine[32];

	make_tree();
	CHECK_OK(open_pop("pop:ivshmem:" DEVICE, &m, ERR));
	CHECK(m.info.size == 16384 && m.info.physical == UINT64_C(0x800000000) && m.info.slow_read);
	get("enable", text, sizeof(text));
	CHECK(text[0] == '1');
	CHECK_EQ((uintptr_t)m.va % HK_POP_ALIGN, 0);
	memcpy(m.va + 16380, "end", 4);
	char seen[16385];
	get("resource2", seen, sizeof(seen));
	CHECK(memcmp(seen + 16380, "end", 4) == 0);

	/* one owner; the error names its process */
	snprintf(mine, sizeof(mine), "by process %d;", (int)getpid());
	CHECK_REFUSED(open_pop("pop:bar:" DEVICE ",bar=2,size=4096", &second, ERR), -EBUSY, mine,
		      DEVICE);
	m.close(&m);
	CHECK_OK(open_pop("pop:bar:" DEVICE ",bar=2,size=4096,offset=8192", &second, ERR));
	CHECK_EQ(second.info.physical, UINT64_C(0x800002000));
	second.close(&second);
	tmp_remove(root);
}

TEST(bars_refused)
{
	static const struct {
		const char *spec, *message;
		int rc;
	} cases[] = {
		{"pop:bar:0000:00:09.0,bar=2", "no PCI device 0000:00:09.0", -ENODEV},
		{"pop:bar:" DEVICE ",bar=1", "use one of BARs 0 2", -ENOTSUP},
		{"pop:bar:" DEVICE ",bar=4", "no usable memory in BAR 4", -ENOTSUP},
		{"pop:bar:" DEVICE ",bar=2,size=20K", "past the end of BAR 2", -ERANGE},
		{"pop:bar:" DEVICE ",bar=2,offset=16K", "past the end of BAR 2", -ERANGE},
		{"pop:bar:" DEVICE ",bar=2,offset=17K,size=18446744073709551615", "past the end",
		 -ERANGE},
		{"pop:bar:" DEVICE ",bar=2,size=100", "whole pages", -ERANGE},
		{"pop:bar:" DEVICE ",bar=2,wc=1", "write-combining", -ENOTSUP},
		{"pop:cmb:" DEVICE, "not an NVMe controller", -ENOTSUP},
	};
	struct hk_pop_memory m;

	make_tree();
	for (size_t i = 0; i < HK_ARRAY_LEN(cases); i++) {
		CHECK_REFUSED(open_pop(cases[i].spec, &m, ERR), cases[i].rc, cases[i].message);
	}
	put("device", "0x1234\n");
	CHECK_EQ(open_pop("pop:ivshmem:" DEVICE, &m, ERR), -ENOTSUP);
	CHECK_EQ(symlink("../../../../bus/pci/drivers/e1000e", at("driver")), 0);
	CHECK_REFUSED(open_pop("pop:bar:" DEVICE ",bar=2", &m, ERR), -EBUSY,
		      "kernel driver 'e1000e'");
	put("resource", "garbage\n");
	CHECK_EQ(open_pop("pop:bar:" DEVICE ",bar=2", &m, ERR), -EIO);
	tmp_remove(root);
}

/* ---- an NVMe controller's registers ---------------------------------------------------------- */

TEST(cmb_registers)
{
	unsigned bar;
	uint64_t offset, size;

	/* QEMU, cmb_size_mb=16: BAR 2, units of 64 KB … or of 1 MB */
	CHECK_EQ(hk_cmb_place(2, 16u << 12 | 2u << 8 | 0x1f, &bar, &offset, &size), 0);
	CHECK(bar == 2 && offset == 0 && size == 16u << 20);
	CHECK_EQ(hk_cmb_place(4 | 3u << 12, 5u << 12, &bar, &offset, &size), 0);
	CHECK(bar == 4 && offset == 3 * 4096 && size == 5 * 4096);
	CHECK_EQ(hk_cmb_place(2, 0, &bar, &offset, &size), -ENOTSUP);
	CHECK_EQ(hk_cmb_place(6, 1u << 12, &bar, &offset, &size), -ENOTSUP);
	CHECK_EQ(hk_cmb_place(1, 1u << 12, &bar, &offset, &size), -ENOTSUP);
	CHECK_EQ(hk_cmb_place(2, 1u << 12 | 7u << 8, &bar, &offset, &size), -ENOTSUP);
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* Random memories: each offset has its own address, which leads back to it; addresses outside have
 * no offset. */
TEST(translation)
{
	for (unsigned run = 0; run < 200; run++) {
		uint64_t page = UINT64_C(4096) << hk_rng_below(&hk_test_rng, 10);
		uint64_t n = hk_rng_range(&hk_test_rng, 1, 64), pages[64];
		unsigned form = (unsigned)hk_rng_below(&hk_test_rng, 3);
		struct hk_pop_memory m = {.info = {.size = n * page, .page = page}};

		m.info.virtual_iova = form == 0;
		m.va = (unsigned char *)(uintptr_t)(UINT64_C(0x7f0000000000) + page * run);
		m.info.physical = form == 1 ? page * hk_rng_range(&hk_test_rng, 1, 1000)
					    : HK_POP_NONE;
		if (form == 2) {
			m.pages = pages;
			/* some pages are contiguous, some are not; all are distinct */
			for (uint64_t i = 0; i < n; i++)
				pages[i] = i && hk_rng_chance(&hk_test_rng, 500000)
						   ? pages[i - 1] + page
						   : page * (1000 + 200 * (n - i));
		}
		for (unsigned k = 0; k < 300; k++) {
			uint64_t offset = hk_rng_below(&hk_test_rng, m.info.size + page);
			uint64_t len = hk_rng_below(&hk_test_rng,
						    hk_rng_chance(&hk_test_rng, 500000)
							    ? page / 8
							    : m.info.size + page);
			uint64_t bus = hk_pop_memory_bus(&m, offset, len);
			bool inside = len && len <= m.info.size && offset <= m.info.size - len;
			bool contiguous = true;
			for (uint64_t p = offset / page;
			     inside && form == 2 && p < (offset + len - 1) / page; p++)
				contiguous &= pages[p + 1] == pages[p] + page;
			CHECK_EQ(bus != HK_POP_NONE, inside && contiguous);
			if (bus == HK_POP_NONE)
				continue;
			CHECK_EQ(hk_pop_memory_offset(&m, bus, len), offset);
			CHECK_EQ(hk_pop_memory_bus(&m, offset + len - 1, 1), bus + len - 1);
			uint64_t base = form == 0 ? (uintptr_t)m.va : m.info.physical;
			if (form != 2) {
				CHECK_EQ(hk_pop_memory_offset(&m, base - 1, len), HK_POP_NONE);
				CHECK_EQ(
					hk_pop_memory_offset(&m, base + m.info.size - len + 1, len),
					HK_POP_NONE);
			}
		}
		CHECK_EQ(hk_pop_memory_bus(&m, UINT64_MAX, 2), HK_POP_NONE);
		CHECK_EQ(hk_pop_memory_bus(&m, 1, UINT64_MAX), HK_POP_NONE);
		CHECK_EQ(hk_pop_memory_offset(&m, UINT64_MAX, 2), HK_POP_NONE);
		CHECK_EQ(hk_pop_memory_offset(&m, 0, 0), HK_POP_NONE);
	}
}

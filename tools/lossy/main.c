/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/lossy/main.c: hk-lossy, with which a lab loses frames on its links, as on cables and in
 * network switches (`hikyaku lab lose`). It attaches programs to interfaces of its network
 * namespace, and ends. The programs stay until `clear`, or until the interface is deleted.
 */
#include "base/common.h"
#include "hikyaku/error.h"

#include "lossy/lossy.h"
#include "lossy/lossy.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Priority of our filter; the tagger's is 72 (sdn/tagger/attach.c). */
#define PRIORITY 73
#define HANDLE   0x484b4cu /* "HKL" */
#define MILLION  1000000u

static const char usage[] =
	"usage: hk-lossy set PPM SEED INTERFACE[/both]...   lose PPM frames in a million\n"
	"       hk-lossy clear INTERFACE...                 lose none\n"
	"       hk-lossy show INTERFACE...                  print the losses\n"
	"`set` affects sent frames, and with /both received frames, too. `show` prints a line\n"
	"for each: INTERFACE, lost frames and bytes of those sent, and of those received.\n";

static struct bpf_tc_hook hook_of(int ifindex)
{
	return (struct bpf_tc_hook){.sz = sizeof(struct bpf_tc_hook),
				    .ifindex = ifindex,
				    .attach_point = BPF_TC_EGRESS};
}

static struct bpf_tc_opts filter_of(void)
{
	return (struct bpf_tc_opts){
		.sz = sizeof(struct bpf_tc_opts), .handle = HANDLE, .priority = PRIORITY};
}

static int clear(int ifindex)
{
	struct bpf_tc_hook hook = hook_of(ifindex);
	struct bpf_tc_opts filter = filter_of();
	int rc = bpf_tc_detach(&hook, &filter);

	bpf_xdp_detach(ifindex, XDP_FLAGS_SKB_MODE, NULL);
	return rc == -ENOENT || rc == -EINVAL ? 0 : rc; /* no filter of ours, or no clsact */
}

static int attach(const struct lossy_bpf *skel, int ifindex, bool both)
{
	struct bpf_tc_hook hook = hook_of(ifindex);
	struct bpf_tc_opts filter = filter_of();
	int rc = bpf_tc_hook_create(&hook);

	if (rc && rc != -EEXIST)
		return rc;
	filter.prog_fd = bpf_program__fd(skel->progs.lossy_out);
	rc = bpf_tc_attach(&hook, &filter);
	if (rc == 0 && both)
		rc = bpf_xdp_attach(ifindex, bpf_program__fd(skel->progs.lossy_in),
				    XDP_FLAGS_SKB_MODE | XDP_FLAGS_UPDATE_IF_NOEXIST, NULL);
	return rc;
}

/* Loads separate programs for each interface, with their own counters. */
static int set(int ifindex, bool both, uint64_t below, uint64_t seed)
{
	struct lossy_bpf *skel = lossy_bpf__open();
	int rc = skel ? 0 : -errno;

	if (rc == 0) {
		skel->rodata->seed = seed;
		skel->rodata->below = below;
		rc = lossy_bpf__load(skel);
	}
	if (rc == 0)
		rc = clear(ifindex);
	if (rc == 0)
		rc = attach(skel, ifindex, both);
	if (rc)
		clear(ifindex);
	lossy_bpf__destroy(skel);
	return rc;
}

/* The counts of the program that is attached to @ifindex, by its map. */
static int counts_of(int ifindex, struct hk_lossy_count counts[HK_LOSSY_WAYS])
{
	struct bpf_tc_hook hook = hook_of(ifindex);
	struct bpf_tc_opts filter = filter_of();
	uint32_t map_id = 0, len = sizeof(struct bpf_prog_info);
	struct bpf_map_info map = {0};
	/* rodata and counters are maps */
	uint32_t ids[4];
	struct bpf_prog_info info = {.nr_map_ids = HK_ARRAY_LEN(ids),
				     .map_ids = (uint64_t)(uintptr_t)ids};
	int program, fd, rc = bpf_tc_query(&hook, &filter);

	if (rc)
		return rc;
	program = bpf_prog_get_fd_by_id(filter.prog_id);
	if (program < 0)
		return program;
	rc = bpf_obj_get_info_by_fd(program, &info, &len);
	close(program);
	for (uint32_t i = 0; rc == 0 && i < HK_MIN(info.nr_map_ids, HK_ARRAY_LEN(ids)); i++) {
		fd = bpf_map_get_fd_by_id(ids[i]);
		len = sizeof(map);
		if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &map, &len) == 0 &&
		    strncmp(map.name, "hk_lossy_counts", BPF_OBJ_NAME_LEN - 1) == 0) {
			map_id = map.id;
			for (uint32_t way = 0; way < HK_LOSSY_WAYS && rc == 0; way++)
				rc = bpf_map_lookup_elem(fd, &way, &counts[way]);
		}
		if (fd >= 0)
			close(fd);
	}
	return rc == 0 && map_id == 0 ? -ENOENT : rc;
}

static int show(const char *name, int ifindex)
{
	struct hk_lossy_count c[HK_LOSSY_WAYS] = {0};
	int rc = counts_of(ifindex, c);

	if (rc == 0)
		printf("%s %lu %lu %lu %lu\n", name, c[HK_LOSSY_OUT].lost, c[HK_LOSSY_OUT].bytes,
		       c[HK_LOSSY_IN].lost, c[HK_LOSSY_IN].bytes);
	return rc;
}

static int number(const char *text, uint64_t most, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno || *end || end == text || text[0] == '-' || *out > most ? -EINVAL : 0;
}

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	(void)format;
	(void)args;
	return 0;
}

/* FNV-1a of the name, for the seed: interfaces lose different frames, and the same ones in each
 * lab. */
static uint64_t hash(const char *name)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	return h;
}

static int one(char *const *argv, char *name, uint64_t ppm, uint64_t seed, struct hk_error *err)
{
	char *slash = strchr(name, '/');
	bool both = slash && strcmp(slash, "/both") == 0;
	int ifindex, rc;

	if (slash)
		*slash = '\0';
	ifindex = (int)if_nametoindex(name);
	if (ifindex == 0 || (slash && !both))
		return hk_error_set(err, -ENODEV,
				    "there is no interface '%s' in this network namespace; fix: "
				    "see ip link",
				    name);
	if (strcmp(argv[1], "set") == 0)
		rc = set(ifindex, both, (ppm << 32) / MILLION, hash(name) + seed);
	else if (strcmp(argv[1], "clear") == 0)
		rc = clear(ifindex);
	else
		rc = show(name, ifindex);
	if (rc)
		return hk_error_set(err, rc, "cannot %s the losses of %s: %s; fix: %s", argv[1],
				    name, strerror(-rc),
				    strcmp(argv[1], "show") == 0
					    ? "run hk-lossy set first"
					    : "run as root, on Linux 6.1 or newer with BTF");
	return 0;
}

int main(int argc, char **argv)
{
	bool sets = argc > 1 && strcmp(argv[1], "set") == 0;
	uint64_t ppm = 0, seed = 0;
	struct hk_error err;
	int first = sets ? 4 : 2;

	libbpf_set_print(quiet);
	if (argc <= first || (!sets && strcmp(argv[1], "clear") && strcmp(argv[1], "show")) ||
	    (sets && (number(argv[2], MILLION, &ppm) || number(argv[3], UINT64_MAX, &seed)))) {
		fputs(usage, stderr);
		return 2;
	}
	for (int i = first; i < argc; i++)
		if (one(argv, argv[i], ppm, seed, &err)) {
			fprintf(stderr, "hk-lossy: %s\n", err.text);
			return 1;
		}
	return 0;
}

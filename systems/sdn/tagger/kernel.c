/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/kernel.c: loads and attaches the programs of tagger.bpf.c, by libbpf.
 */
#include "sdn/tagger/kernel.h"

#include "sdn/tagger/tagger.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_LINKS 129 /* two for each interface, and one to measure */

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	if (level == LIBBPF_WARN && getenv("HIKYAKU_TAG_DEBUG"))
		return vfprintf(stderr, format, args);
	return 0;
}

void hk_tagger_kernel_quiet(void)
{
	libbpf_set_print(quiet);
}

struct hk_tagger_kernel {
	struct tagger_bpf *skel;
	const struct hk_tagger_slot *slots;
	struct bpf_link *link[2];
	int fd[MAX_LINKS];
	unsigned links, fds;
	enum hk_tagger_attach way;
	unsigned job, filters;
	struct filter {
		unsigned ifindex;
		bool ingress;
	} filter[MAX_LINKS];
};

static int load_error(int rc, struct hk_error *err)
{
	if (rc == -EPERM || rc == -EACCES)
		return hk_error_set(err, rc, "this user may not load eBPF programs%s",
				    hk_tagger_attach_privilege());
	return hk_error_set(
		err, rc,
		"the kernel refuses the tagger's eBPF programs: %s; fix: use Linux 6.1 or newer; "
		"HIKYAKU_TAG_DEBUG=1 shows its messages",
		strerror(-rc));
}

int hk_tagger_kernel_open(struct hk_tagger_kernel **out, unsigned job, enum hk_tagger_attach way,
			  struct hk_error *err)
{
	struct hk_tagger_kernel *k = calloc(1, sizeof(*k));
	int rc;

	if (!k)
		return hk_error_set(err, -ENOMEM, "out of memory");
	hk_tagger_kernel_quiet();
	k->job = job;
	k->way = way;
	k->skel = tagger_bpf__open();
	if (!k->skel) {
		rc = load_error(-errno, err);
		hk_tagger_kernel_close(k);
		return rc;
	}
	k->skel->rodata->job = (uint16_t)job;
	rc = tagger_bpf__load(k->skel);
	if (rc) {
		hk_tagger_kernel_close(k);
		return load_error(rc, err);
	}
	const struct bpf_program *jumps[HK_TAGGER_JUMPS] = {
		[HK_TAGGER_JUMP_EGRESS] = k->skel->progs.hk_egress,
		[HK_TAGGER_JUMP_INGRESS] = k->skel->progs.hk_ingress};
	for (uint32_t i = 0; i < HK_TAGGER_JUMPS && rc == 0; i++) {
		int fd = bpf_program__fd(jumps[i]);
		rc = bpf_map_update_elem(bpf_map__fd(k->skel->maps.jumps), &i, &fd, BPF_ANY);
	}
	if (rc) {
		hk_tagger_kernel_close(k);
		return load_error(rc, err);
	}
	void *mapped = mmap(NULL, HK_TAGGER_SLOTS * sizeof(struct hk_tagger_slot), PROT_READ,
			    MAP_SHARED, hk_tagger_kernel_slots_fd(k), 0);
	if (mapped == MAP_FAILED) {
		rc = load_error(-errno, err);
		hk_tagger_kernel_close(k);
		return rc;
	}
	k->slots = mapped;
	*out = k;
	return 0;
}

void hk_tagger_kernel_close(struct hk_tagger_kernel *k)
{
	if (!k)
		return;
	while (k->filters > 0) {
		const struct filter *f = &k->filter[--k->filters];
		hk_tagger_attach_remove(f->ifindex, k->job, f->ingress);
	}
	while (k->fds > 0)
		close(k->fd[--k->fds]);
	while (k->links > 0)
		bpf_link__destroy(k->link[--k->links]);
	if (k->slots)
		munmap((void *)k->slots, HK_TAGGER_SLOTS * sizeof(struct hk_tagger_slot));
	tagger_bpf__destroy(k->skel);
	free(k);
}

int hk_tagger_kernel_attach_cgroup(struct hk_tagger_kernel *k, int cgroup_fd, struct hk_error *err)
{
	struct bpf_program *programs[] = {k->skel->progs.hk_socket, k->skel->progs.hk_connect};

	for (size_t i = 0; i < HK_ARRAY_LEN(programs); i++) {
		struct bpf_link *link = bpf_program__attach_cgroup(programs[i], cgroup_fd);
		if (!link)
			return hk_error_set(err, -errno,
					    "cannot attach the tagger to the job's cgroup: "
					    "%s%s",
					    strerror(errno), hk_tagger_attach_privilege());
		k->link[k->links++] = link;
	}
	return 0;
}

static int attach(struct hk_tagger_kernel *k, unsigned ifindex, bool ingress, const char *name,
		  struct hk_error *err)
{
	if (k->fds == MAX_LINKS || k->filters == MAX_LINKS)
		return hk_error_set(
			err, -ENOSPC,
			"more than %d interfaces; fix: name those that carry MPI: --iface "
			"NAME",
			MAX_LINKS / 2);
	if (k->way == HK_TAGGER_ATTACH_CLSACT) {
		const struct bpf_program *jump = ingress ? k->skel->progs.hk_ingress_jump
							 : k->skel->progs.hk_egress_jump;
		int rc = hk_tagger_attach_clsact(bpf_program__fd(jump), ifindex, k->job, ingress,
						 name, err);
		if (rc == 0)
			k->filter[k->filters++] = (struct filter){ifindex, ingress};
		return rc;
	}
	const struct bpf_program *program = ingress ? k->skel->progs.hk_ingress
						    : k->skel->progs.hk_egress;
	int fd = hk_tagger_attach_tcx(bpf_program__fd(program), ifindex, ingress, name, err);
	if (fd < 0)
		return fd;
	k->fd[k->fds++] = fd;
	return 0;
}

int hk_tagger_kernel_attach_link(struct hk_tagger_kernel *k, unsigned ifindex, const char *name,
				 uint64_t mac, bool restore, struct hk_error *err)
{
	int rc = attach(k, ifindex, false, name, err);

	if (rc || !restore)
		return rc;
	const struct hk_tagger_own entry = {.ifindex = ifindex, .mac = mac};
	uint32_t at = ifindex % HK_TAGGER_OWN_SLOTS;
	rc = bpf_map_update_elem(bpf_map__fd(k->skel->maps.own_macs), &ifindex, &mac, BPF_ANY);
	if (rc == 0)
		rc = bpf_map_update_elem(bpf_map__fd(k->skel->maps.own_macs_by_slot), &at, &entry,
					 BPF_ANY);
	if (rc)
		return hk_error_set(err, rc,
				    "cannot enter the address of %s into the kernel's map: %s",
				    name, strerror(-rc));
	return attach(k, ifindex, true, name, err);
}

int hk_tagger_kernel_add(struct hk_tagger_kernel *k, uint32_t slot, uint32_t rank, uint32_t pid)
{
	uint32_t both = slot | rank << 16, yes = 1;
	int rc = bpf_map_update_elem(bpf_map__fd(k->skel->maps.processes), &pid, &both, BPF_ANY);

	if (rc == 0)
		rc = bpf_map_update_elem(bpf_map__fd(k->skel->maps.local), &rank, &yes, BPF_ANY);
	return rc;
}

void hk_tagger_kernel_remove(struct hk_tagger_kernel *k, uint32_t slot, uint32_t rank, uint32_t pid)
{
	struct hk_tagger_slot clean = {0};
	uint32_t no = 0;

	bpf_map_delete_elem(bpf_map__fd(k->skel->maps.processes), &pid);
	bpf_map_update_elem(bpf_map__fd(k->skel->maps.local), &rank, &no, BPF_ANY);
	bpf_map_update_elem(hk_tagger_kernel_slots_fd(k), &slot, &clean, BPF_ANY);
}

int hk_tagger_kernel_slots_fd(const struct hk_tagger_kernel *k)
{
	return bpf_map__fd(k->skel->maps.slots);
}

uint32_t hk_tagger_kernel_function(const struct hk_tagger_kernel *k, uint32_t slot)
{
	return *(const volatile uint32_t *)&k->slots[slot].function;
}

void hk_tagger_kernel_counts(const struct hk_tagger_kernel *k,
			     struct hk_tagger_sum sums[HK_TAGGER_COUNTS])
{
	int cpus = libbpf_num_possible_cpus(), fd = bpf_map__fd(k->skel->maps.counts);
	struct hk_tagger_sum *each = cpus > 0 ? calloc((size_t)cpus, sizeof(*each)) : NULL;

	memset(sums, 0, HK_TAGGER_COUNTS * sizeof(*sums));
	for (uint32_t i = 0; each && i < HK_TAGGER_COUNTS; i++) {
		if (bpf_map_lookup_elem(fd, &i, each) != 0)
			continue;
		for (int c = 0; c < cpus; c++) {
			sums[i].frames += each[c].frames;
			sums[i].bytes += each[c].bytes;
		}
	}
	free(each);
}

int hk_tagger_kernel_connections(const struct hk_tagger_kernel *k,
				 void (*each)(void *arg, const struct hk_tagger_connection *c),
				 void *arg, struct hk_error *err)
{
	return hk_tagger_connections(bpf_map__fd(k->skel->maps.conns), each, arg, err);
}

int hk_tagger_kernel_measure(struct hk_tagger_kernel *k, struct hk_error *err)
{
	int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);

	if (fd < 0)
		return hk_error_set(err, fd,
				    "cannot make the kernel measure programs: %s; fix: run as root "
				    "(or with cap_sys_admin), or remove --measure",
				    strerror(-fd));
	k->fd[k->fds++] = fd;
	return 0;
}

struct hk_tagger_kernel_cost hk_tagger_kernel_cost(const struct hk_tagger_kernel *k, bool ingress)
{
	const struct bpf_program *program = ingress ? k->skel->progs.hk_ingress
						    : k->skel->progs.hk_egress;
	struct bpf_prog_info info = {0};
	uint32_t len = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &len) != 0)
		return (struct hk_tagger_kernel_cost){0};
	return (struct hk_tagger_kernel_cost){.runs = info.run_cnt, .ns = info.run_time_ns};
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/syscalls.c: see hostd/syscalls.h.
 *
 * This lists calls that are forbidden, and not those that are allowed: DPDK's drivers and the C
 * library choose their system calls by themselves. These change with each release.
 */
#include "hostd/syscalls.h"
#include "base/common.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH       AUDIT_ARCH_X86_64
#define NUMBER_MAX 0x3fffffffU /* above are those of the x32 ABI */
#elif defined(__aarch64__)
#define ARCH       AUDIT_ARCH_AARCH64
#define NUMBER_MAX UINT32_MAX
#else
#error "name the architecture as linux/audit.h does"
#endif

static const uint32_t never[] = {
#ifndef __SANITIZE_ADDRESS__ /* its search for leaks traces the process */
	SYS_ptrace,
#endif
	/* other processes */
	SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_pidfd_getfd, SYS_perf_event_open,
	/* files by another way than their names */
	SYS_open_by_handle_at, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_tree,
	SYS_move_mount, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_mount_setattr,
	/* namespaces: a new one has all capabilities within it */
	SYS_unshare, SYS_setns,
	/* parts of the kernel that few programs use and that had many faults */
	SYS_userfaultfd, SYS_io_uring_setup, SYS_add_key, SYS_request_key, SYS_keyctl,
	/* the whole machine */
	SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_kexec_file_load,
	SYS_reboot, SYS_swapon, SYS_swapoff, SYS_acct, SYS_settimeofday, SYS_clock_settime,
	SYS_clock_adjtime, SYS_adjtimex, SYS_sethostname, SYS_setdomainname};

static const uint32_t of_programs[] = {SYS_execve, SYS_execveat, SYS_bpf};

struct filter {
	unsigned short len;
	struct sock_filter line[8 + 2 * (HK_ARRAY_LEN(never) + HK_ARRAY_LEN(of_programs))];
};

static void add(struct filter *f, struct sock_filter line)
{
	f->line[f->len++] = line;
}

static void load(struct filter *f, uint32_t offset)
{
	add(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

/* Compares by @test, such as BPF_JEQ. The next line is passed over unless the result is @taken. */
static void compare(struct filter *f, uint16_t test, uint32_t with, bool taken)
{
	add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, with, !taken, taken));
}

static void forbid(struct filter *f)
{
	add(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
}

static void forbid_each(struct filter *f, const uint32_t *number, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		compare(f, BPF_JEQ, number[i], true);
		forbid(f);
	}
}

int hk_syscalls_forbid(bool programs, struct hk_error *err)
{
	struct filter f = {0};

	load(&f, offsetof(struct seccomp_data, arch));
	compare(&f, BPF_JEQ, ARCH, false);
	forbid(&f);
	load(&f, offsetof(struct seccomp_data, nr));
	compare(&f, BPF_JGT, NUMBER_MAX, true);
	forbid(&f);
	forbid_each(&f, never, HK_ARRAY_LEN(never));
	if (!programs)
		forbid_each(&f, of_programs, HK_ARRAY_LEN(of_programs));
	add(&f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));

	struct sock_fprog all = {.len = f.len, .filter = f.line};
	long rc = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &all);

	if (rc < 0)
		return hk_error_set(err, -errno, "cannot restrict system calls: %s",
				    strerror(errno));
	if (rc > 0) /* the thread that could not follow */
		return hk_error_set(err, -EBUSY, "cannot restrict system calls of thread %ld", rc);
	return 0;
}

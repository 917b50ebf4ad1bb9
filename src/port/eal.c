/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/eal.c: DPDK's environment (EAL) inside an application's process, such as an MPI rank.
 *
 * DESIGN NOTES
 *
 * Problem: EAL was made for programs of its own. It pins the calling thread, logs to stderr, writes
 * files under /var/run, opens a telemetry socket, and needs huge pages. A rank must not notice any
 * of this.
 *
 * Approach:
 *  - By default ordinary memory, and no shared files (--no-huge --no-shconf).
 *  - One logical core that may run on exactly the CPUs that the thread may use now.
 *  - DPDK probes only PCI devices that the caller names. A scan of the bus unbinds nothing, but
 *    probing would take every NIC that is bound to a user-space driver.
 *  - Logs go to a small buffer, whose first line error texts quote (hk_dpdk_log()).
 *  - EAL's threads block every signal, so that the application's threads run its handlers.
 *  - This library and EAL are never unloaded, because EAL's interrupt thread outlives dlclose().
 * eal_shared.c has the differences for processes that share memory.
 */
#include "port/internal.h"
#include "base/capabilities.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <rte_memory.h>
#include <rte_service_component.h>
#include <rte_version.h>

#define HK_EAL_MAX_ARGS   64
#define HK_EAL_DEFAULT_MB 256
/* Lazy buffers have only their mbufs there: 200 000 of them fit. DPDK describes each page of it in
 * advance, in 52 bytes. */
#define HK_EAL_LAZY_MB      64
#define HK_EAL_MAX_MB       65536
#define HK_EAL_CPU_LIST_LEN 4096
#define TSC_SLEEP_NS        5000000 /* the rate is right to 1 in 20 000 then */
#define HK_EAL_SOCKETS      8       /* NUMA nodes whose memory is limited */

static bool eal_started, eal_verbose;
static uint64_t tsc_hz; /* 0: not measured yet */
static enum hk_eal_role eal_role;
static bool eal_lazy_buffers;
static bool eal_bare;                          /* no port needs DPDK */
static char eal_shared[64], eal_huge_dir[256]; /* set in a primary or secondary after its start */
static char first_log[200];
static pthread_mutex_t first_log_lock = PTHREAD_MUTEX_INITIALIZER;

void hk_pause_1ms(void)
{
	const struct timespec ts = {.tv_nsec = 1000000};
	nanosleep(&ts, NULL);
}

/* ---- logs ------------------------------------------------------------------------------------ */

static ssize_t capture_log(void *cookie, const char *buf, size_t len)
{
	(void)cookie;
	/* Remove prefixes such as "func():", because users do not know the functions. */
	const char *p = buf, *end = buf + len;
	const char *colon = memchr(p, ':', HK_MIN(len, (size_t)48));
	if (colon && colon > p && colon[-1] == ')')
		p = colon + 1;
	while (p < end && isspace((unsigned char)*p))
		p++;
	while (end > p && isspace((unsigned char)end[-1]))
		end--;
	if (p == end)
		return (ssize_t)len;
	pthread_mutex_lock(&first_log_lock);
	if (!first_log[0]) {
		size_t n = HK_MIN((size_t)(end - p), sizeof(first_log) - 1);
		memcpy(first_log, p, n);
		first_log[n] = '\0';
	}
	pthread_mutex_unlock(&first_log_lock);
	return (ssize_t)len;
}

const char *hk_dpdk_log(void)
{
	static _Thread_local char copy[sizeof(first_log)];
	pthread_mutex_lock(&first_log_lock);
	memcpy(copy, first_log, sizeof(copy));
	pthread_mutex_unlock(&first_log_lock);
	return copy;
}

void hk_dpdk_log_clear(void)
{
	pthread_mutex_lock(&first_log_lock);
	first_log[0] = '\0';
	pthread_mutex_unlock(&first_log_lock);
}

static int quiet_logs(struct hk_error *err)
{
	const cookie_io_functions_t io = {.write = capture_log};
	FILE *f = fopencookie(NULL, "w", io);
	if (!f)
		return hk_error_set(err, -ENOMEM, "no memory for DPDK's log");
	setvbuf(f, NULL, _IOLBF, 512);
	rte_openlog_stream(f);
	rte_log_set_global_level(RTE_LOG_ERR);
	return 0;
}

/* ---- arguments ------------------------------------------------------------------------------- */

struct args {
	char *v[HK_EAL_MAX_ARGS + 1];
	int n;
	bool full;
};

static void arg(struct args *a, const char *text)
{
	char *copy = a->n < HK_EAL_MAX_ARGS ? strdup(text) : NULL;
	if (!copy)
		a->full = true;
	else
		a->v[a->n++] = copy;
}

/* Adds each word of @text. If @before is not NULL, adds it in front of each word. */
static void args_split(struct args *a, const char *before, const char *text)
{
	char *copy = strdup(text), *save = NULL;
	if (!copy) {
		a->full = true;
		return;
	}
	for (char *t = strtok_r(copy, " ", &save); t; t = strtok_r(NULL, " ", &save)) {
		if (before)
			arg(a, before);
		arg(a, t);
	}
	free(copy);
}

static bool lazy_buffers(const struct hk_eal_config *cfg)
{
	return cfg->lazy_buffers && cfg->role == HK_EAL_ALONE && !cfg->hugepages &&
	       !cfg->pci_allow[0] && !cfg->extra_args;
}

static unsigned memory_mb(const struct hk_eal_config *cfg)
{
	if (cfg->memory_mb)
		return cfg->memory_mb;
	return lazy_buffers(cfg) ? HK_EAL_LAZY_MB : HK_EAL_DEFAULT_MB;
}

/* Writes text such as "0@(0-3,8)": logical core 0, which may run on each CPU of @set. */
static void lcore_over(unsigned lcore, const cpu_set_t *set, char *out, size_t len)
{
	size_t n = (size_t)snprintf(out, len, "%u@(", lcore);
	for (int i = 0; i < CPU_SETSIZE && n < len; i++) {
		if (!CPU_ISSET(i, set))
			continue;
		int first = i;
		while (i + 1 < CPU_SETSIZE && CPU_ISSET(i + 1, set))
			i++;
		const char *comma = out[n - 1] == '(' ? "" : ",";
		n += first == i ? (size_t)snprintf(out + n, len - n, "%s%d", comma, i)
				: (size_t)snprintf(out + n, len - n, "%s%d-%d", comma, first, i);
	}
	if (n < len)
		snprintf(out + n, len - n, ")");
}

static void args_alone(struct args *a, const struct hk_eal_config *cfg)
{
	char text[32];
	snprintf(text, sizeof(text), "--file-prefix=" HK_EAL_ALONE_NAME, (int)getpid());
	arg(a, text);
	if (cfg->hugepages) {
		arg(a, "--in-memory");
	} else {
		arg(a, "--no-huge");
		arg(a, "--no-shconf"); /* --in-memory is refused with --no-huge */
	}
}

/* The shared memory does not grow: to grow it, DPDK would ask every secondary and wait 5 s for one
 * that is stopped. One file for each page size, instead of one for each page, saves descriptors. */
static void args_shared(struct args *a, const struct hk_eal_config *cfg, unsigned mb,
			const char *huge_dir)
{
	char text[HK_EAL_CPU_LIST_LEN];
	snprintf(text, sizeof(text), "--file-prefix=%s", cfg->shared);
	arg(a, text);
	if (cfg->role == HK_EAL_SECONDARY) {
		arg(a, "--proc-type=secondary");
		return;
	}
	arg(a, "--proc-type=primary");
	arg(a, "--single-file-segments");
	snprintf(text, sizeof(text), "--huge-dir=%s", huge_dir);
	arg(a, text);
	size_t n = (size_t)snprintf(text, sizeof(text), "--socket-limit=%u", mb);
	for (int i = 1; i < HK_EAL_SOCKETS; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, ",%u", mb);
	arg(a, text);
}

static void build_args(struct args *a, const struct hk_eal_config *cfg, const cpu_set_t *cpus,
		       const char *huge_dir)
{
	char text[HK_EAL_CPU_LIST_LEN];
	unsigned mb = memory_mb(cfg);

	arg(a, "hikyaku");
	arg(a, "--lcores");
	lcore_over(cfg->role == HK_EAL_ALONE ? 0 : cfg->lcore, cpus, text, sizeof(text));
	if (cfg->worker) {
		size_t n = strlen(text);

		text[n] = ',';
		lcore_over(cfg->worker, cpus, text + n + 1, sizeof(text) - n - 1);
	}
	arg(a, text);
	arg(a, "--no-telemetry");
	/* With PCI devices DPDK chooses the mode itself: those under uio need physical addresses.
	 */
	if (!cfg->pci_allow[0])
		arg(a, "--iova-mode=va");
	if (cfg->role == HK_EAL_ALONE)
		args_alone(a, cfg);
	else
		args_shared(a, cfg, mb, huge_dir);
	if (cfg->role != HK_EAL_SECONDARY) {
		arg(a, "-m");
		snprintf(text, sizeof(text), "%u", mb);
		arg(a, text);
	}
	if (cfg->pci_allow[0])
		args_split(a, "-a", cfg->pci_allow);
	else
		arg(a, "--no-pci");
	if (cfg->extra_args)
		args_split(a, NULL, cfg->extra_args);
}

/* ---- start ----------------------------------------------------------------------------------- */

/* Keeps the shared object that contains @symbol loaded until the process ends. */
static void pin_object(void *symbol)
{
	Dl_info info;
	if (dladdr(symbol, &info) && info.dli_fname)
		(void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static const char *start_fix(const struct hk_eal_config *cfg)
{
	if (cfg->role == HK_EAL_SECONDARY)
		return "run the same program and libraries in all processes of one memory; if an "
		       "address is taken here, start this process again";
	if (cfg->role == HK_EAL_PRIMARY)
		return "see what this machine lacks: hikyaku doctor";
	if (cfg->pci_allow[0])
		return "see what this machine lacks: hikyaku doctor";
	if (cfg->hugepages)
		return "run without huge pages, or see what this machine lacks: hikyaku doctor";
	return "lower the memory for buffers, or raise `ulimit -v`";
}

static int start(const struct hk_eal_config *cfg, const cpu_set_t *cpus, const char *huge_dir,
		 struct hk_error *err)
{
	struct args a = {.n = 0};
	build_args(&a, cfg, cpus, huge_dir);
	/* rte_eal_init() reorders its array of pointers, so free those of our own copy. */
	char *own[HK_EAL_MAX_ARGS + 1], *v[HK_EAL_MAX_ARGS + 1];
	memcpy(own, a.v, sizeof(own));
	memcpy(v, a.v, sizeof(v));
	v[a.n] = NULL;

	char alone[32];
	snprintf(alone, sizeof(alone), HK_EAL_ALONE_NAME, (int)getpid());
	int made = cfg->role == HK_EAL_SECONDARY
			   ? 0
			   : hk_eal_make_runtime_dir(
				     cfg->role == HK_EAL_ALONE ? alone : cfg->shared, err);
	int rc = -1;
	if (!a.full && made == 0)
		rc = rte_eal_init(a.n, v);
	int code = rte_errno;
	for (int i = 0; i < a.n; i++)
		free(own[i]);
	if (a.full)
		return hk_error_set(err, -E2BIG,
				    "too many arguments for DPDK (at most %d, %d are ours); "
				    "fix: shorten extra_args",
				    HK_EAL_MAX_ARGS, a.n);
	if (made)
		return made;
	if (rc >= 0) {
		/* Nobody needs DPDK's services. Their tables take 170 KB of the shared memory,
		 * which a process that is killed would keep. */
		rte_service_finalize();
		return 0;
	}
	if (code == EALREADY)
		return hk_error_set(err, -EALREADY,
				    "another part of this process has started DPDK already, or a "
				    "former start failed: it starts only once in a process; "
				    "fix: let one user of DPDK run in a process");
	const char *log = hk_dpdk_log();
	return hk_error_set(err, code ? -code : -EINVAL, "DPDK did not start: %s%s%s; fix: %s",
			    rte_strerror(code), *log ? ": " : "", log, start_fix(cfg));
}

static int check_pci(const char *allow, struct hk_error *err)
{
	for (; *allow; allow += strcspn(allow, " "), allow += strspn(allow, " "))
		if (!hk_spec_is_pci_address(allow))
			return hk_error_set(err, -EINVAL,
					    "\"%.*s\" is not a PCI address; fix: write one such as "
					    "0000:3b:02.1 (lspci -D lists them)",
					    (int)strcspn(allow, " "), allow);
	return 0;
}

static int prepare(const struct hk_eal_config *cfg, char *huge_dir, size_t len,
		   struct hk_error *err)
{
	if (cfg->role == HK_EAL_ALONE)
		return cfg->hugepages
			       ? hk_eal_check_any_pages(memory_mb(cfg), cfg->pci_allow[0], err)
			       : 0;
	if (cfg->lcore >= RTE_MAX_LCORE)
		return hk_error_set(err, -EINVAL,
				    "logical core %u is out of range: DPDK has 0 to %d; "
				    "fix: let fewer processes share one memory",
				    cfg->lcore, RTE_MAX_LCORE - 1);
	return cfg->role == HK_EAL_PRIMARY
		       ? hk_eal_prepare_primary(cfg, memory_mb(cfg), huge_dir, len, err)
		       : hk_eal_prepare_secondary(cfg, err);
}

struct instant {
	uint64_t tsc, ns;
};

/* Reads both clocks within as short a time as it gets in a few tries. */
static struct instant read_clocks(void)
{
	struct instant found = {0};
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < 8; i++) {
		uint64_t before = rte_rdtsc(), ns = hk_clock_ns(), took = rte_rdtsc() - before;

		if (took >= least)
			continue;
		least = took;
		found = (struct instant){before + took / 2, ns};
	}
	return found;
}

static uint64_t rate(struct instant from, struct instant to)
{
	return (uint64_t)((unsigned __int128)(to.tsc - from.tsc) * HK_SEC / (to.ns - from.ns));
}

uint64_t hk_eal_tsc_hz(void)
{
	if (tsc_hz)
		return tsc_hz;
	struct instant a = read_clocks();

	(void)nanosleep(&(struct timespec){.tv_nsec = TSC_SLEEP_NS}, NULL);
	tsc_hz = rate(a, read_clocks()); /* two threads would measure the same */
	return tsc_hz;
}

int hk_eal_init(const struct hk_eal_config *cfg, struct hk_error *err)
{
	if (eal_started)
		return 0;
	if (cfg->role == HK_EAL_ALONE && cfg->sockets && !cfg->devices && !cfg->hugepages &&
	    !cfg->extra_args) {
		eal_bare = eal_lazy_buffers = true;
		pin_object((void *)(uintptr_t)hk_eal_init);
		return 0;
	}
	if (cfg->memory_mb > HK_EAL_MAX_MB)
		return hk_error_set(err, -EINVAL,
				    "%u MB for packet buffers is out of range; fix: give 1 to %d",
				    cfg->memory_mb, HK_EAL_MAX_MB);
	if (check_pci(cfg->pci_allow, err))
		return -EINVAL;
	cpu_set_t cpus;
	if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
		return hk_error_set(err, -errno,
				    "cannot read the CPU affinity of this thread: %s; "
				    "fix: machines with more than %d CPUs are not supported",
				    strerror(errno), CPU_SETSIZE);
	struct hk_saved_env env;
	int rc = hk_eal_runtime_dir_set(cfg->role == HK_EAL_SECONDARY ? cfg->runtime_dir : NULL,
					&env, err);
	if (rc)
		return rc;
	rc = prepare(cfg, eal_huge_dir, sizeof(eal_huge_dir), err);
	if (rc == 0)
		rc = cfg->verbose ? 0 : quiet_logs(err);
	if (rc) {
		hk_eal_runtime_dir_restore(&env);
		return rc;
	}

	sigset_t all, before;
	hk_thread_signals(&all); /* EAL's threads keep this mask */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (cfg->role == HK_EAL_SECONDARY)
		rc = hk_eal_turn_begin(cfg->shared, err);
	struct instant clocks = read_clocks();
	if (rc == 0)
		rc = start(cfg, &cpus, eal_huge_dir, err);
	/* DPDK's own rate is wrong if another process took the core while it was measured */
	if (rc == 0)
		tsc_hz = rate(clocks, read_clocks());
	if (cfg->role == HK_EAL_SECONDARY)
		hk_eal_turn_end(cfg->shared);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	hk_eal_runtime_dir_restore(&env);
	(void)sched_setaffinity(0, sizeof(cpus), &cpus);
	if (rc == 0 && cfg->role == HK_EAL_PRIMARY)
		rc = hk_eal_hide_devices(err);
	if (rc == 0 && cfg->role == HK_EAL_PRIMARY)
		rc = hk_wakeups_create(err);
	if (rc == 0 && cfg->role == HK_EAL_SECONDARY)
		rc = hk_wakeups_attach(err);
	if (rc && cfg->role != HK_EAL_ALONE)
		hk_eal_remove_own(cfg->shared, eal_huge_dir, cfg->role == HK_EAL_PRIMARY);
	if (rc)
		return rc;

	if (cfg->role == HK_EAL_ALONE)
		rmdir(rte_eal_get_runtime_dir()); /* EAL creates it, but leaves it empty */
	else
		snprintf(eal_shared, sizeof(eal_shared), "%s", cfg->shared);
	if (cfg->role != HK_EAL_SECONDARY)
		hk_eal_remove_empty();
	eal_role = cfg->role;
	eal_lazy_buffers = lazy_buffers(cfg);
	pin_object((void *)(uintptr_t)rte_eal_init);
	pin_object((void *)(uintptr_t)hk_eal_init);
	eal_started = true;
	eal_bare = false;
	eal_verbose = cfg->verbose;
	return 0;
}

bool hk_eal_verbose(void)
{
	return eal_verbose;
}

enum hk_eal_role hk_eal_role(void)
{
	return eal_role;
}

bool hk_eal_bare(void)
{
	return eal_bare;
}

bool hk_eal_lazy_buffers(void)
{
	return eal_lazy_buffers;
}

bool hk_eal_primary_alive(void)
{
	return eal_role != HK_EAL_SECONDARY || hk_eal_same_primary_lives(eal_shared);
}

void hk_eal_end(void)
{
	if (eal_started && eal_role != HK_EAL_ALONE)
		hk_eal_remove_own(eal_shared, eal_huge_dir, eal_role == HK_EAL_PRIMARY);
}

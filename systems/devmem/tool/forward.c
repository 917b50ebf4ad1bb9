/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/forward.c: `hk_devmem forward` sends each frame that arrives at one NIC out of its
 * partner, unchanged. Meanwhile the frame is in a pop. This is the smallest demonstration of
 * peer-to-peer DMA. NICs 0 and 1 are partners, and 2 and 3.
 *
 *   hk_devmem forward --pop SPEC --nics A,B [--count N] [--timeout S] [--check]
 *                     [--scan HEX] [--unmapped]
 *
 *   --pop       the pop; none: packets are in DPDK's own memory, as a baseline
 *   --count     ends after so many frames  [without end]
 *   --timeout   ends after so many seconds, as a failure if frames are missing  [60]
 *   --check     fills the buffers with a pattern first, and reads 8 bytes of the first frame in
 *               each; finds frames that a NIC counts but cannot write, which counters do not show
 *   --scan      counts occurrences of these bytes in DPDK's main memory at the end
 *   --unmapped  does not map the pop in the IOMMU, so that --check finds the error
 *
 * Prints "ready" when it polls, and one line of JSON at the end.
 */
#include "base/clock.h"
#include "devmem/pop/pop.h"
#include "devmem/pop/scan.h"
#include "devmem/tool/tool.h"
#include "port/port.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#define BURST     32
#define FRAME_MAX 9216u
#define RING      256u
#define RING_MIN  64u
#define POISON    UINT64_C(0xa5c3e10f5a3c1ef0)

struct options {
	const char *pop;
	char *nics[HK_DEVMEM_NICS];
	unsigned n, buffers, ring;
	uint64_t count;
	unsigned timeout;
	bool check, unmapped;
	unsigned char marker[64];
	size_t marker_len;
};

struct forward {
	struct options o;
	struct hk_pop *pop;
	struct rte_mempool *pool;
	struct hk_port *port[HK_DEVMEM_NICS];
	uint64_t frames, bytes, unlanded, checked;
	uint64_t unsent[HK_DEVMEM_NICS]; /* frames that each NIC did not accept in time */
	struct hk_error err;
};

static int usage(const char *why)
{
	fprintf(stderr,
		"hk_devmem forward: %s; fix: hk_devmem forward --pop SPEC --nics A,B [--count N] "
		"[--buffers N] [--timeout S] [--check] [--scan HEX] [--unmapped]\n",
		why);
	return 2;
}

/* Says what is missing or too much, and what to add or to leave out. */
static int complete(const struct options *o, const char *surplus)
{
	const char *say = "hk_devmem forward: ";

	if (surplus)
		fprintf(stderr,
			"%s'%s' is not an option; fix: leave it out, or give it to --pop or "
			"--nics\n",
			say, surplus);
	else if (!o->pop)
		fprintf(stderr,
			"%s--pop is missing; fix: add --pop none for packets in main memory, "
			"or the memory of a device, as in --pop pop:ivshmem:0000:00:08.0\n",
			say);
	else if (o->n == 0)
		fprintf(stderr,
			"%s--nics is missing; fix: add the addresses of two NICs, as in "
			"--nics 0000:00:03.0,0000:00:04.0\n",
			say);
	else if (o->n % 2)
		fprintf(stderr,
			"%sNIC %s has no partner that sends its frames on; fix: add another "
			"NIC behind a comma, as in --nics %s,0000:00:04.0\n",
			say, o->nics[o->n - 1], o->nics[0]);
	else
		return 0;
	return 2;
}

static int parse(int argc, char **argv, struct options *o)
{
	static const struct option known[] = {{"pop", required_argument, NULL, 'p'},
					      {"nics", required_argument, NULL, 'n'},
					      {"count", required_argument, NULL, 'c'},
					      {"timeout", required_argument, NULL, 't'},
					      {"check", no_argument, NULL, 'k'},
					      {"scan", required_argument, NULL, 's'},
					      {"unmapped", no_argument, NULL, 'u'},
					      {"buffers", required_argument, NULL, 'b'},
					      {NULL, 0, NULL, 0}};
	uint64_t v;
	char *save = NULL;
	int c;

	*o = (struct options){.timeout = 60, .count = UINT64_MAX};
	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'p':
			o->pop = optarg;
			break;
		case 'n':
			for (char *t = strtok_r(optarg, ",", &save); t;
			     t = strtok_r(NULL, ",", &save)) {
				if (o->n == HK_DEVMEM_NICS)
					return usage("more than 4 NICs");
				o->nics[o->n++] = t;
			}
			break;
		case 'c':
			if (!hk_devmem_number(optarg, &o->count))
				return usage("--count takes a number");
			break;
		case 't':
			if (!hk_devmem_number(optarg, &v) || v == 0 || v > 86400)
				return usage("--timeout takes seconds, 1 to 86400");
			o->timeout = (unsigned)v;
			break;
		case 'b':
			if (!hk_devmem_number(optarg, &v) || v < 64 || v > 1000000)
				return usage("--buffers takes a number, 64 to 1000000");
			o->buffers = (unsigned)v;
			break;
		case 'k':
			o->check = true;
			break;
		case 'u':
			o->unmapped = true;
			break;
		case 's':
			o->marker_len = hk_pop_hex(optarg, o->marker, sizeof(o->marker));
			if (o->marker_len < 8)
				return usage("--scan takes 8 to 64 bytes in hexadecimal");
			break;
		default:
			return usage("unknown option");
		}
	}
	return complete(o, argv[optind]);
}

/* Returns the buffers that the rings of all NICs hold. */
static unsigned in_rings(const struct options *o, unsigned ring)
{
	unsigned all = 0;

	for (unsigned i = 0; i < o->n; i++)
		all += hk_port_ring_buffers(o->nics[i], ring);
	return all;
}

/* Chooses rings as long as the buffers allow. A NIC's receive ring is full of buffers, and its
 * transmit ring of another NIC's. */
static int fit_ring(struct options *o, struct hk_error *err)
{
	if (!o->buffers)
		o->buffers = in_rings(o, RING);
	for (o->ring = RING; o->ring > RING_MIN && in_rings(o, o->ring) > o->buffers;)
		o->ring /= 2;
	if (in_rings(o, o->ring) <= o->buffers)
		return 0;
	return hk_error_set(
		err, -ENOMEM,
		"%u buffers are too few for the rings of %u NICs; fix: use --buffers %u, or more",
		o->buffers, o->n, in_rings(o, o->ring));
}

/* Writes the pattern where a frame's first bytes will be. If it is still there afterwards, the NIC
 * did not write the frame. */
static void poison(struct rte_mempool *pool, void *arg, void *object, unsigned index)
{
	const struct rte_mbuf *m = object;
	struct hk_pop *pop = arg;
	const uint64_t pattern = POISON;
	const char *start = (const char *)m->buf_addr + RTE_PKTMBUF_HEADROOM;

	(void)pool;
	(void)index;
	(void)hk_pop_write(pop, hk_pop_offset_of(pop, start, 8), &pattern, 8);
}

static int set_up(struct forward *f)
{
	char spec[64];
	int rc = hk_devmem_eal(f->o.nics, f->o.n, 48, &f->err);

	if (!rc)
		rc = fit_ring(&f->o, &f->err);
	if (!rc && strcmp(f->o.pop, "none") == 0)
		rc = hk_pool_create("forward", f->o.buffers, FRAME_MAX, &f->pool, &f->err);
	else if (!rc)
		rc = hk_pop_open(f->o.pop, &f->pop, &f->err);
	if (!rc && f->pop)
		rc = hk_pop_mempool(f->pop, "forward", f->o.buffers, FRAME_MAX, &f->pool, &f->err);
	if (!rc && f->pop && f->o.check) {
		rte_mempool_obj_iter(f->pool, poison, f->pop);
		hk_pop_flush_wait(f->pop, 0);
	}
	for (unsigned i = 0; !rc && i < f->o.n; i++) {
		if (f->pop && !f->o.unmapped)
			rc = hk_pop_map_for(f->pop, f->o.nics[i], &f->err);
		snprintf(spec, sizeof(spec), "pci:%s,frame=%u,ring=%u", f->o.nics[i], FRAME_MAX,
			 f->o.ring);
		if (!rc)
			rc = hk_port_open(spec, 0, f->pool, HK_DEVMEM_LINK_MS, &f->port[i],
					  &f->err);
	}
	return rc;
}

static void tear_down(struct forward *f)
{
	for (unsigned i = 0; i < f->o.n; i++)
		hk_port_close(f->port[i]);
	if (f->pop)
		hk_pop_mempool_free(f->pop, f->pool);
	else
		hk_pool_free(f->pool);
	hk_pop_close(f->pop);
}

/* Checks each buffer's first frame: the pattern must have been overwritten. */
static void check(struct forward *f, struct rte_mbuf *const *m, uint16_t n)
{
	uint64_t seen;

	for (uint16_t i = 0; i < n && f->checked < f->o.buffers; i++, f->checked++) {
		uint64_t at = hk_pop_offset_of(f->pop, rte_pktmbuf_mtod(m[i], void *), 8);
		if (hk_pop_read(f->pop, at, &seen, 8) != 0 || seen == POISON)
			f->unlanded++;
	}
}

/* Moves frames from NIC @from to its partner. Frames that the partner does not accept before @end
 * are dropped and counted. */
static void move(struct forward *f, unsigned from, double end)
{
	struct rte_mbuf *m[BURST];
	uint16_t n = hk_port_rx(f->port[from], 0, m, BURST), sent = 0;

	if (n && f->pop && f->o.check)
		check(f, m, n);
	for (uint16_t i = 0; i < n; i++)
		f->bytes += rte_pktmbuf_pkt_len(m[i]);
	f->frames += n;
	while (sent < n) {
		sent += hk_port_tx(f->port[from ^ 1], 0, m + sent, n - sent);
		if (sent < n && (hk_devmem_stop || hk_clock_s() >= end))
			break;
	}
	if (sent < n) {
		rte_pktmbuf_free_bulk(m + sent, n - sent);
		f->unsent[from ^ 1] += n - sent;
	}
}

static int run(struct forward *f)
{
	double end = hk_clock_s() + f->o.timeout;

	printf("ready\n");
	fflush(stdout);
	/* The last frames must leave the NIC before it is stopped. The NIC sends them when others
	 * arrive, or soon after. The peer checks that all have arrived. */
	while (!hk_devmem_stop && f->frames < f->o.count && hk_clock_s() < end) {
		for (unsigned i = 0; i < f->o.n; i++)
			move(f, i, end);
	}
	for (double drain = hk_clock_s() + 0.2; hk_clock_s() < drain;) {
		for (unsigned i = 0; i < f->o.n; i++)
			move(f, i, drain);
	}
	printf("{\"frames\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"unlanded\": %" PRIu64
	       ", \"cpu_read\": %" PRIu64 ", \"iova\": \"%s\"",
	       f->frames, f->bytes, f->unlanded, f->pop ? hk_pop_slow_bytes(f->pop) : 0,
	       rte_eal_iova_mode() == RTE_IOVA_VA ? "virtual" : "physical");
	if (f->o.marker_len)
		printf(", \"in_main_memory\": %" PRIu64, hk_pop_scan(f->o.marker, f->o.marker_len));
	printf("}\n");
	fflush(stdout);
	if (f->unlanded) {
		hk_error_set(&f->err, 0,
			     "%" PRIu64 " of %" PRIu64
			     " frames that the NICs counted never landed in %s; fix: map the "
			     "memory in the IOMMU (hk_pop_map_for()), or disable ACS between the "
			     "devices (`hikyaku devmem list`)",
			     f->unlanded, f->checked, f->o.pop);
		return 3;
	}
	for (unsigned i = 0; i < f->o.n; i++) {
		if (f->unsent[i] == 0 || hk_devmem_stop)
			continue;
		hk_error_set(&f->err, 0,
			     "%" PRIu64 "frames that %s did not send within %u s are lost; fix: "
			     "check that its link is up",
			     f->unsent[i], f->port[i]->info.spec, f->o.timeout);
		return 1;
	}
	if (f->frames < f->o.count && f->o.count != UINT64_MAX) {
		hk_error_set(&f->err, 0,
			     "%" PRIu64 " frames of %" PRIu64
			     "arrived within %u s; fix: check that the other end sends",
			     f->frames, f->o.count, f->o.timeout);
		return 1;
	}
	return 0;
}

int hk_devmem_forward(int argc, char **argv)
{
	struct forward f = {0};
	int rc = parse(argc, argv, &f.o);

	if (rc)
		return rc;
	hk_devmem_on_signals();
	rc = set_up(&f) ? 1 : run(&f);
	tear_down(&f);
	if (rc)
		fprintf(stderr, "hk_devmem forward: %s\n", f.err.text);
	return rc;
}

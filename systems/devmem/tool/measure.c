/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/measure.c: `hk_devmem measure` measures a device that reads and writes memory by DMA
 * (paper P4), while the CPU runs a load. It measures one cell; `hikyaku devmem measure` all.
 *
 *   hk_devmem measure --pop SPEC|none --nics A,B | --nics A --direction D | --nvme ADDR [--rings]
 *                     [--load nothing|read|write|train|network] [--load-threads N]
 *                     [--load-cores LIST] [--load-mb N] [--seconds S] [--size N]
 *                     [--rate N]
 *
 *   --pop           memory of the buffers; none: DPDK's own main memory
 *   --nics A,B      A sends from main memory through a cable to B, which receives into the pop
 *   --nics A        A has all its buffers in the pop; `hk_devmem peer` is at the cable's other end
 *   --direction     of A: transmit, receive or both
 *   --nvme          an SSD reads blocks into the pop, and no NIC is needed
 *   --rings         the tested NIC's descriptor rings are in the pop as well
 *   --load          what the CPU does meanwhile  [nothing]
 *   --load-threads  threads of the load, each with memory of its own  [1]; 0: no load
 *   --load-cores    a core for each thread, such as 2,4-6
 *   --load-mb       MB of memory of each thread  [64]
 *   --seconds       duration, 0.05 to 3600  [1]
 *   --size          bytes of a frame  [1024]
 *   --rate          most frames/s, each way, with a --direction; 0: as many as pass  [0]
 *
 * It prints one line of JSON. Rates count the payload of frames that arrived. One of 64 frames is
 * compared, which bounds the reads of slow memory.
 */
#include "devmem/tool/measure.h"
#include "base/clock.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const directions[HK_DIRECTIONS] = {"loop", "transmit", "receive", "both"};

uint64_t hk_measure_end(const struct hk_measure *m, uint64_t start, double share)
{
	return start + (uint64_t)(m->seconds * share * HK_SEC);
}

/* ---- options --------------------------------------------------------------------------------- */

static int usage(const char *why)
{
	fprintf(stderr,
		"hk_devmem measure: %s; fix: hk_devmem measure --pop SPEC|none --nics A,B|--nvme "
		"ADDR [--direction D] [--rings] [--load L] [--load-threads N] [OPTION...]\n",
		why);
	return 2;
}

static bool parse_nics(struct hk_measure *m, char *list)
{
	char *save = NULL;

	for (char *t = strtok_r(list, ",", &save); t; t = strtok_r(NULL, ",", &save)) {
		if (m->n == 2)
			return false;
		m->nics[m->n++] = t;
	}
	return true;
}

static bool parse_seconds(const char *text, double *out)
{
	char *end;

	*out = strtod(text, &end);
	return end != text && !*end && *out >= 0.05 && *out <= 3600;
}

/* The options of the load. NULL: valid; otherwise the reason. */
static const char *parse_load(int c, const char *value, struct hk_devmem_load_config *load)
{
	uint64_t number = 0;

	if (c == 'l') {
		load->what = hk_devmem_load_find(value);
		return load->what == HK_DEVMEM_LOADS ? "there is no such --load" : NULL;
	}
	if (c == 'c')
		return hk_devmem_load_cores(value, load)
			       ? NULL
			       : "--load-cores takes at most 256 cores, such as 2,4-6";
	bool valid = hk_devmem_number(value, &number);
	if (c == 't') {
		load->threads = (unsigned)number;
		return valid && number <= HK_DEVMEM_LOAD_THREADS ? NULL
								 : "--load-threads takes 0 to 256";
	}
	load->mb = (unsigned)number;
	return valid && number >= 1 && number <= HK_DEVMEM_LOAD_MB_MAX
		       ? NULL
		       : "--load-mb takes 1 to 65536";
}

static const char *parse_one(int c, char *value, struct hk_measure *m)
{
	unsigned i = 0;

	switch (c) {
	case 'p':
		m->pop_spec = value;
		return NULL;
	case 'v':
		m->nvme_addr = value;
		return NULL;
	case 'n':
		return parse_nics(m, value) ? NULL : "--nics takes one or two";
	case 'r':
		m->rings = true;
		return NULL;
	case 'd':
		while (i < HK_DIRECTIONS && strcmp(directions[i], value) != 0)
			i++;
		m->direction = (enum hk_direction)i;
		return i < HK_DIRECTIONS ? NULL : "there is no such --direction";
	case 's':
		return parse_seconds(value, &m->seconds) ? NULL : "--seconds takes 0.05 to 3600";
	case 'z':
		return hk_devmem_number(value, &m->size) && m->size >= HK_PROBE_MIN &&
				       m->size <= HK_PROBE_MAX
			       ? NULL
			       : "--size takes 64 to 9000";
	case 'f':
		return hk_devmem_number(value, &m->rate) ? NULL : "--rate takes frames/s";
	case '?':
		return "unknown option";
	default:
		return parse_load(c, value, &m->load);
	}
}

static int parse(int argc, char **argv, struct hk_measure *m)
{
	static const struct option known[] = {{"pop", required_argument, NULL, 'p'},
					      {"nics", required_argument, NULL, 'n'},
					      {"nvme", required_argument, NULL, 'v'},
					      {"direction", required_argument, NULL, 'd'},
					      {"rings", no_argument, NULL, 'r'},
					      {"load", required_argument, NULL, 'l'},
					      {"load-threads", required_argument, NULL, 't'},
					      {"load-cores", required_argument, NULL, 'c'},
					      {"load-mb", required_argument, NULL, 'm'},
					      {"seconds", required_argument, NULL, 's'},
					      {"size", required_argument, NULL, 'z'},
					      {"rate", required_argument, NULL, 'f'},
					      {NULL, 0, NULL, 0}};
	int c;

	*m = (struct hk_measure){.seconds = 1, .size = 1024, .load = {.threads = 1, .mb = 64}};
	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		const char *why = parse_one(c, optarg, m);
		if (why)
			return usage(why);
	}
	unsigned want = m->nvme_addr ? 0 : m->direction == HK_DIRECTION_LOOP ? 2 : 1;
	if (!m->pop_spec || m->n != want || optind != argc)
		return usage("a pop is needed, and two NICs, one with a --direction, or an NVMe "
			     "controller");
	if (m->nvme_addr && (m->direction != HK_DIRECTION_LOOP || m->rings))
		return usage("--direction and --rings are for NICs");
	if (m->rate && m->direction == HK_DIRECTION_LOOP)
		return usage("--rate needs a --direction: a loop has a window of frames");
	if (m->rings && strcmp(m->pop_spec, "none") == 0)
		return usage("--rings needs a pop to place them in");
	return 0;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

int hk_measure_open_tested(struct hk_measure *m, char *nic)
{
	char spec[64];
	int rc = m->pop ? hk_pop_mempool(m->pop, "tested", HK_PROBE_BUFFERS, HK_PROBE_BUFFER,
					 &m->tested, &m->err)
			: hk_pool_create("tested", HK_PROBE_BUFFERS, HK_PROBE_BUFFER, &m->tested,
					 &m->err);

	if (!rc && m->pop)
		rc = hk_pop_map_for(m->pop, nic, &m->err);
	snprintf(spec, sizeof(spec), "pci:%s,frame=%u,ring=256", nic, HK_PROBE_FRAME_MAX);
	if (!rc)
		rc = hk_port_open_rings(spec, m->tested, m->ring_socket, HK_DEVMEM_LINK_MS, &m->b,
					&m->err);
	if (!rc && m->rings)
		rc = hk_pop_rings_check(m->pop, m->b->id, &m->err);
	if (!rc && m->size > m->b->info.frame_max)
		rc = hk_error_set(
			&m->err, -EMSGSIZE,
			"NIC %s takes frames of at most %u bytes; fix: give a smaller --size", nic,
			m->b->info.frame_max);
	return rc;
}

static int set_up(struct hk_measure *m)
{
	bool none = strcmp(m->pop_spec, "none") == 0;
	int rc = hk_devmem_eal(m->nics, m->n, 64, &m->err);

	if (!rc && none && m->nvme_addr)
		rc = hk_pop_open("pop:huge:size=2M", &m->pop, &m->err);
	else if (!rc && !none)
		rc = hk_pop_open(m->pop_spec, &m->pop, &m->err);
	if (!rc && m->rings)
		rc = hk_pop_rings(m->pop, &m->ring_socket, &m->err);
	if (rc)
		return rc;
	if (m->nvme_addr)
		return hk_measure_nvme_set_up(m);
	return m->direction == HK_DIRECTION_LOOP ? hk_measure_loop_set_up(m)
						 : hk_measure_peer_set_up(m);
}

static void tear_down(struct hk_measure *m)
{
	hk_port_close(m->a);
	hk_port_close(m->b);
	hk_nvme_close(m->nvme);
	if (m->pop)
		hk_pop_mempool_free(m->pop, m->tested);
	else
		hk_pool_free(m->tested);
	hk_pool_free(m->plain);
	hk_pop_close(m->pop);
	hk_pop_close(m->queues);
}

/* ---- report ---------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double mb_per_s(uint64_t bytes, double seconds)
{
	return seconds > 0 ? (double)bytes / 1e6 / seconds : 0;
}

static void print_load(const struct hk_devmem_load_done *done, unsigned n)
{
	double all = 0;

	printf("\"load_threads\": %u, \"threads\": [", n);
	for (unsigned i = 0; i < n; i++) {
		double read = mb_per_s(done[i].traffic.read, done[i].seconds);
		double written = mb_per_s(done[i].traffic.written, done[i].seconds);
		all += read + written;
		printf("%s{\"core\": ", i ? ", " : "");
		printf(done[i].core < 0 ? "null" : "%d", done[i].core);
		printf(", \"read_mb_per_s\": %.1f, \"written_mb_per_s\": %.1f}", read, written);
	}
	printf("], \"load_mb_per_s\": %.1f", all);
}

static void print_report(struct hk_measure *m, const struct hk_devmem_load_done *done, unsigned n)
{
	uint64_t each = m->nvme_addr ? HK_MEASURE_NVME_READ : m->size;
	double gbit = (double)each * 8 / 1e9 / m->took;
	double in = (double)m->received * gbit, out = (double)m->sent * gbit;
	struct hk_pop_rings_use rings = {0};

	/* In a loop and of an SSD, what arrives in the memory counts. */
	if (m->direction == HK_DIRECTION_LOOP)
		out = 0;
	if (m->rings)
		hk_pop_rings_use(m->pop, &rings);
	qsort(m->sample, m->samples, sizeof(m->sample[0]), compare);
	printf("{\"device\": \"%s\", \"direction\": \"%s\", \"pop\": \"%s\", \"rings\": %s, "
	       "\"ring_bytes\": %" PRIu64 ", \"driver_bytes\": %" PRIu64
	       ", \"load\": \"%s\", \"size\": %" PRIu64 ", ",
	       m->nvme_addr ? "nvme" : "nic", directions[m->direction], m->pop_spec,
	       m->rings ? "true" : "false", rings.bytes, rings.other,
	       hk_devmem_load_name(n ? m->load.what : HK_DEVMEM_LOAD_NOTHING), each);
	printf("\"gbit_per_s\": %.4f, \"transmit_gbit_per_s\": %.4f, \"receive_gbit_per_s\": "
	       "%.4f, ",
	       in + out, out, in);
	if (m->samples)
		printf("\"latency_us\": %.2f, \"latency_p99_us\": %.2f, ",
		       m->sample[m->samples / 2], m->sample[m->samples * 99 / 100]);
	else
		printf("\"latency_us\": null, \"latency_p99_us\": null, ");
	printf("\"samples\": %u, \"lost\": %" PRIu64 ", \"wrong\": %" PRIu64 ", ", m->samples,
	       m->lost, m->wrong);
	print_load(done, n);
	printf("}\n");
}

static int run(struct hk_measure *m)
{
	static struct hk_devmem_load_done done[HK_DEVMEM_LOAD_THREADS];
	int rc = hk_devmem_load_start(&m->load, &m->err);

	if (rc)
		return rc;
	if (m->nvme_addr)
		rc = hk_measure_nvme(m);
	else
		rc = m->direction == HK_DIRECTION_LOOP ? hk_measure_loop(m) : hk_measure_peer(m);
	unsigned n = hk_devmem_load_stop(done);
	if (!rc && hk_devmem_stop)
		rc = hk_error_set(&m->err, -EINTR, "ended by a signal");
	if (!rc)
		print_report(m, done, n);
	return rc;
}

int hk_devmem_measure(int argc, char **argv)
{
	static struct hk_measure m;
	int rc = parse(argc, argv, &m);

	if (rc)
		return rc;
	hk_devmem_on_signals();
	rc = set_up(&m);
	if (!rc)
		rc = run(&m);
	tear_down(&m);
	if (rc)
		fprintf(stderr, "hk_devmem measure: %s\n", m.err.text);
	return rc ? 1 : 0;
}

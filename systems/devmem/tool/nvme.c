/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/nvme.c: `hk_devmem nvme` sends blocks of an SSD to the network without main memory.
 * The SSD writes them into a pop (its own memory buffer, or another device's BAR), and the NIC
 * sends them from there. The CPU writes a header of 22 bytes before them, and reads nothing.
 *
 *   hk_devmem nvme --pop SPEC --nvme ADDR --nic ADDR [--lba N] [--blocks N] [--count N]
 *                  [--dst MAC] [--scan HEX]
 *
 *   --lba     first block  [0]; continues at block 0 after the end of the medium
 *   --blocks  blocks of each frame  [4]
 *   --count   frames  [1000]
 *   --dst     destination MAC address  [02:00:00:00:00:01]
 *   --scan    counts occurrences of these bytes in DPDK's main memory at the end
 *
 * A frame has an Ethernet header (EtherType 88b5), the first block's number (8 bytes,
 * little-endian) and the blocks.
 */
#include "base/clock.h"
#include "devmem/pop/nvme.h"
#include "devmem/pop/pop.h"
#include "devmem/pop/scan.h"
#include "devmem/tool/tool.h"
#include "port/port.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define HEADER    22
#define AHEAD     32 /* reads in progress */
#define BUFFERS   512
#define FRAME_MAX 9216u
#define WAIT_MS   10000
#define DRAIN_MS  200

struct job {
	const char *pop_spec, *nvme_addr;
	char *nic;
	uint64_t lba, count, blocks;
	unsigned char dst[6], marker[64];
	size_t marker_len;

	struct hk_pop *queues, *pop;
	struct hk_nvme *nvme;
	struct hk_port *port;
	struct rte_mempool *pool;
	struct rte_mbuf *reading[HK_NVME_DEPTH];
	uint64_t first[HK_NVME_DEPTH];
	uint64_t started, sent;
	struct hk_error err;
};

static int usage(const char *why)
{
	fprintf(stderr,
		"hk_devmem nvme: %s; fix: hk_devmem nvme --pop SPEC --nvme ADDR --nic ADDR [--lba "
		"N] "
		"[--blocks N] "
		"[--count N] [--dst MAC] [--scan HEX]\n",
		why);
	return 2;
}

static int parse(int argc, char **argv, struct job *j)
{
	static const struct option known[] = {{"pop", required_argument, NULL, 'p'},
					      {"nvme", required_argument, NULL, 'v'},
					      {"nic", required_argument, NULL, 'n'},
					      {"lba", required_argument, NULL, 'l'},
					      {"blocks", required_argument, NULL, 'b'},
					      {"count", required_argument, NULL, 'c'},
					      {"dst", required_argument, NULL, 'd'},
					      {"scan", required_argument, NULL, 's'},
					      {NULL, 0, NULL, 0}};
	int c, used = 0;

	*j = (struct job){.count = 1000, .blocks = 4, .dst = {2, 0, 0, 0, 0, 1}};
	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		uint64_t *number = c == 'l'   ? &j->lba
				   : c == 'b' ? &j->blocks
				   : c == 'c' ? &j->count
					      : NULL;
		if (number && !hk_devmem_number(optarg, number))
			return usage("--lba, --blocks and --count take numbers");
		if (c == 'p')
			j->pop_spec = optarg;
		else if (c == 'v')
			j->nvme_addr = optarg;
		else if (c == 'n')
			j->nic = optarg;
		else if (c == 'd' && (sscanf(optarg, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n",
					     &j->dst[0], &j->dst[1], &j->dst[2], &j->dst[3],
					     &j->dst[4], &j->dst[5], &used) != 6 ||
				      optarg[used]))
			return usage("--dst takes a MAC address");
		else if (c == 's' &&
			 (j->marker_len = hk_pop_hex(optarg, j->marker, sizeof(j->marker))) < 8)
			return usage("--scan takes 8 to 64 bytes in hexadecimal");
		else if (c == '?')
			return usage("unknown option");
	}
	return j->pop_spec && j->nvme_addr && j->nic && optind == argc
		       ? 0
		       : usage("a pop, an NVMe controller and a NIC are needed");
}

static int set_up(struct job *j)
{
	char spec[64];
	int rc = hk_devmem_eal(&j->nic, 1, 32, &j->err);

	if (!rc)
		rc = hk_pop_open("pop:huge:size=2M", &j->queues, &j->err);
	if (!rc)
		rc = hk_pop_open(j->pop_spec, &j->pop, &j->err);
	if (!rc)
		rc = hk_pop_mempool(j->pop, "nvme", BUFFERS, FRAME_MAX, &j->pool, &j->err);
	if (!rc)
		rc = hk_pop_map_for(j->pop, j->nic, &j->err);
	if (!rc)
		rc = hk_nvme_open(j->nvme_addr, j->queues, &j->nvme, &j->err);
	snprintf(spec, sizeof(spec), "pci:%s,frame=%u,ring=128", j->nic, FRAME_MAX);
	if (!rc)
		rc = hk_port_open(spec, 0, j->pool, HK_DEVMEM_LINK_MS, &j->port, &j->err);
	if (!rc &&
	    (j->blocks == 0 || j->blocks > HK_NVME_READ_MAX ||
	     j->blocks * hk_nvme_info(j->nvme)->block_size + HEADER >
		     HK_MIN((unsigned)j->port->info.frame_max, HK_NVME_READ_MAX / 2u + HEADER)))
		rc = hk_error_set(
			&j->err, -1,
			"%" PRIu64
			" blocks of %u bytes do not fit into a frame; fix: use fewer --blocks",
			j->blocks, hk_nvme_info(j->nvme)->block_size);
	return rc;
}

static void tear_down(struct job *j)
{
	hk_port_close(j->port);
	hk_nvme_close(j->nvme); /* before its buffers are freed: the controller writes to them */
	for (unsigned i = 0; i < HK_NVME_DEPTH; i++)
		rte_pktmbuf_free(j->reading[i]);
	if (j->pop)
		hk_pop_mempool_free(j->pop, j->pool);
	hk_pop_close(j->pop);
	hk_pop_close(j->queues);
}

/* Starts the read for the next frame as read @tag, if there is a buffer. */
static bool start_read(struct job *j, unsigned tag)
{
	const struct hk_nvme_info *info = hk_nvme_info(j->nvme);
	struct rte_mbuf *m = rte_pktmbuf_alloc(j->pool);
	unsigned bytes = (unsigned)j->blocks * info->block_size;

	if (!m)
		return false;
	/* the blocks begin on a cache line, the header directly before them */
	m->data_off = RTE_PKTMBUF_HEADROOM - HEADER;
	m->data_len = (uint16_t)(HEADER + bytes);
	m->pkt_len = m->data_len;
	j->first[tag] = (j->lba + j->started * j->blocks) % (info->blocks - j->blocks + 1);
	if (hk_nvme_read(j->nvme, tag, j->first[tag], (unsigned)j->blocks,
			 rte_mbuf_data_iova(m) + HEADER) != 0) {
		rte_pktmbuf_free(m);
		return false;
	}
	j->reading[tag] = m;
	j->started++;
	return true;
}

static bool send_frame(struct job *j, unsigned tag)
{
	struct rte_mbuf *m = j->reading[tag];
	const struct hk_pop_info *info = hk_pop_info(j->pop);
	uint64_t at = hk_pop_offset_of(j->pop, rte_pktmbuf_mtod(m, void *), m->data_len);
	unsigned char head[HEADER];

	memcpy(head, j->dst, 6);
	memcpy(head + 6, j->port->info.mac, 6);
	head[12] = 0x88;
	head[13] = 0xb5;
	memcpy(head + 14, &j->first[tag], 8);
	(void)hk_pop_write(j->pop, at, head, HEADER);
	/* The SSD's completion is in main memory, and its data here. A read pushes the data ahead
	 * of it before the NIC reads it. */
	if (strcmp(info->device, j->nvme_addr) != 0)
		hk_pop_flush_wait(j->pop, at + m->data_len - 4);
	else
		hk_pop_flush(j->pop);
	if (hk_port_tx(j->port, 0, &m, 1) != 1)
		return false;
	j->reading[tag] = NULL;
	j->sent++;
	return true;
}

static int run(struct job *j)
{
	unsigned tags[AHEAD], status[AHEAD];
	bool ready[AHEAD] = {false};
	int64_t moved = hk_clock_ms();

	while (j->sent < j->count) {
		uint64_t before = j->sent + j->started;

		if (hk_devmem_stop)
			return hk_error_set(&j->err, 1, "ended by a signal");
		for (unsigned t = 0; t < AHEAD && j->started < j->count; t++) {
			if (!j->reading[t])
				(void)start_read(j, t);
		}
		unsigned n = hk_nvme_poll(j->nvme, tags, status, AHEAD);
		for (unsigned i = 0; i < n; i++) {
			if (status[i])
				return hk_error_set(
					&j->err, 1,
					"NVMe controller %s failed to read from block %" PRIu64
					" (status %#x); fix: check that it can write to %s",
					j->nvme_addr, j->first[tags[i]], status[i], j->pop_spec);
			ready[tags[i]] = true;
		}
		for (unsigned t = 0; t < AHEAD; t++) {
			if (ready[t] && send_frame(j, t))
				ready[t] = false;
		}
		if (j->sent + j->started != before)
			moved = hk_clock_ms();
		else if (hk_clock_ms() - moved > WAIT_MS)
			return hk_error_set(
				&j->err, 1,
				"nothing was read or sent for %d s, after %" PRIu64
				" frames of %" PRIu64
				"; fix: check that the NIC's link is up, and that %s answers",
				WAIT_MS / 1000, j->sent, j->count, j->nvme_addr);
	}
	/* The last frames are in the NIC's ring. It has sent them when it returns their buffers.
	 * Some drivers never report that, so a fixed time must suffice. */
	for (moved = hk_clock_ms(); hk_clock_ms() - moved < DRAIN_MS;)
		(void)rte_eth_tx_done_cleanup(j->port->id, 0, 0);
	printf("{\"frames\": %" PRIu64 ", \"block_size\": %u, \"cpu_read\": %" PRIu64, j->sent,
	       hk_nvme_info(j->nvme)->block_size, hk_pop_slow_bytes(j->pop));
	if (j->marker_len)
		printf(", \"in_main_memory\": %" PRIu64, hk_pop_scan(j->marker, j->marker_len));
	printf("}\n");
	return 0;
}

int hk_devmem_nvme(int argc, char **argv)
{
	static struct job j;
	int rc = parse(argc, argv, &j);

	if (rc)
		return rc;
	hk_devmem_on_signals();
	rc = set_up(&j) ? 1 : run(&j);
	tear_down(&j);
	if (rc)
		fprintf(stderr, "hk_devmem nvme: %s\n", j.err.text);
	return rc;
}

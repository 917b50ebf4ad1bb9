/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/specimen_tool.c: writes the specimen frames in several formats.
 *
 *   specimen_tool hex                 name and bytes of each, encoded by our codec
 *   specimen_tool pcap FILE           a capture: correct frames, then frames that break a rule each
 *   specimen_tool corpus wire DIR     first inputs of tests/fuzz/fuzz_wire.c
 *   specimen_tool corpus engine DIR   … of fuzz_engine.c
 *   specimen_tool corpus msg DIR      … and of fuzz_msg.c
 */
#include "tests/support/specimens.h"
#include "wire/bundle.h"

#include <stdio.h>
#include <stdlib.h>

static FILE *create(const char *dir, const char *name)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s%s%s", dir, *name ? "/" : "", name);
	FILE *f = fopen(path, "wb");
	if (!f) {
		perror(path);
		exit(1);
	}
	return f;
}

static void put(FILE *f, const void *bytes, size_t len)
{
	if (fwrite(bytes, 1, len, f) != len) {
		perror("write");
		exit(1);
	}
}

static void finish(FILE *f)
{
	if (fclose(f) != 0) {
		perror("close");
		exit(1);
	}
}

/* ---- hex ----------------------------------------------------------------------------------- */

static void hex_line(const char *name, const uint8_t *frame, size_t n)
{
	printf("%s ", name);
	for (size_t b = 0; b < n; b++)
		printf("%02x", frame[b]);
	putchar('\n');
}

static void hex(void)
{
	uint8_t frame[HK_SPECIMEN_MAX];

	for (size_t i = 0; i < hk_specimens_len; i++)
		hex_line(hk_specimens[i].name, frame, hk_specimen_encode(&hk_specimens[i], frame));
	for (size_t i = 0; i < hk_msg_specimens_len; i++)
		hex_line(hk_msg_specimens[i].name, frame,
			 hk_msg_specimen_encode(&hk_msg_specimens[i], frame));
}

/* ---- pcap ---------------------------------------------------------------------------------- */

static void pcap_frame(FILE *f, const uint8_t *frame, size_t len)
{
	static const uint8_t padding[HK_ETH_MIN_FRAME];
	static uint32_t number;
	size_t total = len < HK_ETH_MIN_FRAME ? HK_ETH_MIN_FRAME : len;
	uint32_t head[4] = {1, number++, (uint32_t)total, (uint32_t)total};

	put(f, head, sizeof(head));
	put(f, frame, len);
	put(f, padding, total - len);
}

/* A specimen with one byte changed, so that one rule is broken. */
static void pcap_bad(FILE *f, const char *name, size_t at, uint8_t value)
{
	uint8_t frame[HK_SPECIMEN_MAX];

	for (size_t i = 0; i < hk_specimens_len; i++) {
		if (strcmp(hk_specimens[i].name, name) != 0)
			continue;
		size_t n = hk_specimen_encode(&hk_specimens[i], frame);
		frame[HK_ETH_HLEN + at] = value;
		pcap_frame(f, frame, n);
	}
}

static void pcap_messages(FILE *f)
{
	/* each breaks a rule: the changed byte of the first message, and its new value */
	static const struct {
		size_t at;
		uint8_t value;
	} bad[] = {
		{offsetof(struct hk_msg_hdr, ver_flags), 0x29},
		{offsetof(struct hk_msg_hdr, ver_flags), 0xa1},
		{offsetof(struct hk_msg_hdr, len), 200},
		{offsetof(struct hk_msg_hdr, dst), 1},
		{offsetof(struct hk_msg_hdr, epoch), 0},
	};
	uint8_t frame[HK_SPECIMEN_MAX];

	for (size_t i = 0; i < hk_msg_specimens_len; i++)
		pcap_frame(f, frame, hk_msg_specimen_encode(&hk_msg_specimens[i], frame));
	for (size_t i = 0; i < HK_ARRAY_LEN(bad); i++) {
		size_t n = hk_msg_specimen_encode(&hk_msg_specimens[0], frame);
		frame[HK_ETH_HLEN + bad[i].at] = bad[i].value;
		if (bad[i].at == offsetof(struct hk_msg_hdr, epoch))
			frame[HK_ETH_HLEN + bad[i].at + 1] = 0;
		pcap_frame(f, frame, n);
	}
}

static void pcap(const char *path)
{
	/* magic (microseconds, our byte order), version 2.4, zone, accuracy, snap length, Ethernet
	 */
	struct {
		uint32_t magic;
		uint16_t major, minor;
		uint32_t zone, accuracy, snap, link;
	} head = {0xa1b2c3d4, 2, 4, 0, 0, 65535, 1};
	FILE *f = create(path, "");

	put(f, &head, sizeof(head));
	for (size_t i = 0; i < hk_specimens_len; i++) {
		uint8_t frame[HK_SPECIMEN_MAX];
		pcap_frame(f, frame, hk_specimen_encode(&hk_specimens[i], frame));
	}
	/* frames that break a rule each; tests/integration/test_dissector.py knows this order */
	pcap_bad(f, "data", offsetof(struct hk_wire_hdr, version), 0x90);
	pcap_bad(f, "data", offsetof(struct hk_wire_hdr, type), 77);
	pcap_bad(f, "data", offsetof(struct hk_wire_hdr, flags), 0x80);
	pcap_bad(f, "data", offsetof(struct hk_wire_hdr, len), 200);
	pcap_bad(f, "data", offsetof(struct hk_wire_hdr, frags), 17);
	pcap_bad(f, "data", offsetof(struct hk_wire_hdr, frag), 3);
	pcap_bad(f, "data", offsetof(struct hk_wire_hdr, key_index), 1);
	pcap_bad(f, "put", offsetof(struct hk_wire_hdr, frags), 1);
	pcap_bad(f, "put", offsetof(struct hk_wire_hdr, len), 8);
	pcap_bad(f, "ack", HK_WIRE_HLEN, 1);
	pcap_bad(f, "ack", offsetof(struct hk_wire_hdr, len), 31);
	pcap_bad(f, "bundle", HK_WIRE_HLEN + HK_WIRE_RECORD_LEN - 1, 1);
	pcap_bad(f, "bye", offsetof(struct hk_wire_hdr, flags), HK_WIRE_F_BULK);
	pcap_bad(f, "data-fragment-crc", HK_WIRE_HLEN, 'S'); /* the checksum is wrong then */
	pcap_messages(f);
	finish(f);
}

/* ---- corpora ------------------------------------------------------------------------------- */

static void corpus_wire(const char *dir)
{
	for (size_t i = 0; i < hk_specimens_len; i++) {
		uint8_t frame[HK_SPECIMEN_MAX];
		size_t n = hk_specimen_encode(&hk_specimens[i], frame);
		for (uint8_t mode = 0; mode < 4; mode += 3) {
			char name[64];
			snprintf(name, sizeof(name), "%s-%u", hk_specimens[i].name, mode);
			FILE *f = create(dir, name);
			static const uint8_t crc[HK_WIRE_CRC_LEN];
			put(f, &mode, 1);
			put(f, frame, n);
			put(f, crc, mode ? sizeof(crc) : 0);
			finish(f);
		}
	}
}

/* Inputs of fuzz_engine.c: each drives an engine by the bytes that step() there reads. */
static void corpus_engine(const char *dir)
{
	static const struct {
		const char *name;
		uint8_t len, bytes[64];
	} runs[] = {
		/* a configuration; two messages to peer 2; time passes; completions are read */
		{"send", 8, {0x3f, 3, 0, 3, 0, 0x9c, 0xff, 0xff}},
		/* a message is sent; a packet arrives; an acknowledgement of the message arrives */
		{"talk", 40, {0x3f, 3, 0, 1, 0, 0, 0, 64, 0, 0, 0,  0, 0, 9, 1, 2, 3,
			      4,    5, 6, 7, 8, 5, 1, 0,  2, 4, 64, 0, 0, 0, 0, 0}},
		/* fragments 1 and 0 of two arrive; then the peer restarts */
		{"fragments", 50, {0x3f, 1,  0,  0, 32, 64, 0, 1,          0,    0, 0, 9,
				   1,    1,  0,  0, 0,  0,  0, 0,          0,    0, 1, 0,
				   0,    32, 64, 0, 0,  0,  0, 0,          9,    1, 0, 0,
				   0,    0,  0,  0, 0,  0,  0, 7 | 4 << 3, 0x10, 5}},
		/* hold, peer_add, hold, disconnect reasons, bye */
		{"calls",
		 12,
		 {0xff, 6, 0x18, 7, 0x12, 6, 0x98, 7 | 30 << 3, 7 | 31 << 3, 5, 0xfc, 0xff}},
	};

	for (size_t i = 0; i < HK_ARRAY_LEN(runs); i++) {
		FILE *f = create(dir, runs[i].name);
		put(f, runs[i].bytes, runs[i].len);
		finish(f);
	}
	for (size_t i = 0; i < hk_specimens_len; i++) {
		uint8_t frame[HK_SPECIMEN_MAX];
		uint8_t n = (uint8_t)hk_specimen_encode(&hk_specimens[i], frame);
		FILE *f = create(dir, hk_specimens[i].name);
		put(f, (const uint8_t[3]){0x3f, 0, n}, 3);
		put(f, frame, n);
		finish(f);
	}
}

static void corpus_msg(const char *dir)
{
	for (size_t i = 0; i < hk_msg_specimens_len; i++) {
		uint8_t frame[HK_SPECIMEN_MAX];
		size_t n = hk_msg_specimen_encode(&hk_msg_specimens[i], frame);
		FILE *f = create(dir, hk_msg_specimens[i].name);
		put(f, frame + HK_ETH_HLEN, n - HK_ETH_HLEN);
		finish(f);
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "hex") == 0) {
		hex();
	} else if (argc == 3 && strcmp(argv[1], "pcap") == 0) {
		pcap(argv[2]);
	} else if (argc == 4 && strcmp(argv[1], "corpus") == 0 && strcmp(argv[2], "wire") == 0) {
		corpus_wire(argv[3]);
	} else if (argc == 4 && strcmp(argv[1], "corpus") == 0 && strcmp(argv[2], "engine") == 0) {
		corpus_engine(argv[3]);
	} else if (argc == 4 && strcmp(argv[1], "corpus") == 0 && strcmp(argv[2], "msg") == 0) {
		corpus_msg(argv[3]);
	} else {
		fprintf(stderr, "usage: %s hex | pcap FILE | corpus wire|engine|msg DIR\n",
			argv[0]);
		return 2;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/sdn/tagger/tag_vectors.c: runs the golden tags (tests/vectors/tag.txt) through an eBPF
 * program.
 *
 *   tag_vectors PATH-OF-vectors.bpf.o
 */
#include "tests/support/hk_test.h"
#include "tests/unit/sdn/tagger/vectors.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

static void run(int program, struct vector *v)
{
	struct bpf_test_run_opts opts = {
		.sz = sizeof(opts), .ctx_in = v, .ctx_size_in = sizeof(*v)};

	CHECK_EQ(bpf_prog_test_run_opts(program, &opts), 0);
}

static void mac_of(const char *text, uint8_t mac[6])
{
	CHECK_EQ(sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3],
			&mac[4], &mac[5]),
		 6);
}

static void golden(int program, const char *line)
{
	struct vector v = {0};
	unsigned job, function, source, destination;
	char kind[8], text[24];

	CHECK_EQ(sscanf(line, "tag %u %u %u %7s %u %23s", &job, &function, &source, kind,
			&destination, text),
		 6);
	v.tag = (struct hk_tag){.job = (uint16_t)job,
				.function = (uint8_t)function,
				.source = (uint16_t)source,
				.group = strcmp(kind, "group") == 0,
				.destination = (uint16_t)destination};
	mac_of(text, v.mac);
	run(program, &v);
	CHECK_MSG(memcmp(v.packed, v.mac, 6) == 0, "packed otherwise: %s", line);
	CHECK_MSG(v.is_tag && v.taken, "refused: %s", line);
	CHECK_EQ(v.unpacked.job, job);
	CHECK_EQ(v.unpacked.function, function);
	CHECK_EQ(v.unpacked.source, source);
	CHECK_EQ(v.unpacked.destination, destination);
	CHECK_EQ(v.unpacked.group, v.tag.group);
}

static void refused(int program, const char *line)
{
	struct vector v = {0};
	char text[24], why[16];

	CHECK_EQ(sscanf(line, "refused %23s %15s", text, why), 2);
	mac_of(text, v.mac);
	run(program, &v);
	CHECK_MSG(!v.taken, "taken: %s", line);
	CHECK_EQ(v.is_tag, strcmp(why, "prefix") != 0);
}

int main(int argc, char **argv)
{
	struct bpf_object *object = argc > 1 ? bpf_object__open(argv[1]) : NULL;
	FILE *f = fopen(HK_TAG_VECTORS, "r");
	unsigned tags = 0, others = 0;
	char line[256];

	CHECK_MSG(object != NULL, "usage: tag_vectors PATH-OF-vectors.bpf.o");
	CHECK_MSG(f != NULL, "%s is not there", HK_TAG_VECTORS);
	CHECK_MSG(bpf_object__load(object) == 0, "the kernel refuses the program: run as root");
	int program = bpf_program__fd(bpf_object__find_program_by_name(object, "both_ways"));
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "tag ", 4) == 0) {
			golden(program, line);
			tags++;
		} else if (strncmp(line, "refused ", 8) == 0) {
			refused(program, line);
			others++;
		}
	}
	fclose(f);
	bpf_object__close(object);
	CHECK_CMP(tags, >=, 10);
	CHECK_CMP(others, >=, 5);
	printf("ok %u tags, %u refused\n", tags, others);
	return 0;
}

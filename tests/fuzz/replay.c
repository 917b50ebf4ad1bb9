/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/replay.c: runs a fuzz target without a fuzzer.
 *
 * It runs the target on each file of the given directories, and then on seeded mutations of them.
 * It finds less than libFuzzer, but needs no clang, and `make check` runs it everywhere.
 *
 *   fuzz_x_replay [--runs N] [--seed N] FILE-OR-DIRECTORY …
 */
#include "tests/support/hk_test.h"

#include <dirent.h>
#include <sys/stat.h>

#define INPUT_MAX_LEN 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	uint8_t *bytes;
	size_t len;
};

static struct input *inputs;
static size_t inputs_len;

static int load(const char *path)
{
	struct stat st;
	char name[4096];

	if (stat(path, &st) != 0) {
		fprintf(stderr, "%s cannot be read\n", path);
		return -1;
	}
	if (S_ISDIR(st.st_mode)) {
		struct dirent **list;
		int n = scandir(path, &list, NULL, alphasort), rc = 0;
		for (int i = 0; i < n; i++) {
			if (list[i]->d_name[0] != '.' && rc == 0) {
				snprintf(name, sizeof(name), "%s/%s", path, list[i]->d_name);
				rc = load(name);
			}
			free(list[i]);
		}
		if (n >= 0)
			free(list);
		return n < 0 ? -1 : rc;
	}
	FILE *f = fopen(path, "rb");
	struct input in = {.bytes = malloc(INPUT_MAX_LEN)};
	struct input *more = realloc(inputs, (inputs_len + 1) * sizeof(*inputs));
	if (!f || !in.bytes || !more) {
		fprintf(stderr, "%s cannot be read\n", path);
		free(in.bytes);
		return -1;
	}
	inputs = more;
	in.len = fread(in.bytes, 1, INPUT_MAX_LEN, f);
	fclose(f);
	inputs[inputs_len++] = in;
	return 0;
}

/* Changes, drops or doubles a few bytes, or joins two inputs. */
static size_t mutate(struct hk_rng *r, uint8_t *out)
{
	const struct input *a = &inputs[hk_rng_below(r, inputs_len)];
	const struct input *b = &inputs[hk_rng_below(r, inputs_len)];
	size_t len = a->len;

	memcpy(out, a->bytes, len);
	if (hk_rng_below(r, 2)) {
		size_t at = hk_rng_below(r, len + 1), from = hk_rng_below(r, b->len + 1);
		size_t n = HK_MIN(b->len - from, INPUT_MAX_LEN - at);
		memcpy(out + at, b->bytes + from, n);
		len = at + n;
	}
	for (uint64_t n = hk_rng_below(r, 16); n && len; n--) {
		size_t at = hk_rng_below(r, len);
		switch (hk_rng_below(r, 4)) {
		case 0:
			out[at] ^= (uint8_t)(1 << hk_rng_below(r, 8));
			break;
		case 1:
			memmove(out + at, out + at + 1, --len - at);
			break;
		default:
			out[at] = (uint8_t)hk_rng_next(r);
		}
	}
	return len;
}

int main(int argc, char **argv)
{
	static uint8_t buf[INPUT_MAX_LEN];
	const char *env = getenv("HK_SEED");
	uint64_t runs = 20000;

	hk_test_now.program = argv[0];
	hk_test_now.seed = env ? hk_test_seed_from(env) : 1;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
			runs = hk_test_seed_from(argv[++i]);
		else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
			hk_test_now.seed = hk_test_seed_from(argv[++i]);
		else if (load(argv[i]) != 0)
			return 2;
	}
	if (inputs_len == 0) {
		fprintf(stderr, "no inputs; usage: %s [--runs N] [--seed N] FILE-OR-DIRECTORY …\n",
			argv[0]);
		return 2;
	}
	for (size_t i = 0; i < inputs_len; i++)
		LLVMFuzzerTestOneInput(inputs[i].bytes, inputs[i].len);
	uint64_t seed = hk_test_now.seed;
	for (uint64_t i = 0; i < runs; i++) {
		/* each run has its own seed, so that the last one can be repeated alone */
		struct hk_rng r = {hk_test_now.seed = seed + i};
		size_t len = mutate(&r, buf);
		LLVMFuzzerTestOneInput(buf, len);
	}
	printf("ok %zu inputs and %" PRIu64 " mutations of them\n", inputs_len, runs);
	for (size_t i = 0; i < inputs_len; i++)
		free(inputs[i].bytes);
	free(inputs);
	return 0;
}

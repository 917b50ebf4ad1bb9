/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/fuzz_fi_match.c: arbitrary series of receives and messages, by the matcher of the
 * libfabric provider and by a model.
 */
#include "tests/unit/libfabric/match_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)match_by_both(data, size);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/match_model.h: a model of the rules of matching, which decides what the
 * matcher of the libfabric provider must do.
 *
 * MPI 3.1, 3.5: messages do not overtake. If a sender sends two messages in succession to the same
 * destination, and both match the same receive, then this receive takes the first one. If a
 * receiver posts two receives in succession, and both match the same message, then the first one
 * takes it.
 */
#ifndef HK_MATCH_MODEL_H
#define HK_MATCH_MODEL_H

#include <stddef.h>
#include <stdint.h>

/* Takes the bytes as a series of receives, messages and withdrawals. It carries them out by the
 * matcher and by the model, and ends the process where both differ. Returns how many met. */
size_t match_by_both(const uint8_t *data, size_t size);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/train.h: a network that learns, as a load on memory.
 *
 * DESIGN NOTES
 *
 * Problem. Paper P4 loads memory by training on the CPU. Streams of reads or of writes are not that
 * load: a step of training has phases, and uses some bytes often and others once.
 *
 * Approach. It is a real network, and its loss falls. It has square layers, h' = h ± relu(W h) / L,
 * with a shortcut past each of the L layers, so that any number of them learns. The loss is the
 * squared error, and Adam updates the weights. For each layer there are, of 4-byte floats:
 *
 *   weights, gradients, and two moments of Adam       4 × 16 KiB   (64 × 64 each)
 *   activations: the input and the output of relu     2 ×  4 KiB   (a batch of 16 × 64 each)
 *
 * Each parameter thus has 16 bytes, as in any training by Adam in single precision. A step is two
 * passes and one update, because gradients of several small batches are summed before an update.
 *
 *   phase      reads                                    writes
 *   forward    weights, input                           relu's output, next input    twice
 *   backward   weights, input, relu's output, gradients gradients                    twice
 *   update     weights, gradients, both moments         the same; gradients become 0
 *
 * In units of a layer's weights, the activations being a quarter: 11.5 are read and 7 are written.
 * So 62 % of the bytes are read. Each layer is a block with reuse: its 16 KiB of weights fit an L1
 * cache and serve the 16 examples of a batch. This gives about 2.6 operations for each byte.
 *
 * The counted bytes are those that a phase touches, once for each phase. They are the traffic of
 * memory if the network is much larger than the caches: one phase goes through all of it.
 *
 * Rejected. Wide layers have more operations for each byte, and hardly load memory. A copy loop in
 * these proportions would not show that the bytes are those of training.
 */
#ifndef HK_TOOL_TRAIN_H
#define HK_TOOL_TRAIN_H

#include "base/common.h"

#include <stdatomic.h>

#define HK_TRAIN_WIDTH  64
#define HK_TRAIN_BATCH  16
#define HK_TRAIN_PASSES 2
#define HK_TRAIN_BLOCK  ((size_t)HK_TRAIN_WIDTH * HK_TRAIN_WIDTH) /* weights of a layer */
#define HK_TRAIN_ROWS   ((size_t)HK_TRAIN_BATCH * HK_TRAIN_WIDTH) /* values of a batch */

/* Bytes that a step takes from memory and gives to it. */
struct hk_traffic {
	uint64_t read, written;
};

struct hk_train {
	unsigned layers;
	unsigned steps;                               /* updates so far */
	uint32_t draw;                                /* state of the generator of examples */
	float *weights, *gradients, *mean, *variance; /* HK_TRAIN_BLOCK for each layer */
	float *in;  /* HK_TRAIN_ROWS for each layer, and for the network's output */
	float *out; /* HK_TRAIN_ROWS for each layer: relu's output */
	float delta[HK_TRAIN_BATCH * HK_TRAIN_WIDTH]; /* gradient by a layer's output */
};

/* The layers that fit into @bytes. */
unsigned hk_train_layers(size_t bytes);

/* Makes a network as large as @bytes at @memory allow, which is aligned to 64 bytes and zero.
 * False: no layer fits. */
bool hk_train_init(struct hk_train *t, void *memory, size_t bytes, uint32_t seed);

/* Draws a batch into the first layer's input. */
void hk_train_draw(struct hk_train *t);

/* Runs forward and backward for the drawn batch, and adds to the gradients. Returns the loss, the
 * mean squared error. Ends early, with half the work undone, once *@stop is set. */
float hk_train_pass(struct hk_train *t, const atomic_bool *stop, struct hk_traffic *traffic);

/* One step: HK_TRAIN_PASSES batches, then the update. Returns the mean of their losses. */
float hk_train_step(struct hk_train *t, const atomic_bool *stop, struct hk_traffic *traffic);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/link.h: from what a model says of a row, and the row's target, to the loss. Internal to learn/.
 */
#ifndef HK_LEARN_LINK_H
#define HK_LEARN_LINK_H

#include "learn/learn.h"

/* The loss of one row with scores @z and target @y. With @grad, writes there what the loss changes by
 * for each score; it may be @z itself. */
double hk_learn_link(const struct hk_learn_model *m, const double *z, double y, double *grad);

/* The largest second derivative of it, for step sizes. The plain hinge has none: that of the other. */
double hk_learn_link_curvature(const struct hk_learn_model *m);

#endif

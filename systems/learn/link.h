/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/link.h: the loss of one row from the model's scores and the row's target. Internal to
 * learn/.
 */
#ifndef HK_LEARN_LINK_H
#define HK_LEARN_LINK_H

#include "learn/learn.h"

/* Returns the loss of one row with scores @z and target @y. If @grad is not NULL, it receives the
 * derivative by each score; it may be @z itself. */
double hk_learn_link(const struct hk_learn_model *m, const double *z, double y, double *grad);

/* Returns the largest second derivative of the loss, for step sizes. The hinge has none; it gets
 * the squared hinge's. */
double hk_learn_link_curvature(const struct hk_learn_model *m);

#endif

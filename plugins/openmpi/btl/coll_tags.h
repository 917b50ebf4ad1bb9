/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/coll_tags.h: the tags of ob1 by which the members of a Bcast speak with each other.
 * They lie at the far end of what Open MPI 4.1 leaves to HCOLL, which cannot be used beside this
 * component's Bcast.
 */
#ifndef HK_MPI_COLL_TAGS_H
#define HK_MPI_COLL_TAGS_H

#include "ompi/mca/coll/base/coll_tags.h"

#include <limits.h>

#define HK_COLL_TAG_UP   (MCA_COLL_BASE_TAG_HCOLL_END + 1) /* to the root */
#define HK_COLL_TAG_DOWN (MCA_COLL_BASE_TAG_HCOLL_END + 2) /* from the root */

#endif

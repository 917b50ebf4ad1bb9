/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A header that Open MPI's ompi/op/op.h includes and that Debian's libopenmpi-dev lacks. Here an
 * INTEGER of Fortran is an int.
 */
#ifndef HK_DEBIAN_FINT_2_INT_H
#define HK_DEBIAN_FINT_2_INT_H

#define OMPI_INT_2_FINT(i) (i)

_Static_assert(sizeof(MPI_Fint) == sizeof(int), "values are taken as they are");

#endif

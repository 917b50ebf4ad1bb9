/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/launcher.h: the number that a launcher of parallel programs has given to this process, by
 * the environment. The launchers are Open MPI's mpirun, MPICH's and Intel MPI's mpiexec, programs
 * that speak PMIx, and Slurm's srun, in this order.
 *
 * Pure: reads the environment only.
 */
#ifndef HIKYAKU_BASE_LAUNCHER_H
#define HIKYAKU_BASE_LAUNCHER_H

#pragma GCC visibility push(default)

/* The text of the number among all processes of the job, or among those on this node. NULL: none
 * has set it. */
const char *hk_launcher_rank(void);
const char *hk_launcher_local_rank(void);

#pragma GCC visibility pop

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/launcher.h: the number that a launcher of parallel programs has given to this process, by
 * the environment. The launchers are Open MPI's mpirun, MPICH's and Intel MPI's mpiexec, programs
 * that speak PMIx, and Slurm's srun, in this order.
 *
 * It reads the environment, and of the parent process the name.
 */
#ifndef HIKYAKU_BASE_LAUNCHER_H
#define HIKYAKU_BASE_LAUNCHER_H

#include <sys/types.h>

#pragma GCC visibility push(default)

/* The text of the number among all processes of the job, or among those on this node. NULL: none
 * has set it. */
const char *hk_launcher_rank(void);
const char *hk_launcher_local_rank(void);

/* The text of the number of the job's processes on this node. NULL: no launcher has set it. */
const char *hk_launcher_local_size(void);

/* The launcher's process on this node, which has started this process; 0 if something else has. */
pid_t hk_launcher_process(void);

#pragma GCC visibility pop

#endif

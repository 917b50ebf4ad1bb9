# SPDX-License-Identifier: BSD-3-Clause
"""`bench mpi`: MPI over TCP and over Hikyaku."""

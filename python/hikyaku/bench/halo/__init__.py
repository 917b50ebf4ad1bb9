# SPDX-License-Identifier: BSD-3-Clause
"""`bench halo`: a solver's neighbour exchange."""

# SPDX-License-Identifier: BSD-3-Clause
"""`bench scale`: a solver's neighbour exchange with more ranks than the machine carries."""

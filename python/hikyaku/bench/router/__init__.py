# SPDX-License-Identifier: BSD-3-Clause
"""`bench router`: the router and DPDK's L3 example."""

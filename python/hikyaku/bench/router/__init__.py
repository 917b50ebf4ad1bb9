# SPDX-License-Identifier: BSD-3-Clause
"""`bench router`: the router, DPDK's L3 example and emulated NICs."""

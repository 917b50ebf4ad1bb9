# SPDX-License-Identifier: BSD-3-Clause
"""Networks of simulated hosts with the real engine: runs hikyaku-sim, prints and draws results."""

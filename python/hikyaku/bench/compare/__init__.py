# SPDX-License-Identifier: BSD-3-Clause
"""bench compare: the same benchmark of two commits, alternating in one run."""

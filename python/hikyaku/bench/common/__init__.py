# SPDX-License-Identifier: BSD-3-Clause
"""The parts that the suites share."""

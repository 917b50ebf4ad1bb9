# SPDX-License-Identifier: BSD-3-Clause
"""Loads matplotlib as the product does, before a test imports it: nothing stays at home."""

from hikyaku.bench.common.figure import load_matplotlib

load_matplotlib()

# SPDX-License-Identifier: BSD-3-Clause
"""The preload by which DPDK starts sooner in tests (quick_start.c)."""

import os
import re

import pytest

from execute import execute


@pytest.mark.one_core
def test_dpdk_sleeps_by_it(program):
    """The dynamic linker tells which function librte_eal calls."""
    env = {**os.environ, "LD_DEBUG": "bindings", "LD_BIND_NOW": "1"}
    told = execute([program("bench/raw_pingpong"), "--help"], timeout=60, env=env).stderr
    assert re.search(r"librte_eal\S+ \[0\] to \S+/hk_quick_start\.so \[0\]: .*`nanosleep'", told)

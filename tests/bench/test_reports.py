# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the benchmarks in a terminal of 80 columns: nothing is cut."""

import io
from collections.abc import Callable

import documents
import pytest
from rich.console import Console

from hikyaku.bench.halo import report as halo
from hikyaku.bench.mpi import report as mpi
from hikyaku.bench.rtc import report as rtc
from hikyaku.bench.sdn import report as sdn

METRICS = ["latency_us", "bandwidth_MBps", "bibandwidth_MBps", "messages_per_s"]
CASES: dict[str, tuple[Callable[[dict, Console], None], dict]] = {
    "mpi": (mpi.show, documents.mpi(["memif", "veth"], METRICS, documents.DEMO_SIZES)),
    "halo": (halo.show, documents.halo_exchange([1, 4])),
    "rtc": (rtc.show, documents.run_to_completion()),
    "sdn": (sdn.show, documents.network()),
}


@pytest.mark.parametrize("name", CASES)
def test_no_column_is_cut(name):
    show, document = CASES[name]
    out = io.StringIO()
    show({"goals": [], **document}, Console(file=out, width=80))
    said = out.getvalue()
    assert said.count("\n") > 10
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= 80

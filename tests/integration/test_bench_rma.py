# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench rma`: its document."""

import json

import pytest

from execute import execute
from hikyaku.bench.rma.run import METRICS

WAYS = ("hikyaku", "rdma", "tcp", "shm")


@pytest.mark.one_core
@pytest.mark.usefixtures("lab_name")  # root, and no labs of killed test runs
def test_document_of_a_tiny_run(hikyaku, tmp_path):
    file = tmp_path / "r.json"
    argv = [*hikyaku, "bench", "rma", "--ways", ",".join(WAYS), "--sizes", "8,64K"]
    argv += ["--repeats", "1", "--sample-ms", "2", "--json", str(file)]
    done = execute(argv, timeout=200)
    assert "lock, put, unlock" in done.stdout and "osc/pt2pt by TCP" in done.stdout
    rows = json.loads(file.read_text())["rows"]
    wanted = [(m, s) for m in METRICS for s in (8, 65536) if s == 8 or m in METRICS[:3]]
    assert [(r["metric"], r["size"]) for r in rows] == wanted
    assert all(r[way]["median"] > 0 for r in rows for way in WAYS)

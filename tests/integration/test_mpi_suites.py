# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py's own test suite over the fabric.

`make check` runs the modules of which every test passes over TCP. The whole suite has tests that
fail over TCP as well, so there each outcome must be the same as over TCP.

Two ranks that exchange messages without a pause take 3.5 times as long on one core.
"""

import importlib.util
from pathlib import Path

import pytest

from mpi_programs import HUGE_MB

_path = Path(__file__).parent / "mpi_suites/mpi4py_suite.py"
_spec = importlib.util.spec_from_file_location("mpi4py_suite", _path)
suite = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(suite)

LIMIT_S = 240
LIMIT_WHOLE_S = 900


def test_the_suite_has_the_modules_that_are_named():
    """It gets the suite, and waits for that beside other tests."""
    there = {each.stem for each in suite.prepare().glob("test_*.py")}
    assert there >= {*suite.EXCLUDED, *suite.ONE_SIDED, *suite.FAULTY, *suite.SHORT}


def compare(lab, ranks, modules, results, timeout) -> None:
    how = {"timeout": timeout, "absent": suite.ABSENT}
    tcp = suite.run(lab, ranks, modules, tcp=True, results=results / "tcp", **how)
    fabric = suite.run(lab, ranks, modules, tcp=False, results=results / "hikyaku", **how)
    print(f"over TCP: {suite.summary(tcp)}\nover the fabric: {suite.summary(fabric)}")
    passed = sum(outcome == "passed" for outcome in tcp.values())
    assert passed > ranks * 100, f"hardly anything ran: {suite.summary(tcp)}"
    differing = suite.differences(tcp, fabric)
    assert not differing, "\n".join([f"{len(differing)} outcomes differ:", *differing[:50]])


FAULTS = "drop=0.05,dup=0.05,reorder=0.05,corrupt=0.01"
MODES = ["inline", "hybrid", "split", "daemon"]


GOOD = {"passed", "skipped", "expected failure"}


def assert_all_pass(lab, modules, results, timeout, **how) -> None:
    outcomes = suite.run(lab, 2, modules, tcp=False, results=results, timeout=timeout, **how)
    assert outcomes.pop((-1, "exit status")) == "0", outcomes
    assert len(outcomes) >= 100, suite.summary(outcomes)
    bad = {test: o for test, o in outcomes.items() if o.partition(":")[0] not in GOOD}
    assert not bad, bad


@pytest.mark.alone
@pytest.mark.parametrize("modules", [suite.SHORT, suite.ONE_SIDED], ids=["short", "one-sided"])
def test_mpi4py(get_lab, tmp_path, modules):
    lab = get_lab(nodes=2, wire="memif")
    assert_all_pass(lab, modules, tmp_path / "results", LIMIT_S)


@pytest.mark.alone
@pytest.mark.parametrize("mode", MODES)
def test_mpi4py_under_faults(get_lab, tmp_path, mode):
    lab = get_lab(2, "memif", 1, 0 if mode == "inline" else HUGE_MB)
    assert_all_pass(lab, suite.FAULTY, tmp_path / mode, LIMIT_S, mode=mode, faults=FAULTS)


# MPI_Dist_graph_create of MPICH 4.3 probes for a message of any rank, and then receives one of any
# rank. Another one may arrive in between; over its TCP that hardly happens.
OF_MPICH = [module for module in suite.SHORT if module != "test_comm_topo"]


@pytest.mark.alone
@pytest.mark.parametrize(
    "by, modules",
    [
        ("mpich", suite.ONE_SIDED),
        ("openmpi5", suite.FAULTY),
        ("mpich", OF_MPICH),
        pytest.param("openmpi5", suite.SHORT, marks=pytest.mark.slow),
    ],
)
def test_mpi4py_over_libfabric(get_lab, tmp_path, by, modules):
    """Intel MPI fails testReduceScatter, and the machine's Open MPI crashes, over TCP as well."""
    lab = get_lab(nodes=2, wire="memif")
    assert_all_pass(lab, modules, tmp_path / by, LIMIT_S, by=by)


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_mpi4py_under_faults_at_length(get_lab, tmp_path, mode):
    lab = get_lab(2, "memif", 1, 0 if mode == "inline" else HUGE_MB)
    modules = [*suite.SHORT, *suite.ONE_SIDED]
    assert_all_pass(lab, modules, tmp_path / mode, LIMIT_WHOLE_S, mode=mode, faults=FAULTS)


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("wire", ["memif", "veth"])
def test_mpi4py_whole(get_lab, tmp_path, wire, ranks):
    lab = get_lab(nodes=ranks, wire=wire)
    compare(lab, ranks, suite.all_modules(suite.prepare()), tmp_path, LIMIT_WHOLE_S)

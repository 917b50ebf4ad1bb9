# SPDX-License-Identifier: BSD-3-Clause
"""The halo library with the real mpirun: random graphs against plain MPI, bad edges, dead ranks."""

import re
import sys

import numpy as np
import pytest

from hikyaku.checkout import ROOT
from hikyaku.lab import Job
from hikyaku.lab.openmpi import with_faults
from mpi_programs import assert_passed, lab_id

pytestmark = pytest.mark.one_core

LOSS = "drop=0.01"
FAULTS = "drop=0.02,dup=0.01,reorder=0.02,corrupt=0.01"


@pytest.mark.parametrize("lab", [("memif", 2, 1), ("memif", 3, 1), ("veth", 2, 1)], ids=lab_id)
def test_random_graphs_over_the_worker(run, lab):
    """One rank a node: every neighbour is reached by puts."""
    assert_passed(run(lab, "halo_random --mode worker"), "halo_random")


@pytest.mark.parametrize("lab", [("memif", 2, 2), ("memif", 2, 4)], ids=lab_id)
def test_random_graphs_over_worker_and_shared_memory(run, lab):
    """Neighbours of the same node are reached by shared memory, the others by puts, in one
    exchange."""
    assert_passed(run(lab, "halo_random --rounds 12"), "halo_random")


def of_one_node(get_lab, argv, ranks):
    """Ranks of node0, which shared memory connects."""
    options = ["--host", f"node0:{ranks}"]
    yields = {"mpi_yield_when_idle": "1"}
    return get_lab().mpirun(ranks, argv, tcp=True, options=options, mca=yields, timeout=100)


@pytest.mark.parametrize("ranks", [2, 4])
def test_random_graphs_over_shared_memory(get_lab, program, ranks):
    argv = [program("tests/mpi/mpi_halo_random"), "--mode", "shared", "--rounds", "20"]
    assert_passed(of_one_node(get_lab, argv, ranks), "halo_random")


def test_ends_that_want_other_transports_take_mpi(get_lab, program):
    """Rank 1 alone does not offer shared memory."""
    choose = "[ $OMPI_COMM_WORLD_RANK = 0 ] || export HK_HALO_TRANSPORT=mpi; exec $0 $@"
    argv = ["sh", "-c", choose, program("tests/mpi/mpi_halo_random"), "--mode", "mpi"]
    assert_passed(of_one_node(get_lab, [*argv, "--rounds", "5"], 2), "halo_random")


@pytest.mark.parametrize("faults", [LOSS, FAULTS])
def test_random_graphs_under_faults(run, faults):
    crc = {"btl_hikyaku_protection": "crc"}
    result = run(("memif", 2, 1), "halo_random --seed 2 --mode worker", faults=faults, mca=crc)
    assert_passed(result, "halo_random")


@pytest.mark.parametrize("mode", ["hybrid", "daemon", "split"])
def test_random_graphs_with_hikyakud(run, mode):
    command = "halo_random --seed 3 --mode worker --rounds 12"
    assert_passed(run(("memif", 2, 1), command, mode=mode), command)


def test_random_graphs_without_hikyaku(run):
    """Over TCP nothing of Hikyaku is loaded: persistent requests."""
    command = "halo_random --mode mpi --rounds 12"
    assert_passed(run(("memif", 2, 1), command, tcp=True), command)


def test_the_transport_can_be_chosen(run, get_lab, program):
    argv = ["env", "HK_HALO_TRANSPORT=mpi", program("tests/mpi/mpi_halo_random")]
    result = get_lab().mpirun(2, [*argv, "--mode", "mpi", "--rounds", "5"], timeout=60)
    assert_passed(result, "halo_random")


@pytest.mark.parametrize(("lab", "count"), [(("memif", 2, 1), 2), (("memif", 2, 4), 8)])
@pytest.mark.parametrize(
    "what",
    [
        "halo_random --mode libfabric --rounds 8",
        "halo_errors",
        "halo_errors --mode behind",
    ],
)
def test_libfabric(get_lab, program, lab, count, what):
    """Its TCP provider, between ranks of one node too; set-up by messages over TCP."""
    name, *options = what.split()
    argv = ["env", "HK_HALO_TRANSPORT=libfabric", program(f"tests/mpi/mpi_{name}"), *options]
    yields = {"mpi_yield_when_idle": "1"}
    result = get_lab(*lab[1::-1], lab[2]).mpirun(count, argv, tcp=True, mca=yields, timeout=100)
    assert_passed(result, name)


@pytest.mark.parametrize("what", ["halo_random --mode libfabric --rounds 8", "halo_errors"])
def test_libfabric_with_our_provider(get_lab, program, what):
    """MPI and the exchange have an endpoint each."""
    name, *options = what.split()
    settings = ["--mca", "mpi_yield_when_idle", "1", "-x", "FI_HIKYAKU_YIELD=1"]
    settings += ["-x", "FI_PROVIDER=hikyaku", "-x", "HK_HALO_TRANSPORT=libfabric"]
    argv = ["-np", "2", *settings, program(f"tests/mpi/mpi_{name}"), *options]
    result = get_lab().launch(Job(argv, mpi="openmpi-ofi", timeout=100))
    assert_passed(result, name)


@pytest.mark.parametrize("transport", ["worker", "mpi"])
def test_exchanges_of_one_communicator(get_lab, program, transport):
    """They share a copy of it, have messages of their own, and outlive it."""
    argv = ["env", f"HK_HALO_TRANSPORT={transport}", program("tests/mpi/mpi_halo_comms")]
    assert_passed(get_lab().mpirun(2, argv, timeout=60), "halo_comms")


@pytest.mark.parametrize("lab", [("memif", 2, 1), ("memif", 2, 2)], ids=lab_id)
def test_bad_edges_are_refused_on_all_ranks(run, lab):
    assert_passed(run(lab, "halo_errors"), "halo_errors")


@pytest.mark.parametrize("transport", ["auto", "libfabric"])
def test_a_wait_ends_at_its_timeout(get_lab, program, transport):
    argv = ["env", f"HK_HALO_TRANSPORT={transport}", program("tests/mpi/mpi_halo_errors")]
    yields = {"mpi_yield_when_idle": "1"}
    result = get_lab().mpirun(2, [*argv, "--mode", "late"], mca=yields, timeout=60)
    assert_passed(result, "halo_errors")


def test_shared_memory_that_is_given_up_is_not_written(get_lab, program):
    argv = [program("tests/mpi/mpi_halo_errors"), "--mode", "gives-up"]
    assert_passed(of_one_node(get_lab, argv, 2), "halo_errors")


@pytest.mark.parametrize("lab", [("memif", 2, 1), ("memif", 2, 2)], ids=lab_id)
def test_an_exchange_that_is_given_up_writes_to_nobody(run, lab):
    assert_passed(run(lab, "halo_errors --mode gives-up"), "halo_errors")


def test_a_dead_neighbour_is_named(run):
    timeout = {"btl_hikyaku_peer_timeout_ms": "1500"}
    result = run(("memif", 2, 1), "halo_errors --mode stop", mca=timeout, limit=60, watchdog=40)
    assert "LEAVING rank 1" in result.stderr
    assert result.returncode != 0
    assert "WATCHDOG" not in result.stderr, result.stderr
    assert re.search(r"rank 1 on node1\b", result.stderr), result.stderr


@pytest.mark.parametrize("lab", [("memif", 2, 1), ("memif", 2, 4)], ids=lab_id)
def test_builders_against_brute_force(run, lab):
    assert_passed(run(lab, "halo_builders --rounds 20"), "halo_builders")


@pytest.mark.parametrize("partition", ["rows", "metis"])
@pytest.mark.parametrize("exchange", ["mpi", "halo"])
def test_products_equal_those_of_one_process(get_lab, program, partition, exchange):
    argv = [program("examples/spmv/spmv"), "-n", "16", "--partition", partition]
    argv += ["--exchange", exchange]
    result = get_lab(2, "memif", 2).mpirun(4, argv, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("PASS spmv: "), result.stdout


def test_products_under_loss_are_the_same(get_lab, program):
    argv = [program("examples/spmv/spmv"), "-n", "24", "--products", "200"]
    result = get_lab().mpirun(2, with_faults(LOSS, 1, argv), timeout=100)
    assert result.returncode == 0, result.stderr
    assert "0 of 13824 elements differ" in result.stdout


def test_spmv_of_too_large_a_cube(get_lab, program):
    result = get_lab().mpirun(2, [program("examples/spmv/spmv"), "-n", "431"], timeout=60)
    assert result.returncode != 0
    assert "larger than 430 points along an edge; fix: spmv [-n N]" in result.stderr


def test_the_report_names_neighbours_and_paths(get_lab, program):
    argv = ["env", "HK_HALO_REPORT=1", program("examples/spmv/spmv"), "-n", "8"]
    result = get_lab(2, "memif", 2).mpirun(4, argv, timeout=60)
    assert result.returncode == 0, result.stderr
    # blocks of rows: 0-1-2-3 in a line, even ranks on one node
    assert re.search(
        r"hk_halo: rank 0 with rank 1: 512 bytes out, 512 in, 20 exchanges, from put to arrival "
        r"\S+ us \(\S+ to \S+\), set-up \d+ us; transport worker: puts to rank 1 on node1",
        result.stderr,
    ), result.stderr


def plate(n: int, steps: int) -> np.ndarray:
    """The temperatures that heat computes, by one process."""
    y, x = (np.indices((n + 2, n + 2)) - 1) / n - 0.37
    heater = x**2 + y**2 < 0.01
    u = heater.astype(float)
    inner = np.s_[1:-1, 1:-1]
    for _ in range(steps):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[inner] = np.where(heater[inner], 1, u[inner] + 0.2 * (around - 4 * u[inner]))
    return u[inner]


@pytest.mark.parametrize(("ranks", "boxes"), [(3, "3 x 1"), (4, "2 x 2")])
def test_heat(get_lab, program, tmp_path, ranks, boxes):
    """Boxes of unequal size, an odd number of steps, and a file that was longer."""
    file = tmp_path / "field"
    file.write_bytes(bytes(1 << 20))
    argv = [program("examples/halo/heat"), "-n", "29", "--steps", "101", "--moments", "3"]
    result = get_lab(2, "memif", 2).mpirun(ranks, [*argv, "--output", str(file)], timeout=60)
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(
        rf"PASS heat: {ranks} ranks \({boxes}\), 29 x 29 points, 101 steps: by MPI \d\.\d+ s, "
        r"by halo \d\.\d+ s; 0 points differ\n",
        result.stdout,
    ), result.stdout
    moments = np.fromfile(file).reshape(3, 29, 29)
    for moment, steps in zip(moments, (0, 50, 101), strict=True):
        np.testing.assert_allclose(moment, plate(29, steps), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-n", "0"], "a number is missing or out of range; fix: heat [-n 2…4096]"),
        (["-n", "2"], "a rank would have no points; fix: give more points by -n"),
        (["--output"], "unknown option, or one without its value"),
        (["--output", "/no/file"], "fix: name another file by --output"),
    ],
)
def test_heat_of_wrong_options(get_lab, program, words, said):
    result = get_lab(2, "memif", 2).mpirun(3, [program("examples/halo/heat"), *words], timeout=60)
    assert result.returncode != 0
    assert said in result.stderr


@pytest.mark.parametrize("name", ["jacobi", "cg"])
def test_solvers_in_fortran(get_lab, program, name):
    result = get_lab(2, "memif", 2).mpirun(4, [program(f"examples/halo/halo_{name}")], timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"PASS {name}: 4 ranks"), result.stdout


SOLVERS = ("examples/halo/halo_cg_threads", "examples/halo/halo_cg_threads_fortran")


def solve(get_lab, program, name: str, *options: str) -> tuple[int, float]:
    """The steps and the residual of a solver with threads. Its solutions by MPI and by the library
    are equal, with any number of threads."""
    argv = [program(name), "--solves", "1", *options]
    threads = {"OMP_NUM_THREADS": "2"}
    yields = {"mpi_yield_when_idle": "1"}
    lab = get_lab(2, "memif", 2)
    result = lab.mpirun(4, argv, mca=yields, env=threads, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("PASS cg: 4 ranks of 2 threads"), result.stdout
    found = re.search(r"(\d+) steps, residual +(\S+); solutions are equal", result.stdout)
    assert found, result.stdout
    return int(found[1]), float(found[2])


@pytest.mark.parametrize("partition", ["rows", "metis"])
def test_a_solver_in_fortran_is_that_in_c(get_lab, program, partition):
    options = ("-n", "12", "--partition", partition)
    ends = [solve(get_lab, program, name, *options) for name in SOLVERS]
    assert ends[0] == ends[1] and ends[0][0] > 5


def test_solvers_of_a_file(get_lab, program, tmp_path):
    """The matrix of springs in a row: at most as many steps as there are points."""
    n = 20
    entries = [f"{i} {i} 2" for i in range(1, n + 1)]
    entries += [f"{i + 1} {i} -1" for i in range(1, n)]
    head = "%%MatrixMarket matrix coordinate real symmetric"
    file = tmp_path / "springs.mtx"
    file.write_text("\n".join([head, f"{n} {n} {len(entries)}", *entries, ""]))
    ends = [solve(get_lab, program, name, "--matrix", str(file)) for name in SOLVERS]
    assert ends[0] == ends[1] and 5 < ends[0][0] <= n


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-n", "0"], "an option has a wrong number"),
        (["-n", "x"], "an option has a wrong number"),
        (["--partition", "x"], 'there is no partition "x"'),
        (["--color"], 'there is no option "--color"'),
    ],
)
def test_a_solver_in_fortran_of_wrong_options(get_lab, program, words, said):
    result = get_lab(2, "memif", 2).mpirun(2, [program(SOLVERS[1]), *words], timeout=60)
    assert result.returncode != 0
    assert re.search(rf"cg: .*{said}.*; fix: halo_cg_threads_fortran", result.stderr), result.stderr


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("above", "said"), [(-2.5, "not symmetric and positive definite"), (0, "too many steps")]
)
def test_a_matrix_of_another_kind_has_a_reason(get_lab, program, tmp_path, solver, above, said):
    """2 on the diagonal, -1 below it, @above above it."""
    n = 20
    entries = [f"{i} {i} 2" for i in range(1, n + 1)]
    entries += [f"{i + 1} {i} -1\n{i} {i + 1} {above}" for i in range(1, n)]
    head = f"%%MatrixMarket matrix coordinate real general\n{n} {n} {3 * n - 2}"
    file = tmp_path / "other.mtx"
    file.write_text("\n".join([head, *entries, ""]))
    argv = [program(solver), "--matrix", str(file)]
    result = get_lab(2, "memif", 2).mpirun(2, argv, timeout=60)
    assert result.returncode != 0
    assert re.search(rf"^cg: .*{said}.*; fix: ", result.stderr, re.M), result.stderr


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_wrong_file_has_its_own_fix(get_lab, program, tmp_path, solver):
    file = tmp_path / "bad.mtx"
    file.write_text("%%MatrixMarket matrix\n")
    argv = [program(solver), "--matrix", str(file)]
    result = get_lab(2, "memif", 2).mpirun(2, argv, timeout=60)
    assert result.returncode != 0
    said = [line for line in result.stderr.splitlines() if "bad.mtx, line 1" in line]
    assert said
    assert {line.partition("; fix: ")[2] for line in said} == {
        "give a matrix that docs/halo.md allows"
    }


def test_fortran(run):
    result = run(("memif", 2, 2), "halo_fortran")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "PASS halo_fortran\n", result.stdout


@pytest.mark.parametrize(
    "script", ["examples/halo/jacobi.py", "examples/halo/cg.py", "tests/mpi/halo_views.py"]
)
def test_python(get_lab, script):
    result = get_lab(2, "memif", 2).mpirun(4, [sys.executable, str(ROOT / script)], timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("PASS "), result.stdout

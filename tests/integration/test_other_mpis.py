# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified MPIs over the libfabric provider: MPICH, Intel MPI and Open MPI 5 of the package
index, and the machine's Open MPI."""

import re
import subprocess

import pytest

from execute import execute
from hikyaku import mpi
from hikyaku.checkout import ROOT, built
from hikyaku.lab import Job, Lab, RunResult
from mpi_programs import FAULTS, LIMIT_S, PROGRAMS, WATCHDOG_S, assert_passed, digest_of

pytestmark = pytest.mark.one_core

# These fail over the MPI's own provider for TCP in the same way.
FAIL_ANYWAY = {
    "mpich": {"p2p_outstanding", "rma_passive", "coll_neighbor"},
    "impi": {"p2p_outstanding", "rma_passive"},
    "openmpi5": {"p2p_persistent", "rma_random", "rma_passive"},
    mpi.OPENMPI: {"p2p_persistent"},
}
USUAL = {"p2p_match", "coll_move", "rma_random", "threads"}  # of those beside MPICH
LOSS = FAULTS.replace("drop=0.02", "drop=0.05")


def programs_of() -> list:
    """All programs by MPICH; by the others some, and all with --slow."""
    cases = []
    for name in mpi.BY_OFI:
        for command in (c for c in PROGRAMS if c.split()[0] not in FAIL_ANYWAY[name]):
            usual = name == "mpich" or command.split()[0] in USUAL
            case = f"{name}-{command.split()[0]}"
            marks = [] if usual else [pytest.mark.slow]
            if case == "openmpi5-threads":  # four threads of two ranks may starve each other
                marks.append(pytest.mark.alone)
            cases.append(pytest.param(name, command, id=case, marks=marks))
    return cases


def compiled(by: str, name: str) -> str:
    sources = [ROOT / f"tests/mpi/{each}.c" for each in (name, "common")]
    return mpi.compiled(by, sources)


def launch(lab: Lab, ranks: int, argv: list[str], by: str = "mpich", **options) -> RunResult:
    return lab.launch(Job(["-np", str(ranks), *argv], mpi=by, timeout=LIMIT_S, **options))


def run(lab: Lab, ranks: int, command: str, by: str = "mpich", **options) -> None:
    name, *arguments = command.split()
    argv = [compiled(by, name), *arguments, "--timeout", str(WATCHDOG_S)]
    assert_passed(launch(lab, ranks, argv, by, **options), command)


def test_the_promoter_refuses_another_mpi():
    """It reads Open MPI's structures behind an MPI_Comm."""
    promoter = built("systems/halo/libhikyaku_halo.so")
    done = execute([compiled("mpich", "digest")], code=1, env={"LD_PRELOAD": str(promoter)})
    assert re.fullmatch(
        r"hikyaku_halo: this program calls MPI in \S*/libmpi\.so\S*, and the promoter works with "
        r"Open MPI's in \S*/libmpi\.so\S* only; fix: run it without LD_PRELOAD=\S+\n",
        done.stderr,
    )


@pytest.mark.parametrize(("by", "command"), programs_of())
def test_programs_on_wires(get_lab, by, command):
    run(get_lab(nodes=2, wire="memif"), 2, command, by)


@pytest.mark.parametrize(
    "by", ["impi", mpi.OPENMPI, pytest.param("openmpi5", marks=pytest.mark.slow)]
)
def test_several_ranks_of_a_node_by_another_mpi(get_lab, by):
    """Intel MPI has shared memory of its own; Open MPI uses the provider within a node, too."""
    run(get_lab(nodes=2, wire="udp"), 4, "p2p_random --rounds 5", by)


@pytest.mark.parametrize("command", ["p2p_modes", "rma_random --rounds 8", "coll_move", "threads"])
def test_several_ranks_of_a_node(get_lab, command):
    """MPICH's own shared memory carries what stays on a node."""
    for wire in ("memif", "udp"):
        run(get_lab(nodes=2, wire=wire), 4, command)


@pytest.mark.parametrize("command", ["p2p_random --rounds 5", "coll_reduce", "datatypes"])
def test_network_that_loses(get_lab, command):
    port = f"udp:addr=tcp0;faults={LOSS},seed=3"
    run(get_lab(nodes=2, wire="udp"), 2, command, env={"FI_HIKYAKU_PORT": port})


def test_the_same_result_as_over_tcp(get_lab):
    lab = get_lab(nodes=2, wire="memif")
    argv = [compiled("mpich", "digest")]
    assert digest_of(launch(lab, 2, argv)) == digest_of(launch(lab, 2, argv, tcp=True))


def test_the_provider_carried_it(get_lab):
    """The libfabric of MPICH says which provider it has chosen."""
    lab = get_lab(nodes=2, wire="memif")
    for tcp, name in ((False, "hikyaku"), (True, "tcp")):
        result = launch(
            lab, 2, [compiled("mpich", "digest")], tcp=tcp, env={"MPIR_CVAR_DEBUG_SUMMARY": "1"}
        )
        assert f"provider: {name}" in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("PORT", "memif:dir=/nonexistent/wires", "/nonexistent/wires.*; fix: "),
        ("PORT", "udp:adr=tcp0", '"adr" is not a key of udp; fix: '),
        ("MODE", "hybrd", 'FI_HIKYAKU_MODE: there is no mode "hybrd"; fix: '),
        ("PROT", "udp:addr=tcp0", "no variable FI_HIKYAKU_PROT; fix: .*FI_HIKYAKU_PORT$"),
        ("KEY", "seven", "FI_HIKYAKU_KEY is not a number; fix: "),
        ("PROGRESS_THREAD", "perhaps", "FI_HIKYAKU_PROGRESS_THREAD is neither yes nor no; fix: "),
    ],
)
@pytest.mark.parametrize("log", ["", "warn"])
def test_a_wrong_parameter_has_a_sentence(get_lab, variable, value, says, log):
    """MPICH says only that opening the domain failed. The log of libfabric is off by default."""
    env = {f"FI_HIKYAKU_{variable}": value} | ({"FI_LOG_LEVEL": log} if log else {})
    result = launch(get_lab(nodes=2, wire="memif"), 2, [compiled("mpich", "digest")], env=env)
    assert result.returncode != 0
    assert re.search(f"hikyaku.*{says}", result.stderr, re.M), result.stderr


def test_the_settings_of_env(get_lab, hikyaku):
    """As on a cluster: mpiexec alone, and messages that do not stay in shared memory."""
    script = f"""
        eval "$({" ".join(hikyaku)} env --ofi)"
        export FI_HIKYAKU_PORT=udp:addr=tcp0 FI_HIKYAKU_YIELD=1 MPIR_CVAR_NOLOCAL=1
        {mpi.program("mpich", "mpiexec")} -n 2 {compiled("mpich", "digest")}
    """
    argv = get_lab(nodes=2, wire="memif").exec_argv("node0", ["sh", "-c", script])
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "DIGEST" in done.stdout

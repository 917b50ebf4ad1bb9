# SPDX-License-Identifier: BSD-3-Clause
"""An unmodified MPICH of the package index over the libfabric provider."""

import subprocess
from pathlib import Path

import pytest

from hikyaku import mpi
from hikyaku.checkout import ROOT
from hikyaku.lab import Job, Lab, RunResult
from mpi_programs import FAULTS, LIMIT_S, PROGRAMS, WATCHDOG_S, assert_passed, digest_of

pytestmark = pytest.mark.one_core

# MPICH 4.3.2 fails these over its TCP provider in the same way.
OF_MPICH = {"p2p_outstanding", "rma_passive", "coll_neighbor"}
OURS = [each for each in PROGRAMS if each.split()[0] not in OF_MPICH]
LOSS = FAULTS.replace("drop=0.02", "drop=0.05")


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Compiles a program of tests/mpi for MPICH, once."""
    directory = tmp_path_factory.mktemp("mpich")

    def compiled(name: str) -> str:
        to = directory / f"mpi_{name}"
        if not to.exists():
            sources = [str(ROOT / f"tests/mpi/{each}.c") for each in (name, "common")]
            argv = [mpi.program("mpich", "mpicc"), "-O1", *sources, "-o", str(to)]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        return str(to)

    return compiled


def launch(lab: Lab, ranks: int, argv: list[str], **options) -> RunResult:
    return lab.launch(Job(["-np", str(ranks), *argv], mpi="mpich", timeout=LIMIT_S, **options))


def run(lab: Lab, ranks: int, built, command: str, **options) -> None:
    name, *arguments = command.split()
    argv = [built(name), *arguments, "--timeout", str(WATCHDOG_S)]
    assert_passed(launch(lab, ranks, argv, **options), command)


@pytest.mark.parametrize("command", OURS)
def test_programs_on_wires(get_lab, built, command):
    run(get_lab(nodes=2, wire="memif"), 2, built, command)


@pytest.mark.parametrize("command", ["p2p_modes", "rma_random --rounds 8", "coll_move", "threads"])
def test_several_ranks_of_a_node(get_lab, built, command):
    """MPICH's own shared memory carries what stays on a node."""
    for wire in ("memif", "udp"):
        run(get_lab(nodes=2, wire=wire), 4, built, command)


@pytest.mark.parametrize("command", ["p2p_random --rounds 5", "coll_reduce", "datatypes"])
def test_network_that_loses(get_lab, built, command):
    port = f"udp:addr=tcp0;faults={LOSS},seed=3"
    run(get_lab(nodes=2, wire="udp"), 2, built, command, env={"FI_HIKYAKU_PORT": port})


def test_the_same_result_as_over_tcp(get_lab, built):
    lab = get_lab(nodes=2, wire="memif")
    argv = [built("digest")]
    assert digest_of(launch(lab, 2, argv)) == digest_of(launch(lab, 2, argv, tcp=True))


def test_the_provider_carried_it(get_lab, built):
    """The libfabric of MPICH says which provider it has chosen."""
    lab = get_lab(nodes=2, wire="memif")
    for tcp, name in ((False, "hikyaku"), (True, "tcp")):
        result = launch(lab, 2, [built("digest")], tcp=tcp, env={"MPIR_CVAR_DEBUG_SUMMARY": "1"})
        assert f"provider: {name}" in result.stdout + result.stderr


def test_a_job_without_its_directory_of_wires(get_lab, built, tmp_path):
    """The reason is a sentence of the provider, with FI_LOG_LEVEL=warn."""
    missing = Path("/nonexistent/wires")
    env = {"FI_HIKYAKU_PORT": f"memif:dir={missing}", "FI_LOG_LEVEL": "warn"}
    result = launch(get_lab(nodes=2, wire="memif"), 2, [built("p2p_match")], env=env)
    assert result.returncode != 0
    assert str(missing) in result.stderr
    assert "fix:" in result.stderr


def test_the_settings_of_env(get_lab, built, hikyaku):
    """As on a cluster: mpiexec alone, and messages that do not stay in shared memory."""
    script = f"""
        eval "$({" ".join(hikyaku)} env --ofi)"
        export FI_HIKYAKU_PORT=udp:addr=tcp0 FI_HIKYAKU_YIELD=1 MPIR_CVAR_NOLOCAL=1
        {mpi.program("mpich", "mpiexec")} -n 2 {built("digest")}
    """
    argv = get_lab(nodes=2, wire="memif").exec_argv("node0", ["sh", "-c", script])
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "DIGEST" in done.stdout

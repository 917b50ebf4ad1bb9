# SPDX-License-Identifier: BSD-3-Clause
"""What the integration tests share: labs, built programs, a look for leftovers.

Labs are named after this process, so that several test runs of one checkout do not meet, and those
of a run that was killed are taken down by the next.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hikyaku import process
from hikyaku.checkout import ROOT, build_dir
from hikyaku.lab import Lab, RunResult, down, down_dead, network, own_name
from hikyaku.lab.openmpi import with_faults
from mpi_programs import HUGE_MB, LIMIT_S, WATCHDOG_S

PREFIX = "test"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")
    parser.addoption(
        "--life-seconds",
        type=float,
        default=8,
        help="how long each test that kills at random moments goes on [8]",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests are deselected, not skipped: a skip is for what cannot run here."""
    if config.getoption("--slow"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


def pytest_configure(config: pytest.Config) -> None:
    """SIGTERM ends a test run as Ctrl-C does, so that fixtures take their labs down."""
    config.addinivalue_line("markers", "slow: takes long; only with --slow")

    def stop(_signum: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    # A run in the background of a shell, or under nohup, ignores these two, and so would all that
    # it starts; tests send them, and expect what a user at a terminal sees.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def lab_name() -> Iterator[Callable[[str], str]]:
    """Gives names for labs; whatever is up under them at the end is taken down."""
    if os.geteuid() != 0:
        pytest.fail("labs are network namespaces: run the tests as root")
    down_dead(PREFIX)
    given: list[str] = []

    def name(what: str) -> str:
        given.append(own_name(PREFIX, what))
        return given[-1]

    try:
        yield name
    finally:
        for each in dict.fromkeys(given):
            down(each)


@pytest.fixture(scope="session")
def get_lab(lab_name: Callable[[str], str]) -> Callable[..., Lab]:
    """get_lab(nodes=2, wire="memif", ranks_per_node=1) gives a lab that is up, the same one for
    the same arguments, until the end of the session. @huge_mb: of huge pages for each node.
    @ports: of each rank."""
    up: dict[tuple[int, str, int, int, int], Lab] = {}

    def get(
        nodes: int = 2,
        wire: str = "memif",
        ranks_per_node: int = 1,
        huge_mb: int = 0,
        ports: int = 1,
    ) -> Lab:
        key = (nodes, wire, ranks_per_node, huge_mb, ports)
        if key not in up:
            huge = f"-h{huge_mb}" if huge_mb else ""
            rails = f"-p{ports}" if ports > 1 else ""
            name = lab_name(f"{wire}-{nodes}x{ranks_per_node}{huge}{rails}")
            up[key] = Lab.up(nodes, wire, ranks_per_node, name=name, huge_mb=huge_mb, ports=ports)
        return up[key]

    return get


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """program("tests/mpi/mpi_ring") is the path of a built program."""

    def find(relative: str) -> str:
        path = build_dir() / relative
        if not path.exists():
            pytest.fail(f"{path} is not built: run 'make' (or set HIKYAKU_BUILD)")
        return str(path)

    return find


@pytest.fixture(scope="session")
def hikyaku() -> list[str]:
    """The start of a command line that runs ./hikyaku."""
    return [str(ROOT / "hikyaku")]


@pytest.fixture(scope="session")
def python_script() -> Callable[[Path, str], list[str]]:
    """Writes a script that uses the package, and gives the command line that runs it."""

    def make(path: Path, text: str) -> list[str]:
        path.write_text(f"import sys\nsys.path.insert(0, {str(ROOT / 'python')!r})\n{text}")
        return [sys.executable, str(path)]

    return make


@pytest.fixture
def lab_of_jobs(get_lab) -> Iterator[Callable[..., Lab]]:
    """get_lab() for tests that leave jobs running: what runs on its nodes ends with the test."""
    taken: list[Lab] = []

    def take(*shape: object, **options: object) -> Lab:
        taken.append(get_lab(*shape, **options))
        return taken[-1]

    yield take
    for lab in taken:
        for node in lab.topology.nodes:
            inode = network.namespace_inode(node.netns)
            process.end_all(lambda inode=inode: process.find(namespaces=[inode]))


@pytest.fixture
def burners() -> Iterator[Callable[[int], None]]:
    """burners(2): so many processes compute beside the test, until its end."""
    running: list[subprocess.Popen] = []

    def start(count: int) -> None:
        running.extend(
            subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)
        )

    yield start
    for each in running:
        each.kill()
        each.wait()


@pytest.fixture
def lab(lab_of_jobs) -> Lab:
    """Two nodes of one rank, with huge pages for two jobs at once."""
    return lab_of_jobs(2, "memif", 1, huge_mb=384)


@pytest.fixture
def run(get_lab, program) -> Callable[..., RunResult]:
    """run(lab, "p2p_modes --rounds 3") runs that program with as many ranks as the lab has."""

    def go(
        where: tuple[str, int, int],
        command: str,
        *,
        tcp: bool = False,
        host: str | None = None,
        faults: str = "",
        seed: int = 1000,
        ports: int = 1,
        mca: dict[str, str] | None = None,
        limit: float = LIMIT_S,
        watchdog: float = WATCHDOG_S,
    ) -> RunResult:
        wire, nodes, ranks = where
        huge_mb = ranks * HUGE_MB if host in ("hybrid", "split", "daemon") else 0
        lab: Lab = get_lab(nodes, wire, ranks, huge_mb, ports)
        name, *options = command.split()
        argv = [program(f"tests/mpi/mpi_{name}"), *options, "--timeout", str(watchdog)]
        if faults:
            argv = with_faults(faults, seed, argv)
        return lab.mpirun(
            nodes * ranks,
            argv,
            tcp=tcp,
            host=host,
            mca=mca,
            timeout=limit,
        )

    return go

# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the integration tests: labs, built programs, jobs.

The names of labs contain the PID of the test run, so several runs of one checkout do not share a
lab. A test run takes down the labs of earlier runs that were killed.
"""

import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hikyaku.checkout import ROOT, build_dir, built
from hikyaku.errors import HikyakuError
from hikyaku.lab import Lab, RunResult, down, down_dead, own_name
from hikyaku.lab.openmpi import with_faults
from mpi_programs import (
    HUGE_MB,
    LIMIT_S,
    THEN,
    THREADED,
    WATCHDOG_S,
    assert_passed,
    digest_of,
    results_of_each,
)
from slots import end_all_of

PREFIX = "test"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")
    parser.addoption(
        "--kills",
        type=int,
        default=5,
        help="jobs that a test kills, if it kills at random moments [5]",
    )
    parser.addoption(
        "--core-each", action="store_true", help="each worker of -n has one core, and no other"
    )


def take_a_core(config: pytest.Config) -> None:
    """Binds a worker of pytest-xdist, and all that it starts, to a core that no other one has."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker and config.getoption("--core-each"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})


def check_marks(items: list[pytest.Item]) -> None:
    """scripts/check.py looks for the marks of its stages in the text of files: a test whose mark is
    from elsewhere would run in no stage."""
    text = {path: path.read_text() for path in {item.path for item in items}}
    for item in items:
        for mark in ("alone", "one_core"):
            if item.get_closest_marker(mark) and f"pytest.mark.{mark}" not in text[item.path]:
                raise pytest.UsageError(
                    f"{item.nodeid} has the mark {mark}, and its file does not name it; "
                    f"fix: write pytest.mark.{mark} there"
                )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects slow tests, and sorts files with guests to the front.

    A skip would mean that the test cannot run here. Files with guests take longest: at the end of
    the run, the last of them would run alone.
    """
    check_marks(items)
    guests = {item.path for item in items if "guest" in item.fixturenames}
    items.sort(key=lambda item: item.path not in guests)
    if config.getoption("--slow"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


def pytest_configure(config: pytest.Config) -> None:
    """Makes SIGTERM end a test run as Ctrl-C does, so that fixtures take their labs down."""
    take_a_core(config)
    # Open MPI ends the ranks of a failed job in three steps, and sleeps for a second after each.
    # Our ranks do not need that second.
    os.environ.setdefault("OMPI_MCA_odls_base_sigkill_timeout", "0")

    def stop(_signum: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    # A process in the background of a shell, or under nohup, ignores these two signals, and its
    # children inherit that. Tests send them and expect the same effect as on a terminal.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def lab_name() -> Iterator[Callable[[str], str]]:
    """Gives names for labs. At the end of the session it takes down all labs of these names."""
    if os.geteuid() != 0:
        pytest.fail("labs are network namespaces: run the tests as root")
    try:
        down_dead(PREFIX)
    except HikyakuError as bad:  # this run uses other names, so it can go on
        warnings.warn(str(bad), stacklevel=1)
    given: list[str] = []

    def name(what: str) -> str:
        given.append(own_name(PREFIX, what))
        return given[-1]

    yield name
    failed = []
    for each in dict.fromkeys(given):
        try:
            down(each)
        except HikyakuError as bad:  # take the others down all the same
            failed.append(f"lab '{each}' stays: {bad}")
    assert not failed, "\n".join(failed)


@pytest.fixture(scope="session")
def get_lab(lab_name: Callable[[str], str]) -> Callable[..., Lab]:
    """get_lab(nodes=2, wire="memif", ranks_per_node=1) gives a lab that is up.

    Until the end of the session, the same arguments give the same lab. @huge_mb: MB of huge pages
    for each node. @ports: ports of each rank. It makes a lab again if a test has broken it, or if
    it did not come up. So one test that breaks its lab does not make later tests fail.
    """

    def get(
        nodes: int = 2,
        wire: str = "memif",
        ranks_per_node: int = 1,
        huge_mb: int = 0,
        ports: int = 1,
    ) -> Lab:
        huge = f"-h{huge_mb}" if huge_mb else ""
        paths = f"-p{ports}" if ports > 1 else ""
        name = lab_name(f"{wire}-{nodes}x{ranks_per_node}{huge}{paths}")
        try:
            return Lab.find(name)
        except HikyakuError:
            down(name)
        return Lab.up(nodes, wire, ranks_per_node, name=name, huge_mb=huge_mb, ports=ports)

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


@pytest.fixture(autouse=True)
def quick_start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that a test with a core of its own starts do not sleep while DPDK measures the clock
    (quick_start.c). Other tests use the sleep, since another worker has the core meanwhile."""
    if any(request.node.get_closest_marker(mark) for mark in ("one_core", "alone")):
        preload = built("tests/integration/hk_quick_start.so").resolve()
        monkeypatch.setenv("LD_PRELOAD", str(preload))


@pytest.fixture(scope="session")
def hikyaku() -> list[str]:
    """The start of a command line that runs ./hikyaku."""
    return [str(ROOT / "hikyaku")]


@pytest.fixture(scope="session")
def python_script() -> Callable[[Path, str], list[str]]:
    """Writes a script that uses our package, and gives the command line that runs it."""

    def make(path: Path, text: str) -> list[str]:
        path.write_text(f"import sys\nsys.path.insert(0, {str(ROOT / 'python')!r})\n{text}")
        return [sys.executable, str(path)]

    return make


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """A directory in which ./hikyaku and build/ are those of the checkout, and out/ is new."""
    (tmp_path / "out").mkdir()
    (tmp_path / "hikyaku").symlink_to(ROOT / "hikyaku")
    (tmp_path / "build").symlink_to(ROOT / "build")
    return tmp_path


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory for sockets, whose paths have at most 107 bytes. Those below tmp_path are longer
    in a worker of pytest-xdist."""
    with tempfile.TemporaryDirectory(prefix="hk-", dir="/tmp") as path:
        yield Path(path)


@pytest.fixture
def lab_of_jobs(get_lab) -> Iterator[Callable[..., Lab]]:
    """get_lab() for tests that leave jobs running. It ends all processes on the nodes at the end
    of the test."""
    taken: list[Lab] = []

    def take(*shape: object, **options: object) -> Lab:
        taken.append(get_lab(*shape, **options))
        return taken[-1]

    yield take
    for lab in taken:
        for node in lab.topology.nodes:
            end_all_of(node)


@pytest.fixture
def burners() -> Iterator[Callable[[int], None]]:
    """burners(2) starts two processes that use all the CPU they get, until the test ends."""
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
    """Two nodes with one rank each, and huge pages for two jobs at once."""
    return lab_of_jobs(2, "memif", 1, huge_mb=384)


@pytest.fixture
def run(get_lab, program) -> Callable[..., RunResult]:
    """run(lab, "p2p_modes --rounds 3") runs that program with as many ranks as the lab has.

    run(lab, "p2p_modes + p2p_match") runs two of them in one job (tests/mpi/several.c).
    """

    def go(
        where: tuple[str, int, int],
        command: str,
        *,
        tcp: bool = False,
        mode: str | None = None,
        faults: str = "",
        seed: int = 1000,
        ports: int = 1,
        mca: dict[str, str] | None = None,
        limit: float = LIMIT_S,
        watchdog: float = WATCHDOG_S,
        before: Sequence[str] = (),
    ) -> RunResult:
        """@limit: for each program of the job. @before: a command that starts the job's first
        program, with its options."""
        wire, nodes, ranks = where
        huge_mb = ranks * HUGE_MB if mode in ("hybrid", "split", "daemon") else 0
        lab: Lab = get_lab(nodes, wire, ranks, huge_mb, ports)
        parts = command.split(THEN)
        argv = [program("tests/mpi/mpi_several")] if len(parts) > 1 else []
        for part in parts:
            name, *options = part.split()
            file = program(f"tests/mpi/mpi_{name}{'.so' if len(parts) > 1 else ''}")
            argv += ["+"] if part is not parts[0] else []
            argv += [file, *options, "--timeout", str(watchdog)]
        if faults:
            argv = with_faults(faults, seed, argv)
        return lab.mpirun(
            nodes * ranks,
            [*before, *argv],
            tcp=tcp,
            mode=mode,
            mca=mca,
            timeout=limit * len(parts),
        )

    return go


@pytest.fixture(scope="session")
def over_tcp() -> dict[tuple[int, int, str], str]:
    """Digests over TCP, which depend on the number of ranks only, and on the command."""
    return {}


@pytest.fixture
def digest_over_tcp(run, over_tcp) -> Callable[..., str]:
    def get(lab: tuple[str, int, int], command: str = "digest") -> str:
        # Open MPI 5 adds up floating-point numbers node by node
        _, nodes, ranks = lab
        key = nodes, ranks, command
        if key not in over_tcp:
            over_tcp[key] = digest_of(run(lab, command, tcp=True))
        return over_tcp[key]

    return get


@pytest.fixture(scope="session")
def results() -> dict[str, RunResult]:
    """Of tests whose programs ran in the job of an earlier test, by the tests' names."""
    return {}


def of_one_job(request: pytest.FixtureRequest, done: dict[str, RunResult]) -> dict[str, str]:
    """The selected tests that differ from this one in their command only, from this one on, and
    their commands. The programs of one job need the same level of threads."""

    def key(item: pytest.Item) -> tuple:
        given = dict(item.callspec.params)
        threaded = given.pop("command").split()[0] in THREADED
        return item.path, item.originalname, threaded, given

    mine = request.node
    near = [each for each in request.session.items if each.originalname == mine.originalname]
    behind = [each for each in near[near.index(mine) :] if key(each) == key(mine)]
    return {
        each.nodeid: each.callspec.params["command"] for each in behind if each.nodeid not in done
    }


@pytest.fixture
def assert_passes(request, run, results) -> Callable[..., None]:
    """assert_passes(lab, command, mode="hybrid") is assert_passed(run(...)) for a test with the
    parameter `command`.

    The first test runs the commands of those that differ in this parameter only, in one job. If
    one of these fails, the test behind it starts another job with the rest.
    """

    def check(where: tuple[str, int, int], command: str, **options: object) -> None:
        if request.node.nodeid not in results:
            tests = of_one_job(request, results)
            try:
                result = run(where, THEN.join(tests.values()), **options)
            except HikyakuError:  # a program hangs; find out which
                result = run(where, command, **options)
                tests = {request.node.nodeid: command}
            each = results_of_each(result, list(tests.values()))
            results.update(zip(tests, each, strict=False))  # not all have run
        assert_passed(results.pop(request.node.nodeid), command)

    return check

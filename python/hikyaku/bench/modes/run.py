# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench modes`: the polling modes, and their effect on ranks that compute.

Within each repeat the modes alternate, metric by metric. bench/modes_bench.c describes how each
scene is measured; report.py has the goals.
"""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

from ...checkout import built
from ...errors import HikyakuError
from ...hostd import program
from ...lab import Lab, RunResult, down_dead, own_name
from ...lab.openmpi import MODE_PARAMETER, SWITCH_MODES
from ...process import option_words
from ..common import machine, sample
from ..common.phases import Phases
from ..common.sample import Values
from ..common.summary import summary, turned
from . import hikyakud

MODES = ("inline", "hybrid", "split", "daemon")
# Metrics that mode inline lacks: its ranks share no port and have no daemon.
WITH_DAEMON = {"flood", "idle", "attach"}
WIRE = "memif"

LATENCY_SIZE = 8
BANDWIDTH_SIZE = 1 << 20


@dataclass(frozen=True)
class Plan:
    """The metrics and modes, and how long each measurement lasts."""

    metrics: list[str]
    modes: list[str]
    repeats: int
    sample_ms: int = 100
    flood_ms: int = 500
    pickup_rounds: int = 200
    messages: int = 20000
    message_size: int = 256
    compute_ms: int = 200
    idle_seconds: int = 10
    huge_mb: int = 512
    mca: dict[str, str] = field(default_factory=dict)

    def steps(self) -> list[tuple[str, str, int]]:
        """(metric, mode, repeat) in the order of the runs."""
        order = []
        for repeat in range(self.repeats):
            for metric in self.metrics:
                for mode in turned(self.modes, repeat):
                    if mode != "inline" or metric not in WITH_DAEMON:
                        order.append((metric, mode, repeat))
        return order


# ---- one run -------------------------------------------------------------------------------------

# "[node1:4711] hikyaku: node1: no such thing; fix: another"
_MESSAGE = re.compile(r"^\[[^]]*\] hikyaku: \S+: (.*)$", re.MULTILINE)


def parse(result: RunResult, mode: str, what: str) -> Values:
    """The values that a run printed. If the BTL refused the mode, the error is the BTL's own."""
    if result.returncode != 0 and (match := _MESSAGE.search(result.stdout + result.stderr)):
        raise HikyakuError.said(match[1], f"mode {mode}: ")
    return sample.parse(result, f"{what} in mode {mode}")


def run_in_mode(
    lab: Lab, mode: str, np: int, argv: list[str], mca: dict[str, str], limit: float
) -> Values:
    """The values that @argv prints as @np ranks in polling mode @mode, with a core for each node.
    @mca: more parameters."""
    own = {MODE_PARAMETER: mode, "btl_hikyaku_daemon_program": program()}
    if mode in SWITCH_MODES:  # hikyakud's switch and the rank share the node's core
        own["mpi_yield_when_idle"] = "1"
    result = lab.mpirun(np, argv, mca=own | mca, one_core=True, timeout=limit)
    return parse(result, mode, Path(argv[0]).name)


def _mpi(lab: Lab, plan: Plan, mode: str, np: int, argv: list[str], limit: float = 90) -> Values:
    return run_in_mode(lab, mode, np, argv, plan.mca, limit)


def _mpi_bench(lab: Lab, plan: Plan, mode: str, metric: str, size: int) -> Values:
    options = sample.Plan([metric], [size], plan.sample_ms).arguments()
    argv = [str(built("bench/mpi_bench")), *options, *sample.line_file(lab)]
    values = _mpi(lab, plan, mode, 2, argv)
    wanted = (metric, sample.LINE + metric, "init_ms")
    return {key: value for key, value in values.items() if key[0] in wanted}


def _scene(name: str, **options: object) -> list[str]:
    return [str(built("bench/modes_bench")), *option_words(scene=name, **options)]


def latency(lab: Lab, plan: Plan, mode: str) -> list[Values]:
    return [_mpi_bench(lab, plan, mode, "latency_us", LATENCY_SIZE)]


def bandwidth(lab: Lab, plan: Plan, mode: str) -> list[Values]:
    return [_mpi_bench(lab, plan, mode, "bandwidth_MBps", BANDWIDTH_SIZE)]


def busy(lab: Lab, plan: Plan, mode: str) -> list[Values]:
    size, compute = plan.message_size, plan.compute_ms
    scene = _scene("busy", messages=plan.messages, size=size, compute_ms=compute)
    return [_mpi(lab, plan, mode, 2, scene)]


def pickup(lab: Lab, plan: Plan, mode: str) -> list[Values]:
    return [_mpi(lab, plan, mode, 2, _scene("pickup", rounds=plan.pickup_rounds))]


def flood(lab: Lab, plan: Plan, mode: str) -> list[Values]:
    return [_mpi(lab, plan, mode, 4, _scene("flood", sample_ms=plan.flood_ms))]


def _idle_with_ranks(lab: Lab, plan: Plan, mode: str, metric: str, *, asleep: bool) -> list[Values]:
    flag = lab.directory / "idle"
    flags = [flag.with_name(f"idle.{rank}") for rank in range(2)]
    # CpuWatch ends the ranks before
    seconds = plan.idle_seconds + 60
    argv = _scene("idle", flag=flag, seconds=seconds, asleep=asleep)
    watch = hikyakud.CpuWatch(lab, flags, plan.idle_seconds, 60)
    percents = watch.during(lambda: _mpi(lab, plan, mode, 2, argv, 90 + seconds))
    return [{(metric, 0): percent} for percent in percents]


def idle(lab: Lab, plan: Plan, mode: str) -> list[Values]:
    """Two values of each kind, one for each node, and one without ranks."""
    values = _idle_with_ranks(lab, plan, mode, "idle_polling_percent", asleep=False)
    values += _idle_with_ranks(lab, plan, mode, "idle_asleep_percent", asleep=True)
    with hikyakud.administrators(lab, lab.topology.nodes[0].name, 2, mode):
        percents = hikyakud.cpu_percent(lab, plan.idle_seconds, threading.Event())
    return values + [{("idle_alone_percent", 0): percent} for percent in percents]


def attach(lab: Lab, plan: Plan, mode: str) -> list[Values]:
    """The time to attach to a running daemon, and to one that must be started."""
    node = lab.topology.nodes[0].name
    argv = [str(built("bench/attach_bench"))]

    def commands(run_dir: Path) -> list[tuple[str, list[str]]]:
        return [(node, [*argv, f"memif:dir={run_dir}", program(), mode])]

    with hikyakud.administrators(lab, node, 2, mode):
        running = parse(lab.run_each(commands)[0], mode, "attach_bench")
    first = parse(lab.run_each(commands)[0], mode, "attach_bench")
    return [running, {("attach_start_ms", 0): first["attach_ms", 0]}]


RUNS: dict[str, Callable[[Lab, Plan, str], list[Values]]] = {
    run.__name__: run for run in (latency, bandwidth, busy, pickup, flood, idle, attach)
}
METRICS = tuple(RUNS)

# Metrics whose samples come with the time of a cache line (phases.py), and the names of these.
IN_PHASES = {"latency": "latency_us", "bandwidth": "bandwidth_MBps"}
_METRIC_OF = {name: metric for metric, name in IN_PHASES.items()}

# ---- all of them ---------------------------------------------------------------------------------

Samples = dict[tuple[str, int], dict[str, list[float]]]


def rows(samples: Samples, modes: list[str]) -> list[dict]:
    """A row for each metric, size and mode that has values."""
    made = []
    for (metric, size), by_mode in samples.items():
        inline = median(by_mode["inline"]) if by_mode.get("inline") else None
        for mode in modes:
            if not by_mode.get(mode):
                continue
            cell = summary(by_mode[mode])
            made.append(
                {
                    "wire": WIRE,
                    "mode": mode,
                    "metric": metric,
                    "size": size,
                    "hikyaku": cell,
                    "to_inline": cell["median"] / inline if inline else None,
                }
            )
    return made


def run(plan: Plan, progress: Callable[[str, int, int], None]) -> dict:
    """Measures, and returns the document without its goals. Calls @progress at each step."""
    about = machine.describe()
    samples = Phases()
    steps = plan.steps()
    done = 0

    def once(lab: Lab, run: tuple[str, str], text: str) -> None:
        metric, mode = run
        progress(f"{mode}: {metric}, {text}", done, len(steps))
        for values in RUNS[metric](lab, plan, mode):
            for name, size, value, line in sample.with_lines(values):
                samples.add((name, size), mode, value, line)

    down_dead("bench")
    with Lab.up(2, WIRE, name=own_name("bench", "modes"), huge_mb=plan.huge_mb) as lab:
        for metric, mode, repeat in steps:
            once(lab, (metric, mode), f"repeat {repeat + 1} of {plan.repeats}")
            done += 1
        samples.draw_more(
            [(metric, mode) for metric in IN_PHASES for mode in plan.modes],
            lambda cell, mode: (_METRIC_OF.get(cell[0]), mode),
            plan.repeats,
            plan.repeats,
            partial(once, lab),
        )
    progress("done", len(steps), len(steps))
    about |= {
        "repeats": plan.repeats,
        "modes": plan.modes,
        "mca": plan.mca,
        "busy_messages": plan.messages,
        "busy_compute_ms": plan.compute_ms,
        "idle_seconds": plan.idle_seconds,
    }
    about["cores_apart"] = samples.describe()
    return {"schema": 1, "machine": about, "rows": rows(samples.all_kept(), plan.modes)}

# SPDX-License-Identifier: BSD-3-Clause
"""One run of one transport: a dictionary from (metric, size) to a value."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from ..checkout import built
from ..errors import HikyakuError
from ..lab import Lab, RunResult

METRICS = ("latency_us", "bandwidth_MBps", "bibandwidth_MBps", "messages_per_s")
TRANSPORTS = ("tcp", "hikyaku", "raw", "shm")

# What a frame of Hikyaku carries around an MPI payload: Ethernet and base header
# (HK_WIRE_DATA_OVERHEAD in wire/wire.h), and the match header of Open MPI's ob1.
FRAME_OVERHEAD = 62 + 14
MIN_FRAME = 60

# What stands before a metric's name where a value is the time of a cache line beside its sample.
LINE = "line_ns of "

Values = dict[tuple[str, int], float]


class Plan:
    """What one run measures."""

    def __init__(self, metrics: list[str], sizes: list[int], sample_ms: int):
        self.metrics = metrics
        self.sizes = sizes
        self.sample_ms = sample_ms

    @property
    def limit(self) -> float:
        """Seconds after which a run is certainly stuck: large messages over a slow wire take
        several seconds a sample, however short it shall be."""
        per_sample = 4 * self.sample_ms / 1e3 + 5
        return 60 + len(self.metrics) * len(self.sizes) * per_sample

    def arguments(self) -> list[str]:
        return [
            *("--sizes", ",".join(map(str, self.sizes))),
            *("--metrics", ",".join(self.metrics)),
            *("--sample-ms", str(self.sample_ms)),
        ]


def parse(result: RunResult, what: str) -> Values:
    """The rows that a program of bench/ printed; @what ran, for the error if it failed."""
    if result.returncode != 0:
        raise HikyakuError(
            f"the benchmark over {what} failed (status {result.returncode}):\n"
            f"{(result.stderr or result.stdout).strip()[-3000:]}"
        )
    values: Values = {}
    for line in result.stdout.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            metric = row["metric"] if "of" not in row else LINE + row["of"]
            values[metric, row.get("size", 0)] = row["value"]
    return values


def with_lines(values: Values) -> Iterator[tuple[str, int, float, float | None]]:
    """Metric, size and value of each, and, if measured, the time of a cache line beside it."""
    for (metric, size), value in values.items():
        if not metric.startswith(LINE):
            yield metric, size, value, values.get((LINE + metric, size))


def empty_file(lab: Lab, name: str, size: int = 0) -> Path:
    """A new file of zeroes, for two ranks that are on one machine to share."""
    file = lab.directory / name
    file.write_bytes(bytes(size))
    return file


def line_file(lab: Lab) -> list[str]:
    """For the two sides of a run: see bench/line.h."""
    return ["--line", str(empty_file(lab, "line", 64))]


def tcp(lab: Lab, plan: Plan) -> Values:
    argv = [str(built("bench/mpi_bench")), *plan.arguments(), *line_file(lab)]
    return parse(lab.mpirun(2, argv, tcp=True, one_core=True, timeout=plan.limit), "TCP")


def hikyaku(lab: Lab, plan: Plan) -> Values:
    argv = [str(built("bench/mpi_bench")), *plan.arguments(), *line_file(lab)]
    return parse(lab.mpirun(2, argv, one_core=True, timeout=plan.limit), "Hikyaku")


def shm(lab: Lab, plan: Plan) -> Values:
    """Open MPI's shared memory: both ranks on the first node, on the cores that the two nodes
    have otherwise."""
    first = lab.topology.nodes[0].name
    cores = [cores[0] for cores in lab.topology.cpus(one_core=True).values()][:2]
    program = [str(built("bench/mpi_bench")), *plan.arguments(), *line_file(lab)]
    rank = [["taskset", "-c", str(core), *program] for core in cores]
    place = ["--host", f"{first}:2"]
    result = lab.mpirun(
        1,
        [*rank[0], ":", "-np", "1", *place, *rank[1]],
        tcp=True,
        options=place,
        timeout=plan.limit,
    )
    return parse(result, "shared memory")


def _raw_run(lab: Lab, frames: list[int], iterations: int) -> dict:
    program = str(built("bench/raw_pingpong"))

    def commands(run_dir: Path) -> list[tuple[str, list[str]]]:
        if lab.topology.wire == "memif":
            socket = f"memif:socket={run_dir}/raw.sock,id=0,role="
            specs = {"pong": socket + "server", "ping": socket + "client"}
        else:
            specs = dict.fromkeys(("pong", "ping"), "af_xdp:iface=hk0")
        sizes = ["--sizes", ",".join(map(str, frames)), "--iters", str(iterations), "--json"]
        sizes += line_file(lab)
        return [
            (node.name, [program, "--spec", specs[role], "--role", role, *sizes])
            for node, role in zip(lab.topology.nodes, ("ping", "pong"), strict=False)
        ]

    ping, pong = lab.run_each(commands, timeout=60)
    for result in (ping, pong):
        if result.returncode != 0:
            raise HikyakuError(
                f"raw_pingpong failed (status {result.returncode}): {result.stderr.strip()}"
            )
    return json.loads(ping.stdout)


def raw(lab: Lab, plan: Plan) -> Values:
    """The floor: a DPDK ping-pong of the frame that Hikyaku would send for a message of each size,
    for sizes that fit one frame. Only latency has one."""
    if "latency_us" not in plan.metrics:
        return {}
    largest = _raw_run(lab, [MIN_FRAME], 1)["frame_max"]
    frame = {s: max(MIN_FRAME, s + FRAME_OVERHEAD) for s in plan.sizes}
    fitting = sorted({f for f in frame.values() if f <= largest})
    if not fitting:
        return {}
    run = _raw_run(lab, fitting, 20000)
    median = {row["size"]: row["latency_us"]["median"] for row in run["rows"]}
    values: Values = {("latency_us", s): median[f] for s, f in frame.items() if f in median}
    if run["line_ns"] > 0:
        values |= {(LINE + "latency_us", s): run["line_ns"] for _, s in list(values)}
    return values


RUNS: dict[str, Callable[[Lab, Plan], Values]] = {
    "tcp": tcp,
    "hikyaku": hikyaku,
    "raw": raw,
    "shm": shm,
}

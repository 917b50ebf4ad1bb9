# SPDX-License-Identifier: BSD-3-Clause
"""One run of a program of bench/: its arguments, and the values that it prints."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...errors import HikyakuError
from ...lab import Lab, RunResult
from ...process import option_words

METRICS = ("latency_us", "bandwidth_MBps", "bibandwidth_MBps", "messages_per_s")

# The prefix of a metric whose value is the time of a cache line, measured beside a sample of it.
LINE = "line_ns of "

Values = dict[tuple[str, int], float]  # by metric and size


@dataclass(frozen=True)
class Plan:
    """The settings of one run of bench/mpi_bench."""

    metrics: list[str]
    sizes: list[int]
    sample_ms: int

    @property
    def limit(self) -> float:
        """Seconds after which the run must be stuck.

        A large message over a slow wire takes several seconds a sample, whatever @sample_ms is.
        """
        per_sample = 4 * self.sample_ms / 1e3 + 5
        return 60 + len(self.metrics) * len(self.sizes) * per_sample

    def arguments(self) -> list[str]:
        sizes, metrics = ",".join(map(str, self.sizes)), ",".join(self.metrics)
        return option_words(sizes=sizes, metrics=metrics, sample_ms=self.sample_ms)


def printed(result: RunResult, what: str) -> list[dict]:
    """The JSON lines that a program of bench/ printed. @what: the run's name, for its error."""
    if result.returncode != 0:
        raise HikyakuError(f"{what} failed (status {result.returncode}):\n{result.said(3000)}")
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def parse(result: RunResult, what: str) -> Values:
    """The values that a program of bench/ printed. @what: the run's name, for its error."""
    return {
        (LINE + row["of"] if "of" in row else row["metric"], row.get("size", 0)): row["value"]
        for row in printed(result, f"the benchmark over {what}")
    }


def with_lines(values: Values) -> Iterator[tuple[str, int, float, float | None]]:
    """Each metric, size and value, with the time of a cache line beside it if it was measured."""
    for (metric, size), value in values.items():
        if not metric.startswith(LINE):
            yield metric, size, value, values.get((LINE + metric, size))


def empty_file(lab: Lab, name: str, size: int = 0) -> Path:
    """A new file of zeroes that two ranks on this machine share."""
    file = lab.directory / name
    file.write_bytes(bytes(size))
    return file


def line_file(lab: Lab) -> list[str]:
    """The option that makes both sides of a run time a cache line (bench/line.h)."""
    return ["--line", str(empty_file(lab, "line", 64))]


def same_node(lab: Lab, program: list[str], timeout: float, **more) -> RunResult:
    """@program as two ranks of the first node, on the cores of both nodes. Open MPI connects them
    by its shared memory. @more: Lab.mpirun's options."""
    first = lab.topology.nodes[0].name
    cores = [cores[0] for cores in lab.topology.cpus(one_core=True).values()][:2]
    rank = [["taskset", "-c", str(core), *program] for core in cores]
    place = ["--host", f"{first}:2"]
    argv = [*rank[0], ":", "-np", "1", *place, *rank[1]]
    return lab.mpirun(1, argv, tcp=True, options=place, timeout=timeout, **more)

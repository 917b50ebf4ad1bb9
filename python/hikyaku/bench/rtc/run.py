# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku bench rtc`: run to completion, the experiments of Yamamoto et al. and one more.

    hold      (1) A node holds each message for a time before it answers: throughput.
    sum       (2) A node adds up 32 numbers a message, 1, 10 or 100 times, over all backends.
    echo      A node that sends frames back, compared with a plain DPDK loop.
    drops     Loss, CPU time and latency of receivers by the rate of a sender that does not wait.
    collapse  (2) with such a sender, up to several times the rate that the receiver can answer.

Their third experiment, learning, is `bench learn`.

`hold` and `echo` use bench/rtc_forward.c, `sum` examples/sum.c, `drops` and `collapse`
bench/rtc_load.c (load.py). Runs that are compared follow each other within each
repeat: those of one x, and of `collapse` those of one receiver.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ...checkout import built
from ...lab import Lab, down_dead, own_name
from ...process import option_words
from ..common import machine
from ..common.sample import printed
from ..common.summary import in_turn, summary
from . import load
from .load import CLOSED, RECEIVERS, USUAL, Load

EXPERIMENTS = ("hold", "sum", "echo", "drops", "collapse")
# The lab's wire for each backend. tcp and udp have a separate veth in every lab.
WIRES = {
    "tcp": "veth",
    "tcp:batch=1": "veth",
    "udp": "veth",
    "raw": "veth",
    "af_xdp": "veth",
    "dpdk": "memif",
}
# Behind the name of a backend, its messages have that protection.
PROTECTIONS = ("+auth", "+seal")
BACKENDS = (*WIRES, *(backend + how for backend in WIRES for how in PROTECTIONS))
LOOP = "dpdk loop"  # not a backend: plain DPDK

HOLD_FRAMES = (64, 128)
HOLD_NS = (0, 10, 25, 50, 100, 200, 400, 800)
REPETITIONS = (1, 10, 100)

VECTOR, PLAIN = "vector", "plain"
ADDING = {VECTOR: "", PLAIN: "_plain"}  # how a node adds, and the end of its experiments' names
RATES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)  # million messages a second
LOADS = (0.5, 0.8, 1.2, 2.0, 4.0)  # of the rate of the closed loop

MILLION, NS = "million/s", "ns"


@dataclass(frozen=True)
class Plan:
    """@sum_ms: how long a client sends requests. @batches: of 4096 frames, for hold and echo.
    @rates: of drops, million/s. @loads: of collapse, times the rate of the closed loop. @load_ms:
    how long the sender sends. @hold_ns: of drops, in place of a sum."""

    experiments: list[str]
    backends: list[str]
    repeats: int
    window: int = 32
    sum_ms: int = 1000
    batches: int = 500
    adding: tuple[str, ...] = (VECTOR,)
    receivers: tuple[str, ...] = USUAL
    rates: tuple[float, ...] = RATES
    loads: tuple[float, ...] = LOADS
    load_ms: int = 500
    hold_ns: int = 0


@dataclass(frozen=True)
class Case:
    """One run of the program of @experiment. Its rows may belong to several experiments."""

    experiment: str
    backend: str
    nodes: int
    x: float


@dataclass(frozen=True)
class Value(Case):
    unit: str
    value: float


def cases(plan: Plan) -> Iterator[list[Case]]:
    """The groups of runs that are compared with each other."""
    if "hold" in plan.experiments:
        for frame in HOLD_FRAMES:
            for ns in HOLD_NS:
                yield [Case(f"hold_{frame}B", "dpdk", 2, ns)]
    if "sum" in plan.experiments:
        for end in (ADDING[adding] for adding in plan.adding):
            for repetitions in REPETITIONS:
                yield [Case(f"sum{end}", backend, 2, repetitions) for backend in plan.backends]
    if "echo" in plan.experiments:
        yield [Case("echo", backend, 2, HOLD_FRAMES[0]) for backend in (LOOP, "dpdk")]
    yield from _loaded(plan)


def _loaded(plan: Plan) -> Iterator[list[Case]]:
    """Those with a sender that does not wait."""
    if "drops" in plan.experiments:
        for rate in plan.rates:
            yield [Case("drops", receiver, 2, rate) for receiver in plan.receivers]
    if "collapse" in plan.experiments:
        for end in (ADDING[adding] for adding in plan.adding):
            for repetitions in REPETITIONS:
                name = f"collapse_{repetitions}{end}"
                for receiver in plan.receivers:
                    # the others are relative to the first, and are compared with it
                    for times in (CLOSED, *plan.loads):
                        yield [Case(name, receiver, 2, times)]


def _repetitions(case: Case) -> tuple[int, bool]:
    """Of the sum, and whether a plain loop adds."""
    name, _, _ = case.experiment.partition("_plain")
    plain = case.experiment.endswith(ADDING[PLAIN])
    return int(name.removeprefix("collapse_") if "collapse" in name else case.x), plain


# ---- one run -------------------------------------------------------------------------------------


class Bench:
    """The labs, which it brings up at first use, and the runs in them."""

    def __init__(self, plan: Plan, labs: ExitStack):
        self.plan = plan
        self._stack = labs
        self._labs: dict[str, Lab] = {}
        self._closed: dict[tuple[str, str], float] = {}  # rates of closed loops, million/s

    def lab(self, wire: str, nodes: int, *, steered: bool = False) -> Lab:
        """@steered: each node's core does the kernel's work for it (load.py)."""
        key = f"{wire}{nodes}" + ("s" if steered else "")
        if key not in self._labs:
            name = own_name("bench", f"rtc-{key}")
            lab = self._labs[key] = self._stack.enter_context(Lab.up(nodes, wire, name=name))
            if steered:
                load.steer(lab)
        return self._labs[key]

    def forward(self, case: Case) -> list[Value]:
        """Runs rtc_forward: the node or the DPDK loop, and a client that keeps frames in flight."""
        lab = self.lab("memif", 2)
        held = case.experiment.startswith("hold")
        frame = int(case.experiment[len("hold_") : -1]) if held else int(case.x)

        def commands(run_dir: Path) -> list[tuple[str, list[str]]]:
            here = [str(built("bench/rtc_forward")), *option_words(dir=run_dir, size=frame)]
            role = "dpdk" if case.backend == LOOP else "rtc"
            client = option_words(role="client", batches=self.plan.batches)
            server = option_words(role=role, hold=int(case.x) if held else None)
            names = [node.name for node in lab.topology.nodes]
            return [(names[0], [*here, *client]), (names[1], [*here, *server])]

        what = f"{case.experiment} by {case.backend}"
        ran = lab.run_each(commands, timeout=120)
        lines = [line for result in ran for line in printed(result, what)]
        rate = next(line["median"] for line in lines if "median" in line)
        return [Value(case.experiment, case.backend, 2, case.x, MILLION, rate)]

    def sum(self, case: Case) -> list[Value]:
        plan = self.plan
        (times, plain), messages = _repetitions(case), 10**12
        argv = [str(built("examples/sum"))]
        argv += option_words(
            repeat=times, window=plan.window, ms=plan.sum_ms, messages=messages, json=1
        )
        argv += option_words(plain=int(plain))
        backend, _, protection = case.backend.partition("+")
        env = {"HIKYAKU_RTC_BACKEND": backend, "HIKYAKU_RTC_PROTECTION": protection or "off"}
        result = self.lab(WIRES[backend], 2).mpirun(2, argv, env=env, one_core=True, timeout=60)
        values = []
        for line in printed(result, f"sum over {case.backend}"):
            at = (case.backend, 2, case.x)
            if "million_per_second" in line:
                values.append(Value(case.experiment, *at, MILLION, line["million_per_second"]))
            elif line.get("node") == 0:
                of = line["types"]["sum"]
                each = of["handler_ns"] / max(1, of["messages"])
                values.append(Value(f"{case.experiment}_handler", *at, NS, each))
        return values

    def loaded(self, case: Case) -> list[Value]:
        """Runs rtc_load: a receiver, and a sender that does not wait for it."""
        wire, what = RECEIVERS[case.backend], f"{case.experiment} by {case.backend}"
        lab = self.lab(wire, 2, steered=wire == "veth")
        if case.experiment == "drops":
            want = Load(round(case.x * 1e6), self.plan.load_ms, hold=self.plan.hold_ns)
        else:
            repeat, plain = _repetitions(case)
            closed = case.x == CLOSED
            rate = 0 if closed else case.x * self._closed[case.experiment, case.backend]
            want = Load(round(rate * 1e6), self.plan.load_ms, repeat, plain)
        found = load.run(lab, case.backend, want, what)
        if case.experiment != "drops":
            at = (case.experiment, case.backend)
            if case.x == CLOSED:
                self._closed[at] = found["delivered"]
            found[load.KEPT] = found["delivered"] / self._closed[at]
        units = load.COLLAPSE_METRICS
        return [
            Value(f"{case.experiment}_{name}", case.backend, 2, case.x, units[name], value)
            for name, value in found.items()
        ]

    def run(self, case: Case) -> list[Value]:
        kinds = {"sum": self.sum, "drops": self.loaded}
        kinds["collapse"] = self.loaded
        return kinds.get(case.experiment.partition("_")[0], self.forward)(case)


# ---- all of them ---------------------------------------------------------------------------------


def steps(plan: Plan) -> list[tuple[Case, int]]:
    """(case, repeat) in the order of the runs; the first case changes with each repeat."""
    return in_turn(cases(plan), plan.repeats)


def rows(values: list[Value], plan: Plan) -> list[dict]:
    """A row for each experiment, backend, number of nodes and x, in the order of cases().

    All rows of an experiment have the same unit.
    """
    by: dict[tuple, list[float]] = defaultdict(list)
    units: dict[str, str] = {}
    for v in values:
        if units.setdefault(v.experiment, v.unit) != v.unit:
            raise ValueError(f"rows of {v.experiment} in {units[v.experiment]} and in {v.unit}")
        by[v.experiment, v.backend, v.nodes, v.x].append(v.value)
    wanted = [(c.experiment, c.backend, c.nodes, c.x) for group in cases(plan) for c in group]
    more = {"sum": ["handler"], "drops": list(load.METRICS)}
    more["collapse"] = list(load.COLLAPSE_METRICS)
    for name, *at in list(wanted):
        wanted += [(f"{name}_{each}", *at) for each in more.get(name.partition("_")[0], ())]
    made = []
    for key in sorted(by, key=wanted.index):
        row = dict(zip(("experiment", "backend", "nodes", "x"), key, strict=True))
        made.append({**row, **summary(by[key]), "unit": units[row["experiment"]]})
    return made


def run(plan: Plan, progress: Callable[[str, int, int], None]) -> dict:
    """Measures, and returns the document without its goals. Calls @progress at each step."""
    about = machine.describe()
    order = steps(plan)
    values: list[Value] = []
    down_dead("bench")
    with ExitStack() as labs:
        bench = Bench(plan, labs)
        for done, (case, repeat) in enumerate(order):
            text = f"{case.experiment} {case.x:g}, {case.backend}"
            progress(f"{text}, repeat {repeat + 1} of {plan.repeats}", done, len(order))
            values += bench.run(case)
    progress("done", len(order), len(order))
    about |= {"repeats": plan.repeats, "window": plan.window}
    about |= {"load_ms": plan.load_ms, "hold_ns": plan.hold_ns}
    return {"schema": 1, "machine": about, "rows": rows(values, plan)}

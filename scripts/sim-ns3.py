#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""sim-ns3.py: the same scenarios with our engine and with ns-3's TCP, in one table.

    sim-ns3.py [--build DIR] [--jobs N] [--quick] [--only SCENARIO[,…]] [--out DIR]
    sim-ns3.py --tables sim-ns3.json [--out DIR] [--plot FILE]

`make sim-ns3` builds the programs (tools/sim-ns3) and runs this. Each case runs as:

| name    | hosts             | network           |
|---------|-------------------|-------------------|
| own     | engine            | tools/sim         |
| hikyaku | engine            | ns-3              |
| cubic   | ns-3's TCP CUBIC  | ns-3              |
| dctcp   | ns-3's TCP DCTCP  | ns-3, marks (ECN) |

TCP has a smallest resend timeout of 10 ms. Where one of these timers fired, the case also runs with
the 200 ms of Linux. --quick runs a small case of each scenario, as a test of the programs.

It writes sim-ns3.txt, sim-ns3.md (the tables of docs/sim-ns3.md) and sim-ns3.json (all results) to
out/. --tables makes them again from a sim-ns3.json. --plot needs the Python environment of the
checkout (.venv).

The exit status is 1 if a run failed, or if our engine behaves differently in the two networks.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OWN, HIKYAKU, CUBIC, DCTCP = "own", "hikyaku", "cubic", "dctcp"
FAST, LINUX = 10, 200  # smallest resend timeouts, ms
MS_PER_US = 1e-3
AGREE = 0.05  # the two networks may differ by this part …
SLOWEST = 0.1  # … and the slowest sender by this one: who is drawn depends on nanoseconds
TIE = 0.02  # times that differ by less are called equal


@dataclass(frozen=True)
class Case:
    scenario: str
    hosts: int
    rate: int  # Gb/s
    frame: int  # bytes
    time_ms: int | None = None  # None: until all is delivered

    def words(self) -> list[str]:
        words = [self.scenario, "--hosts", self.hosts, "--rate", self.rate, "--frame", self.frame]
        return [str(w) for w in words + (["--time-ms", self.time_ms] if self.time_ms else [])]

    def name(self) -> str:
        senders = self.hosts - {"alltoall": 0, "pingpong": 2}.get(self.scenario, 1)
        return f"{self.scenario} {senders}, {self.rate}G, {self.frame}"


def cases() -> list[Case]:
    links = ((10, 1500), (10, 9000), (25, 1500), (100, 9000))
    many = [Case("incast", n, 10, 1500, 500) for n in (9, 257, 1001)]
    many += [Case("incast", 65, rate, frame, 300) for rate, frame in links]
    many += [Case("bulk", n, *link) for n in (9, 65, 257, 1001) for link in links]
    many += [Case("eager", n, *link) for n in (9, 65, 257, 1001) for link in links]
    many += [Case("burst", 65, *link) for link in links[:1]]
    many += [Case("longflows", n, 10, 1500, 500) for n in (3, 5, 17)]
    many += [Case("longflows", n, 100, 9000, 100) for n in (3, 5, 17)]
    many += [Case("alltoall", n, *link) for n in (16, 64) for link in links]
    many += [Case("pingpong", 2, rate, frame, 30) for rate, frame in links]
    many += [Case("pingpong", 65, rate, frame, 200) for rate, frame in links]
    return many


def quick_cases() -> list[Case]:
    many = [Case(name, 5, 10, 1500) for name in ("bulk", "eager", "burst")]
    many += [Case("alltoall", 16, 10, 1500)]
    return many + [Case(name, 5, 10, 1500, 30) for name in ("incast", "longflows", "pingpong")]


class Failed(Exception):
    pass


class Runner:
    def __init__(self, build: Path) -> None:
        self._build = build

    def _run(self, program: str, words: list[str]) -> dict:
        argv = [str(self._build / program), *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"{' '.join(argv)}: exit status {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def tcp(self, case: Case, control: str, min_rto: int) -> dict:
        words = [control, str(min_rto), *case.words()]
        return self._run("tools/sim-ns3/hikyaku-sim-ns3-tcp", words)

    def case(self, case: Case) -> dict[str, dict]:
        """The results of a case by name: own, hikyaku, cubic, dctcp, and perhaps cubic-200."""
        results = {
            OWN: self._run("tools/sim/hikyaku-sim", case.words()),
            HIKYAKU: self._run("tools/sim-ns3/hikyaku-sim-ns3", case.words()),
        }
        for control in (CUBIC, DCTCP):
            results[control] = self.tcp(case, control, FAST)
            if results[control]["timeouts"]:
                results[f"{control}-{LINUX}"] = self.tcp(case, control, LINUX)
        print(f"  {case.name()}", file=sys.stderr, flush=True)
        return results


# ---- measures ------------------------------------------------------------------------------------


def us(value: float) -> str:
    if value == float("inf"):
        return "never"
    if value >= 1e6:
        return f"{value / 1e6:.3g} s"
    return f"{value / 1e3:.3g} ms" if value >= 1e3 else f"{value:.3g} µs"


def percent(value: float) -> str:
    return f"{100 * value:.3g} %"


def kilobytes(value: float) -> str:
    return f"{value / 1e3:.0f} KB" if value >= 1e5 else f"{value / 1e3:.3g} KB"


def last(result: dict) -> float | None:
    """When the last message of a finite scenario was delivered, µs."""
    if "ideal_ms" not in result:
        return None
    return result["last_delivery_ms"] / MS_PER_US if result["ended"] else float("inf")


def slowest(result: dict) -> float | None:
    """The mean time of a message at the sender that completed the fewest, µs. The quantiles of a
    closed loop count a fast sender more often than a slow one; this does not."""
    if result["scenario"] not in ("incast", "longflows"):
        return None
    messages = min(result["flow_bytes"]) / result["size"]
    time = result["time_ms"] / MS_PER_US
    return time * result["count"] / messages if messages else float("inf")


# name, value of a result (None: it has none), text of a value. Less is better.
TIMES = (
    ("median", lambda r: r["p50_us"], us),
    ("p99", lambda r: r["p99_us"], us),
    ("end", last, us),
    ("slowest sender", slowest, us),
)
SHARE = ("share", lambda r: r["share"], percent)
OTHERS = (
    SHARE,
    ("Jain", lambda r: r["jain"], "{:.3f}".format),
    ("loss", lambda r: r["loss"], percent),
    ("queue, mean", lambda r: r["queue_mean"], kilobytes),
    ("queue, longest", lambda r: r["queue_max"], kilobytes),
)


def measures(case: Case) -> tuple:
    """The measures of a case. A ping-pong has no share: the flows beside it are not counted."""
    if case.scenario == "pingpong":
        return TIMES[:2] + OTHERS[2:]
    if case.scenario in ("incast", "longflows"):
        return TIMES[:2] + TIMES[3:] + OTHERS
    return TIMES[:3] + OTHERS


def columns(results: dict[str, dict]) -> list[str]:
    return [n for c in (CUBIC, DCTCP) for n in (c, f"{c}-{LINUX}") if n in results]


def compare(results: dict[str, dict]) -> list[tuple[str, str, float, str]]:
    """Each time against each TCP: name, TCP, by what part ours is longer, and text."""
    found = []
    for name, value, text in TIMES:
        ours = value(results[HIKYAKU])
        if ours is None:
            continue
        for control in (CUBIC, DCTCP):
            theirs = value(results[control])
            more = ours / theirs - 1
            found.append((name, control, more, f"{text(ours)}, {control} {text(theirs)}"))
    return found


def worse(results: dict[str, dict]) -> list[str]:
    """The times in which our engine is not better than each TCP."""
    return [
        f"{name}: {text} ({more:+.1%})" for name, _, more, text in compare(results) if more >= 0
    ]


def differs(case: Case, results: dict[str, dict]) -> list[str]:
    """Where our engine behaves differently in the two networks."""
    found = []
    for name, value, text in measures(case):
        if (name, value, text) not in (*TIMES, SHARE):
            continue
        a, b = value(results[OWN]), value(results[HIKYAKU])
        part = SLOWEST if name == "slowest sender" else AGREE
        if a and b and abs(a - b) > part * max(a, b):
            found.append(f"{name}: {text(a)} in tools/sim, {text(b)} in ns-3")
    return found


# ---- tables --------------------------------------------------------------------------------------


def text_table(all_results: dict[Case, dict[str, dict]]) -> str:
    lines = []
    for case, results in all_results.items():
        names = [OWN, HIKYAKU, *columns(results)]
        lines.append(f"{case.name():24}" + "".join(f"{n:>12}" for n in names))
        for name, value, text in measures(case):
            cells = [value(results[n]) for n in names]
            lines.append(
                f"  {name:22}" + "".join(f"{text(c) if c is not None else '-':>12}" for c in cells)
            )
        lines += [f"  not better in {each}" for each in worse(results)]
        lines += [f"  the networks differ in {each}" for each in differs(case, results)]
        lines.append("")
    return "\n".join(lines)


def summary(all_results: dict[Case, dict[str, dict]]) -> str:
    all_times = [each for r in all_results.values() for each in compare(r)]
    lines = [f"{len(all_results)} cases; Hikyaku's times beside those of TCP (10 ms):"]
    for control in (CUBIC, DCTCP):
        mores = [more for _, c, more, _ in all_times if c == control]
        better, equal = sum(m < -TIE for m in mores), sum(abs(m) <= TIE for m in mores)
        lines.append(
            f"  {control}: {better} of {len(mores)} shorter, {equal} equal within {TIE:.0%}, "
            f"{len(mores) - better - equal} longer"
        )
    different = sum(bool(differs(c, r)) for c, r in all_results.items())
    lines.append(
        f"{different} cases in which our engine behaves differently in the two networks "
        f"(by more than {AGREE:.0%})"
    )
    lines.append("not better:")
    for case, results in all_results.items():
        lines += [f"  {case.name()}: {each}" for each in worse(results)]
    return "\n".join(lines) + "\n"


def best_first(cells: list[float | None], text: Callable[[float], str]) -> list[str]:
    """The texts of times, the shortest in bold."""
    known = [c for c in cells if c is not None]
    least = text(min(known)) if known else ""
    texts = ["" if c is None else text(c) for c in cells]
    return [f"**{t}**" if t and t == least else t for t in texts]


def markdown(all_results: dict[Case, dict[str, dict]]) -> str:
    """The tables of docs/sim-ns3.md: times, then what explains them."""
    short = "Hikyaku | CUBIC | DCTCP"
    lines = [f"| times | median: {short} | 99 %: {short} | end, or slowest sender: {short} |"]
    lines.append("|---" * 10 + "|")
    for case, results in all_results.items():
        row = [case.name()]
        for _, value, text in measures(case)[: 2 if case.scenario == "pingpong" else 3]:
            row += best_first([value(results[c]) for c in (HIKYAKU, CUBIC, DCTCP)], text)
        lines.append("| " + " | ".join(row) + " |")
    lines += ["", "| the rest | " + " | ".join(name for name, _, _ in OTHERS) + " |"]
    lines.append("|---" * (1 + len(OTHERS)) + "|")
    for case, results in all_results.items():
        row = [case.name()]
        for measure in OTHERS:
            _, value, text = measure
            cells = [text(value(results[c])) for c in (HIKYAKU, CUBIC, DCTCP)]
            row.append(" / ".join(cells) if measure in measures(case) else "")
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def draw(all_results: dict[Case, dict[str, dict]], path: Path) -> None:
    """How long a message from each of many senders takes until the last has arrived."""
    sys.path.insert(0, str(ROOT / "python"))
    from hikyaku.bench.common.figure import looks, plot

    names = {CUBIC: "CUBIC", HIKYAKU: "Hikyaku", DCTCP: "DCTCP"}
    ideal = "the link alone"
    panels = [(s, *link) for s in ("bulk", "eager") for link in ((10, 1500), (100, 9000))]
    title = "one message from each of many senders to one receiver, in ns-3"
    note = "TCP with a smallest resend timeout of 10 ms; 1 MiB a port"
    with plot(len(panels), title, note) as (figure, axes):
        for (scenario, rate, frame), panel in zip(panels, axes, strict=True):
            series: dict[str, dict[float, dict[str, float]]] = {}
            for case, results in all_results.items():
                if (case.scenario, case.rate, case.frame) != (scenario, rate, frame):
                    continue
                times = {text: results[name]["last_delivery_ms"] for name, text in names.items()}
                for text, ms in {**times, ideal: results[HIKYAKU]["ideal_ms"]}.items():
                    cell = {"median": ms, "min": ms, "max": ms}
                    series.setdefault(text, {})[case.hosts - 1] = cell
            panel.title = f"{scenario}: {'64' if scenario == 'bulk' else '16'} KiB, {rate} Gb/s, "
            panel.title += f"{frame}-byte frames"
            panel.unit, panel.along = "until all have arrived, ms", "senders"
            panel.lines(series, looks([*names.values(), ideal]))
        path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def run_all(chosen: list[Case], runner: Runner, jobs: int) -> dict[Case, dict[str, dict]]:
    with ThreadPoolExecutor(jobs) as pool:
        try:
            return dict(zip(chosen, pool.map(runner.case, chosen), strict=True))
        except Failed:
            pool.shutdown(cancel_futures=True)
            raise


def saved(path: Path) -> dict[Case, dict[str, dict]]:
    results: dict[Case, dict[str, dict]] = {}
    for run in json.loads(path.read_text())["runs"]:
        case = Case(run["scenario"], run["hosts"], run["rate_gbit"], run["frame"])
        results.setdefault(case, {})[run["transport"]] = run
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build-ns3")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="small cases, as a test")
    parser.add_argument("--only", default="", help="scenarios, separated by commas")
    parser.add_argument("--out", type=Path, default=ROOT / "out")
    parser.add_argument("--tables", type=Path, help="makes the tables of this sim-ns3.json again")
    parser.add_argument("--plot", type=Path, help="draws bulk and eager, as PNG")
    args = parser.parse_args()
    only = [name for name in args.only.split(",") if name]
    if args.tables:
        results = saved(args.tables)
    else:
        chosen = quick_cases() if args.quick else cases()
        chosen = [case for case in chosen if not only or case.scenario in only]
        if not chosen:
            print(f"sim-ns3: no scenario {args.only}; fix: see scripts/sim-ns3.py", file=sys.stderr)
            return 2
        try:
            results = run_all(chosen, Runner(args.build.resolve()), args.jobs)
        except Failed as failed:
            print(f"sim-ns3: {failed}", file=sys.stderr)
            return 1
    args.out.mkdir(parents=True, exist_ok=True)
    table = text_table(results) + "\n" + summary(results)
    (args.out / "sim-ns3.txt").write_text(table)
    (args.out / "sim-ns3.md").write_text(markdown(results))
    listed = [{"transport": name, **r} for each in results.values() for name, r in each.items()]
    (args.out / "sim-ns3.json").write_text(json.dumps({"schema": 1, "runs": listed}, indent=1))
    print(table)
    if args.plot:
        draw(results, args.plot)
    return 1 if any(differs(c, r) for c, r in results.items()) else 0


if __name__ == "__main__":
    sys.exit(main())

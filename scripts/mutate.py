#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Do the tests notice a wrong line? `make mutate` changes engine and codec, one line at a time.

Each *mutant* is a copy of the sources with one change: a comparison turned, a constant off by one,
a statement removed. The unit tests of engine and wire and the simulator's run against it. A mutant
*survives* if they all pass. tests/mutants.txt lists the survivors that no test can kill, each with
the reason. The command fails for any other survivor.

A change that leaves the compiled object as it was is not counted. Neither is one that does not
compile, or a survivor of that list. A test that needs ten times its usual time of the CPU counts as
failed. Other work on the machine makes no difference to that.
"""

import argparse
import json
import math
import random
import re
import resource
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

SOURCES = ("src/engine", "src/wire")
SUITES = re.compile(r"(engine|wire|crc|bundle|msg|sim|fuzz_(wire|msg|engine))(_|$)")
KNOWN = Path("tests/mutants.txt")
SLOWER = 10  # times the usual CPU time, and
LEAST_S = 2  # at least so long
WAITS_S = 600  # a test that waits for what never comes uses no CPU time

# (name, what, replacement); the first that matches at a position counts
SWAPS = [
    ("compare", r"<=", "<"),
    ("compare", r">=", ">"),
    ("compare", r"==", "!="),
    ("compare", r"!=", "=="),
    ("compare", r"(?<![<-])<(?![<=])", "<="),
    ("compare", r"(?<![>-])>(?![>=])", ">="),
    ("logic", r"&&", "||"),
    ("logic", r"\|\|", "&&"),
    ("assign", r"\+=", "-="),
    ("assign", r"-=", "+="),
    ("step", r"\+\+", "--"),
    ("step", r"--", "++"),
    ("sign", r"(?<= )\+(?= )", "-"),
    ("sign", r"(?<= )-(?= )", "+"),
    ("bits", r"(?<= )&(?= )", "|"),
    ("bits", r"(?<= )\|(?= )", "&"),
    ("truth", r"\btrue\b", "false"),
    ("truth", r"\bfalse\b", "true"),
]
NUMBER = re.compile(r"(?<![\w.])(0|[1-9]\d*)(?=[uUlL]*\b)")
IF = re.compile(r"\bif \(")
# a call or an assignment on a line of its own, in a function
STATEMENT = re.compile(
    r"^\t+(?!return\b|break\b|continue\b|goto\b|case\b|else\b)"
    r"([*(]?[\w>.\[\]()*-]+ (?:[-+|&^]|<<|>>)?= .*|[\w>.\[\]-]+(?:\+\+|--)|"
    r"(?:\(void\))?\w+\(.*\));$"
)
MASKED = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|_Static_assert\(.*?\);",
    re.S | re.M,
)


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int  # from 1
    column: int  # from 0
    operator: str
    text: str  # the line after the change
    before: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}:{self.column}:{self.operator}"

    @property
    def key(self) -> str:
        """For tests/mutants.txt: it does not change when lines are added elsewhere."""
        return f"{self.file} | {self.before.strip()} | {self.text.strip() or 'removed'}"


def mask(source: str) -> str:
    """@source with spaces for comments, strings and what is not code of a function."""
    return MASKED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)


def of_line(code: str) -> list[tuple[int, int, str, str]]:
    """(start, end, replacement, operator) of each change to a line of masked code."""
    changes, taken = [], set()
    for operator, pattern, new in SWAPS:
        for m in re.finditer(pattern, code):
            if m.start() not in taken:
                changes.append((m.start(), m.end(), new, operator))
                taken.update(range(m.start(), m.end()))
    changes += [(m.start(), m.end(), str(int(m[0]) + 1), "number") for m in NUMBER.finditer(code)]
    changes += [(m.end(), m.end(), "!", "not") for m in IF.finditer(code)]
    if STATEMENT.match(code):
        changes.append((0, len(code), "", "remove"))
    return changes


def mutants_of(file: str, source: str) -> list[Mutant]:
    found = []
    lines = source.split("\n")
    inside = False  # a function: its body begins and ends in the first column
    for number, code in enumerate(mask(source).split("\n"), 1):
        inside = code.startswith("{") or (inside and not code.startswith("}"))
        if not inside:
            continue
        line = lines[number - 1]
        for start, end, new, operator in of_line(code):
            if operator == "not":
                text = negated(line, start)
                if text is None:
                    continue
            else:
                text = line[:start] + new + line[end:]
            found.append(Mutant(file, number, start, operator, text, line))
    return found


def negated(line: str, start: int) -> str | None:
    """The line with the condition from @start on negated; None if it goes on in the next line."""
    depth = 1
    for at in range(start, len(line)):
        depth += {"(": 1, ")": -1}.get(line[at], 0)
        if depth == 0:
            return f"{line[:start]}!({line[start:at]}){line[at:]}"
    return None


class Place:
    """A copy of the sources with a build of its own."""

    def __init__(self, top: Path):
        self.tree, self.build = top / "tree", top / "build"
        names = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True)
        for name in names.stdout.decode().split("\0")[:-1]:
            target = self.tree / name
            if Path(name).is_file() and not (
                target.is_file() and target.read_bytes() == Path(name).read_bytes()
            ):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(name, target)
        if not (self.build / "build.ninja").exists():
            options = ("-Dpure=true", "-Doptimization=1", "-Ddebug=false")
            run("meson", "setup", *options, str(self.build), str(self.tree))
        if self.compile().returncode:
            sys.exit(f"mutate: the sources do not compile; fix: ninja -C {self.build}")
        tests = json.loads(run("meson", "introspect", "--tests", str(self.build)))
        self.tests = [t for t in tests if SUITES.match(t["name"])]
        for test in self.tests:
            begin = cpu_seconds()
            if self.fails(test, WAITS_S):
                sys.exit(f"mutate: {test['name']} fails without a change; fix: meson test")
            test["seconds"] = cpu_seconds() - begin
        self.tests.sort(key=lambda t: t["seconds"])
        self.without_change: dict[str, dict[Path, bytes]] = {}  # the objects of a file

    def compile(self, *targets: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["ninja", "-C", str(self.build), *targets], capture_output=True, check=False
        )

    def fails(self, test: dict, cpu_s: float) -> bool:
        limit = ("prlimit", f"--cpu={math.ceil(cpu_s)}", "--")
        try:
            done = subprocess.run(
                [*limit, *test["cmd"]],
                capture_output=True,
                cwd=self.build,
                timeout=WAITS_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True
        return done.returncode != 0

    def objects(self, file: str) -> list[Path]:
        name = file.rpartition("/")[2]
        return [p for p in self.build.rglob(f"*{name}.o") if "/tests/" not in f"/{p}"]

    def judge(self, m: Mutant) -> str:
        """Builds @m and runs the tests: 'killed', 'survived', 'equal' or 'invalid'."""
        path = self.tree / m.file
        source = path.read_text()
        lines = source.split("\n")
        assert lines[m.line - 1] == m.before
        lines[m.line - 1] = m.text
        if m.file not in self.without_change:
            self.without_change[m.file] = {p: p.read_bytes() for p in self.objects(m.file)}
        objects = self.without_change[m.file]
        try:
            path.write_text("\n".join(lines))
            names = [str(p.relative_to(self.build)) for p in objects]
            if self.compile(*names).returncode:
                return "invalid"
            if all(p.read_bytes() == bytes_ for p, bytes_ in objects.items()):
                return "equal"
            for test in self.tests:
                program = Path(test["cmd"][0]).relative_to(self.build.resolve())
                if self.compile(str(program)).returncode:
                    return "invalid"
                if self.fails(test, max(LEAST_S, SLOWER * test["seconds"])):
                    self.tests.remove(test)
                    self.tests.insert(0, test)  # the next line is likely to concern it as well
                    return "killed"
            return "survived"
        finally:
            path.write_text(source)


def cpu_seconds() -> float:
    """The CPU time of the programs that were run so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def known() -> dict[str, str]:
    """The survivors that are explained: key and reason."""
    entries = {}
    for line in KNOWN.read_text().splitlines() if KNOWN.exists() else []:
        if line and not line.startswith("#"):
            key, _, reason = line.rpartition(" | ")
            entries[key] = reason
    return entries


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--files", nargs="*", help="only these, such as src/engine/loss.c")
    parser.add_argument("--sample", type=int, metavar="N", help="only N mutants, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="of --sample")
    parser.add_argument("--only", metavar="NAME", help="one mutant, as a report names it")
    parser.add_argument("--list", action="store_true", help="do not run any")
    parser.add_argument("--build", default="build-mutate", type=Path)
    options = parser.parse_args()
    tracked = run("git", "ls-files", *SOURCES).split()
    files = options.files or [f for f in tracked if f.endswith(".c")]
    mutants = [m for file in files for m in mutants_of(file, Path(file).read_text())]
    if options.only:
        mutants = [m for m in mutants if m.name == options.only]
    if options.sample and options.sample < len(mutants):
        mutants = sorted(
            random.Random(options.seed).sample(mutants, options.sample), key=lambda m: m.name
        )
    if options.list or not mutants:
        print("\n".join(m.name for m in mutants) or "no mutants")
        return 0 if mutants else 2
    place = Place(options.build)
    explained = known()
    total: dict[str, Counter] = {}
    unexplained = 0
    for m in mutants:
        result = place.judge(m)
        if result == "survived" and m.key in explained:
            result = "explained"
        total.setdefault(m.file, Counter())[result] += 1
        if result == "survived" or options.only:
            unexplained += result == "survived"
            print(f"{result}: {m.name}\n-{m.before}\n+{m.text}", flush=True)
    place.compile()
    for file, n in [*total.items(), ("all", sum(total.values(), Counter()))]:
        counted = n["killed"] + n["survived"]
        share = f"{n['killed'] / counted:.1%}" if counted else "-"
        print(
            f"{file}: {counted} mutants, {share} killed, {n['survived']} survived, "
            f"{n['explained']} explained, {n['equal']} equal, {n['invalid']} invalid"
        )
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())

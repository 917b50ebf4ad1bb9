# SPDX-License-Identifier: BSD-3-Clause
"""How a lab's switches are wired: which there are, what joins them, where each node hangs.

    leaf-spine:2x2x4    2 spines, 2 leaves, 4 nodes on each leaf; every leaf joined to every spine
    fat-tree:4          of 4-port switches: 4 pods of 2 edge and 2 aggregation switches, 4 cores
    FILE                JSON, see from_file()

Pure: nothing is made here. A link is called by its two ends, as leaf0-spine1 or node3-leaf0.
That of one interface of a node is node3:hk0-leaf0.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import HikyakuError

MAX_SWITCHES = 64
MAX_PORTS = 64
MAX_RATE_MBIT = 100_000
FURTHER = (
    100  # the k-th further cable between a node and its switch has port 100 k + the first one's
)
_NAME_MAX = 15  # characters of an interface's name

_FORM = "see the form of such a file: hikyaku lab up --help"
_EXAMPLE = "leaf-spine:2x2x4, fat-tree:4, or a file (hikyaku lab up --help)"


@dataclass(frozen=True)
class Link:
    """@a is a switch or a node, @b a switch. @port_a is 0 at a node."""

    a: str
    b: str
    port_a: int
    port_b: int
    mbit: int = 0  # 0: no limit

    @property
    def name(self) -> str:
        return f"{self.a}-{self.b}"


@dataclass(frozen=True)
class Wiring:
    """Switches have their index + 1 as datapath id, and ports that count from 1."""

    text: str  # as it was asked for
    switches: tuple[str, ...]
    links: tuple[Link, ...]  # between switches
    access: tuple[Link, ...]  # one for each node, in the order of nodes

    @property
    def all(self) -> list[Link]:
        return [*self.links, *self.access]

    @property
    def nodes(self) -> int:
        return len(self.access)

    def port_name(self, switch: str, port: int) -> str:
        """The name of its interface: the switch and where its cable leads, as in `leaf0-spine1`.

        Further cables to a node, whose ports are numbered from 100 and 200 on, add .1 and .2. The
        kernel takes 15 characters. A longer or a repeated name is that of the numbers: s0p1.
        """
        cable, first = divmod(port, FURTHER)
        ends = [(x.a, x.port_a, x.b) for x in self.links]
        ends += [(x.b, x.port_b, x.a) for x in self.all]
        (far,) = (far for end, number, far in ends if (end, number) == (switch, first))
        cable_name = f"{switch}-{far}"
        name = cable_name + (f".{cable}" if cable else "")
        unique = [f"{end}-{other}" for end, _, other in ends].count(cable_name) == 1
        if unique and len(name) <= _NAME_MAX:
            return name
        return f"s{self.switches.index(switch)}p{port}"

    def link(self, name: str, names: Iterable[str] = ()) -> Link:
        """The link called @name, its ends in either order. The link of an interface of a node is
        that of the node. @names: those that an error offers; the links' own by default."""
        ends = re.sub(r"^(node\d+):\w+", r"\1", name)
        for link in self.all:
            if ends in (link.name, f"{link.b}-{link.a}"):
                return link
        offered = ", ".join(dict.fromkeys(names) or (link.name for link in self.all))
        raise HikyakuError(f"there is no link '{name}'", f"use one of: {offered}")

    def to_json(self) -> dict:
        return asdict(self)

    @staticmethod
    def from_json(data: dict) -> "Wiring":
        links, access = (tuple(Link(**link) for link in data[k]) for k in ("links", "access"))
        return Wiring(data["text"], tuple(data["switches"]), links, access)


def build(
    text: str,
    switches: list[str],
    joined: list[tuple[str, str, int]],
    nodes_at: list[tuple[str, int]],
) -> Wiring:
    """Numbers the ports: those to other switches first, in the order of @joined."""
    ports = dict.fromkeys(switches, 0)

    def next_port(switch: str) -> int:
        ports[switch] += 1
        if ports[switch] > MAX_PORTS:
            raise HikyakuError(f"'{text}': switch {switch} has more than {MAX_PORTS} ports")
        return ports[switch]

    if not 1 <= len(switches) <= MAX_SWITCHES:
        raise HikyakuError(
            f"'{text}' has {len(switches)} switches; a lab takes 1 to {MAX_SWITCHES}"
        )
    links = tuple(Link(a, b, next_port(a), next_port(b), mbit) for a, b, mbit in joined)
    access = tuple(
        Link(f"node{i}", switch, 0, next_port(switch), mbit)
        for i, (switch, mbit) in enumerate(nodes_at)
    )
    return Wiring(text, tuple(switches), links, access)


def parse(text: str) -> Wiring:
    """From what the user wrote behind --topology."""
    if match := re.fullmatch(r"leaf-spine:(\d{1,3})x(\d{1,3})x(\d{1,3})", text):
        return _leaf_spine(text, *(int(n) for n in match.groups()))
    if match := re.fullmatch(r"fat-tree:(\d{1,2})", text):
        return _fat_tree(text, int(match[1]))
    if re.match(r"(leaf-spine|fat-tree)\b", text):
        raise HikyakuError(f"'{text}' is not a topology", f"use {_EXAMPLE}")
    return from_file(Path(text))


def _leaf_spine(text: str, spines: int, leaves: int, per_leaf: int) -> Wiring:
    if not (spines and leaves and per_leaf):
        raise HikyakuError(f"'{text}' has a zero in it", f"use {_EXAMPLE}")
    spine = [f"spine{i}" for i in range(spines)]
    leaf = [f"leaf{i}" for i in range(leaves)]
    joined = [(a, b, 0) for a in leaf for b in spine]
    return build(text, spine + leaf, joined, [(a, 0) for a in leaf for _ in range(per_leaf)])


def _fat_tree(text: str, k: int) -> Wiring:
    """Al-Fares, Loukissas, Vahdat: a scalable, commodity data center network architecture."""
    if k < 2 or k % 2:
        raise HikyakuError(
            f"'{text}': a fat tree's switches have an even number of ports",
            f"use fat-tree:{max(2, k - k % 2)}",
        )
    half = k // 2
    core = [f"core{i}" for i in range(half * half)]
    switches, joined, nodes_at = list(core), [], []
    for pod in range(k):
        agg = [f"agg{pod}.{i}" for i in range(half)]
        edge = [f"edge{pod}.{i}" for i in range(half)]
        switches += agg + edge
        joined += [(a, core[i * half + j], 0) for i, a in enumerate(agg) for j in range(half)]
        joined += [(e, a, 0) for e in edge for a in agg]
        nodes_at += [(e, 0) for e in edge for _ in range(half)]
    return build(text, switches, joined, nodes_at)


# ---- files ---------------------------------------------------------------------------------------


def from_file(path: Path) -> Wiring:
    """A JSON object:

        {"switches": ["a", "b"],
         "links": [{"ends": ["a", "b"], "mbit": 100}],
         "nodes": [{"switch": "a"}, {"switch": "b", "mbit": 100}]}

    The nodes are node0, node1, … in this order; `mbit` limits both directions, and may be left
    away. Two switches may be joined more than once only by way of others."""
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        raise HikyakuError(f"there is no topology '{path}'", f"use {_EXAMPLE}") from None
    except (OSError, ValueError) as bad:
        raise HikyakuError(f"cannot read topology {path}: {bad}", _FORM) from None
    wrong = _Wrong(path)
    wrong.keys("the file", data, {"switches", "links", "nodes"})
    switches = _switches(data, wrong)
    joined, seen = [], set()
    for i, each in enumerate(wrong.list(data, "links")):
        what = f"links[{i}]"
        wrong.keys(what, each, {"ends"}, {"mbit"})
        ends = each["ends"]
        if not (isinstance(ends, list) and len(ends) == 2 and all(e in switches for e in ends)):
            wrong.say(f"{what}.ends has to name two switches", _one_of(switches))
        if ends[0] == ends[1]:
            wrong.say(f"{what} joins {ends[0]} to itself")
        if frozenset(ends) in seen:
            wrong.say(f"{what} joins {ends[0]} and {ends[1]} a second time")
        seen.add(frozenset(ends))
        joined.append((ends[0], ends[1], _mbit(what, each, wrong)))
    _connected(switches, [ends[:2] for ends in joined], wrong)
    nodes_at = []
    for i, each in enumerate(wrong.list(data, "nodes")):
        what = f"nodes[{i}]"
        wrong.keys(what, each, {"switch"}, {"mbit"})
        if each["switch"] not in switches:
            wrong.say(f"{what}: there is no switch '{each['switch']}'", _one_of(switches))
        nodes_at.append((each["switch"], _mbit(what, each, wrong)))
    return build(str(path), switches, joined, nodes_at)


class _Wrong:
    """Says what is wrong in the file, and where."""

    def __init__(self, path: Path):
        self.path = path

    def say(self, what: str, fix: str | None = None) -> None:
        raise HikyakuError(f"topology {self.path}: {what}", fix or _FORM)

    def keys(self, what: str, data: object, needed: set, allowed: set = frozenset()) -> None:
        if not isinstance(data, dict):
            self.say(f"{what} has to be an object with {', '.join(sorted(needed))}")
        if missing := needed - set(data):
            self.say(f"{what} lacks {', '.join(sorted(missing))}")
        if unknown := set(data) - needed - allowed:
            self.say(f"{what} has the unknown {', '.join(sorted(map(str, unknown)))}")

    def list(self, data: dict, key: str) -> list:
        if not isinstance(data[key], list):
            self.say(f"{key} has to be a list")
        return data[key]


def _one_of(switches: list[str]) -> str:
    return f"use some of: {', '.join(switches)}"


def _connected(switches: list[str], joined: list[tuple[str, str]], wrong: _Wrong) -> None:
    """Refuses wirings with unreachable nodes: mpirun would wait without an error."""
    reached = set(switches[:1])
    for _ in switches:
        reached |= {end for pair in joined if reached & set(pair) for end in pair}
    if lost := [each for each in switches if each not in reached]:
        wrong.say(f"no links lead from {switches[0]} to {', '.join(lost)}: add one")


def _switches(data: dict, wrong: _Wrong) -> list[str]:
    names = wrong.list(data, "switches")
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.]{0,15}", name):
            wrong.say(
                f"'{name}' is not a name for a switch: use a letter, then letters, digits, '_', '.'"
            )
        if re.fullmatch(r"node\d+", name):
            wrong.say(f"'{name}' is a node's name, not a switch's")
        if names.count(name) > 1:
            wrong.say(f"there are two switches '{name}'")
    return names


def _mbit(what: str, each: dict, wrong: _Wrong) -> int:
    mbit = each.get("mbit", 0)
    if type(mbit) is not int or not 0 <= mbit <= MAX_RATE_MBIT:
        wrong.say(f"{what}.mbit has to be a whole number from 1 to {MAX_RATE_MBIT}")
    return mbit

# SPDX-License-Identifier: BSD-3-Clause
"""Rules by whole destination addresses, for switches that have room for few masked ones.

DESIGN NOTES. Problem: a masked rule takes an entry of a TCAM, which has one or a few thousand. The
table of whole addresses has tens of thousands. Approach: program.py computes masked rules, but no
switch gets those of table FORWARD. For each tag in use, this follows a frame through them, and
gives each switch on its way a rule for that one address. So every algorithm has an exact form
without code of its own. The first frame of a tag finds no rule, and its switch sends it to the
controller. The controller delivers it, and from then on the tag is in use.

Invariants: while no link is down, a frame takes the same way by exact rules as by masked ones.
Masked rules in FORWARD are three: broadcasts, unknown hosts, and tags that are not in use. Groups
are only those that copy.

Rejected: rules for all pairs of ranks and all functions, since these are 14 times the square of the
ranks. Fast failover has no exact form, since its spares match the port by which a frame returns. So
a cut link loses frames until the controller has written new rules.

Pure.
"""

from collections.abc import Iterable
from typing import NamedTuple

from .algorithms.bcast import tree_key
from .follow import Frame, Tables
from .network import Job, Network
from .priorities import FLOOD, HOST, STRAY_TAG, TAGGED
from .rules import CONTROLLER, FORWARD, IN_PORT, Does, Group, Key, Match, Out, Program
from .tag import GROUP, PREFIX, PREFIX_MASK, Tag, to_mac

Port = tuple[int, int]  # switch, port


def is_tag(address: int) -> bool:
    return address & PREFIX_MASK == PREFIX


def tag_of(key: Key) -> int | None:
    """The tag that @key matches as a whole address."""
    exact = key.table == FORWARD and key == Key(FORWARD, TAGGED, Match(dst=key.match.dst))
    return key.match.dst if exact and key.match.dst and is_tag(key.match.dst) else None


def masked_key(key: Key) -> Key:
    """The masked rule whose tree @key follows."""
    address = tag_of(key)
    if address is None or not address & GROUP:
        return key
    tag = Tag.parse(to_mac(address))
    return tree_key(tag.job, tag.destination)


def compiled(
    network: Network,
    jobs: Iterable[Job],
    masked: dict[int, Program],
    used: dict[int, set[int]],
) -> dict[int, Program]:
    """The exact form of the rules @masked. @used: the tags in use, by job."""
    programs = {switch: _untagged(program) for switch, program in masked.items()}
    tables = Tables(network.graph, masked)
    for job in jobs:
        located = network.located(job)
        for address in sorted(used.get(job.number, ())):
            source = Tag.parse(to_mac(address)).source
            if source in located:
                frame = Frame(job.ranks[source], address)
                key = Key(FORWARD, TAGGED, Match(dst=address))
                for switch, does in _way(network, tables, located[source], frame):
                    programs[switch][key] = Does(does.actions, job.number)
    return programs


def _untagged(program: Program) -> Program:
    """@program without the rules for tags. Hosts have one rule each, without spare ports."""
    found: Program = {}
    for key, does in program.items():
        if key.table != FORWARD or key.priority <= FLOOD:
            found[key] = does
        elif key.priority == HOST:
            found[key] = Does(_first(does), does.job)
        elif key.priority == STRAY_TAG:
            found[key] = Does((Out(CONTROLLER),))
    return found


def _first(does: Does) -> tuple:
    """The actions of @does while all ports are up."""
    return tuple(
        action
        for each in does.actions
        for action in (
            each.buckets[0].actions if isinstance(each, Group) and each.failover else (each,)
        )
    )


def _way(network: Network, tables: Tables, start: Port, frame: Frame) -> Iterable[tuple[int, Does]]:
    """Each switch on the way of @frame, which a host sends at @start, and what it does there."""
    queue, seen = [start], set()
    while queue:
        switch, in_port = queue.pop()
        does = tables.find(switch, FORWARD, in_port, frame)
        if switch in seen or does is None or not does.actions:
            continue
        seen.add(switch)
        actions = _first(does)
        yield switch, Does(actions)
        for port in _left_by(actions):
            other = network.graph.links.get((switch, port))
            if other and port not in (in_port, IN_PORT):
                queue.append(other)


def _left_by(actions: tuple) -> list[int]:
    inner = [a for e in actions if isinstance(e, Group) for b in e.buckets for a in b.actions]
    return [each.port for each in (*actions, *inner) if isinstance(each, Out)]


# ---- entries of each kind ------------------------------------------------------------------------


class Entries(NamedTuple):
    """The entries of a switch, by the table that a switch needs for them."""

    exact: int  # a whole destination address, and nothing else
    masked: int  # masked destinations, with other fields or without
    by_port: int  # whole fields, such as the port or the sender of a frame
    groups: int


def count(program: Program) -> Entries:
    kinds = [_kind(key) for key in program]
    used = {a for does in program.values() for a in does.actions if isinstance(a, Group)}
    return Entries(*(kinds.count(kind) for kind in Entries._fields[:3]), len(used))


def _kind(key: Key) -> str:
    match = key.match
    if match == Match(dst=match.dst) and match.dst is not None:
        return "exact"
    masked = match._replace(dst_mask=Match().dst_mask) != match or match == Match()
    return "masked" if masked else "by_port"

# SPDX-License-Identifier: BSD-3-Clause
"""The rules and groups of switches, as values that can be compared.

Pure. This is the part of OpenFlow 1.3 that the controller uses: two tables, masked Ethernet
addresses, groups of types *all* and *fast failover*. codec.py turns rules into messages and back;
follow.py follows frames through them. A rule holds its group; only the codec knows the group's
number.

    table 0 ADMIT     permits senders: LLDP, links between switches, tags of ranks, known hosts
    table 1 FORWARD   selects the ports
"""

from functools import lru_cache
from typing import NamedTuple

ADMIT, FORWARD = 0, 1

IN_PORT = 0xFFFF_FFF8  # OFPP_IN_PORT: back out of the port that the frame came from
CONTROLLER = 0xFFFF_FFFD  # OFPP_CONTROLLER

LLDP_TYPE = 0x88CC
LLDP_ADDRESS = 0x0180_C200_000E
MULTICAST = 0x0100_0000_0000
ALL_BITS = 0xFFFF_FFFF_FFFF

# The upper half of every rule's cookie. The lower half is the job's number, or 0.
COOKIE = 0x68696B79 << 32
COOKIE_MASK = 0xFFFF_FFFF << 32


class Match(NamedTuple):
    """None matches anything. Address bits outside of a mask are 0."""

    in_port: int | None = None
    dst: int | None = None
    dst_mask: int = ALL_BITS
    src: int | None = None
    eth_type: int | None = None


class Out(NamedTuple):
    port: int


class SetDst(NamedTuple):
    mac: int


class Bucket(NamedTuple):
    watch: int | None  # a fast-failover group takes the first whose watched port is up
    actions: tuple[Out | SetDst, ...]


class Group(NamedTuple):
    failover: bool  # else all buckets, each with a copy of the frame
    buckets: tuple[Bucket, ...]


class Goto(NamedTuple):
    """Continues with another table; the last action of a rule."""

    table: int


Action = Out | SetDst | Group | Goto


class Key(NamedTuple):
    """The identity of a rule in its switch."""

    table: int
    priority: int
    match: Match


class Does(NamedTuple):
    actions: tuple[Action, ...]
    job: int = 0


Program = dict[Key, Does]  # of one switch


def within(key: Key, wide: Key) -> bool:
    """Is @key for one of the addresses that @wide matches, and nothing else?"""
    dst = key.match.dst
    return (
        dst is not None
        and key == Key(wide.table, wide.priority, Match(dst=dst))
        and dst & wide.match.dst_mask == wide.match.dst
    )


@lru_cache(maxsize=4096)
def out(ports: tuple[int, ...]) -> tuple[Action, ...]:
    """The actions that send to the first of @ports that is up. The last port may be IN_PORT, which
    is always usable. Cached, since many rules do the same."""
    if not ports:
        return ()
    if len(ports) == 1:
        return (Out(ports[0]),)
    return (Group(True, tuple(Bucket(None if p == IN_PORT else p, (Out(p),)) for p in ports)),)


def groups(program: Program) -> set[Group]:
    return {a for does in program.values() for a in does.actions if isinstance(a, Group)}


# ---- rules that copy -----------------------------------------------------------------------------


def copies(does: Does) -> tuple[Bucket, ...]:
    """The copies that @does sends, also without a group; none if it does anything else."""
    found: list[Bucket] = []
    before: tuple[SetDst, ...] = ()
    for action in does.actions:
        if isinstance(action, Group) and not action.failover:
            found += action.buckets
        elif isinstance(action, SetDst):
            before = (action,)
        elif isinstance(action, Out):
            found.append(Bucket(None, (*before, action)))
        else:
            return ()
    return tuple(found)


def is_tree(does: Does) -> bool:
    return any(isinstance(a, Group) and not a.failover for a in does.actions)


def meet(old: Does, new: Does) -> Does:
    """The copies that both rules send, without a group."""
    kept = set(copies(old))
    both = [bucket.actions for bucket in copies(new) if bucket in kept]
    both.sort(key=len)  # those with the address as it came go first
    return Does(tuple(action for actions in both for action in actions), new.job)

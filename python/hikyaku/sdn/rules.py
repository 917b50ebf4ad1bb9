# SPDX-License-Identifier: BSD-3-Clause
"""What a switch is told: rules and groups, as values that can be compared.

Pure, and no more of OpenFlow 1.3 than is used: two tables, masked Ethernet addresses, groups of
types *all* and *fast failover*. codec.py turns them into messages and back; follow.py follows
frames through them. A rule holds the group that it sends to; which number a group has is the
codec's business.

    table 0 ADMIT     who may send what: LLDP, links between switches, tags of ranks, known hosts
    table 1 FORWARD   where it goes
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

# The upper half of every rule's cookie; the lower half is the job, 0 for what belongs to none.
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
    """The last action of a rule at most."""

    table: int


Action = Out | SetDst | Group | Goto


class Key(NamedTuple):
    """What tells a rule from others in its switch."""

    table: int
    priority: int
    match: Match


class Does(NamedTuple):
    actions: tuple[Action, ...]
    job: int = 0


Program = dict[Key, Does]  # of one switch


@lru_cache(maxsize=4096)
def out(ports: tuple[int, ...]) -> tuple[Action, ...]:
    """To the first of @ports that is up. The last one may be IN_PORT, which is always taken. Kept,
    since many rules do the same."""
    if not ports:
        return ()
    if len(ports) == 1:
        return (Out(ports[0]),)
    return (Group(True, tuple(Bucket(None if p == IN_PORT else p, (Out(p),)) for p in ports)),)


def groups(program: Program) -> set[Group]:
    return {a for does in program.values() for a in does.actions if isinstance(a, Group)}


# ---- rules that copy -----------------------------------------------------------------------------


def copies(does: Does) -> tuple[Bucket, ...]:
    """The copies that it sends, those without a group too; none, if it does anything else."""
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
    """The copies that both send, without a group."""
    kept = set(copies(old))
    both = [bucket.actions for bucket in copies(new) if bucket in kept]
    both.sort(key=len)  # those with the address as it came go first
    return Does(tuple(action for actions in both for action in actions), new.job)

# SPDX-License-Identifier: BSD-3-Clause
"""The tag: a destination MAC address that carries the communication pattern.

docs/tag.md draws it; wire/tag.h is the same in C, and tests/vectors/tag.txt tests both. A tag is a
number of 48 bits here; its text form is a MAC address:

    Tag(job=3, function=Function.BCAST, source=0, destination=5).mac     '66:48:0d:00:00:05'
    Tag.parse("66:48:0d:00:00:05")
    pattern(job=3, function=Function.BCAST)     ('66:48:0d:00:00:00', 'ff:ff:ff:c0:00:00')
"""

import re
from dataclasses import dataclass
from enum import IntEnum

PREFIX = 0x6648_0000_0000
PREFIX_MASK = 0xFEFF_0000_0000
GROUP = 0x0100_0000_0000  # Ethernet's multicast bit

JOBS = 64  # numbers 1 to 63
FUNCTIONS = 16
RANKS = 2048  # of a job; and so many groups

# name: lowest bit, width
_FIELDS = {"job": (26, 6), "function": (22, 4), "source": (11, 11), "destination": (0, 11)}


class Function(IntEnum):
    """The MPI function that a packet belongs to."""

    OTHER = 0
    P2P = 1
    RMA = 2
    NEIGHBOR = 3
    BCAST = 4
    SCATTER = 5
    REDUCE = 6
    GATHER = 7
    BARRIER = 8
    ALLREDUCE = 9
    ALLGATHER = 10
    ALLTOALL = 11
    REDUCE_SCATTER = 12
    SCAN = 13


class Shape(IntEnum):
    """The properties that functions share, in their highest bits: see pattern()."""

    DIRECT = 0b0000  # OTHER, P2P, RMA, NEIGHBOR
    ROOTED = 0b0100  # BCAST, SCATTER, REDUCE, GATHER
    ALL = 0b1000  # BARRIER, ALLREDUCE, ALLGATHER, ALLTOALL, REDUCE_SCATTER, SCAN

    @property
    def mask(self) -> int:
        return 0b1000 if self is Shape.ALL else 0b1100


class NoTag(ValueError):
    """An address that is not a tag, or a tag with an invalid value; its text is the reason."""


def from_mac(text: str) -> int:
    """The number of a MAC address; ':' or '-' separates its six octets."""
    if not re.fullmatch(r"[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}", text):
        raise NoTag(f"'{text}' is not a MAC address")
    return int(re.sub("[:-]", "", text), 16)


def to_mac(address: int) -> str:
    return ":".join(f"{octet:02x}" for octet in address.to_bytes(6, "big"))


def in_prefix(mac: str) -> bool:
    """Is the address in the range of tags? No host may have such an address."""
    return from_mac(mac) & PREFIX_MASK == PREFIX


@dataclass(frozen=True)
class Tag:
    job: int
    function: Function
    source: int  # rank in MPI_COMM_WORLD
    destination: int  # the same, or the number of a group of this job
    group: bool = False  # which of the two

    def __post_init__(self) -> None:
        if not 1 <= self.job < JOBS:
            raise NoTag(f"job {self.job}: the numbers of jobs are 1 to {JOBS - 1}")
        if self.function not in Function.__members__.values():
            raise NoTag(f"function {self.function} is reserved")
        for name in ("source", "destination"):
            if not 0 <= getattr(self, name) < RANKS:
                raise NoTag(f"{name} {getattr(self, name)}: ranks and groups are 0 to {RANKS - 1}")

    def __int__(self) -> int:
        address = PREFIX | (GROUP if self.group else 0)
        for name, (low, _) in _FIELDS.items():
            address |= getattr(self, name) << low
        return address

    @property
    def mac(self) -> str:
        return to_mac(int(self))

    @classmethod
    def parse(cls, mac: str) -> "Tag":
        """The tag of an address; NoTag gives the reason if it is not one."""
        address = from_mac(mac)
        if address & PREFIX_MASK != PREFIX:
            raise NoTag(f"{mac} lies outside of the tags' prefix")
        fields = {name: address >> low & ((1 << n) - 1) for name, (low, n) in _FIELDS.items()}
        if fields["function"] not in Function.__members__.values():
            raise NoTag(f"{mac}: function {fields['function']} is reserved")
        fields["function"] = Function(fields["function"])
        return cls(group=bool(address & GROUP), **fields)

    def __str__(self) -> str:
        to = "group" if self.group else "rank"
        return (
            f"job {self.job} {self.function.name.lower()}"
            f" from rank {self.source} to {to} {self.destination}"
        )


def pattern(
    *,
    job: int | None = None,
    function: Function | None = None,
    shape: Shape | None = None,
    source: int | None = None,
    destination: int | None = None,
    group: bool | None = None,
) -> tuple[str, str]:
    """The value and mask of eth_dst that match all tags with these fields. A destination is a rank,
    unless @group says otherwise."""
    if function is not None and shape is not None:
        raise NoTag("a pattern has a function or a shape, not both")
    if destination is not None and group is None:
        group = False
    value, mask = PREFIX, PREFIX_MASK
    if group is not None:
        value |= GROUP if group else 0
        mask |= GROUP
    given = {"job": job, "function": function, "source": source, "destination": destination}
    for name, (low, width) in _FIELDS.items():
        if given[name] is None:
            continue
        if not 0 <= given[name] < 1 << width:
            raise NoTag(f"{name} {given[name]} does not fit into {width} bits")
        value |= given[name] << low
        mask |= ((1 << width) - 1) << low
    if shape is not None:
        low = _FIELDS["function"][0]
        value |= shape << low
        mask |= shape.mask << low
    return to_mac(value), to_mac(mask)

# SPDX-License-Identifier: BSD-3-Clause
"""Few masked matches for many ranks.

Pure. A cube is (value, mask): it covers the numbers that equal the value in the bits of the mask.
Ranks that are assigned to nodes in blocks or in turn fall into few cubes. A table then needs an
entry for each node, not for each rank.
"""

from collections.abc import Collection

from .tag import RANKS, Function, Tag, from_mac, pattern

BITS = RANKS.bit_length() - 1

Cube = tuple[int, int]


def _grown(number: int, forbidden: Collection[int], order: range) -> Cube:
    """The cube of @number, without each bit that excludes none of @forbidden."""
    mask = RANKS - 1
    differences = {other ^ number for other in forbidden}  # in the bits of the mask; never 0
    for bit in order:
        if 1 << bit not in differences:
            mask &= ~(1 << bit)
            differences = {each & mask for each in differences}
    return number & mask, mask


def cover(wanted: Collection[int], everyone: Collection[int]) -> list[Cube]:
    """The cubes that cover all of @wanted and no other number of @everyone. They may cover unused
    numbers, so @everyone must include ranks that are not placed yet. Greedy from either end of the
    number; the better result is taken.
    """
    forbidden = sorted(set(everyone) - set(wanted))
    best: list[Cube] | None = None
    for order in (range(BITS), range(BITS - 1, -1, -1)):
        left, cubes = sorted(wanted), []
        while left:
            value, mask = _grown(left[0], forbidden, order)
            cubes.append((value, mask))
            left = [n for n in left if n & mask != value]
        if best is None or len(cubes) < len(best):
            best = cubes
    return best or []


_ZERO = int(Tag(1, Function.P2P, 0, 0))
_SOURCE = (int(Tag(1, Function.P2P, 1, 0)) ^ _ZERO).bit_length() - 1
_DESTINATION = (int(Tag(1, Function.P2P, 0, 1)) ^ _ZERO).bit_length() - 1
ANY: Cube = (0, 0)


def exactly(number: int) -> Cube:
    return number, RANKS - 1


def tags(
    job: int,
    *,
    function: Function | None = None,
    source: Cube = ANY,
    destination: Cube = ANY,
    group: bool | None = None,
) -> Cube:
    """Value and mask of the addresses of @job's tags with these ranks."""
    value, mask = (from_mac(each) for each in pattern(job=job, function=function, group=group))
    value |= source[0] << _SOURCE | destination[0] << _DESTINATION
    mask |= source[1] << _SOURCE | destination[1] << _DESTINATION
    return value, mask

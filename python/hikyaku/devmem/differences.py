# SPDX-License-Identifier: BSD-3-Clause
"""Compares received frames with expected ones: the wrong frames, and where they differ."""

from collections import Counter
from collections.abc import Iterable

NEAR = 300  # missing frames that a wrong one is compared with
AROUND = 16  # bytes to show on each side of the first difference


def differences(got: list[list[bytes]], want: list[list[bytes]], limit: int = 8) -> dict:
    """The differences by port, in order of arrival. Contains the first @limit wrong frames, each
    beside the most similar missing one. Missing frames are runs of their numbers in @want."""
    wrong: list[dict] = []
    missing: list[dict] = []
    for port, (came, wanted) in enumerate(zip(got, want, strict=True)):
        strange = _without(came, wanted)
        lost = _without(wanted, came)
        missing += [
            {"port": port, "first": first, "last": last}
            for first, last in _runs(n for n, _ in lost)
        ]
        for n, frame in strange[: max(0, limit - len(wrong))]:
            near = sorted(lost, key=lambda one: abs(one[0] - n))[:NEAR]
            wrong.append({"port": port, "number": n, **_beside(frame, near)})
    return {"wrong": wrong, "missing": missing[: 4 * limit], "missing_runs": len(missing)}


def lines(found: dict) -> list[str]:
    """@found as text."""
    text = []
    for w in found["wrong"]:
        head = f"port {w['port']}, frame {w['number']} of {w['length']} bytes"
        if w["wanted"] is None:
            text.append(f"{head}: like none that is missing; begins {w['got']}")
            continue
        text.append(
            f"{head}: most like {w['wanted']}, of {w['wanted_length']}; {w['different']} bytes "
            f"differ, the first at {w['at']}; from {w['from']} on\n"
            f"  wanted {w['expected']}\n  got    {w['got']}"
        )
    if found["missing_runs"]:
        runs = ", ".join(f"{m['first']}-{m['last']} of port {m['port']}" for m in found["missing"])
        more = found["missing_runs"] - len(found["missing"])
        text.append(f"missing: {runs}" + (f" and {more} more runs" if more else ""))
    return text


def _without(frames: list[bytes], others: list[bytes]) -> list[tuple[int, bytes]]:
    """The frames of @frames, with their numbers, that @others contains less often. Of equal frames,
    the last ones are surplus."""
    left = Counter(others)
    out = []
    for n, frame in enumerate(frames):
        if left[frame]:
            left[frame] -= 1
        else:
            out.append((n, frame))
    return out


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for n in numbers:
        if runs and runs[-1][1] == n - 1:
            runs[-1] = (runs[-1][0], n)
        else:
            runs.append((n, n))
    return runs


def _beside(frame: bytes, lost: list[tuple[int, bytes]]) -> dict:
    """@frame, and the frame of @lost with the fewest different bytes."""
    if not lost:
        return {"length": len(frame), "wanted": None, "got": frame[: 2 * AROUND].hex()}
    n, like = min(lost, key=lambda one: (_differ(frame, one[1]), one[0]))
    shorter = min(len(frame), len(like))
    at = next((i for i in range(shorter) if frame[i] != like[i]), shorter)
    begin = max(0, at - AROUND)
    return {
        "length": len(frame),
        "wanted": n,
        "wanted_length": len(like),
        "different": _differ(frame, like),
        "at": at,
        "from": begin,
        "expected": like[begin : at + AROUND].hex(),
        "got": frame[begin : at + AROUND].hex(),
    }


def _differ(a: bytes, b: bytes) -> int:
    same = sum(x == y for x, y in zip(a, b, strict=False))
    return max(len(a), len(b)) - same

# SPDX-License-Identifier: BSD-3-Clause
"""Differences between the frames that a router sent and the predicted ones."""

import random

from hikyaku.devmem.differences import differences, lines


def frames(seed: int, count: int = 40) -> list[bytes]:
    draw = random.Random(seed)
    return [draw.randbytes(draw.randrange(60, 300)) for _ in range(count)]


def test_equal_frames_have_no_differences() -> None:
    want = [frames(1), frames(2)]
    found = differences(want, want)
    assert found == {"wrong": [], "missing": [], "missing_runs": 0}
    assert lines(found) == []


def test_a_wrong_byte_is_named_with_its_frame() -> None:
    want = [frames(1), frames(2)]
    bad = bytearray(want[1][7])
    bad[50] ^= 0xFF
    got = [want[0], [*want[1][:7], bytes(bad), *want[1][8:]]]
    found = differences(got, want)
    [wrong] = found["wrong"]
    assert (wrong["port"], wrong["number"], wrong["wanted"]) == (1, 7, 7)
    assert (wrong["at"], wrong["different"]) == (50, 1)
    assert bytes.fromhex(wrong["expected"]) == want[1][7][34:66]
    assert bytes.fromhex(wrong["got"]) == bytes(bad)[34:66]
    assert found["missing"] == [{"port": 1, "first": 7, "last": 7}]
    text = "\n".join(lines(found))
    assert "port 1, frame 7" in text and "the first at 50" in text and wrong["got"] in text


def test_a_frame_cut_short_differs_at_its_end() -> None:
    want = [frames(3)]
    got = [[*want[0][:5], want[0][5][:-9], *want[0][6:]]]
    [wrong] = differences(got, want)["wrong"]
    assert wrong["wanted"] == 5 and wrong["different"] == 9
    assert wrong["at"] == wrong["length"] == wrong["wanted_length"] - 9


def test_missing_frames_are_reported_in_runs() -> None:
    want = [frames(4)]
    found = differences([want[0][:10] + want[0][14:30]], want)
    assert found["wrong"] == []
    assert [(m["first"], m["last"]) for m in found["missing"]] == [(10, 13), (30, 39)]
    assert lines(found) == ["missing: 10-13 of port 0, 30-39 of port 0"]


def test_a_duplicated_frame_resembles_no_missing_one() -> None:
    want = [frames(5)]
    found = differences([[*want[0], want[0][3]]], want)
    [wrong] = found["wrong"]
    assert wrong["wanted"] is None and wrong["number"] == len(want[0])
    assert "like none that is missing" in lines(found)[0]


def test_the_report_is_limited() -> None:
    want, junk = [frames(6)], frames(7, 100)
    found = differences([junk], want, limit=3)
    assert len(found["wrong"]) == 3
    every_second = differences([frames(8, 100)[::2]], [frames(8, 100)], limit=2)
    assert len(every_second["missing"]) == 8 and every_second["missing_runs"] == 50
    assert lines(every_second)[-1].endswith("and 42 more runs")

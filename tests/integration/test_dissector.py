# SPDX-License-Identifier: BSD-3-Clause
"""The Wireshark dissector, by tshark, on a capture that our own codec wrote.

`specimen_tool pcap` writes each specimen frame, then one frame for each way to be wrong.
"""

import json
import struct
import subprocess
from pathlib import Path

import pytest

from execute import execute
from hikyaku.checkout import ROOT

LUA = ROOT / "tools/wireshark/hikyaku.lua"


@pytest.fixture(scope="module")
def frames(program, tmp_path_factory) -> list[dict]:
    """The capture as tshark sees it: for each frame, its fields; those of hikyaku by short name."""
    capture = tmp_path_factory.mktemp("dissector") / "frames.pcap"
    subprocess.run([program("tests/support/specimen_tool"), "pcap", str(capture)], check=True)
    return dissect(capture)


def dissect(capture: Path) -> list[dict]:
    done = execute(
        [
            "tshark",
            "-X",
            f"lua_script:{LUA}",
            "-r",
            str(capture),
            "-T",
            "json",
            "--no-duplicate-keys",
        ]
    )
    assert "error" not in done.stderr.lower(), done.stderr
    return [packet["_source"]["layers"] for packet in json.loads(done.stdout)]


def flat(value: object, into: dict[str, list[str]]) -> dict[str, list[str]]:
    """Every leaf below @value by its field name: {"hikyaku.psn": ["7"], …}."""
    if isinstance(value, dict):
        for key, inner in value.items():
            for each in inner if isinstance(inner, list) else [inner]:
                if isinstance(each, dict):
                    flat(each, into)
                else:
                    into.setdefault(key, []).append(str(each))
    return into


def fields(frame: dict) -> dict[str, list[str]]:
    assert "hikyaku" in frame, f"not dissected: {list(frame)}"
    return flat(frame["hikyaku"], {})


def one(frame: dict, name: str) -> str:
    values = fields(frame).get(f"hikyaku.{name}", [])
    assert len(values) == 1, f"hikyaku.{name} is {values}"
    return values[0]


def complaints(frame: dict) -> set[str]:
    return {
        name.removeprefix("hikyaku.")
        for name in fields(frame)
        if name.startswith("hikyaku.malformed.") or name == "hikyaku.crc.bad"
    }


GOOD = [
    (
        "data",
        {"version": 2, "type": 1, "len": 8, "credit": 256, "src": 1, "dst": 2, "psn": 7, "ack": 3}
        | {"tsval": 0x01020304, "tsecr": 0x05060708, "am": 0x41, "frag": 0, "frags": 1}
        | {"job": 0x4B454B48, "src_epoch": 0x1111, "dst_epoch": 0x2222, "first_psn": 7, "marks": 5}
        | {"protection": 0, "key_index": 0},
    ),
    (
        "data-fragment-crc",
        {"type": 1, "flags": 1, "psn": 0xFFFFFFFF, "ack": 0xFFFFFFF0, "am": 0xFF, "credit": 64}
        | {"frag": 1, "frags": 3, "first_psn": 0xFFFFFFFE, "protection": 1, "crc": 0x421EECD0},
    ),
    ("bundle", {"type": 1, "len": 22, "am": 0xFD, "frags": 1}),
    (
        "put",
        {"type": 2, "flags": 2, "len": 32, "psn": 8, "put.region": 0x00030001}
        | {"put.xfer": 0x00050002, "put.offset": 0x100002000},
    ),
    (
        "put-grant",
        {"type": 2, "flags": 0x18, "len": 40, "grant.granted": 0x10000, "grant.wanted": 0x30020}
        | {"put.region": 0x00030001, "put.offset": 0x100002000},
    ),
    ("ack", {"type": 3, "len": 32, "credit": 200, "psn": 9, "ack": 5}),
    ("ack-grant", {"type": 3, "flags": 8, "len": 16, "grant.granted": 0x20000, "marks": 2}),
    ("reset", {"type": 4, "len": 0, "src_epoch": 0x3333, "refused_epoch": 0x1111}),
    ("bye", {"type": 5, "flags": 1, "len": 0, "psn": 10, "ack": 12}),
    ("mcast", {"type": 6, "len": 9, "dst": 4, "dst_epoch": 0x77, "psn": 3}),
]


@pytest.mark.parametrize(("number", "name"), list(enumerate(name for name, _ in GOOD)))
def test_good_frame(frames, number, name):
    frame = frames[number]
    assert complaints(frame) == set()
    for field, want in GOOD[number][1].items():
        assert int(one(frame, field), 0) == want, f"{name}: {field}"


def test_atomic_message(tmp_path):
    """A compare-and-swap, as wire/atomic.h has it."""
    ask = struct.pack("<BBBBIIIQQQ", 6, 8, 0, 0, 0x20007, 0x30001, 0, 0x100002000, 5, 2**64 - 1)
    address = (0x20, 0, len(ask), 0x4B454B48, 1, 2, 0x1111, 0x2222)
    state = (1, 0, 256, 7, 3, 0x01020304, 0x05060708, 254, 0, 1, 0)
    header = struct.pack("<BBHIIIIIBBHIIIIBBBB", *address, *state)
    bytes_of_it = bytes.fromhex("02000000000202000000000188b5") + header + ask
    size = len(bytes_of_it)
    capture = tmp_path / "atomic.pcap"
    capture.write_bytes(
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
        + struct.pack("<IIII", 0, 0, size, size)
        + bytes_of_it
    )
    (frame,) = dissect(capture)
    assert complaints(frame) == set()
    want = {"op": 6, "size": 8, "status": 0, "token": 0x20007, "region": 0x30001, "len": 0}
    want |= {"offset": 0x100002000, "operand": 5, "compare": 2**64 - 1}
    for field, value in want.items():
        assert int(one(frame, f"atomic.{field}"), 0) == value, field


def test_payload(frames):
    assert bytes.fromhex(one(frames[0], "payload").replace(":", "")) == b"hikyaku!"
    for number in (3, 4):
        payload = one(frames[number], "payload").replace(":", "")
        assert bytes.fromhex(payload) == b"written in place"


def test_messages_of_a_bundle(frames):
    seen = fields(frames[2])
    messages = [bytes.fromhex(m.replace(":", "")) for m in seen["hikyaku.bundle.message"]]
    assert messages == [b"one", b"four", b"hi"]
    assert [int(am, 0) for am in seen["hikyaku.bundle.am"]] == [0x41, 0x42, 0x41]


def test_bitmap_is_decoded(frames):
    assert fields(frames[5])["hikyaku.sack.psn"] == ["6", "7", "260"]
    assert fields(frames[6])["hikyaku.sack.psn"] == ["6", "7"]


def test_flags_are_decoded(frames):
    assert one(frames[1], "flags.resent") in ("0", "False")
    assert one(frames[3], "flags.resent") in ("1", "True")
    assert one(frames[4], "flags.bulk") in ("1", "True")
    assert one(frames[8], "flags.ack_now") in ("1", "True")


# in the order in which specimen_tool writes them, after the good ones
BAD = [
    ("version 9", "malformed.version"),
    ("type 77", "malformed.type"),
    ("unknown flag", "malformed.field"),
    ("len beyond the frame", "malformed.short"),
    ("17 fragments", "malformed.field"),
    ("fragment 3 of 1", "malformed.field"),
    ("a key although nothing is signed", "malformed.field"),
    ("PUT with fragments", "malformed.field"),
    ("PUT without room for its extension", "malformed.field"),
    ("ACK with bit 0", "malformed.field"),
    ("ACK with 31 bytes of bitmap", "malformed.field"),
    ("a bundle's record with a last byte", "malformed.field"),
    ("BYE with BULK", "malformed.field"),
    ("payload changed under the checksum", "crc.bad"),
]


@pytest.mark.parametrize(("number", "what", "complaint"), [(i, *b) for i, b in enumerate(BAD)])
def test_bad_frame(frames, number, what, complaint):
    assert complaints(frames[len(GOOD) + number]) == {complaint}, what


MESSAGES = [
    {"type": 7, "len": 8, "src": 1, "dst": 2, "number": 0x10203, "key": 0x4B454B48, "epoch": 0x1111}
    | {"version": 1},
    {"type": 7, "len": 2, "epoch": 0x2222},
    {"type": 240, "len": 0, "number": 9},
    {"type": 7, "len": 2, "counter": 5},
]
BAD_MESSAGES = ["version", "short", "short", "field", "field"]


def message(frame: dict) -> dict[str, list[str]]:
    assert "hkmsg" in frame, f"not dissected: {list(frame)}"
    return flat(frame["hkmsg"], {})


def test_messages(frames):
    for frame, want in zip(frames[len(GOOD) + len(BAD) :], MESSAGES, strict=False):
        seen = message(frame)
        assert not [name for name in seen if name.startswith("hkmsg.malformed.")]
        for field, value in want.items():
            assert [int(v, 0) for v in seen[f"hkmsg.{field}"]] == [value], field
    first = message(frames[len(GOOD) + len(BAD)])
    assert first["hkmsg.flags.wants_reply"][0] in ("1", "True")
    assert bytes.fromhex(first["hkmsg.payload"][0].replace(":", "")) == b"hikyaku!"
    second = message(frames[len(GOOD) + len(BAD) + 1])
    assert second["hkmsg.flags.reply"][0] in ("1", "True")
    assert "hkmsg.resent" in second


@pytest.mark.parametrize(("number", "complaint"), list(enumerate(BAD_MESSAGES)))
def test_bad_message(frames, number, complaint):
    seen = message(frames[len(GOOD) + len(BAD) + len(MESSAGES) + number])
    assert {n for n in seen if n.startswith("hkmsg.malformed.")} == {f"hkmsg.malformed.{complaint}"}


def test_nothing_is_left_over(frames):
    assert len(frames) == len(GOOD) + len(BAD) + len(MESSAGES) + len(BAD_MESSAGES)

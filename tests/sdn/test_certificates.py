# SPDX-License-Identifier: BSD-3-Clause
"""Claims of datapath ids by switches whose certificates the CA has signed."""

import pytest

from hikyaku.errors import HikyakuError
from hikyaku.sdn.certificates import Datapaths, names_of, read_datapaths


def certificate(name: str, *alternative: tuple[str, str]) -> dict:
    return {"subject": ((("commonName", name),),), "subjectAltName": alternative}


def test_the_names_of_a_certificate():
    found = names_of(certificate("s1", ("DNS", "s1.example"), ("IP Address", "10.0.0.1")))
    assert found == ["s1.example", "s1"]
    assert names_of(certificate("two words")) == []
    assert names_of(certificate("s\x1b[2J")) == ["s[2J"]
    assert names_of({}) == []


def test_the_first_claim_counts_also_for_the_next_controller(tmp_path):
    kept = tmp_path / "datapaths"
    first = Datapaths(None, kept)
    first.check(7, ["a"])
    first.check(8, ["a"])  # two datapaths of one Open vSwitch
    for each in (first, Datapaths(None, kept)):
        each.check(7, ["new.example", "a"])
        with pytest.raises(HikyakuError, match="that of 'b', and datapath 0x7 belongs to 'a'"):
            each.check(7, ["b"])
        with pytest.raises(HikyakuError, match="no name"):
            each.check(9, [])


def test_the_operators_file_permits_no_other_claim(tmp_path):
    listed, kept = tmp_path / "listed", tmp_path / "kept"
    listed.write_text("# ours\n7 a\n0x7 spare # a second one\n")
    bound = Datapaths(listed, kept)
    bound.check(7, ["a"])
    bound.check(7, ["spare"])
    with pytest.raises(HikyakuError, match="belongs to 'a'"):
        bound.check(7, ["b"])
    with pytest.raises(HikyakuError, match="has no datapath 0x8"):
        bound.check(8, ["a"])
    assert not kept.exists()


@pytest.mark.parametrize("line", ["7", "x a", "-1 a", "7 a b", f"{1 << 64} a"])
def test_a_broken_line_is_named(tmp_path, line):
    path = tmp_path / "datapaths"
    path.write_text(f"\n{line}\n")
    with pytest.raises(HikyakuError, match="line 2 is not a datapath id and a name"):
        read_datapaths(path)

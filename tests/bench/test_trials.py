# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku trials`: what counts as another result, and the file that lists programs."""

import io

import documents
import pytest
from rich.console import Console

from hikyaku.errors import HikyakuError
from hikyaku.trials import report
from hikyaku.trials.compare import compare
from hikyaku.trials.program import Program, listed, packaged

RUN = """\
step 1 energy -3.5e+00 pressure 7
step 2 energy -3.4 pressure 8
Total wall time: 12.5 s
used {memory} KB
"""


def test_times_and_what_changes_by_itself_are_no_results():
    tcp = [RUN.format(memory=10), RUN.format(memory=11)]
    found = compare(tcp, RUN.format(memory=99).replace("12.5", "0.1"))
    assert not found.differences
    assert found.figures == 6  # two steps of three; not the memory, and no time


def test_hpcc_writes_some_times_without_a_unit():
    (hpcc,) = (program for program in packaged() if program.name == "hpcc")
    tcp = "Vector size: 16384\nTuning: 0.001\nComputing: 0.002\nInverse FFT: 0.002\nCopy: 9.1\n"
    here = tcp.replace("0.002", "0.003").replace("9.1", "8")
    assert compare([tcp, tcp], here, hpcc.times).figures == 1
    assert not compare([tcp, tcp], here, hpcc.times).differences


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("-3.4", "-3.5"), "'step # energy # pressure #': -3.4 over TCP, -3.5 here"),
        (("step 2 energy -3.4 pressure 8\n", ""), "2 lines over TCP, 1 lines here"),
        (("step 1", "stop 1"), "2 lines over TCP, 1 lines here"),
    ],
)
def test_another_result_is_named(change, said):
    text = RUN.format(memory=10)
    found = compare([text, text], text.replace(*change))
    assert [said in str(each) for each in found.differences] == [True]


def test_a_program_can_name_further_times():
    tcp = ["Add: 0.0001"] * 2
    assert compare(tcp, "Add: 0.0000").differences
    assert not compare(tcp, "Add: 0.0000", "^Add:").differences


def test_lines_of_ranks_in_another_order_are_no_difference_if_tcp_reorders_them():
    one, other = "rank 0 has 5\nrank 1 has 6\n", "rank 1 has 6\nrank 0 has 5\n"
    assert not compare([one, other], other).differences
    assert compare([one, one], other).differences


def test_a_directory_lists_its_programs(tmp_path):
    (tmp_path / "trials").write_text("# mine\n\nlulesh 8 ./lulesh -s '10 20'  # cubes\n")
    (found,) = listed(tmp_path)
    assert found == Program("lulesh", 8, ("./lulesh", "-s", "10 20"), place=tmp_path.resolve())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("lulesh", "line 1: expected a name, 1 to 64 ranks and a command"),
        ("\nlulesh ./lulesh", "line 2: expected"),
        ("lulesh 0 ./lulesh", "line 1: expected"),
        ("lulesh 65 ./lulesh", "line 1: expected"),
        ("lulesh 8", "line 1: expected"),
        ("lulesh 8 './lulesh", "line 1: No closing quotation"),
        ("a 1 x\na 2 y", "line 2: there are two programs 'a'"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_listing_with_an_error_says_where(tmp_path, text, said):
    if text is not None:
        (tmp_path / "trials").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(HikyakuError, match=said):
        listed(tmp_path)


def test_packaged_programs_have_a_package_each():
    assert all(program.package for program in packaged())
    assert len({program.name for program in packaged()}) == len(packaged())


def test_the_table_says_what_became_of_each():
    seconds = {way: {"median": t} for way, t in (("tcp", 4), ("tcp, tagged", 4.1), ("hikyaku", 1))}
    rows = [
        {"name": "good", "ranks": 2, "seconds": seconds, "figures": 9, "differences": {}},
        {"name": "bad", "ranks": 2, "seconds": seconds, "figures": 9}
        | {"differences": {"hikyaku": ["'x #': 1 over TCP, 2 here"]}},
        {"name": "gone", "ranks": 2, "missing": "gone is not there; fix: build it"},
        {"name": "dead", "ranks": 2, "failed": "dead over tcp ended with status 1:\n[bold]"},
    ]
    out = io.StringIO()
    report.show({"machine": documents.ABOUT, "rows": rows}, Console(file=out, width=80))
    text = " ".join(out.getvalue().split())
    for said in ("0.25 all 9 alike", "1 differ", "not installed", "failed", "fix: build it",
                 "[bold]", "bad, hikyaku: 'x #': 1 over TCP, 2 here"):  # fmt: skip
        assert said in text

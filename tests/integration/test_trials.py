# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku trials` with programs of a directory: one is right, one is not, one is missing."""

import json

import pytest

from execute import execute

pytestmark = pytest.mark.one_core

LIAR = """\
#!/bin/sh
case $OMPI_MCA_btl in *hikyaku*) value=2 ;; *) value=1 ;; esac
[ "$OMPI_COMM_WORLD_RANK" != 0 ] || echo "the value is $value"
"""


def test_programs_of_a_directory(lab_name, hikyaku, program, tmp_path):
    digest = program("tests/mpi/mpi_digest")
    (tmp_path / "trials").write_text(
        f"digest 2 {digest} --rounds 2\nliar 2 ./liar\nabsent 2 ./absent\n"
    )
    liar = tmp_path / "liar"
    liar.write_text(LIAR)
    liar.chmod(0o755)
    command = [*hikyaku, "trials", "--dir", tmp_path, "--repeats", "1", "digest", "liar", "absent"]
    done = execute([*command, "--json", tmp_path / "b.json"], code=1, timeout=120)
    assert "other results than over TCP, or none: liar" in done.stderr
    digest, liar, absent = json.loads((tmp_path / "b.json").read_text())["rows"]
    assert digest["differences"] == {"tcp, tagged": [], "hikyaku": []}
    assert digest["figures"] > 0
    assert liar["differences"] == {
        "tcp, tagged": [],
        "hikyaku": ["'the value is #': 1 over TCP, 2 here"],
    }
    assert "./absent is not there; fix: build it" in absent["missing"]


def test_an_unknown_program_is_refused(hikyaku):
    done = execute([*hikyaku, "trials", "hpc"], code=1)
    assert "there is no program 'hpc'; fix: use some of: hpcc, netpipe" in done.stderr

# SPDX-License-Identifier: BSD-3-Clause
"""Public MPI programs of the distribution over the fabric. Each checks its own results.

These are NetPIPE's integrity mode, and the HPC Challenge suite on small problems (Linpack, matrix
transposition, random access, FFT).
"""

import re
import shutil

import pytest

from hikyaku.trials.program import HPCC_INPUT

pytestmark = pytest.mark.one_core

LIMIT_S = 120


def installed(name: str, package: str) -> str:
    path = shutil.which(name)
    assert path, f"{name} is not installed: apt-get install {package}"
    return path


@pytest.mark.parametrize("wire", ["memif", "veth"])
def test_netpipe_integrity(get_lab, tmp_path, wire):
    """NetPIPE sends sizes from 1 byte up, each also with 3 bytes more or less. The receiver checks
    the content."""
    netpipe = installed("NPopenmpi", "netpipe-openmpi")
    argv = [netpipe, "-i", "-u", "262144", "-o", str(tmp_path / "np.out")]
    result = get_lab(nodes=2, wire=wire).mpirun(2, argv, timeout=LIMIT_S)
    output = result.stdout + result.stderr
    assert result.returncode == 0, output
    assert "failed" not in output.lower(), output
    sizes = re.findall(r"^\s*\d+:\s+(\d+) bytes .*Integrity check passed$", output, re.M)
    assert len(sizes) > 20, output
    assert max(map(int, sizes)) > 190000, output


@pytest.mark.parametrize(
    ("wire", "size", "block", "rows", "columns"),
    [
        pytest.param("memif", 397, 29, 2, 2, id="memif-4x1"),
        pytest.param("veth", 397, 29, 2, 2, id="veth-4x1", marks=pytest.mark.slow),
        pytest.param("memif", 1201, 61, 1, 4, id="memif-4x1-wide", marks=pytest.mark.slow),
    ],
)
def test_hpc_challenge(get_lab, tmp_path, wire, size, block, rows, columns):
    hpcc = installed("hpcc", "hpcc")
    text = HPCC_INPUT.format(size=size, block=block, rows=rows, columns=columns)
    (tmp_path / "hpccinf.txt").write_text(text)
    ranks = rows * columns
    lab = get_lab(nodes=ranks, wire=wire)
    result = lab.mpirun(ranks, [hpcc], options=["-wdir", str(tmp_path)], timeout=LIMIT_S)
    assert result.returncode == 0, result.stdout + result.stderr
    report = (tmp_path / "hpccoutf.txt").read_text()
    values = dict(re.findall(r"^(\w+)=(.*)$", report, re.M))
    assert values.get("Success") == "1", report[-3000:]
    assert values["CommWorldProcs"] == str(ranks)
    assert values["HPL_N"] == str(size), "the suite did not read our input"
    for errors in ("MPIRandomAccess_Errors", "MPIRandomAccess_LCG_Errors", "PTRANS_residual"):
        assert float(values[errors]) == 0, f"{errors}={values[errors]}"
    assert float(values["MPIFFT_maxErr"]) < 1e-10
    failures = re.findall(r"(\d+) tests completed and failed residual checks", report)
    assert failures, "no residual was checked"
    assert set(failures) == {"0"}, report[-3000:]

# SPDX-License-Identifier: BSD-3-Clause
"""Two jobs that start at the same moment on one AF_XDP interface."""

import subprocess

import pytest


@pytest.mark.one_core
def test_the_job_that_is_refused_leaves_the_other_alone(get_lab, hikyaku, program):
    """When the refused one closed what it had opened, it removed the XDP program of the other one.
    That then waited for frames for ever. Both may be refused, each by the other on one node."""
    lab = get_lab(2, "veth", 1)
    job = [*hikyaku, "lab", "mpirun", "--lab", lab.name, "-np", "2"]
    job += [program("tests/mpi/mpi_hand_over"), "--rounds", "4"]
    for _ in range(2):
        both = [
            subprocess.Popen(job, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for _ in range(2)
        ]
        said = [each.communicate(timeout=60)[0] for each in both]
        for each, text in zip(both, said, strict=True):
            if each.returncode == 0:
                assert "PASS hand_over" in text
            else:
                assert "uses queue 0 of hk0; fix: end it, or give each process" in text, text

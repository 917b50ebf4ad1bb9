# SPDX-License-Identifier: BSD-3-Clause
"""What `hikyaku env` prints, and what is installed: that it works outside of the checkout."""

import os
import subprocess
from pathlib import Path


def clean() -> dict[str, str]:
    """An environment in which nothing says where Hikyaku is."""
    ours = ("OMPI_", "HIKYAKU_", "PYTHON")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)}


def settings(launcher: str) -> dict[str, str]:
    script = f'eval "$({launcher} env)" && env -0'
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, timeout=60, check=True, env=clean()
    )
    found = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
    return {k: v for k, v in found.items() if k not in clean()}


def check_settings(launcher: str) -> dict[str, str]:
    """All that `env` names is there; without being asked it names the daemon, which a later
    `--mca btl_hikyaku_host daemon` starts."""
    found = settings(launcher)
    components = Path(found["OMPI_MCA_mca_base_component_path"].split(":")[0])
    assert (components / "mca_btl_hikyaku.so").is_file()
    assert (components / "mca_coll_hikyaku.so").is_file()
    assert Path(found["HIKYAKU_INTERPOSER"]).is_file()
    assert os.access(found["OMPI_MCA_btl_hikyaku_daemon_program"], os.X_OK)
    return found


def test_env_names_all_that_ranks_start(hikyaku):
    check_settings(hikyaku[0])


def test_help_has_the_port_without_which_nothing_goes_over_hikyaku(hikyaku):
    for command in ([], ["env"]):
        argv = [*hikyaku, *command, "--help"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
        assert "OMPI_MCA_btl_hikyaku_port=" in done.stdout

# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku learn --launch`: the nodes' backend and address, by options or by the environment."""

import pytest

from hikyaku.cli.learn import _check_launch
from hikyaku.errors import HikyakuError

BACKEND = "HIKYAKU_RTC_BACKEND"
ADDRESS = "HIKYAKU_RTC_ADDRESS_AF_XDP"


@pytest.mark.parametrize(
    ("launcher", "backend", "address", "environment"),
    [
        ("mpirun", "udp", "eth0", {}),
        ("mpirun", "tcp:batch=1", "eth0", {}),
        ("mpirun", "af_xdp", None, {ADDRESS: "eth1"}),
        ("mpirun", None, None, {BACKEND: "af_xdp", ADDRESS: "eth1"}),
        ("mpirun", None, "eth1", {BACKEND: "af_xdp"}),
        (f"mpirun -x {BACKEND}=af_xdp -x {ADDRESS}=eth1", None, None, {}),
    ],
)
def test_known(monkeypatch, launcher, backend, address, environment):
    for name in (BACKEND, ADDRESS):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    _check_launch(launcher, backend, address)


@pytest.mark.parametrize(
    ("backend", "environment", "said"),
    [
        (None, {}, "--launch needs the backend"),
        (None, {BACKEND: "af_xdp"}, "backend af_xdp needs the address"),
        ("af_xdp", {}, "backend af_xdp needs the address"),
        ("tcp:batch=1", {ADDRESS: "eth1"}, "backend tcp needs the address"),
    ],
)
def test_missing(monkeypatch, backend, environment, said):
    for name in (BACKEND, ADDRESS):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(HikyakuError, match=f"{said}.* fix: add .*--address"):
        _check_launch("mpirun -np 2", backend, None)

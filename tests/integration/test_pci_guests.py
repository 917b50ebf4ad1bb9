# SPDX-License-Identifier: BSD-3-Clause
"""MPI over `pci:` ports: two virtual machines, joined by the NICs that QEMU emulates.

DPDK's drivers for these NICs run in them, below an IOMMU and VFIO. mpirun is the distribution's,
and all runs as an ordinary user.
"""

from collections.abc import Iterator

import pytest

from hikyaku import guest as guests
from hikyaku.checkout import built
from hikyaku.guest import NIC_MODELS
from hikyaku.guest.pair import Pair


@pytest.fixture(scope="module")
def pair(request, lab_name) -> Iterator[Pair]:
    name = lab_name(request.param)
    guests.down_dead(name.split("-")[0])
    with Pair.up(name, request.param) as pair:
        yield pair


def each(*nic_models: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("pair", nic_models, indirect=True)


def run(pair: Pair, program: str, *arguments: str, mode: str = "inline") -> str:
    said = pair.mpirun(
        [str(built(program)), *arguments], btl_hikyaku_port=pair.port, btl_hikyaku_mode=mode
    )
    assert f"hikyaku: 2 ranks on 2 nodes, port {pair.port}, mode {mode}" in said
    return said


@each(*NIC_MODELS)
def test_messages_of_all_sizes(pair: Pair) -> None:
    quick = pair.nodes[0].machine.nic_model != "virtio-net-pci"
    name = "digest" if quick else "p2p_match"
    assert f"PASS {name}" in run(pair, f"tests/mpi/mpi_{name}")


@each("virtio-net-pci")
def test_one_sided(pair: Pair) -> None:
    assert "PASS rma_random" in run(pair, "tests/mpi/mpi_rma_random")


@each("virtio-net-pci")
def test_mode_daemon(pair: Pair) -> None:
    """hikyakud polls the NIC, and the rank gets its frames from it."""
    argv = ["--sizes", "40000", "--metrics", "latency_us", "--sample-ms", "1"]
    said = run(pair, "bench/mpi_bench", *argv, mode="daemon")
    assert '"metric":"latency_us","size":40000' in said


@each("virtio-net-pci")
def test_rings_of_a_driver_that_places_them_itself(pair: Pair) -> None:
    """virtio's driver reserves its rings when it finds the device, before a queue has a place."""
    node = pair.nodes[0]
    argv = f"--nics {node.machine.nic(0)} --direction transmit --pop pop:huge:size=32M --rings"
    status, said = node.exec(f"hk_devmem measure {argv}", timeout=60)
    assert status == 1 and "the driver net_virtio has 0 of its 2 rings in pop:huge" in said, said
    assert "; fix: use a NIC with another driver" in said

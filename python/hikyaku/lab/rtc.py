# SPDX-License-Identifier: BSD-3-Clause
"""The environment of programs on hikyaku/rtc.h in a lab: a backend, and the address of each
backend.

Such programs do not use MPI, so they read no MCA parameters. The user's environment overrides these
settings: `HIKYAKU_RTC_BACKEND=udp hikyaku lab mpirun -np 2 PROGRAM`.
"""

from collections.abc import Mapping

from .topology import Topology

PREFIX = "HIKYAKU_RTC_"
BACKEND = f"{PREFIX}BACKEND"
OF_THE_KERNEL = ("udp", "tcp")  # backends whose nodes share an interface


def settings(
    topology: Topology, memif: str, *, tcp: bool, given: Mapping[str, str]
) -> dict[str, str]:
    """The settings. @memif: the port spec of the run's wires. @tcp: the run uses TCP. @given: the
    user's environment."""
    ours = {
        f"{PREFIX}ADDRESS_UDP": "tcp0",
        f"{PREFIX}ADDRESS_TCP": "tcp0",
    }
    if topology.wire == "memif":
        ours[BACKEND] = "dpdk"
        ours[f"{PREFIX}ADDRESS_DPDK"] = memif
        # no other interface is there; the kernel's packet socket leaves nothing on it
        ours[f"{PREFIX}ADDRESS_RAW"] = "tcp0"
    elif topology.by_sockets:
        ours[BACKEND] = "udp"
    else:
        ours[BACKEND] = "af_xdp"
        ours[f"{PREFIX}ADDRESS_DPDK"] = "af_packet:iface=hk{local_rank}"
        ours[f"{PREFIX}ADDRESS_AF_XDP"] = "hk{local_rank}"
        ours[f"{PREFIX}ADDRESS_RAW"] = "hk{local_rank}"
    if tcp:
        ours[BACKEND] = "tcp"
    return {name: given.get(name, value) for name, value in ours.items()}

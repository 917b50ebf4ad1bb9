# SPDX-License-Identifier: BSD-3-Clause
"""Two guests as the nodes of a cluster, each with two NICs and the host's Open MPI.

    with Pair.up("mine", "vmxnet3") as pair:
        pair.mpirun(["./program"], btl_hikyaku_port=pair.port)

The first NICs are joined by a cable, and belong to vfio-pci, for DPDK. The second ones are joined
too. They belong to the kernel, and carry what mpirun itself says. Jobs run as an ordinary user.
"""

import shlex
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ..checkout import ROOT
from ..errors import HikyakuError
from ..lab.openmpi import fabric_settings
from . import Guest, Machine, down

USER = 1000
NETWORK = "10.0.0"
REMOTE = Path(__file__).parent / "remote.sh"
# of Open MPI; those of its runtime under their names in 4.1 and 5.0
SETTINGS = {
    "OMPI_MCA_plm_rsh_agent": str(REMOTE),
    "PRTE_MCA_plm_ssh_agent": str(REMOTE),
    "OMPI_MCA_oob_tcp_if_include": f"{NETWORK}.0/24",
    "PRTE_MCA_prte_if_include": f"{NETWORK}.0/24",
    "OMPI_MCA_btl_tcp_if_include": f"{NETWORK}.0/24",
    "OMPI_MCA_btl_hikyaku_connect_timeout_ms": "90000",  # emulated, on a busy machine
}
READY = """
set -e
modprobe -a virtio_pci {driver}
bind vfio-pci {nic}
chown {user} /dev/vfio/*[0-9] /huge
interface=$(ls /sys/bus/pci/devices/{other}/net /sys/bus/pci/devices/{other}/*/net 2>&- | grep eth)
ip addr add {address}/24 dev $interface
ip link set $interface up
hostname {name}
host true
nc -ll -p 514 -e host --user {user} sh > /dev/null 2>&1 &
"""


@dataclass
class Pair:
    nodes: list[Guest]

    @classmethod
    def up(cls, name: str, nic_model: str) -> "Pair":
        """Boots both guests, named @name-0 and @name-1, at the same time."""
        names = [f"{name}-{number}" for number in range(2)]

        def boot(number: int) -> Guest:
            machine = Machine(
                devices=(),
                iommu=True,
                nic_model=nic_model,
                number=number,
                host_files=True,
                memory_mb=1024,
                huge_mb=320,
            )
            return Guest.up(machine, names[number])

        with ExitStack() as undo:
            for each in names:
                undo.callback(down, each)
            with ThreadPoolExecutor() as pool:
                pair = cls(list(pool.map(boot, range(2))))
            for nic in range(2):
                pair.nodes[0].join(nic, pair.nodes[1], nic)
            for guest in pair.nodes:
                guest.run(
                    READY.format(
                        driver=nic_model.removesuffix("-pci").replace("-", "_"),
                        nic=guest.machine.nic(0),
                        other=guest.machine.nic(1),
                        user=USER,
                        address=pair.address(guest),
                        name=guest.name,
                    )
                )
            undo.pop_all()
        return pair

    def __enter__(self) -> "Pair":
        return self

    def __exit__(self, *_: object) -> None:
        for guest in self.nodes:
            down(guest.name)

    @property
    def port(self) -> str:
        return f"pci:{self.nodes[0].machine.nic(0)}"

    def address(self, guest: Guest) -> str:
        return f"{NETWORK}.{guest.machine.number + 1}"

    def exec(self, command: str, timeout: float = 60) -> tuple[int, str]:
        """Runs shell text on the first node as USER, in the checkout: its status and its output."""
        text = f"cd {shlex.quote(str(ROOT))} && {command}"
        return self.nodes[0].exec(f"host --user {USER} sh -c {shlex.quote(text)}", timeout)

    def mpirun(self, program: list[str], *, timeout: float = 120, **parameters: str) -> str:
        """The output of @program on both nodes, a rank each; @parameters: of Open MPI."""
        values = fabric_settings() | SETTINGS
        values |= {f"OMPI_MCA_{name}": value for name, value in parameters.items()}
        hosts = ",".join(self.address(guest) for guest in self.nodes)
        argv = ["env", *(f"{name}={value}" for name, value in values.items())]
        # /tmp is the host's
        argv += ["mpirun", "-x", f"HIKYAKU_RUNDIR=/run/user/{USER}/hikyaku", "--host", hosts]
        argv += ["-np", "2", *program]
        status, said = self.exec(f"timeout {timeout:.0f} {shlex.join(argv)}", timeout + 10)
        if status:
            raise HikyakuError(f"mpirun ended with {status} in the guests: {said.strip()[-3000:]}")
        return said

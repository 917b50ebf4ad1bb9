# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku lab guest`: a virtual machine with NICs and device memory."""

import sys
from pathlib import Path

import click

from ..bench.common import check_output
from ..options import lab_option, nic_model_option

guest_option = lab_option("The guest; several may be up at the same time.")


@click.group("guest")
def lab_guest() -> None:
    """A virtual machine with devices for peer-to-peer DMA.

    QEMU emulates the PCI devices in software; real drivers use them. It shows that addresses and
    data are correct; its speed means nothing.

    \b
    Example:
      hikyaku lab guest up --iommu --device ivshmem --device nvme
      hikyaku lab guest exec 'bind vfio-pci 0000:00:03.0 0000:00:04.0'
      hikyaku lab guest exec 'hk_devmem forward --pop pop:ivshmem:0000:00:08.0 --timeout 5
                            --nics 0000:00:03.0,0000:00:04.0'
      hikyaku lab guest down
    """


@lab_guest.command("up")
@click.option("--iommu", is_flag=True, help="Add an IOMMU, for VFIO.")
@click.option(
    "--device",
    "devices",
    multiple=True,
    type=click.Choice(["ivshmem", "nvme"]),
    help="A device with memory; repeatable. ivshmem: its memory is a file of this machine. "
    "nvme: an SSD with a controller memory buffer.  [default: ivshmem]",
)
@click.option("--nics", type=click.Choice(["2", "4"]), default="2", help="Number of NICs.")
@nic_model_option
@click.option("--memory", default=16, metavar="MB", help="Memory of each device.")
@guest_option
def up(
    iommu: bool, devices: tuple[str, ...], nics: str, nic_model: str, memory: int, name: str
) -> None:
    """Boot a guest that contains Hikyaku's programs.

    Its kernel is the distribution's; apt downloads it once, into the build directory. The first NIC
    is 0000:00:03.0, the first device with memory 0000:00:08.0. The other end of each NIC is a pair
    of datagram sockets; this command prints their paths. In the guest, `bind DRIVER ADDRESS…` binds
    devices to uio_pci_generic or vfio-pci.

    \b
    Examples:
      hikyaku lab guest up
      hikyaku lab guest up --iommu --device nvme --nics 4
    """
    from ...guest import Guest, Machine

    machine = Machine(
        processors=2,
        nics=int(nics),
        devices=devices or ("ivshmem",),
        iommu=iommu,
        nic_model=nic_model,
        device_mb=memory,
    )
    made = Guest.up(machine, name)
    click.echo(f"guest '{name}' is up" + (", with an IOMMU" if iommu else ""))
    for i in range(machine.nics):
        click.echo(f"NIC {machine.nic(i)}, MAC {machine.mac(i)}: {made.directory}/nic{i}.in, .out")
    for kind in machine.devices:
        click.echo(f"{kind} {machine.device(kind)}: {memory} MB")
    click.echo(f"console: {made.directory}/serial.log")


@lab_guest.command("exec")
@guest_option
@click.option("--timeout", default=60, metavar="SECONDS", help="Kill the command after this time.")
@click.argument("command")
def exec_(name: str, timeout: int, command: str) -> None:
    """Run the shell text COMMAND in the guest and return its exit status.

    Both output streams are merged. Commands run one after the other.

    \b
    Examples:
      hikyaku lab guest exec 'ls /sys/bus/pci/devices'
      hikyaku lab guest exec 'bind uio_pci_generic 0000:00:03.0'
    """
    from ...guest import Guest

    status, output = Guest.find(name).exec(command, timeout)
    click.echo(output, nl=False)
    sys.exit(status)


@lab_guest.command("down")
@guest_option
@click.option("--log", type=click.Path(), help="Save the guest's console to this file.")
def down_(name: str, log: str | None) -> None:
    """End a guest, or remove the leftovers of one that crashed. Safe to repeat."""
    from ...guest import Guest, Machine, down

    if log:
        check_output(Path(log))
        Path(log).write_text(Guest(name, Machine()).serial_log())
    gone = down(name)
    for line in gone:
        click.echo(f"removed {line}")
    if not gone:
        click.echo(f"guest '{name}' is not up; nothing to remove")

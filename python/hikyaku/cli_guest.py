# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku lab p2p …`: parses, calls the guest, prints."""

import sys

import click

nic_model_option = click.option(
    "--nic-model",
    type=click.Choice(["e1000e", "vmxnet3"]),
    default="e1000e",
    show_default=True,
    help="Which NIC is emulated.",
)

guest_option = click.option(
    "--lab",
    "name",
    default="default",
    show_default=True,
    envvar="HIKYAKU_LAB",
    metavar="NAME",
    help="Which guest; several may be up beside each other.",
)


@click.group("p2p")
def lab_p2p() -> None:
    """A guest with NICs and devices that have memory, for peer-to-peer DMA.

    A virtual machine in QEMU, of software alone: real drivers drive emulated PCI devices. What it
    shows is addressing and integrity; its speed says nothing.

    \b
    Example:
      hikyaku lab p2p up --iommu --device ivshmem --device nvme
      hikyaku lab p2p exec 'bind vfio-pci 0000:00:03.0 0000:00:04.0'
      hikyaku lab p2p exec 'hk_p2p forward --pop pop:ivshmem:0000:00:08.0 --timeout 5
                            --nics 0000:00:03.0,0000:00:04.0'
      hikyaku lab p2p down
    """


@lab_p2p.command("up")
@click.option("--iommu", is_flag=True, help="With an IOMMU, for VFIO.")
@click.option(
    "--device",
    "devices",
    multiple=True,
    type=click.Choice(["ivshmem", "nvme"]),
    help="A device with memory, may be repeated: ivshmem, whose memory is a file of this machine; "
    "nvme, an SSD with a controller memory buffer.  [default: ivshmem]",
)
@click.option(
    "--nics", type=click.Choice(["2", "4"]), default="2", show_default=True, help="How many NICs."
)
@nic_model_option
@click.option("--memory", default=16, show_default=True, metavar="MB", help="Of each device.")
@guest_option
def up(
    iommu: bool, devices: tuple[str, ...], nics: str, nic_model: str, memory: int, name: str
) -> None:
    """Boot a guest with our programs.

    Its kernel is the distribution's, downloaded once by apt and kept in the build directory. NICs
    are 0000:00:03.0 and on, devices with memory 0000:00:08.0 and on. The other end of NIC i is a
    pair of datagram sockets; this command prints where they are. `bind DRIVER ADDRESS…` in the
    guest gives devices to uio_pci_generic or vfio-pci.

    \b
    Examples:
      hikyaku lab p2p up
      hikyaku lab p2p up --iommu --device nvme --nics 4
    """
    from .guest import Guest, Machine

    machine = Machine(
        nics=int(nics),
        devices=devices or ("ivshmem",),
        iommu=iommu,
        nic_model=nic_model,
        device_mb=memory,
    )
    guest = Guest.up(machine, name)
    click.echo(f"guest '{name}' is up" + (", with an IOMMU" if iommu else ""))
    for i in range(machine.nics):
        click.echo(f"NIC {machine.nic(i)}, MAC {machine.mac(i)}: {guest.directory}/nic{i}.in, .out")
    for kind in machine.devices:
        click.echo(f"{kind} {machine.device(kind)}: {memory} MB")
    click.echo(f"console: {guest.directory}/serial.log")


@lab_p2p.command("exec")
@guest_option
@click.option("--timeout", default=60, show_default=True, metavar="SECONDS", help="Then killed.")
@click.argument("command")
def exec_(name: str, timeout: int, command: str) -> None:
    """Run shell text COMMAND in the guest; its status is this command's.

    Both of its output streams come as one. Commands run one after the other.

    \b
    Examples:
      hikyaku lab p2p exec 'ls /sys/bus/pci/devices'
      hikyaku lab p2p exec 'bind uio_pci_generic 0000:00:03.0'
    """
    from .guest import Guest

    status, said = Guest.find(name).exec(command, timeout)
    click.echo(said, nl=False)
    sys.exit(status)


@lab_p2p.command("down")
@guest_option
@click.option("--log", type=click.Path(), help="Keep the guest's console there.")
def down_(name: str, log: str | None) -> None:
    """End a guest, or remove what a crash left of it. Safe to repeat."""
    from pathlib import Path

    from .guest import Guest, Machine, down

    if log:
        Path(log).write_text(Guest(name, Machine()).serial_log())
    gone = down(name)
    for line in gone:
        click.echo(f"removed {line}")
    if not gone:
        click.echo(f"guest '{name}' is not up; nothing to remove")

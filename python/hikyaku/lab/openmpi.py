# SPDX-License-Identifier: BSD-3-Clause
"""What we must know about Open MPI 4.1: its options, its directories, its settings.

Settings are passed to mpirun as environment variables (OMPI_MCA_name), never as options, since
Open MPI lets an option win over the environment: so whatever the user writes on the command line
has the last word.
"""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..checkout import built
from ..errors import HikyakuError
from ..process import run

# Options of mpirun that take values; every other option takes none.
_VALUES = {
    name: count
    for count, names in {
        1: "H host hostfile machinefile default-hostfile c n np N x am tune prefix wd wdir path "
        "app bind-to map-by rank-by ppr npernode npersocket cpu-list cpu-set cpus-per-proc "
        "cpus-per-rank rf rankfile cf cartofile debugger hnp launch-agent max-vm-size max-restarts "
        "ompi-server output-filename personality preload-files report-pid report-uri sstore-load "
        "stdin timeout xml-file xterm wait-for-server server-wait-time",
        2: "mca gmca",
    }.items()
    for name in names.split()
}
_NP = {"np", "n", "c"}


def split_command(args: list[str]) -> tuple[list[str], list[str]]:
    """Splits mpirun's arguments into its options and the program with the program's arguments."""
    i = 0
    while i < len(args) and args[i].startswith("-") and args[i] != "-":
        i += 1 + _VALUES.get(args[i].lstrip("-"), 0)
    if i > len(args):
        raise HikyakuError(f"mpirun's option '{args[-1]}' lacks its value")
    return args[:i], args[i:]


def option(options: list[str], names: set[str]) -> str | None:
    """The value of the last of @names in mpirun's @options."""
    value = None
    i = 0
    while i < len(options):
        name = options[i].lstrip("-")
        if name in names:
            value = options[i + 1]
        i += 1 + _VALUES.get(name, 0)
    return value


def rank_count(options: list[str]) -> int | None:
    text = option(options, _NP)
    if text is None:
        return None
    if not text.isdigit() or int(text) == 0:
        raise HikyakuError(f"'-np {text}': the number of ranks must be a positive number")
    return int(text)


@dataclass
class LabOptions:
    """The options of `lab mpirun` that are the lab's own."""

    tcp: bool = False
    lab: str | None = None
    host: str | None = None
    pool: str | None = None
    tag: bool = False
    attach: str | None = None
    help: bool = False


# Who polls (btl_hikyaku_host).
HOST_MODES = ("inline", "hybrid", "split", "daemon", "auto")
SWITCH_MODES = ("split", "daemon")  # hikyakud polls, and hands frames on


def take_lab_options(arguments: list[str]) -> tuple[LabOptions, list[str]]:
    """Takes the lab's own options out of mpirun's arguments. After the program's name everything
    is the program's, even if it looks like ours. mpirun has an option --host too, with a list of
    hosts; nodes of a lab are called node0, node1, …, so a mode is told from a host by its value."""
    flags = LabOptions()
    rest = []
    i = 0
    while i < len(arguments) and arguments[i].startswith("-"):
        word = arguments[i]
        count = 1 + _VALUES.get(word.lstrip("-"), 0)
        if word == "--tcp":
            flags.tcp = True
        elif word == "--tag":
            flags.tag = True
        elif word in ("--help", "-h"):
            flags.help = True
        elif word == "--host" and arguments[i + 1 : i + 2] and arguments[i + 1] in HOST_MODES:
            flags.host = arguments[i + 1]
        elif word == "--attach" and arguments[i + 1 : i + 2]:
            flags.attach = arguments[i + 1]
            count = 2
        elif word == "--pool" and arguments[i + 1 : i + 2]:
            flags.pool = arguments[i + 1]
            count = 2
        elif word == "--lab" or word.startswith("--lab="):
            value = word.partition("=")[2] or "".join(arguments[i + 1 : i + 2])
            if not value:
                raise HikyakuError("option '--lab' lacks its value")
            flags.lab = value
            count = 1 if "=" in word else 2
        else:
            rest += arguments[i : i + count]
        i += count
    return flags, rest + arguments[i:]


def pool_settings(flags: LabOptions) -> dict[str, str]:
    if flags.pool is None:
        return {}
    if flags.tcp:
        raise HikyakuError(
            f"--pool {flags.pool} says where the fabric receives, and --tcp that it is not used",
            "leave one of them away",
        )
    return {"OMPI_MCA_btl_hikyaku_pool": flags.pool}


@cache
def default_component_path() -> str:
    """Where the distribution's components are. mca_base_component_path replaces this directory,
    it does not add to it: without it every other component would vanish."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("OMPI_MCA_")}
    argv = ["env", "-i", *(f"{k}={v}" for k, v in clean.items())]
    argv += ["ompi_info", "--parsable", "--level", "9", "--param", "mca", "base"]
    for line in run(argv).splitlines():
        head, _, value = line.partition(":mca_base_component_path:value:")
        if head != line and value:
            return value.strip('"')  # quoted, since it holds colons
    raise HikyakuError(
        "ompi_info does not say where Open MPI's components are", "run scripts/install-deps"
    )


def component_path(component: Path | None = None) -> str:
    component = component or built("mpi/mca_btl_hikyaku.so")
    return f"{component.parent}:{default_component_path()}"


def fabric_settings(host: str | None = None) -> dict[str, str]:
    """The settings that make any mpirun use the built BTL, wherever it runs. @host: who polls."""
    polling = {"OMPI_MCA_btl_hikyaku_host": host} if host else {}
    return polling | {
        # always: mpirun's options may ask for it, and $HIKYAKU_DAEMON does not reach other nodes
        "OMPI_MCA_btl_hikyaku_daemon_program": os.environ.get("HIKYAKU_DAEMON")
        or str(built("host/daemon/hikyakud")),
        "OMPI_MCA_mca_base_component_path": component_path(),
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "hikyaku,vader,self",
    }


def interposer_settings() -> dict[str, str]:
    """The settings with which a program preloads the interposer (docs/halo.md). For the program's
    own environment, or mpirun -x: mpirun itself is no MPI program."""
    return {"LD_PRELOAD": str(built("halo/libhikyaku_halo.so"))}


def with_faults(faults: str, seed: int, argv: list[str]) -> list[str]:
    """Wraps the program: the port spec that the lab gave gets faults, with a seed for each rank."""
    variable = "OMPI_MCA_btl_hikyaku_port"
    spec = f"${variable};faults={faults},seed=$(({seed} + OMPI_COMM_WORLD_RANK))"
    return ["sh", "-c", f'export {variable}="{spec}"; exec "$@"', "sh", *argv]


def tag_settings(job: int, registrar: str) -> dict[str, str]:
    """The settings that make ranks of any mpirun tag their own frames."""
    return {
        "OMPI_MCA_btl_hikyaku_tag": str(job),
        "OMPI_MCA_btl_hikyaku_registrar": registrar,
    }


def tcp_settings(interface: str) -> dict[str, str]:
    return {
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "tcp,vader,self",
        "OMPI_MCA_btl_tcp_if_include": interface,
    }

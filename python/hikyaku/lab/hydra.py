# SPDX-License-Identifier: BSD-3-Clause
"""Hydra, the launcher of MPICH and Intel MPI: its options, and its command line in a lab.

It starts its proxies on the nodes as mpirun does, by agent.sh in place of ssh.
"""

from collections.abc import Iterable

from ..errors import HikyakuError
from .options import Grammar
from .topology import Topology

# Options of mpiexec by their number of values; every other option has none.
_ONE_VALUE = """
    n np hosts host f hostfile ppn genvlist envlist wdir configfile launcher launcher-exec iface
    bind-to map-by membind rmk outfile-pattern errfile-pattern prepend-pattern pmi-port order-nodes
    localhost nameserver usize env-none genvnone topolib timeout
"""
_VALUES = dict.fromkeys(_ONE_VALUE.split(), 1) | dict.fromkeys(("env", "genv"), 2)
# Each node has these of its own (enter.sh).
_OF_A_NODE = {"HIKYAKU_RUNDIR", "HIKYAKU_HUGE_DIR", "RUNTIME_DIRECTORY"}
_LISTS = {"genvlist", "genvnone", "genvall", "envlist", "envnone", "envall"}
_HOSTS = {"hosts", "host", "f", "hostfile"}


GRAMMAR = Grammar("mpiexec", _VALUES, {"np", "n"})
split_command, rank_count = GRAMMAR.split_command, GRAMMAR.rank_count


def check(options: list[str]) -> None:
    """Raises an error if @options have what only Open MPI has."""
    given = GRAMMAR.names(options)
    if "mca" in given:
        raise HikyakuError(
            "--mca is an option of Open MPI", "set FI_HIKYAKU_… in the environment: man fi_hikyaku"
        )
    if "x" in given:
        raise HikyakuError("-x is an option of Open MPI", "write -genv NAME VALUE")


def command(
    topology: Topology,
    program: str,
    agent: str,
    arguments: list[str],
    variables: Iterable[str],
) -> list[str]:
    """The command line of @program, Hydra's mpiexec. Consecutive ranks are on different nodes.
    @variables: the names in the environment of mpiexec, which Hydra hands on to all nodes."""
    options, _ = split_command(arguments)
    names = GRAMMAR.names(options)
    # rsh, since Hydra gives options to ssh; the agent takes a host and a command
    argv = [program, "-launcher", "rsh", "-launcher-exec", agent, "-iface", "ctl0"]
    if not _HOSTS & names:
        argv += ["-hosts", ",".join(node.name for node in topology.nodes)]
    if not _LISTS & names:
        argv += ["-genvlist", ",".join(sorted(set(variables) - _OF_A_NODE))]
    return argv + arguments

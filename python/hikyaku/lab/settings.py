# SPDX-License-Identifier: BSD-3-Clause
"""The environment of a run in a lab: Open MPI's settings, ports, wires and cores."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import HikyakuError
from . import openmpi, rtc
from .topology import Topology, link_name, node_directory

TAG = "HIKYAKU_RUN"  # the environment variable that identifies the processes of a run


def slots_per_node(
    topology: Topology, ranks: int | None, *, own_ports: bool, backend: str | None
) -> int:
    """The number of ranks that a node takes. @own_ports: on a veth wire each needs a port.
    @backend: the backend of rtc that the user's environment names."""
    nodes = len(topology.nodes)
    wanted = topology.ranks_of_node(ranks)
    own_ports = own_ports and (backend or "").partition(":")[0] not in rtc.OF_THE_KERNEL
    if own_ports and topology.lacks_ports(ranks):
        shared = f"--mca {openmpi.PORT_PARAMETER} af_xdp:iface=hk0"
        again = topology.again(ranks_per_node=wanted)
        raise HikyakuError(
            f"{ranks} ranks on {nodes} nodes need {wanted} ports a node, and this lab has "
            f"{topology.ranks_per_node}",
            again if backend else f"let them share one: {shared}; or make the lab again: {again}",
        )
    return max(wanted, topology.ranks_per_node)


def wires(topology: Topology, run_dir: Path) -> Path:
    """The directory of the run's memif sockets. It is short: their paths have at most 107 bytes."""
    return node_directory(topology.nodes[0].netns) / "wires" / run_dir.name


def remove_wires(topology: Topology, run_dir: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(wires(topology, run_dir))


@contextmanager
def own_wires(topology: Topology, run_dir: Path) -> Iterator[None]:
    """The wires of a run end with it, on each way out."""
    try:
        yield
    finally:
        remove_wires(topology, run_dir)


def memif_spec(topology: Topology, run_dir: Path) -> str:
    return f"memif:dir={wires(topology, run_dir)}"


MEMIF_RING = 256  # descriptors of a wire, the default of the port (docs/ports.md)


def memif_ports(topology: Topology, run_dir: Path) -> list[str]:
    """A separate directory for the wires of each port of a rank.

    Their rings together are as long as that of a single port, since longer ones miss the cache.
    """
    first = memif_spec(topology, run_dir)
    if topology.ports == 1:
        return [first]
    ring = f",ring={MEMIF_RING // topology.ports}"
    return [first + ring, *(f"{first}/{port}{ring}" for port in range(1, topology.ports))]


def switch_polls(topology: Topology, mode: str | None) -> bool:
    """Does hikyakud's switch poll? It then needs a core, as a rank does."""
    return mode in openmpi.SWITCH_MODES or (mode == "auto" and topology.wire != "memif")


def port_spec(topology: Topology, run_dir: Path, mode: str | None) -> str:
    if topology.wire == "memif":
        return "+".join(memif_ports(topology, run_dir))
    if topology.by_sockets:
        return "udp:addr=tcp0"
    # if hikyakud polls, all ranks of a node share its first port
    if mode in ("daemon", "auto"):
        return "af_xdp:iface=hk0"
    links = (link_name("{local_rank}", port) for port in range(topology.ports))
    return "+".join(f"af_xdp:iface={link}" for link in links)


def _runtime(run_dir: Path, hostfile: Path, rankfile: bool) -> dict[str, str]:
    """Of Open MPI's runtime, under its names in 4.1 (ORTE) and in 5.0 (PRRTE). @rankfile: one of
    the user places the ranks."""
    agent, tmp = str(run_dir.parent.parent / "agent.sh"), str(run_dir / "tmp")
    values = [
        ("plm", "plm", "rsh", "ssh"),
        ("plm_rsh_agent", "plm_ssh_agent", agent, agent),
        ("plm_rsh_no_tree_spawn", "plm_ssh_no_tree_spawn", "1", "1"),
        # One session for all nodes. The kernel shares a core first between sessions, then between
        # the processes of each (autogroup, sched(7)). Linux 6.18 can keep a session off a core for
        # half a minute: nodes that share a core would declare each other dead.
        ("orte_leave_session_attached", "prte_leave_session_attached", "1", "1"),
        ("oob_tcp_if_include", "prte_if_include", "ctl0", "ctl0"),
        ("orte_tmpdir_base", "prte_tmpdir_base", tmp, tmp),
        ("orte_default_hostfile", "prte_default_hostfile", str(hostfile), str(hostfile)),
        # Each node's daemon would bind its first rank to core 0; taskset has pinned the node.
        ("hwloc_base_binding_policy", "hwloc_default_binding_policy", "none", "none"),
    ]
    if not rankfile:  # Open MPI refuses a second policy
        # Consecutive ranks on different nodes, so that they use the wire.
        values.append(("rmaps_base_mapping_policy", "rmaps_default_mapping_policy", "node", "node"))
    old = {f"OMPI_MCA_{name}": value for name, _, value, _ in values}
    return old | {f"PRTE_MCA_{name}": value for _, name, _, value in values}


def settings(
    topology: Topology,
    run_dir: Path,
    *,
    ranks: int | None,
    tcp: bool,
    one_core: bool,
    mode: str | None = None,
    named: bool = False,
    rankfile: bool = False,
    given: Mapping[str, str],
) -> dict[str, str]:
    """The lab's settings in the environment of mpirun, beside @given. Writes the hostfile.

    @named: the user's command line names the port, which ranks may share."""
    slots = slots_per_node(
        topology, ranks, own_ports=not tcp and not named, backend=given.get(rtc.BACKEND)
    )
    hostfile = run_dir / "hostfile"
    hostfile.write_text("".join(f"{n.name} slots={slots}\n" for n in topology.nodes))
    (run_dir / "tmp").mkdir(mode=0o700)
    wires(topology, run_dir).mkdir(mode=0o700, parents=True)
    for port in range(1, topology.ports):
        (wires(topology, run_dir) / str(port)).mkdir(mode=0o700)

    cpus = topology.cpus(one_core=one_core)
    used = [core for cores in cpus.values() for core in cores]
    polling = slots + switch_polls(topology, mode)
    shared = len(used) != len(set(used)) or any(polling > len(c) for c in cpus.values())
    shared |= topology.wiring is not None  # its switches share the cores

    env = {
        **tagged(topology, run_dir),
        "HIKYAKU_LAB_CPUS": " ".join(
            f"{name}={','.join(map(str, cores))}" for name, cores in cpus.items()
        ),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        **_runtime(run_dir, hostfile, rankfile),
        "OMPI_MCA_mpi_yield_when_idle": "1" if shared else "0",
        **rtc.settings(topology, memif_spec(topology, run_dir), tcp=tcp, given=given),
    }
    if tcp:
        env |= openmpi.tcp_settings("tcp0")
    else:
        env |= openmpi.fabric_settings(mode)
        env["OMPI_MCA_btl_hikyaku_port"] = port_spec(topology, run_dir, mode)
    return env


def tagged(topology: Topology, run_dir: Path) -> dict[str, str]:
    return {
        TAG: f"{topology.lab_id}-{run_dir.name}",
        "HIKYAKU_LAB_ID": topology.lab_id,
    }

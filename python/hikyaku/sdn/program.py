# SPDX-License-Identifier: BSD-3-Clause
"""Computes the rules of every switch from the network and its jobs.

Pure: the same network gives the same rules. A new controller so finds its own rules in the
switches, and changes nothing.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from . import algorithms
from .cubes import cover, tags
from .exact import masked_key, tag_of
from .graph import Graph
from .network import Job, Network, choose_paths, tree
from .priorities import FLOOD, HOST, KNOWN, LLDP, NO_LLDP, RANK, SPOOFED, STRAY_TAG, TRUNK, UNKNOWN
from .repair import repaired
from .rules import (
    ADMIT,
    CONTROLLER,
    FORWARD,
    LLDP_ADDRESS,
    LLDP_TYPE,
    MULTICAST,
    Bucket,
    Does,
    Goto,
    Group,
    Key,
    Match,
    Out,
    Program,
    copies,
    is_tree,
    out,
)
from .tag import PREFIX, PREFIX_MASK

# With more hosts than this, their rules send nothing back (repair.py), since that needs an entry
# for each host and port. A switch still skips its own ports that are down.
REPAIRED_HOSTS = 256

FLOOD_KEY = Key(FORWARD, FLOOD, Match(dst=MULTICAST, dst_mask=MULTICAST))


def compute(network: Network, jobs: Iterable[Job] = ()) -> dict[int, Program]:
    choose_paths(network)
    network.trees = Counter()
    network.grown = {}
    graph = network.graph
    programs: dict[int, Program] = {switch: {} for switch in graph.ports}
    jobs = list(jobs)
    numbers = {job.number for job in jobs}
    network.kept = {key: kept for key, kept in network.kept.items() if key[1] in numbers}
    flood = tree(network, _floods(graph), FLOOD_KEY)
    keys = {mac: Key(FORWARD, HOST, Match(dst=mac)) for mac in graph.hosts}
    for switch, program in programs.items():
        _admit(network, switch, program, jobs)
        _forward(network, switch, program, keys)
        ports = [p for p in sorted(graph.ports[switch]) if (switch, p) in flood]
        _flood(program, ports + graph.host_ports(switch))
    for job in jobs:
        for algorithm in algorithms.ALL:
            for switch, key, does in algorithm.rules(network, job):
                programs[switch][key] = does
    network.standing = network.grown
    return programs


def trunk(port: int) -> Key:
    """The key of the rule that admits all frames of another switch."""
    return Key(ADMIT, TRUNK, Match(in_port=port))


def _floods(graph: Graph) -> set[int]:
    """The switches that broadcasts reach: all, except disconnected ones without hosts. A
    disconnected switch copies along its old tree."""
    return {s for s in graph.ports if s not in graph.disconnected or graph.host_ports(s)}


def _admit(network: Network, switch: int, program: Program, jobs: list[Job]) -> None:
    """The rules that admit frames. LLDP goes to the controller. All frames of other switches are
    admitted, tags only from the ranks of their port, other frames from known hosts. The first
    frames of unknown hosts also go to the controller.
    """
    graph = network.graph
    lldp = Match(dst=LLDP_ADDRESS, eth_type=LLDP_TYPE)
    program[Key(ADMIT, LLDP, lldp)] = Does((Out(CONTROLLER),))
    host_ports = graph.host_ports(switch)
    for port in sorted(graph.ports[switch] - set(host_ports)):
        program[trunk(port)] = Does((Goto(FORWARD),))
    prefix = Match(dst=PREFIX, dst_mask=PREFIX_MASK)
    program[Key(ADMIT, SPOOFED, prefix)] = Does(())
    for mac, port in sorted(graph.hosts_at(switch).items()):
        program[Key(ADMIT, KNOWN, Match(in_port=port, src=mac))] = Does((Goto(FORWARD),))
    for port in host_ports:
        told = () if (switch, port) in network.quiet else (Out(CONTROLLER),)
        program[Key(ADMIT, UNKNOWN, Match(in_port=port))] = Does((*told, Goto(FORWARD)))
    for where, port in sorted(network.quiet - graph.links.keys()):
        if where == switch:
            program[Key(ADMIT, NO_LLDP, lldp._replace(in_port=port))] = Does(())
    for job in jobs:
        at = network.located(job)
        hosts: dict[tuple[int, int], list[int]] = {}
        for rank, (where, port) in at.items():
            if where == switch:
                hosts.setdefault((port, job.ranks[rank]), []).append(rank)
        for (port, mac), ranks in hosts.items():
            for cube in cover(ranks, job.ranks):
                dst, mask = tags(job.number, source=cube)
                key = Key(ADMIT, RANK, Match(in_port=port, dst=dst, dst_mask=mask, src=mac))
                program[key] = Does((Goto(FORWARD),), job.number)


def _forward(network: Network, switch: int, program: Program, keys: dict[int, Key]) -> None:
    """The rules that forward to hosts. @keys: by host."""
    program[Key(FORWARD, STRAY_TAG, Match(dst=PREFIX, dst_mask=PREFIX_MASK))] = Does(())
    hosts, paths = network.graph.hosts, network.paths
    few = len(hosts) <= REPAIRED_HOSTS
    same: dict[tuple[int, int], Does] = {}  # by the last switch, and the first port to it
    for mac, (target, port) in hosts.items():
        if target == switch:
            program[keys[mac]] = Does(out((port,)))
        elif (first := paths.get((switch, mac))) is None:
            continue
        elif few:
            ports = network.spares(switch, target, first)
            program.update((k, d) for _, k, d in repaired(network, switch, ports, keys[mac]))
        else:
            does = same.get((target, first))
            if does is None:
                does = same[target, first] = Does(out(network.spares(switch, target, first)))
            program[keys[mac]] = does


def _flood(program: Program, ports: list[int]) -> None:
    """Broadcasts, multicasts and frames to unknown hosts follow a tree of all switches."""
    actions = (Group(False, tuple(Bucket(None, (Out(p),)) for p in ports)),) if ports else ()
    program[FLOOD_KEY] = Does(actions)
    program[Key(FORWARD, FLOOD - 1, Match())] = Does(actions)


class Learned(NamedTuple):
    """The knowledge that the rules of a switch give a new controller."""

    hosts: dict[int, int]  # and their ports
    paths: dict[int, int]  # the ports by which it sends to others
    trunks: set[int]  # its links
    trees: dict[Key, set[int]]  # the ports by which it copies along them
    tags: set[tuple[int, int]]  # by exact rules: jobs and tags

    def into(self, network: Network, switch: int) -> None:
        """Adds this to @network; known facts stay."""
        for mac, port in self.hosts.items():
            network.graph.hosts.setdefault(mac, (switch, port))
        for mac, port in self.paths.items():
            network.paths.setdefault((switch, mac), port)
        for key, ports in self.trees.items():
            network.standing.setdefault(key, set()).update((switch, port) for port in ports)


def learned(program: Program) -> Learned:
    found = Learned({}, {}, set(), {}, set())
    for key, does in program.items():
        if key.table == ADMIT and key.priority == TRUNK:
            found.trunks.add(key.match.in_port)
        elif key.table == ADMIT and key.priority == KNOWN:
            found.hosts[key.match.src] = key.match.in_port
        elif key.table == FORWARD and key.priority == HOST and does.actions:
            (action,) = does.actions
            first = action.buckets[0].actions[0] if isinstance(action, Group) else action
            found.paths[key.match.dst] = first.port
        elif key.table == FORWARD and is_tree(does):
            ports = {b.actions[0].port for b in copies(does) if len(b.actions) == 1}
            found.trees.setdefault(masked_key(key), set()).update(ports)
        if (tag := tag_of(key)) is not None:
            found.tags.add((does.job, tag))
    return found

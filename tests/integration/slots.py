# SPDX-License-Identifier: BSD-3-Clause
"""The daemons of a node in a lab, and their slots, asked by this process.

A command of ./hikyaku takes several seconds to start on a core on which the ranks of a job poll.
"""

from hikyaku import process
from hikyaku.lab import Lab, network
from hikyaku.lab.topology import Node
from hikyaku.stats.ask import Place, take


def daemons_of(lab: Lab, node: str, name: str | None = None) -> list[dict]:
    """The answers of daemon @name of @node, or of all that it has, as `hikyaku stats` has them."""
    return take([Place(lab.node_directory(node) / "run", None)], name).daemons


def slots_of(lab: Lab, node: str, name: str) -> list[str]:
    """The states of the slots of daemon @name of @node."""
    (daemon,) = daemons_of(lab, node, name)
    return [slot["state"] for slot in daemon["slots"]]


def end_all_of(node: Node) -> None:
    """Ends all processes on the node. The janitor of a hikyakud has time to free huge pages, also
    on a busy machine."""
    inode = network.namespace_inode(node.netns)
    process.end_all(lambda: process.find(namespaces=[inode]), grace=10)

# SPDX-License-Identifier: BSD-3-Clause
"""Ends labs and removes whatever is left of one, by name."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .. import process
from ..checkout import CHECKOUT_ID, private_dir, state_dir
from ..lock import locked_directory
from ..own import remove_dead
from . import huge, network
from .names import all_names, check_name, lab_directory, lab_id
from .others import KnownLab, other_labs


@contextmanager
def labs_locked(checkout: str = CHECKOUT_ID) -> Iterator[None]:
    """One `up` or `down` in this checkout at a time. The lock is the state directory itself, and
    goes with it when the last lab is down."""
    what = "another 'hikyaku lab up' or 'down' to end"
    state = state_dir(checkout)
    with locked_directory(state, what, private_dir):
        try:
            yield
        finally:
            for empty in (state / "n", state / "labs", state):
                with suppress(OSError):  # not empty: other labs are up
                    empty.rmdir()


def lab_processes(ident: str) -> list[int]:
    inodes = [network.namespace_inode(n) for n in network.namespaces(ident + "-")]
    return process.find(
        tag=f"HIKYAKU_LAB_ID={ident}", namespaces=[i for i in inodes if i is not None]
    )


def remove(name: str, checkout: str = CHECKOUT_ID) -> list[str]:
    gone = []
    ident = lab_id(name, checkout)
    if count := process.end_all(lambda: lab_processes(ident)):
        gone.append(f"{count} processes")
    gone += [f"namespace {n}" for n in network.remove(ident + "-")]
    _remove_node_directories(checkout, ident + "-")
    directory = lab_directory(name, checkout)
    if pages := huge.give_back(directory):
        gone.append(f"{pages} huge pages")
    if directory.exists():
        shutil.rmtree(directory)
        gone.append(f"directory {directory}")
    return gone


def _remove_node_directories(checkout: str, prefix: str) -> None:
    for own in (state_dir(checkout) / "n").glob(prefix.removeprefix(checkout) + "*"):
        huge.unmount(own / "huge")
        shutil.rmtree(own)


def down(name: str = "default") -> list[str]:
    """Removes the lab @name or whatever is left of it, by name; returns what was removed. Safe to
    repeat. Only an installation that is gone has its lab removed by another one."""
    check_name(name)
    network.require_root()
    gone = []
    for lab in (KnownLab(name), *(lab for lab in other_labs(name) if lab.is_orphan)):
        with labs_locked(lab.checkout):
            gone += remove(name, lab.checkout)
    return gone


def down_all() -> list[str]:
    """Removes every lab of this checkout, and namespaces of ours that no lab's directory names."""
    network.require_root()
    gone = []
    for name in all_names():
        gone += down(name)
    return gone + [f"namespace {n}" for n in _remove_strays()]


def down_dead(prefix: str) -> None:
    """Removes labs that were made under own_name(@prefix, …) by processes that were killed."""
    remove_dead(prefix, [(name, lab_directory(name)) for name in all_names()], down)


def _remove_strays() -> list[str]:
    strays = network.namespaces(CHECKOUT_ID)
    inodes = [i for n in strays if (i := network.namespace_inode(n)) is not None]
    process.end_all(lambda: process.find(namespaces=inodes))
    gone = network.remove(CHECKOUT_ID)
    with labs_locked():
        _remove_node_directories(CHECKOUT_ID, CHECKOUT_ID)
    return gone

# SPDX-License-Identifier: BSD-3-Clause
"""Ends labs and removes whatever is left of one, by name."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .. import process
from ..checkout import CHECKOUT_ID, STATE_DIR, private_dir
from ..own import remove_dead
from . import huge, network
from .lock import locked_directory
from .names import all_names, check_name, lab_directory, lab_id


@contextmanager
def labs_locked() -> Iterator[None]:
    """One `up` or `down` in this checkout at a time. The lock is the state directory itself, and
    goes with it when the last lab is down."""
    what = "another 'hikyaku lab up' or 'down' to end"
    with locked_directory(STATE_DIR, what, private_dir):
        try:
            yield
        finally:
            for empty in (STATE_DIR / "n", STATE_DIR / "labs", STATE_DIR):
                with suppress(OSError):  # not empty: other labs are up
                    empty.rmdir()


def lab_processes(name: str) -> list[int]:
    ident = lab_id(name)
    inodes = [network.namespace_inode(n) for n in network.namespaces(ident + "-")]
    return process.find(
        tag=f"HIKYAKU_LAB_ID={ident}", namespaces=[i for i in inodes if i is not None]
    )


def remove(name: str) -> list[str]:
    gone = []
    if count := process.end_all(lambda: lab_processes(name)):
        gone.append(f"{count} processes")
    gone += [f"namespace {n}" for n in network.remove(lab_id(name) + "-")]
    _remove_node_directories(lab_id(name) + "-")
    directory = lab_directory(name)
    if pages := huge.give_back(directory):
        gone.append(f"{pages} huge pages")
    if directory.exists():
        shutil.rmtree(directory)
        gone.append(f"directory {directory}")
    return gone


def _remove_node_directories(prefix: str) -> None:
    for own in (STATE_DIR / "n").glob(prefix.removeprefix(CHECKOUT_ID) + "*"):
        huge.unmount(own / "huge")
        shutil.rmtree(own)


def down(name: str = "default") -> list[str]:
    """Removes the lab @name or whatever is left of it, by name; returns what was removed. Safe to
    repeat."""
    check_name(name)
    network.require_root()
    with labs_locked():
        return remove(name)


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
        _remove_node_directories(CHECKOUT_ID)
    return gone
